//! What a supervisor can run. The native gateway is one; others come beside it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::child::Program;
use super::health::{self, Health, Identity, Unseen};
use crate::config::{ConfigError, Live};
use crate::env;
use crate::home::{Home, instance};

/// Something that runs as a process and can be asked for its health.
pub trait Unit: Send + Sync {
    /// Its name: of its PID file, its log and its mark.
    fn name(&self) -> &'static str;

    /// What is to be run now; asked before each start.
    fn program(&self) -> Program;

    /// The port it was started on.
    fn port(&self) -> Option<u16>;

    /// Asks it who it is. The error says in words what is wrong.
    fn check(&self) -> BoxFuture<'static, Result<Health, Unseen>>;
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

    fn program(&self) -> Program {
        let root = self.live.home().root();
        self.port.store(self.live.current().port, Ordering::Relaxed);
        let mut env: Vec<(OsString, OsString)> =
            env::inherited().filter(|(name, _)| name != env::HOME_DIR.name).collect();
        env.push((env::HOME_DIR.name.into(), root.into()));
        Program {
            file: self.file.clone(),
            args: vec!["--home".into(), root.into(), "gateway".into(), "serve".into()],
            env,
        }
    }

    fn port(&self) -> Option<u16> {
        Some(self.port.load(Ordering::Relaxed))
    }

    fn check(&self) -> BoxFuture<'static, Result<Health, Unseen>> {
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
