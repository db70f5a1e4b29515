//! The connection to the Docker engine: where it is, one way to call it, and what its refusals mean.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as EngineError;

use crate::env;
use crate::sandbox::SandboxError;

/// How long the engine may take to answer a question that costs it nothing, with fifty containers starting
/// beside it. A stopped or frozen engine can accept a connection and then say nothing at all.
pub const QUICK: Duration = Duration::from_secs(30);

/// How long it may hold up whoever only wants to see what is there.
pub const GLANCE: Duration = Duration::from_secs(8);

/// How long the engine may take to make, start or remove something on a busy machine.
pub const SLOW: Duration = Duration::from_secs(120);

/// How long an image may take to be pulled, built or imported.
pub const IMAGE: Duration = Duration::from_secs(1800);

/// A Docker engine. Making one touches nothing; the first call connects.
#[derive(Clone, Debug)]
pub struct Engine {
    endpoint: String,
    client: OnceLock<Docker>,
}

impl Engine {
    /// The engine that `DOCKER_HOST` names, else the machine's own, else the user's rootless one.
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

    /// The engine at `endpoint`, as in `unix:///var/run/docker.sock`.
    #[must_use]
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self { endpoint: endpoint.into(), client: OnceLock::new() }
    }

    /// Where it is looked for.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The path of its socket on this machine.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.endpoint.strip_prefix("unix://").map(Path::new)
    }

    /// The client. Cheap to clone.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Unavailable`] and [`SandboxError::Denied`].
    pub fn client(&self) -> Result<Docker, SandboxError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let unavailable = |source: Box<dyn std::error::Error + Send + Sync>| SandboxError::Unavailable {
            endpoint: self.endpoint.clone(),
            source,
        };
        let Some(socket) = self.socket() else {
            return Err(unavailable("only unix:// endpoints are supported".into()));
        };
        // bollard's own check says "not found" of a socket in a folder this user may not enter.
        match std::fs::metadata(socket) {
            Err(source) if source.kind() == ErrorKind::PermissionDenied => {
                return Err(SandboxError::Denied { endpoint: self.endpoint.clone() });
            }
            Err(source) if source.kind() == ErrorKind::NotFound => return Err(unavailable(NO_SOCKET.into())),
            Err(source) => return Err(unavailable(Box::new(source))),
            Ok(_) => {}
        }
        let client = Docker::connect_with_unix(&self.endpoint, IMAGE.as_secs(), bollard::API_DEFAULT_VERSION)
            .map_err(|source| self.error("connect", source))?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    /// Calls the engine. `what` completes the sentence "Docker failed to …".
    ///
    /// # Errors
    ///
    /// As [`Engine::error`] sorts them; an engine that says nothing within `limit` is unavailable.
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

    /// That it said nothing within this time.
    #[must_use]
    pub fn silent(&self, what: &str, limit: Duration) -> SandboxError {
        SandboxError::Unavailable {
            endpoint: self.endpoint.clone(),
            source: format!("no answer within {} seconds to: {what}", limit.as_secs()).into(),
        }
    }

    /// As [`Engine::call`], with "there is no such thing" (404) as `None`.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`].
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

    /// What an error of the client means to a person.
    #[must_use]
    pub fn error(&self, what: &str, source: EngineError) -> SandboxError {
        let endpoint = self.endpoint.clone();
        let reason = match (io_kind(&source), &source) {
            (Some(ErrorKind::PermissionDenied), _) => return SandboxError::Denied { endpoint },
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
        // The client's own words are of its layers; they help whoever looks for a defect.
        tracing::debug!(what, error = crate::error::chain(&source), "the engine did not answer");
        SandboxError::Unavailable { endpoint, source: reason.into() }
    }

    /// The engine's version, and those of what it works with.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`].
    pub async fn version(&self) -> Result<Versions, SandboxError> {
        let client = self.client()?;
        let found = self.call("say its version", QUICK, client.version()).await?;
        let runc = found.components.into_iter().flatten().find(|part| part.name == "runc");
        Ok(Versions {
            engine: found.version.unwrap_or_default(),
            api: found.api_version.unwrap_or_default(),
            runc: runc.map(|part| part.version).filter(|version| !version.is_empty()),
        })
    }

    /// What it says of itself that bears on sandboxes, for a report.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`].
    pub async fn facts(&self) -> Result<serde_json::Value, SandboxError> {
        let versions = self.version().await?;
        let client = self.client()?;
        let info = self.call("describe itself", QUICK, client.info()).await?;
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

    /// The release of the kernel that its containers share.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`].
    pub async fn kernel(&self) -> Result<String, SandboxError> {
        let client = self.client()?;
        let info = self.call("describe itself", QUICK, client.info()).await?;
        Ok(info.kernel_version.unwrap_or_default())
    }

    /// The OCI runtimes that are registered with it, by name, with their programs where they are said.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`].
    pub async fn runtimes(&self) -> Result<BTreeMap<String, Option<String>>, SandboxError> {
        let client = self.client()?;
        let info = self.call("say its runtimes", QUICK, client.info()).await?;
        Ok(info.runtimes.into_iter().flatten().map(|(name, runtime)| (name, runtime.path)).collect())
    }
}

/// Versions of an engine and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Its own.
    pub engine: String,
    /// That of its API.
    pub api: String,
    /// runc's, where it says that.
    pub runc: Option<String>,
}

/// The HTTP status of a refusal by the engine.
#[must_use]
pub fn status(error: &EngineError) -> Option<u16> {
    match error {
        EngineError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// The HTTP status, where the engine refused a call.
#[must_use]
pub fn refusal(error: &SandboxError) -> Option<u16> {
    match error {
        SandboxError::Engine { source, .. } => source.downcast_ref::<EngineError>().and_then(status),
        _ => None,
    }
}

/// The first operating system error below an error of the client.
fn io_kind(error: &EngineError) -> Option<ErrorKind> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        next = match cause.downcast_ref::<EngineError>() {
            // Transparent variants hide the inner error itself from `source`.
            Some(EngineError::IOError { err }) => Some(err),
            Some(EngineError::HyperResponseError { err }) => Some(err),
            Some(EngineError::HyperLegacyError { err }) => Some(err),
            _ => cause.source(),
        };
    }
    None
}

const SOCKET: &str = "/var/run/docker.sock";

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
    async fn an_engine_that_is_down_is_told_in_words_of_a_person() {
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
