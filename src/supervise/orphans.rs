//! Orphans of an earlier supervisor that was killed: processes of this home that nobody supervises.
//!
//! They soon end by themselves, because the pipe from their supervisor is closed. A new supervisor still ends them
//! first, so that nothing runs twice.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::env_marker::EnvMarker;
use super::journal::Journal;
use super::pid_file;
use super::restart::SupervisionLimits;
use crate::home::Home;
use crate::process::{ProcessId, table};

/// Ends the remaining processes with these names, and returns those that could not be killed. The caller must hold the
/// supervisor's lock.
pub(crate) async fn end(
    home: &Home,
    names: &[&str],
    limits: &SupervisionLimits,
    journal: &mut Journal<'_>,
) -> Vec<ProcessId> {
    let mut survivors = Vec::new();
    for name in names {
        let path = home.pid_file(name);
        if !path.exists() {
            // Every start writes a PID file and every orderly end removes it, so nothing is left to end.
            continue;
        }
        survivors.extend(end_one(home, name, limits, journal).await);
        let _ = fs_err::remove_file(&path);
    }
    survivors
}

async fn end_one(
    home: &Home,
    name: &str,
    limits: &SupervisionLimits,
    journal: &mut Journal<'_>,
) -> Vec<ProcessId> {
    let mark = EnvMarker::new(home, name);
    let leader = pid_file::read(&home.pid_file(name)).map(|record| record.process);
    if let Some(leader) = leader.filter(|leader| mark.is_on(*leader)) {
        journal.note(&format!("ending {name} of an earlier supervisor, pid {}", leader.pid));
        let _ = table::signal(leader, Signal::SIGTERM);
        // The pid may have been reused meanwhile, so check the mark again before killing a whole group.
        gone(&[leader], Duration::from_millis(u64::try_from(limits.grace).unwrap_or(0))).await;
        if mark.is_on(leader) {
            let _ = killpg(Pid::from_raw(leader.pid), Signal::SIGKILL);
        }
    }
    sweep(&mark, journal).await
}

/// Kills all processes with this mark, and returns those that could not be killed.
pub(crate) async fn sweep(mark: &EnvMarker, journal: &mut Journal<'_>) -> Vec<ProcessId> {
    let end = Instant::now() + KILL_TIMEOUT;
    loop {
        let bearers = mark.bearers();
        for bearer in &bearers {
            journal.note(&format!("killing what is left: pid {}", bearer.pid));
            let _ = table::signal(*bearer, Signal::SIGKILL);
        }
        let left = end.saturating_duration_since(Instant::now());
        let survivors = gone(&bearers, left).await;
        // A process may have started another before it died. Only a search without a match ends this.
        if bearers.is_empty() || left.is_zero() {
            return survivors;
        }
    }
}

/// The time that killed processes may take to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits at most `limit` until none of the processes is alive, and returns those that still are.
pub(crate) async fn gone(processes: &[ProcessId], limit: Duration) -> Vec<ProcessId> {
    let end = Instant::now() + limit;
    loop {
        let alive: Vec<ProcessId> = processes.iter().copied().filter(|one| one.is_alive()).collect();
        if alive.is_empty() || Instant::now() >= end {
            return alive;
        }
        // They are not children of this process, so their end can only be polled.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
