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
#[path = "answer_length_tests.rs"]
mod tests;
