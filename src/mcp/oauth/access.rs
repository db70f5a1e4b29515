//! The token for the requests to a server: read from its file, renewed before its end and after a refusal. One renewal runs
//! at a time, also between processes, because a refresh token may be good only once.

use std::sync::{Arc, Mutex};

use reqwest::Client;
use serde_json::Value;

use super::challenge::Challenge;
use super::requests::Requests;
use super::scopes;
use super::tokens::{StoredSignIn, TokenFile, Tokens, now};
use crate::config::{McpRemote, McpServer};
use crate::error::chain;
use crate::home::Home;
use crate::id::McpServerName;
use crate::sync::lock;

/// The header that a token is sent in. A server that is configured with it gets no other token.
const AUTHORIZATION: &str = "authorization";

/// The reason why there is no token for a request.
#[derive(Clone, Debug)]
pub(super) enum NoAccess {
    /// A person has to sign in, or to give another token. The text says how.
    Person(String),
    /// The authorization server could not be asked. A later request may succeed.
    Unreached(String),
}

/// The access to a server.
pub(super) struct Access {
    server: McpServerName,
    file: TokenFile,
    requests: Requests,
    /// Set if requests have a header with a token of its own, or shall have none.
    is_without: bool,
    has_header: bool,
    /// The last refusal.
    challenge: Mutex<Option<Challenge>>,
}

impl Access {
    /// Returns the access of the owner's sign-in, if there is one.
    pub fn new(home: &Home, server: &McpServer, remote: &McpRemote, http: Client) -> Arc<Self> {
        let has_header = remote.headers.contains_key(AUTHORIZATION);
        Self::with(home, server, remote, http, has_header)
    }

    /// Returns the access without any token.
    pub fn without_token(home: &Home, server: &McpServer, remote: &McpRemote, http: Client) -> Arc<Self> {
        Self::with(home, server, remote, http, true)
    }

    fn with(
        home: &Home,
        server: &McpServer,
        remote: &McpRemote,
        http: Client,
        is_without: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            server: server.name.clone(),
            file: TokenFile::new(home, &server.name, remote),
            requests: Requests::with(http, remote),
            is_without,
            has_header: remote.headers.contains_key(AUTHORIZATION),
            challenge: Mutex::default(),
        })
    }

    /// Returns the token for a request. `None` if nobody has signed in.
    pub async fn token(self: &Arc<Self>) -> Result<Option<String>, NoAccess> {
        if self.is_without {
            return Ok(None);
        }
        // Read for each request: another process may have renewed it, or signed out.
        let Some(stored) = self.read()? else { return Ok(None) };
        let tokens = stored.tokens.ok_or_else(|| self.over(stored.ended.as_deref()))?;
        if !tokens.is_old(now()) {
            return Ok(Some(tokens.access_token));
        }
        match self.renewed(&tokens.access_token).await {
            // It still lasts for a moment.
            Err(NoAccess::Unreached(_)) if !tokens.is_over(now()) => Ok(Some(tokens.access_token)),
            renewed => renewed.map(Some),
        }
    }

    /// Returns another token than this one, which the server refused or which ends.
    pub async fn renewed(self: &Arc<Self>, old: &str) -> Result<String, NoAccess> {
        let (this, old) = (Arc::clone(self), old.to_owned());
        // A caller that gives up must not lose the answer: its refresh token replaces the one that was sent.
        let renewal = tokio::spawn(async move { this.renew(&old).await });
        renewal.await.unwrap_or_else(|_| Err(NoAccess::Unreached("a defect stopped the renewal".to_owned())))
    }

    async fn renew(&self, old: &str) -> Result<String, NoAccess> {
        let _lock = self.file.lock().await.map_err(|error| NoAccess::Unreached(chain(&error)))?;
        let stored = self.read()?.ok_or_else(|| self.nobody())?;
        let tokens = stored.tokens.as_ref().ok_or_else(|| self.over(stored.ended.as_deref()))?;
        if tokens.access_token != old && !tokens.is_over(now()) {
            // Somebody else has renewed it meanwhile.
            return Ok(tokens.access_token.clone());
        }
        let Some(refresh) = tokens.refresh_token.clone() else {
            return Err(self.end(stored, "its token is no longer good, and it gave none to renew it"));
        };
        let form =
            [("grant_type", "refresh_token"), ("refresh_token", &*refresh), ("resource", &*stored.resource)];
        let answer = self.requests.post_form(&stored.token_endpoint, &form, &stored.client).await;
        let answer = answer.map_err(NoAccess::Unreached)?;
        let sent = [&*refresh, stored.client.secret.as_deref().unwrap_or_default()];
        if !answer.is_success() {
            let reason = answer.reason(&sent);
            // Only these say that the next attempt would fail as well.
            let is_final = matches!(
                answer.error().as_deref(),
                Some("invalid_grant" | "invalid_client" | "unauthorized_client" | "invalid_target")
            );
            return Err(match is_final {
                true => self.end(stored, &format!("it refused to renew the token: {reason}")),
                false => NoAccess::Unreached(format!("the token could not be renewed: {reason}")),
            });
        }
        let read = Tokens::read(&answer.json::<Value>().unwrap_or_default());
        let (mut renewed, given) =
            read.map_err(|why| NoAccess::Unreached(format!("the token could not be renewed: {why}")))?;
        // A server that gives no other refresh token goes on accepting this one.
        renewed.refresh_token.get_or_insert(refresh);
        let token = renewed.access_token.clone();
        let scopes = given.unwrap_or_else(|| stored.scopes.clone());
        let renewed = StoredSignIn { tokens: Some(renewed), scopes, ..stored };
        self.file.write(&renewed).map_err(|error| NoAccess::Unreached(chain(&error)))?;
        Ok(token)
    }

    /// Notes that the sign-in has ended. Its tokens are not kept: they are good for nothing.
    fn end(&self, stored: StoredSignIn, reason: &str) -> NoAccess {
        tracing::warn!(server = %self.server, reason, "the sign-in to an MCP server has ended");
        let ended = StoredSignIn { tokens: None, ended: Some(reason.to_owned()), ..stored };
        match self.file.write(&ended) {
            Ok(()) => self.over(Some(reason)),
            Err(error) => NoAccess::Unreached(chain(&error)),
        }
    }

    fn read(&self) -> Result<Option<StoredSignIn>, NoAccess> {
        self.file.read().map_err(|error| NoAccess::Unreached(chain(&error)))
    }

    fn over(&self, reason: Option<&str>) -> NoAccess {
        let reason = reason.unwrap_or("its tokens are gone");
        NoAccess::Person(format!(
            "the sign-in has ended, {reason}; sign in again with flock mcp login {}",
            self.server
        ))
    }

    fn nobody(&self) -> NoAccess {
        let server = &self.server;
        NoAccess::Person(match self.has_header {
            true => format!(
                "it refuses the header {AUTHORIZATION}; store another value with flock mcp secret {server} {AUTHORIZATION}"
            ),
            false => format!(
                "nobody has signed in; sign in with flock mcp login {server}, or give it a header with a token"
            ),
        })
    }

    /// Notes a refusal of a request that had no token, or a token that was just renewed. Returns the reason for people.
    pub fn refused(&self, header: &str, was_renewed: bool) -> String {
        *lock(&self.challenge) = Some(Challenge::read(header));
        let reason = match was_renewed {
            true => self.over(Some("it refuses the token that it has just given")),
            false => self.nobody(),
        };
        let (NoAccess::Person(text) | NoAccess::Unreached(text)) = reason;
        text
    }

    /// Returns the last refusal.
    pub fn challenge(&self) -> Option<Challenge> {
        lock(&self.challenge).clone()
    }

    /// Notes a refusal of a good token. Returns the reason for people.
    pub async fn forbidden(&self, header: &str) -> String {
        let challenge = Challenge::read(header);
        let server = &self.server;
        if self.has_header {
            let (NoAccess::Person(text) | NoAccess::Unreached(text)) = self.nobody();
            return text;
        }
        if !challenge.needs_scopes() {
            return format!("it does not allow this; sign in as somebody else with flock mcp login {server}");
        }
        if let Err(error) = self.note_missing(&challenge.scopes).await {
            tracing::warn!(server = %server, error, "the scopes that an MCP server wants could not be noted");
        }
        let wanted = match challenge.scopes.is_empty() {
            true => String::new(),
            false => format!(" ({})", challenge.scopes.join(" ")),
        };
        format!("the sign-in does not cover this; give it more scopes{wanted} with flock mcp login {server}")
    }

    /// Writes down the scopes that the next sign-in asks for.
    async fn note_missing(&self, wanted: &[String]) -> Result<(), String> {
        let read = || self.file.read().map_err(|error| chain(&error));
        let is_new = |stored: &StoredSignIn| wanted.iter().any(|scope| !stored.missing.contains(scope));
        // A server that refuses every call costs no write for each.
        if !read()?.as_ref().is_some_and(is_new) {
            return Ok(());
        }
        let _lock = self.file.lock().await.map_err(|error| chain(&error))?;
        let Some(mut stored) = read()? else { return Ok(()) };
        scopes::add(&mut stored.missing, wanted.iter().cloned());
        self.file.write(&stored).map_err(|error| chain(&error))
    }
}
