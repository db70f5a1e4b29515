//! Budgets: the limits that apply to a model call, the channel it is charged to, the end of a day, and the texts for a
//! budget that is used up.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::Swarm;
use crate::config::{Allowance, Budgets};
use crate::id::{AgentId, ChannelId, ModelRef, SessionKey, TurnId};
use crate::store::{
    BridgeTraffic, ExceededLimit, LimitUse, Person, StoreError, UsageCall, UsageFilter, UsageLimit,
    UsageScope, UsageSum,
};

/// A calendar day in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    /// For example `2026-02-28`.
    pub name: String,
    /// Start of the next day in Unix milliseconds. `None` if that is beyond the supported calendar.
    pub ends_at: Option<i64>,
}

/// Returns the day that contains this time, given in Unix milliseconds.
#[must_use]
pub(crate) fn day(at: i64, zone: &TimeZone) -> Day {
    let time = Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(zone.clone());
    // Adding 24 hours would be wrong: a day may have 23 hours and may begin at one in the morning.
    let next = time.date().checked_add(1.day()).ok().and_then(|date| date.to_zoned(zone.clone()).ok());
    Day { name: time.date().to_string(), ends_at: next.map(|next| next.timestamp().as_millisecond()) }
}

impl Swarm {
    /// Returns the channel that a session's calls are charged to. That is the session's own channel. A task, and a
    /// session that an agent began for itself, are charged to the channel from which they were begun. Without a turn,
    /// the charge of the session's newest turn is returned.
    pub(crate) async fn charged(
        &self,
        session: &SessionKey,
        turn: Option<TurnId>,
    ) -> Result<Option<ChannelId>, StoreError> {
        if let Some(channel) = session.channel() {
            return Ok(Some(channel));
        }
        // A turn has an entry of its own. Calls outside of a turn follow the session's newest one.
        match turn {
            Some(turn) => self.store().usage().charged_channel(session, turn).await,
            None => self.store().usage().last_charged_channel(session).await,
        }
    }

    /// Returns the number of people of the home, and today's use of the budgets of those who have one.
    pub(crate) async fn budgets_of_people(&self, day: &Day) -> Result<(usize, Vec<LimitUse>), StoreError> {
        let mut people = self.store().people().list().await?;
        people.retain(Person::is_active);
        let limits: Vec<UsageLimit> = people.iter().filter_map(person_limit).collect();
        if limits.is_empty() {
            return Ok((people.len(), Vec::new()));
        }
        Ok((people.len(), self.store().usage().limits_in_use(day.name.clone(), limits).await?))
    }

    /// Returns the name of the person whose budget the calls of a session count against. `None` for the owner, and for
    /// work of the team's own.
    pub(crate) async fn charged_person(
        &self,
        session: &SessionKey,
        turn: Option<TurnId>,
    ) -> Result<Option<String>, StoreError> {
        let turn = turn.map(|turn| turn.to_string());
        let person = self.store().people().charged(session, turn.as_deref()).await?;
        Ok(person.map(|person| person.name))
    }
}

/// Returns the limits that apply to an agent's calls, in a channel or elsewhere.
#[must_use]
pub(crate) fn limits(budgets: &Budgets, agent: &AgentId, channel: Option<&ChannelId>) -> Vec<UsageLimit> {
    [
        limit(UsageScope::Day, budgets.day),
        limit(UsageScope::Agent(agent.clone()), budgets.agent(agent)),
        channel.and_then(|channel| limit(UsageScope::Channel(channel.clone()), budgets.channel(channel))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns all limits: of the day, of each of these agents, and of each channel that has its own or is in use.
#[must_use]
pub(crate) fn all_limits(budgets: &Budgets, agents: &[AgentId], channels: &[ChannelId]) -> Vec<UsageLimit> {
    let day = limit(UsageScope::Day, budgets.day);
    let agents =
        agents.iter().filter_map(|agent| limit(UsageScope::Agent(agent.clone()), budgets.agent(agent)));
    // A channel's name in the configuration is in lower case, like that in the table of the use.
    let own = budgets.channels.keys().filter_map(|channel| channel.parse().ok());
    let channels: BTreeSet<ChannelId> = channels.iter().cloned().chain(own).collect();
    let channels = channels
        .into_iter()
        .filter_map(|channel| limit(UsageScope::Channel(channel.clone()), budgets.channel(&channel)));
    day.into_iter().chain(agents).chain(channels).collect()
}

/// Returns the limit of a person's day, or `None` if the person has none.
#[must_use]
pub(crate) fn person_limit(person: &Person) -> Option<UsageLimit> {
    let allowance = Allowance { tokens: person.day_tokens, micros: person.day_cost };
    limit(UsageScope::Person(person.name.clone()), allowance)
}

/// Returns `true` if nothing is left of a budget.
#[must_use]
pub(crate) fn is_used_up(found: &LimitUse) -> bool {
    let is_over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit);
    is_over(found.limit.tokens, found.used.tokens) || is_over(found.limit.cost, found.used.cost)
}

/// Returns the limit of a scope. A budget without any limit need not be counted.
fn limit(scope: UsageScope, Allowance { tokens, micros }: Allowance) -> Option<UsageLimit> {
    (tokens.is_some() || micros.is_some()).then_some(UsageLimit { scope, tokens, cost: micros })
}

/// Returns the use of budgets as JSON.
#[must_use]
pub(crate) fn use_of_limits(day: &Day, limits: &[LimitUse]) -> Value {
    let describe = |LimitUse { limit, used, reserved }: &LimitUse| {
        let (scope, name) = match &limit.scope {
            UsageScope::Day => ("day", String::new()),
            UsageScope::Agent(agent) => ("agent", agent.to_string()),
            UsageScope::Channel(channel) => ("channel", channel.to_string()),
            UsageScope::Race(race) => ("race", race.clone()),
            UsageScope::Person(person) => ("person", person.clone()),
        };
        let amount = |limit: Option<u64>, used: u64, reserved: u64| {
            limit.map(|limit| {
                json!({"limit": limit, "used": used.saturating_sub(reserved), "reserved": reserved.min(used)})
            })
        };
        json!({
            "scope": scope,
            "name": name,
            "tokens": amount(limit.tokens, used.tokens, reserved.tokens),
            "costMicros": amount(limit.cost, used.cost, reserved.cost),
        })
    };
    json!({
        "day": day.name,
        "endsAt": day.ends_at,
        "budgets": limits.iter().map(describe).collect::<Vec<_>>(),
    })
}

/// Returns the first limit that can't bind a model with an unknown price, because it is in money only.
#[must_use]
pub(crate) fn unbound(limits: &[UsageLimit]) -> Option<&UsageLimit> {
    limits.iter().find(|limit| limit.cost.is_some() && limit.tokens.is_none())
}

/// Returns the message for people about a call that such a limit can't bind.
#[must_use]
pub(crate) fn unpriced(agent: &AgentId, model: &ModelRef, limit: &UsageLimit) -> String {
    format!(
        "{agent} pauses: {} is in dollars, and the price of {model} is unknown. Set its cost \
         (models.providers.{}.models[].cost), an additional limit in tokens, or budgets.unpriced to \"allow\"",
        whose(limit),
        model.provider()
    )
}

/// Returns the message for people about a budget without room for another call.
#[must_use]
pub(crate) fn refusal(agent: &AgentId, exceeded: &ExceededLimit, day: &Day) -> String {
    let whose = whose(&exceeded.limit);
    let tokens = exceeded.limit.tokens.map(|limit| format!("{} of {limit} tokens", exceeded.used.tokens));
    let cost = exceeded
        .limit
        .cost
        .map(|limit| format!("{} of {}", format_usd(exceeded.used.cost), format_usd(limit)));
    let used: Vec<String> = tokens.into_iter().chain(cost).collect();
    format!(
        "{agent} pauses: {whose} ({}) has no room for another model call ({} used or reserved)",
        day.name,
        used.join(", ")
    )
}

fn whose(limit: &UsageLimit) -> String {
    match &limit.scope {
        UsageScope::Day => "the team's budget of the day".to_owned(),
        UsageScope::Agent(agent) => format!("the budget of {agent} for the day"),
        UsageScope::Channel(channel) => format!("the budget of channel {channel} for the day"),
        UsageScope::Race(race) => format!("the budget of race {race}"),
        UsageScope::Person(person) => format!("the budget of {person} for the day"),
    }
}

fn format_usd(micros: u64) -> String {
    // Rounded up, so that a used budget is never shown as smaller than it is.
    let cents = micros.div_ceil(10_000);
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// Returns a key for a budget with its current limits. A budget whose limits change gets a new key and is announced
/// again.
#[must_use]
pub(crate) fn name(limit: &UsageLimit, agent: &AgentId) -> String {
    let scope = match &limit.scope {
        UsageScope::Day => "day".to_owned(),
        UsageScope::Agent(of) => format!("agent {of}"),
        UsageScope::Channel(_) => "channel".to_owned(),
        UsageScope::Race(race) => format!("race {race}"),
        UsageScope::Person(person) => format!("person {person}"),
    };
    format!("{scope} {agent} {:?} {:?}", limit.tokens, limit.cost)
}

/// Returns a filter for one day, or for all days from `since` on. Without both it is `today`.
#[must_use]
pub(crate) fn usage_filter(
    day: Option<Date>,
    since: Option<Date>,
    today: Date,
    agent: Option<AgentId>,
) -> UsageFilter {
    let until = since.is_none().then(|| day.unwrap_or(today));
    UsageFilter {
        since: since.or(until).unwrap_or(today).to_string(),
        until: until.map(|day| day.to_string()).unwrap_or_default(),
        agent,
    }
}

/// Returns the sums and their total as JSON, with the messages over bridges.
#[must_use]
pub(crate) fn report(filter: &UsageFilter, sums: &[UsageSum], bridges: &[BridgeTraffic]) -> Value {
    let describe = |sum: &UsageSum| {
        let mut value = json!(sum);
        value["tokens"] = json!(sum.tokens());
        value
    };
    json!({
        "since": filter.since,
        "until": Some(&filter.until).filter(|day| !day.is_empty()),
        "usage": sums.iter().map(describe).collect::<Vec<_>>(),
        "total": describe(&total(sums)),
        "bridges": bridges,
    })
}

/// Returns the sums as a table for spreadsheets, in the form of RFC 4180.
#[must_use]
pub(crate) fn csv(sums: &[UsageSum]) -> String {
    const HEAD: &str = "name,calls,unpriced,input,output,cacheRead,cacheWrite,costDollars\r\n";
    let row = |sum: &UsageSum| {
        // A spreadsheet takes a field that begins like this for a formula.
        let is_formula = sum.name.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let name = format!("{}{}", if is_formula { "'" } else { "" }, sum.name.replace('"', "\"\""));
        let (dollars, micros) = (sum.cost_micros / 1_000_000, sum.cost_micros % 1_000_000);
        let counts = [sum.calls, sum.unpriced, sum.input, sum.output, sum.cache_read, sum.cache_write];
        let counts = counts.map(|count| count.to_string()).join(",");
        format!("\"{name}\",{counts},{dollars}.{micros:06}\r\n")
    };
    std::iter::once(HEAD.to_owned()).chain(sums.iter().map(row)).collect()
}

/// Returns the use of models by agent and hour as JSON: a number for each hour that has begun since `start`, the begin of
/// a day in Unix milliseconds.
#[must_use]
pub(crate) fn hours(start: i64, now: i64, calls: &[UsageCall]) -> Value {
    const HOUR: i64 = 3_600_000;
    // A day has 23 to 25 hours. The clock may have been set back after a call.
    let hour_of = |at: i64| usize::try_from((at - start).max(0) / HOUR).unwrap_or_default().min(24);
    let begun = hour_of(now) + 1;
    let mut agents: BTreeMap<&str, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for call in calls {
        let hour = hour_of(call.at);
        let (costs, tokens) = agents.entry(&call.agent).or_insert_with(|| (vec![0; begun], vec![0; begun]));
        if let (Some(cost), Some(tokens)) = (costs.get_mut(hour), tokens.get_mut(hour)) {
            *cost += call.cost_micros;
            *tokens += call.tokens;
        }
    }
    let agents = agents
        .into_iter()
        .map(|(agent, (costs, tokens))| json!({"agent": agent, "costMicros": costs, "tokens": tokens}));
    json!({"start": start, "agents": agents.collect::<Vec<_>>()})
}

/// Returns the total of all sums.
#[must_use]
pub(crate) fn total(sums: &[UsageSum]) -> UsageSum {
    sums.iter().fold(UsageSum { name: "total".to_owned(), ..UsageSum::default() }, |mut all, sum| {
        all.calls += sum.calls;
        all.unpriced += sum.unpriced;
        all.input += sum.input;
        all.output += sum.output;
        all.cache_read += sum.cache_read;
        all.cache_write += sum.cache_write;
        all.cost_micros += sum.cost_micros;
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::UsageAmount;

    #[test]
    fn a_table_for_spreadsheets_holds_no_formula() {
        let sum = |name: &str| UsageSum {
            name: name.to_owned(),
            calls: 2,
            input: 30,
            cost_micros: 1_000_250,
            ..UsageSum::default()
        };
        let shown = csv(&[sum("coder"), sum("=1+\"2\"")]);
        let rows: Vec<&str> = shown.split("\r\n").collect();
        assert_eq!(rows[1], "\"coder\",2,0,30,0,0,0,1.000250");
        assert!(rows[2].starts_with("\"'=1+\"\"2\"\"\","), "{}", rows[2]);
    }

    #[test]
    fn every_budget_with_a_limit_is_listed() {
        let allowance = |tokens, micros| Allowance { tokens, micros };
        let budgets = Budgets {
            day: allowance(None, Some(9)),
            any_agent: allowance(Some(100), None),
            channels: BTreeMap::from([("dev".to_owned(), allowance(Some(7), Some(8)))]),
            ..Budgets::default()
        };
        let agents = ["a".parse().unwrap(), "b".parse().unwrap()];
        // A channel that is in use and has a budget of its own is listed once.
        let limits = all_limits(&budgets, &agents, &["dev".parse().unwrap(), "ops".parse().unwrap()]);
        let used = UsageAmount { tokens: 60, cost: 5 };
        let reserved = UsageAmount { tokens: 40, cost: 0 };
        let in_use: Vec<LimitUse> =
            limits.into_iter().map(|limit| LimitUse { limit, used, reserved }).collect();
        let day = Day { name: "2026-02-28".to_owned(), ends_at: Some(1) };
        let shown = use_of_limits(&day, &in_use);
        let rows: Vec<_> = shown["budgets"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
        assert_eq!(rows, ["", "a", "b", "dev"]);
        assert_eq!(shown["budgets"][0]["costMicros"], json!({"limit": 9, "used": 5, "reserved": 0}));
        assert_eq!(shown["budgets"][1]["tokens"], json!({"limit": 100, "used": 20, "reserved": 40}));
        assert!(shown["budgets"][1]["costMicros"].is_null());
    }

    #[test]
    fn the_hours_of_a_day_have_the_calls_of_each_agent() {
        let hour = 3_600_000;
        let call =
            |agent: &str, at, cost_micros| UsageCall { agent: agent.to_owned(), at, tokens: 1, cost_micros };
        let calls =
            [call("a", 10, 5), call("a", 2 * hour + 1, 7), call("a", 2 * hour + 2, 1), call("b", -5, 3)];
        let shown = hours(0, 2 * hour + 5, &calls);
        assert_eq!(shown["agents"][0], json!({"agent": "a", "costMicros": [5, 0, 8], "tokens": [1, 0, 2]}));
        assert_eq!(shown["agents"][1]["costMicros"], json!([3, 0, 0]));
    }

    #[test]
    fn a_day_ends_at_the_next_midnight_of_its_zone() {
        let hour = 3_600_000;
        let utc = TimeZone::UTC;
        assert_eq!(day(0, &utc), Day { name: "1970-01-01".into(), ends_at: Some(24 * hour) });
        assert_eq!(day(24 * hour - 1, &utc).name, "1970-01-01");
        assert_eq!(day(24 * hour, &utc).name, "1970-01-02");
        let east = TimeZone::fixed(jiff::tz::offset(9));
        assert_eq!(day(16 * hour, &east), Day { name: "1970-01-02".into(), ends_at: Some(39 * hour) });
    }

    #[test]
    fn only_configured_budgets_give_limits() {
        let agent: AgentId = "coder".parse().unwrap();
        let channel: ChannelId = "dev".parse().unwrap();
        let mut budgets = Budgets::default();
        assert!(limits(&budgets, &agent, Some(&channel)).is_empty());
        budgets.day.micros = Some(5);
        budgets.any_channel.tokens = Some(7);
        let scopes: Vec<UsageScope> =
            limits(&budgets, &agent, Some(&channel)).into_iter().map(|limit| limit.scope).collect();
        assert_eq!(scopes, [UsageScope::Day, UsageScope::Channel(channel)]);
        assert_eq!(limits(&budgets, &agent, None).len(), 1);
    }

    #[test]
    fn cost_only_limits_are_found() {
        let limit = |tokens, cost| UsageLimit { scope: UsageScope::Day, tokens, cost };
        assert_eq!(unbound(&[limit(Some(5), None), limit(Some(5), Some(5))]), None);
        let alone = limit(None, Some(5));
        assert_eq!(unbound(&[limit(Some(5), None), alone.clone()]), Some(&alone));
        let text = unpriced(&"coder".parse().unwrap(), &"own/model".parse().unwrap(), &alone);
        assert!(text.contains("models.providers.own.models[].cost") && text.contains("in tokens"), "{text}");
    }

    #[test]
    fn a_refusal_names_the_budget_and_how_far_it_is_used() {
        let agent: AgentId = "coder".parse().unwrap();
        let limit = UsageLimit { scope: UsageScope::Day, tokens: Some(100), cost: Some(2_000_000) };
        let exceeded = ExceededLimit { limit, used: UsageAmount { tokens: 90, cost: 1_999_999 } };
        let text = refusal(&agent, &exceeded, &day(0, &TimeZone::UTC));
        assert_eq!(
            text,
            "coder pauses: the team's budget of the day (1970-01-01) has no room for another model call \
             (90 of 100 tokens, $2.00 of $2.00 used or reserved)"
        );
    }
}
