//! The way out of a sandbox that has no network. The sandbox's helper carries connections to the gateway, which acts as
//! an HTTP proxy. The agent's rules are read for each connection, so an approval takes effect at once.
//!
//! The gateway resolves a name once, checks the addresses and connects to a checked one. An allowed name can therefore
//! lead only to the public internet.
//!
//! If an agent program runs the agent's turns, the same entrance leads to flock itself: a request for a path, not for a
//! whole address, goes to [`SandboxApi`].

pub(crate) mod address;
mod dial;
mod policy;
mod proxy;
pub(crate) mod public;
mod request;
mod rule;
mod sandbox_api;
mod traffic;

use std::sync::Arc;

pub use dial::{Dialer, SystemDialer};
pub(crate) use policy::ConfiguredEgress;
pub use policy::{ConnectionOutcome, ConnectionRecord, EgressPolicy};
pub use proxy::Proxy;
pub(crate) use request::strip_hop_headers;
pub use rule::{EgressRule, Host, RuleError};
pub use sandbox_api::SandboxApi;

use super::helper::PortForward;

/// Port on the sandbox's loopback where programs find the proxy and flock.
pub(crate) const PROXY_PORT: u16 = 3128;

/// Returns the environment variables that announce the proxy to programs in a sandbox.
#[must_use]
pub fn environment() -> Vec<(String, String)> {
    let proxy = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    // The sandbox's own services are reached directly.
    let none = ["NO_PROXY", "no_proxy"];
    let address = format!("http://127.0.0.1:{PROXY_PORT}");
    let pairs = proxy.map(|name| (name, address.as_str())).into_iter();
    let pairs = pairs.chain(none.map(|name| (name, "localhost,127.0.0.1")));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Wraps the proxy as the helper's entrance. Each stream is served until it ends or its connection is gone.
#[must_use]
pub fn entrance(proxy: Arc<Proxy>) -> PortForward {
    PortForward {
        port: PROXY_PORT,
        accept: Arc::new(move |stream| {
            let (proxy, gone) = (Arc::clone(&proxy), stream.gone());
            tokio::spawn(async move {
                tokio::select! {
                    () = proxy.serve(stream) => {}
                    () = gone.cancelled() => {}
                }
            });
        }),
    }
}
