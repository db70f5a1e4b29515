//! The forms in which a schedule is shown, and the text that its recipient gets.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::times::Times;
use crate::clock;
use crate::store::{
    Schedule, ScheduleBudget, ScheduleSlot, ScheduleState, ScheduleTarget, ScheduleTurns, SlotOutcome, Timing,
};

/// Returns the recipient, as in `#dev` or `@coder`.
#[must_use]
pub(crate) fn target_text(target: &ScheduleTarget) -> String {
    match target {
        ScheduleTarget::Agent(agent) => format!("@{agent}"),
        ScheduleTarget::Channel(channel) => format!("#{channel}"),
    }
}

/// Returns the times, as in `0 9 * * 1-5 (Europe/Berlin)`.
#[must_use]
pub(crate) fn timing_text(timing: &Timing) -> String {
    match timing {
        Timing::Cron { pattern, zone } => format!("{pattern} ({zone})"),
        Timing::Every { period, .. } => format!("every {}", period_text(*period)),
        Timing::At(at) => format!("at {}", clock::utc(*at)),
        Timing::After(event) => format!("after {event}"),
    }
}

fn period_text(period: i64) -> String {
    let mut rest = period / 60_000;
    let mut text = String::new();
    for (unit, minutes) in [("w", 7 * 24 * 60), ("d", 24 * 60), ("h", 60), ("m", 1)] {
        if rest / minutes > 0 {
            let _ = write!(text, "{}{unit}", rest / minutes);
            rest %= minutes;
        }
    }
    text
}

/// Returns the text that the recipient gets. `late` is the time at which it was due, if that has passed.
#[must_use]
pub(super) fn message(schedule: &Schedule, late: Option<&str>) -> String {
    let due = late.map(|late| format!(", due at {late}")).unwrap_or_default();
    match schedule.creator() {
        // What an agent asked for is quoted, so that it can't be taken for words of a person or of flock.
        Some(agent) => {
            let text = crate::swarm::notice::quoted(&schedule.text);
            format!("[Schedule {} of {agent}{due}]\n{text}", schedule.name)
        }
        None => format!("[Schedule {}{due}]\n{}", schedule.name, schedule.text),
    }
}

/// Returns why a schedule's budget has no room for a run, if it has none.
#[must_use]
pub(super) fn over_budget(schedule: &Schedule, ScheduleTurns { used, .. }: ScheduleTurns) -> Option<String> {
    let is_over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit);
    if !is_over(schedule.tokens, used.tokens) && !is_over(schedule.cost, used.cost) {
        return None;
    }
    let tokens = schedule.tokens.map(|limit| format!("{} of {limit} tokens", used.tokens));
    let cost = schedule.cost.map(|limit| format!("{} of {}", usd(used.cost), usd(limit)));
    let parts: Vec<String> = tokens.into_iter().chain(cost).collect();
    Some(format!("the budget of schedule {} for the day is used up ({})", schedule.name, parts.join(", ")))
}

/// Returns a budget, as in `5000 tokens and $2.00 in a day`.
#[must_use]
pub(super) fn budget_text(budget: ScheduleBudget) -> String {
    let tokens = budget.tokens.map(|limit| format!("{limit} tokens"));
    let parts: Vec<String> = tokens.into_iter().chain(budget.cost.map(usd)).collect();
    if parts.is_empty() { "no budget".to_owned() } else { format!("{} in a day", parts.join(" and ")) }
}

fn usd(micros: u64) -> String {
    format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
}

/// Returns `true` if flock has paused a schedule, or its last time did not run or led to a task that failed.
#[must_use]
pub(super) fn is_failing(schedule: &Schedule, last: Option<&ScheduleSlot>) -> bool {
    match schedule.state {
        ScheduleState::Paused => !schedule.why.is_empty(),
        ScheduleState::Active => last.is_some_and(|last| {
            last.outcome != SlotOutcome::Ran
                || last.task_state.as_deref().is_some_and(|state| state == "failed")
        }),
        ScheduleState::Done => false,
    }
}

/// Returns the next time of a schedule, in Unix milliseconds.
#[must_use]
pub(crate) fn next_at(schedule: &Schedule, now: i64) -> Option<i64> {
    if schedule.state != ScheduleState::Active {
        return None;
    }
    Times::of(&schedule.timing).ok()?.next_after(now.max(schedule.pruned_until))
}

/// Returns a schedule as JSON. `used` is what it used today.
#[must_use]
pub(crate) fn shown(
    schedule: &Schedule,
    last: Option<&ScheduleSlot>,
    used: ScheduleTurns,
    now: i64,
) -> Value {
    let (agent, channel) = match &schedule.target {
        ScheduleTarget::Agent(agent) => (Some(agent), None),
        ScheduleTarget::Channel(channel) => (None, Some(channel)),
    };
    let mut shown = json!({
        "name": schedule.name,
        "agent": agent,
        "channel": channel,
        "cron": null,
        "tz": null,
        "everyMinutes": null,
        "at": null,
        "after": null,
        "when": timing_text(&schedule.timing),
        "text": schedule.text,
        "missed": schedule.missed,
        "tokens": schedule.tokens,
        "costMicros": schedule.cost,
        "used": {"turns": used.turns, "tokens": used.used.tokens, "costMicros": used.used.cost},
        "state": schedule.state,
        "why": schedule.why,
        "createdBy": schedule.created_by,
        "createdAt": schedule.created_at,
        "nextAt": next_at(schedule, now),
        "last": last.map(slot),
    });
    match &schedule.timing {
        Timing::Cron { pattern, zone } => {
            shown["cron"] = json!(pattern);
            shown["tz"] = json!(zone);
        }
        Timing::Every { period, .. } => shown["everyMinutes"] = json!(period / 60_000),
        Timing::At(at) => shown["at"] = json!(at),
        Timing::After(event) => shown["after"] = json!(event),
    }
    shown
}

/// Returns what became of a slot as JSON.
#[must_use]
pub(crate) fn slot(slot: &ScheduleSlot) -> Value {
    json!({
        "cause": slot.cause,
        "slot": slot.slot,
        "last": slot.last,
        "count": slot.count,
        "outcome": slot.outcome,
        "why": slot.why,
        "event": slot.event,
        "handledAt": slot.handled_at,
        "channel": slot.post.as_ref().map(|(channel, _)| channel),
        "seq": slot.post.as_ref().map(|(_, seq)| seq),
        "task": slot.task,
        "taskState": slot.task_state,
    })
}
