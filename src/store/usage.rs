//! What models were asked and what it cost: set aside before a call, settled after it, summed by day.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params_from_iter};

use super::session::parsed;
use super::turn::Tokens;
use super::{Reader, Store, StoreError};
use crate::id::{AgentId, ChannelId, ModelRef, SessionKey, TurnId};

/// A model call that is about to be made, and the most it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUsage {
    /// A number of its own, given by who makes it: so that it can be taken back before anybody knows
    /// whether it was committed.
    pub id: i64,
    /// Now, in Unix milliseconds.
    pub at: i64,
    /// The day, as in `2026-02-28`.
    pub day: String,
    /// Whose call it is.
    pub agent: AgentId,
    /// In which session.
    pub session: SessionKey,
    /// The channel that the session is for.
    pub channel: Option<ChannelId>,
    /// In which turn.
    pub turn: TurnId,
    /// The model.
    pub model: ModelRef,
    /// The most tokens it may take.
    pub tokens: Tokens,
    /// The most it may cost in millionths of a dollar; `None` where the price is not known.
    pub cost: Option<u64>,
}

/// What a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Everything.
    Day,
    /// The calls of one agent.
    Agent(AgentId),
    /// The calls in sessions of one channel.
    Channel(ChannelId),
}

/// The most that may be used in one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageLimit {
    /// Of what.
    pub scope: Counted,
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub cost: Option<u64>,
}

/// A limit that a call does not fit below any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Which.
    pub limit: UsageLimit,
    /// What was used of it already.
    pub used: Used,
}

/// How much was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Millionths of a dollar, of the calls whose price is known.
    pub cost: u64,
}

/// What use is summed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageBy {
    /// By agent.
    #[default]
    Agent,
    /// By channel.
    Channel,
    /// By model.
    Model,
    /// By day.
    Day,
}

/// Whose use is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// From this day on.
    pub since: String,
    /// Up to this day; empty for no end.
    pub until: String,
    /// One agent's.
    pub agent: Option<AgentId>,
}

/// The sum of some use.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSum {
    /// An agent, channel, model or day; empty for what was in no channel.
    pub name: String,
    /// Model calls.
    pub calls: u64,
    /// Of them, those of models whose price is not known: they are not in `costMicros`.
    pub unpriced: u64,
    /// Fresh input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from a provider's cache.
    pub cache_read: u64,
    /// Input written to a provider's cache.
    pub cache_write: u64,
    /// Millionths of a dollar.
    pub cost_micros: u64,
}

impl UsageSum {
    /// Tokens of all kinds.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

/// What is added to the sums, and may be taken from them again.
struct Delta {
    calls: i64,
    unpriced: i64,
    tokens: [i64; 4],
    cost: i64,
}

impl Delta {
    fn of(tokens: Tokens, cost: Option<u64>) -> Self {
        let Tokens { input, output, cache_read, cache_write } = tokens;
        Self {
            calls: 1,
            unpriced: i64::from(cost.is_none()),
            tokens: [input, output, cache_read, cache_write].map(signed),
            cost: signed(cost.unwrap_or(0)),
        }
    }

    fn less(self, other: &Self) -> Self {
        let mut tokens = self.tokens;
        tokens.iter_mut().zip(other.tokens).for_each(|(count, less)| *count -= less);
        Self {
            calls: self.calls - other.calls,
            unpriced: self.unpriced - other.unpriced,
            tokens,
            cost: self.cost - other.cost,
        }
    }

    fn nothing() -> Self {
        Self { calls: 0, unpriced: 0, tokens: [0; 4], cost: 0 }
    }
}

fn signed(count: u64) -> i64 {
    // A provider may say anything; a sum of a day's calls must still fit.
    i64::try_from(count).unwrap_or(i64::MAX).min(1 << 40)
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// Which sum a call belongs to.
struct Place {
    day: String,
    agent: String,
    channel: String,
    model: String,
}

fn add(transaction: &Transaction<'_>, place: &Place, delta: &Delta) -> rusqlite::Result<()> {
    let [input, output, cache_read, cache_write] = delta.tokens;
    transaction
        .prepare_cached(
            "INSERT INTO usage_sum
             (day, agent, channel, model, calls, unpriced, input, output, cache_read, cache_write, cost)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT DO UPDATE SET calls = calls + ?5, unpriced = unpriced + ?6, input = input + ?7,
             output = output + ?8, cache_read = cache_read + ?9, cache_write = cache_write + ?10, cost = cost + ?11",
        )?
        .execute((
            &place.day,
            &place.agent,
            &place.channel,
            &place.model,
            delta.calls,
            delta.unpriced,
            input,
            output,
            cache_read,
            cache_write,
            delta.cost,
        ))
        .map(drop)
}

fn used(connection: &Connection, day: &str, scope: &Counted) -> rusqlite::Result<Used> {
    let (condition, value) = match scope {
        Counted::Day => ("?2 = ''", ""),
        Counted::Agent(agent) => ("agent = ?2", agent.as_str()),
        Counted::Channel(channel) => ("channel = ?2", channel.as_str()),
    };
    connection
        .prepare_cached(&format!(
            "SELECT coalesce(sum(input + output + cache_read + cache_write), 0), coalesce(sum(cost), 0)
             FROM usage_sum WHERE day = ?1 AND {condition}"
        ))?
        .query_row((day, value), |row| Ok(Used { tokens: unsigned(row, 0)?, cost: unsigned(row, 1)? }))
}

/// The first of these limits that there is no room below for this much more.
fn exceeded(
    connection: &Connection,
    day: &str,
    limits: &[UsageLimit],
    more: Used,
) -> rusqlite::Result<Option<Exceeded>> {
    for limit in limits {
        let used = used(connection, day, &limit.scope)?;
        let is_over = |limit: Option<u64>, used: u64, more: u64| {
            limit.is_some_and(|limit| used.saturating_add(more) > limit)
        };
        if is_over(limit.tokens, used.tokens, more.tokens) || is_over(limit.cost, used.cost, more.cost) {
            return Ok(Some(Exceeded { limit: limit.clone(), used }));
        }
    }
    Ok(None)
}

/// A call that is set aside.
fn reserved(
    transaction: &Transaction<'_>,
    id: i64,
) -> rusqlite::Result<Option<(Place, Tokens, Option<u64>)>> {
    transaction
        .prepare_cached(
            "SELECT day, agent, channel, model, input, output, cache_read, cache_write, cost
             FROM usage WHERE id = ?1 AND state = 'reserved'",
        )?
        .query_row([id], |row| {
            let place =
                Place { day: row.get(0)?, agent: row.get(1)?, channel: row.get(2)?, model: row.get(3)? };
            let cost: Option<i64> = row.get(8)?;
            Ok((place, Tokens::at(row, 4)?, cost.map(i64::unsigned_abs)))
        })
        .optional()
}

fn sums(connection: &Connection, filter: &UsageFilter, by: UsageBy) -> rusqlite::Result<Vec<UsageSum>> {
    let name = match by {
        UsageBy::Agent => "agent",
        UsageBy::Channel => "channel",
        UsageBy::Model => "model",
        UsageBy::Day => "day",
    };
    let mut conditions = vec!["day >= ?"];
    let mut values: Vec<Value> = vec![filter.since.clone().into()];
    if !filter.until.is_empty() {
        conditions.push("day <= ?");
        values.push(filter.until.clone().into());
    }
    if let Some(agent) = &filter.agent {
        conditions.push("agent = ?");
        values.push(agent.as_str().to_owned().into());
    }
    let conditions = conditions.join(" AND ");
    connection
        .prepare_cached(&format!(
            "SELECT {name}, sum(calls), sum(unpriced), sum(input), sum(output), sum(cache_read), sum(cache_write),
             sum(cost) FROM usage_sum WHERE {conditions} GROUP BY {name} HAVING sum(calls) > 0 ORDER BY {name}"
        ))?
        .query_map(params_from_iter(values), |row| {
            Ok(UsageSum {
                name: row.get(0)?,
                calls: unsigned(row, 1)?,
                unpriced: unsigned(row, 2)?,
                input: unsigned(row, 3)?,
                output: unsigned(row, 4)?,
                cache_read: unsigned(row, 5)?,
                cache_write: unsigned(row, 6)?,
                cost_micros: unsigned(row, 7)?,
            })
        })?
        .collect()
}

/// Charges what is done under this id, a task's or a session's, to a channel.
pub(super) fn charge(transaction: &Transaction<'_>, id: &str, channel: &ChannelId) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO charge (id, channel) VALUES (?1, ?2)")?
        .execute((id, channel.as_str()))
        .map(drop)
}

fn channel(row: &Row<'_>) -> rusqlite::Result<Option<ChannelId>> {
    // Empty for what is in no channel.
    Ok(row.get::<_, String>(0)?.parse().ok())
}

impl Store {
    /// Charges the calls of a session to a channel that is not its own.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn charge_session(&self, session: SessionKey, channel: ChannelId) -> Result<(), StoreError> {
        self.write("charge a session to a channel", move |transaction| {
            charge(transaction, session.as_str(), &channel)
        })
        .await
    }

    /// The channel that a turn's calls are charged to, besides its session's own: that of the task it works on,
    /// or that of the session.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn charge(&self, session: &SessionKey, turn: TurnId) -> Result<Option<ChannelId>, StoreError> {
        self.read("look which channel is charged", |connection| {
            connection
                .prepare_cached(
                    "SELECT channel FROM (
                        SELECT channel, 0 AS place FROM charge
                        WHERE id IN (SELECT task FROM inbox WHERE turn = ?2 AND task IS NOT NULL)
                        UNION ALL SELECT channel, 1 FROM charge WHERE id = ?1
                     ) ORDER BY place LIMIT 1",
                )?
                .query_row((session.as_str(), turn.to_string()), channel)
                .optional()
                .map(Option::flatten)
        })
    }

    /// The channel that the newest call of a session is charged to.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn last_charge(&self, session: &SessionKey) -> Result<Option<ChannelId>, StoreError> {
        self.read("look which channel is charged", |connection| {
            connection
                .prepare_cached("SELECT channel FROM usage WHERE session = ?1 ORDER BY id DESC LIMIT 1")?
                .query_row([session.as_str()], channel)
                .optional()
                .map(Option::flatten)
        })
    }

    /// Sets aside what a call may take, if that still fits below all these limits. Calls at the same time are
    /// looked at one after the other, so that they can't exceed a limit together.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn reserve_usage(
        &self,
        new: NewUsage,
        limits: Vec<UsageLimit>,
    ) -> Result<Result<(), Exceeded>, StoreError> {
        self.write("set a model call aside", move |transaction| {
            let delta = Delta::of(new.tokens, new.cost);
            let more = Used {
                tokens: delta.tokens.iter().sum::<i64>().unsigned_abs(),
                cost: delta.cost.unsigned_abs(),
            };
            if let Some(exceeded) = exceeded(transaction, &new.day, &limits, more)? {
                return Ok(Err(exceeded));
            }
            let place = Place {
                day: new.day,
                agent: new.agent.to_string(),
                channel: new.channel.map(String::from).unwrap_or_default(),
                model: new.model.to_string(),
            };
            let [input, output, cache_read, cache_write] = delta.tokens;
            transaction
                .prepare_cached(
                    "INSERT INTO usage (id, at, day, agent, session, channel, turn, model, input, output,
                     cache_read, cache_write, cost, state)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 'reserved')",
                )?
                .execute((
                    new.id,
                    new.at,
                    &place.day,
                    &place.agent,
                    new.session.as_str(),
                    &place.channel,
                    new.turn.to_string(),
                    &place.model,
                    input,
                    output,
                    cache_read,
                    cache_write,
                    new.cost.map(signed),
                ))?;
            add(transaction, &place, &delta)?;
            Ok(Ok(()))
        })
        .await
    }

    /// Replaces what was set aside for a call by what it took; `None` takes it away altogether. Nothing
    /// happens where nothing is set aside under this number.
    pub fn settle_usage(&self, id: i64, truth: Option<(Tokens, Option<u64>)>) {
        self.write_behind("settle a model call", move |transaction| {
            let Some((place, tokens, cost)) = reserved(transaction, id)? else { return Ok(()) };
            let before = Delta::of(tokens, cost);
            let Some((tokens, cost)) = truth else {
                transaction.prepare_cached("DELETE FROM usage WHERE id = ?1")?.execute([id])?;
                return add(transaction, &place, &Delta::nothing().less(&before));
            };
            let after = Delta::of(tokens, cost);
            let [input, output, cache_read, cache_write] = after.tokens;
            transaction
                .prepare_cached(
                    "UPDATE usage SET input = ?2, output = ?3, cache_read = ?4, cache_write = ?5, cost = ?6,
                     state = 'settled' WHERE id = ?1",
                )?
                .execute((id, input, output, cache_read, cache_write, cost.map(signed)))?;
            add(transaction, &place, &after.less(&before))
        });
    }

    /// Takes what is still set aside as used: of calls whose process died nobody knows what they took. To be
    /// called before the first call of a process. Gives how many they were.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn settle_left_usage(&self) -> Result<usize, StoreError> {
        self.write("settle model calls of an earlier run", |transaction| {
            transaction.execute("UPDATE usage SET state = 'settled' WHERE state = 'reserved'", ())
        })
        .await
    }

    /// The calls that are set aside, each with its turn.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn reserved_usage(&self) -> Result<Vec<(i64, TurnId)>, StoreError> {
        self.read("list model calls under way", |connection| {
            connection
                .prepare_cached("SELECT id, turn FROM usage WHERE state = 'reserved'")?
                .query_map((), |row| Ok((row.get(0)?, parsed(row, 1)?)))?
                .collect()
        })
    }

    /// As [`Self::settle_left_usage`], for these calls only, at any time.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn settle_lost_usage(&self, calls: Vec<i64>) -> Result<usize, StoreError> {
        self.write("settle model calls whose end was not written", move |transaction| {
            let mut statement = transaction
                .prepare_cached("UPDATE usage SET state = 'settled' WHERE id = ?1 AND state = 'reserved'")?;
            calls.iter().map(|id| statement.execute([id])).sum()
        })
        .await
    }

    /// The first of these limits that is used up.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn usage_exceeded(
        &self,
        day: &str,
        limits: &[UsageLimit],
        more: Used,
    ) -> Result<Option<Exceeded>, StoreError> {
        self.read("look at the budgets", |connection| exceeded(connection, day, limits, more))
    }

    /// Whether this is the first time that something is said of a budget in a channel on a day.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn note_budget(
        &self,
        day: String,
        channel: ChannelId,
        budget: String,
    ) -> Result<bool, StoreError> {
        self.write("note that a budget is used up", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT OR IGNORE INTO budget_notice (day, channel, budget) VALUES (?1, ?2, ?3)",
                )?
                .execute((day, channel.as_str(), budget))
                .map(|added| added == 1)
        })
        .await
    }

    /// What was used, summed.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn usage(&self, filter: &UsageFilter, by: UsageBy) -> Result<Vec<UsageSum>, StoreError> {
        self.read("read the usage", |connection| sums(connection, filter, by))
    }
}

impl Reader {
    /// As [`Store::usage`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn usage(&self, filter: &UsageFilter, by: UsageBy) -> Result<Vec<UsageSum>, StoreError> {
        self.read("read the usage", |connection| sums(connection, filter, by))
    }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
