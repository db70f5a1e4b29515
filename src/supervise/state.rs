//! What is done about one supervised process: a pure state machine. Events and the time go in, actions come
//! out; the effects are in [`super::task`].
//!
//! ```text
//! stopped ─start─▶ starting ─proved─▶ healthy
//!    ▲               │  ▲                │ exit, or three missed checks
//!    │exit           │  └──backing off◀──┤
//! stopping ◀──stop───┴───────────────────┤
//!                     tripped, failed ◀──┘ too many crashes, or an end that starting again can't mend
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ending::Endings;
use super::restart::{Limits, Memory};
use super::unit::Unready;
use crate::error::Kind;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The supervisor began its work. An open breaker stays open.
    Begin,
    /// A person wants it to run. Closes the breaker.
    Start,
    /// A person wants it to run, anew if it does already. Closes the breaker.
    Restart,
    /// It shall stop.
    Stop,
    /// There is no process: it could not be made ready or spawned, for this reason, or that was given up.
    NotSpawned(Unready),
    /// Its process has begun: what comes before that has a time of its own.
    Launched,
    /// It answered its health check and proved who it is.
    Proved,
    /// It did not, for this reason.
    Missed(String),
    /// It ended; and, where it said so, why.
    Ended(Exit, Option<String>),
    /// The time of [`State::next_deadline`] has come.
    Tick,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// What the exit code says where starting again would end the same way: a wrong configuration, no home,
    /// a port or home that another process holds, a newer home, a damaged database.
    #[must_use]
    pub fn lasting(self) -> Option<Kind> {
        let Self::Code(code) = self else { return None };
        [Kind::Usage, Kind::NotInitialised, Kind::Conflict, Kind::NewerHome, Kind::Damaged]
            .into_iter()
            .find(|kind| i32::from(kind.exit_code()) == code)
    }

    /// What the exit code says where it is no crash, and starting again ends otherwise once something has passed: a disk
    /// that fails to read.
    #[must_use]
    pub fn passing(self) -> Option<Kind> {
        (self == Self::Code(i32::from(Kind::Unreadable.exit_code()))).then_some(Kind::Unreadable)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "it ended with exit code {code}"),
            Self::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(signal) => write!(f, "it was ended by {signal}"),
                Err(_) => write!(f, "it was ended by signal {signal}"),
            },
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the process.
    Spawn,
    /// Ask it to stop.
    Terminate,
    /// End it and all it started.
    Kill,
    /// Write [`State::memory`] to disk.
    Save,
}

/// Where the process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It does not run, and shall not.
    Stopped,
    /// It is made ready, or runs and has not proved healthy yet.
    Starting {
        /// Since when.
        since: i64,
        /// How long that may last.
        until: i64,
    },
    /// It runs and answers.
    Healthy {
        /// Since when.
        since: i64,
        /// Checks missed in a row.
        misses: u32,
    },
    /// It crashed and is started again.
    BackingOff {
        /// When.
        until: i64,
        /// What it waits for, where it did not crash.
        waits_for: Option<Kind>,
    },
    /// It was asked to stop, or was killed.
    Stopping {
        /// When it is killed; `None` when it was.
        kill_at: Option<i64>,
        /// What comes after its end.
        then: Then,
    },
    /// The breaker is open: too many crashes.
    Tripped,
    /// It ended in a way that starting it again can't mend.
    Failed {
        /// What its exit code said.
        kind: Kind,
    },
}

/// What comes after the end of a process that was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Rest,
    /// It starts again at once.
    Start,
    /// It counts as a crash: it had stopped answering.
    Crash,
}

/// The word for a phase, as `status` and the control socket say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// [`Phase::Stopped`].
    Stopped,
    /// [`Phase::Starting`].
    Starting,
    /// [`Phase::Healthy`].
    Healthy,
    /// [`Phase::BackingOff`].
    BackingOff,
    /// [`Phase::Stopping`].
    Stopping,
    /// [`Phase::Tripped`].
    BreakerOpen,
    /// [`Phase::Failed`].
    Failed,
}

/// One supervised process.
#[derive(Clone, Debug)]
pub struct State {
    limits: Limits,
    endings: &'static Endings,
    phase: Phase,
    memory: Memory,
    restarts: u32,
    reason: Option<String>,
}

impl State {
    /// A process that does not run, with what is remembered of it.
    #[must_use]
    pub fn new(limits: Limits, endings: &'static Endings, memory: Memory) -> Self {
        let reason = memory.reason.clone();
        Self { limits, endings, phase: Phase::Stopped, memory, restarts: 0, reason }
    }

    /// Where it stands.
    #[must_use]
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The word for where it stands.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        match self.phase {
            Phase::Stopped => Standing::Stopped,
            Phase::Starting { .. } => Standing::Starting,
            Phase::Healthy { .. } => Standing::Healthy,
            Phase::BackingOff { .. } => Standing::BackingOff,
            Phase::Stopping { .. } => Standing::Stopping,
            Phase::Tripped => Standing::BreakerOpen,
            Phase::Failed { .. } => Standing::Failed,
        }
    }

    /// What is remembered on disk.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How often it was started again after a crash, as long as this supervisor lives.
    #[must_use]
    pub const fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Why it does not run, or why it was started again last.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Whether it can become healthy without anybody doing anything.
    #[must_use]
    pub const fn is_hopeful(&self) -> bool {
        match self.phase {
            Phase::Starting { .. } | Phase::Healthy { .. } | Phase::BackingOff { .. } => true,
            Phase::Stopping { then, .. } => !matches!(then, Then::Rest),
            Phase::Stopped | Phase::Tripped | Phase::Failed { .. } => false,
        }
    }

    /// Why it does not run although it should, where its end said so.
    #[must_use]
    pub const fn failure(&self) -> Option<Kind> {
        match self.phase {
            Phase::Failed { kind } => Some(kind),
            Phase::BackingOff { waits_for, .. } => waits_for,
            _ => None,
        }
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        match self.phase {
            Phase::Starting { until, .. } => Some(until),
            Phase::Healthy { since, .. } if !self.memory.is_empty() => Some(since + self.limits.stable),
            Phase::BackingOff { until, .. } => Some(until),
            Phase::Stopping { kill_at, .. } => kill_at,
            _ => None,
        }
    }

    /// What an event at the time `now` asks for.
    pub fn on_event(&mut self, event: Event, now: i64) -> Vec<Action> {
        match event {
            Event::Begin => self.begin(now),
            Event::Start => self.start(now),
            Event::Restart => self.restart(now),
            Event::Stop => self.stop(now, Then::Rest),
            Event::NotSpawned(why) => self.over(why, now),
            Event::Launched => self.launched(now),
            Event::Proved => self.proved(now),
            Event::Missed(reason) => self.missed(&reason, now),
            Event::Ended(exit, said) => self.ended(exit, said, now),
            Event::Tick => self.tick(now),
        }
    }

    fn begin(&mut self, now: i64) -> Vec<Action> {
        if self.memory.is_open() {
            self.phase = Phase::Tripped;
            return Vec::new();
        }
        match self.phase {
            Phase::Stopped => self.spawn(now),
            _ => Vec::new(),
        }
    }

    fn start(&mut self, now: i64) -> Vec<Action> {
        match &mut self.phase {
            Phase::Starting { .. } | Phase::Healthy { .. } => Vec::new(),
            Phase::Stopping { then, .. } => {
                *then = Then::Start;
                self.forget()
            }
            Phase::Stopped | Phase::BackingOff { .. } | Phase::Tripped | Phase::Failed { .. } => {
                let mut actions = self.forget();
                actions.extend(self.spawn(now));
                actions
            }
        }
    }

    fn restart(&mut self, now: i64) -> Vec<Action> {
        if !matches!(self.phase, Phase::Starting { .. } | Phase::Healthy { .. }) {
            return self.start(now);
        }
        let mut actions = self.forget();
        actions.extend(self.stop(now, Then::Start));
        actions
    }

    fn stop(&mut self, now: i64, after: Then) -> Vec<Action> {
        match &mut self.phase {
            Phase::Starting { .. } | Phase::Healthy { .. } => {
                self.phase = Phase::Stopping { kill_at: Some(now + self.limits.grace), then: after };
                vec![Action::Terminate]
            }
            Phase::Stopping { then, .. } => {
                *then = after;
                Vec::new()
            }
            Phase::Stopped | Phase::BackingOff { .. } | Phase::Tripped | Phase::Failed { .. } => {
                self.phase = Phase::Stopped;
                Vec::new()
            }
        }
    }

    fn launched(&mut self, now: i64) -> Vec<Action> {
        if let Phase::Starting { since, until } = &mut self.phase {
            *since = now;
            *until = now + self.limits.start;
        }
        Vec::new()
    }

    fn proved(&mut self, now: i64) -> Vec<Action> {
        match &mut self.phase {
            Phase::Starting { .. } => self.phase = Phase::Healthy { since: now, misses: 0 },
            Phase::Healthy { misses, .. } => *misses = 0,
            _ => {}
        }
        Vec::new()
    }

    fn missed(&mut self, reason: &str, now: i64) -> Vec<Action> {
        let Phase::Healthy { misses, .. } = &mut self.phase else { return Vec::new() };
        *misses += 1;
        if *misses < self.limits.misses {
            return Vec::new();
        }
        self.reason = Some(format!("it stopped answering: {reason}"));
        self.stop(now, Then::Crash)
    }

    fn ended(&mut self, exit: Exit, said: Option<String>, now: i64) -> Vec<Action> {
        // Who is ended by a signal says nothing of it, but for a panic or an abort: its last line is about something else.
        let said = said.filter(|line| match exit {
            Exit::Code(_) => true,
            Exit::Signal(signal) => signal != nix::libc::SIGKILL && (self.endings.tells)(line),
        });
        let lasting = (self.endings.lasting)(exit, said.as_deref());
        let passing = (self.endings.passing)(exit);
        let reason = match said {
            Some(said) => format!("{exit}: {said}"),
            None => exit.to_string(),
        };
        if let (Some(kind), Phase::Starting { .. } | Phase::Healthy { .. }) = (passing, &self.phase) {
            // However often that is, it says nothing of the process: the breaker stays closed.
            self.reason = Some(reason);
            self.phase = Phase::BackingOff { until: now + self.limits.pause, waits_for: Some(kind) };
            return Vec::new();
        }
        self.over(Unready { reason, lasting }, now)
    }

    /// What comes when there is no process any more.
    fn over(&mut self, why: Unready, now: i64) -> Vec<Action> {
        let Unready { reason, lasting } = why;
        match self.phase {
            Phase::Stopping { then: Then::Rest, .. } => {
                self.phase = Phase::Stopped;
                self.reason = None;
                Vec::new()
            }
            Phase::Stopping { then: Then::Start, .. } => self.spawn(now),
            Phase::Stopping { then: Then::Crash, .. } => {
                let reason = self.reason.take().unwrap_or(reason);
                self.crashed(reason, now)
            }
            Phase::Starting { .. } | Phase::Healthy { .. } => match lasting {
                Some(kind) => {
                    self.phase = Phase::Failed { kind };
                    self.reason = Some(reason);
                    Vec::new()
                }
                None => self.crashed(reason, now),
            },
            // Nothing was running as far as this machine knows.
            Phase::Stopped | Phase::BackingOff { .. } | Phase::Tripped | Phase::Failed { .. } => Vec::new(),
        }
    }

    fn tick(&mut self, now: i64) -> Vec<Action> {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        match &mut self.phase {
            Phase::Starting { since, until } => {
                self.reason =
                    Some(format!("it did not become healthy within {} s", (*until - *since) / 1000));
                self.stop(now, Then::Crash)
            }
            Phase::Healthy { .. } => self.forget(),
            Phase::BackingOff { .. } => {
                self.restarts += 1;
                self.spawn(now)
            }
            Phase::Stopping { kill_at, .. } => {
                *kill_at = None;
                vec![Action::Kill]
            }
            Phase::Stopped | Phase::Tripped | Phase::Failed { .. } => Vec::new(),
        }
    }

    fn spawn(&mut self, now: i64) -> Vec<Action> {
        self.phase = Phase::Starting { since: now, until: now + self.limits.ready };
        vec![Action::Spawn]
    }

    fn crashed(&mut self, reason: String, now: i64) -> Vec<Action> {
        self.reason = Some(reason.clone());
        self.phase = match self.memory.crash(&self.limits, now, reason) {
            Some(until) => Phase::BackingOff { until, waits_for: None },
            None => Phase::Tripped,
        };
        vec![Action::Save]
    }

    fn forget(&mut self) -> Vec<Action> {
        if self.memory.is_empty() {
            return Vec::new();
        }
        self.memory = Memory::default();
        vec![Action::Save]
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
