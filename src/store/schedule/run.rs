//! A run of a schedule.

use super::row::{ScheduleState, Timing, by_id, finish};
use super::slot::{SlotCause, cover};
use crate::store::audit::{self, AuditEntry};
use crate::store::inbox::NewInboxItem;
use crate::store::post::{self, CommittedPost, NewPost, PostOutcome};
use crate::store::sql::{self, OptionalExtension as _, Transaction, params};
use crate::store::subjects::Schedules;
use crate::store::task::{self, NewTask, Task, TaskSubmission};
use crate::store::{Store, StoreError};

/// The text of a run, on its way to the recipient.
#[derive(Clone, Debug)]
pub enum SlotDelivery {
    /// A message in a channel.
    Post(Box<NewPost>),
    /// A task of an agent, with its inbox item and its audit row.
    Task(Box<(NewTask, NewInboxItem, AuditEntry)>),
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct SlotRun {
    pub schedule: i64,
    pub cause: SlotCause,
    pub slot: i64,
    /// The reason why it runs late. Empty if it does not.
    pub why: String,
    /// The id of the event that it follows.
    pub event: Option<String>,
    pub delivery: SlotDelivery,
    pub entry: AuditEntry,
    pub now: i64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) enum SlotResult {
    /// The message was posted.
    Posted(Box<(NewPost, CommittedPost)>),
    /// The task was accepted.
    Accepted(Box<Task>),
    /// The slot ran before.
    Before,
    /// The schedule is gone or no longer active.
    Inactive,
    /// The channel takes no messages now.
    Closed,
}

/// Makes a run: the row of its slot, and what it causes, are written together or not at all.
fn run(transaction: &Transaction<'_>, run: SlotRun) -> sql::Result<SlotResult> {
    let Some(found) = by_id(transaction, run.schedule)? else { return Ok(SlotResult::Inactive) };
    // A person may have a paused schedule run now.
    if found.state != ScheduleState::Active && run.cause != SlotCause::Person {
        return Ok(SlotResult::Inactive);
    }
    let ran: bool = transaction
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM schedule_slot WHERE schedule = ?1 AND outcome = 'ran'
             AND ((cause = 'time' AND ?2 = 'time' AND slot = ?3) OR event = ?4))",
        )?
        .query_row((run.schedule, run.cause, run.slot, &run.event), |row| row.get(0))?;
    if ran {
        return Ok(SlotResult::Before);
    }
    let mut result = None;
    let (mut channel, mut seq, mut made) = (None, None, None);
    match run.delivery {
        SlotDelivery::Post(new) => {
            let new = *new;
            let is_active: Option<bool> = transaction
                .prepare_cached("SELECT state = 'active' FROM channel WHERE id = ?1")?
                .query_row([new.channel.as_str()], |row| row.get(0))
                .optional()?;
            // flock's own messages are taken by archived channels, too, so the state is looked at here.
            if is_active != Some(true) {
                return Ok(SlotResult::Closed);
            }
            if let PostOutcome::Posted(posted) = post::post(transaction, &new)? {
                channel = Some(posted.channel.to_string());
                seq = Some(post::number(posted.seq));
                result = Some(SlotResult::Posted(Box::new((new, posted))));
            }
        }
        SlotDelivery::Task(parts) => {
            let (new, item, entry) = *parts;
            if let TaskSubmission::New(task) = task::insert(transaction, &new, item, entry)? {
                made = Some(task.id.clone());
                result = Some(SlotResult::Accepted(Box::new(task)));
            }
        }
    }
    let Some(result) = result else { return Ok(SlotResult::Closed) };
    // A row that says that the slot was missed is replaced: the clock was set back, and its time has come again.
    transaction
        .prepare_cached(
            "INSERT INTO schedule_slot (schedule, cause, slot, last, outcome, why, event, handled_at, channel, seq, task)
             VALUES (?1, ?2, ?3, ?3, 'ran', ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (schedule, slot) WHERE cause = 'time'
             DO UPDATE SET last = excluded.slot, count = 1, outcome = 'ran',
                why = ?4, handled_at = ?6, channel = ?7, seq = ?8, task = ?9",
        )?
        .execute(params![run.schedule, run.cause, run.slot, run.why, run.event, run.now, channel, seq, made])?;
    if let (SlotCause::Time, Some(agent)) = (run.cause, found.creator()) {
        // A run in time counts as at its slot, so that the delay of one does not add to that of the next.
        let at = if run.why.is_empty() { run.slot } else { run.now };
        transaction
            .prepare_cached(
                "INSERT INTO agent_state (agent, scheduled_at) VALUES (?1, ?2)
                 ON CONFLICT (agent) DO UPDATE SET scheduled_at = excluded.scheduled_at",
            )?
            .execute((agent.as_str(), at))?;
    }
    match run.cause {
        SlotCause::Time => cover(transaction, run.schedule, run.slot)?,
        SlotCause::Event => {
            transaction
                .prepare_cached("UPDATE schedule SET event = NULL, event_at = NULL WHERE id = ?1")?
                .execute([run.schedule])?;
            cover(transaction, run.schedule, run.now)?;
        }
        SlotCause::Person => cover(transaction, run.schedule, found.covered_at)?,
    }
    if run.cause == SlotCause::Time && matches!(found.timing, Timing::At(_)) {
        finish(transaction, run.schedule)?;
    }
    audit::append(transaction, &run.entry, run.now)?;
    Ok(result)
}

impl Schedules<&Store> {
    /// Makes a run, unless its slot ran before.
    pub(crate) async fn run(self, wanted: SlotRun) -> Result<SlotResult, StoreError> {
        self.write("run a schedule", move |transaction| run(transaction, wanted)).await
    }
}
