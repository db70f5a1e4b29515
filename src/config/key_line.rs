//! Finds the line of a key in the file. The parsed document has no line numbers, so the text is parsed a second time.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Returns the line, from 1, of a key's value in the form `agents.list[0].model`. If the key is missing, returns the
/// line of the object or list that should hold it. `None` for a text that is not JSON.
#[must_use]
pub(crate) fn line_of(text: &[u8], at: &str) -> Option<usize> {
    let found = below(serde_json::from_slice(text).ok()?, at)?;
    // The raw value is a part of the text.
    let before = found.get().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(1 + text.get(..before)?.iter().filter(|byte| **byte == b'\n').count())
}

/// Returns the value at a path, or the innermost one that encloses it. `None` if not even the first key is there.
fn below<'a>(value: &'a RawValue, at: &str) -> Option<&'a RawValue> {
    let found = if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        let (index, rest) = at.strip_prefix('[')?.split_once(']')?;
        (*items.get(index.parse::<usize>().ok()?)?, rest)
    } else {
        let entries: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
        // A key may contain a dot, so the path is not split at dots, and longer keys come first.
        let rest =
            |name: &str| at.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        entries.iter().rev().find_map(|(name, value)| Some((*value, rest(name)?)))?
    };
    let (value, rest) = found;
    below(value, rest.strip_prefix('.').unwrap_or(rest)).or(Some(value))
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
