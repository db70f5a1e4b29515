//! The public internet for requests of flock itself whose address somebody else has chosen. Such an address must not lead
//! to this machine or its networks, whose services may trust every request from here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{interfaces, is_local, is_public};
use super::dial::{Dialer as _, SystemDialer};

/// Checks that an address begins with https and does not name a place outside the public internet.
///
/// A name is not resolved here. [`PublicResolver`] checks the addresses behind it for each connection, since they can
/// change.
///
/// # Errors
///
/// Returns the reason why nothing may be sent there.
pub(crate) fn check(url: &Url) -> Result<(), &'static str> {
    let host = url.host_str().ok_or("it names no server")?;
    if url.scheme() != "https" {
        return Err("it does not begin with https://");
    }
    // The URL's own parser has resolved unusual spellings, such as `0x7f.1`.
    let is_allowed = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => is_public(address),
        // A name without a dot can only be resolved in the local network.
        Err(_) => host.trim_end_matches('.').contains('.'),
    };
    if is_allowed { Ok(()) } else { Err("it is not on the public internet") }
}

/// A resolver that leads to the public internet only. The connection goes to an address that was checked.
#[derive(Debug, Default)]
pub(crate) struct PublicResolver {
    system: Arc<SystemDialer>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let system = Arc::clone(&self.system);
        Box::pin(async move {
            // Port 0 stands for the port of the URL.
            let found = system.resolve(name.as_str().trim_end_matches('.'), 0).await?;
            let own = interfaces()?;
            let is_allowed = |found: &SocketAddr| is_public(found.ip()) && !is_local(found.ip(), &own);
            let public: Vec<SocketAddr> = found.into_iter().filter(is_allowed).collect();
            if public.is_empty() {
                return Err("its name leads to no address of the public internet".into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_of_this_machine_leads_nowhere() {
        let resolver = PublicResolver::default();
        assert!(resolver.resolve("localhost".parse().unwrap()).await.is_err());
    }
}
