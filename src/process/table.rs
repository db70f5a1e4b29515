//! Operations on all processes of the machine: search by environment, search by descent, and killing many at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ProcessId;

/// Returns `true` if a process has a matching entry, `NAME=value`, in its environment. Returns `false` if the
/// environment can't be read.
#[must_use]
pub(crate) fn has_env_entry(pid: i32, is_one: impl Fn(&[u8]) -> bool) -> bool {
    environment(pid).is_some_and(|all| all.split(|byte| *byte == 0).any(is_one))
}

/// Returns all living processes with a matching entry in their environment.
///
/// This process and its ancestors are left out: flock itself may run below a process that it searches for.
#[must_use]
pub(crate) fn find_by_env(is_one: impl Fn(&[u8]) -> bool) -> Vec<ProcessId> {
    let spared = self_and_ancestors();
    all_pids()
        .into_iter()
        .filter(|pid| !spared.contains(pid))
        .filter_map(ProcessId::of)
        .filter(|process| has_env_entry(process.pid, &is_one))
        .filter(|process| process.is_alive())
        .collect()
}

/// Returns all living descendants of `root`, except spared ones and their descendants.
#[must_use]
pub(crate) fn below(root: ProcessId, is_spared: impl Fn(i32) -> bool) -> Vec<ProcessId> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in parent_pids() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut open = vec![root.pid];
    while let Some(parent) = open.pop() {
        // Each parent is removed from the table when it is visited, so a pid that was reused in between can't cause an
        // endless loop.
        let taken: Vec<i32> =
            children.remove(&parent).unwrap_or_default().into_iter().filter(|pid| !is_spared(*pid)).collect();
        found.extend(taken.iter().copied().filter_map(ProcessId::of));
        open.extend(taken);
    }
    if root.is_alive() { found } else { Vec::new() }
}

/// Kills all processes that `find` returns, until it returns none. Returns those that could not be killed.
///
/// One round is not enough: a process that keeps forking creates new ones while the old ones are killed. Processes of
/// other users, or stuck in the kernel, can't be killed.
pub(crate) fn end(find: impl Fn() -> Vec<ProcessId>) -> Vec<ProcessId> {
    let until = Instant::now() + KILL_TIMEOUT;
    let mut left: Vec<ProcessId> = Vec::new();
    let mut empty_looks = 0;
    loop {
        let found: Vec<ProcessId> = find().into_iter().filter(|one| !left.contains(one)).collect();
        // The process table is not read at one instant. A process whose parent ends meanwhile can be missed once.
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == EMPTY_SEARCHES || Instant::now() >= until {
            left.extend(found);
            left.retain(|one| one.is_alive());
            return left;
        }
        // Stop all of them before killing any, so that none can fork in between.
        let refused = found.iter().filter(|one| signal(**one, Signal::SIGSTOP) == Err(Errno::EPERM));
        left.extend(refused);
        for one in &found {
            let _ = signal(*one, Signal::SIGKILL);
        }
        std::thread::sleep(SEARCH_INTERVAL);
    }
}

/// Sends a signal to exactly this process, checked by its start time.
///
/// # Errors
///
/// Returns `ESRCH` if the process is gone, and `EPERM` if it may not be signalled.
pub(crate) fn signal(process: ProcessId, signal: Signal) -> nix::Result<()> {
    if process.is_alive() { kill(Pid::from_raw(process.pid), signal) } else { Err(Errno::ESRCH) }
}

/// The time that killed processes may take to disappear, and the pause between two searches.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
const SEARCH_INTERVAL: Duration = Duration::from_millis(2);
/// The number of consecutive searches that have to find nothing.
const EMPTY_SEARCHES: u32 = 3;

/// Returns this process and its ancestors.
fn self_and_ancestors() -> Vec<i32> {
    let mut line = vec![ProcessId::current().pid];
    while let Some(parent) = line.last().and_then(|pid| super::parent(*pid)).filter(|pid| *pid > 1) {
        if line.contains(&parent) {
            break;
        }
        line.push(parent);
    }
    line
}

fn environment(pid: i32) -> Option<Vec<u8>> {
    let read = |file: &str| fs_err::read(format!("/proc/{pid}/{file}")).ok();
    for _ in 0..EXEC_ATTEMPTS {
        let environment = read("environ")?;
        // During an exec, a process has neither an environment nor arguments for a moment. A look at that time would
        // miss a marked process.
        if !environment.is_empty() || !read("cmdline")?.is_empty() || Stat::of(pid)?.has_no_memory() {
            return Some(environment);
        }
        std::thread::sleep(EXEC_PAUSE);
    }
    None
}

/// The number of looks at a process that seems to be in an exec, and the pause between them.
const EXEC_ATTEMPTS: u32 = 20;
const EXEC_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// The fields of `/proc/<pid>/stat` that are needed here.
struct Stat {
    state: char,
    flags: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        let stat = super::stat(pid)?;
        let mut fields = stat.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let flags = fields.nth(5)?.parse().ok()?;
        Some(Self { state, flags })
    }

    /// Returns `true` for a dead process or a kernel thread, neither of which ever has an environment.
    const fn has_no_memory(&self) -> bool {
        /// `PF_KTHREAD` in the kernel's `sched.h`.
        const KERNEL_THREAD: u64 = 0x0020_0000;
        matches!(self.state, 'Z' | 'X') || self.flags & KERNEL_THREAD != 0
    }
}

fn parent_pids() -> Vec<(i32, i32)> {
    all_pids().into_iter().filter_map(|pid| Some((pid, super::parent(pid)?))).collect()
}

fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs_err::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn descendants_are_found_except_spared_subtrees() {
        // A shell with a child, which itself has a child in a session of its own.
        let script = "sleep 4713 & sh -c 'setsid sleep 4715 & wait' & sleep 4713 & wait";
        let mut top = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let root = ProcessId::of(i32::try_from(top.id()).unwrap()).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while below(root, |_| false).len() < 4 {
            assert!(Instant::now() < until, "{:?}", below(root, |_| false));
            std::thread::sleep(SEARCH_INTERVAL);
        }
        let found = below(root, |_| false);
        let last = found.iter().find(|one| crate::process::parent(one.pid) != Some(root.pid)).unwrap();
        let middle = crate::process::parent(last.pid).unwrap();
        let others = below(root, |pid| pid == middle);
        assert_eq!(
            (others.len(), others.contains(last)),
            (2, false),
            "so is what descends from who is spared"
        );
        assert_eq!(below(ProcessId { started: root.started + 1, ..root }, |_| false), [], "a pid used again");
        assert_eq!(end(|| below(root, |_| false)), []);
        assert!(found.iter().all(|one| !one.is_alive()));
        top.wait().unwrap();
    }
}
