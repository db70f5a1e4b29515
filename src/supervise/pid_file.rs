//! PID files of supervisors and the processes they run.
//!
//! Line 1 is `pid starttime`. Line 2 of a supervisor's file is the path of its control socket, if that is not in the
//! usual place. PID files help to find a process but never prove that it is alive: the proof is the supervisor's lock.
//! A pid that was reused has another start time.

use std::path::{Path, PathBuf};

use crate::home::{HomeError, atomic};
use crate::process::ProcessId;

/// The content of a PID file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PidRecord {
    pub process: ProcessId,
    /// The path of its control socket, if that is not in the usual place.
    pub socket: Option<PathBuf>,
}

/// Writes a PID file and replaces an existing one.
///
/// # Errors
///
/// Returns an error if the file can't be written.
pub fn write(path: &Path, record: &PidRecord) -> Result<(), HomeError> {
    let mut text = format!("{}\n", record.process);
    if let Some(socket) = &record.socket {
        text.push_str(&socket.to_string_lossy());
        text.push('\n');
    }
    atomic::write_unsynced(path, text.as_bytes(), 0o600)
}

/// Reads a PID file. Returns `None` if it is missing, unreadable or invalid, or if its process is no longer alive.
#[must_use]
pub fn read(path: &Path) -> Option<PidRecord> {
    let bytes = atomic::read(path, 8 << 10).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let process: ProcessId = lines.next()?.parse().ok()?;
    let socket = lines.next().filter(|line| line.starts_with('/')).map(PathBuf::from);
    process.is_alive().then_some(PidRecord { process, socket })
}

/// Removes a PID file unless it names another living process.
pub fn clear(path: &Path, of: ProcessId) {
    if read(path).is_none_or(|record| record.process == of) {
        // A file that is missing already is fine.
        let _ = fs_err::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_living_processes_are_returned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.pid");
        let this = ProcessId::current();
        let record = PidRecord { process: this, socket: Some("/run/x.sock".into()) };
        write(&path, &record).unwrap();
        assert_eq!(read(&path), Some(record));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().next().unwrap(), this.to_string());

        let reused = ProcessId { started: this.started + 1, ..this };
        write(&path, &PidRecord { process: reused, socket: None }).unwrap();
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
        write(&path, &PidRecord { process: this, socket: None }).unwrap();
        clear(&path, ProcessId { pid: this.pid + 1, started: 1 });
        assert!(path.exists());
        clear(&path, this);
        assert!(!path.exists());
    }
}
