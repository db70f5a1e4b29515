//! The `budgets` block: how much models may be used in one day, and how long agents may talk among themselves.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;

use super::view::{Problem, View};
use crate::id::{AgentId, ChannelId};

/// Default number of turns that agents may have in a channel without a message from a person.
pub(crate) const TURNS_WITHOUT_HUMAN: u32 = 50;

/// The limits of one day. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Input, output and cache tokens together.
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub micros: Option<u64>,
}

/// All budgets of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Limit for all agents together.
    pub day: Allowance,
    /// Limit for each agent without an entry of its own (`*`).
    pub any_agent: Allowance,
    pub agents: BTreeMap<AgentId, Allowance>,
    /// Limit for each channel without an entry of its own (`*`).
    pub any_channel: Allowance,
    /// Limits of single channels, by channel id in lower case.
    pub channels: BTreeMap<String, Allowance>,
    /// Most turns of agents in a channel without a message from a person.
    pub turns_without_human: u32,
    /// `true` if a model without a known price may be asked even where only a budget in dollars applies, which then
    /// cannot limit it.
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
    /// Returns the limits of one agent.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Allowance {
        self.agents.get(agent).copied().unwrap_or(self.any_agent)
    }

    /// Returns the limits of one channel.
    #[must_use]
    pub fn channel(&self, channel: &ChannelId) -> Allowance {
        // Channel ids are unique without regard to case, so a budget applies however its id is written.
        self.channels.get(&channel.as_str().to_ascii_lowercase()).copied().unwrap_or(self.any_channel)
    }
}

/// Reads the block. An unknown key is refused, because a misspelt budget would limit nothing.
pub(super) fn budgets(view: &View<'_>) -> Result<Budgets, Problem> {
    view.only(&["day", "agent", "channel", "turnsWithoutHuman", "unpriced"])?;
    let (any_agent, agents) = allowances(&view.get("agent")?)?;
    let (any_channel, channels) = allowances::<ChannelId>(&view.get("channel")?)?;
    let channels = channels.into_iter().map(|(id, one)| (id.as_str().to_ascii_lowercase(), one));
    let turns = view.get("turnsWithoutHuman")?.within(1..=1000, "a number")?;
    let unpriced = view.get("unpriced")?;
    Ok(Budgets {
        day: allowance(&view.get("day")?)?,
        any_agent,
        agents: agents.into_iter().collect(),
        any_channel,
        channels: channels.collect(),
        turns_without_human: turns.unwrap_or(TURNS_WITHOUT_HUMAN),
        // Without a price the cost of a call is unknown. The default is to refuse rather than to spend without a limit.
        allow_unpriced: match unpriced.text()?.as_deref() {
            None | Some("refuse") => false,
            Some("allow") => true,
            Some(_) => return Err(unpriced.problem("must be refuse or allow")),
        },
    })
}

/// Reads the limits of single agents or channels, and the limit of each one without an entry of its own (`*`).
fn allowances<T: FromStr<Err: Display>>(
    view: &View<'_>,
) -> Result<(Allowance, Vec<(T, Allowance)>), Problem> {
    let (mut any, mut single) = (Allowance::default(), Vec::new());
    for (name, entry) in view.entries()? {
        let allowance = allowance(&entry)?;
        if name == "*" {
            any = allowance;
        } else {
            let id = name.parse().map_err(|error| entry.problem(&format!("is not usable: {error}")))?;
            single.push((id, allowance));
        }
    }
    Ok((any, single))
}

fn allowance(view: &View<'_>) -> Result<Allowance, Problem> {
    view.only(&["tokens", "usd"])?;
    // An entry replaces the `*` entry as a whole. A limit that it leaves out is not taken from there.
    Ok(Allowance {
        tokens: view.get("tokens")?.number()?,
        micros: view.get("usd")?.convert(micros, "must be dollars as in 2.5")?,
    })
}

/// Converts dollars to millionths of a dollar. Returns `None` for a negative amount, or for more than a billion
/// dollars.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before the cast"
)]
#[must_use]
pub(crate) fn micros(dollars: &Value) -> Option<u64> {
    let dollars = dollars.as_f64()?;
    (0.0..=1e9).contains(&dollars).then(|| (dollars * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Budgets, Problem> {
        budgets(&View::new(Some(value), "budgets", None))
    }

    #[test]
    fn an_agents_own_budget_replaces_the_general_one() {
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
        assert_eq!(super::budgets(&View::new(None, "", None)).unwrap(), Budgets::default());
    }

    #[test]
    fn a_misspelt_budget_is_refused_with_its_key() {
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
