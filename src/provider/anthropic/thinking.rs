//! Settings for the reasoning of Anthropic's models, used with Anthropic's own API and with Bedrock.

use serde::Serialize;

use super::super::{Effort, Request};

/// The `thinking` field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::provider) enum Thinking {
    /// Reason with a budget.
    Enabled {
        /// Maximum thinking tokens, which count as part of the answer's tokens.
        budget_tokens: u32,
    },
    /// Let the model decide how much to reason, guided by the effort.
    Adaptive,
    /// Do not reason. Only MiniMax's models receive this: Anthropic's models do not reason unless told to, and some
    /// refuse this value.
    Disabled,
}

/// The smallest budget that the API accepts.
const MIN_BUDGET_TOKENS: u32 = 1_024;

/// Returns the thinking setting, and the effort as a word for models that use it.
pub(in crate::provider) fn of(
    model: &str,
    effort: Option<Effort>,
    max_tokens: u32,
) -> Option<(Thinking, Option<&'static str>)> {
    let effort = effort?;
    if is_minimax(model) {
        return minimax_config(model, effort).map(|thinking| (thinking, None));
    }
    if effort == Effort::Off {
        // Without a setting none of these models reasons at length. The newest ones refuse a setting that forbids it.
        return None;
    }
    match version(model)? {
        // From 4.6 on the model adapts its reasoning to the effort. The newest models refuse a budget.
        (4, 6..) | (5.., _) => Some((Thinking::Adaptive, Some(effort.as_str()))),
        // Models from 3.7 on take a budget. Older ones do not reason.
        (4, _) | (3, 7..) => {
            let wanted = match effort {
                Effort::Off | Effort::Low => 2_048,
                Effort::Medium => 8_192,
                Effort::High => 16_384,
            };
            // The budget is part of the answer's tokens. At least half of them is left for the text.
            let budget_tokens = wanted.min(max_tokens / 2);
            (budget_tokens >= MIN_BUDGET_TOKENS).then_some((Thinking::Enabled { budget_tokens }, None))
        }
        _ => None,
    }
}

/// Returns `true` for MiniMax's models. They use Anthropic's format but accept other values.
pub(in crate::provider) fn is_minimax(model: &str) -> bool {
    model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase().starts_with("minimax-")
}

/// Returns the thinking setting for MiniMax's models.
///
/// M3 reasons or does not, and knows no budget (`invalid thinking.type: "enabled"`, CherryHQ/cherry-studio #16431). M2
/// models always reason.
fn minimax_config(model: &str, effort: Effort) -> Option<Thinking> {
    let third = model.to_ascii_lowercase().contains("minimax-m3");
    third.then_some(if effort == Effort::Off { Thinking::Disabled } else { Thinking::Adaptive })
}

/// The beta header value with which Claude 4 reasons between its tool calls, and not only before the first one.
/// Adaptive models do so by themselves.
pub(in crate::provider) const INTERLEAVED_BETA: &str = "interleaved-thinking-2025-05-14";

/// Returns `true` if [`INTERLEAVED_BETA`] is requested.
///
/// Anthropic's own API accepts it for any model. Other platforms refuse it for all models but these (the guide to
/// extended thinking, "Interleaved thinking").
pub(in crate::provider) fn uses_interleaved_thinking(request: &Request) -> bool {
    let budget = of(&request.model, request.effort, request.max_tokens);
    let known = ["opus", "sonnet"].iter().any(|line| request.model.contains(line));
    let fourth = matches!(version(&request.model), Some((4, _)));
    let has_budget = matches!(budget, Some((Thinking::Enabled { .. }, _)));
    !request.tools.is_empty() && has_budget && fourth && known
}

/// Returns `true` if a model can be held to a JSON schema on any platform: from version 4.5 on (the guide to structured
/// outputs).
pub(in crate::provider) fn takes_form(model: &str) -> bool {
    version(model) >= Some((4, 5))
}

/// Returns the two version numbers in a model's name, such as `claude-opus-4-6` or `claude-3-7-sonnet`. The release
/// date is not one of them.
fn version(model: &str) -> Option<(u32, u32)> {
    let name = &model[model.find("claude")?..];
    let mut numbers = name
        .split(['-', '.', ':', '@'])
        .skip_while(|part| !is_number(part))
        .map_while(|part| if is_number(part) { part.parse().ok() } else { None });
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

fn is_number(part: &str) -> bool {
    // A release date has eight digits, a version number one or two.
    (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        for (model, expected) in [
            ("claude-opus-4-6", Some((4, 6))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-sonnet-4-5@20250929", Some((4, 5))),
            ("anthropic/claude-opus-4.7", Some((4, 7))),
            ("claude-instant", None),
            ("MiniMax-M2", None),
        ] {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn newer_models_think_adaptively_and_older_ones_get_a_budget() {
        let of = |model, max| of(model, Some(Effort::High), max);
        assert_eq!(of("claude-opus-4-7", 100), Some((Thinking::Adaptive, Some("high"))));
        assert_eq!(of("claude-opus-4-5", 64_000), Some((Thinking::Enabled { budget_tokens: 16_384 }, None)));
        assert_eq!(of("claude-opus-4-5", 8_000), Some((Thinking::Enabled { budget_tokens: 4_000 }, None)));
        for (model, max) in [("claude-opus-4-5", 1_500), ("claude-3-5-haiku-latest", 8_000), ("m", 8_000)] {
            assert_eq!(of(model, max), None, "{model}");
        }
        assert_eq!(super::of("claude-opus-4-7", Some(Effort::Off), 100), None);
        assert_eq!(super::of("claude-opus-4-7", None, 100), None);
        assert_eq!(of("MiniMax-M3", 100), Some((Thinking::Adaptive, None)));
        assert_eq!(super::of("MiniMax-M3", Some(Effort::Off), 100), Some((Thinking::Disabled, None)));
        assert_eq!(of("MiniMax-M2.5", 8_000), None);
    }
}
