//! PID files: which process a supervisor, or something it runs, is. Line 1 is `pid starttime`; a supervisor
//! writes where its control socket is on line 2. They are a help to find processes, never a proof that one
//! lives: that is the supervisor's lock. A pid that was used again has another start time.

use std::path::{Path, PathBuf};

use crate::home::{HomeError, atomic};
use crate::process::ProcessId;

/// What a PID file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The process.
    pub process: ProcessId,
    /// Where its control socket is, if it has one that is not at its usual place.
    pub socket: Option<PathBuf>,
}

/// Puts a PID file in place of whatever is there.
///
/// # Errors
///
/// If it can't be written.
pub fn write(path: &Path, record: &Record) -> Result<(), HomeError> {
    let mut text = format!("{}\n", record.process);
    if let Some(socket) = &record.socket {
        text.push_str(&socket.to_string_lossy());
        text.push('\n');
    }
    atomic::write_fleeting(path, text.as_bytes(), 0o600)
}

/// What the file says of a process that still lives. A file that is missing, unreadable, nonsense or stale
/// says nothing.
#[must_use]
pub fn read(path: &Path) -> Option<Record> {
    let bytes = atomic::read(path, 8 << 10).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let process: ProcessId = lines.next()?.parse().ok()?;
    let socket = lines.next().filter(|line| line.starts_with('/')).map(PathBuf::from);
    process.is_alive().then_some(Record { process, socket })
}

/// Removes the file unless it speaks of another living process.
pub fn clear(path: &Path, of: ProcessId) {
    if read(path).is_none_or(|record| record.process == of) {
        // Nothing there is what was wanted.
        let _ = fs_err::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_living_processes_are_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.pid");
        let this = ProcessId::current();
        let record = Record { process: this, socket: Some("/run/x.sock".into()) };
        write(&path, &record).unwrap();
        assert_eq!(read(&path), Some(record));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().next().unwrap(), this.to_string());

        let reused = ProcessId { started: this.started + 1, ..this };
        write(&path, &Record { process: reused, socket: None }).unwrap();
        assert_eq!(read(&path), None, "a pid that was used again");
        for nonsense in ["", "\n", "1", "x y", "-1 5", "99999999999999999999 1", "\0\0"] {
            std::fs::write(&path, nonsense).unwrap();
            assert_eq!(read(&path), None, "{nonsense:?}");
        }
        clear(&path, this);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_of_another_living_process_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.pid");
        let this = ProcessId::current();
        write(&path, &Record { process: this, socket: None }).unwrap();
        clear(&path, ProcessId { pid: this.pid + 1, started: 1 });
        assert!(path.exists());
        clear(&path, this);
        assert!(!path.exists());
    }
}
