//! The statement of a gateway about a request that it passes on: who asked, and about what.
//!
//! It goes over a connection on which both ends know each other's keys, so it needs no signature of its own. It names the
//! credential and no rights: the receiver looks both up in the database that all gateways share, and checks the request as if
//! it had come with the credential. The owner's token is another one in each home, so that is all it says of the owner.

use std::fmt;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::gateway::auth::{self, Caller};
use crate::gateway::error::ApiError;
use crate::gateway::sign_in;
use crate::gateway::state::Gateway;
use crate::id::{AgentId, McpServerName};
use crate::process::login;
use crate::store::LeaseSubject;

/// The header with the statement.
pub(in crate::gateway) const HEADER: &str = "x-flock-statement";

/// The statement of a gateway about a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::gateway) struct Statement {
    pub caller: StatedCaller,
    /// The subject of the request.
    #[serde(flatten)]
    pub about: About,
}

/// The subject of a request, which one gateway has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::gateway) enum About {
    Agent(AgentId),
    /// An MCP server.
    Server(McpServerName),
}

impl About {
    /// Returns the lease that says which gateway has it.
    pub(in crate::gateway) fn subject(&self) -> LeaseSubject {
        match self {
            Self::Agent(agent) => LeaseSubject::agent(agent),
            Self::Server(server) => LeaseSubject::server(server),
        }
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "{agent}"),
            Self::Server(server) => write!(f, "the MCP server {server}"),
        }
    }
}

/// The caller, by the credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub(in crate::gateway) enum StatedCaller {
    /// The owner. `login` is the name of the user of the machine where the owner asked.
    Owner { login: String },
    /// A client or a person, with the token of this name.
    Token {
        name: String,
        /// The client's identity. A token of a person has none.
        client: Option<String>,
    },
    /// A browser, by the id of its sign-in.
    Browser { id: String },
}

/// The name of the user of the machine where the owner asked, for a request that came by another gateway.
#[derive(Clone, Debug)]
pub(crate) struct OwnerLogin(pub String);

impl StatedCaller {
    /// Returns what to say of a caller. `None` for the plugin, whose requests are never passed on.
    pub(super) fn of(caller: &Caller) -> Option<Self> {
        Some(match caller {
            Caller::Owner => Self::Owner { login: login() },
            Caller::Plugin => return None,
            Caller::Client(token) => {
                Self::Token { name: token.name.clone(), client: Some(token.client.clone()) }
            }
            Caller::Browser(browser) => Self::Browser { id: browser.sign_in.clone() },
            Caller::Person(person) => match (&person.sign_in, &person.token) {
                (Some(id), _) => Self::Browser { id: id.clone() },
                (None, Some(name)) => Self::Token { name: name.clone(), client: None },
                (None, None) => return None,
            },
        })
    }

    /// Returns the caller with the rights that the credential has now.
    ///
    /// # Errors
    ///
    /// Returns 401 if the credential is not good (any more), and the store's error if the database can't be read.
    pub(in crate::gateway) async fn resolve(&self, gateway: &Gateway) -> Result<Caller, ApiError> {
        match self {
            Self::Owner { .. } => Ok(Caller::Owner),
            Self::Token { name, client } => {
                let found = gateway.swarm.store().tokens().named(name).await.map_err(ApiError::explained)?;
                let found = found.filter(|found| found.is_good(crate::clock::unix_ms()));
                let is_same = |found: &crate::store::ClientToken| match client {
                    Some(client) => found.person.is_none() && found.client == *client,
                    None => found.person.is_some(),
                };
                let found = found.filter(is_same).ok_or_else(auth::unknown_token)?;
                gateway.caller_of_token(Arc::new(found)).await
            }
            Self::Browser { id } => {
                let found = sign_in::with_id(gateway, id).await.map_err(ApiError::explained)?;
                let found = found.ok_or_else(sign_in::signed_out)?;
                gateway.caller_of_sign_in(found).await?.ok_or_else(sign_in::signed_out)
            }
        }
    }
}

impl Statement {
    /// Returns the value of the header. JSON may have any character, and a header may not.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let text = serde_json::to_vec(self).ok()?;
        HeaderValue::from_str(&URL_SAFE_NO_PAD.encode(text)).ok()
    }

    /// Reads the header. `None` if there is none, or a newer gateway has written what this one does not know.
    pub(in crate::gateway) fn read(headers: &HeaderMap) -> Option<Self> {
        let text = URL_SAFE_NO_PAD.decode(headers.get(HEADER)?.as_bytes()).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read_as_it_was_written() {
        let callers = [
            StatedCaller::Owner { login: "J\u{f6}rg\u{7f}".to_owned() },
            StatedCaller::Token { name: "ci".to_owned(), client: Some("ci:2".to_owned()) },
            StatedCaller::Token { name: "ann-phone".to_owned(), client: None },
            StatedCaller::Browser { id: "0a1b2c3d".to_owned() },
        ];
        let subjects = [About::Agent("coder".parse().unwrap()), About::Server("notes".parse().unwrap())];
        for caller in callers {
            for about in subjects.clone() {
                let statement = Statement { caller: caller.clone(), about };
                let mut headers = HeaderMap::new();
                headers.insert(HEADER, statement.header().unwrap());
                assert_eq!(Statement::read(&headers), Some(statement));
            }
        }
        assert_eq!(Statement::read(&HeaderMap::new()), None);
        for wrong in ["", "x", "e30", "eyJjYWxsZXIiOnsia2luZCI6Im1vb24ifSwiYWdlbnQiOiJhIn0"] {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, wrong.parse().unwrap());
            assert_eq!(Statement::read(&headers), None, "{wrong}");
        }
    }

    #[test]
    fn the_plugin_asks_no_other_gateway() {
        assert_eq!(StatedCaller::of(&Caller::Plugin), None);
        assert!(matches!(StatedCaller::of(&Caller::Owner), Some(StatedCaller::Owner { .. })));
    }
}
