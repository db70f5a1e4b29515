//! The connection to a container engine: its address, the one way to call it, and the meaning of its errors.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::models::SystemInfo;
use tokio::sync::OnceCell;

use crate::config::TlsAddress;
use crate::env;
use crate::home::Home;
use crate::id::EngineName;
use crate::sandbox::engine_route::{self, CertificateTexts, Route, RouteError};
use crate::sandbox::{SandboxError, error};

/// Timeout of a request that is cheap for the engine, while fifty containers may be starting at the same time. A
/// timeout is needed because a stopped or frozen engine can accept a connection and then never answer.
pub const QUICK: Duration = Duration::from_secs(30);

/// Timeout of a request that only asks if an engine answers.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of a request that only asks if an engine of another machine answers.
const REMOTE_PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a request by a command that only shows what is there.
pub(crate) const DISPLAY_TIMEOUT: Duration = Duration::from_secs(8);

/// Timeout of creating, starting or removing something on a busy machine.
pub const SLOW: Duration = Duration::from_secs(120);

/// Timeout of pulling, building or importing an image.
pub(crate) const IMAGE_TIMEOUT: Duration = Duration::from_secs(1800);

/// A Docker engine. Creating this value does no I/O. The first call connects.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The name in the configuration. `None` for the machine's own engine.
    name: Option<EngineName>,
    endpoint: String,
    /// The way to it, if it is on another machine.
    route: Option<Arc<Route>>,
    /// Set once this home may use it.
    claim: Arc<OnceCell<()>>,
    /// Set once it has said if it is Podman.
    podman: Arc<OnceLock<bool>>,
    client: OnceLock<Docker>,
}

impl PartialEq for Engine {
    /// Compares the names and the addresses. The clients of one engine are all alike.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.endpoint) == (&other.name, &other.endpoint)
    }
}

impl Engine {
    /// Returns the engine that `DOCKER_HOST` names. Without that variable it is the system's engine, or the user's
    /// rootless engine if only that one has a socket.
    #[must_use]
    pub fn from_env() -> Self {
        Self::at(env::DOCKER_HOST.get().unwrap_or_else(|| {
            let rootless = env::RUNTIME_DIR.get().map(|folder| format!("{folder}/docker.sock"));
            match rootless {
                Some(socket) if !Path::new(SOCKET).exists() && Path::new(&socket).exists() => {
                    format!("unix://{socket}")
                }
                _ => format!("unix://{SOCKET}"),
            }
        }))
    }

    /// Returns the engine at `endpoint`, for example `unix:///var/run/docker.sock`.
    #[must_use]
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self {
            name: None,
            endpoint: endpoint.into(),
            route: None,
            claim: Arc::default(),
            podman: Arc::default(),
            client: OnceLock::new(),
        }
    }

    /// Returns the engine that the configuration of `home` has at `endpoint` under this name. Its errors tell the name. It
    /// may be on another machine.
    #[must_use]
    pub fn named(home: &Home, name: EngineName, endpoint: impl Into<String>) -> Self {
        let endpoint = endpoint.into();
        let route = Route::to(home, &name, &endpoint).map(Arc::new);
        Self { name: Some(name), route, ..Self::at(endpoint) }
    }

    /// Returns the engine at `endpoint`, which is `address`, as it is reached with these files instead of those of the home.
    #[must_use]
    pub(crate) fn with_certificates(
        name: EngineName,
        endpoint: impl Into<String>,
        address: TlsAddress,
        given: CertificateTexts,
    ) -> Self {
        let route = Route::with_certificates(&name, address, given);
        Self { name: Some(name), route: Some(Arc::new(route)), ..Self::at(endpoint) }
    }

    /// Returns `true` if the engine is on another machine.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        self.route.is_some()
    }

    /// Ends the way to an engine on another machine, which was removed from the configuration. Calls fail from then on, and so do
    /// those that wait for an answer.
    pub(crate) async fn close(&self) {
        if let Some(route) = &self.route {
            route.close().await;
        }
    }

    /// Returns what `engine_claim` has found out.
    pub(super) fn claim(&self) -> &OnceCell<()> {
        &self.claim
    }

    /// Returns the words for it in a message.
    pub(super) fn title(&self) -> String {
        error::title(self.name.as_ref(), &self.endpoint)
    }

    /// Returns the engine's address.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the path of the engine's socket on this machine, or `None` if the address is not a `unix://` one.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.endpoint.strip_prefix("unix://").map(Path::new)
    }

    /// Returns the client, connecting at the first call. The client is cheap to clone.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Denied`] if this user may not open the socket, and [`SandboxError::Unavailable`] if the
    /// address can't be used or the socket is missing.
    pub fn client(&self) -> Result<Docker, SandboxError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let unavailable = |source: Box<dyn std::error::Error + Send + Sync>| SandboxError::Unavailable {
            engine: self.name.clone(),
            endpoint: self.endpoint.clone(),
            source,
        };
        if let Some(route) = &self.route {
            let route = Arc::clone(route);
            let transport = move |request| Box::pin(engine_route::request(Arc::clone(&route), request));
            let limit = IMAGE_TIMEOUT.as_secs();
            let client = Docker::connect_with_custom_transport(
                transport,
                Some("http://docker"),
                limit,
                bollard::API_DEFAULT_VERSION,
            );
            let client = client.map_err(|source| self.error("connect", source))?;
            return Ok(self.client.get_or_init(|| client).clone());
        }
        let Some(socket) = self.socket() else {
            return Err(unavailable("only unix:// endpoints are supported".into()));
        };
        // Look at the socket first: bollard reports "not found" for a socket in a folder that this user may not enter.
        match std::fs::metadata(socket) {
            Err(source) if source.kind() == ErrorKind::PermissionDenied => {
                return Err(SandboxError::Denied {
                    engine: self.name.clone(),
                    endpoint: self.endpoint.clone(),
                });
            }
            Err(source) if source.kind() == ErrorKind::NotFound => return Err(unavailable(NO_SOCKET.into())),
            Err(source) => return Err(unavailable(Box::new(source))),
            Ok(_) => {}
        }
        let client =
            Docker::connect_with_unix(&self.endpoint, IMAGE_TIMEOUT.as_secs(), bollard::API_DEFAULT_VERSION)
                .map_err(|source| self.error("connect", source))?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    /// Calls the engine with a timeout. `what` completes the sentence "Docker failed to …".
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Unavailable`] if the engine does not answer within `limit` or cannot be reached,
    /// [`SandboxError::Denied`] if it refuses this user, and [`SandboxError::Engine`] for every error that it answers.
    pub async fn call<T>(
        &self,
        what: &str,
        limit: Duration,
        request: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, SandboxError> {
        match tokio::time::timeout(limit, request).await {
            Ok(answer) => answer.map_err(|source| self.error(what, source)),
            Err(_) => Err(self.silent(what, limit)),
        }
    }

    /// Returns the error for an engine that gave no answer within `limit`.
    #[must_use]
    pub fn silent(&self, what: &str, limit: Duration) -> SandboxError {
        SandboxError::Unavailable {
            engine: self.name.clone(),
            endpoint: self.endpoint.clone(),
            source: format!("no answer within {} seconds to: {what}", limit.as_secs()).into(),
        }
    }

    /// Calls the engine as [`Engine::call`] does, but returns `None` if it answers that the thing does not exist (404).
    pub async fn find<T>(
        &self,
        what: &str,
        limit: Duration,
        request: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<Option<T>, SandboxError> {
        let found = async {
            match request.await {
                Ok(found) => Ok(Some(found)),
                Err(error) if status(&error) == Some(404) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.call(what, limit, found).await
    }

    /// Converts an error of the client into one that tells the user what is wrong.
    #[must_use]
    pub fn error(&self, what: &str, source: EngineError) -> SandboxError {
        let (engine, endpoint) = (self.name.clone(), self.endpoint.clone());
        if let Some(reason) = RouteError::of(&source) {
            return SandboxError::Unavailable { engine, endpoint, source: Box::new(reason) };
        }
        let reason = match (io_kind(&source), &source) {
            (Some(ErrorKind::PermissionDenied), _) => return SandboxError::Denied { engine, endpoint },
            (Some(ErrorKind::NotFound), _) | (_, EngineError::SocketNotFoundError(_)) => NO_SOCKET,
            (Some(ErrorKind::ConnectionRefused), _) => "nothing listens on its socket",
            (_, EngineError::RequestTimeoutError) => "no answer in time",
            (
                Some(
                    ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::NotConnected
                    | ErrorKind::BrokenPipe
                    | ErrorKind::UnexpectedEof,
                ),
                _,
            )
            | (_, EngineError::HyperLegacyError { .. } | EngineError::HyperResponseError { .. }) => {
                "it broke off the connection"
            }
            _ => return SandboxError::Engine { what: what.to_owned(), source: Box::new(source) },
        };
        // The client's message names its own protocol layers. It is of no use to a user, but it helps to find a defect.
        tracing::debug!(what, error = crate::error::chain(&source), "the engine did not answer");
        SandboxError::Unavailable { engine, endpoint, source: reason.into() }
    }

    /// Asks if the engine answers.
    ///
    /// # Errors
    ///
    /// Returns the reason if it does not answer within two seconds, or within five if it is on another machine.
    pub async fn ping(&self) -> Result<(), SandboxError> {
        self.ping_within(if self.is_remote() { REMOTE_PING_TIMEOUT } else { PING_TIMEOUT }).await
    }

    /// Asks if the engine answers, with the time that the first connection to another machine may take.
    ///
    /// # Errors
    ///
    /// Returns the reason if it does not answer.
    pub(crate) async fn first_ping(&self) -> Result<(), SandboxError> {
        match self.is_remote() {
            true => self.ping_within(engine_route::CONNECT_LIMIT + PING_TIMEOUT).await,
            false => self.ping().await,
        }
    }

    async fn ping_within(&self, limit: Duration) -> Result<(), SandboxError> {
        let client = self.client()?;
        self.call("answer", limit, client.ping()).await.map(drop)
    }

    /// Returns what the engine says about itself and its machine.
    pub(crate) async fn describe(&self) -> Result<SystemInfo, SandboxError> {
        self.info("describe itself").await
    }

    /// Returns the versions of the engine, of its API and of runc.
    pub async fn version(&self) -> Result<Versions, SandboxError> {
        let client = self.client()?;
        let found = self.call("report its version", QUICK, client.version()).await?;
        let parts = found.components.unwrap_or_default();
        let is_podman = parts.iter().any(|part| part.name == PODMAN);
        let runc = parts.into_iter().find(|part| part.name == "runc");
        Ok(Versions {
            is_podman,
            engine: found.version.unwrap_or_default(),
            api: found.api_version.unwrap_or_default(),
            runc: runc.map(|part| part.version).filter(|version| !version.is_empty()),
        })
    }

    /// Returns `true` if containers are made by Podman's own interface. It is asked once. One on another machine is not used.
    pub(super) async fn is_podman(&self, limit: Duration) -> Result<bool, SandboxError> {
        if self.is_remote() {
            return Ok(false);
        }
        if let Some(known) = self.podman.get() {
            return Ok(*known);
        }
        // Not one after the other: each caller of an engine that hangs waits only once.
        let found = match tokio::time::timeout(limit, self.version()).await {
            Ok(Ok(found)) => found.is_podman,
            // Podman's service knows the question.
            Ok(Err(error)) if refusal(&error) == Some(404) => false,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(self.silent("report its version", limit)),
        };
        Ok(*self.podman.get_or_init(|| found))
    }

    /// Returns the engine's properties that matter to sandboxes, as JSON for a report.
    pub async fn facts(&self) -> Result<serde_json::Value, SandboxError> {
        let versions = self.version().await?;
        let info = self.info("describe itself").await?;
        let runtimes: Vec<String> = info.runtimes.into_iter().flatten().map(|(name, _)| name).collect();
        Ok(serde_json::json!({
            "engine": versions.engine,
            "api": versions.api,
            "runc": versions.runc,
            "os": info.operating_system,
            "kernel": info.kernel_version,
            "storage": info.driver,
            "cgroup_version": info.cgroup_version,
            "cgroup_driver": info.cgroup_driver,
            "security": info.security_options,
            "runtimes": runtimes,
            "default_runtime": info.default_runtime,
            "cores": info.ncpu,
            "memory": info.mem_total,
            "containers": info.containers,
            "warnings": info.warnings,
        }))
    }

    async fn info(&self, what: &str) -> Result<SystemInfo, SandboxError> {
        let client = self.client()?;
        self.call(what, QUICK, client.info()).await
    }

    /// Returns the release of the kernel that the engine's containers share.
    pub async fn kernel(&self) -> Result<String, SandboxError> {
        let info = self.info("describe itself").await?;
        Ok(info.kernel_version.unwrap_or_default())
    }

    /// Returns `false` if the engine says that its kernel cannot limit swap.
    pub(crate) async fn limits_swap(&self) -> Result<bool, SandboxError> {
        let info = self.info("describe itself").await?;
        Ok(info.swap_limit != Some(false))
    }

    /// Returns the registered OCI runtimes by name, each with the path of its program if the engine reports one.
    pub async fn runtimes(&self) -> Result<BTreeMap<String, Option<String>>, SandboxError> {
        let info = self.info("list its runtimes").await?;
        Ok(info.runtimes.into_iter().flatten().map(|(name, runtime)| (name, runtime.path)).collect())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The engine's own version.
    pub engine: String,
    /// The version of its API.
    pub api: String,
    /// The version of runc, if the engine reports it.
    pub runc: Option<String>,
    /// `true` if it is Podman's service with the interface of Docker.
    pub is_podman: bool,
}

/// Returns the HTTP status if the engine answered with an error.
#[must_use]
pub fn status(error: &EngineError) -> Option<u16> {
    match error {
        EngineError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// Returns the HTTP status if the engine refused the call.
#[must_use]
pub fn refusal(error: &SandboxError) -> Option<u16> {
    match error {
        SandboxError::Engine { source, .. } => source.downcast_ref::<EngineError>().and_then(status),
        _ => None,
    }
}

/// Returns the kind of the first operating system error in the chain of causes.
fn io_kind(error: &EngineError) -> Option<ErrorKind> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        next = match cause.downcast_ref::<EngineError>() {
            // Transparent error variants skip the inner error in `source`, so it has to be unpacked here.
            Some(EngineError::IOError { err }) => Some(err),
            Some(EngineError::HyperResponseError { err }) => Some(err),
            Some(EngineError::HyperLegacyError { err }) => Some(err),
            _ => cause.source(),
        };
    }
    None
}

const SOCKET: &str = "/var/run/docker.sock";

/// Name that Podman's service gives to its own part among the versions.
const PODMAN: &str = "Podman Engine";

const NO_SOCKET: &str = "its socket is not there";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain;

    async fn failure(engine: &Engine) -> String {
        let error = engine.version().await.unwrap_err();
        assert!(matches!(error, SandboxError::Unavailable { .. }), "{error:?}");
        chain(&error)
    }

    #[tokio::test]
    async fn a_missing_engine_gives_a_readable_error() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let endpoint = format!("unix://{}", socket.display());
        let engine = Engine::at(&endpoint);
        let down = |why| format!("the Docker engine at {endpoint} does not answer: {why}");
        assert_eq!(failure(&engine).await, down("its socket is not there"));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let closing = std::thread::spawn(move || drop(listener.accept()));
        assert_eq!(failure(&engine).await, down("it broke off the connection"));
        closing.join().unwrap();
        assert_eq!(failure(&engine).await, down("nothing listens on its socket"));
        std::fs::remove_file(&socket).unwrap();
        assert_eq!(failure(&engine).await, down("its socket is not there"));
    }
}
