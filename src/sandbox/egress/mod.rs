//! The way out of a sandbox that has no network: its helper carries connections to the gateway, which is the
//! proxy. What an agent may reach is asked for each connection, so an approval works at once.
//!
//! The gateway looks a name up once, judges the addresses, and connects to a judged one. A name that an agent
//! may reach leads nowhere but to the public internet.
//!
//! The same entrance leads to flock itself where a program runs the agent's turns: a request for a path, and not for a
//! whole address, goes to what is [`Inside`].

pub mod address;
mod dial;
mod inside;
mod policy;
mod proxy;
mod request;
mod rule;
mod traffic;

use std::sync::Arc;

pub use dial::{Dial, Internet};
pub use inside::{Inside, is_inside};
pub use policy::{ConfiguredEgress, Connection, EgressPolicy, Fate};
pub use proxy::Proxy;
pub use rule::{EgressRule, Host, PORTS, RuleError};

use super::helper::Entrance;

/// Where programs in a sandbox find the proxy and flock, on its loopback.
pub const PORT: u16 = 3128;

/// What tells programs in a sandbox about the proxy.
#[must_use]
pub fn environment() -> Vec<(String, String)> {
    let proxy = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    let none = ["NO_PROXY", "no_proxy"];
    let address = format!("http://127.0.0.1:{PORT}");
    let pairs = proxy.map(|name| (name, address.as_str())).into_iter();
    let pairs = pairs.chain(none.map(|name| (name, "localhost,127.0.0.1")));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The proxy as a helper's entrance: each stream that it opens is served until it ends or is gone.
#[must_use]
pub fn entrance(proxy: Arc<Proxy>) -> Entrance {
    Entrance {
        port: PORT,
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
