//! Identities of processes. A pid alone is not one, because pids are reused.

pub mod subreaper;
pub(crate) mod table;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::env;

static OWN_EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path of flock's own program, for another program that runs flock as a library, as tests do.
pub fn set_own_executable(path: PathBuf) {
    // A process has one. The first call counts.
    let _ = OWN_EXECUTABLE.set(path);
}

/// Returns the path of flock's own program. It leads to the file from which this process was started, even if an update has
/// replaced that file since.
#[must_use]
pub(crate) fn own_executable() -> PathBuf {
    OWN_EXECUTABLE.get().cloned().unwrap_or_else(|| "/proc/self/exe".into())
}

/// Returns the login name of the user that runs this process.
#[must_use]
pub fn login() -> String {
    // The number is the last resort, for a user without an entry in the user database.
    let of_uid = || nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.name);
    env::USER.get().or_else(of_uid).unwrap_or_else(|| nix::unistd::getuid().to_string())
}

/// Returns the name of this machine.
#[must_use]
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A pid and the start time of the process, which together identify it: two processes with the same pid have different
/// start times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    pub pid: i32,
    /// Clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub started: u64,
}

impl ProcessId {
    /// Returns the process with this pid if it is running. A zombie counts as ended.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        started(pid).map(|started| Self { pid, started })
    }

    /// Returns this process.
    #[must_use]
    pub fn current() -> Self {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Self::of(pid).unwrap_or(Self { pid, started: 0 })
    }

    /// Returns `true` if exactly this process is still running.
    #[must_use]
    pub fn is_alive(self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Returns `true` if exactly this process is stopped, by a signal or by a debugger. It then reacts to SIGKILL only.
    #[must_use]
    pub(crate) fn is_stopped(self) -> bool {
        // The states are T for "stopped by a signal" and t for "stopped by a debugger".
        self.is_alive()
            && stat(self.pid).is_some_and(|stat| matches!(stat.split_whitespace().next(), Some("T" | "t")))
    }
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

/// Returns `true` if the process `pid` is `from` or a descendant of it.
#[must_use]
pub fn descends(pid: i32, from: ProcessId) -> bool {
    let mut line = vec![pid];
    while let Some(last) = line.last().copied().filter(|pid| *pid > 1) {
        if last == from.pid {
            return from.is_alive();
            // Pids can be reused during this walk, so a circle is possible and must end it.
        }
        match parent(last) {
            Some(parent) if !line.contains(&parent) => line.push(parent),
            _ => return false,
        }
    }
    false
}

/// Returns the parent of a process: the one that started it, or the one that adopted it when that ended.
#[must_use]
pub fn parent(pid: i32) -> Option<i32> {
    stat(pid)?.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the fields of `/proc/<pid>/stat` from the state, field 3, on.
fn stat(pid: i32) -> Option<String> {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may itself contain spaces and parentheses.
    Some(stat.rsplit_once(')')?.1.to_owned())
}

fn started(pid: i32) -> Option<u64> {
    let stat = stat(pid).filter(|_| pid > 0)?;
    let fields: Vec<&str> = stat.split_whitespace().collect();
    // The state, field 3 of the file, is the first one here, so field 22 is at index 19.
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
    fn invalid_pids_are_rejected() {
        assert!(ProcessId::of(0).is_none());
        assert!(ProcessId::of(-1).is_none());
        assert!("".parse::<ProcessId>().is_err());
        assert!("12".parse::<ProcessId>().is_err());
    }
}
