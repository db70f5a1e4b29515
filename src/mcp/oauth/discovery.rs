//! The search for a server's sign-in: the server's refusal leads to its document, and that to the authorization server's.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url};

use super::access::Access;
use super::challenge::Challenge;
use super::client::SigningClient;
use super::metadata::{
    AuthorizationMetadata, ExpectedIssuer, ResourceMetadata, authorization_places, default_places,
    resource_places,
};
use super::requests::Requests;
use super::scopes;
use crate::config::{McpRemote, McpServer};
use crate::home::Home;
use crate::mcp::asks::Asks;
use crate::mcp::connection::{Connection, Handshake, OpenError};
use crate::mcp::lines::Flow;
use crate::mcp::remote::HttpTransport;

/// The longest time in which a server has to refuse flock.
const PROBE_TIME: Duration = Duration::from_secs(30);
/// The most authorization servers of a server that are looked at.
const MAX_SERVERS: usize = 4;

/// A sign-in that was found.
pub(super) struct Found {
    /// The name of the authorization server. Empty for a server of 2025-03-26 that has no document.
    pub issuer: String,
    pub metadata: AuthorizationMetadata,
    /// The resource that the tokens are for.
    pub resource: String,
    /// The scopes that the server proposes.
    pub scopes: Vec<String>,
}

/// Finds the sign-in of a server.
///
/// # Errors
///
/// Returns the reason if there is none that flock can use.
pub(super) async fn find(
    home: &Home,
    server: &McpServer,
    remote: &McpRemote,
    (http, requests): (Client, &Requests),
) -> Result<Found, String> {
    let challenge = refusal(home, server, remote, http).await?;
    let url = requests.place(&remote.url)?;
    let advertised = challenge.as_ref().and_then(|challenge| challenge.resource_metadata.clone());
    let document = resource_metadata(&url, advertised.as_deref(), requests).await?;
    let mut proposed = challenge.as_ref().map(|challenge| challenge.scopes.clone()).unwrap_or_default();
    let Some(document) = document else {
        let (issuer, metadata) = own_metadata(&url, challenge.is_some(), requests).await?;
        return Ok(Found { issuer, metadata, resource: remote.url.clone(), scopes: proposed });
    };
    let resource = document.resource_for(&url)?;
    if proposed.is_empty() {
        scopes::add(&mut proposed, document.scopes_supported.unwrap_or_default());
    }
    let servers = document.authorization_servers.unwrap_or_default();
    let mut problem = "the description of its sign-in names no authorization server".to_owned();
    for name in servers.iter().take(MAX_SERVERS) {
        match authorization_metadata(name, requests).await {
            Ok((issuer, metadata)) => return Ok(Found { issuer, metadata, resource, scopes: proposed }),
            Err(why) => problem = why,
        }
    }
    Err(problem)
}

/// Returns what the server says when it refuses flock without a token. `None` if it refuses nothing.
///
/// Some servers refuse only what follows the beginning of a connection, so this is a real one, which lists the tools.
async fn refusal(
    home: &Home,
    server: &McpServer,
    remote: &McpRemote,
    http: Client,
) -> Result<Option<Challenge>, String> {
    let access = Access::without_token(home, server, remote, http.clone());
    let client = SigningClient::with(http, Arc::clone(&access));
    let flow = Arc::new(Flow::default());
    // The connection ends with this function.
    let _guard = flow.over.clone().drop_guard();
    let connected = async {
        let transport = HttpTransport::with(home, server, remote, client, Arc::clone(&flow));
        let transport = transport.map_err(|error| error.to_string())?;
        let opened = Connection::open(
            server,
            transport,
            Arc::clone(&flow),
            Asks::of_nobody(server),
            Handshake::Initialize,
        )
        .await;
        let connection = opened.map_err(|error| match error {
            OpenError::OtherHandshake(reason) | OpenError::Failed(reason) => reason,
            OpenError::Prepared(error) => error.to_string(),
        })?;
        connection.tools(PROBE_TIME).await.map(drop).map_err(|error| error.to_string())
    };
    let ended = tokio::time::timeout(PROBE_TIME, connected).await;
    match (access.challenge(), ended) {
        (Some(challenge), _) => Ok(Some(challenge)),
        (None, Ok(Ok(()))) => Ok(None),
        (None, Ok(Err(reason))) => Err(reason),
        (None, Err(_)) => Err(format!("it did not answer within {} s", PROBE_TIME.as_secs())),
    }
}

/// Returns the server's document. `None` if it has none.
async fn resource_metadata(
    server: &Url,
    advertised: Option<&str>,
    requests: &Requests,
) -> Result<Option<ResourceMetadata>, String> {
    if let Some(place) = advertised {
        let answer = requests.get(&requests.place(place)?).await?;
        let read = answer.json::<ResourceMetadata>().filter(|_| answer.is_success());
        // The server says that it is there, so nothing else is tried: another document would be bound to something else.
        let missing = || {
            format!(
                "{:?} has no description of its sign-in (HTTP {})",
                crate::clean::summary(place, 200),
                answer.status
            )
        };
        return read.map(Some).ok_or_else(missing);
    }
    for place in resource_places(server) {
        let answer = requests.get(&place).await?;
        if let Some(read) = answer.json::<ResourceMetadata>().filter(|_| answer.is_success())
            && (read.resource.is_some() || read.authorization_servers.is_some())
        {
            return Ok(Some(read));
        }
    }
    Ok(None)
}

/// Returns the document of an authorization server that the server names.
async fn authorization_metadata(
    name: &str,
    requests: &Requests,
) -> Result<(String, AuthorizationMetadata), String> {
    let url = requests.place(name)?;
    for place in authorization_places(&url) {
        let answer = requests.get(&place).await?;
        if let Some(read) = answer.json::<AuthorizationMetadata>().filter(|_| answer.is_success()) {
            let issuer = read.issuer_as(ExpectedIssuer::Exactly(name))?;
            read.check()?;
            return Ok((issuer, read));
        }
    }
    Err(format!("the authorization server {:?} does not describe itself", crate::clean::summary(name, 200)))
}

/// Returns the document of a server that is its own authorization server, as of 2025-03-26.
async fn own_metadata(
    server: &Url,
    is_refused: bool,
    requests: &Requests,
) -> Result<(String, AuthorizationMetadata), String> {
    let mut root = server.clone();
    root.set_path("");
    for place in authorization_places(&root) {
        let answer = requests.get(&place).await?;
        if let Some(read) = answer.json::<AuthorizationMetadata>().filter(|_| answer.is_success()) {
            let issuer = read.issuer_as(ExpectedIssuer::On(server))?;
            read.check()?;
            return Ok((issuer, read));
        }
    }
    match is_refused {
        true => Ok((String::new(), default_places(server))),
        false => Err("it wants no sign-in, and describes none".to_owned()),
    }
}
