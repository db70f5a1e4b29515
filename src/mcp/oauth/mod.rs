//! The sign-in to a server at a URL by OAuth 2.1. A person signs in with a browser. The tokens are in a secret of the
//! server, where they are renewed.
//!
//! The server says where its sign-in is, and the authorization server says the rest, so both are hostile until the standards'
//! checks have passed: each place is checked as the server's own address is ([`requests`]), each document must be about what
//! was asked for ([`metadata`]), and the answer that the browser brings must belong to the question ([`sign_in`]).
//!
//! The SDK has a client for this, too. flock does not use it: it renews once for each refused request, so the second of two
//! requests would make the token of the first one useless; it forgets the secret of a registered client; it asks for all
//! documents at each start of a connection; and it writes the authorization code to the log.

mod access;
mod answer;
mod challenge;
mod client;
mod discovery;
mod metadata;
mod requests;
mod scopes;
mod sign_in;
mod sign_out;
mod tokens;

use reqwest::Client;

pub(crate) use answer::AuthorizationAnswer;
pub(in crate::mcp) use client::SigningClient;
pub(crate) use metadata::{AuthorizationMetadata, ExpectedIssuer};
pub(crate) use requests::{Requests, shown};
pub(crate) use sign_in::{AuthorizationCode, SignIn, SignInChoice, challenge, random};
pub(crate) use sign_out::{TokenRevocation, sign_out};
pub(crate) use tokens::{ClientAuth, OAuthClient, SignInState};

use self::access::Access;
use self::tokens::TokenFile;
use crate::config::{McpRemote, McpServer};
use crate::home::Home;

/// Returns a client for a connection, with the owner's sign-in if there is one.
pub(in crate::mcp) fn client(
    home: &Home,
    server: &McpServer,
    remote: &McpRemote,
    http: Client,
) -> SigningClient {
    let access = Access::new(home, server, remote, http.clone());
    SigningClient::with(http, access)
}

/// Returns the state of the sign-in to a server, as far as its file has it. `None` if nobody has signed in.
#[must_use]
pub(crate) fn state(home: &Home, server: &McpServer) -> Option<SignInState> {
    TokenFile::new(home, &server.name, server.remote.as_ref()?).state()
}

/// Returns the name of the sign-in that a server has now. A connection that began with another one is not used any more.
#[must_use]
pub(in crate::mcp) fn current(home: &Home, server: &McpServer) -> Option<String> {
    let stored = TokenFile::new(home, &server.name, server.remote.as_ref()?).read();
    stored.ok().flatten().map(|stored| stored.id)
}

#[cfg(test)]
mod authorization_server_tests;
#[cfg(test)]
mod tests;
