//! Finds and kills the processes that dying jobs have left: everything that descends from the helper and belongs to no
//! living job.
//!
//! A process can change its session, group, parent and environment. It cannot change that it descends from the helper,
//! which is init or a subreaper, nor that it carries the mark of its job. Processes that the engine starts in the
//! container come from outside. One with a mark is a guest. One without a mark does not concern the helper.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use crate::sys::{self, Pid};

/// Time after which a helper that is init kills everything with a single call, which no fork can escape.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after which the remaining processes cannot be killed, because they hang in the kernel.
const GIVE_UP: Duration = Duration::from_secs(6);

/// Number of consecutive readings of the process table that must find nothing.
const SURE: u32 = 3;

/// Everything that stays: the main processes of living jobs, the marks of the processes they start, and the marks of
/// guests.
pub struct Living {
    pub mains: HashSet<Pid>,
    pub marks: HashSet<u64>,
    /// All marks ever given are below this value.
    pub unmarked: u64,
    /// `true` if guests have to be killed. They are not children of the helper.
    pub guests_go: bool,
}

/// A process in the process table.
pub struct Process {
    pub parent: Pid,
    /// `true` if it has ended and only waits to be reaped.
    pub is_over: bool,
}

/// The origin of a process.
enum Origin {
    /// It descends from a living job's main process.
    Job,
    /// It descends from the helper but from no living job.
    Helper,
    /// It was started from outside the container.
    Outside,
    /// Its origin is not known.
    Unknown,
}

pub struct Sweep {
    since: Instant,
    next: Instant,
    pause: Duration,
    stopped: HashSet<Pid>,
    killed_all: bool,
}

pub enum Swept {
    /// No process is left.
    Clean,
    /// Call again at [`Sweep::next`], or when a child has ended.
    Again,
    /// This many processes cannot be killed.
    Stuck(u32),
    /// Everything was killed, living jobs included.
    KilledAll,
}

impl Sweep {
    pub fn new(now: Instant) -> Self {
        let pause = Duration::from_millis(1);
        Self { since: now, next: now, pause, stopped: HashSet::new(), killed_all: false }
    }

    /// Returns the time of the next round.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Runs one round. All processes are stopped before any is killed: a stopped process cannot start another one, and
    /// the stopped processes use up the process limit, so that a fork bomb cannot start new ones.
    pub fn round(&mut self, living: &Living, now: Instant) -> Swept {
        if !living.guests_go && only_children(&living.mains) {
            return Swept::Clean;
        }
        if now < self.next {
            return Swept::Again;
        }
        let mut empty = 0;
        for _ in 0..8 {
            let left = leftovers(living);
            if left.is_empty() {
                // A process that starts while the table is read, with a number that was passed already, is missing in
                // it.
                empty += 1;
                if empty < SURE {
                    continue;
                }
                if !has_other_children(living) {
                    return Swept::Clean;
                }
            } else {
                empty = 0;
            }
            let late = now.duration_since(self.since);
            if late > GIVE_UP {
                return Swept::Stuck(u32::try_from(left.len().max(1)).unwrap_or(u32::MAX));
            }
            if late > PATIENCE && !self.killed_all && std::process::id() == 1 {
                // As init, `kill(-1)` reaches every other process in the container at once.
                self.killed_all = true;
                let _ = sys::signal(-1, sys::SIGKILL);
                return Swept::KilledAll;
            }
            let new: Vec<Pid> = left.iter().copied().filter(|pid| !self.stopped.contains(pid)).collect();
            if new.is_empty() {
                left.iter().for_each(|pid| drop(sys::signal(*pid, sys::SIGKILL)));
                break;
            }
            for pid in new {
                let _ = sys::signal(pid, sys::SIGSTOP);
                self.stopped.insert(pid);
            }
        }
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(Duration::from_millis(20));
        Swept::Again
    }
}

/// Returns `true` if the helper has no other children than these. Then every other descendant belongs to one of them.
/// If in doubt the result is `false`.
fn only_children(mains: &HashSet<Pid>) -> bool {
    children().is_some_and(|children| children.iter().all(|pid| mains.contains(pid)))
}

/// Returns `true` if the helper has a child that belongs to nothing that stays and has not ended. A chain of processes
/// that each live shorter than a reading of the process table takes is in no table, but its oldest process is always a
/// child of the helper.
fn has_other_children(living: &Living) -> bool {
    let stays = |pid: Pid| {
        let is_over = || process(pid).is_some_and(|process| process.is_over);
        living.mains.contains(&pid) || sys::mark_of(pid).is_some_and(|mark| living.marks.contains(&mark)) || is_over()
    };
    children().is_some_and(|children| children.iter().any(|pid| !stays(*pid)))
}

/// Returns the children of the helper, `None` if the kernel does not list them.
fn children() -> Option<Vec<Pid>> {
    let this = std::process::id();
    let list = fs::read_to_string(format!("/proc/self/task/{this}/children")).ok()?;
    list.split_ascii_whitespace().map(|pid| pid.parse().ok()).collect()
}

/// Returns the running processes that descend from the helper or a guest and belong to nothing that stays.
fn leftovers(living: &Living) -> Vec<Pid> {
    let this = std::process::id() as Pid;
    let table = processes();
    let stays = |mark: u64| living.marks.contains(&mark);
    let goes = |pid: Pid, process: &Process| match origin(pid, process, &table, living) {
        Origin::Job | Origin::Unknown => false,
        Origin::Helper => !sys::mark_of(pid).is_some_and(stays),
        // Only if the helper is init of its own container. Elsewhere the process may belong to another helper.
        Origin::Outside => {
            this == 1 && sys::mark_of(pid).is_some_and(|mark| mark < living.unmarked && !stays(mark))
        }
    };
    let others = table.iter().filter(|(pid, process)| **pid != this && !process.is_over);
    others.filter(|(pid, process)| goes(**pid, process)).map(|(pid, _)| *pid).collect()
}

fn origin(pid: Pid, process: &Process, table: &HashMap<Pid, Process>, living: &Living) -> Origin {
    let this = std::process::id() as Pid;
    let (mut pid, mut parent) = (pid, process.parent);
    for _ in 0..=table.len() {
        // It is a main process or below one.
        if living.mains.contains(&pid) {
            return Origin::Job;
        }
        if parent == this {
            return Origin::Helper;
        }
        if parent == 0 {
            return Origin::Outside;
        }
        match table.get(&parent) {
            Some(above) => (pid, parent) = (parent, above.parent),
            // The parent has ended since the table was read. Its children are handed to init.
            None if this == 1 => return Origin::Helper,
            None => return Origin::Unknown,
        }
    }
    // The table is read over many instants, so it may even contain a cycle.
    Origin::Unknown
}

/// Returns all processes in `/proc`.
pub fn processes() -> HashMap<Pid, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, process(pid)?))).collect()
}

/// Returns the process with this number, `None` if there is none.
fn process(pid: Pid) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself contain parentheses and any other character.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let is_over = matches!(fields.next()?, "Z" | "X");
    Some(Process { parent: fields.next()?.parse().ok()?, is_over })
}
