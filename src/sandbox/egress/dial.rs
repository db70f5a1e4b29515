//! Finding out where a name leads, and connecting there: two steps, because between them the address is
//! judged. What is connected to is the judged address, never the name again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::address::{interfaces, is_local};
use crate::provider::BoxFuture;

/// How connections get out.
pub trait Dial: Send + Sync {
    /// The addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

    /// A connection to an address.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// This machine's own resolver and network.
#[derive(Debug)]
pub struct Internet {
    /// Each lookup keeps a thread busy for as long as the name's servers like, also when nobody waits any more.
    lookups: Arc<Semaphore>,
}

impl Default for Internet {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Dial for Internet {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            let lookups = Arc::clone(&self.lookups);
            // With a dot at its end, a name is not looked for below the host's own domains.
            let absolute = format!("{name}.");
            let look = async move {
                let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
                let lookup = tokio::spawn(async move {
                    let found = tokio::net::lookup_host((absolute.as_str(), port)).await;
                    drop(permit);
                    found.map(Iterator::collect::<Vec<_>>)
                });
                lookup.await.map_err(io::Error::other)?
            };
            timeout(LOOKUP, look).await.map_err(|_| late("its name's servers do not answer"))?
        })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            // Looked up each time: a machine's addresses change.
            if is_local(address.ip(), &interfaces()?) {
                let text = "it is this machine, or on one of its networks";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
            let connected = timeout(CONNECT, TcpStream::connect(address)).await;
            let stream = connected.map_err(|_| late("it does not answer"))??;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}

fn late(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

const MAX_LOOKUPS: usize = 32;
const LOOKUP: Duration = Duration::from_secs(10);
/// A name may have several addresses, of which the first is dead.
const CONNECT: Duration = Duration::from_secs(8);
