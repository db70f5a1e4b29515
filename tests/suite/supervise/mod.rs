//! Starting, supervising and stopping, with the real binary and the real gateway.

mod life;
mod logs;
mod ports;
mod service;
mod standin;
mod trouble;

use std::path::PathBuf;
use std::time::Duration;

use flock::home::Home;
use flock::process::ProcessId;
use flock::supervise::env_marker::EnvMarker;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::home::TempHome;
use crate::support::wait_until;

/// How long anything may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A home whose processes are ended with the value, whatever the test did.
struct Flock {
    home: TempHome,
}

impl std::ops::Deref for Flock {
    type Target = TempHome;

    fn deref(&self) -> &TempHome {
        &self.home
    }
}

impl Drop for Flock {
    fn drop(&mut self) {
        self.home.flock(["stop"]);
        for process in self.processes() {
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
        }
    }
}

impl Flock {
    fn new() -> Self {
        Self { home: TempHome::new().init() }
    }

    fn started() -> Self {
        let flock = Self::new();
        flock.flock(["start"]).ok();
        flock
    }

    fn place(&self) -> Home {
        Home::new(self.path(), None)
    }

    fn status(&self) -> Value {
        self.flock(["status", "--json"]).json()
    }

    fn gateway(&self) -> i32 {
        pid(&self.status()["gateway"]["pid"])
    }

    fn supervisor(&self) -> i32 {
        pid(&self.status()["supervisor"]["pid"])
    }

    /// Waits until the status is as wanted.
    fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        wait_until(what, LONG, || {
            let status = self.status();
            if wanted(&status) { Ok(status) } else { Err(format!("{status:#}\n{}", self.log("supervisor"))) }
        })
    }

    /// All processes that this home's supervisors started.
    fn processes(&self) -> Vec<ProcessId> {
        EnvMarker::new(&self.place(), "gateway").bearers()
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(PathBuf::from("logs").join(format!("{name}.log"))))
            .unwrap_or_default()
    }

    /// Fails unless nothing of this home runs and its port is free.
    #[track_caller]
    fn is_gone(&self) {
        assert_eq!(self.processes(), [], "{}", self.log("supervisor"));
        std::net::TcpListener::bind(("127.0.0.1", self.port())).expect("the port is free");
        for file in ["gateway.pid", "supervisor.pid", "control.sock"] {
            assert!(!self.file("run").join(file).exists(), "{file}");
        }
        assert!(!flock::home::lock::Lock::is_held(&self.place().supervisor_lock()).unwrap());
    }
}

fn pid(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap_or_else(|| panic!("no pid: {value}"))).unwrap()
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn gone(pid: i32) {
    wait_until("the process is gone", LONG, || match ProcessId::of(pid) {
        None => Ok(()),
        Some(alive) => Err(format!("{alive} lives")),
    });
}
