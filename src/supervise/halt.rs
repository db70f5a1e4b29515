//! Stopping a home from the outside.
//!
//! The supervisor is asked to stop. If it does not answer, it is killed. Processes that a killed supervisor left behind
//! are killed too.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::SUPERVISOR;
use super::control::{ControlConnection, ControlError, ControlRequest};
use super::env_marker::EnvMarker;
use super::journal::Journal;
use super::orphans::{self, gone};
use super::pid_file;
use super::restart::SupervisionLimits;
use super::unit::NAMES;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::process::{ProcessId, table};

/// The result of stopping.
#[derive(Clone, Debug, Default)]
pub struct HaltResult {
    /// Set if anything was running.
    pub was_running: bool,
    /// Processes that could not be killed.
    pub survivors: Vec<ProcessId>,
    /// Set if the supervisor stopped the gateway in order. Otherwise the gateway's containers may still run.
    pub orderly: bool,
    /// The supervisor's lock, if nothing is left. While it is held, nothing can start.
    pub lock: Option<HeldLock>,
}

/// A lock that keeps the home from being started while the caller finishes its work.
pub(crate) type HeldLock = std::sync::Arc<Lock>;

/// A reason for which stopping takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HaltNotice {
    /// A signal or a debugger has stopped the supervisor. It is killed.
    StandsStill(ProcessId),
    /// The supervisor does not answer. It is killed if it stays silent for this time.
    Silent(ProcessId, Duration),
}

/// Stops everything of a home, as [`halt_with_notices`] does, without reporting delays.
///
/// # Errors
///
/// Returns an error if the supervisor's lock can't be checked.
pub async fn halt(home: &Home, limits: &SupervisionLimits) -> Result<HaltResult, HomeError> {
    halt_with_notices(home, limits, &|_| ()).await
}

/// Stops everything of a home. Calls `tell` with each reason for a delay.
///
/// # Errors
///
/// Returns an error if the supervisor's lock can't be checked. Processes that could not be killed are not an error but
/// part of the result.
pub(crate) async fn halt_with_notices(
    home: &Home,
    limits: &SupervisionLimits,
    tell: &dyn Fn(HaltNotice),
) -> Result<HaltResult, HomeError> {
    let grace = Duration::from_millis(u64::try_from(limits.grace).unwrap_or(0));
    let end = Instant::now() + grace + STEP_TIMEOUT;
    let mut halted = HaltResult::default();
    let mut asked: Option<ProcessId> = None;
    loop {
        match Lock::try_acquire(&home.supervisor_lock()) {
            // The lock is free, so no supervisor runs. What remains are processes without one.
            Ok(lock) => {
                let mut journal = Journal::new(home, None);
                halted.was_running |= has_orphans(home);
                halted.survivors = orphans::end(home, &NAMES, limits, &mut journal).await;
                // The supervisor releases the lock as its last act, but may still exist for a moment. If it is a task
                // of this very process, it will not end.
                asked = asked.filter(|one| *one != ProcessId::current());
                halted.survivors.extend(gone(asked.as_slice(), STEP_TIMEOUT).await);
                for name in NAMES {
                    // `orphans::end` skips names without a PID file. This finds all marked processes.
                    halted.survivors.extend(orphans::sweep(&EnvMarker::new(home, name), &mut journal).await);
                }
                halted.survivors.sort_unstable_by_key(|one| one.pid);
                halted.survivors.dedup();
                let _ = fs_err::remove_file(home.pid_file(SUPERVISOR));
                let _ = fs_err::remove_file(home.control_socket());
                halted.lock = Some(HeldLock::new(lock));
                return Ok(halted);
            }
            Err(HomeError::Held { .. }) => {}
            Err(error) => return Err(error),
        }
        halted.was_running = true;
        let left = end.saturating_duration_since(Instant::now());
        match ControlConnection::open(home).await {
            Ok(mut connection) => {
                let supervisor = connection.pid().and_then(ProcessId::of);
                asked = supervisor.or(asked);
                let stopped = tokio::select! {
                    stopped = connection.ask(ControlRequest::Stop, left) => Some(stopped),
                    () = watch_suspended(home, supervisor, end, tell) => None,
                };
                match stopped {
                    // A broken connection can mean that it ended. The lock shows whether it has.
                    Some(Ok(_) | Err(ControlError::Broken(_))) => halted.orderly = true,
                    Some(Err(_)) | None => kill_supervisor(supervisor, &mut halted).await,
                }
            }
            // The lock is held but nobody listens: the supervisor is starting or ending.
            Err(ControlError::Absent { .. }) if !left.is_zero() => {}
            Err(_) => {
                let listed = pid_file::read(&home.pid_file(SUPERVISOR)).map(|record| record.process);
                halted.survivors.extend(listed);
                return Ok(halted);
            }
        }
        if !halted.survivors.is_empty() {
            return Ok(halted);
        }
        // The supervisor is about to start or to end.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Returns once a supervisor that was asked to stop is itself stopped by a signal, because then it will never comply.
/// Reports that through `tell`, and also a supervisor that answers nobody.
async fn watch_suspended(
    home: &Home,
    supervisor: Option<ProcessId>,
    end: Instant,
    tell: &dyn Fn(HaltNotice),
) {
    let Some(supervisor) = supervisor else { return std::future::pending().await };
    let (began, mut told) = (Instant::now(), false);
    loop {
        if supervisor.is_stopped() {
            return tell(HaltNotice::StandsStill(supervisor));
        }
        if !told && began.elapsed() >= SILENCE_LIMIT {
            told = true;
            // A supervisor that is merely busy stopping still answers other requests.
            let answers = match ControlConnection::open(home).await {
                Ok(mut other) => other.ask(ControlRequest::Status, SILENCE_LIMIT).await.is_ok(),
                Err(_) => true,
            };
            if !answers && !supervisor.is_stopped() {
                tell(HaltNotice::Silent(supervisor, end.saturating_duration_since(Instant::now())));
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Kills a supervisor that does not answer. The kernel reported its identity through the socket.
async fn kill_supervisor(supervisor: Option<ProcessId>, halted: &mut HaltResult) {
    halted.orderly = false;
    let Some(supervisor) = supervisor else { return };
    // A stopped process reacts to SIGKILL only.
    let polite = (!supervisor.is_stopped()).then_some((Signal::SIGTERM, STEP_TIMEOUT));
    for (signal, limit) in polite.into_iter().chain([(Signal::SIGKILL, STEP_TIMEOUT)]) {
        let _ = table::signal(supervisor, signal);
        if gone(&[supervisor], limit).await.is_empty() {
            return;
        }
    }
    halted.survivors.push(supervisor);
}

/// Returns `true` if a process of the home is alive although no supervisor is.
fn has_orphans(home: &Home) -> bool {
    NAMES.iter().any(|name| {
        let record = pid_file::read(&home.pid_file(name));
        record.is_some_and(|record| EnvMarker::new(home, name).is_on(record.process))
    })
}

/// The time allowed for something that should happen at once.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// The time of silence after which a supervisor is reported as silent.
const SILENCE_LIMIT: Duration = Duration::from_secs(3);
/// The pause between two checks for a stopped supervisor.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
