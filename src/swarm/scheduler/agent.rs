//! One agent in the scheduler: its pace, its waiting sessions, and what prevents it from starting a turn.

use std::collections::BTreeSet;

use super::ready_queue::{Lane, ReadyEntry};
use super::{Mode, Priority, Settings};
use crate::id::{AgentId, SessionKey};

/// Number of consecutive failed turns after which the whole agent backs off and runs only one turn at a time.
const FAILURE_LIMIT: u32 = 3;

/// The properties of an agent that others report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) mode: Mode,
    pub(super) asleep: bool,
    pub(super) frozen: bool,
    pub(super) provider: Option<String>,
}

/// The agent's part of each jitter. It depends only on the agent's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    tick: i64,
    slow: i64,
    /// The agent's offset within [`Settings::spread`].
    pub(super) offset: i64,
}

impl Pace {
    pub(super) fn of(agent: &AgentId, settings: &Settings) -> Self {
        let hash = hash(agent.as_str());
        Self {
            tick: settings.tick.saturating_add(scale_hash(hash, settings.tick_jitter)),
            slow: settings.slow.saturating_add(scale_hash(hash.rotate_left(21), settings.slow_jitter)),
            offset: scale_hash(hash.rotate_left(42), settings.spread),
        }
    }
}

/// Hashes a text with FNV-1a and a final mix, so that ids that differ only in their last character get very different
/// values.
fn hash(text: &str) -> u64 {
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Returns a part of `whole`, from 0 to `whole`, chosen by the upper half of the hash.
fn scale_hash(hash: u64, whole: i64) -> i64 {
    // Multiplied in 128 bits, because a long setting would overflow 64.
    let part = (i128::from(whole.max(0)) * i128::from(hash >> 32)) >> 32;
    i64::try_from(part).unwrap_or(0)
}

#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) profile: Profile,
    pub(super) pace: Pace,
    /// Set if the agent was removed while a turn still runs.
    pub(super) is_gone: bool,
    // Times are in milliseconds of the scheduler's own clock.
    pub(super) last_tick: Option<i64>,
    pub(super) asleep_since: Option<i64>,
    /// No tick happens before this time.
    pub(super) quiet_until: i64,
    /// End of a pause. `i64::MAX` means that it ends only by [`super::SchedulerEvent::Resumed`].
    pub(super) paused_until: Option<i64>,
    /// Number of consecutive failed turns.
    pub(super) failures: u32,
    pub(super) retry_at: i64,
    pub(super) running: BTreeSet<SessionKey>,
    /// The number of the agent's last start. It grows with each start in the team.
    pub(super) served: u64,
    /// Sessions whose last turn failed, until they are tried again.
    pub(super) retrying: BTreeSet<SessionKey>,
    /// Sessions that wait for the next tick.
    pub(super) plain: BTreeSet<SessionKey>,
    /// Sessions that wait for a slot, by priority and oldest first.
    pub(super) queue: [BTreeSet<(u64, SessionKey)>; 3],
    /// The agent's entry in the lanes.
    pub(super) place: Option<(Lane, ReadyEntry)>,
    /// The credential whose quota is used up, if the agent can ask with no other.
    pub(super) parked: Option<String>,
    /// Time at which it may go on after its quota was used up.
    pub(super) resumes_at: i64,
}

impl Agent {
    pub(super) fn new(profile: Profile, pace: Pace) -> Self {
        Self {
            profile,
            pace,
            is_gone: false,
            last_tick: None,
            asleep_since: None,
            quiet_until: i64::MIN,
            paused_until: None,
            failures: 0,
            retry_at: i64::MIN,
            running: BTreeSet::new(),
            served: 0,
            retrying: BTreeSet::new(),
            plain: BTreeSet::new(),
            queue: Default::default(),
            place: None,
            parked: None,
            resumes_at: i64::MIN,
        }
    }

    /// Returns the time from which plain messages may start turns again. `None` if they never do.
    pub(super) fn tick_at(&self) -> Option<i64> {
        if self.profile.mode == Mode::Reactive {
            return None;
        }
        let after = |last: Option<i64>, wait: i64| last.map_or(i64::MIN, |at| at.saturating_add(wait));
        // A sleeping agent waits from the moment it fell asleep, so that falling asleep does not cause a tick.
        let due = if self.profile.asleep {
            after(self.last_tick.max(self.asleep_since), self.pace.slow)
        } else {
            after(self.last_tick, self.pace.tick)
        };
        Some(due.max(self.quiet_until))
    }

    /// Returns `true` if the agent can start nothing until an event changes that.
    fn is_held(&self) -> bool {
        self.is_gone
            || self.profile.frozen
            || self.paused_until == Some(i64::MAX)
            || (self.failures >= FAILURE_LIMIT && !self.running.is_empty())
    }

    /// Returns the time before which the agent can start nothing.
    fn free_at(&self) -> i64 {
        self.paused_until.unwrap_or(i64::MIN).max(self.retry_at).max(self.resumes_at)
    }

    /// Returns `true` if the agent itself allows the start of a turn.
    pub(super) fn is_free(&self, now: i64) -> bool {
        !self.is_held() && self.free_at() <= now
    }

    /// Returns the priorities with which the agent waits. `None` if it does not wait or may not start.
    pub(super) fn wait(&self, now: i64) -> Option<ReadyEntry> {
        let levels = [0, 1, 2].map(|level: usize| !self.queue[level].is_empty());
        (levels.contains(&true) && self.is_free(now)).then_some(ReadyEntry { levels, served: self.served })
    }

    /// Returns the next time at which the agent's state changes without an event.
    pub(super) fn next_change(&self, now: i64) -> Option<i64> {
        if self.is_held() {
            return None;
        }
        let free_at = self.free_at();
        let has_queued = self.queue.iter().any(|queue| !queue.is_empty());
        // Without a waiting session there is nothing to wake up for, so an idle team has no timers.
        let place = (has_queued && free_at > now).then_some(free_at);
        let tick = self.tick_at().filter(|_| !self.plain.is_empty()).map(|at| at.max(free_at));
        place.into_iter().chain(tick).min()
    }

    /// Records a turn that failed by the agent's own fault.
    pub(super) fn failed(&mut self, now: i64, settings: &Settings) {
        self.failures = self.failures.saturating_add(1);
        // Single failures only delay their own session. From here on the whole agent waits.
        if self.failures >= FAILURE_LIMIT {
            self.retry_at = now.saturating_add(settings.retry.after(self.failures));
        }
    }

    /// Records a turn that ended well.
    pub(super) fn record_success(&mut self) {
        self.failures = 0;
        self.retry_at = i64::MIN;
    }

    /// Returns the oldest session that waits with a priority.
    pub(super) fn oldest(&self, priority: Priority) -> Option<&SessionKey> {
        self.queue[priority as usize].first().map(|(_, session)| session)
    }
}
