//! `reasoning_details`, the form in which OpenRouter sends a model's reasoning with its signatures, from any provider,
//! and expects it back.
//!
//! Gemini's calls are refused without it. The details are kept unchanged, encoded as the signature of the thinking
//! block.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::super::response_builder::TooLong;

/// Maximum number of entries in one answer. More are no plausible reasoning.
const MAX_ENTRIES: usize = 256;

/// The details that have arrived.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails {
    entries: Vec<Map<String, Value>>,
    bytes: usize,
}

impl ReasoningDetails {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a piece. A piece with the index and type of an existing entry continues that entry. `limit` bounds all
    /// bytes.
    pub(super) fn add(&mut self, piece: Value, limit: usize) -> Result<(), TooLong> {
        let Value::Object(piece) = piece else { return Ok(()) };
        // Every piece counts, including one that only replaces a field of an entry.
        self.bytes = self.bytes.saturating_add(serde_json::to_vec(&piece).map_err(|_| TooLong)?.len());
        if self.bytes > limit || self.entries.len() >= MAX_ENTRIES {
            return Err(TooLong);
        }
        let same = |entry: &&mut Map<String, Value>| {
            piece.contains_key("index")
                && entry.get("index") == piece.get("index")
                && entry.get("type") == piece.get("type")
        };
        match self.entries.iter_mut().find(same) {
            Some(entry) => piece.into_iter().for_each(|(name, value)| merge_field(entry, name, value)),
            None => self.entries.push(piece),
        }
        Ok(())
    }

    /// Returns all details as one text, or `None` if there are none.
    pub(super) fn seal(&self) -> Option<String> {
        serde_json::to_vec(&self.entries).ok().filter(|_| !self.is_empty()).map(|json| STANDARD.encode(json))
    }
}

fn merge_field(entry: &mut Map<String, Value>, name: String, value: Value) {
    match (entry.get_mut(&name), value) {
        (_, Value::Null) => {}
        // Streamed texts are appended. Other fields, such as a signature, are sent whole and replace the old value.
        (Some(Value::String(known)), Value::String(more)) if matches!(name.as_str(), "text" | "summary") => {
            known.push_str(&more);
        }
        (_, value) => {
            entry.insert(name, value);
        }
    }
}

/// Decodes a text of [`ReasoningDetails::seal`]; `None` for any other signature.
pub(super) fn open(signature: &str) -> Option<Vec<Value>> {
    let json = STANDARD.decode(signature).ok()?;
    let entries: Vec<Value> = serde_json::from_slice(&json).ok()?;
    // Another provider's signature may be Base64 of JSON too, so the type of each entry is checked.
    entries
        .iter()
        .all(|entry| entry["type"].as_str().is_some_and(|kind| kind.starts_with("reasoning.")))
        .then_some(entries)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn streamed_details_are_joined_and_survive_a_round_trip() {
        let mut details = ReasoningDetails::default();
        for piece in [
            json!({"type": "reasoning.text", "text": "h", "index": 0, "format": "anthropic-claude-v1"}),
            json!({"type": "reasoning.text", "text": "m", "index": 0, "signature": null}),
            json!({"type": "reasoning.text", "signature": "c2ln", "index": 0}),
            json!({"type": "reasoning.encrypted", "data": "b3Bh", "id": "call_1", "index": 0}),
            json!("no entry"),
        ] {
            details.add(piece, 1_000).unwrap();
        }
        let expected = vec![
            json!({"type": "reasoning.text", "text": "hm", "index": 0, "format": "anthropic-claude-v1", "signature": "c2ln"}),
            json!({"type": "reasoning.encrypted", "data": "b3Bh", "id": "call_1", "index": 0}),
        ];
        assert_eq!(open(&details.seal().unwrap()), Some(expected));
        assert_eq!(details.add(json!({"text": "x".repeat(1_000)}), 1_000), Err(TooLong));
    }

    #[test]
    fn foreign_signatures_are_not_decoded_as_details() {
        for signature in ["", "c2ln", "é", &STANDARD.encode("[1]"), &STANDARD.encode(r#"[{"type":"x"}]"#)] {
            assert_eq!(open(signature), None, "{signature}");
        }
    }
}
