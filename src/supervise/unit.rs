//! The programs that a supervisor can run: flock's own gateway, and others beside it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::child::ChildCommand;
use super::exit_reason::ExitRules;
use super::health::{self, Health, HealthCheckFailure, HomeIdentity};
use super::restart::SupervisionLimits;
use crate::config::{ConfigError, Live};
use crate::env;
use crate::error::Kind;
use crate::home::{Home, instance};
use crate::process::ProcessId;

/// A program that runs as a process and can be asked for its health.
pub trait Unit: Send + Sync {
    /// Returns the name used for its PID file, its log and its mark.
    fn name(&self) -> &'static str;

    /// Prepares a start and returns the command to run. Called before each start; the future may be dropped before it
    /// completes.
    fn prepare(&self) -> BoxFuture<'static, Result<ChildCommand, StartError>>;

    /// Returns the port that it was started on.
    fn port(&self) -> Option<u16>;

    /// Performs a health check of `process`. The error explains the problem.
    fn check(&self, process: ProcessId) -> BoxFuture<'static, Result<Health, HealthCheckFailure>>;

    /// Returns the build that was started, if there can be several.
    fn build(&self) -> Option<String> {
        None
    }

    /// Returns the limits for this program, derived from the common ones.
    fn limits(&self, common: SupervisionLimits) -> SupervisionLimits {
        common
    }

    /// Returns the rules by which its ends are interpreted.
    fn endings(&self) -> &'static ExitRules {
        &ExitRules::FLOCK
    }

    /// Returns `true` if the home is useful without it. An optional process runs only while it is wanted, and follows
    /// changes of the home's configuration.
    fn is_optional(&self) -> bool {
        false
    }

    /// Returns `true` if an optional process is wanted now.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Returns `true` if an optional process was started with a configuration that has changed since.
    fn is_outdated(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Applies the current configuration to the running process.
    fn refresh(&self) -> BoxFuture<'static, Result<Refresh, StartError>> {
        Box::pin(std::future::ready(Ok(Refresh::Done)))
    }

    /// Removes what outlives the process. Returns `None` if nothing does.
    fn clear(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// The reason why a process can't be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    pub reason: String,
    /// The kind of failure, if another attempt would fail the same way until somebody changes something.
    pub lasting: Option<Kind>,
}

/// The result of applying a new configuration to a running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The process continues to run.
    Done,
    /// The process has to be restarted, for this reason.
    Restart(String),
}

/// flock's own gateway.
#[derive(Debug)]
pub(crate) struct GatewayUnit {
    live: Live,
    instance: String,
    file: PathBuf,
    port: AtomicU16,
}

impl GatewayUnit {
    /// Creates the gateway of a home, run by the program at `file`. The caller determines that path early, while the
    /// program is certainly still there.
    ///
    /// # Errors
    ///
    /// Returns an error if the home's configuration or instance id can't be read.
    pub fn new(home: Home, file: PathBuf) -> Result<Self, ConfigError> {
        let instance = instance::read(&home)?;
        let live = Live::open(home)?;
        let port = AtomicU16::new(live.current().port);
        Ok(Self { live, instance, file, port })
    }
}

impl Unit for GatewayUnit {
    fn name(&self) -> &'static str {
        GATEWAY
    }

    fn prepare(&self) -> BoxFuture<'static, Result<ChildCommand, StartError>> {
        let root = self.live.home().root();
        // The configuration may have changed the port since the last start.
        self.port.store(self.live.current().port, Ordering::Relaxed);
        // The home is set explicitly, because the supervisor may have got it as an argument.
        let mut env: Vec<(OsString, OsString)> =
            env::inherited().filter(|(name, _)| name != env::HOME_DIR.name).collect();
        env.push((env::HOME_DIR.name.into(), root.into()));
        let args = vec!["--home".into(), root.into(), "gateway".into(), "serve".into()];
        Box::pin(std::future::ready(Ok(ChildCommand { file: self.file.clone(), args, env })))
    }

    fn port(&self) -> Option<u16> {
        Some(self.port.load(Ordering::Relaxed))
    }

    fn check(&self, _process: ProcessId) -> BoxFuture<'static, Result<Health, HealthCheckFailure>> {
        // The proof in the answer identifies the gateway, so the pid of the listener is not needed.
        let port = self.port.load(Ordering::Relaxed);
        let identity =
            HomeIdentity { instance: self.instance.clone(), token: self.live.current().token.clone() };
        Box::pin(async move {
            health::ask(port, &identity, CHECK_TIMEOUT).await.map_err(HealthCheckFailure::from)
        })
    }
}

/// The name of the process of flock's own gateway.
pub(crate) const GATEWAY: &str = "gateway";
/// The name of OpenClaw's process.
pub(crate) const OPENCLAW: &str = "openclaw";
/// The names of all processes that supervisors of this and earlier versions run.
pub(crate) const NAMES: [&str; 2] = [GATEWAY, OPENCLAW];
/// The time limit of a health check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
