//! Who a process is: its pid alone does not say, because pids are used again.

pub mod table;

use std::fmt;
use std::str::FromStr;

use crate::env;

/// The login of who runs this process.
#[must_use]
pub fn login() -> String {
    let of_uid = || nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.name);
    env::USER.get().or_else(of_uid).unwrap_or_else(|| nix::unistd::getuid().to_string())
}

/// A process and the moment it began, in clock ticks since boot (`/proc/<pid>/stat`, field 22) or, where
/// there is no `/proc`, in seconds since the epoch. Two processes with the same pid differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// The pid.
    pub pid: i32,
    /// When it began.
    pub started: u64,
}

impl ProcessId {
    /// The process with this pid, if there is one that still runs. A zombie has ended.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        started(pid).map(|started| Self { pid, started })
    }

    /// This process.
    #[must_use]
    pub fn current() -> Self {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Self::of(pid).unwrap_or(Self { pid, started: 0 })
    }

    /// Whether exactly this process still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

impl ProcessId {
    /// Whether exactly this process stands still: it was stopped by a signal, or is in a debugger's hands. It hears no
    /// signal then but the one that kills.
    #[must_use]
    pub fn is_stopped(self) -> bool {
        self.is_alive() && stands_still(self.pid)
    }
}

#[cfg(target_os = "linux")]
fn stands_still(pid: i32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| matches!(rest.split_whitespace().next(), Some("T" | "t")))
}

#[cfg(not(target_os = "linux"))]
fn stands_still(pid: i32) -> bool {
    use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};
    let Some(pid) = u32::try_from(pid).ok().map(Pid::from_u32) else { return false };
    let Ok(mut system) = System::new() else { return false };
    let kind = ProcessRefreshKind::nothing().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    let stopped = |status| matches!(status, ProcessStatus::Stop | ProcessStatus::Tracing);
    system.process(pid).is_some_and(|process| stopped(process.status()))
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.started)
    }
}

impl FromStr for ProcessId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().unwrap_or_default();
        Ok(Self { pid: word().parse()?, started: word().parse()? })
    }
}

/// Whether a process is this one or descends from it.
#[must_use]
pub fn descends(pid: i32, from: ProcessId) -> bool {
    let mut line = vec![pid];
    while let Some(last) = line.last().copied().filter(|pid| *pid > 1) {
        if last == from.pid {
            return from.is_alive();
        }
        match parent(last) {
            Some(parent) if !line.contains(&parent) => line.push(parent),
            _ => return false,
        }
    }
    false
}

/// The process that this one was started by, or that took it over when that ended.
#[must_use]
pub fn parent(pid: i32) -> Option<i32> {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn started(pid: i32) -> Option<u64> {
    if pid <= 0 {
        return None;
    }
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    match fields.first()? {
        &"Z" | &"X" => None,
        _ => fields.get(19)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_text_parses_back() {
        let this = ProcessId::current();
        assert!(this.is_alive());
        assert_eq!(this.to_string().parse::<ProcessId>().unwrap(), this);
        let other = ProcessId { started: this.started + 1, ..this };
        assert!(!other.is_alive(), "a pid that was used again is another process");
    }

    #[test]
    fn a_child_descends_from_its_parents() {
        let this = ProcessId::current();
        let above = parent(this.pid).and_then(ProcessId::of).unwrap();
        assert!(descends(this.pid, this) && descends(this.pid, above));
        assert!(!descends(above.pid, this));
        assert!(
            !descends(this.pid, ProcessId { started: this.started + 1, ..this }),
            "a pid that was used again"
        );
        assert!(!descends(0, this) && !descends(-1, this));
    }

    #[test]
    fn nonsense_is_no_process() {
        assert!(ProcessId::of(0).is_none());
        assert!(ProcessId::of(-1).is_none());
        assert!("".parse::<ProcessId>().is_err());
        assert!("12".parse::<ProcessId>().is_err());
    }
}
