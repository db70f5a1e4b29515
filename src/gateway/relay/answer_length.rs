//! Reads the length of the answer that a request wants, in every place where a wire format gives it, and lowers it
//! where the model gives less.
//!
//! The value is read as a provider reads it. A program at best knows the limits of the agent's own model, and not those
//! of a fallback model, and a provider refuses a value above its limits. Pure.

use std::ops::Range;

use serde_json::value::RawValue;

use super::entries::{Entries, entries};
use crate::provider::relay_format::AnswerEntries;

/// Fewest thinking tokens that Anthropic accepts. They count as tokens of the answer.
const MIN_THINKING_TOKENS: u64 = 1_024;

/// The length of the answer that a request wants.
#[derive(Debug, Default)]
pub(crate) struct AnswerLength {
    /// Each place in the body that limits the answer, with its number of tokens.
    bounds: Vec<(Range<usize>, u64)>,
    /// The place of the thinking settings, the place of the thinking budget in them, and that budget in tokens.
    thinking: Option<(Range<usize>, Range<usize>, u64)>,
    /// Number of answers that the request wants.
    times: u64,
}

impl AnswerLength {
    /// Reads the outermost object of a request whose bytes begin at the address `origin`.
    pub(crate) fn read(found: &Entries<'_>, origin: usize, names: &AnswerEntries) -> Self {
        let mut length = Self { times: 1, ..Self::default() };
        for (name, value) in found {
            if names.parents.is_empty() {
                length.entry(name, value, origin, names);
            } else if names.parents.contains(&name.as_str()) {
                for (name, value) in nested_entries(value) {
                    length.entry(&name, value, origin, names);
                }
            }
        }
        length
    }

    fn entry(&mut self, name: &str, value: &RawValue, origin: usize, names: &AnswerEntries) {
        if names.max_tokens.contains(&name) {
            self.bounds.extend(number(value).map(|tokens| (byte_range(value, origin), tokens)));
        } else if names.count.contains(&name) {
            self.times = self.times.max(number(value).unwrap_or(1));
        } else if names.has_thinking_budget && name == "thinking" {
            // If a name occurs twice, the last one counts.
            let budget = nested_entries(value).into_iter().rfind(|(name, _)| name == "budget_tokens");
            self.thinking = budget.and_then(|(_, budget)| {
                Some((byte_range(value, origin), byte_range(budget, origin), number(budget)?))
            });
        }
    }

    /// Returns the most tokens that the answer can have, from a model that answers with at most `most` tokens.
    #[must_use]
    pub(crate) fn most(&self, most: u64) -> u64 {
        // With several limits the largest one counts, because nobody knows which of them the provider uses.
        let wanted = self.bounds.iter().map(|(_, tokens)| *tokens).max();
        wanted.map_or(most, |wanted| wanted.min(most)).saturating_mul(self.times)
    }

    /// Returns the places to replace with their new text, for a model that answers with at most `most` tokens.
    #[must_use]
    pub(crate) fn edits(&self, most: u64) -> Vec<(Range<usize>, String)> {
        let larger = self.bounds.iter().filter(|(_, tokens)| *tokens > most);
        let mut edits: Vec<_> = larger.map(|(at, _)| (at.clone(), most.to_string())).collect();
        let wanted = self.bounds.iter().map(|(_, tokens)| *tokens).max().unwrap_or(most).min(most);
        // A provider refuses thinking that leaves nothing for the answer. The program's own values leave something, so
        // the lowered ones must as well.
        match &self.thinking {
            Some((_, at, budget))
                if !edits.is_empty() && *budget >= wanted && wanted > MIN_THINKING_TOKENS =>
            {
                edits.push((at.clone(), (wanted - 1).to_string()));
            }
            Some((whole, _, budget)) if !edits.is_empty() && *budget >= wanted => {
                // Less than the minimum can't be asked for, so thinking is turned off.
                edits.push((whole.clone(), r#"{"type":"disabled"}"#.to_owned()));
            }
            _ => {}
        }
        edits
    }
}

/// Returns the entries of a value, or none if it is not an object.
fn nested_entries(value: &RawValue) -> Entries<'_> {
    entries(value.get().as_bytes()).unwrap_or_default()
}

fn byte_range(value: &RawValue, origin: usize) -> Range<usize> {
    // The raw value is borrowed from the body, so its address gives its place there.
    let from = value.get().as_ptr().addr() - origin;
    from..from + value.get().len()
}

/// Reads a number of tokens as providers do: `1e5` and `100000.0` count too. A negative value is no number, and a value
/// that is too large becomes the largest one.
fn number(raw: &RawValue) -> Option<u64> {
    let whole: Option<u64> = serde_json::from_str(raw.get()).ok();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the bounds")]
    let rounded = || raw.get().parse::<f64>().ok().filter(|number| *number >= 0.0).map(|n| n.ceil() as u64);
    whole.or_else(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;
    use crate::provider::wire_format;

    fn read(body: &str, api: Api) -> AnswerLength {
        let names = &wire_format::of(api).relay.unwrap().answer;
        AnswerLength::read(&entries(body.as_bytes()).unwrap(), body.as_ptr().addr(), names)
    }

    #[test]
    fn the_answer_limit_is_read_as_a_provider_reads_it() {
        for (body, api, expected) in [
            ("{}", Api::AnthropicMessages, 7_000),
            (r#"{"max_tokens":100}"#, Api::AnthropicMessages, 100),
            (r#"{"max_tokens":1e2}"#, Api::AnthropicMessages, 100),
            (r#"{"max_tokens":100.5}"#, Api::AnthropicMessages, 101),
            (r#"{"max_tokens":1e5}"#, Api::AnthropicMessages, 7_000),
            (r#"{"max_tokens":1e999}"#, Api::AnthropicMessages, 7_000),
            (r#"{"max_tokens":90,"max_tokens":100}"#, Api::AnthropicMessages, 100),
            (r#"{"max_tokens":100,"max_completion_tokens":200,"n":3}"#, Api::OpenAiCompletions, 600),
            (r#"{"max_output_tokens":50}"#, Api::OpenAiResponses, 50),
            (r#"{"max_tokens":-1,"n":"x"}"#, Api::OpenAiCompletions, 7_000),
            (r#"{"max_tokens":"1e2","n":2e0}"#, Api::OpenAiCompletions, 14_000),
            (r#"{"generationConfig":{"maxOutputTokens":9,"candidateCount":2}}"#, Api::GoogleGenerativeAi, 18),
            (
                r#"{"generation_config":{"max_output_tokens":5e1},"generationConfig":{"maxOutputTokens":9,"max_output_tokens":8}}"#,
                Api::GoogleGenerativeAi,
                50,
            ),
            (
                r#"{"generationConfig":{"candidateCount":2},"generation_config":{"candidate_count":3}}"#,
                Api::GoogleGenerativeAi,
                21_000,
            ),
            (r#"{"generationConfig":7}"#, Api::GoogleGenerativeAi, 7_000),
            (r#"{"n":18446744073709551615,"max_tokens":2}"#, Api::OpenAiCompletions, u64::MAX),
        ] {
            assert_eq!(read(body, api).most(7_000), expected, "{body}");
        }
    }

    fn cut(body: &str, api: Api, most: u64) -> String {
        let mut edits = read(body, api).edits(most);
        edits.sort_by_key(|(at, _)| at.start);
        let mut text = body.to_owned();
        for (at, new) in edits.into_iter().rev() {
            text.replace_range(at, &new);
        }
        text
    }

    #[test]
    fn limits_above_the_model_are_lowered_and_thinking_leaves_room_for_the_answer() {
        for (body, api, expected) in [
            (r#"{"max_tokens":2000,"x":9000}"#, Api::AnthropicMessages, r#"{"max_tokens":2000,"x":9000}"#),
            (r#"{"max_tokens": 2001 }"#, Api::AnthropicMessages, r#"{"max_tokens": 2000 }"#),
            (
                r#"{"max_tokens":1e5,"max_completion_tokens":5}"#,
                Api::OpenAiCompletions,
                r#"{"max_tokens":2000,"max_completion_tokens":5}"#,
            ),
            (
                r#"{"input":[],"max_output_tokens":1e999}"#,
                Api::OpenAiResponses,
                r#"{"input":[],"max_output_tokens":2000}"#,
            ),
            (
                r#"{"generationConfig":{"maxOutputTokens":9000},"generation_config":{"max_output_tokens":3000}}"#,
                Api::GoogleGenerativeAi,
                r#"{"generationConfig":{"maxOutputTokens":2000},"generation_config":{"max_output_tokens":2000}}"#,
            ),
            (
                r#"{"thinking":{"type":"enabled","budget_tokens":31999},"max_tokens":32000}"#,
                Api::AnthropicMessages,
                r#"{"thinking":{"type":"enabled","budget_tokens":1999},"max_tokens":2000}"#,
            ),
            (
                r#"{"thinking":{"budget_tokens":1500},"max_tokens":32000}"#,
                Api::AnthropicMessages,
                r#"{"thinking":{"budget_tokens":1500},"max_tokens":2000}"#,
            ),
            // A request that was wrong before stays wrong, and the provider tells the program so.
            (
                r#"{"thinking":{"budget_tokens":1500},"max_tokens":1000}"#,
                Api::AnthropicMessages,
                r#"{"thinking":{"budget_tokens":1500},"max_tokens":1000}"#,
            ),
        ] {
            assert_eq!(cut(body, api, 2_000), expected);
        }
        let thinks = r#"{"thinking": {"type":"enabled","budget_tokens":31999},"max_tokens":32000}"#;
        let expected = r#"{"thinking": {"type":"disabled"},"max_tokens":1000}"#;
        assert_eq!(cut(thinks, Api::AnthropicMessages, 1_000), expected);
    }
}
