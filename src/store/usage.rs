//! Usage of models: reserved before a call, settled after it, and summed by day.

use super::person::{self, Person};
use super::race::{self, RacePlace};
use super::session::parsed;
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction, Value, params_from_iter};
use super::subjects::UsageRecords;
use super::turn::TokenCounts;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, ChannelId, McpServerName, ModelRef, SessionKey, TurnId};

/// A reservation for a model call that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUsage {
    /// A number chosen by the caller, so that the reservation can be released before the caller knows if it was
    /// committed.
    pub id: i64,
    /// The current time in Unix milliseconds.
    pub at: i64,
    /// The day, as in `2026-02-28`.
    pub day: String,
    pub agent: AgentId,
    pub session: SessionKey,
    /// The channel that the call is charged to.
    pub channel: Option<ChannelId>,
    pub turn: TurnId,
    pub model: ModelRef,
    /// The MCP server that asked for the call. `None` for a call of the agent's own.
    pub server: Option<McpServerName>,
    /// The name of the person whose budget the call counts against. `None` for the owner's and for the team's own.
    pub person: Option<String>,
    /// The most tokens that the call may use.
    pub tokens: TokenCounts,
    /// The most that it may cost, in millionths of a dollar; `None` if the model's price is unknown.
    pub cost: Option<u64>,
}

/// The usage of a call that has ended. It takes the place of the call's reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSettlement {
    /// The number of the reservation.
    pub id: i64,
    /// The tokens, and the cost in millionths of a dollar: `None` if the model's price is unknown. Without this pair, the
    /// reservation is released.
    pub used: Option<(TokenCounts, Option<u64>)>,
}

/// The calls that count towards a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageScope {
    /// All calls of the day.
    Day,
    /// The calls of one agent.
    Agent(AgentId),
    /// The calls charged to one channel.
    Channel(ChannelId),
    /// All calls, on any day, of the agents that were made for the race with this number.
    Race(String),
    /// The calls that count against the budget of the person with this name.
    Person(String),
}

/// A limit on the usage of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageLimit {
    pub scope: UsageScope,
    /// Tokens of all kinds; `None` for no limit.
    pub tokens: Option<u64>,
    /// Millionths of a dollar; `None` for no limit.
    pub cost: Option<u64>,
}

/// A limit that a call would exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    pub limit: UsageLimit,
    /// The usage before the call.
    pub used: UsageAmount,
}

/// An amount of usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageAmount {
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Millionths of a dollar, for calls whose price is known.
    pub cost: u64,
}

/// The key by which use is summed.
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
    /// By MCP server: only the calls that the servers asked for (sampling).
    Server,
    /// By person: only the calls that count against the budget of one.
    #[value(hide = true)]
    Person,
}

/// The selection of usage that is summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// The first day, as in `2026-02-28`.
    pub since: String,
    /// The last day; empty for no end.
    pub until: String,
    pub agent: Option<AgentId>,
}

/// The usage of one call of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsageCall {
    pub agent: String,
    /// Unix milliseconds.
    pub at: i64,
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Millionths of a dollar; 0 if the price is not known.
    pub cost_micros: u64,
}

/// The calls of an agent's model that an MCP server asked for on one day, reserved ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUsage {
    pub server: McpServerName,
    pub agent: AgentId,
    pub calls: u64,
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Millionths of a dollar, for the calls whose price is known.
    pub cost_micros: u64,
}

/// A sum of usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSum {
    /// An agent, channel, model, day or MCP server; empty for calls charged to no channel.
    pub name: String,
    /// The number of model calls.
    pub calls: u64,
    /// The number of those calls whose price is unknown. `costMicros` does not include them.
    pub unpriced: u64,
    /// Input that was neither read from a cache nor written to one.
    pub input: u64,
    pub output: u64,
    /// Input read from a provider's cache.
    pub cache_read: u64,
    /// Input written to a provider's cache.
    pub cache_write: u64,
    /// Millionths of a dollar.
    pub cost_micros: u64,
}

impl UsageSum {
    /// Returns the tokens of all kinds.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

impl UsageScope {
    /// Returns a condition for SQL on the parameter `?2`, and the value of that parameter.
    pub(super) fn condition(&self) -> (&'static str, &str) {
        match self {
            // `?2` has to occur in each condition, because it is always bound.
            Self::Day => ("?2 = ''", ""),
            Self::Agent(agent) => ("agent = ?2", agent.as_str()),
            Self::Channel(channel) => ("channel = ?2", channel.as_str()),
            Self::Race(race) => (
                "agent IN (SELECT agent FROM race_agent WHERE race = CAST(CAST(?2 AS TEXT) AS BIGINT))",
                race.as_str(),
            ),
            Self::Person(person) => ("person = ?2", person.as_str()),
        }
    }

    /// Returns the table whose rows are added up.
    const fn table(&self) -> &'static str {
        match self {
            // The sums don't say whose calls they are. The calls of one person on one day are few.
            Self::Person(_) => "usage",
            _ => "usage_sum",
        }
    }

    /// Returns the condition on the day, as the parameter `?1`.
    pub(super) const fn day_condition(&self) -> &'static str {
        match self {
            // A race may last over midnight, and its agents work for nothing else.
            Self::Race(_) => "?1 <> ''",
            _ => "day = ?1",
        }
    }
}

/// A change of a sum, which can be negative.
struct SumDelta {
    calls: i64,
    unpriced: i64,
    tokens: [i64; 4],
    cost: i64,
}

impl SumDelta {
    fn of(tokens: TokenCounts, cost: Option<u64>) -> Self {
        let TokenCounts { input, output, cache_read, cache_write } = tokens;
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
    // A provider may report any number. The cap keeps the sum of a day's calls within 64 bits.
    i64::try_from(count).unwrap_or(i64::MAX).min(1 << 40)
}

pub(super) fn read_count(row: &Row<'_>, column: usize) -> sql::Result<u64> {
    // A sum can't be negative. If one is after all, it is read as 0.
    Ok(u64::try_from(row.get::<i64>(column)?).unwrap_or(0))
}

/// The key of the sum that a call belongs to.
struct SumKey {
    day: String,
    agent: String,
    channel: String,
    model: String,
}

fn add(transaction: &Transaction<'_>, place: &SumKey, delta: &SumDelta) -> sql::Result<()> {
    let [input, output, cache_read, cache_write] = delta.tokens;
    transaction
        .prepare_cached(
            "INSERT INTO usage_sum
             (day, agent, channel, model, calls, unpriced, input, output, cache_read, cache_write, cost)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (day, agent, channel, model) DO UPDATE SET calls = usage_sum.calls + excluded.calls,
                unpriced = usage_sum.unpriced + excluded.unpriced, input = usage_sum.input + excluded.input,
                output = usage_sum.output + excluded.output, cache_read = usage_sum.cache_read + excluded.cache_read,
                cache_write = usage_sum.cache_write + excluded.cache_write, cost = usage_sum.cost + excluded.cost",
        )?
        .send((
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
}

/// Returns what is used within a scope on a day, with the reservations.
pub(super) fn used(connection: &Connection<'_>, day: &str, scope: &UsageScope) -> sql::Result<UsageAmount> {
    let (condition, value) = scope.condition();
    connection
        .prepare_cached(&format!(
            "SELECT coalesce(CAST(sum(input + output + cache_read + cache_write) AS BIGINT), 0),
                coalesce(CAST(sum(cost) AS BIGINT), 0)
             FROM {} WHERE {} AND {condition}",
            scope.table(),
            scope.day_condition()
        ))?
        .query_row((day, value), |row| {
            Ok(UsageAmount { tokens: read_count(row, 0)?, cost: read_count(row, 1)? })
        })
}

/// Returns the first limit that `more` additional usage would exceed.
fn exceeded(
    connection: &Connection<'_>,
    day: &str,
    limits: &[UsageLimit],
    more: UsageAmount,
) -> sql::Result<Option<ExceededLimit>> {
    for limit in limits {
        let used = used(connection, day, &limit.scope)?;
        let is_over = |limit: Option<u64>, used: u64, more: u64| {
            limit.is_some_and(|limit| used.saturating_add(more) > limit)
        };
        // Reservations count as used, because `usage_sum` includes them until they are settled.
        if is_over(limit.tokens, used.tokens, more.tokens) || is_over(limit.cost, used.cost, more.cost) {
            return Ok(Some(ExceededLimit { limit: limit.clone(), used }));
        }
    }
    Ok(None)
}

/// Finds a call that is still reserved.
fn find_reserved(
    transaction: &Transaction<'_>,
    id: i64,
) -> sql::Result<Option<(SumKey, TokenCounts, Option<u64>)>> {
    transaction
        .prepare_cached(
            "SELECT day, agent, channel, model, input, output, cache_read, cache_write, cost
             FROM usage WHERE id = ?1 AND state = 'reserved'",
        )?
        .query_row([id], |row| {
            let place =
                SumKey { day: row.get(0)?, agent: row.get(1)?, channel: row.get(2)?, model: row.get(3)? };
            let cost: Option<i64> = row.get(8)?;
            Ok((place, TokenCounts::at(row, 4)?, cost.map(i64::unsigned_abs)))
        })
        .optional()
}

/// Replaces a reservation by the actual usage, or releases it. Does nothing if the call is not reserved.
pub(super) fn settle(transaction: &Transaction<'_>, settlement: CallSettlement) -> sql::Result<()> {
    let CallSettlement { id, used } = settlement;
    // A call is settled once. A later attempt finds no reservation and does nothing.
    let Some((place, tokens, cost)) = find_reserved(transaction, id)? else { return Ok(()) };
    let before = SumDelta::of(tokens, cost);
    // Nothing was used, so neither the row nor its share of the sums may remain.
    let Some((tokens, cost)) = used else {
        transaction.prepare_cached("DELETE FROM usage WHERE id = ?1")?.send([id])?;
        return add(transaction, &place, &SumDelta::nothing().less(&before));
    };
    let after = SumDelta::of(tokens, cost);
    let [input, output, cache_read, cache_write] = after.tokens;
    transaction
        .prepare_cached(
            "UPDATE usage SET input = ?2, output = ?3, cache_read = ?4, cache_write = ?5, cost = ?6,
             state = 'settled' WHERE id = ?1",
        )?
        .send((id, input, output, cache_read, cache_write, cost.map(signed)))?;
    // The sums include the reservation already, so only the difference is added.
    add(transaction, &place, &after.less(&before))
}

/// Returns the settled and reserved cost and tokens of each call since `since`, with its agent and its time.
fn select_calls(connection: &Connection<'_>, since: i64) -> sql::Result<Vec<UsageCall>> {
    connection
        .prepare_cached(
            "SELECT agent, at, input + output + cache_read + cache_write, coalesce(cost, 0) FROM usage WHERE at >= ?1",
        )?
        .query_map([since], |row| {
            Ok(UsageCall {
                agent: row.get(0)?,
                at: row.get(1)?,
                tokens: read_count(row, 2)?,
                cost_micros: read_count(row, 3)?,
            })
        })?
        .collect()
}

fn select_sums(connection: &Connection<'_>, filter: &UsageFilter, by: UsageBy) -> sql::Result<Vec<UsageSum>> {
    let name = match by {
        UsageBy::Agent => "agent",
        UsageBy::Channel => "channel",
        UsageBy::Model => "model",
        UsageBy::Day => "day",
        UsageBy::Server => "server",
        UsageBy::Person => "person",
    };
    // The sums don't say which server asked, nor for whom, so the calls themselves are added up. They are few.
    let is_of_calls = matches!(by, UsageBy::Server | UsageBy::Person);
    let (from, count, unpriced) = if is_of_calls {
        ("usage", "count(*)", "count(*) FILTER (WHERE cost IS NULL)")
    } else {
        ("usage_sum", "sum(calls)", "sum(unpriced)")
    };
    // Days are ISO dates, so they compare as text, and an empty start matches all of them.
    let mut conditions = vec!["day >= ?1".to_owned()];
    let mut values: Vec<Value> = vec![filter.since.clone().into()];
    if !filter.until.is_empty() {
        values.push(filter.until.clone().into());
        conditions.push(format!("day <= ?{}", values.len()));
    }
    if let Some(agent) = &filter.agent {
        values.push(agent.as_str().to_owned().into());
        conditions.push(format!("agent = ?{}", values.len()));
    }
    match by {
        UsageBy::Server => conditions.push("server IS NOT NULL".to_owned()),
        UsageBy::Person => conditions.push("person IS NOT NULL".to_owned()),
        _ => {}
    }
    // Releasing all reservations of a sum leaves a row of zeros. HAVING leaves it out.
    let conditions = conditions.join(" AND ");
    connection
        .prepare_cached(&format!(
            "SELECT {name}, CAST({count} AS BIGINT), CAST({unpriced} AS BIGINT), CAST(sum(input) AS BIGINT),
                CAST(sum(output) AS BIGINT), CAST(sum(cache_read) AS BIGINT), CAST(sum(cache_write) AS BIGINT),
                coalesce(CAST(sum(cost) AS BIGINT), 0)
             FROM {from} WHERE {conditions} GROUP BY {name} HAVING {count} > 0 ORDER BY {name}"
        ))?
        .query_map(params_from_iter(values), |row| {
            Ok(UsageSum {
                name: row.get(0)?,
                calls: read_count(row, 1)?,
                unpriced: read_count(row, 2)?,
                input: read_count(row, 3)?,
                output: read_count(row, 4)?,
                cache_read: read_count(row, 5)?,
                cache_write: read_count(row, 6)?,
                cost_micros: read_count(row, 7)?,
            })
        })?
        .collect()
}

/// Charges the calls of a task or a session, given by its id, to a channel.
pub(super) fn charge(transaction: &Transaction<'_>, id: &str, channel: &ChannelId) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO charge (id, channel) VALUES (?1, ?2)
             ON CONFLICT (id) DO UPDATE SET channel = excluded.channel",
        )?
        .send((id, channel.as_str()))
}

fn channel(row: &Row<'_>) -> sql::Result<Option<ChannelId>> {
    // The column is empty for calls charged to no channel.
    Ok(row.get::<String>(0)?.parse().ok())
}

/// The channel of the task that a turn works on, or else the one set for its session.
const CHARGED_CHANNEL: &str = "
    SELECT channel FROM (
        SELECT channel, 0 AS place FROM charge
        WHERE id IN (SELECT task FROM inbox WHERE turn = ?2 AND task IS NOT NULL)
        UNION ALL SELECT channel, 1 FROM charge WHERE id = ?1
    ) AS charged ORDER BY place LIMIT 1";

/// The channel, the person and the race that a model call is charged to, besides its agent and its day.
#[derive(Clone, Debug)]
pub(crate) struct Charges {
    pub(crate) channel: Option<ChannelId>,
    /// `None` for the owner, and for work of the team's own.
    pub(crate) person: Option<Person>,
    /// The place of the agent in a race.
    pub(crate) race: Option<RacePlace>,
}

impl<A> UsageRecords<&Database<A>> {
    /// Returns the channel that a turn's calls are charged to in addition to its session's own: that of the task it
    /// works on, or else the one set for the session.
    pub(crate) async fn charged_channel(
        self,
        session: &SessionKey,
        turn: TurnId,
    ) -> Result<Option<ChannelId>, StoreError> {
        self.read("look which channel is charged", |connection| {
            connection
                .prepare_cached(CHARGED_CHANNEL)?
                .query_row((session.as_str(), turn.to_string()), channel)
                .optional()
                .map(Option::flatten)
        })
        .await
    }

    /// Returns what the calls of an agent in a turn are charged to, by one read.
    pub(crate) async fn charges(
        self,
        agent: &AgentId,
        session: &SessionKey,
        turn: TurnId,
    ) -> Result<Charges, StoreError> {
        self.read("look what a call is charged to", |connection| {
            let turn = turn.to_string();
            // Most turns have neither a task nor a race, and most homes nobody but the owner.
            let (found, any_people, in_race): (Option<String>, bool, bool) = connection
                .prepare_cached(&format!(
                    "SELECT ({CHARGED_CHANNEL}), EXISTS (SELECT 1 FROM person),
                     EXISTS (SELECT 1 FROM race_agent WHERE agent = ?3)"
                ))?
                .query_row((session.as_str(), &turn, agent.as_str()), |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            let own = session.channel();
            Ok(Charges {
                channel: own.or_else(|| found.and_then(|channel| channel.parse().ok())),
                person: if any_people { person::charged(connection, session, Some(&turn))? } else { None },
                race: if in_race { race::place(connection, agent)? } else { None },
            })
        })
        .await
    }

    /// Returns the channel that the latest call of a session was charged to.
    pub(crate) async fn last_charged_channel(
        self,
        session: &SessionKey,
    ) -> Result<Option<ChannelId>, StoreError> {
        self.read("look which channel is charged", |connection| {
            connection
                .prepare_cached("SELECT channel FROM usage WHERE session = ?1 ORDER BY id DESC LIMIT 1")?
                .query_row([session.as_str()], channel)
                .optional()
                .map(Option::flatten)
        })
        .await
    }

    /// Returns the ids of reserved calls, each with its turn and its agent.
    pub async fn reserved(self) -> Result<Vec<(i64, TurnId, AgentId)>, StoreError> {
        self.read("list model calls under way", |connection| {
            connection
                .prepare_cached("SELECT id, turn, agent FROM usage WHERE state = 'reserved'")?
                .query_map((), |row| Ok((row.get(0)?, parsed(row, 1)?, parsed(row, 2)?)))?
                .collect()
        })
        .await
    }

    /// Returns the first limit that `more` additional usage would exceed.
    pub(crate) async fn exceeded_limit(
        self,
        day: &str,
        limits: &[UsageLimit],
        more: UsageAmount,
    ) -> Result<Option<ExceededLimit>, StoreError> {
        self.read("look at the budgets", |connection| exceeded(connection, day, limits, more)).await
    }

    /// Returns the calls since a time in Unix milliseconds, in no order.
    pub(crate) async fn calls(self, since: i64) -> Result<Vec<UsageCall>, StoreError> {
        self.read_long("read the calls of models", move |connection| select_calls(connection, since)).await
    }

    /// Returns the calls that MCP servers asked for on a day.
    pub(crate) async fn of_servers(self, day: &str) -> Result<Vec<ServerUsage>, StoreError> {
        let day = day.to_owned();
        self.read("read the calls that MCP servers asked for", move |connection| {
            connection
                .prepare_cached(
                    "SELECT server, agent, count(*), CAST(sum(input + output + cache_read + cache_write) AS BIGINT),
                     coalesce(CAST(sum(cost) AS BIGINT), 0) FROM usage WHERE day = ?1 AND server IS NOT NULL
                     GROUP BY server, agent ORDER BY server, agent",
                )?
                .query_map([day.as_str()], |row| {
                    Ok(ServerUsage {
                        server: parsed(row, 0)?,
                        agent: parsed(row, 1)?,
                        calls: read_count(row, 2)?,
                        tokens: read_count(row, 3)?,
                        cost_micros: read_count(row, 4)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// Returns sums of usage.
    pub async fn sums(self, filter: &UsageFilter, by: UsageBy) -> Result<Vec<UsageSum>, StoreError> {
        let filter = filter.clone();
        self.read_long("read the usage", move |connection| select_sums(connection, &filter, by)).await
    }
}

impl UsageRecords<&Store> {
    /// Charges the calls of a session to a channel other than its own.
    pub(crate) async fn charge_session(
        self,
        session: SessionKey,
        channel: ChannelId,
    ) -> Result<(), StoreError> {
        self.write("charge a session to a channel", move |transaction| {
            charge(transaction, session.as_str(), &channel)
        })
        .await
    }

    /// Reserves the most that a call may use, if it stays within all limits. Returns the exceeded limit otherwise.
    ///
    /// Simultaneous calls are checked one after the other, so together they can't exceed a limit.
    pub async fn reserve(
        self,
        new: NewUsage,
        limits: Vec<UsageLimit>,
    ) -> Result<Result<(), ExceededLimit>, StoreError> {
        self.write("set a model call aside", move |transaction| {
            let delta = SumDelta::of(new.tokens, new.cost);
            let more = UsageAmount {
                tokens: delta.tokens.iter().sum::<i64>().unsigned_abs(),
                cost: delta.cost.unsigned_abs(),
            };
            // The check and the reservation are one transaction, and a single thread runs them all, so no other call
            // can come in between.
            if let Some(exceeded) = exceeded(transaction, &new.day, &limits, more)? {
                return Ok(Err(exceeded));
            }
            let place = SumKey {
                day: new.day,
                agent: new.agent.to_string(),
                channel: new.channel.map(String::from).unwrap_or_default(),
                model: new.model.to_string(),
            };
            let [input, output, cache_read, cache_write] = delta.tokens;
            transaction
                .prepare_cached(
                    "INSERT INTO usage (id, at, day, agent, session, channel, turn, model, input, output,
                     cache_read, cache_write, cost, server, person, state)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 'reserved')",
                )?
                .send((
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
                    new.server.as_ref().map(McpServerName::as_str),
                    new.person.as_deref(),
                ))?;
            // The sums include the reservation at once, and the next call is checked against them.
            add(transaction, &place, &delta)?;
            Ok(Ok(()))
        })
        .await
    }

    /// Replaces a reservation by the actual usage, or releases it, without waiting for the commit. Does nothing if the call
    /// is not reserved.
    pub(crate) fn settle(self, settlement: CallSettlement) {
        self.write_behind("settle a model call", move |transaction| settle(transaction, settlement));
    }

    /// Settles all reservations at their full amount, and returns their number. Must run before the process makes its
    /// first call.
    ///
    /// The actual usage of calls whose process died is unknown, so the reserved maximum is assumed.
    pub(crate) async fn settle_all(self) -> Result<usize, StoreError> {
        self.write("settle model calls of an earlier run", |transaction| {
            // The sums include the full amounts already, so only the state changes.
            transaction.execute("UPDATE usage SET state = 'settled' WHERE state = 'reserved'", ())
        })
        .await
    }

    /// Settles these reservations at their full amount, as [`Self::settle_all`] does. May be called at any time.
    pub(crate) async fn settle_reserved(self, calls: Vec<i64>) -> Result<usize, StoreError> {
        self.write("settle model calls whose end was not written", move |transaction| {
            let mut statement = transaction
                .prepare_cached("UPDATE usage SET state = 'settled' WHERE id = ?1 AND state = 'reserved'")?;
            calls.iter().map(|id| statement.execute([id])).sum()
        })
        .await
    }

    /// Records that a channel was told about an exhausted budget. Returns `true` for the first time on a day.
    pub(crate) async fn record_budget_notice(
        self,
        day: String,
        channel: ChannelId,
        budget: String,
    ) -> Result<bool, StoreError> {
        self.write("note that a budget is used up", move |transaction| {
            // The primary key allows one notice for each day, channel and budget.
            transaction
                .prepare_cached(
                    "INSERT INTO budget_notice (day, channel, budget) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                )?
                .execute((day, channel.as_str(), budget))
                .map(|added| added == 1)
        })
        .await
    }
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
