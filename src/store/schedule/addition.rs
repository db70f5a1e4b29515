//! The addition of a schedule.

use super::amount;
use super::row::{MissedPolicy, Schedule, ScheduleTarget, Timing, by_name};
use crate::id::ScheduleName;
use crate::store::audit::{self, AuditEntry};
use crate::store::sql::{self, Connection, Transaction, params};
use crate::store::subjects::Schedules;
use crate::store::{Store, StoreError};

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

/// The result of adding a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleAdded {
    New(Box<Schedule>),
    /// A schedule has this name.
    NameTaken(ScheduleName),
    /// There are as many schedules as there may be.
    TooMany,
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
            amount(new.tokens),
            amount(new.cost),
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
}
