//! The history of a schedule: a row for each slot that ran or passed.

use crate::id::{AgentId, ChannelId};
use crate::store::session::parsed;
use crate::store::sql::{self, OptionalExtension as _, Row, Transaction};
use crate::store::subjects::Schedules;
use crate::store::usage::read_count;
use crate::store::words::words;
use crate::store::{Database, StoreError};

/// Number of rows that are kept of each schedule.
const MOST_ROWS: i64 = 1000;

/// Age after which it is forgotten which turns a schedule caused.
const TURN_AGE_MS: i64 = 3 * 24 * 3_600_000;

words! {
    /// The cause of a run.
    SlotCause {
        /// One of the schedule's times.
        Time = "time",
        /// A person who wanted it now.
        Person = "person",
        /// An event.
        Event = "event",
    }
}

words! {
    /// The outcome of a slot.
    SlotOutcome {
        /// Its text was given to the recipient.
        Ran = "ran",
        /// It passed while nothing could run.
        Missed = "missed",
        /// It was left out, for example because the budget was used up.
        Skipped = "skipped",
    }
}

/// A row of the history: the outcome of one slot, or of several that were missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSlot {
    pub id: i64,
    pub cause: SlotCause,
    /// The slot's time; the first one if the row stands for several.
    pub slot: i64,
    /// The last slot that the row stands for.
    pub last: i64,
    /// The number of slots that the row stands for.
    pub count: u64,
    pub outcome: SlotOutcome,
    /// The reason why it did not run, or ran late.
    pub why: String,
    pub event: Option<String>,
    pub handled_at: i64,
    /// The message that it caused.
    pub post: Option<(ChannelId, u64)>,
    /// The id of the task that it caused.
    pub task: Option<String>,
    /// The state of that task.
    pub task_state: Option<String>,
}

fn slot(row: &Row<'_>) -> sql::Result<ScheduleSlot> {
    let channel: Option<String> = row.get(9)?;
    let seq: Option<i64> = row.get(10)?;
    let channel = channel.map(|_| parsed::<ChannelId>(row, 9)).transpose()?;
    Ok(ScheduleSlot {
        id: row.get(0)?,
        cause: row.get(1)?,
        slot: row.get(2)?,
        last: row.get(3)?,
        count: read_count(row, 4)?,
        outcome: row.get(5)?,
        why: row.get(6)?,
        event: row.get(7)?,
        handled_at: row.get(8)?,
        post: channel.zip(seq.map(i64::unsigned_abs)),
        task: row.get(11)?,
        task_state: row.get(12)?,
    })
}

/// Counts a schedule's slots up to `until` as handled, and deletes its oldest rows.
pub(super) fn cover(transaction: &Transaction<'_>, id: i64, until: i64) -> sql::Result<()> {
    transaction
        .prepare_cached("UPDATE schedule SET covered_at = max(covered_at, ?2) WHERE id = ?1")?
        .execute((id, until))?;
    // The ids of turns begin with their time. Only those of today count towards a budget, in any time zone.
    let old = uuid::Uuid::new_v7(timestamp(until.saturating_sub(TURN_AGE_MS)));
    transaction
        .prepare_cached("DELETE FROM schedule_turn WHERE turn < ?1 AND schedule = ?2")?
        .execute((old.to_string(), id))?;
    // A row that is deleted can no longer say that its slot ran, so its time is remembered.
    let oldest: Option<i64> = transaction
        .prepare_cached(
            "SELECT id FROM schedule_slot WHERE schedule = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2",
        )?
        .query_row((id, MOST_ROWS), |row| row.get(0))
        .optional()?;
    let Some(oldest) = oldest else { return Ok(()) };
    transaction
        .prepare_cached(
            "UPDATE schedule SET pruned_until = max(pruned_until, coalesce((SELECT max(last) FROM schedule_slot
             WHERE schedule = ?1 AND id <= ?2 AND cause = 'time'), 0)) WHERE id = ?1",
        )?
        .execute((id, oldest))?;
    transaction
        .prepare_cached("DELETE FROM schedule_slot WHERE schedule = ?1 AND id <= ?2")?
        .execute((id, oldest))
        .map(drop)
}

fn timestamp(at: i64) -> uuid::Timestamp {
    let at = at.max(0).unsigned_abs();
    uuid::Timestamp::from_unix(uuid::NoContext, at / 1000, 0)
}

impl<A> Schedules<&Database<A>> {
    /// Returns the slots after `at` that have run, which happens if the clock was set back.
    pub(crate) async fn ran_after(self, id: i64, at: i64) -> Result<Vec<i64>, StoreError> {
        self.read("look at the runs of a schedule", |connection| {
            connection
                .prepare_cached(
                    "SELECT slot FROM schedule_slot WHERE schedule = ?1 AND cause = 'time' AND outcome = 'ran'
                     AND slot > ?2",
                )?
                .query_map((id, at), |row| row.get(0))?
                .collect()
        })
        .await
    }

    /// Returns the time of a schedule's last run.
    pub(crate) async fn last_run(self, id: i64) -> Result<Option<i64>, StoreError> {
        self.read("look at the runs of a schedule", |connection| {
            connection
                .prepare_cached(
                    "SELECT max(handled_at) FROM schedule_slot WHERE schedule = ?1 AND outcome = 'ran'",
                )?
                .query_row([id], |row| row.get(0))
        })
        .await
    }

    /// Returns the time of the last run of all schedules that an agent asked for, also of removed ones.
    pub(crate) async fn last_run_of(self, agent: &AgentId) -> Result<Option<i64>, StoreError> {
        self.read("look at the runs of an agent's schedules", |connection| {
            let found: Option<Option<i64>> = connection
                .prepare_cached("SELECT scheduled_at FROM agent_state WHERE agent = ?1")?
                .query_row([agent.as_str()], |row| row.get(0))
                .optional()?;
            Ok(found.flatten())
        })
        .await
    }

    /// Returns what became of a schedule's slots, the newest first.
    pub(crate) async fn history(self, id: i64, limit: u32) -> Result<Vec<ScheduleSlot>, StoreError> {
        self.read("list the runs of a schedule", |connection| {
            connection
                .prepare_cached(
                    "SELECT s.id, s.cause, s.slot, s.last, s.count, s.outcome, s.why, s.event, s.handled_at, s.channel,
                        s.seq, s.task, task.state
                     FROM schedule_slot s LEFT JOIN task ON task.id = s.task
                     WHERE s.schedule = ?1 ORDER BY s.id DESC LIMIT ?2",
                )?
                .query_map((id, limit), slot)?
                .collect()
        })
        .await
    }
}
