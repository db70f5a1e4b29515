//! Prices of models. The configuration comes first, then flock's list of well-known models. For a model in neither the
//! price is unknown: its tokens are counted, its money is not.
//!
//! Some prices grow with the length of the input. If that length fits in the context that flock gives the model, the
//! higher price is used.

use std::collections::BTreeSet;

use super::Usage;
use super::catalog::known_models;
use crate::config::{Agent, Config, ModelCost};
use crate::id::ModelRef;

/// Returns the price of a model, or `None` if it is unknown.
#[must_use]
pub fn of(config: &Config, model: &ModelRef) -> Option<ModelCost> {
    // A price in the configuration goes before the list.
    config.model(model).and_then(|own| own.cost).or_else(|| builtin_price(model))
}

/// Returns the agents' models with an unknown price if any budget counts money alone. These models are not asked.
#[must_use]
pub(crate) fn unpriced_models(config: &Config) -> Vec<ModelRef> {
    let budgets = &config.budgets;
    if budgets.allow_unpriced {
        return Vec::new();
    }
    // Only a limit in money without one in tokens depends on prices.
    let named = budgets.agents.values().chain(budgets.channels.values());
    let all = [&budgets.day, &budgets.any_agent, &budgets.any_channel];
    if !all.into_iter().chain(named).any(|allowance| allowance.micros.is_some() && allowance.tokens.is_none())
    {
        return Vec::new();
    }
    let used: BTreeSet<String> = config
        .agents
        .iter()
        .flat_map(Agent::models)
        .filter(|model| of(config, model).is_none())
        .map(ToString::to_string)
        .collect();
    used.into_iter().filter_map(|model| model.parse().ok()).collect()
}

/// Returns the warning for the user about a model of [`unpriced_models`].
#[must_use]
pub(crate) fn unpriced_warning(model: &ModelRef) -> String {
    format!(
        "the price of {model} is not known: where a budget is in dollars alone it is not asked. Set its cost \
         (models.providers.{}.models[].cost), a limit in tokens beside the dollars, or budgets.unpriced to \
         \"allow\"",
        model.provider()
    )
}

fn builtin_price(model: &ModelRef) -> Option<ModelCost> {
    // Scripts run on this machine and cost nothing.
    if model.is_script() {
        return Some(ModelCost::default());
    }
    let found = known_models::of(model).cost?;
    Some(ModelCost {
        input: micros(found.input),
        output: micros(found.output),
        cache_read: micros(found.cache_read),
        cache_write: micros(found.cache_write),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the table's own numbers, which a test looks at"
)]
fn micros(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

/// Returns the cost of a call in millionths of a dollar: the provider's own charge if it reports one, else the cost of
/// the tokens at this price.
#[must_use]
pub fn charged(price: Option<&ModelCost>, usage: &Usage) -> Option<u64> {
    usage.cost.or_else(|| price.map(|price| cost(price, usage)))
}

/// Returns the cost of these tokens in millionths of a dollar, rounded up.
#[must_use]
pub fn cost(price: &ModelCost, usage: &Usage) -> u64 {
    let parts = [
        (usage.input, price.input),
        (usage.output, price.output),
        (usage.cache_read, price.cache_read),
        (usage.cache_write, price.cache_write),
    ];
    // Prices are per million tokens. A provider may report any count, so the sum saturates instead of overflowing.
    let sum = parts.iter().fold(0u128, |sum, (tokens, price)| {
        sum.saturating_add(u128::from(*tokens).saturating_mul(u128::from(*price)))
    });
    u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the maximum cost of a call with this much input and at most this much output.
#[must_use]
pub fn most(price: &ModelCost, input: u64, output: u64) -> u64 {
    // Writing input to the cache can cost more than plain input, and nobody knows yet how much will be written.
    let dearest = ModelCost { input: price.input.max(price.cache_write), ..*price };
    cost(&dearest, &Usage { input, output, ..Usage::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(model: &str) -> Option<ModelCost> {
        builtin_price(&model.parse().unwrap())
    }

    #[test]
    fn a_price_is_found_with_and_without_the_release_date() {
        let plain = price("anthropic/claude-opus-4-5").unwrap();
        assert_eq!((plain.input, plain.output), (5_000_000, 25_000_000));
        assert_eq!(price("anthropic/claude-opus-4-5-20251101"), Some(plain));
        assert_eq!(price("openai/gpt-4o-2024-08-06"), price("openai/gpt-4o"));
        assert_eq!(price("script/demo"), Some(ModelCost::default()));
        assert_eq!(price("ollama/anything"), Some(ModelCost::default()));
        assert_eq!(price("openai/gpt-5.2-codex").unwrap().cache_read, 175_000);
        assert_eq!(price("google/gemini-3-flash-preview").unwrap().output, 3_000_000);
        for unknown in ["anthropic/claude-opus-4-5-99", "lab/qwen3", "openai/é-1234567", "openai/x"] {
            assert_eq!(price(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_reported_charge_takes_precedence_over_the_price() {
        let price = ModelCost { input: 1_000_000, ..ModelCost::default() };
        let told = |cost| Usage { input: 5, cost, ..Usage::default() };
        assert_eq!(charged(Some(&price), &told(Some(2))), Some(2));
        assert_eq!(charged(Some(&price), &told(None)), Some(5));
        assert_eq!(charged(None, &told(Some(0))), Some(0));
        assert_eq!(charged(None, &told(None)), None);
    }

    #[test]
    fn costs_are_rounded_up_and_never_overflow() {
        let price = ModelCost { input: 250_000, output: 2_000_000, cache_read: 25_000, cache_write: 300_000 };
        let usage = Usage { input: 1_000_000, output: 500_000, cache_read: 1, ..Usage::default() };
        assert_eq!(cost(&price, &usage), 1_250_001);
        assert_eq!(most(&price, 1_000_000, 0), 300_000);
        let most_of_all = u64::MAX;
        let all = Usage {
            input: most_of_all,
            output: most_of_all,
            cache_read: most_of_all,
            cache_write: most_of_all,
            cost: None,
        };
        let dear =
            ModelCost { input: u64::MAX, output: u64::MAX, cache_read: u64::MAX, cache_write: u64::MAX };
        assert_eq!(cost(&dear, &all), u64::MAX);
    }
}
