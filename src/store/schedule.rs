//! Schedules: texts that are given to a channel or an agent at certain times.
//!
//! Each time of a schedule (a slot) has one row, which is written in the same transaction as the message or the task that
//! it causes. A slot whose row says that it ran never runs again, so a process can be killed at any moment.

use super::audit::{self, AuditEntry};
use super::inbox::NewInboxItem;
use super::post::{self, CommittedPost, NewPost, PostOutcome};
use super::session::parsed;
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction, params};
use super::subjects::Schedules;
use super::task::{self, NewTask, Task, TaskSubmission};
use super::usage::read_count;
use super::words::words;
use super::{Database, Store, StoreError, UsageAmount};
use crate::id::{AgentId, ChannelId, ScheduleName};

/// Number of rows that are kept of each schedule.
const MOST_ROWS: i64 = 1000;

/// Age after which it is forgotten which turns a schedule caused.
const TURN_AGE_MS: i64 = 3 * 24 * 3_600_000;

fn timestamp(at: i64) -> uuid::Timestamp {
    let at = at.max(0).unsigned_abs();
    uuid::Timestamp::from_unix(uuid::NoContext, at / 1000, 0)
}

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

/// A schedule to be added.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// The name; `None` for one made of the recipient and a number.
    pub name: Option<ScheduleName>,
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
    /// The time up to which none of its times runs, at least `now`.
    pub begins: i64,
    pub now: i64,
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

/// The result of adding a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleAdded {
    New(Box<Schedule>),
    /// A schedule has this name.
    NameTaken(ScheduleName),
    /// There are as many schedules as there may be.
    TooMany,
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

/// Slots that pass without a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedSlots {
    pub first: i64,
    pub last: i64,
    pub count: u64,
    pub outcome: SlotOutcome,
    pub why: String,
}

/// The extent of a row of missed slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedRange {
    pub first: i64,
    pub last: i64,
    pub count: u64,
}

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

/// The turns that a schedule caused on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScheduleTurns {
    pub(crate) turns: u64,
    pub(crate) used: UsageAmount,
    /// The calls whose cost is unknown. They are in no sum of costs.
    pub(crate) unpriced: u64,
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

fn by_id(connection: &Connection<'_>, id: i64) -> sql::Result<Option<Schedule>> {
    connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?.query_row([id], schedule).optional()
}

fn by_name(connection: &Connection<'_>, name: &str) -> sql::Result<Option<Schedule>> {
    connection.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?.query_row([name], schedule).optional()
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

/// Returns a free name that begins with the recipient's.
fn free_name(connection: &Connection<'_>, target: &ScheduleTarget) -> sql::Result<String> {
    let base = match target {
        ScheduleTarget::Agent(agent) => agent.as_str().replace('_', "-"),
        ScheduleTarget::Channel(channel) => channel.as_str().to_ascii_lowercase(),
    };
    // The grammar of ids ends at 64 characters, that of names at 40, with room for the number.
    let base = base.get(..32).unwrap_or(&base).trim_end_matches('-').to_owned();
    for number in 1.. {
        let name = format!("{base}-{number}");
        if by_name(connection, &name)?.is_none() {
            return Ok(name);
        }
    }
    Err(sql::Error::Malformed)
}

fn number(amount: Option<u64>) -> Option<i64> {
    amount.map(|amount| i64::try_from(amount).unwrap_or(i64::MAX))
}

fn insert(
    transaction: &Transaction<'_>,
    new: &NewSchedule,
    most: u32,
    entry: AuditEntry,
) -> sql::Result<ScheduleAdded> {
    let count: u32 = transaction.query_row("SELECT count(*) FROM schedule", (), |row| row.get(0))?;
    if count >= most {
        return Ok(ScheduleAdded::TooMany);
    }
    let name = match &new.name {
        Some(name) if by_name(transaction, name.as_str())?.is_some() => {
            return Ok(ScheduleAdded::NameTaken(name.clone()));
        }
        Some(name) => name.to_string(),
        None => free_name(transaction, &new.target)?,
    };
    let (agent, channel) = match &new.target {
        ScheduleTarget::Agent(agent) => (Some(agent.as_str()), None),
        ScheduleTarget::Channel(channel) => (None, Some(channel.as_str())),
    };
    let (kind, pattern, zone, period, at) = match &new.timing {
        Timing::Cron { pattern, zone } => ("cron", pattern.as_str(), zone.as_str(), 0, 0),
        Timing::Every { from, period } => ("every", "", "", *period, *from),
        Timing::At(at) => ("at", "", "", 0, *at),
        Timing::After(event) => ("after", event.as_str(), "", 0, 0),
    };
    transaction.execute(
        "INSERT INTO schedule (name, agent, channel, kind, pattern, zone, period, at, text, missed, tokens, cost,
            created_by, created_at, covered_at, pruned_until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        params![
            name,
            agent,
            channel,
            kind,
            pattern,
            zone,
            period,
            at,
            new.text,
            new.missed,
            number(new.tokens),
            number(new.cost),
            new.created_by,
            new.now,
            new.begins,
            // A clock that is set back leads to the times before the schedule, but not to those that it leaves out.
            if new.begins > new.now { new.begins } else { 0 }
        ],
    )?;
    audit::append(transaction, &AuditEntry { subject: name.clone(), ..entry }, new.now)?;
    let added = by_name(transaction, &name)?.ok_or(sql::Error::NoRow)?;
    Ok(ScheduleAdded::New(Box::new(added)))
}

/// Counts a schedule's slots up to `until` as handled, and deletes its oldest rows.
fn cover(transaction: &Transaction<'_>, id: i64, until: i64) -> sql::Result<()> {
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

fn finish(transaction: &Transaction<'_>, id: i64) -> sql::Result<()> {
    transaction.prepare_cached("UPDATE schedule SET state = 'done' WHERE id = ?1")?.execute([id]).map(drop)
}

/// Records slots that pass without a run.
fn record_missed(
    transaction: &Transaction<'_>,
    id: i64,
    missed: &[MissedSlots],
    now: i64,
) -> sql::Result<bool> {
    let found = by_id(transaction, id)?.filter(|found| found.state == ScheduleState::Active);
    let Some(found) = found else { return Ok(false) };
    for slots in missed {
        let count = i64::try_from(slots.count).unwrap_or(i64::MAX);
        // A slot that ran stays what it is.
        transaction
            .prepare_cached(
                "INSERT INTO schedule_slot (schedule, cause, slot, last, count, outcome, why, handled_at)
                 VALUES (?1, 'time', ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (schedule, slot) WHERE cause = 'time' DO NOTHING",
            )?
            .execute(params![id, slots.first, slots.last, count, slots.outcome, slots.why, now])?;
        cover(transaction, id, slots.last)?;
    }
    if matches!(found.timing, Timing::At(_)) && !missed.is_empty() {
        finish(transaction, id)?;
    }
    Ok(true)
}

/// Lets a schedule go on from `now` after the clock was set back. Slots after `now` count as not yet passed, except those
/// that ran. `cut` has the rows of missed slots on both sides of `now`, as they are without the later ones.
fn set_back(transaction: &Transaction<'_>, id: i64, cut: &[MissedRange], now: i64) -> sql::Result<()> {
    transaction.execute(
        "DELETE FROM schedule_slot WHERE schedule = ?1 AND cause = 'time' AND outcome <> 'ran' AND slot > ?2",
        (id, now),
    )?;
    for range in cut {
        transaction.execute(
            "UPDATE schedule_slot SET last = ?3, count = ?4, why = why || '; the clock was set back since'
             WHERE schedule = ?1 AND slot = ?2 AND cause = 'time' AND outcome <> 'ran'",
            params![id, range.first, range.last, i64::try_from(range.count).unwrap_or(i64::MAX)],
        )?;
    }
    transaction
        .execute("UPDATE schedule SET covered_at = max(pruned_until, ?2) WHERE id = ?1", (id, now))
        .map(drop)
}

/// Lets a schedule with a single time wait for it again, unless it ran. Returns `false` if it ran.
fn reopen(transaction: &Transaction<'_>, id: i64, now: i64) -> sql::Result<bool> {
    let changed = transaction.execute(
        "UPDATE schedule SET state = 'active' WHERE id = ?1 AND state = 'done' AND NOT EXISTS
         (SELECT 1 FROM schedule_slot WHERE schedule = ?1 AND cause = 'time' AND outcome = 'ran')",
        [id],
    )?;
    if changed > 0 {
        set_back(transaction, id, &[], now)?;
    }
    Ok(changed > 0)
}

/// Notes that a turn was caused by the schedules whose messages it is given, or by what their turns have posted.
pub(super) fn charge_batch(
    transaction: &Transaction<'_>,
    channel: &str,
    (after, up_to): (i64, i64),
    turn: &str,
) -> sql::Result<()> {
    let is_empty: bool = transaction
        .prepare_cached("SELECT NOT EXISTS (SELECT 1 FROM schedule)")?
        .query_row((), |row| row.get(0))?;
    if is_empty {
        return Ok(());
    }
    transaction
        .prepare_cached(
            "INSERT INTO schedule_turn (turn, schedule)
             SELECT ?4, schedule FROM schedule_slot WHERE channel = ?1 AND seq > ?2 AND seq <= ?3
             ON CONFLICT DO NOTHING",
        )?
        .execute((channel, after, up_to, turn))?;
    // With a person's message among them, the turn is the person's.
    transaction
        .prepare_cached(
            "INSERT INTO schedule_turn (turn, schedule)
             SELECT ?4, t.schedule FROM message m JOIN schedule_turn t ON t.turn = m.turn
             WHERE m.channel = ?1 AND m.seq > ?2 AND m.seq <= ?3 AND NOT EXISTS (SELECT 1 FROM message h
                WHERE h.channel = ?1 AND h.seq > ?2 AND h.seq <= ?3 AND h.author LIKE 'human:%')
             ON CONFLICT DO NOTHING",
        )?
        .execute((channel, after, up_to, turn))
        .map(drop)
}

/// Notes that a turn was caused by the schedule whose task it is given.
pub(super) fn charge_task(transaction: &Transaction<'_>, task: &str, turn: &str) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO schedule_turn (turn, schedule)
             SELECT ?2, schedule FROM schedule_slot WHERE task = ?1 ON CONFLICT DO NOTHING",
        )?
        .execute((task, turn))
        .map(drop)
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

    /// Returns the use of models by the turns that a schedule caused, on a day.
    pub(crate) async fn used(self, id: i64, day: &str) -> Result<ScheduleTurns, StoreError> {
        let day = day.to_owned();
        self.read_long("look at the budget of a schedule", move |connection| {
            connection
                .prepare_cached(
                    "SELECT count(DISTINCT u.turn),
                        coalesce(CAST(sum(u.input + u.output + u.cache_read + u.cache_write) AS BIGINT), 0),
                        coalesce(CAST(sum(u.cost) AS BIGINT), 0),
                        count(*) FILTER (WHERE u.cost IS NULL)
                     FROM usage u WHERE u.day = ?2
                        AND u.turn IN (SELECT turn FROM schedule_turn WHERE schedule = ?1)",
                )?
                .query_row((id, day), |row| {
                    let used = UsageAmount { tokens: read_count(row, 1)?, cost: read_count(row, 2)? };
                    Ok(ScheduleTurns { turns: read_count(row, 0)?, used, unpriced: read_count(row, 3)? })
                })
        })
        .await
    }
}

impl Schedules<&Store> {
    /// Adds a schedule unless there are `most` already.
    pub(crate) async fn add(
        self,
        new: NewSchedule,
        most: u32,
        entry: AuditEntry,
    ) -> Result<ScheduleAdded, StoreError> {
        self.write("add a schedule", move |transaction| insert(transaction, &new, most, entry)).await
    }

    /// Pauses a schedule or lets it go on from `now`. Returns `false` if nothing changed.
    pub(crate) async fn set_paused(
        self,
        id: i64,
        why: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("pause a schedule", move |transaction| {
            let changed = match why {
                Some(why) => transaction.execute(
                    "UPDATE schedule SET state = 'paused', why = ?2 WHERE id = ?1 AND state = 'active'",
                    (id, why),
                )?,
                // Times that passed during a pause are no slots.
                None => transaction.execute(
                    "UPDATE schedule SET state = 'active', why = '', covered_at = max(pruned_until, ?2), event = NULL,
                        event_at = NULL WHERE id = ?1 AND state = 'paused'",
                    (id, now),
                )?,
            };
            if changed > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(changed > 0)
        })
        .await
    }

    /// Makes a schedule one that this party added now.
    pub(crate) async fn take_over(
        self,
        id: i64,
        party: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("take a schedule over", move |transaction| {
            let changed = transaction.execute(
                "UPDATE schedule SET created_by = ?2, created_at = ?3 WHERE id = ?1",
                (id, &party, now),
            )?;
            if changed > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(())
        })
        .await
    }

    /// Changes the budget of a schedule. Returns `false` if it is as it was, or the schedule is gone.
    pub(crate) async fn set_budget(
        self,
        id: i64,
        budget: ScheduleBudget,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("change the budget of a schedule", move |transaction| {
            let changed = transaction.execute(
                "UPDATE schedule SET tokens = ?2, cost = ?3
                 WHERE id = ?1 AND (tokens IS DISTINCT FROM ?2 OR cost IS DISTINCT FROM ?3)",
                (id, number(budget.tokens), number(budget.cost)),
            )?;
            if changed > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(changed > 0)
        })
        .await
    }

    /// Removes a schedule with its history. Returns `false` if there was none.
    pub(crate) async fn remove(self, id: i64, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("remove a schedule", move |transaction| {
            let removed = transaction.execute("DELETE FROM schedule WHERE id = ?1", [id])?;
            if removed > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(removed > 0)
        })
        .await
    }

    /// Makes a run, unless its slot ran before.
    pub(crate) async fn run(self, wanted: SlotRun) -> Result<SlotResult, StoreError> {
        self.write("run a schedule", move |transaction| run(transaction, wanted)).await
    }

    /// Records slots that pass without a run. Returns `false` if the schedule is no longer active.
    pub(crate) async fn record_missed(
        self,
        id: i64,
        missed: Vec<MissedSlots>,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("record missed times", move |transaction| record_missed(transaction, id, &missed, now))
            .await
    }

    /// Returns the first slots of the rows of missed slots that lie on both sides of a time.
    pub(crate) async fn missed_across(self, id: i64, at: i64) -> Result<Vec<i64>, StoreError> {
        self.read("look at the missed times of a schedule", |connection| {
            connection
                .prepare_cached(
                    "SELECT slot FROM schedule_slot WHERE schedule = ?1 AND cause = 'time' AND outcome <> 'ran'
                     AND slot <= ?2 AND last > ?2",
                )?
                .query_map((id, at), |row| row.get(0))?
                .collect()
        })
        .await
    }

    /// Lets a schedule go on from `now` after the clock was set back. `cut` has the rows of
    /// [`Self::missed_across`], as they are without the slots after `now`.
    pub(crate) async fn set_back(self, id: i64, cut: Vec<MissedRange>, now: i64) -> Result<(), StoreError> {
        self.write("follow the clock", move |transaction| set_back(transaction, id, &cut, now)).await
    }

    /// Lets a schedule wait again for its single time, which is ahead because the clock was set back. Returns `false` if
    /// it ran at that time.
    pub(crate) async fn reopen(self, id: i64, now: i64) -> Result<bool, StoreError> {
        self.write("follow the clock", move |transaction| reopen(transaction, id, now)).await
    }

    /// Notes that a schedule has to run after an event. An event that it ran after, or that waits already, changes nothing.
    pub(crate) async fn note_event(self, id: i64, event: String, now: i64) -> Result<bool, StoreError> {
        self.write("note an event", move |transaction| {
            let changed = transaction.execute(
                "UPDATE schedule SET event = ?2, event_at = ?3 WHERE id = ?1 AND state = 'active' AND event IS NULL
                 AND NOT EXISTS (SELECT 1 FROM schedule_slot WHERE schedule = ?1 AND schedule_slot.event = ?2)",
                (id, event, now),
            )?;
            Ok(changed > 0)
        })
        .await
    }

    /// Records that a schedule does not run after the event that it waits with.
    pub(crate) async fn skip_event(
        self,
        id: i64,
        event: String,
        why: String,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("leave an event out", move |transaction| {
            transaction.execute(
                "INSERT INTO schedule_slot (schedule, cause, slot, last, outcome, why, event, handled_at)
                 VALUES (?1, 'event', ?2, ?2, 'skipped', ?3, ?4, ?2) ON CONFLICT DO NOTHING",
                (id, now, why, event),
            )?;
            transaction.execute("UPDATE schedule SET event = NULL, event_at = NULL WHERE id = ?1", [id])?;
            cover(transaction, id, now)
        })
        .await
    }
}
