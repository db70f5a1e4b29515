//! The port at which the other gateways of a group send requests.
//!
//! Anybody on the machine can connect, so a connection is worth nothing until it has shown the key of a gateway that lives.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::key::{PeerKey, public_text};
use crate::error::{Explain, Kind, chain};
use crate::gateway::connection_slots::ConnectionSlot;
use crate::gateway::middleware::Middleware;
use crate::gateway::server;
use crate::gateway::state::Gateway;
use crate::store::{PeerAddress, StoreError};

/// Longest time until the other end has shown its key.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of a connection in the log.
const CONNECTION: &str = "a connection of another gateway";

/// The reason why a gateway takes no requests from others.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    #[error("failed to listen for the other gateways at {address}")]
    Bind {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to make the key of this gateway")]
    Key(#[source] rustls::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Explain for PeersError {
    fn kind(&self) -> Kind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Bind { .. } | Self::Key(_) => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Bind { .. } => Some(
                "name an address of this machine: flock config set plugins.entries.flock.config.gateway.peerAddress \
                 ADDRESS:PORT"
                    .to_owned(),
            ),
            Self::Key(_) => None,
        }
    }
}

/// The port for the other gateways.
pub(in crate::gateway) struct PeerListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

/// Opens the port for the other gateways, and tells them where it is. `None` for a gateway without others.
///
/// # Errors
///
/// Returns an error if the port can't be opened or the database can't be written.
pub(in crate::gateway) async fn open(gateway: &Gateway) -> Result<Option<PeerListener>, PeersError> {
    let store = gateway.swarm.store();
    let Some(epoch) = store.epoch().filter(|_| gateway.swarm.ownership().is_shared()) else {
        return Ok(None);
    };
    let wanted = gateway.config().peer_address;
    let address = wanted.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let unopened = |source| PeersError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(unopened)?;
    let address = listener.local_addr().map_err(unopened)?.to_string();
    let key = PeerKey::new().map_err(PeersError::Key)?;
    let acceptor = TlsAcceptor::from(Arc::new(key.server().map_err(PeersError::Key)?));
    let peer = PeerAddress { address, key: key.public().to_owned() };
    // A second call would be a defect, and leaves the first key in place.
    drop(gateway.peer_key.set(key));
    store.gateways().set_peer(epoch, peer).await?;
    Ok(Some(PeerListener { listener, acceptor }))
}

/// Answers the other gateways until this one stops, then gives busy connections the usual grace.
pub(in crate::gateway) async fn serve(
    opened: Option<PeerListener>,
    gateway: Arc<Gateway>,
    middleware: Arc<Middleware>,
) {
    let Some(PeerListener { listener, acceptor }) = opened else { return };
    let serve = |stream, slot| {
        serve_one(stream, acceptor.clone(), (Arc::clone(&gateway), Arc::clone(&middleware)), slot)
    };
    // Without a free slot the connection is closed, and its gateway tries again.
    let refuse = |stream| async { drop(stream) };
    server::accept((listener, CONNECTION), &gateway.limits, &gateway.stop, serve, refuse).await;
}

async fn serve_one(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    (gateway, middleware): (Arc<Gateway>, Arc<Middleware>),
    slot: Arc<ConnectionSlot>,
) {
    let stream = server::prepared(stream, &gateway.limits);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(
                error = chain(&error),
                "a connection was refused that showed no key of a gateway"
            );
            return;
        }
        Err(_) => return,
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(|shown| shown.first());
    let Some(key) = shown.and_then(|shown| public_text(shown)) else { return };
    if !is_living(&gateway, &key).await {
        tracing::warn!("a connection was refused whose key belongs to no gateway that lives");
        return;
    }
    if !slot.know() {
        return;
    }
    let answer = |request: Request<Incoming>| {
        let middleware = Arc::clone(&middleware);
        async move { middleware.answer_gateway(request).await }
    };
    server::serve_http((stream, CONNECTION), &gateway.limits, &gateway.stop, answer).await;
}

/// Returns `true` if the key belongs to another gateway that lives.
async fn is_living(gateway: &Gateway, key: &str) -> bool {
    let has_key = |peer: Option<&PeerAddress>| peer.is_some_and(|peer| peer.key == key);
    if gateway.swarm.ownership().others().iter().any(|other| has_key(other.peer.as_ref())) {
        return true;
    }
    // It may have started since the last sign of life.
    let store = gateway.swarm.store();
    match store.gateways().living().await {
        Ok((_, living)) => {
            living.iter().any(|other| Some(other.epoch) != store.epoch() && has_key(other.peer.as_ref()))
        }
        Err(error) => {
            tracing::warn!(error = chain(&error), "failed to look whose key another gateway shows");
            false
        }
    }
}
