//! What an earlier supervisor left when it was killed: processes of this home that nobody watches. They end
//! by themselves soon, since their tether is cut; a new supervisor does not start anything beside them.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::journal::Journal;
use super::mark::Mark;
use super::pid;
use super::restart::Limits;
use crate::home::Home;
use crate::process::ProcessId;

/// Ends what is left of the processes with these names. Call it only with the supervisor's lock held.
/// What could not be ended is given back.
pub async fn end(home: &Home, names: &[&str], limits: &Limits, journal: &mut Journal<'_>) -> Vec<ProcessId> {
    let mut survivors = Vec::new();
    for name in names {
        let path = home.pid_file(name);
        if !path.exists() {
            // Every start writes one, and every orderly end removes it.
            continue;
        }
        survivors.extend(end_one(home, name, limits, journal).await);
        let _ = fs_err::remove_file(&path);
    }
    survivors
}

async fn end_one(home: &Home, name: &str, limits: &Limits, journal: &mut Journal<'_>) -> Vec<ProcessId> {
    let mark = Mark::new(home, name);
    let leader = pid::read(&home.pid_file(name)).map(|record| record.process);
    if let Some(leader) = leader.filter(|leader| mark.is_on(*leader)) {
        journal.note(&format!("ending {name} of an earlier supervisor, pid {}", leader.pid));
        signal(leader, Signal::SIGTERM);
        gone(&[leader], Duration::from_millis(u64::try_from(limits.grace).unwrap_or(0))).await;
        if mark.is_on(leader) {
            let _ = killpg(Pid::from_raw(leader.pid), Signal::SIGKILL);
        }
    }
    sweep(&mark, journal).await
}

/// Kills every process that bears the mark; gives back those that would not die.
pub async fn sweep(mark: &Mark, journal: &mut Journal<'_>) -> Vec<ProcessId> {
    let end = Instant::now() + SWEEP;
    loop {
        let bearers = mark.bearers();
        for bearer in &bearers {
            journal.note(&format!("killing what is left: pid {}", bearer.pid));
            signal(*bearer, Signal::SIGKILL);
        }
        let left = end.saturating_duration_since(Instant::now());
        let survivors = gone(&bearers, left).await;
        // One may have started another between the look and its end: it is over when a look finds none.
        if bearers.is_empty() || left.is_zero() {
            return survivors;
        }
    }
}

/// How long what is killed may take to be gone.
const SWEEP: Duration = Duration::from_secs(5);

/// Waits until none of these processes lives, at most `limit`; gives back those that do.
pub async fn gone(processes: &[ProcessId], limit: Duration) -> Vec<ProcessId> {
    let end = Instant::now() + limit;
    loop {
        let alive: Vec<ProcessId> = processes.iter().copied().filter(|one| one.is_alive()).collect();
        if alive.is_empty() || Instant::now() >= end {
            return alive;
        }
        // They are not our children: their end can only be looked for.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Signals exactly this process.
fn signal(process: ProcessId, signal: Signal) {
    if process.is_alive() {
        let _ = kill(Pid::from_raw(process.pid), signal);
    }
}
