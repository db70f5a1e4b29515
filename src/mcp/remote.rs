//! The connection to a server at a URL: streamable HTTP by the official SDK, over an HTTP client of flock's own. The
//! request goes to this URL and nowhere else: no redirect is followed, and an address outside the public internet is
//! refused unless the owner allowed it for this server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};

use super::error::McpError;
use super::lines::{Flow, MAX_LINE, Rate};
use super::oauth::{self, SigningClient};
use crate::config::{McpRemote, McpServer, secret};
use crate::error::chain;
use crate::home::Home;
use crate::id::McpServerName;
use crate::sandbox::egress::address::{interfaces, is_local};
use crate::sandbox::egress::public::{self, PublicResolver};

/// The longest wait for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The longest pause before a broken stream is opened again, and the number of attempts.
const RECONNECT_PAUSE: Duration = Duration::from_secs(60);
const RECONNECTS: usize = 20;
/// The most bytes that are read of an error response that is no message.
const MAX_ERROR: usize = 4 << 10;
/// The number of messages of the server that wait to be read.
const QUEUE: usize = 4;

/// Checks the address of a server.
///
/// # Errors
///
/// Returns the reason why flock does not connect to it.
pub(crate) fn check_address(remote: &McpRemote) -> Result<Url, String> {
    let url: Url = remote.url.parse().map_err(|_| "it is no address".to_owned())?;
    if !remote.allow_local {
        public::check(&url).map_err(|why| format!("{why}, and local addresses are not allowed for it"))?;
    }
    Ok(url)
}

/// Checks another address that belongs to a server, by the same rules.
///
/// # Errors
///
/// Returns the reason why flock does not connect to it.
pub(super) fn check_url(url: &Url, allow_local: bool) -> Result<(), String> {
    if !allow_local {
        public::check(url)
            .map_err(|why| format!("{why}, and local addresses are not allowed for this server"))?;
    }
    check_literal(url, allow_local)
}

/// The client's side of the messages.
pub(super) struct HttpTransport {
    flow: Arc<Flow>,
    inner: StreamableHttpClientTransport<SigningClient>,
    rate: Rate,
}

impl HttpTransport {
    /// Prepares a connection. Nothing is sent before its first message.
    pub async fn new(
        home: &Home,
        server: &McpServer,
        remote: &McpRemote,
        flow: Arc<Flow>,
    ) -> Result<Self, McpError> {
        let http = client_for(&server.name, remote).await?;
        let client = oauth::client(home, server, remote, http);
        Self::with(home, server, remote, client, flow)
    }

    /// Prepares a connection by this client.
    pub fn with(
        home: &Home,
        server: &McpServer,
        remote: &McpRemote,
        client: SigningClient,
        flow: Arc<Flow>,
    ) -> Result<Self, McpError> {
        let headers = headers(home, server, remote)?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str());
        let mut retry = ExponentialBackoff::default();
        (retry.max_times, retry.max_delay) = (Some(RECONNECTS), Some(RECONNECT_PAUSE));
        config.retry_config = Arc::new(retry);
        config.channel_buffer_capacity = QUEUE;
        config.custom_headers = headers;
        config.max_sse_event_size = MAX_LINE;
        config.max_json_response_size = MAX_LINE;
        config.max_error_response_size = MAX_ERROR;
        let inner = StreamableHttpClientTransport::with_client(client, config);
        Ok(Self { flow, inner, rate: Rate::new() })
    }
}

/// Returns an HTTP client for a server.
pub(super) async fn client_for(server: &McpServerName, remote: &McpRemote) -> Result<Client, McpError> {
    let not_started = |reason| McpError::NotStarted { server: server.clone(), reason };
    let url = check_address(remote).map_err(not_started)?;
    check_literal(&url, remote.allow_local).map_err(not_started)?;
    let allow_local = remote.allow_local;
    // Loading the root certificates blocks.
    let built = tokio::task::spawn_blocking(move || client(allow_local)).await;
    built.map_err(|_| not_started("a defect stopped it".to_owned()))?.map_err(not_started)
}

/// Checks an address that stands in the place of a name, because it is not resolved.
///
/// # Errors
///
/// Returns the reason why flock does not connect to it.
fn check_literal(url: &Url, allow_local: bool) -> Result<(), String> {
    let literal = url.host_str().and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    let Some(address) = literal.filter(|_| !allow_local) else { return Ok(()) };
    let own = interfaces().map_err(|error| chain(&error))?;
    if is_local(address, &own) {
        return Err("its address belongs to this machine or to one of its networks".to_owned());
    }
    Ok(())
}

/// Returns the headers of a server with their secret values.
fn headers(
    home: &Home,
    server: &McpServer,
    remote: &McpRemote,
) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let mut headers = HashMap::new();
    for (name, secret) in &remote.headers {
        let value = secret::get(home, secret)?
            .ok_or_else(|| McpError::NoSecret { server: server.name.clone(), secret: secret.clone() })?;
        let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value.trim()).ok());
        let Some((name, mut value)) = parsed else {
            let reason = format!("the secret {secret:?} has characters that a header can't have");
            return Err(McpError::NotStarted { server: server.name.clone(), reason });
        };
        // So that no error and no trace shows it.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns an HTTP client that follows no redirect and, without `allow_local`, reaches the public internet only. It blocks.
///
/// # Errors
///
/// Returns the reason if the root certificates can't be loaded.
pub(super) fn client(allow_local: bool) -> Result<Client, String> {
    // An error only means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = Client::builder()
        .user_agent(concat!("flock/", env!("CARGO_PKG_VERSION")))
        // The request carries secrets, and another address would not have been checked.
        .redirect(Policy::none())
        // A proxy would resolve the name itself, so its addresses could not be checked.
        .no_proxy()
        .connect_timeout(CONNECT_TIME)
        .tcp_keepalive(Duration::from_secs(30))
        .tcp_nodelay(true);
    if !allow_local {
        client = client.https_only(true).dns_resolver(Arc::new(PublicResolver::default()));
    }
    client.build().map_err(|error| chain(&error.without_url()))
}

impl Transport<RoleClient> for HttpTransport {
    type Error = StreamableHttpError<reqwest::Error>;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let over = self.flow.over.clone();
        let Some(Some(message)) = over.run_until_cancelled(self.inner.receive()).await else {
            self.flow.end("the connection was closed");
            return None;
        };
        self.rate.allows(&self.flow).then_some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.flow.end("it was stopped");
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(url: &str, allow_local: bool) -> Result<Url, String> {
        check_address(&McpRemote { url: url.to_owned(), headers: Default::default(), allow_local })
    }

    #[test]
    fn only_the_public_internet_is_reached_unless_the_owner_allows_more() {
        for url in [
            "http://a.example/mcp",
            "https://localhost/mcp",
            "https://127.0.0.1/mcp",
            "https://2130706433/mcp",
            "https://[::1]/mcp",
            "https://[::ffff:10.0.0.1]/mcp",
            "https://169.254.169.254/latest/meta-data",
            "https://192.168.1.1/mcp",
            "https://router/mcp",
        ] {
            assert!(checked(url, false).is_err(), "{url}");
            assert!(checked(url, true).is_ok(), "{url}");
        }
        assert!(checked("https://mcp.example.com/mcp", false).is_ok());
    }
}
