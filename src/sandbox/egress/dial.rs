//! Resolves names and connects to addresses. These are two separate steps, because the address is checked in between.
//! The connection goes to the checked address and never to the name again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::address::{interfaces, is_local};
use crate::provider::BoxFuture;

/// A way to the internet.
pub trait Dialer: Send + Sync {
    /// Returns the addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

    /// Connects to an address.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// The internet as this machine's resolver and network reach it.
#[derive(Debug)]
pub struct SystemDialer {
    /// Limit on simultaneous lookups. Each occupies a thread for as long as the name's DNS servers take, even if nobody
    /// waits for it any more.
    lookups: Arc<Semaphore>,
}

impl Default for SystemDialer {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Dialer for SystemDialer {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            let lookups = Arc::clone(&self.lookups);
            // With a trailing dot the resolver does not append the host's own search domains.
            let absolute = format!("{name}.");
            let look = async move {
                let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
                // A separate task keeps the permit until the lookup is really over, although the caller may time out
                // first.
                let lookup = tokio::spawn(async move {
                    let found = tokio::net::lookup_host((absolute.as_str(), port)).await;
                    drop(permit);
                    found.map(Iterator::collect::<Vec<_>>)
                });
                lookup.await.map_err(io::Error::other)?
            };
            timeout(LOOKUP_TIMEOUT, look).await.map_err(|_| timed_out("the name servers do not answer"))?
        })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            // Read anew for each connection, because a machine's addresses change.
            if is_local(address.ip(), &interfaces()?) {
                let text = "it is this machine, or on one of its networks";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
            let connected = timeout(CONNECT, TcpStream::connect(address)).await;
            let stream = connected.map_err(|_| timed_out("it does not answer"))??;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}

fn timed_out(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

const MAX_LOOKUPS: usize = 32;
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of one connection attempt. A name may have several addresses of which the first is dead.
const CONNECT: Duration = Duration::from_secs(8);
