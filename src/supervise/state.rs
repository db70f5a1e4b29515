//! The state machine of one supervised process. It is pure: events and the time go in, actions come out.
//! [`super::task`] carries the actions out.
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

use super::exit_reason::ExitRules;
use super::restart::{CrashHistory, SupervisionLimits};
use super::unit::StartError;
use crate::error::Kind;

/// An event for the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnitEvent {
    /// The supervisor has started. An open breaker stays open.
    Begin,
    /// A person wants the process to run. Closes the breaker.
    Start,
    /// A person wants the process to run, and to be restarted if it runs already. Closes the breaker.
    Restart,
    /// The process has to stop.
    Stop,
    /// There is no process: preparing or spawning it failed, or its start was abandoned.
    NotSpawned(StartError),
    /// The process was spawned. The limit for becoming healthy counts from here, and preparation has a limit of its
    /// own.
    Launched,
    /// It answered a health check and proved its identity.
    Proved,
    /// A health check failed, for this reason.
    Missed(String),
    /// The process ended; with the line of output that explains it, if there is one.
    Ended(Exit, Option<String>),
    /// The time of [`UnitStateMachine::next_deadline`] has come.
    Tick,
}

/// The exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// An exit code.
    Code(i32),
    /// The signal that ended it.
    Signal(i32),
}

impl Exit {
    /// Returns the kind of error that the exit code stands for, if a restart would end the same way: a wrong
    /// configuration, no home, a port or home that another process holds, a newer home, or a damaged database.
    #[must_use]
    pub(crate) fn lasting(self) -> Option<Kind> {
        let Self::Code(code) = self else { return None };
        [Kind::Usage, Kind::NotInitialised, Kind::Conflict, Kind::NewerHome, Kind::Damaged]
            .into_iter()
            .find(|kind| i32::from(kind.exit_code()) == code)
    }

    /// Returns the kind of error that the exit code stands for, if it is no crash and a restart will work once an
    /// outside cause has passed: a disk that fails to read, or a server that can't be reached.
    #[must_use]
    pub fn passing(self) -> Option<Kind> {
        let Self::Code(code) = self else { return None };
        [Kind::Unreadable, Kind::Unreachable].into_iter().find(|kind| i32::from(kind.exit_code()) == code)
    }
}

impl Exit {
    /// Returns `true` if the exit code says that another process has taken over from it.
    #[must_use]
    pub fn is_replaced(self) -> bool {
        self == Self::Code(i32::from(Kind::Replaced.exit_code()))
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

/// An action that the state machine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitAction {
    /// Prepare and start the process.
    Spawn,
    /// Ask the process to stop.
    Terminate,
    /// Kill the process and everything it started.
    Kill,
    /// Write [`UnitStateMachine::memory`] to disk.
    Save,
}

/// The phase of a supervised process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnitPhase {
    /// It does not run and is not wanted.
    Stopped,
    /// It is being prepared, or runs and has not been healthy yet.
    Starting {
        /// The start of this phase.
        since: i64,
        /// The deadline of this phase.
        until: i64,
    },
    /// It runs and answers.
    Healthy {
        /// The time since which it is healthy.
        since: i64,
        /// The number of failed checks in a row.
        misses: u32,
    },
    /// It ended and will be restarted.
    BackingOff {
        /// The time of the restart.
        until: i64,
        /// The reason for the delay.
        after: PauseReason,
    },
    /// It was asked to stop, or was killed.
    Stopping {
        /// The time of the kill; `None` after it.
        kill_at: Option<i64>,
        /// The continuation after its end.
        then: AfterStop,
    },
    /// The breaker is open after too many crashes.
    Tripped,
    /// It ended in a way that a restart can't fix.
    Failed {
        /// The kind that its exit code stands for.
        kind: Kind,
    },
}

/// The reason for the delay before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PauseReason {
    /// A crash.
    Crash,
    /// Another process has taken over its work.
    Replaced,
    /// An outside cause, which has to pass.
    Outside(Kind),
}

/// The continuation after a process that was asked to stop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterStop {
    /// It stays stopped.
    Rest,
    /// It is started again at once.
    Start,
    /// Its end counts as a crash, because it had stopped answering.
    Crash,
}

/// The name of a [`UnitPhase`] in `status` and on the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitState {
    Stopped,
    Starting,
    Healthy,
    BackingOff,
    Stopping,
    /// The name of [`UnitPhase::Tripped`].
    BreakerOpen,
    Failed,
}

/// The state of one supervised process.
#[derive(Clone, Debug)]
pub(crate) struct UnitStateMachine {
    limits: SupervisionLimits,
    endings: &'static ExitRules,
    phase: UnitPhase,
    memory: CrashHistory,
    restarts: u32,
    replacements: Replacements,
    reason: Option<String>,
}

/// The ends because another process has taken over.
#[derive(Clone, Copy, Debug, Default)]
struct Replacements {
    /// The number since the supervisor started.
    all: u32,
    /// The number since the process was healthy for a while.
    in_a_row: u32,
}

impl UnitStateMachine {
    /// Creates the state of a process that does not run, with its stored crash history.
    #[must_use]
    pub fn new(limits: SupervisionLimits, endings: &'static ExitRules, memory: CrashHistory) -> Self {
        let reason = memory.reason.clone();
        let replacements = Replacements::default();
        Self { limits, endings, phase: UnitPhase::Stopped, memory, restarts: 0, replacements, reason }
    }

    /// Returns the current phase.
    #[must_use]
    pub const fn phase(&self) -> &UnitPhase {
        &self.phase
    }

    /// Returns the name of the current phase.
    #[must_use]
    pub const fn standing(&self) -> UnitState {
        match self.phase {
            UnitPhase::Stopped => UnitState::Stopped,
            UnitPhase::Starting { .. } => UnitState::Starting,
            UnitPhase::Healthy { .. } => UnitState::Healthy,
            UnitPhase::BackingOff { .. } => UnitState::BackingOff,
            UnitPhase::Stopping { .. } => UnitState::Stopping,
            UnitPhase::Tripped => UnitState::BreakerOpen,
            UnitPhase::Failed { .. } => UnitState::Failed,
        }
    }

    /// Returns the crash history to be stored on disk.
    #[must_use]
    pub const fn memory(&self) -> &CrashHistory {
        &self.memory
    }

    /// Returns the number of restarts by the supervisor itself since it started.
    #[must_use]
    pub const fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Returns the number of its ends since the supervisor started because another process had taken over. They are no
    /// crashes.
    #[must_use]
    pub const fn replacements(&self) -> u32 {
        self.replacements.all
    }

    /// Returns the reason why it does not run, or why it was last restarted.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns `true` if it can become healthy without help.
    #[must_use]
    pub(crate) const fn is_hopeful(&self) -> bool {
        match self.phase {
            UnitPhase::Starting { .. } | UnitPhase::Healthy { .. } | UnitPhase::BackingOff { .. } => true,
            UnitPhase::Stopping { then, .. } => !matches!(then, AfterStop::Rest),
            UnitPhase::Stopped | UnitPhase::Tripped | UnitPhase::Failed { .. } => false,
        }
    }

    /// Returns the kind of failure that keeps it from running, if its exit code told one.
    #[must_use]
    pub const fn failure(&self) -> Option<Kind> {
        match self.phase {
            UnitPhase::Failed { kind } => Some(kind),
            UnitPhase::BackingOff { after: PauseReason::Outside(kind), .. } => Some(kind),
            _ => None,
        }
    }

    /// Returns the time at which [`UnitEvent::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        match self.phase {
            UnitPhase::Starting { until, .. } => Some(until),
            // The only deadline of a healthy process is the moment at which what went wrong before is forgotten.
            UnitPhase::Healthy { since, .. } if !self.memory.is_empty() || self.replacements.in_a_row > 0 => {
                Some(since + self.limits.stable)
            }
            UnitPhase::BackingOff { until, .. } => Some(until),
            UnitPhase::Stopping { kill_at, .. } => kill_at,
            _ => None,
        }
    }

    /// Handles an event at the time `now`, and returns the actions to carry out.
    pub fn on_event(&mut self, event: UnitEvent, now: i64) -> Vec<UnitAction> {
        match event {
            UnitEvent::Begin => self.begin(now),
            UnitEvent::Start => self.start(now),
            UnitEvent::Restart => self.restart(now),
            UnitEvent::Stop => self.stop(now, AfterStop::Rest),
            UnitEvent::NotSpawned(why) => self.over(why, now),
            UnitEvent::Launched => self.on_spawned(now),
            UnitEvent::Proved => self.proved(now),
            UnitEvent::Missed(reason) => self.missed(&reason, now),
            UnitEvent::Ended(exit, said) => self.ended(exit, said, now),
            UnitEvent::Tick => self.tick(now),
        }
    }

    fn begin(&mut self, now: i64) -> Vec<UnitAction> {
        // Only a person closes the breaker, and it stays open across restarts of the supervisor.
        if self.memory.is_open() {
            self.phase = UnitPhase::Tripped;
            return Vec::new();
        }
        match self.phase {
            UnitPhase::Stopped => self.spawn(now),
            _ => Vec::new(),
        }
    }

    fn start(&mut self, now: i64) -> Vec<UnitAction> {
        match &mut self.phase {
            UnitPhase::Starting { .. } | UnitPhase::Healthy { .. } => Vec::new(),
            UnitPhase::Stopping { then, .. } => {
                // It has to end first. `over` starts it afterwards.
                *then = AfterStop::Start;
                self.forget()
            }
            UnitPhase::Stopped
            | UnitPhase::BackingOff { .. }
            | UnitPhase::Tripped
            | UnitPhase::Failed { .. } => {
                let mut actions = self.forget();
                actions.extend(self.spawn(now));
                actions
            }
        }
    }

    fn restart(&mut self, now: i64) -> Vec<UnitAction> {
        if !matches!(self.phase, UnitPhase::Starting { .. } | UnitPhase::Healthy { .. }) {
            return self.start(now);
        }
        let mut actions = self.forget();
        actions.extend(self.stop(now, AfterStop::Start));
        actions
    }

    fn stop(&mut self, now: i64, after: AfterStop) -> Vec<UnitAction> {
        match &mut self.phase {
            UnitPhase::Starting { .. } | UnitPhase::Healthy { .. } => {
                self.phase = UnitPhase::Stopping { kill_at: Some(now + self.limits.grace), then: after };
                vec![UnitAction::Terminate]
            }
            UnitPhase::Stopping { then, .. } => {
                // The deadline for the kill stays that of the first request.
                *then = after;
                Vec::new()
            }
            UnitPhase::Stopped
            | UnitPhase::BackingOff { .. }
            | UnitPhase::Tripped
            | UnitPhase::Failed { .. } => {
                self.phase = UnitPhase::Stopped;
                Vec::new()
            }
        }
    }

    fn on_spawned(&mut self, now: i64) -> Vec<UnitAction> {
        if let UnitPhase::Starting { since, until } = &mut self.phase {
            *since = now;
            *until = now + self.limits.start;
        }
        Vec::new()
    }

    fn proved(&mut self, now: i64) -> Vec<UnitAction> {
        match &mut self.phase {
            UnitPhase::Starting { .. } => self.phase = UnitPhase::Healthy { since: now, misses: 0 },
            UnitPhase::Healthy { misses, .. } => *misses = 0,
            _ => {}
        }
        Vec::new()
    }

    fn missed(&mut self, reason: &str, now: i64) -> Vec<UnitAction> {
        // During a start, failed checks are normal: the deadline of the phase decides there.
        let UnitPhase::Healthy { misses, .. } = &mut self.phase else { return Vec::new() };
        *misses += 1;
        if *misses < self.limits.misses {
            return Vec::new();
        }
        self.reason = Some(format!("it stopped answering: {reason}"));
        self.stop(now, AfterStop::Crash)
    }

    fn ended(&mut self, exit: Exit, said: Option<String>, now: i64) -> Vec<UnitAction> {
        // A process killed by a signal does not explain that, except after a panic or an abort. Its last line is about
        // something else.
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
        // The cause of both is outside the process, so however often they happen, the breaker stays closed.
        if let (Some(kind), UnitPhase::Starting { .. } | UnitPhase::Healthy { .. }) = (passing, &self.phase) {
            self.reason = Some(reason);
            let after = PauseReason::Outside(kind);
            self.phase = UnitPhase::BackingOff { until: now + self.limits.pause, after };
            return Vec::new();
        }
        // A gateway that was paused may have missed its health checks, too, before it could see that it was replaced.
        if let (
            true,
            UnitPhase::Starting { .. }
            | UnitPhase::Healthy { .. }
            | UnitPhase::Stopping { then: AfterStop::Crash, .. },
        ) = ((self.endings.replaced)(exit), &self.phase)
        {
            self.reason = Some(reason);
            let until = now + self.limits.replacement_delay(self.replacements.in_a_row);
            self.replacements.all = self.replacements.all.saturating_add(1);
            self.replacements.in_a_row = self.replacements.in_a_row.saturating_add(1);
            self.phase = UnitPhase::BackingOff { until, after: PauseReason::Replaced };
            return Vec::new();
        }
        self.over(StartError { reason, lasting }, now)
    }

    /// Handles the fact that no process exists any more.
    fn over(&mut self, why: StartError, now: i64) -> Vec<UnitAction> {
        let StartError { reason, lasting } = why;
        match self.phase {
            UnitPhase::Stopping { then: AfterStop::Rest, .. } => {
                self.phase = UnitPhase::Stopped;
                self.reason = None;
                Vec::new()
            }
            UnitPhase::Stopping { then: AfterStop::Start, .. } => self.spawn(now),
            UnitPhase::Stopping { then: AfterStop::Crash, .. } => {
                // The health checks have already explained why it was stopped. The exit status would only say that it
                // was.
                let reason = self.reason.take().unwrap_or(reason);
                self.crashed(reason, now)
            }
            UnitPhase::Starting { .. } | UnitPhase::Healthy { .. } => match lasting {
                Some(kind) => {
                    self.phase = UnitPhase::Failed { kind };
                    self.reason = Some(reason);
                    Vec::new()
                }
                None => self.crashed(reason, now),
            },
            // As far as this state machine knows, nothing was running.
            UnitPhase::Stopped
            | UnitPhase::BackingOff { .. }
            | UnitPhase::Tripped
            | UnitPhase::Failed { .. } => Vec::new(),
        }
    }

    fn tick(&mut self, now: i64) -> Vec<UnitAction> {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        match &mut self.phase {
            UnitPhase::Starting { since, until } => {
                self.reason =
                    Some(format!("it did not become healthy within {} s", (*until - *since) / 1000));
                self.stop(now, AfterStop::Crash)
            }
            UnitPhase::Healthy { .. } => self.forget(),
            UnitPhase::BackingOff { .. } => {
                self.restarts += 1;
                self.spawn(now)
            }
            UnitPhase::Stopping { kill_at, .. } => {
                // Only the kernel can report the end now, so no deadline follows.
                *kill_at = None;
                vec![UnitAction::Kill]
            }
            UnitPhase::Stopped | UnitPhase::Tripped | UnitPhase::Failed { .. } => Vec::new(),
        }
    }

    fn spawn(&mut self, now: i64) -> Vec<UnitAction> {
        self.phase = UnitPhase::Starting { since: now, until: now + self.limits.ready };
        vec![UnitAction::Spawn]
    }

    fn crashed(&mut self, reason: String, now: i64) -> Vec<UnitAction> {
        self.reason = Some(reason.clone());
        self.phase = match self.memory.record_crash(&self.limits, now, reason) {
            Some(until) => UnitPhase::BackingOff { until, after: PauseReason::Crash },
            None => UnitPhase::Tripped,
        };
        vec![UnitAction::Save]
    }

    fn forget(&mut self) -> Vec<UnitAction> {
        self.replacements.in_a_row = 0;
        if self.memory.is_empty() {
            return Vec::new();
        }
        self.memory = CrashHistory::default();
        vec![UnitAction::Save]
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
