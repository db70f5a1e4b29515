//! OpenClaw as a unit of the supervisor. It runs beside the native gateway as long as a version is installed and at
//! least one agent runs on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::check::OpenClawProgram;
use super::place::ApplyOutcome;
use super::prepare::PreparedConfig;
use super::probe::{self, Depth, ProbeError};
use super::process::{self, Folders};
use super::state::{self, StateOutcome};
use super::{agents, sandboxes};
use crate::clock;
use crate::config::{Config, ConfigError, Live};
use crate::error::{Explain as _, Kind, chain};
use crate::home::{Home, instance};
use crate::install::{InstalledVersion, versions};
use crate::process::ProcessId;
use crate::sandbox::engine::Engine;
use crate::supervise::child;
use crate::supervise::exit_reason::ExitRules;
use crate::supervise::health::{Health, HealthCheckFailure};
use crate::supervise::journal::Journal;
use crate::supervise::port;
use crate::supervise::restart::SupervisionLimits;
use crate::supervise::unit::{OPENCLAW, Refresh, StartError, Unit};

/// Prepares everything that OpenClaw needs for a start. The command line provides it, because flock's tools and the
/// agents' role texts come from higher layers.
pub(crate) type PrepareFn =
    Arc<dyn Fn() -> BoxFuture<'static, Result<PreparedConfig, StartError>> + Send + Sync>;

/// Returns a digest of everything in the home, beside its configuration, that a start depends on. It may block.
pub(crate) type InputDigestFn = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The OpenClaw of one home.
pub(crate) struct OpenClawUnit {
    live: Arc<Live>,
    instance: String,
    prepare: PrepareFn,
    basis: InputDigestFn,
    started: Arc<Mutex<LastStart>>,
}

/// The inputs and results of the last start.
#[derive(Default)]
struct LastStart {
    /// The configuration, and the digest of everything else.
    basis: Option<(Arc<Config>, u64)>,
    /// The name of the version, or `None` while a start is prepared.
    build: Option<String>,
    prepared: Option<PreparedConfig>,
    /// Time of the next attempt to bring it up to date, in Unix milliseconds.
    retry_at: Option<i64>,
    /// The process that passed the full probe.
    proved: Option<ProcessId>,
}

impl OpenClawUnit {
    /// Creates the unit for a home.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if the home's configuration or instance id can't be read.
    pub(crate) fn new(home: Home, prepare: PrepareFn, basis: InputDigestFn) -> Result<Self, ConfigError> {
        let instance = instance::read(&home)?;
        Ok(Self { live: Arc::new(Live::open(home)?), instance, prepare, basis, started: Arc::default() })
    }

    /// Returns the home's current configuration and digest, or `None` if they can't be determined. They are read on
    /// another thread: the supervisor's thread has other work, and a database may block for seconds.
    fn now(&self) -> impl Future<Output = Option<(Arc<Config>, u64)>> + Send + use<> {
        let (live, basis) = (Arc::clone(&self.live), Arc::clone(&self.basis));
        async move { tokio::task::spawn_blocking(move || (live.current(), basis())).await.ok() }
    }

    fn started(&self) -> MutexGuard<'_, LastStart> {
        lock_start(&self.started)
    }
}

fn lock_start(started: &Mutex<LastStart>) -> MutexGuard<'_, LastStart> {
    started.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unit for OpenClawUnit {
    fn name(&self) -> &'static str {
        OPENCLAW
    }

    fn prepare(&self) -> BoxFuture<'static, Result<child::ChildCommand, StartError>> {
        let now = self.now();
        {
            let mut started = self.started();
            started.retry_at = None;
            started.build = None;
            started.proved = None;
        }
        let (home, prepare, started) =
            (self.live.home().clone(), Arc::clone(&self.prepare), Arc::clone(&self.started));
        Box::pin(async move {
            clear(&home).await;
            // Recorded before anything is read. A change that happens meanwhile is then seen by the next check.
            let now = now.await;
            lock_start(&started).basis = now;
            let ready = prepare().await?;
            port::free(ready.port).await.map_err(|error| StartError {
                lasting: Some(Kind::Conflict),
                reason: match error.hint() {
                    Some(_) => format!("{}; it is gateway.port", chain(&error)),
                    None => chain(&error),
                },
            })?;
            prepare_state(&home, &ready.version).await?;
            let folders = Folders { config: &home.openclaw_config(), state: &home.openclaw_state() };
            let program =
                process::program(&OpenClawProgram::from(&ready.version), folders, &ready.environment);
            let mut started = lock_start(&started);
            started.build = Some(ready.version.name());
            started.prepared = Some(ready);
            Ok(program)
        })
    }

    fn port(&self) -> Option<u16> {
        self.started().prepared.as_ref().map(|prepared| prepared.port)
    }

    fn check(&self, process: ProcessId) -> BoxFuture<'static, Result<Health, HealthCheckFailure>> {
        let (started, instance) = (Arc::clone(&self.started), self.instance.clone());
        let home = self.live.home().clone();
        Box::pin(async move {
            let unseen = |reason| HealthCheckFailure { reason, counts: true };
            // The lock is released before the probe: a guard must not be held across an await.
            let (port, token, version, proved) = {
                let started = lock_start(&started);
                let prepared =
                    started.prepared.as_ref().ok_or_else(|| unseen("it has no port".to_owned()))?;
                (prepared.port, prepared.token.clone(), prepared.version.version.clone(), started.proved)
            };
            let depth = if proved == Some(process) { Depth::Sign } else { Depth::Proof };
            let asked = probe::ask(port, &token, process, depth, CHECK_TIMEOUT).await;
            asked.map_err(|error: ProbeError| unseen(chain(&error)))?;
            if proved != Some(process) {
                let build = {
                    let mut started = lock_start(&started);
                    started.proved = Some(process);
                    started.build.clone().unwrap_or_default()
                };
                // Best effort. Without the record, an update that is interrupted now only has to prove the version
                // again.
                let noted = move || state::record_healthy(&home, &build);
                let _ = tokio::task::spawn_blocking(noted).await;
            }
            Ok(Health {
                reason: None,
                status: "ok".to_owned(),
                version,
                instance,
                pid: process.pid,
                started_at: clock::unix_ms() / 1000,
                proof: None,
            })
        })
    }

    fn build(&self) -> Option<String> {
        self.started().build.clone()
    }

    fn limits(&self, common: SupervisionLimits) -> SupervisionLimits {
        process::limits(&common)
    }

    fn endings(&self) -> &'static ExitRules {
        &process::EXIT_REASONS
    }

    fn is_optional(&self) -> bool {
        true
    }

    fn is_wanted(&self) -> bool {
        agents(&self.live.current()).next().is_some() && versions::current(self.live.home()).is_some()
    }

    fn is_outdated(&self) -> BoxFuture<'static, bool> {
        let (now, started) = (self.now(), Arc::clone(&self.started));
        Box::pin(async move {
            let now = now.await;
            let started = lock_start(&started);
            let is_due = started.retry_at.is_some_and(|at| clock::unix_ms() >= at);
            // Compared by pointer: a configuration that was read again is a new one.
            let same = |(old, was): &(Arc<Config>, u64)| {
                now.as_ref().is_none_or(|(config, digest)| Arc::ptr_eq(old, config) && was == digest)
            };
            is_due || !started.basis.as_ref().is_some_and(same)
        })
    }

    fn refresh(&self) -> BoxFuture<'static, Result<Refresh, StartError>> {
        let (now, home) = (self.now(), self.live.home().clone());
        let (prepare, started) = (Arc::clone(&self.prepare), Arc::clone(&self.started));
        Box::pin(async move {
            let now = now.await;
            let build = {
                let mut started = lock_start(&started);
                started.basis = now;
                started.retry_at = None;
                started.build.clone()
            };
            if versions::current(&home).map(|version| version.name()) != build {
                if home.openclaw_change_file().exists() {
                    // The running update restarts OpenClaw and takes up these changes too. Forgetting the basis makes
                    // the next check come back here in case the update was killed.
                    lock_start(&started).basis = None;
                    return Ok(Refresh::Done);
                }
                return Ok(Refresh::Restart("another version is installed".to_owned()));
            }
            let ready = prepare().await.inspect_err(|unready| {
                // The cause may pass, for example a busy machine or an engine that did not answer, so it is tried again
                // later.
                if unready.lasting.is_none() {
                    lock_start(&started).retry_at = Some(clock::unix_ms() + RETRY_DELAY_MS);
                }
            })?;
            if ready.put == ApplyOutcome::AtNextStart {
                return Ok(Refresh::Restart("it needs a key that it was started without".to_owned()));
            }
            let is_same =
                |last: &PreparedConfig| last.environment == ready.environment && last.port == ready.port;
            let changed = !lock_start(&started).prepared.as_ref().is_some_and(is_same);
            if changed {
                return Ok(Refresh::Restart("its port or one of its keys is another".to_owned()));
            }
            Ok(Refresh::Done)
        })
    }

    fn clear(&self) -> Option<BoxFuture<'static, ()>> {
        let home = self.live.home().clone();
        Some(Box::pin(async move { clear(&home).await }))
    }
}

/// Prepares the state for this version. If the previous version's state can't be copied, the start goes on without a
/// copy. If this version needs its own state back and can't get it, the start fails.
async fn prepare_state(home: &Home, version: &InstalledVersion) -> Result<(), StartError> {
    let is_needed = state::is_restore_pending(home, version);
    let (own, version) = (home.clone(), version.clone());
    // Cancels the copy if this start is cancelled. Otherwise a stop would have to wait for the copy.
    let cancel = CancellationToken::new();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let readied = tokio::task::spawn_blocking(move || state::ready(&own, &version, &cancel)).await;
    let not_copied = |why: String| format!("openclaw: what the version before left is not copied: {why}");
    let text = match readied {
        Ok(Ok(StateOutcome::Same)) => return Ok(()),
        Ok(Ok(StateOutcome::Copied)) => "openclaw: what the version before left is copied".to_owned(),
        Ok(Ok(StateOutcome::TooLarge)) => not_copied("it is too large".to_owned()),
        Ok(Ok(StateOutcome::PutBack)) => "openclaw: its state is the one that this version left".to_owned(),
        Ok(Err(error)) if is_needed => {
            let reason = format!("the state that this version left can't be put back: {}", chain(&error));
            return Err(StartError { reason, lasting: None });
        }
        Ok(Err(error)) => not_copied(chain(&error)),
        Err(error) => not_copied(error.to_string()),
    };
    Journal::new(home, None).note(&text);
    Ok(())
}

/// Removes the containers of OpenClaw's sandboxes. Without an engine there are none. If an engine does not answer in
/// time, the next start or stop removes them.
async fn clear(home: &Home) {
    let engine = Engine::from_env();
    let _ = tokio::time::timeout(CLEAR_TIMEOUT, sandboxes::remove_all(&engine, home)).await;
}

/// Milliseconds until the next attempt to bring it up to date.
const RETRY_DELAY_MS: i64 = 30_000;
/// Time limit for a health answer. OpenClaw does much work on one thread.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for the removal of its containers.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::lock::Lock;

    #[test]
    fn cancelling_a_start_cancels_its_copy() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().canonicalize().unwrap().join("home"), None);
        home.make_folders().unwrap();
        fs_err::create_dir_all(home.openclaw_versions()).unwrap();
        // While another caller holds the lock, the copy would wait for two minutes.
        let held = Lock::try_acquire(&home.openclaw_versions().join("state-owner.lock")).unwrap();
        let version: InstalledVersion = serde_json::from_value(serde_json::json!({
            "version": "2026.9.6", "commit": "0".repeat(40), "reference": "main", "follows": true, "origin": "/o",
            "committedAt": 1, "builtAt": 1, "node": "/n/bin/node", "nodeVersion": "24.0.0",
        }))
        .unwrap();
        let (ended, end) = std::sync::mpsc::channel();
        let stopped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let start = Duration::from_millis(20);
            let ready = runtime.block_on(async {
                tokio::time::timeout(start, prepare_state(&home, &version))
                    .await
                    .map(|readied| readied.is_ok())
            });
            // Dropping the runtime waits for blocking tasks.
            drop(runtime);
            ended.send(ready.is_err()).unwrap();
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true));
        stopped.join().unwrap();
        drop(held);
    }
}
