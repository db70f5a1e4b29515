//! `budgets`: what models may be used for in one day, and how long agents may talk among themselves.

use std::collections::BTreeMap;

use serde_json::Value;

use super::parse::{Problem, View};
use crate::id::{AgentId, ChannelId};

/// How many turns agents may have in a channel without a person's message, where nothing else is said.
pub const TURNS_WITHOUT_HUMAN: u32 = 50;

/// What may be used in one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Tokens of all kinds.
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub micros: Option<u64>,
}

/// All budgets. What is not limited is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Of all agents together.
    pub day: Allowance,
    /// Of each agent that has none of its own.
    pub any_agent: Allowance,
    /// Of single agents.
    pub agents: BTreeMap<AgentId, Allowance>,
    /// Of each channel that has none of its own.
    pub any_channel: Allowance,
    /// Of single channels, by their ids in small letters.
    pub channels: BTreeMap<String, Allowance>,
    /// Turns of agents in a channel without a person's message.
    pub turns_without_human: u32,
    /// Whether a model without a price may be asked where a budget in dollars alone can't bind it.
    pub allow_unpriced: bool,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            day: Allowance::default(),
            any_agent: Allowance::default(),
            agents: BTreeMap::new(),
            any_channel: Allowance::default(),
            channels: BTreeMap::new(),
            turns_without_human: TURNS_WITHOUT_HUMAN,
            allow_unpriced: false,
        }
    }
}

impl Budgets {
    /// What one agent may use.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Allowance {
        self.agents.get(agent).copied().unwrap_or(self.any_agent)
    }

    /// What may be used in one channel.
    #[must_use]
    pub fn channel(&self, channel: &ChannelId) -> Allowance {
        self.channels.get(&channel.as_str().to_ascii_lowercase()).copied().unwrap_or(self.any_channel)
    }
}

/// Reads the block. A word that is not known is refused: a budget that is misspelt would limit nothing.
pub(super) fn budgets(view: &View<'_>) -> Result<Budgets, Problem> {
    view.only(&["day", "agent", "channel", "turnsWithoutHuman", "unpriced"])?;
    let mut budgets = Budgets { day: allowance(&view.get("day")?)?, ..Budgets::default() };
    for (name, entry) in view.get("agent")?.entries()? {
        let allowance = allowance(&entry)?;
        if name == "*" {
            budgets.any_agent = allowance;
        } else {
            let id = name.parse().map_err(|error| entry.problem(&format!("is not usable: {error}")))?;
            budgets.agents.insert(id, allowance);
        }
    }
    for (name, entry) in view.get("channel")?.entries()? {
        let allowance = allowance(&entry)?;
        if name == "*" {
            budgets.any_channel = allowance;
        } else {
            let id: ChannelId =
                name.parse().map_err(|error| entry.problem(&format!("is not usable: {error}")))?;
            budgets.channels.insert(id.as_str().to_ascii_lowercase(), allowance);
        }
    }
    let unpriced = view.get("unpriced")?;
    budgets.allow_unpriced = match unpriced.text()?.as_deref() {
        None | Some("refuse") => false,
        Some("allow") => true,
        Some(_) => return Err(unpriced.problem("must be refuse or allow")),
    };
    let turns = view.get("turnsWithoutHuman")?;
    if let Some(number) = turns.number()? {
        budgets.turns_without_human = u32::try_from(number)
            .ok()
            .filter(|number| (1..=1000).contains(number))
            .ok_or_else(|| turns.problem("must be a number from 1 to 1000"))?;
    }
    Ok(budgets)
}

fn allowance(view: &View<'_>) -> Result<Allowance, Problem> {
    view.only(&["tokens", "usd"])?;
    let usd = view.get("usd")?;
    Ok(Allowance {
        tokens: view.get("tokens")?.number()?,
        micros: usd
            .value
            .map(|value| micros(value).ok_or_else(|| usd.problem("must be dollars as in 2.5")))
            .transpose()?,
    })
}

/// Dollars as a number, in their millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before the cast"
)]
#[must_use]
pub fn micros(dollars: &Value) -> Option<u64> {
    let dollars = dollars.as_f64()?;
    (0.0..=1e9).contains(&dollars).then(|| (dollars * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Budgets, Problem> {
        budgets(&View::of(Some(value), "budgets"))
    }

    #[test]
    fn an_agents_own_budget_goes_before_that_of_each() {
        let read = read(&json!({
            "day": {"usd": 12.5},
            "agent": {"*": {"tokens": 100}, "coder": {"usd": 1}},
            "channel": {"Dev": {"tokens": 7}},
            "turnsWithoutHuman": 9,
            "unpriced": "allow",
        }))
        .unwrap();
        assert_eq!(read.day, Allowance { tokens: None, micros: Some(12_500_000) });
        assert_eq!(
            read.agent(&"coder".parse().unwrap()),
            Allowance { tokens: None, micros: Some(1_000_000) }
        );
        assert_eq!(read.agent(&"other".parse().unwrap()).tokens, Some(100));
        assert_eq!(read.channel(&"dev".parse().unwrap()).tokens, Some(7));
        assert_eq!(read.channel(&"ops".parse().unwrap()), Allowance::default());
        assert_eq!((read.turns_without_human, read.allow_unpriced), (9, true));
        assert_eq!(super::budgets(&View::of(None, "")).unwrap(), Budgets::default());
    }

    #[test]
    fn what_would_limit_nothing_is_refused_with_its_place() {
        for (value, at) in [
            (json!([]), "budgets"),
            (json!({"daily": {}}), "budgets.daily"),
            (json!({"day": {"token": 5}}), "budgets.day.token"),
            (json!({"day": {"tokens": -5}}), "budgets.day.tokens"),
            (json!({"day": {"usd": "5"}}), "budgets.day.usd"),
            (json!({"day": {"usd": -0.5}}), "budgets.day.usd"),
            (json!({"agent": {"No Agent": {}}}), "budgets.agent.No Agent"),
            (json!({"channel": {"#dev": {}}}), "budgets.channel.#dev"),
            (json!({"channel": {"dev": 5}}), "budgets.channel.dev"),
            (json!({"unpriced": "free"}), "budgets.unpriced"),
            (json!({"turnsWithoutHuman": 0}), "budgets.turnsWithoutHuman"),
            (json!({"turnsWithoutHuman": 5000}), "budgets.turnsWithoutHuman"),
        ] {
            assert_eq!(read(&value).unwrap_err().at, at, "{value}");
        }
    }
}
