//! Decides what becomes of a schedule's times. Pure functions of the schedule, its stored state and the time.

use std::collections::BTreeSet;

use super::times::Times;
use crate::store::{MissedPolicy, MissedRange, MissedSlots, SlotOutcome};

/// A slot that is handled within this time was not missed. It is less than the smallest distance between two slots.
pub(crate) const GRACE_MS: i64 = 30_000;
/// The most runs for slots that were missed, with the policy `all`.
pub(crate) const MOST_RUNS: usize = 100;
/// The number of missed slots that are counted one by one.
const MOST_COUNTED: u64 = 100_000;
/// With more missed slots than are counted, only those of this time are looked at.
const LOOK_BACK_MS: i64 = 3 * 24 * 3_600_000;

/// The stored state of a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotState<'a> {
    /// Every slot up to this time has its row.
    pub(crate) covered: i64,
    /// No slot up to this time runs.
    pub(crate) pruned_until: i64,
    /// The slots after `covered`, or after the present time, that have run: the clock was set back since.
    pub(crate) ran: &'a BTreeSet<i64>,
    /// Milliseconds by which the clock of the gateway that looked last may differ from this one's.
    pub(crate) clock_difference: i64,
}

/// A step to be taken. Each is one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The clock was set back, so slots after the present time have not passed.
    SetBack,
    /// Slots pass without a run.
    Miss(MissedSlots),
    /// A slot runs.
    Run {
        slot: i64,
        /// The number of missed slots that it stands for, besides itself.
        for_others: u64,
    },
}

/// The steps of a schedule, in order, and the time of the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// The next slot, in Unix milliseconds.
    pub(crate) wake_at: Option<i64>,
}

/// Returns what is to be done for a schedule at this time.
///
/// The steps can be given up after any of them: with the state that they left, the rest is planned again.
#[must_use]
pub(crate) fn plan(times: &Times, policy: MissedPolicy, state: SlotState<'_>, now: i64) -> Plan {
    let mut steps = Vec::new();
    let mut at = state.covered;
    let earliest = now.max(state.pruned_until);
    if earliest < at {
        steps.push(Step::SetBack);
        at = earliest;
    }
    let most = if policy == MissedPolicy::All { MOST_RUNS } else { 1 };
    let mut due = std::collections::VecDeque::new();
    let mut missed = Range::default();
    let mut wake_at = None;
    while let Some(slot) = times.next_after(at) {
        at = slot;
        if state.ran.contains(&slot) {
            continue;
        }
        if slot > now {
            wake_at = Some(slot);
            break;
        }
        due.push_back(slot);
        if due.len() > most
            && let Some(oldest) = due.pop_front()
        {
            missed.add(oldest);
            if missed.count == MOST_COUNTED {
                at = at.max(now - LOOK_BACK_MS);
            }
        }
    }
    // A slot that is close by the clock of the gateway before was not missed only because this one's clock is ahead.
    let late = |slot: i64| now - slot > GRACE_MS + state.clock_difference;
    if policy == MissedPolicy::Skip
        && let Some(slot) = due.pop_front_if(|slot| late(*slot))
    {
        missed.add(slot);
    }
    let others = missed.count;
    steps.extend(missed.step(policy));
    for slot in due {
        let for_others = if policy == MissedPolicy::Once { others } else { 0 };
        steps.push(Step::Run { slot, for_others });
    }
    Plan { steps, wake_at }
}

/// Returns the slots from `first` to `until`, without those that ran, as far as missed slots are counted.
#[must_use]
pub(crate) fn missed_until(times: &Times, first: i64, until: i64, ran: &BTreeSet<i64>) -> MissedRange {
    let mut range = MissedRange { first, last: first, count: 1 };
    let mut at = first;
    while range.count < MOST_COUNTED
        && let Some(slot) = times.next_after(at).filter(|slot| *slot <= until)
    {
        at = slot;
        if !ran.contains(&slot) {
            range.last = slot;
            range.count += 1;
        }
    }
    range
}

/// Missed slots that follow each other.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    first: i64,
    last: i64,
    count: u64,
}

impl Range {
    fn add(&mut self, slot: i64) {
        if self.count == 0 {
            self.first = slot;
        }
        self.last = slot;
        self.count += 1;
    }

    fn step(self, policy: MissedPolicy) -> Option<Step> {
        let why = match policy {
            MissedPolicy::Once => "a later time ran for it".to_owned(),
            MissedPolicy::Skip => "nothing could run then".to_owned(),
            MissedPolicy::All => format!("more than {MOST_RUNS} times were missed"),
        };
        (self.count > 0).then_some(Step::Miss(MissedSlots {
            first: self.first,
            last: self.last,
            count: self.count,
            outcome: SlotOutcome::Missed,
            why,
        }))
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
