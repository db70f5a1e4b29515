//! Finding and killing what dying jobs have left: whatever descends from the helper and is not a living
//! job's. Sessions, groups, parents and environments can all be left behind by a process that wants to; that
//! it descends from the helper, which is init or a subreaper, and the mark of its job can't. What the engine starts in
//! a container comes from outside: it is a guest if it has a mark, else none of the helper's business.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use crate::sys::{self, Pid};

/// After this, as init, everything is killed in one call that no fork escapes.
const PATIENCE: Duration = Duration::from_secs(3);
/// After this, what is left can't be killed: it hangs in the kernel.
const GIVE_UP: Duration = Duration::from_secs(6);

/// So many readings of the process table in a row have to find nothing.
const SURE: u32 = 3;

/// What stays: the main processes of living jobs, the marks of what they start, and those of guests.
pub struct Living {
    pub mains: HashSet<Pid>,
    pub marks: HashSet<u64>,
    /// All marks that were ever given are below this.
    pub unmarked: u64,
    /// Whether guests have to go: they are nobody's children in here.
    pub guests_go: bool,
}

/// A process as the table has it.
pub struct Process {
    pub parent: Pid,
    /// It has ended and only waits to be reaped.
    pub is_over: bool,
}

/// What a process descends from.
enum Origin {
    /// A living job's main process.
    Job,
    /// The helper, and no living job's.
    Helper,
    /// Something that was started from outside.
    Outside,
    /// That is not known.
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
    /// Nothing is left.
    Clean,
    /// Ask again at [`Sweep::next`], or when a child has ended.
    Again,
    /// So many can't be killed.
    Stuck(u32),
    /// Everything was killed, living jobs too.
    KilledAll,
}

impl Sweep {
    pub fn new(now: Instant) -> Self {
        let pause = Duration::from_millis(1);
        Self { since: now, next: now, pause, stopped: HashSet::new(), killed_all: false }
    }

    /// When the next round is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// One round. Everything is stopped before anything is killed: a stopped process starts no other, and
    /// those that are stopped use up the limit under which a fork bomb starts its next ones.
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
                // A process that is started while the table is read, with a number that was passed already, is not in it.
                empty += 1;
                if empty == SURE {
                    return Swept::Clean;
                }
                continue;
            }
            empty = 0;
            let late = now.duration_since(self.since);
            if late > GIVE_UP {
                return Swept::Stuck(u32::try_from(left.len()).unwrap_or(u32::MAX));
            }
            if late > PATIENCE && !self.killed_all && std::process::id() == 1 {
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

/// Whether the helper has no children but these: then nothing else descends from it but through them. Any
/// doubt is a no.
fn only_children(mains: &HashSet<Pid>) -> bool {
    let this = std::process::id();
    fs::read_to_string(format!("/proc/self/task/{this}/children")).is_ok_and(|list| {
        list.split_ascii_whitespace().all(|pid| pid.parse().is_ok_and(|pid: Pid| mains.contains(&pid)))
    })
}

/// The living processes that descend from the helper or a guest and belong to none that stays.
fn leftovers(living: &Living) -> Vec<Pid> {
    let this = std::process::id() as Pid;
    let table = processes();
    let stays = |mark: u64| living.marks.contains(&mark);
    let goes = |pid: Pid, process: &Process| match origin(pid, process, &table, living) {
        Origin::Job | Origin::Unknown => false,
        Origin::Helper => !sys::mark_of(pid).is_some_and(stays),
        // In the helper's container alone: elsewhere it may be another helper's.
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
        // Below a living job's main process.
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
            // Its parent has ended since it was read: init is the next one.
            None if this == 1 => return Origin::Helper,
            None => return Origin::Unknown,
        }
    }
    // The table is a blur of many instants: it may even hold a circle.
    Origin::Unknown
}

/// Every process.
pub fn processes() -> HashMap<Pid, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: Pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read(entry.path().join("stat")).ok()?;
            // The name is in parentheses, and may hold parentheses and anything else.
            let name_end = stat.iter().rposition(|byte| *byte == b')')?;
            let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
            let mut fields = fields.split_ascii_whitespace();
            let is_over = matches!(fields.next()?, "Z" | "X");
            Some((pid, Process { parent: fields.next()?.parse().ok()?, is_over }))
        })
        .collect()
}
