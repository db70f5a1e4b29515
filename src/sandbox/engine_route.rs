//! The way to an engine on another machine: a stream by `ssh` or by TLS, and HTTP over it. Each request has a connection of
//! its own, as with an engine of this machine, so that one that hangs holds up no other.

mod tls;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::BollardRequest;
use bollard::errors::Error as EngineError;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::config::{EngineAddress, SshAddress, TlsAddress};
use crate::error::{Explain, chain};
use crate::home::Home;
use crate::id::EngineName;
use crate::sandbox::ssh_tunnel::{SshError, SshTunnel};

pub(crate) use tls::{CertificateFile, CertificateTexts};

/// Time that a connection may take, with signing in to the other machine.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// The reason why an engine on another machine can't be reached.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct RouteError {
    text: String,
    hint: Option<String>,
    /// `true` if other certificates of this home mend it.
    pub(crate) needs_certificates: bool,
}

impl RouteError {
    fn new(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { text: text.into(), hint: Some(hint.into()), needs_certificates: false }
    }

    /// Returns a reason that other certificates of this home mend.
    fn of_certificates(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { needs_certificates: true, ..Self::new(text, hint) }
    }

    /// Returns the reason of an engine that is not in the configuration any more.
    fn removed() -> Self {
        Self::new("it was removed from the configuration", "flock engine list")
    }

    /// Returns the one in an error of the client.
    pub(crate) fn of(error: &EngineError) -> Option<Self> {
        match error {
            EngineError::IOError { err } => err.get_ref()?.downcast_ref::<Self>().cloned(),
            _ => None,
        }
    }

    fn into_client_error(self) -> EngineError {
        EngineError::IOError { err: io::Error::other(self) }
    }
}

impl Explain for RouteError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl From<SshError> for RouteError {
    fn from(error: SshError) -> Self {
        Self { text: chain(&error), hint: error.hint(), needs_certificates: false }
    }
}

/// A stream to an engine.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The way to one engine on another machine. Creating it does no I/O.
#[derive(Debug)]
pub(crate) struct Route {
    transport: Transport,
    /// Cancelled when the engine was removed from the configuration.
    closed: CancellationToken,
}

enum Transport {
    Ssh(Box<SshRoute>),
    Tls(tls::TlsRoute),
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Ssh(_) => "Ssh",
            Self::Tls(_) => "Tls",
        })
    }
}

impl Route {
    /// Returns the way to an engine, or `None` for one that this machine has a socket of.
    pub(crate) fn to(home: &Home, name: &EngineName, address: &str) -> Option<Self> {
        let transport = match address.parse().ok()? {
            // A cluster is not reached as a Docker engine.
            EngineAddress::Socket(_) | EngineAddress::Cluster(_) => return None,
            EngineAddress::Ssh(address) => {
                let route = SshRoute { address, home: home.clone(), tunnel: OnceCell::new() };
                Transport::Ssh(Box::new(route))
            }
            EngineAddress::Tls(address) => Transport::Tls(tls::TlsRoute::new(home, name, address)),
        };
        Some(Self { transport, closed: CancellationToken::new() })
    }

    /// Returns the way to an engine with TLS with these files instead of those of the home.
    pub(crate) fn with_certificates(name: &EngineName, address: TlsAddress, given: CertificateTexts) -> Self {
        let transport = Transport::Tls(tls::TlsRoute::with_certificates(name, address, given));
        Self { transport, closed: CancellationToken::new() }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, RouteError> {
        let connected = self.closed.run_until_cancelled(self.connect_in_time()).await;
        connected.unwrap_or_else(|| Err(RouteError::removed()))
    }

    async fn connect_in_time(&self) -> Result<Box<dyn Stream>, RouteError> {
        let limit = CONNECT_LIMIT.as_secs();
        let connecting = async {
            match &self.transport {
                Transport::Ssh(route) => {
                    Ok(Box::new(route.tunnel().await?.connect().await?) as Box<dyn Stream>)
                }
                Transport::Tls(route) => Ok(Box::new(route.connect().await?) as Box<dyn Stream>),
            }
        };
        match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(connected) => connected,
            Err(_) => {
                let text = format!("no connection to {} within {limit} seconds", self.place());
                Err(RouteError::new(text, self.hint()))
            }
        }
    }

    /// Ends the connections of requests that wait for an answer, and `ssh` with all that goes through it. Later ones are refused.
    /// The streams of an attached container that go by TLS are their holder's from the answer on, and end with it.
    pub(crate) async fn close(&self) {
        self.closed.cancel();
        let Transport::Ssh(route) = &self.transport else { return };
        // Also a tunnel that was never used: a connection that is being made at this moment must find it closed.
        if let Ok(tunnel) = route.tunnel().await {
            tunnel.close().await;
        }
    }

    fn place(&self) -> String {
        match &self.transport {
            Transport::Ssh(route) => route.address.destination(),
            Transport::Tls(route) => route.place(),
        }
    }

    fn hint(&self) -> String {
        match &self.transport {
            Transport::Ssh(route) => format!("ssh {} true", route.address.arguments()),
            Transport::Tls(route) => route.hint(),
        }
    }

    /// Returns the reason why a connection ended before the answer, if more is known than that it did.
    async fn explain(&self, error: &hyper::Error) -> Option<RouteError> {
        if self.closed.is_cancelled() {
            return Some(RouteError::removed());
        }
        match &self.transport {
            Transport::Ssh(route) => Some(route.tunnel.get()?.1.refusal().await?.into()),
            Transport::Tls(route) => route.explain(error),
        }
    }
}

/// A tunnel with the folder of its socket.
pub(crate) struct SshRoute {
    address: SshAddress,
    home: Home,
    tunnel: OnceCell<(TempDir, SshTunnel)>,
}

impl SshRoute {
    /// Returns the tunnel. Each process of the home has its own: the socket of another one goes away with it.
    async fn tunnel(&self) -> Result<&SshTunnel, RouteError> {
        let make = || async {
            let unusable = |error: io::Error| {
                RouteError::new(format!("there is no folder for the socket of ssh: {error}"), "flock doctor")
            };
            let folder = socket_folder(&self.home.run()).map_err(unusable)?;
            let tunnel = SshTunnel::new(self.address.clone(), folder.path().join(SOCKET))?;
            Ok::<_, RouteError>((folder, tunnel))
        };
        Ok(&self.tunnel.get_or_try_init(make).await?.1)
    }
}

const SOCKET: &str = "s";

/// The longest path of a folder in which a socket's path is still short enough for `ssh`, which first makes one with a
/// longer name.
const MAX_FOLDER: usize = 70;

/// Makes a folder that only this user can enter, in the home if its path is short enough.
fn socket_folder(run: &Path) -> io::Result<TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    let system = std::env::temp_dir();
    let is_usable =
        run.as_os_str().len() <= MAX_FOLDER && run.is_dir() && !run.to_string_lossy().contains(':');
    let above = if is_usable { run } else { &system };
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("ssh-").permissions(private).tempdir_in(above)
}

/// Sends a request to an engine on another machine.
pub(crate) async fn request(
    route: Arc<Route>,
    request: BollardRequest,
) -> Result<Response<Incoming>, EngineError> {
    let stream = route.connect().await.map_err(RouteError::into_client_error)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let transfer = async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(error = chain(&error), "a connection to an engine ended");
        }
    };
    let (mut parts, body) = request.into_parts();
    // The engine expects a path, and a header for the host, whose value it does not look at.
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse::<Uri>().unwrap_or_default();
    parts.headers.insert(HOST, HeaderValue::from_static("docker"));
    // Queued before the connection is first polled, so that a refusal that has arrived by then becomes the error of the request.
    // Without a request it would only end the connection.
    let answer = sender.send_request(Request::from_parts(parts, body));
    // It ends with the answer, which may hand the stream over to whoever is attached to a container, or with the way.
    tokio::spawn(route.closed.clone().run_until_cancelled_owned(transfer));
    match answer.await {
        Ok(answer) => Ok(answer),
        Err(error) => Err(match route.explain(&error).await {
            Some(reason) => reason.into_client_error(),
            None => error.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::engine::Engine;

    #[tokio::test]
    async fn a_way_that_was_closed_is_not_tried_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let name: EngineName = "far".parse().unwrap();
        for address in ["ssh://nowhere.invalid", "tcp://nowhere.invalid:2376"] {
            let engine = Engine::named(&home, name.clone(), address);
            engine.close().await;
            let error = engine.ping().await.unwrap_err();
            let text = chain(&error);
            assert!(text.ends_with("it was removed from the configuration"), "{text}");
            assert_eq!(error.hint().as_deref(), Some("flock engine list"));
        }
    }
}
