//! Races: copies of a channel's team that work on the same task. A race changes its state only from the state that the
//! caller expects, in one transaction with its audit row.

use serde::{Deserialize, Serialize};

use super::channel_fork::ChannelCopy;
use super::request::Along;
use super::session::parsed;
use super::sql::{
    self, Connection, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult,
    Transaction, ValueRef, params,
};
use super::subjects::Races;
use super::usage::read_count;
use super::{Database, Store, StoreError, UsageAmount};
use crate::id::{AgentId, ChannelId, ProjectName};

/// The state of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RaceState {
    /// The copies work.
    Running,
    /// No copy may win by itself, so a person has to choose one.
    Person,
    /// A copy has won.
    Decided,
    /// No copy has delivered anything that can be chosen.
    Over,
    /// A person has ended it.
    Stopped,
}

impl RaceState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Running, Self::Person, Self::Decided, Self::Over, Self::Stopped];

    /// Returns the name that the database and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Person => "person",
            Self::Decided => "decided",
            Self::Over => "over",
            Self::Stopped => "stopped",
        }
    }
}

impl FromSql for RaceState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for RaceState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// The progress with everything that the state of a race asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settled {
    /// Something is still to be done.
    No,
    /// It is done, and something may follow, such as the merge of the winner's work.
    Yes,
    /// Nothing follows by itself any more.
    Finally,
}

impl FromSql for Settled {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(Self::No),
            1 => Ok(Self::Yes),
            2 => Ok(Self::Finally),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

impl ToSql for Settled {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok((*self as i64).into())
    }
}

/// A race to be begun, with the copies of a channel that are made in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewRace {
    /// The number that [`Races::next_id`] returned.
    pub id: i64,
    pub project: ProjectName,
    pub channel: ChannelId,
    pub task: String,
    pub base: String,
    pub created_by: String,
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub cost: Option<u64>,
    /// Unix milliseconds.
    pub ends_at: Option<i64>,
}

/// A race as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    pub id: i64,
    pub project: ProjectName,
    /// The channel whose team was copied.
    pub channel: ChannelId,
    pub task: String,
    /// The tip with which everything is joined that the copies submit.
    pub base: String,
    pub created_by: String,
    pub state: RaceState,
    /// The budget of all copies together.
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub cost: Option<u64>,
    /// Unix milliseconds.
    pub ends_at: Option<i64>,
    /// Unix milliseconds at which the budget had no more room for a call.
    pub spent_at: Option<i64>,
    /// The number of the copy that won.
    pub winner: Option<u32>,
    /// The party that chose it. `None` if the checks did.
    pub chosen_by: Option<String>,
    pub why: String,
    pub settled: Settled,
    /// Unix milliseconds.
    pub created_at: i64,
    pub decided_at: Option<i64>,
    pub dropped_at: Option<i64>,
    /// In the order of their numbers.
    pub copies: Vec<RaceCopy>,
}

/// A copy of a team in a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceCopy {
    /// Counted from 1.
    pub number: u32,
    pub channel: ChannelId,
    /// The submission that counted in the decision.
    pub submission: Option<i64>,
    /// The end, in words. Empty before the decision.
    pub ended: String,
    /// Why it won or lost. Empty before the decision.
    pub why: String,
    /// The agents that are left, each with its original.
    pub agents: Vec<(AgentId, AgentId)>,
}

impl Race {
    /// Returns the copy with this number.
    #[must_use]
    pub fn copy(&self, number: u32) -> Option<&RaceCopy> {
        self.copies.iter().find(|copy| copy.number == number)
    }
}

/// The place of an agent in a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RacePlace {
    pub race: i64,
    /// The number of its copy.
    pub number: u32,
    pub project: ProjectName,
    pub state: RaceState,
    pub base: String,
    pub winner: Option<u32>,
    /// The budget of all copies together.
    pub tokens: Option<u64>,
    pub cost: Option<u64>,
}

impl RacePlace {
    /// Returns `true` while the copies work.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == RaceState::Running
    }

    /// Returns `true` if the agent is one of the copy that won.
    #[must_use]
    pub fn has_won(&self) -> bool {
        self.state == RaceState::Decided && self.winner == Some(self.number)
    }
}

/// The activity of a copy's agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyActivity {
    /// Set if a turn runs, or something waits that begins one.
    pub is_busy: bool,
    /// Unix milliseconds at which the last turn ended.
    pub last_at: Option<i64>,
    /// Tokens and cost that it has used, with what is reserved for calls that run.
    pub used: UsageAmount,
}

/// The decision about a race.
#[derive(Clone, Debug)]
pub(crate) struct RaceDecision {
    pub state: RaceState,
    pub winner: Option<u32>,
    /// The party that chose. `None` if the checks did.
    pub chosen_by: Option<String>,
    pub why: String,
    /// For each copy its submission, how it ended, and why it won or lost.
    pub copies: Vec<(u32, Option<i64>, String, String)>,
}

const SELECT: &str =
    "SELECT id, project, channel, task, base, created_by, state, tokens, cost, ends_at, spent_at, winner,
    chosen_by, why, settled, created_at, decided_at, dropped_at FROM race";

fn amount(row: &Row<'_>, column: usize) -> sql::Result<Option<u64>> {
    Ok(row.get::<Option<i64>>(column)?.map(i64::unsigned_abs))
}

fn race(row: &Row<'_>) -> sql::Result<Race> {
    Ok(Race {
        id: row.get(0)?,
        project: parsed(row, 1)?,
        channel: parsed(row, 2)?,
        task: row.get(3)?,
        base: row.get(4)?,
        created_by: row.get(5)?,
        state: row.get(6)?,
        tokens: amount(row, 7)?,
        cost: amount(row, 8)?,
        ends_at: row.get(9)?,
        spent_at: row.get(10)?,
        winner: row.get(11)?,
        chosen_by: row.get(12)?,
        why: row.get(13)?,
        settled: row.get(14)?,
        created_at: row.get(15)?,
        decided_at: row.get(16)?,
        dropped_at: row.get(17)?,
        copies: Vec::new(),
    })
}

fn with_copies(connection: &Connection<'_>, mut found: Race) -> sql::Result<Race> {
    let mut agents = connection.prepare_cached(
        "SELECT agent, original FROM race_agent WHERE race = ?1 AND number = ?2 ORDER BY agent",
    )?;
    found.copies = connection
        .prepare_cached(
            "SELECT number, channel, submission, ended, why FROM race_copy WHERE race = ?1 ORDER BY number",
        )?
        .query_map([found.id], |row| {
            Ok(RaceCopy {
                number: row.get(0)?,
                channel: parsed(row, 1)?,
                submission: row.get(2)?,
                ended: row.get(3)?,
                why: row.get(4)?,
                agents: Vec::new(),
            })
        })?
        .collect::<sql::Result<_>>()?;
    for copy in &mut found.copies {
        let rows = agents.query_map((found.id, copy.number), |row| Ok((parsed(row, 0)?, parsed(row, 1)?)))?;
        copy.agents = rows.collect::<sql::Result<_>>()?;
    }
    Ok(found)
}

fn find(connection: &Connection<'_>, id: i64) -> sql::Result<Option<Race>> {
    let found =
        connection.prepare_cached(&format!("{SELECT} WHERE id = ?1"))?.query_row([id], race).optional()?;
    found.map(|found| with_copies(connection, found)).transpose()
}

fn all(connection: &Connection<'_>, condition: &str, limit: u32) -> sql::Result<Vec<Race>> {
    let found: Vec<Race> = connection
        .prepare_cached(&format!("{SELECT} WHERE {condition} ORDER BY id DESC LIMIT ?1"))?
        .query_map([limit], race)?
        .collect::<sql::Result<_>>()?;
    found.into_iter().map(|found| with_copies(connection, found)).collect()
}

/// Writes a race with its copies, whose channels are made in the same transaction.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    new: &NewRace,
    copies: &[ChannelCopy],
    now: i64,
) -> sql::Result<()> {
    let number = |amount: Option<u64>| amount.map(|amount| i64::try_from(amount).unwrap_or(i64::MAX));
    transaction.execute(
        "INSERT INTO race (id, project, channel, task, base, created_by, state, tokens, cost, ends_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, ?8, ?9, ?10)",
        params![
            new.id,
            new.project.as_str(),
            new.channel.as_str(),
            new.task,
            new.base,
            new.created_by,
            number(new.tokens),
            number(new.cost),
            new.ends_at,
            now
        ],
    )?;
    for (copy, number) in copies.iter().zip(1_u32..) {
        transaction.execute(
            "INSERT INTO race_copy (race, number, channel) VALUES (?1, ?2, ?3)",
            (new.id, number, copy.id.as_str()),
        )?;
        for (original, agent) in &copy.agents {
            transaction.execute(
                "INSERT INTO race_agent (agent, race, number, original) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (agent) DO UPDATE SET race = ?2, number = ?3, original = ?4",
                (agent.as_str(), new.id, number, original.as_str()),
            )?;
        }
    }
    Ok(())
}

fn used(connection: &Connection<'_>, id: i64, number: u32) -> sql::Result<UsageAmount> {
    connection
        .prepare_cached(
            "SELECT coalesce(CAST(sum(input + output + cache_read + cache_write) AS BIGINT), 0),
                coalesce(CAST(sum(cost) AS BIGINT), 0)
             FROM usage_sum WHERE agent IN (SELECT agent FROM race_agent WHERE race = ?1 AND number = ?2)",
        )?
        .query_row((id, number), |row| {
            Ok(UsageAmount { tokens: read_count(row, 0)?, cost: read_count(row, 1)? })
        })
}

fn activity(connection: &Connection<'_>, id: i64, number: u32) -> sql::Result<CopyActivity> {
    // What waits: a turn that runs, an item in an inbox, or a message that wakes one of the agents.
    let is_busy = connection
        .prepare_cached(
            "WITH own AS (SELECT agent FROM race_agent WHERE race = ?1 AND number = ?2)
             SELECT EXISTS (SELECT 1 FROM turn JOIN session ON session.key = turn.session
                WHERE turn.state = 'running' AND session.agent IN (SELECT agent FROM own))
             OR EXISTS (SELECT 1 FROM own JOIN inbox
                ON inbox.session >= 'agent:' || own.agent || ':' AND inbox.session < 'agent:' || own.agent || ';')
             OR EXISTS (SELECT 1 FROM own
                JOIN race_copy ON race_copy.race = ?1 AND race_copy.number = ?2
                JOIN message ON message.channel = race_copy.channel AND message.wake > 0
                    AND message.author <> own.agent
                    AND message.seq > coalesce((SELECT max(delivered_seq, coalesce(inflight_seq, 0)) FROM delivery
                        WHERE delivery.agent = own.agent AND delivery.channel = race_copy.channel), 0))",
        )?
        .query_row((id, number), |row| row.get(0))?;
    let last_at = connection
        .prepare_cached(
            "SELECT max(turn.ended_at) FROM turn JOIN session ON session.key = turn.session
             WHERE session.agent IN (SELECT agent FROM race_agent WHERE race = ?1 AND number = ?2)",
        )?
        .query_row((id, number), |row| row.get(0))?;
    Ok(CopyActivity { is_busy, last_at, used: used(connection, id, number)? })
}

/// Returns the place of an agent in a race, if it was made for one.
pub(super) fn place(connection: &Connection<'_>, agent: &AgentId) -> sql::Result<Option<RacePlace>> {
    connection
        .prepare_cached(
            "SELECT race.id, race_agent.number, project, state, base, winner, tokens, cost
             FROM race_agent JOIN race ON race.id = race_agent.race WHERE agent = ?1",
        )?
        .query_row([agent.as_str()], |row| {
            Ok(RacePlace {
                race: row.get(0)?,
                number: row.get(1)?,
                project: parsed(row, 2)?,
                state: row.get(3)?,
                base: row.get(4)?,
                winner: row.get(5)?,
                tokens: amount(row, 6)?,
                cost: amount(row, 7)?,
            })
        })
        .optional()
}

impl<A> Races<&Database<A>> {
    /// Returns the number of the next race.
    pub(crate) async fn next_id(self) -> Result<i64, StoreError> {
        self.read("look for the number of a race", |connection| {
            connection
                .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM race")?
                .query_row((), |row| row.get(0))
        })
        .await
    }

    /// Returns the race with this number.
    pub async fn find(self, id: i64) -> Result<Option<Race>, StoreError> {
        self.read("look for a race", |connection| find(connection, id)).await
    }

    /// Returns the newest races, at most `limit`.
    pub async fn list(self, limit: u32) -> Result<Vec<Race>, StoreError> {
        self.read("list the races", |connection| all(connection, "true", limit)).await
    }

    /// Returns the races for which something is to be done, or may be.
    pub async fn open(self) -> Result<Vec<Race>, StoreError> {
        self.read("list the races", |connection| all(connection, "settled < 2", u32::MAX)).await
    }

    /// Returns the place of an agent in a race, if it was made for one.
    pub async fn place(self, agent: &AgentId) -> Result<Option<RacePlace>, StoreError> {
        self.read("look for the race of an agent", |connection| place(connection, agent)).await
    }

    /// Returns the agents of copies that race or have not won, which review nothing.
    pub(crate) async fn agents_without_a_win(self) -> Result<Vec<AgentId>, StoreError> {
        self.read("list the agents of races", |connection| {
            connection
                .prepare_cached(
                    "SELECT agent FROM race_agent JOIN race ON race.id = race_agent.race
                     WHERE state <> 'decided' OR number <> coalesce(winner, 0)",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect()
        })
        .await
    }

    /// Returns what the agents of a copy do.
    pub async fn activity(self, id: i64, number: u32) -> Result<CopyActivity, StoreError> {
        self.read("look at the copies of a race", move |connection| activity(connection, id, number)).await
    }
}

impl Races<&Store> {
    /// Notes that the budget of a running race had no more room for a call. Returns `true` if that is new.
    pub async fn mark_spent(self, id: i64, now: i64) -> Result<bool, StoreError> {
        self.write("note that a budget is used up", move |transaction| {
            let changed = transaction.execute(
                "UPDATE race SET spent_at = ?2 WHERE id = ?1 AND state = 'running' AND spent_at IS NULL",
                (id, now),
            )?;
            Ok(changed > 0)
        })
        .await
    }

    /// Writes a decision if the race is in one of these states and was not dropped. Returns the race after it, or `None`.
    pub(crate) async fn decide(
        self,
        id: i64,
        from: &'static [RaceState],
        decision: RaceDecision,
        along: Along,
        now: i64,
    ) -> Result<Option<Race>, StoreError> {
        self.write("decide a race", move |transaction| {
            let found = find(transaction, id)?;
            if found.is_none_or(|found| !from.contains(&found.state) || found.dropped_at.is_some()) {
                return Ok(None);
            }
            transaction.execute(
                "UPDATE race SET state = ?2, winner = ?3, chosen_by = ?4, why = ?5, settled = 0, decided_at = ?6
                 WHERE id = ?1",
                (id, decision.state, decision.winner, &decision.chosen_by, &decision.why, now),
            )?;
            for (number, submission, ended, why) in &decision.copies {
                transaction.execute(
                    "UPDATE race_copy SET submission = ?3, ended = ?4, why = ?5 WHERE race = ?1 AND number = ?2",
                    (id, number, submission, ended, why),
                )?;
            }
            along.write(transaction, now)?;
            find(transaction, id)
        })
        .await
    }

    /// Marks a race whose losers are to be removed. Returns the race after it, or `None` if it runs or was dropped.
    pub(crate) async fn drop_losers(
        self,
        id: i64,
        along: Along,
        now: i64,
    ) -> Result<Option<Race>, StoreError> {
        self.write("drop a race", move |transaction| {
            let changed = transaction.execute(
                "UPDATE race SET dropped_at = ?2, settled = 0
                 WHERE id = ?1 AND state <> 'running' AND dropped_at IS NULL",
                (id, now),
            )?;
            if changed == 0 {
                return Ok(None);
            }
            along.write(transaction, now)?;
            find(transaction, id)
        })
        .await
    }

    /// Notes how far everything is done that the state of a race asks for, unless the state has changed since.
    pub(crate) async fn settle(self, race: &Race, settled: Settled) -> Result<bool, StoreError> {
        let (id, state, winner, dropped_at) = (race.id, race.state, race.winner, race.dropped_at);
        self.write("settle a race", move |transaction| {
            let changed = transaction.execute(
                "UPDATE race SET settled = ?2
                 WHERE id = ?1 AND state = ?3 AND winner IS NOT DISTINCT FROM ?4
                    AND dropped_at IS NOT DISTINCT FROM ?5 AND settled < ?2",
                (id, settled, state, winner, dropped_at),
            )?;
            Ok(changed > 0)
        })
        .await
    }
}
