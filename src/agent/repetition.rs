//! Detects a model that repeats itself: the same call with the same result, several times in a row. Pure.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::provider::Block;

/// From this number of identical calls in a row on, the model is warned.
const WARN_AFTER: u32 = 5;

/// This number of identical calls in a row ends the turn.
const END_AFTER: u32 = 10;

/// Counts how often the last call of a turn was repeated without another one between.
#[derive(Default)]
pub(super) struct Repetition {
    last: Option<LastCall>,
    times: u32,
}

#[derive(PartialEq)]
struct LastCall {
    tool: String,
    arguments: Value,
    // A hash instead of the content, because results are long and pictures even longer.
    result: [u8; 32],
}

/// The consequence of a call for the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RepetitionOutcome {
    Fine,
    /// A warning that is added to the result the model reads.
    Told(String),
    /// A last warning for the model, and the number of repetitions for which the turn ends.
    Ended(String, u32),
}

impl Repetition {
    /// Records a finished call and returns its consequence.
    pub(super) fn note(&mut self, tool: &str, arguments: &Value, result: &[Block]) -> RepetitionOutcome {
        // A result that can't be serialised counts as empty. At worst, two such results look the same.
        let bytes = serde_json::to_vec(result).unwrap_or_default();
        let seen = LastCall {
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            result: Sha256::digest(bytes).into(),
        };
        // The arguments are compared as JSON values, so the order of their keys makes no difference.
        if self.last.as_ref() == Some(&seen) {
            self.times += 1;
        } else {
            self.last = Some(seen);
            self.times = 1;
        }
        let said = format!(
            "[flock: you have made this call {} times in a row and got this result each time",
            self.times
        );
        // The model is warned with every repetition from the fifth on.
        match self.times {
            END_AFTER.. => {
                RepetitionOutcome::Ended(format!("{said}; the turn was ended for that]"), self.times)
            }
            WARN_AFTER.. => RepetitionOutcome::Told(format!(
                "{said}; do something else, or say what blocks you. At {END_AFTER} times the turn is ended]"
            )),
            _ => RepetitionOutcome::Fine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns one character per call: `.` for fine, `t` for told, `E` for ended.
    fn verdicts(calls: &[(&str, Value, &str)]) -> String {
        let mut repetition = Repetition::default();
        let verdict = |(tool, arguments, result): &(&str, Value, &str)| {
            let result = [Block::text(*result)];
            match repetition.note(tool, arguments, &result) {
                RepetitionOutcome::Fine => '.',
                RepetitionOutcome::Told(text) => {
                    assert!(text.contains("times in a row"), "{text}");
                    't'
                }
                RepetitionOutcome::Ended(_, times) => {
                    assert!(times >= END_AFTER);
                    'E'
                }
            }
        };
        calls.iter().map(verdict).collect()
    }

    #[test]
    fn only_identical_calls_in_a_row_count() {
        let same = |n| vec![("exec", json!({"command": "ls", "timeout": 3}), "x"); n];
        let numbered = |n: i32| ("exec", json!({"command": n}), "x");
        let with = |other: (&'static str, Value, &'static str)| {
            let mut calls = same(4);
            calls.push(other);
            calls.extend(same(4));
            calls
        };
        for (what, calls, expected) in [
            ("the same", same(11), "....tttttEE"),
            ("others each time", (0..12).map(numbered).collect(), "............"),
            ("another tool between", with(("read", json!({}), "x")), "........."),
            ("other arguments once", with(("exec", json!({"command": "ls -l"}), "x")), "........."),
            ("another result once", with(("exec", json!({"command": "ls", "timeout": 3}), "y")), "........."),
            (
                "in turn",
                (0..12).map(|n| if n % 2 == 0 { numbered(0) } else { numbered(1) }).collect(),
                "............",
            ),
            (
                "the order of keys says nothing",
                with(("exec", json!({"timeout": 3, "command": "ls"}), "x")),
                "....ttttt",
            ),
        ] {
            assert_eq!(verdicts(&calls), expected, "{what}");
        }
    }
}
