//! Tool calls as a wire takes them: id, name and arguments. A conversation may have begun with another provider, whose ids
//! this one would refuse. Deterministic, so that a call and its result agree and a prompt cache holds.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// What a wire takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Letters, digits, `_` and `-`, at most 64.
    Plain,
    /// Nine letters and digits, as Mistral wants them.
    Nine,
    /// Anything up to 40 bytes.
    Short,
}

/// The most characters of a name, and of most ids.
pub const LONGEST: usize = 64;

/// Whether an id or a name is as most wires take it: letters, digits, `_` and `-`, at most [`LONGEST`]. Hygiene goes by it
/// too.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Whether an id is as Mistral takes it: nine letters and digits.
#[must_use]
pub fn is_nine(id: &str) -> bool {
    id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The id as `style` takes it. Hygiene has made those of a conversation so already; a request that is made without it is
/// not refused for them either.
#[must_use]
pub fn wire_id(id: &str, style: Style) -> Cow<'_, str> {
    match style {
        Style::Plain if is_plain(id) => Cow::Borrowed(id),
        Style::Nine if is_nine(id) => Cow::Borrowed(id),
        Style::Short if !id.is_empty() && id.len() <= 40 => Cow::Borrowed(id),
        Style::Nine => Cow::Owned(digest(id, 9)),
        Style::Plain | Style::Short => Cow::Owned(format!("call{}", digest(id, 24))),
    }
}

fn digest(id: &str, digits: usize) -> String {
    let hash = Sha256::digest(id);
    let mut text = hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
        text
    });
    text.truncate(digits);
    text
}

/// A tool's name as every wire takes it: models make up names that none would take back.
#[must_use]
pub fn tool_name(name: &str) -> Cow<'_, str> {
    if is_plain(name) {
        return Cow::Borrowed(name);
    }
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let clean: String = name.chars().take(LONGEST).map(|c| if good(c) { c } else { '_' }).collect();
    Cow::Owned(if clean.is_empty() { "unknown".to_owned() } else { clean })
}

/// Arguments as every wire takes them: an object. Those that were not JSON go back inside one, so that the
/// model sees what it wrote.
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
    fn good_ids_stay_and_others_keep_apart() {
        assert_eq!(wire_id("toolu_01-a", Style::Plain), "toolu_01-a");
        assert_eq!(wire_id("abc123XYZ", Style::Nine), "abc123XYZ");
        assert_eq!(wire_id("functions.exec:0", Style::Short), "functions.exec:0");
        for style in [Style::Plain, Style::Nine, Style::Short] {
            let long = "x".repeat(439);
            let ids = ["", "functions.exec:0", "functions.exec:1", "é", &long].map(|id| wire_id(id, style));
            for id in &ids {
                assert!(!id.is_empty() && id.len() <= 64);
                if style != Style::Short {
                    assert!(id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
                }
            }
            assert_eq!(wire_id("functions.exec:0", style), ids[1], "the same again");
            assert_ne!(ids[1], ids[2]);
        }
    }

    #[test]
    fn names_are_made_sendable() {
        assert_eq!(tool_name("exec"), "exec");
        assert_eq!(tool_name("functions.exec <|x|>"), "functions_exec___x__");
        assert_eq!(tool_name(""), "unknown");
        assert_eq!(tool_name(&"é".repeat(300)).len(), 64);
    }
}
