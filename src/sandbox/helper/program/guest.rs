//! Programs that the engine starts beside the helper, with streams of their own. They are no children of the helper's,
//! but carry a mark that it gave them, and so does all that they start.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::job;
use crate::message::{MAX_GUESTS, Refusal, Reply};
use crate::sweep::{self, Process};
use crate::sys::{self, Pid};

/// How long a guest has to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long it may take from its start to its mark.
const COMING: Duration = Duration::from_secs(2);
/// How often is looked whether it has: its end is told to another process.
const LOOK: Duration = Duration::from_millis(20);

/// Those that were admitted, and who asks to be.
#[derive(Default)]
pub struct Guests {
    all: Vec<Guest>,
    /// Requests that wait until those have gone that are being ended.
    asking: Vec<u32>,
}

struct Guest {
    mark: u64,
    phase: Phase,
    /// Who waits for its end.
    waiters: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It may run, or is about to.
    Here,
    /// It has ended by itself; what it left stays.
    Left,
    /// It has to go and was not seen yet: it may have been started, and not have its mark.
    Expected { until: Instant },
    /// Its first process was asked to end.
    Asked { first: Pid, until: Instant },
    /// All of it has to go.
    Doomed,
}

impl Guests {
    /// Somebody asks for a mark.
    pub fn ask(&mut self, request: u32) -> Option<Reply> {
        if self.asking.len() >= MAX_GUESTS {
            return Some(full(request));
        }
        self.asking.push(request);
        None
    }

    /// Gives those who asked their marks, each lower than `last`, once nobody is being ended: what he holds, others need.
    pub fn admit(&mut self, last: &mut u64) -> Vec<Reply> {
        if self.asking.is_empty() || !self.all.iter().all(|guest| guest.stays()) {
            return Vec::new();
        }
        self.forget();
        let mut replies = Vec::new();
        for request in std::mem::take(&mut self.asking) {
            if self.all.iter().filter(|guest| guest.phase == Phase::Here).count() >= MAX_GUESTS {
                replies.push(full(request));
                continue;
            }
            *last -= 1;
            self.all.push(Guest { mark: *last, phase: Phase::Here, waiters: Vec::new() });
            replies.push(Reply::Admitted { request, mark: *last });
        }
        replies
    }

    /// This one has ended by itself, or is asked to end, for which `request` then waits.
    pub fn dismiss(&mut self, request: u32, mark: u64, end: bool) -> Option<Reply> {
        if let Some(guest) = self.all.iter_mut().find(|guest| guest.mark == mark) {
            if end {
                guest.waiters.push(request);
                guest.ask();
                return None;
            }
            if guest.phase == Phase::Here {
                guest.phase = Phase::Left;
            }
        }
        Some(Reply::Dismissed { request, survivors: 0 })
    }

    /// All have to go that have not ended by themselves, and at once. Nobody waits any more.
    pub fn end_all(&mut self) {
        self.asking.clear();
        for guest in &mut self.all {
            guest.waiters.clear();
            if guest.phase != Phase::Left {
                guest.phase = Phase::Doomed;
            }
        }
    }

    /// Goes on with those that were asked to end.
    pub fn step(&mut self, now: Instant) {
        for guest in &mut self.all {
            match guest.phase {
                Phase::Asked { first, until } if until <= now || sys::mark_of(first) != Some(guest.mark) => {
                    guest.phase = Phase::Doomed;
                }
                Phase::Expected { until } if until <= now => guest.phase = Phase::Doomed,
                Phase::Expected { .. } => guest.look(),
                _ => {}
            }
        }
    }

    /// When there is something to look at.
    pub fn next(&self) -> Option<Instant> {
        let waits = |guest: &Guest| matches!(guest.phase, Phase::Asked { .. } | Phase::Expected { .. });
        self.all.iter().any(waits).then(|| Instant::now() + LOOK)
    }

    /// Whether some have to go.
    pub fn are_dying(&self) -> bool {
        self.all.iter().any(|guest| guest.phase == Phase::Doomed)
    }

    /// Whether nobody is here who is to end.
    pub fn are_gone(&self) -> bool {
        self.all.iter().all(|guest| guest.phase == Phase::Left)
    }

    /// The marks of those that stay.
    pub fn living(&self) -> impl Iterator<Item = u64> {
        self.all.iter().filter(|guest| guest.phase != Phase::Doomed).map(|guest| guest.mark)
    }

    /// Those that had to go have gone, but for `survivors`. Gives the answers to who waited for it.
    pub fn finish(&mut self, survivors: u32) -> Vec<Reply> {
        let mut waiters = Vec::new();
        self.all.retain_mut(|guest| {
            let goes = guest.phase == Phase::Doomed;
            if goes {
                waiters.append(&mut guest.waiters);
            }
            !goes
        });
        waiters.into_iter().map(|request| Reply::Dismissed { request, survivors }).collect()
    }

    /// Forgets those that have left nothing.
    fn forget(&mut self) {
        if self.all.iter().any(|guest| guest.phase == Phase::Left) {
            let marks: HashSet<u64> = sweep::processes().keys().filter_map(|pid| sys::mark_of(*pid)).collect();
            self.all.retain(|guest| guest.phase != Phase::Left || marks.contains(&guest.mark));
        }
    }
}

fn full(request: u32) -> Reply {
    let text = format!("{MAX_GUESTS} programs run already").into_bytes();
    Reply::Refused { request, why: Refusal::Failed, text }
}

impl Guest {
    fn stays(&self) -> bool {
        matches!(self.phase, Phase::Here | Phase::Left)
    }

    fn ask(&mut self) {
        if !self.stays() {
            return;
        }
        self.phase = Phase::Expected { until: Instant::now() + COMING };
        self.look();
    }

    /// Looks for what carries its mark, and asks the program itself to end: the one whose parent is outside.
    fn look(&mut self) {
        let there = sweep::processes();
        let carries = |(pid, process): &(&Pid, &Process)| {
            !process.is_over && sys::mark_of(**pid) == Some(self.mark)
        };
        let own: Vec<(&Pid, &Process)> = there.iter().filter(carries).collect();
        let Some((first, _)) = own.iter().find(|(_, process)| process.parent == 0) else {
            if !own.is_empty() {
                self.phase = Phase::Doomed;
            }
            return;
        };
        self.phase = match sys::signal(**first, sys::SIGTERM) {
            Ok(()) => Phase::Asked { first: **first, until: Instant::now() + GRACE },
            Err(_) => Phase::Doomed,
        };
    }
}

/// Becomes the program that is named after a mark, with that mark.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mark = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let (Some(mark), Some(program)) = (mark, arguments.next()) else {
        eprintln!("flock-helper: run MARK PROGRAM [ARGUMENT]…");
        return ExitCode::from(2);
    };
    sys::set_mark(mark);
    // Gemini CLI ends without a word about what its pipe has not taken yet.
    sys::widen(1);
    let error = Command::new(&program).args(arguments).exec();
    eprintln!("{}: {}", program.display(), job::reason(&error));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
