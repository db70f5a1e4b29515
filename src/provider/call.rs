//! Rewrites ids, names and arguments of tool calls into forms that a wire format accepts.
//!
//! A conversation may have begun with another provider, and this one would refuse its ids. The functions are
//! deterministic, so that a call and its result keep matching and a prompt cache stays valid.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::id::hex;

/// The form of call ids that a wire format accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdStyle {
    /// Letters, digits, `_` and `-`, at most [`LONGEST`].
    Plain,
    /// Exactly nine letters and digits, which Mistral requires.
    Nine,
    /// Any text of up to 40 bytes.
    Short,
}

/// Maximum number of characters of a tool name, and of an id in most wire formats.
pub(crate) const LONGEST: usize = 64;

/// Returns `true` if an id or a name has the form that most wire formats accept: letters, digits, `_` and `-`, at most
/// [`LONGEST`].
///
/// The transcript hygiene uses the same test.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns `true` if an id has the form that Mistral requires: nine letters and digits.
#[must_use]
pub(crate) fn is_nine_chars(id: &str) -> bool {
    id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the id in a form that `style` accepts.
///
/// Hygiene has rewritten the ids of a conversation already. This call protects requests that were made without hygiene.
#[must_use]
pub(crate) fn wire_id(id: &str, style: IdStyle) -> Cow<'_, str> {
    match style {
        IdStyle::Plain if is_plain(id) => Cow::Borrowed(id),
        IdStyle::Nine if is_nine_chars(id) => Cow::Borrowed(id),
        IdStyle::Short if !id.is_empty() && id.len() <= 40 => Cow::Borrowed(id),
        // A digest gives the same id in every request and hardly ever the same id for two calls.
        IdStyle::Nine => Cow::Owned(digest(id, 9)),
        IdStyle::Plain | IdStyle::Short => Cow::Owned(format!("call{}", digest(id, 24))),
    }
}

/// Returns the first `digits` hexadecimal digits of the id's SHA-256 digest.
fn digest(id: &str, digits: usize) -> String {
    let mut text = hex(&Sha256::digest(id));
    text.truncate(digits);
    text
}

/// Returns the tool's name in a form that every wire format accepts. Models invent names that no provider would take
/// back.
#[must_use]
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    if is_plain(name) {
        return Cow::Borrowed(name);
    }
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let clean: String = name.chars().take(LONGEST).map(|c| if good(c) { c } else { '_' }).collect();
    Cow::Owned(if clean.is_empty() { "unknown".to_owned() } else { clean })
}

/// Returns the arguments as an object, which every wire format requires. Arguments that were no JSON are put into an
/// object, so that the model sees what it wrote.
#[must_use]
pub fn input(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        Value::Null => Cow::Owned(Value::Object(Map::new())),
        other => Cow::Owned(json!({ "invalid_arguments": other })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_ids_stay_and_rewritten_ids_stay_distinct() {
        assert_eq!(wire_id("toolu_01-a", IdStyle::Plain), "toolu_01-a");
        assert_eq!(wire_id("abc123XYZ", IdStyle::Nine), "abc123XYZ");
        assert_eq!(wire_id("functions.exec:0", IdStyle::Short), "functions.exec:0");
        for style in [IdStyle::Plain, IdStyle::Nine, IdStyle::Short] {
            let long = "x".repeat(439);
            let ids = ["", "functions.exec:0", "functions.exec:1", "é", &long].map(|id| wire_id(id, style));
            for id in &ids {
                assert!(!id.is_empty() && id.len() <= 64);
                if style != IdStyle::Short {
                    assert!(id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
                }
            }
            assert_eq!(wire_id("functions.exec:0", style), ids[1], "the same again");
            assert_ne!(ids[1], ids[2]);
        }
    }

    #[test]
    fn invalid_tool_names_are_rewritten() {
        assert_eq!(wire_name("exec"), "exec");
        assert_eq!(wire_name("functions.exec <|x|>"), "functions_exec___x__");
        assert_eq!(wire_name(""), "unknown");
        assert_eq!(wire_name(&"é".repeat(300)).len(), 64);
    }
}
