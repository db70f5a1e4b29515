//! A connection to another gateway. Each request has one of its own, so what was sent on it is never in doubt, and dropping the
//! answer ends the request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::key::PeerKey;
use crate::provider::BoxFuture;
use crate::store::LivingGateway;
use crate::swarm::lease::Ownership;

/// Longest time until another gateway has taken a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The silence in seconds after which the system asks the other machine if the connection is still there.
const KEEPALIVE_IDLE_S: u32 = 10;
/// The time in seconds until it asks again.
const KEEPALIVE_INTERVAL_S: u32 = 5;
/// The time in milliseconds after which a connection is lost whose other machine confirms nothing: neither what was sent nor
/// these questions.
const PATH_TIMEOUT_MS: u32 = 25_000;

/// The reason why another gateway did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// It is of a version that takes no requests from others, or has just started.
    #[error("the gateway {0} takes no requests from others")]
    NoAddress(String),
    #[error("the gateway at {address} can't be reached")]
    Unreachable {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the keys of this gateway and the one at {address} do not fit")]
    Key {
        address: String,
        #[source]
        source: rustls::Error,
    },
    #[error("the gateway at {address} did not take the request")]
    Unsent {
        address: String,
        #[source]
        source: hyper::Error,
    },
    /// It may have begun with the request.
    #[error("the gateway at {address} was lost before it answered")]
    Lost { address: String },
}

/// Sends a request to another gateway, and returns its answer. The answer breaks off when that gateway is ended in the database,
/// even if its machine only hangs.
///
/// # Errors
///
/// Returns [`PeerError::Lost`] if it may have begun with the request. After any other error it has not.
pub(super) async fn send(
    key: &PeerKey,
    to: &LivingGateway,
    ownership: &Arc<Ownership>,
    request: Request<Full<Bytes>>,
) -> Result<Response<Body>, PeerError> {
    let peer = to.peer.as_ref().ok_or_else(|| PeerError::NoAddress(to.name.clone()))?;
    let address = || peer.address.clone();
    let unreachable = |source| PeerError::Unreachable { address: address(), source };
    let config = key.client(&peer.key).map_err(|source| PeerError::Key { address: address(), source })?;
    // The name is not looked at: the key says who it is.
    let name = ServerName::try_from("flock").map_err(|error| unreachable(std::io::Error::other(error)))?;
    let connect = async {
        let stream = open(&peer.address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connect).await.map_err(late);
    let stream = connected.and_then(|stream| stream).map_err(unreachable)?;
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) =
        shaken.map_err(|source| PeerError::Unsent { address: address(), source })?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        // An error ends the answer, whose reader learns of it.
        drop(connection.await);
    }));
    let (living, epoch) = (Arc::clone(ownership), to.epoch);
    let mut gone: BoxFuture<'static, ()> = Box::pin(async move { living.until_gone(epoch).await });
    let answered = tokio::select! {
        answered = sender.try_send_request(request) => answered,
        () = &mut gone => return Err(PeerError::Lost { address: address() }),
    };
    let answer = answered.map_err(|mut error| match error.take_message() {
        Some(_) => PeerError::Unsent { address: address(), source: error.into_error() },
        None => PeerError::Lost { address: address() },
    })?;
    Ok(answer.map(|body| Body::new(PassedBody { body, gone, _connection: connection })))
}

/// Opens a connection that ends soon after its path is dead, as when a firewall has forgotten it. The system of the other
/// machine confirms by itself that it is there, so a gateway may be silent for as long as its turn takes.
async fn open(address: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    setsockopt(&stream, sockopt::KeepAlive, &true)?;
    setsockopt(&stream, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_S)?;
    setsockopt(&stream, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL_S)?;
    setsockopt(&stream, sockopt::TcpUserTimeout, &PATH_TIMEOUT_MS)?;
    Ok(stream)
}

/// The body of an answer of another gateway.
struct PassedBody {
    body: Incoming,
    gone: BoxFuture<'static, ()>,
    _connection: AbortOnDropHandle<()>,
}

impl HttpBody for PassedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new)));
        }
        self.gone.as_mut().poll(context).map(|()| {
            Some(Err(axum::Error::new(std::io::Error::other("the gateway that answers was ended"))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_whose_path_is_dead_ends_within_half_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = open(&listener.local_addr().unwrap().to_string()).await.unwrap();
        assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
        let idle = getsockopt(&stream, sockopt::TcpKeepIdle).unwrap();
        let interval = getsockopt(&stream, sockopt::TcpKeepInterval).unwrap();
        let limit = getsockopt(&stream, sockopt::TcpUserTimeout).unwrap();
        // One unanswered question is not the end of it, and the limit is looked at when the next one is due.
        assert!(limit > 0 && limit >= (idle + interval) * 1000, "{idle} {interval} {limit}");
        assert!(limit + interval * 1000 <= 30_000, "{idle} {interval} {limit}");
    }
}
