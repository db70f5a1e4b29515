//! Programs that the engine starts beside the helper, with standard streams of their own. They are not children of the
//! helper, but they carry a mark that it gave them, and so does every process they start.

use std::collections::HashSet;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::job;
use crate::message::{MAX_GUESTS, Refusal, Reply};
use crate::sweep::{self, Process};
use crate::sys::{self, Pid};

/// Time for a guest to end by itself after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Time from the start of a guest until it carries its mark.
const COMING: Duration = Duration::from_secs(2);
/// Polling interval for the end of a guest. The kernel reports its end to another process than the helper.
const LOOK: Duration = Duration::from_millis(20);

/// The admitted guests, and the requests for admission.
#[derive(Default)]
pub struct Guests {
    all: Vec<Guest>,
    /// Requests that wait until all guests that are being ended are gone.
    asking: Vec<u32>,
}

struct Guest {
    mark: u64,
    phase: Phase,
    /// Requests that wait for its end.
    waiters: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The guest may run or is about to be started.
    Here,
    /// The guest has ended by itself. Its remaining processes stay.
    Left,
    /// The guest has to end but has not been seen yet. It may have been started and not carry its mark yet.
    Expected { until: Instant },
    /// The guest's first process was asked to end.
    Asked { first: Pid, until: Instant },
    /// All processes of the guest have to be killed.
    Doomed,
}

impl Guests {
    /// Queues a request for a mark. Returns a refusal if too many are queued.
    pub fn ask(&mut self, request: u32) -> Option<Reply> {
        if self.asking.len() >= MAX_GUESTS {
            return Some(full(request));
        }
        self.asking.push(request);
        None
    }

    /// Gives a mark lower than `last` to each queued request. Waits until no guest is being ended, because it may still
    /// hold what the new ones need.
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

    /// Records that a guest has ended by itself, or asks it to end. In the second case `request` waits for its end.
    pub fn dismiss(&mut self, request: u32, mark: u64, end: bool) -> Option<Reply> {
        if let Some(guest) = self.all.iter_mut().find(|guest| guest.mark == mark) {
            if end {
                guest.waiters.push(request);
                guest.ask();
                return None;
            }
            // A guest that is being ended must not become one that may stay.
            if guest.phase == Phase::Here {
                guest.phase = Phase::Left;
            }
        }
        Some(Reply::Dismissed { request, survivors: 0 })
    }

    /// Marks every guest for killing that has not ended by itself. All waiting requests are dropped.
    pub fn end_all(&mut self) {
        // The new client does not know the old one's requests.
        self.asking.clear();
        for guest in &mut self.all {
            guest.waiters.clear();
            if guest.phase != Phase::Left {
                guest.phase = Phase::Doomed;
            }
        }
    }

    /// Advances the guests that were asked to end.
    pub fn step(&mut self, now: Instant) {
        for guest in &mut self.all {
            match guest.phase {
                // A first process without the mark is gone, or its number belongs to another process now.
                Phase::Asked { first, until } if until <= now || sys::mark_of(first) != Some(guest.mark) => {
                    guest.phase = Phase::Doomed;
                }
                Phase::Expected { until } if until <= now => guest.phase = Phase::Doomed,
                Phase::Expected { .. } => guest.look(),
                _ => {}
            }
        }
    }

    /// Returns the time of the next check, or `None` if no guest has to be watched.
    pub fn next(&self) -> Option<Instant> {
        let waits = |guest: &Guest| matches!(guest.phase, Phase::Asked { .. } | Phase::Expected { .. });
        self.all.iter().any(waits).then(|| Instant::now() + LOOK)
    }

    /// Returns `true` if a guest has to be killed.
    pub fn are_dying(&self) -> bool {
        self.all.iter().any(|guest| guest.phase == Phase::Doomed)
    }

    /// Returns `true` if no guest is left except those that ended by themselves.
    pub fn are_gone(&self) -> bool {
        self.all.iter().all(|guest| guest.phase == Phase::Left)
    }

    /// Returns the marks of the guests that stay.
    pub fn living(&self) -> impl Iterator<Item = u64> {
        self.all.iter().filter(|guest| guest.phase != Phase::Doomed).map(|guest| guest.mark)
    }

    /// Removes the doomed guests, of which `survivors` processes could not be killed. Returns the replies to the
    /// requests that wait for their end.
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

    /// Forgets the guests that ended by themselves and left no process.
    fn forget(&mut self) {
        if self.all.iter().any(|guest| guest.phase == Phase::Left) {
            let marks: HashSet<u64> =
                sweep::processes().keys().filter_map(|pid| sys::mark_of(*pid)).collect();
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

    /// Looks for processes with the guest's mark and asks the program itself to end. The program is the one whose
    /// parent is outside the container.
    fn look(&mut self) {
        let there = sweep::processes();
        let carries =
            |(pid, process): &(&Pid, &Process)| !process.is_over && sys::mark_of(**pid) == Some(self.mark);
        let own: Vec<(&Pid, &Process)> = there.iter().filter(carries).collect();
        let Some((first, _)) = own.iter().find(|(_, process)| process.parent == 0) else {
            // Only processes that the program started are left. None of them is asked.
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

/// Replaces this process with the named program, which then carries the mark.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mark = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let (Some(mark), Some(program)) = (mark, arguments.next()) else {
        eprintln!("flock-helper: run MARK PROGRAM [ARGUMENT]…");
        return ExitCode::from(2);
    };
    sys::set_mark(mark);
    // Gemini CLI loses output that its pipe has not accepted when it exits.
    sys::widen(1);
    job::exec(&program, arguments)
}
