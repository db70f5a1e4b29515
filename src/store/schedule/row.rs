//! The row of a schedule.

use crate::id::{AgentId, ChannelId, ScheduleName};
use crate::store::session::parsed;
use crate::store::sql::{self, Connection, OptionalExtension as _, Row, Transaction};
use crate::store::subjects::Schedules;
use crate::store::words::words;
use crate::store::{Database, StoreError};

words! {
    /// The state of a schedule.
    ScheduleState {
        /// It runs at its times.
        Active = "active",
        /// Its times pass without effect until a person resumes it.
        Paused = "paused",
        /// Its only time has passed.
        Done = "done",
    }
}

words! {
    /// The policy for slots that passed while nothing could run.
    MissedPolicy {
        /// One run for all of them.
        Once = "once",
        /// No run.
        Skip = "skip",
        /// One run for each.
        All = "all",
    }
}

/// The recipient of a schedule's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleTarget {
    Agent(AgentId),
    Channel(ChannelId),
}

/// The times of a schedule. All numbers are Unix milliseconds or milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The local times in a zone that fit a cron pattern.
    Cron { pattern: String, zone: String },
    /// `from`, and after it again and again when this much time has passed.
    Every { from: i64, period: i64 },
    /// One time.
    At(i64),
    /// After each event of this name.
    After(String),
}

/// The budget of a schedule for a day. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleBudget {
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub cost: Option<u64>,
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub id: i64,
    pub name: ScheduleName,
    pub target: ScheduleTarget,
    pub timing: Timing,
    pub text: String,
    pub missed: MissedPolicy,
    /// Tokens that it may use in a day.
    pub tokens: Option<u64>,
    /// Millionths of a dollar that it may cost in a day.
    pub cost: Option<u64>,
    /// A party.
    pub created_by: String,
    pub created_at: i64,
    pub state: ScheduleState,
    /// The reason why flock has paused it. Empty if a person did.
    pub why: String,
    /// The time up to which every slot has its row.
    pub covered_at: i64,
    /// The time up to which no slot runs, whatever the clock says: rows up to it were deleted for their age, or the schedule
    /// begins after it.
    pub pruned_until: i64,
    /// The event that the next run follows, with its time.
    pub event: Option<(String, i64)>,
}

impl Schedule {
    /// Returns the agent that asked for it, if it was one.
    #[must_use]
    pub fn creator(&self) -> Option<AgentId> {
        self.created_by.parse().ok()
    }

    /// Returns its budget.
    #[must_use]
    pub const fn budget(&self) -> ScheduleBudget {
        ScheduleBudget { tokens: self.tokens, cost: self.cost }
    }
}

const SELECT: &str =
    "SELECT id, name, agent, channel, kind, pattern, zone, period, at, text, missed, tokens, cost, created_by,
    created_at, state, why, covered_at, pruned_until, event, event_at FROM schedule";

fn schedule(row: &Row<'_>) -> sql::Result<Schedule> {
    let channel: Option<String> = row.get(3)?;
    let target = match channel {
        Some(_) => ScheduleTarget::Channel(parsed(row, 3)?),
        None => ScheduleTarget::Agent(parsed(row, 2)?),
    };
    let (pattern, zone): (String, String) = (row.get(5)?, row.get(6)?);
    let (period, at): (i64, i64) = (row.get(7)?, row.get(8)?);
    let timing = match row.get_ref(4)?.as_str()? {
        "cron" => Timing::Cron { pattern, zone },
        "every" => Timing::Every { from: at, period },
        "at" => Timing::At(at),
        _ => Timing::After(pattern),
    };
    let amount = |column| row.get::<Option<i64>>(column).map(|found| found.map(i64::unsigned_abs));
    let event: Option<String> = row.get(19)?;
    let event_at: Option<i64> = row.get(20)?;
    Ok(Schedule {
        id: row.get(0)?,
        name: parsed(row, 1)?,
        target,
        timing,
        text: row.get(9)?,
        missed: row.get(10)?,
        tokens: amount(11)?,
        cost: amount(12)?,
        created_by: row.get(13)?,
        created_at: row.get(14)?,
        state: row.get(15)?,
        why: row.get(16)?,
        covered_at: row.get(17)?,
        pruned_until: row.get(18)?,
        event: event.zip(event_at),
    })
}

pub(super) fn by_id(connection: &Connection<'_>, id: i64) -> sql::Result<Option<Schedule>> {
    connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?.query_row([id], schedule).optional()
}

pub(super) fn by_name(connection: &Connection<'_>, name: &str) -> sql::Result<Option<Schedule>> {
    connection.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?.query_row([name], schedule).optional()
}

/// Marks a schedule as one whose only time has passed.
pub(super) fn finish(transaction: &Transaction<'_>, id: i64) -> sql::Result<()> {
    transaction.prepare_cached("UPDATE schedule SET state = 'done' WHERE id = ?1")?.execute([id]).map(drop)
}

impl<A> Schedules<&Database<A>> {
    /// Returns all schedules, by name.
    pub(crate) async fn list(self) -> Result<Vec<Schedule>, StoreError> {
        self.read("list schedules", |connection| {
            connection.prepare_cached(&format!("{SELECT} ORDER BY name"))?.query_map((), schedule)?.collect()
        })
        .await
    }

    /// Returns the schedule with this name.
    pub(crate) async fn find(self, name: &ScheduleName) -> Result<Option<Schedule>, StoreError> {
        self.read("find a schedule", |connection| by_name(connection, name.as_str())).await
    }
}
