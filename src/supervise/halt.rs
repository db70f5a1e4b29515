//! Stopping a home, as whoever wants that sees it: the supervisor is asked; one that does not answer is
//! ended; and what is left of one that was killed is ended, too.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::SUPERVISOR;
use super::control::{Connection, ControlError, Request};
use super::journal::Journal;
use super::leftover::{self, gone};
use super::mark::Mark;
use super::pid;
use super::restart::Limits;
use super::unit::NAMES;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::process::ProcessId;

/// What came of stopping.
#[derive(Clone, Debug, Default)]
pub struct Halted {
    /// Whether there was anything to stop.
    pub was_running: bool,
    /// What would not end.
    pub survivors: Vec<ProcessId>,
    /// Whether the supervisor stopped the gateway in order. Else it did not get to stop its containers.
    pub orderly: bool,
    /// The lock, where nothing is left: as long as it is held nothing can start.
    pub lock: Option<HeldLock>,
}

/// Keeps the home from being started while what stopping still has to do is done.
pub type HeldLock = std::sync::Arc<Lock>;

/// Something about stopping that whoever waits for it should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The supervisor stands still: a signal or a debugger stopped it. It is killed.
    StandsStill(ProcessId),
    /// The supervisor says nothing. It is killed when it still does after this time.
    Silent(ProcessId, Duration),
}

/// As [`halt_telling`], with nobody who is told.
///
/// # Errors
///
/// As [`halt_telling`].
pub async fn halt(home: &Home, limits: &Limits) -> Result<Halted, HomeError> {
    halt_telling(home, limits, &|_| ()).await
}

/// Stops everything of a home. `tell` hears of what makes that take longer.
///
/// # Errors
///
/// If the supervisor's lock can't be looked at. What would not end is no error but in the result.
pub async fn halt_telling(home: &Home, limits: &Limits, tell: &dyn Fn(Notice)) -> Result<Halted, HomeError> {
    let grace = Duration::from_millis(u64::try_from(limits.grace).unwrap_or(0));
    let end = Instant::now() + grace + PATIENCE;
    let mut halted = Halted::default();
    let mut asked: Option<ProcessId> = None;
    loop {
        match Lock::try_acquire(&home.supervisor_lock()) {
            Ok(lock) => {
                let mut journal = Journal::new(home, None);
                halted.was_running |= has_leftover(home);
                halted.survivors = leftover::end(home, &NAMES, limits, &mut journal).await;
                // It lets go of the lock as the last thing it does, but is not gone with that. Where it is a task of
                // the caller's own process, that goes on.
                asked = asked.filter(|one| *one != ProcessId::current());
                halted.survivors.extend(gone(asked.as_slice(), PATIENCE).await);
                for name in NAMES {
                    halted.survivors.extend(leftover::sweep(&Mark::new(home, name), &mut journal).await);
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
        match Connection::open(home).await {
            Ok(mut connection) => {
                let supervisor = connection.pid().and_then(ProcessId::of);
                asked = supervisor.or(asked);
                let stopped = tokio::select! {
                    stopped = connection.ask(Request::Stop, left) => Some(stopped),
                    () = stands_still(home, supervisor, end, tell) => None,
                };
                match stopped {
                    // It broke off when it ended: its lock says whether it has.
                    Some(Ok(_) | Err(ControlError::Broken(_))) => halted.orderly = true,
                    Some(Err(_)) | None => end_supervisor(supervisor, &mut halted).await,
                }
            }
            Err(ControlError::Absent { .. }) if !left.is_zero() => {}
            Err(_) => {
                let listed = pid::read(&home.pid_file(SUPERVISOR)).map(|record| record.process);
                halted.survivors.extend(listed);
                return Ok(halted);
            }
        }
        if !halted.survivors.is_empty() {
            return Ok(halted);
        }
        // It is about to begin or to end.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Returns when a supervisor that was asked to stop stands still: nothing will come of it. Tells of that, and of one that
/// says nothing to anybody.
async fn stands_still(home: &Home, supervisor: Option<ProcessId>, end: Instant, tell: &dyn Fn(Notice)) {
    let Some(supervisor) = supervisor else { return std::future::pending().await };
    let (began, mut told) = (Instant::now(), false);
    loop {
        if supervisor.is_stopped() {
            return tell(Notice::StandsStill(supervisor));
        }
        if !told && began.elapsed() >= QUIET {
            told = true;
            // One that is only busy with stopping answers others meanwhile.
            let answers = match Connection::open(home).await {
                Ok(mut other) => other.ask(Request::Status, QUIET).await.is_ok(),
                Err(_) => true,
            };
            if !answers && !supervisor.is_stopped() {
                tell(Notice::Silent(supervisor, end.saturating_duration_since(Instant::now())));
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends a supervisor that does not answer; who it is was learnt from the kernel, through its socket.
async fn end_supervisor(supervisor: Option<ProcessId>, halted: &mut Halted) {
    halted.orderly = false;
    let Some(supervisor) = supervisor else { return };
    // One that stands still hears nothing else.
    let polite = (!supervisor.is_stopped()).then_some((Signal::SIGTERM, PATIENCE));
    for (signal, limit) in polite.into_iter().chain([(Signal::SIGKILL, PATIENCE)]) {
        if supervisor.is_alive() {
            let _ = kill(Pid::from_raw(supervisor.pid), signal);
        }
        if gone(&[supervisor], limit).await.is_empty() {
            return;
        }
    }
    halted.survivors.push(supervisor);
}

/// Whether a process of the home lives although no supervisor does.
fn has_leftover(home: &Home) -> bool {
    NAMES.iter().any(|name| {
        let record = pid::read(&home.pid_file(name));
        record.is_some_and(|record| Mark::new(home, name).is_on(record.process))
    })
}

/// How long is waited for what should come at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a supervisor may say nothing before that is told.
const QUIET: Duration = Duration::from_secs(3);
/// How often is looked whether it stands still.
const LOOK: Duration = Duration::from_millis(100);
