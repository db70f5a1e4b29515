//! How a model of Anthropic's is told how much to think, by Anthropic's own API or by Bedrock's.

use serde::Serialize;

use super::super::{Effort, Request};

/// What the API takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::provider) enum Thinking {
    /// As many tokens as this, of those of the answer.
    Enabled {
        /// The tokens.
        budget_tokens: u32,
    },
    /// As much as the model finds fit; the effort says how much that is.
    Adaptive,
    /// None. Only MiniMax's models are told so: Anthropic's don't think without a word, and some refuse this one.
    Disabled,
}

/// The smallest budget that the API takes.
const LEAST: u32 = 1_024;

/// What to send of thinking, and the word of the effort where it goes by that.
pub(in crate::provider) fn of(
    model: &str,
    effort: Option<Effort>,
    max_tokens: u32,
) -> Option<(Thinking, Option<&'static str>)> {
    let effort = effort?;
    if is_minimax(model) {
        return minimax(model, effort).map(|thinking| (thinking, None));
    }
    if effort == Effort::Off {
        // Without a word none of them thinks at length; the newest refuse to be told not to.
        return None;
    }
    match version(model)? {
        (4, 6..) | (5.., _) => Some((Thinking::Adaptive, Some(effort.as_str()))),
        (4, _) | (3, 7..) => {
            let wanted = match effort {
                Effort::Off | Effort::Low => 2_048,
                Effort::Medium => 8_192,
                Effort::High => 16_384,
            };
            // The budget is a part of the answer's tokens, and something is to be left to be said.
            let budget_tokens = wanted.min(max_tokens / 2);
            (budget_tokens >= LEAST).then_some((Thinking::Enabled { budget_tokens }, None))
        }
        _ => None,
    }
}

/// Whether a model is one of MiniMax's, which are asked as Anthropic's are and differ in what they take.
pub(in crate::provider) fn is_minimax(model: &str) -> bool {
    model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase().starts_with("minimax-")
}

/// MiniMax's third thinks or does not, and knows no budget (`invalid thinking.type: "enabled"`, CherryHQ/cherry-studio
/// #16431); the second ones always think.
fn minimax(model: &str, effort: Effort) -> Option<Thinking> {
    let third = model.to_ascii_lowercase().contains("minimax-m3");
    third.then_some(if effort == Effort::Off { Thinking::Disabled } else { Thinking::Adaptive })
}

/// The beta in which Claude 4 thinks between its calls of tools, and not only before the first of them. Models that
/// adapt do so by themselves.
pub(in crate::provider) const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

/// Whether [`INTERLEAVED`] is asked for. Anthropic's own API lets any model have it; the platforms of others refuse it
/// for all but these (the guide to extended thinking, "Interleaved thinking").
pub(in crate::provider) fn interleaves(request: &Request) -> bool {
    let budget = of(&request.model, request.effort, request.max_tokens);
    let known = ["opus", "sonnet"].iter().any(|line| request.model.contains(line));
    let fourth = matches!(version(&request.model), Some((4, _)));
    let has_budget = matches!(budget, Some((Thinking::Enabled { .. }, _)));
    !request.tools.is_empty() && has_budget && fourth && known
}

/// Whether a model can be held to a JSON schema, whoever serves it: from 4.5 on (the guide to structured outputs).
pub(in crate::provider) fn takes_form(model: &str) -> bool {
    version(model) >= Some((4, 5))
}

/// The two numbers in a model's name, `claude-opus-4-6` or `claude-3-7-sonnet`. The day of a release is none.
fn version(model: &str) -> Option<(u32, u32)> {
    let name = &model[model.find("claude")?..];
    let mut numbers = name
        .split(['-', '.', ':', '@'])
        .skip_while(|part| !is_number(part))
        .map_while(|part| if is_number(part) { part.parse().ok() } else { None });
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

fn is_number(part: &str) -> bool {
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
    fn newer_ones_adapt_and_older_ones_have_a_budget() {
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
