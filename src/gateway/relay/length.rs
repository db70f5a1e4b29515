//! How long an answer a request wants, wherever a wire says that: read as a provider reads it, and made smaller where
//! the model gives less. A program knows the limits of the agent's own model at best, and not those of one that stands
//! in for it; a provider refuses what is above them. Pure.

use std::ops::Range;

use serde_json::value::RawValue;

use super::entries::{Entries, entries};
use crate::config::Api;

/// The fewest tokens that Anthropic lets a model think in; they count among those of the answer.
const LEAST_THINKING: u64 = 1_024;

/// What a request says of its answer's length.
#[derive(Debug, Default)]
pub struct Length {
    /// Where the tokens of an answer are bounded, and by how many.
    bounds: Vec<(Range<usize>, u64)>,
    /// Where it says how the model is to think, where the tokens for that are bounded, and by how many.
    thinking: Option<(Range<usize>, Range<usize>, u64)>,
    /// How many answers it wants.
    times: u64,
}

impl Length {
    /// Of a request's outermost object, in the bytes that begin here.
    pub fn read(found: &Entries<'_>, origin: usize, api: Api) -> Self {
        let mut length = Self { times: 1, ..Self::default() };
        for (name, value) in found {
            match (api, name.as_str()) {
                (Api::GoogleGenerativeAi, "generationConfig" | "generation_config") => {
                    for (name, value) in inner(value) {
                        match name.as_str() {
                            "maxOutputTokens" | "max_output_tokens" => length.bound(value, origin),
                            "candidateCount" | "candidate_count" => length.times(value),
                            _ => {}
                        }
                    }
                }
                (Api::GoogleGenerativeAi, _) => {}
                (_, "max_tokens" | "max_completion_tokens" | "max_output_tokens") => {
                    length.bound(value, origin);
                }
                (_, "n") => length.times(value),
                (Api::AnthropicMessages, "thinking") => {
                    let budget = inner(value).into_iter().rfind(|(name, _)| name == "budget_tokens");
                    length.thinking = budget.and_then(|(_, budget)| {
                        Some((place(value, origin), place(budget, origin), number(budget)?))
                    });
                }
                _ => {}
            }
        }
        length
    }

    /// The most tokens of the answer to it, from a model that answers with this many at most.
    #[must_use]
    pub fn most(&self, most: u64) -> u64 {
        let wanted = self.bounds.iter().map(|(_, tokens)| *tokens).max();
        wanted.map_or(most, |wanted| wanted.min(most)).saturating_mul(self.times)
    }

    /// What is written instead of what, for a model that answers with this many tokens at most.
    #[must_use]
    pub fn edits(&self, most: u64) -> Vec<(Range<usize>, String)> {
        let larger = self.bounds.iter().filter(|(_, tokens)| *tokens > most);
        let mut edits: Vec<_> = larger.map(|(at, _)| (at.clone(), most.to_string())).collect();
        let wanted = self.bounds.iter().map(|(_, tokens)| *tokens).max().unwrap_or(most).min(most);
        // Thinking that would leave nothing for the answer is refused too; as a program wants it, it leaves something.
        match &self.thinking {
            Some((_, at, budget)) if !edits.is_empty() && *budget >= wanted && wanted > LEAST_THINKING => {
                edits.push((at.clone(), (wanted - 1).to_string()));
            }
            Some((whole, _, budget)) if !edits.is_empty() && *budget >= wanted => {
                edits.push((whole.clone(), r#"{"type":"disabled"}"#.to_owned()));
            }
            _ => {}
        }
        edits
    }

    fn bound(&mut self, value: &RawValue, origin: usize) {
        self.bounds.extend(number(value).map(|tokens| (place(value, origin), tokens)));
    }

    fn times(&mut self, value: &RawValue) {
        self.times = self.times.max(number(value).unwrap_or(1));
    }
}

/// The entries of a value; none where it is no object.
fn inner(value: &RawValue) -> Entries<'_> {
    entries(value.get().as_bytes()).unwrap_or_default()
}

fn place(value: &RawValue, origin: usize) -> Range<usize> {
    let from = value.get().as_ptr().addr() - origin;
    from..from + value.get().len()
}

/// A number of tokens as providers read one: `1e5` and `100000.0` are some, too. What is below none is no number, and
/// more than can be counted is as much as can be.
fn number(raw: &RawValue) -> Option<u64> {
    let whole: Option<u64> = serde_json::from_str(raw.get()).ok();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the bounds")]
    let rounded = || raw.get().parse::<f64>().ok().filter(|number| *number >= 0.0).map(|n| n.ceil() as u64);
    whole.or_else(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, api: Api) -> Length {
        Length::read(&entries(body.as_bytes()).unwrap(), body.as_ptr().addr(), api)
    }

    #[test]
    fn what_an_answer_may_take_is_read_as_a_provider_reads_it() {
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
    fn more_than_a_model_gives_is_made_less_and_thinking_still_leaves_something() {
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
            // What was wrong before stays so: the program is told.
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
