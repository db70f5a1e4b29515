//! Finds the line of a key in the file. The parsed document has no line numbers, so the text is scanned a second time.

use std::fmt::Write as _;

use serde::de::IgnoredAny;

use crate::json::{Scanner, Token, unescape};

/// Returns the line, from 1, of a key in the form `agents.list[0].model`. If the key is missing, returns the line of
/// the object or list that should hold it. `None` for a text that is not JSON.
#[must_use]
pub fn line_of(text: &[u8], at: &str) -> Option<usize> {
    serde_json::from_slice::<IgnoredAny>(text).ok()?;
    // If the key is not there, the enclosing object or list is looked for instead.
    let mut holders = std::iter::successors(Some(at), |key| Some(&key[..key.rfind(['.', '['])?]));
    holders.find_map(|key| value_line(text, key))
}

/// Returns the line on which the value of exactly this key begins.
fn value_line(text: &[u8], wanted: &str) -> Option<usize> {
    let mut tokens = Scanner::new(text);
    let (mut path, mut name) = (String::new(), String::new());
    // The length of the path of each open object or list, and the next index in a list.
    let mut open: Vec<(usize, Option<usize>)> = Vec::new();
    while let Some(token) = tokens.next() {
        match (token, open.last_mut()) {
            (Token::Key(key), Some((length, _))) => {
                path.truncate(*length);
                if !path.is_empty() {
                    path.push('.');
                }
                unescape(key, usize::MAX, &mut name);
                path.push_str(&name);
                continue;
            }
            (Token::Close, _) => {
                open.pop();
                continue;
            }
            (_, Some((length, Some(index)))) => {
                path.truncate(*length);
                // Writing to a String does not fail.
                let _ = write!(path, "[{index}]");
                *index += 1;
            }
            _ => {}
        }
        if path == wanted && !path.is_empty() {
            // No token contains a line break, so the end of the first one is on the line of its beginning.
            let read = &text[..text.len() - tokens.remaining()];
            return Some(1 + read.iter().filter(|byte| **byte == b'\n').count());
        }
        if let Token::Open { object } = token {
            open.push((path.len(), (!object).then_some(0)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_entries_have_their_line() {
        let text = br#"{
  "a": {"b\"c": 1,
        "d": [
          {"id": "x"},
          {"id":
             5, "e": {}}
        ]},
  "z": null
}"#;
        for (at, line) in
            [("a", 2), ("a.b\"c", 2), ("a.d", 3), ("a.d[1]", 5), ("a.d[1].id", 6), ("z", 8), ("a.d[1].e", 6)]
        {
            assert_eq!(line_of(text, at), Some(line), "{at}");
        }
        assert_eq!(line_of(text, "a.d[1].e.missing"), Some(6), "what should hold it");
        assert_eq!(line_of(text, "nothing"), None);
        assert_eq!(line_of(b"{\"a\": [1, ", "a[3]"), None);
        assert_eq!(line_of(b"\xff{", "a"), None);
    }
}
