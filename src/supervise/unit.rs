//! What a supervisor can run. The native gateway is one; others come beside it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::child::Program;
use super::ending::Endings;
use super::health::{self, Health, Identity, Unseen};
use super::restart::Limits;
use crate::config::{ConfigError, Live};
use crate::env;
use crate::error::Kind;
use crate::home::{Home, instance};
use crate::process::ProcessId;

/// Something that runs as a process and can be asked for its health.
pub trait Unit: Send + Sync {
    /// Its name: of its PID file, its log and its mark.
    fn name(&self) -> &'static str;

    /// Makes ready what it needs, and says what is to be run now; asked before each start. It may be given up
    /// half-way.
    fn prepare(&self) -> BoxFuture<'static, Result<Program, Unready>>;

    /// The port it was started on.
    fn port(&self) -> Option<u16>;

    /// Asks it, which runs as this process, who it is. The error says in words what is wrong.
    fn check(&self, process: ProcessId) -> BoxFuture<'static, Result<Health, Unseen>>;

    /// Which build of it was started, where there can be several.
    fn build(&self) -> Option<String> {
        None
    }

    /// Its limits, made of those of all.
    fn limits(&self, common: Limits) -> Limits {
        common
    }

    /// How its ends are read.
    fn endings(&self) -> &'static Endings {
        &Endings::FLOCK
    }

    /// Whether the home is of use without it. Such a process is run only as long as it is wanted, and follows the
    /// home's configuration.
    fn is_optional(&self) -> bool {
        false
    }

    /// Whether it is wanted now; asked of what is optional.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Whether it was made ready for something else than what the home says now; asked of what is optional.
    fn is_outdated(&self) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Brings what runs up to what the home says now.
    fn refresh(&self) -> BoxFuture<'static, Result<Refresh, Unready>> {
        Box::pin(std::future::ready(Ok(Refresh::Done)))
    }

    /// Removes what of it outlives its process. `None` if nothing does.
    fn clear(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// Why a process can't be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// In words.
    pub reason: String,
    /// The kind of failure, where a new try would end the same way until somebody has done something.
    pub lasting: Option<Kind>,
}

/// What came of bringing a running process up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// It goes on.
    Done,
    /// It has to be started anew, for this reason.
    Restart(String),
}

/// The native gateway.
#[derive(Debug)]
pub struct Gateway {
    live: Live,
    instance: String,
    file: PathBuf,
    port: AtomicU16,
}

impl Gateway {
    /// The gateway of this home, run by the program at `file`: this one, whose path is asked for while it
    /// is surely still at its place.
    ///
    /// # Errors
    ///
    /// If the home's configuration or instance id can't be read.
    pub fn new(home: Home, file: PathBuf) -> Result<Self, ConfigError> {
        let instance = instance::read(&home)?;
        let live = Live::open(home)?;
        let port = AtomicU16::new(live.current().port);
        Ok(Self { live, instance, file, port })
    }
}

impl Unit for Gateway {
    fn name(&self) -> &'static str {
        GATEWAY
    }

    fn prepare(&self) -> BoxFuture<'static, Result<Program, Unready>> {
        let root = self.live.home().root();
        self.port.store(self.live.current().port, Ordering::Relaxed);
        let mut env: Vec<(OsString, OsString)> =
            env::inherited().filter(|(name, _)| name != env::HOME_DIR.name).collect();
        env.push((env::HOME_DIR.name.into(), root.into()));
        let args = vec!["--home".into(), root.into(), "gateway".into(), "serve".into()];
        Box::pin(std::future::ready(Ok(Program { file: self.file.clone(), args, env })))
    }

    fn port(&self) -> Option<u16> {
        Some(self.port.load(Ordering::Relaxed))
    }

    fn check(&self, _process: ProcessId) -> BoxFuture<'static, Result<Health, Unseen>> {
        let port = self.port.load(Ordering::Relaxed);
        let identity = Identity { instance: self.instance.clone(), token: self.live.current().token.clone() };
        Box::pin(async move { health::ask(port, &identity, CHECK).await.map_err(Unseen::from) })
    }
}

/// The name of the native gateway's process.
pub const GATEWAY: &str = "gateway";
/// The name of OpenClaw's process.
pub const OPENCLAW: &str = "openclaw";
/// The names of all processes that supervisors of this and earlier versions run.
pub const NAMES: [&str; 2] = [GATEWAY, OPENCLAW];
/// How long a gateway may take to say who it is.
const CHECK: Duration = Duration::from_secs(10);
