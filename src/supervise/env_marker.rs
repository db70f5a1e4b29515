//! The environment variable that marks supervised processes.
//!
//! Every process that a supervisor starts carries it, and so does everything that such a process starts in turn. Its
//! value names the process and the home. With it flock finds orphans of a home, and checks a PID file without ever
//! sending a signal to a process that is not its own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use crate::env;
use crate::home::Home;
use crate::process::{ProcessId, table};

/// The mark of one supervised process of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvMarker {
    value: OsString,
}

impl EnvMarker {
    /// Returns the mark of the process `name`.
    #[must_use]
    pub fn new(home: &Home, name: &str) -> Self {
        let mut value = OsString::from(name);
        value.push("@");
        value.push(home.root());
        Self { value }
    }

    /// Returns the environment variable and its value.
    #[must_use]
    pub fn variable(&self) -> (OsString, OsString) {
        (env::SUPERVISED.name.into(), self.value.clone())
    }

    /// Returns `true` if exactly this process is alive and carries the mark. Returns `false` if its environment can't
    /// be read.
    #[must_use]
    pub(crate) fn is_on(&self, process: ProcessId) -> bool {
        let entry = self.entry();
        // The start time is checked before and after the environment is read: a pid that was reused in between does not
        // pass.
        process.is_alive() && table::has_env_entry(process.pid, |one| one == entry) && process.is_alive()
    }

    /// Returns all living processes with this mark, except this process and its ancestors.
    #[must_use]
    pub fn bearers(&self) -> Vec<ProcessId> {
        let entry = self.entry();
        table::find_by_env(|one| one == entry)
    }

    fn entry(&self) -> Vec<u8> {
        [env::SUPERVISED.name.as_bytes(), b"=", self.value.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_the_marked_process_is_found() {
        let home = Home::new("/tmp/flock-mark-test".into(), None);
        let mark = EnvMarker::new(&home, "gateway");
        let (name, value) = mark.variable();
        let mut child = Command::new("cat")
            .env(name, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        // `spawn` returns when the child has let go of our memory, which is before the kernel has laid out its environment.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !mark.is_on(process) {
            assert!(Instant::now() < deadline, "the child does not bear the mark");
            std::thread::yield_now();
        }
        assert!(!mark.is_on(ProcessId { started: process.started + 1, ..process }), "a reused pid");
        assert!(!EnvMarker::new(&home, "gate").is_on(process));
        assert!(!mark.is_on(ProcessId::current()));
        assert_eq!(mark.bearers(), [process]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(mark.bearers().is_empty());
    }
}
