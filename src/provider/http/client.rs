//! The connection pools. A client is created on first use: loading the trusted root certificates takes tens of
//! milliseconds, which a gateway that only asks a local server never has to spend.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};
use tokio::sync::OnceCell;

use super::HttpLimits;

/// The connection pools that all providers of a catalog share.
#[derive(Debug, Default)]
pub struct HttpClients {
    limits: HttpLimits,
    loopback: OnceCell<Client>,
    general: OnceCell<Client>,
}

impl HttpClients {
    /// Returns pools without any connection.
    #[must_use]
    pub fn new(limits: HttpLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the limits that apply to every call.
    #[must_use]
    pub const fn limits(&self) -> HttpLimits {
        self.limits
    }

    /// Returns the client for this address.
    pub(crate) async fn client(&self, url: &Url) -> Result<&Client, String> {
        let connect = self.limits.connect;
        // An https address needs the root certificates even on this machine.
        if url.scheme() == "http" && is_loopback(url) {
            let built = async { loopback(connect).map_err(|error| error.to_string()) };
            return self.loopback.get_or_try_init(|| built).await;
        }
        let built = async {
            // Loading the root certificates blocks, so it must not run on an async worker.
            let built = tokio::task::spawn_blocking(move || general(connect)).await;
            built.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        };
        self.general.get_or_try_init(|| built).await
    }
}

/// Builds a client without root certificates and without a proxy, because its requests never leave the machine.
fn loopback(connect: Duration) -> reqwest::Result<Client> {
    base_builder(connect).no_proxy().tls_certs_only([]).http1_only().build()
}

fn general(connect: Duration) -> reqwest::Result<Client> {
    let client = base_builder(connect)
        .tcp_keepalive(Duration::from_secs(30))
        // Without these pings, a connection that died while the machine slept would be waited for until the timeout.
        .http2_keep_alive_interval(Duration::from_secs(20))
        .http2_keep_alive_timeout(Duration::from_secs(20))
        .tcp_user_timeout(Duration::from_secs(60));
    client.build()
}

fn base_builder(connect: Duration) -> ClientBuilder {
    // An error only means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("flock/", env!("CARGO_PKG_VERSION")))
        // A request carries a key, so it must not be redirected to another address.
        .redirect(Policy::none())
        .connect_timeout(connect)
        .pool_idle_timeout(Duration::from_secs(60))
        // Without this limit, many parallel turns would leave as many idle connections behind, each with its buffers.
        .pool_max_idle_per_host(16)
        .tcp_nodelay(true)
}

fn is_loopback(url: &Url) -> bool {
    url.host_str() == Some("localhost") || address(url).is_some_and(|address| address.is_loopback())
}

/// Returns the address that stands in the place of a host name.
fn address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Returns `true` if a server is on this machine or in a local network.
pub(super) fn is_local_network(url: &Url) -> bool {
    if is_loopback(url) {
        return true;
    }
    let Some(host) = url.host_str() else { return false };
    match address(url) {
        Some(IpAddr::V4(address)) => address.is_private() || address.is_link_local(),
        Some(IpAddr::V6(address)) => address.is_unique_local() || address.is_unicast_link_local(),
        // A name without a dot can only be resolved in the local network.
        None => !host.contains('.') || host.ends_with(".local") || host.ends_with(".internal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for (url, expected) in [
            ("http://127.0.0.1:1/v1", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]:80/", true),
            ("http://localhost:1/", true),
            ("http://localhost.example.org/", false),
            ("http://127.0.0.1.example.org/", false),
            ("http://192.168.0.1/", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn private_and_loopback_addresses_are_local() {
        for (url, expected) in [
            ("http://127.0.0.1:1/v1", true),
            ("http://192.168.1.7:11434/v1", true),
            ("http://[fd00::1]:80/", true),
            ("http://models:8000/v1", true),
            ("http://box.local/", true),
            ("https://api.openai.com/v1", false),
            ("https://8.8.8.8/v1", false),
        ] {
            assert_eq!(is_local_network(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
