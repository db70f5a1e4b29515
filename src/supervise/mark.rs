//! The mark that everything a supervisor starts carries in its environment, and so does whatever that
//! starts in turn: which process it is, of which home. By it flock finds what is left of a home, and knows
//! whether a PID file tells the truth, without signalling anybody else's process.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use crate::env;
use crate::home::Home;
use crate::process::{self, ProcessId};

/// The mark of one supervised process of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    value: OsString,
}

impl Mark {
    /// The mark of the process `name`.
    #[must_use]
    pub fn new(home: &Home, name: &str) -> Self {
        let mut value = OsString::from(name);
        value.push("@");
        value.push(home.root());
        Self { value }
    }

    /// The environment variable and its value.
    #[must_use]
    pub fn variable(&self) -> (OsString, OsString) {
        (env::SUPERVISED.name.into(), self.value.clone())
    }

    /// Whether exactly this process lives and carries the mark. Where its environment can't be read it
    /// does not.
    #[must_use]
    pub fn is_on(&self, process: ProcessId) -> bool {
        let entry = self.entry();
        // Read between two looks at the start time: a pid that was used again in between does not pass.
        process.is_alive()
            && environment(process.pid).is_some_and(|all| carries(&all, &entry))
            && process.is_alive()
    }

    /// All living processes that carry the mark, but for this one and its ancestors.
    #[must_use]
    pub fn bearers(&self) -> Vec<ProcessId> {
        let entry = self.entry();
        let spared = lineage();
        all_pids()
            .into_iter()
            .filter(|pid| !spared.contains(pid))
            .filter_map(ProcessId::of)
            .filter(|process| environment(process.pid).is_some_and(|all| carries(&all, &entry)))
            .filter(|process| process.is_alive())
            .collect()
    }

    fn entry(&self) -> Vec<u8> {
        [env::SUPERVISED.name.as_bytes(), b"=", self.value.as_bytes()].concat()
    }
}

fn carries(environment: &[u8], entry: &[u8]) -> bool {
    environment.split(|byte| *byte == 0).any(|one| one == entry)
}

/// This process and those it descends from: `flock stop` may itself be run by an agent.
fn lineage() -> Vec<i32> {
    let mut line = vec![ProcessId::current().pid];
    while let Some(parent) = line.last().and_then(|pid| process::parent(*pid)).filter(|pid| *pid > 1) {
        if line.contains(&parent) {
            break;
        }
        line.push(parent);
    }
    line
}

#[cfg(target_os = "linux")]
fn environment(pid: i32) -> Option<Vec<u8>> {
    let read = |file: &str| fs_err::read(format!("/proc/{pid}/{file}")).ok();
    for _ in 0..EXEC_LOOKS {
        let environment = read("environ")?;
        // In the middle of an exec a process has neither an environment nor arguments for a moment, and a
        // look just then would miss one of ours.
        if !environment.is_empty() || !read("cmdline")?.is_empty() || Stat::of(pid)?.has_no_memory() {
            return Some(environment);
        }
        std::thread::sleep(EXEC_PAUSE);
    }
    None
}

/// How often, and how far apart, a process is looked at that seems to be in the middle of an exec.
#[cfg(target_os = "linux")]
const EXEC_LOOKS: u32 = 20;
#[cfg(target_os = "linux")]
const EXEC_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// What `/proc/<pid>/stat` says, of what is needed here.
#[cfg(target_os = "linux")]
struct Stat {
    state: char,
    flags: u64,
}

#[cfg(target_os = "linux")]
impl Stat {
    fn of(pid: i32) -> Option<Self> {
        let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let flags = fields.nth(5)?.parse().ok()?;
        Some(Self { state, flags })
    }

    /// Whether it is dead, or the kernel's own: such a process has no environment for good.
    const fn has_no_memory(&self) -> bool {
        /// `PF_KTHREAD` of the kernel's `sched.h`.
        const KERNEL_THREAD: u64 = 0x0020_0000;
        matches!(self.state, 'Z' | 'X') || self.flags & KERNEL_THREAD != 0
    }
}

#[cfg(target_os = "linux")]
fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs_err::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(not(target_os = "linux"))]
fn system() -> Option<sysinfo::System> {
    use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, UpdateKind};
    let mut system = sysinfo::System::new().ok()?;
    let kind = ProcessRefreshKind::nothing().with_environ(UpdateKind::Always).without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    Some(system)
}

#[cfg(not(target_os = "linux"))]
fn with_process<T>(pid: i32, look: impl FnOnce(&sysinfo::Process) -> T) -> Option<T> {
    let system = system()?;
    system.process(sysinfo::Pid::from_u32(u32::try_from(pid).ok()?)).map(look)
}

#[cfg(not(target_os = "linux"))]
fn environment(pid: i32) -> Option<Vec<u8>> {
    with_process(pid, |process| {
        let entries: Vec<&[u8]> = process.environ().iter().map(|entry| entry.as_bytes()).collect();
        entries.join(&0)
    })
}

#[cfg(not(target_os = "linux"))]
fn all_pids() -> Vec<i32> {
    system().map_or_else(Vec::new, |system| {
        system.processes().keys().filter_map(|pid| i32::try_from(pid.as_u32()).ok()).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_the_marked_process_bears_the_mark() {
        let home = Home::new("/tmp/flock-mark-test".into(), None);
        let mark = Mark::new(&home, "gateway");
        let (name, value) = mark.variable();
        let mut child = Command::new("cat")
            .env(name, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(mark.is_on(process));
        assert!(!mark.is_on(ProcessId { started: process.started + 1, ..process }), "a reused pid");
        assert!(!Mark::new(&home, "gate").is_on(process));
        assert!(!mark.is_on(ProcessId::current()));
        assert_eq!(mark.bearers(), [process]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(mark.bearers().is_empty());
    }
}
