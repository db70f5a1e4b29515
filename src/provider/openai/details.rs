//! `reasoning_details`, in which OpenRouter gives a model's reasoning with its signatures, whoever's they are, and in
//! which it wants them back: Gemini's calls are refused without. They are kept whole, as the signature of the thinking.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::super::assembly::TooLong;

/// More entries than this in one answer are no reasoning.
const MOST: usize = 256;

/// What has come of them.
#[derive(Debug, Default)]
pub(super) struct Details {
    entries: Vec<Map<String, Value>>,
    bytes: usize,
}

impl Details {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes a piece. What goes on with an entry, by its index and type, is added to it; `limit` bounds all bytes.
    pub(super) fn add(&mut self, piece: Value, limit: usize) -> Result<(), TooLong> {
        let Value::Object(piece) = piece else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(length(&piece)?);
        if self.bytes > limit || self.entries.len() >= MOST {
            return Err(TooLong);
        }
        let same = |entry: &&mut Map<String, Value>| {
            piece.contains_key("index")
                && entry.get("index") == piece.get("index")
                && entry.get("type") == piece.get("type")
        };
        match self.entries.iter_mut().find(same) {
            Some(entry) => piece.into_iter().for_each(|(name, value)| go_on(entry, name, value)),
            None => self.entries.push(piece),
        }
        Ok(())
    }

    /// All of them as one text.
    pub(super) fn seal(&self) -> Option<String> {
        serde_json::to_vec(&self.entries).ok().filter(|_| !self.is_empty()).map(|json| STANDARD.encode(json))
    }
}

fn length(piece: &Map<String, Value>) -> Result<usize, TooLong> {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, piece).map_err(|_| TooLong)?;
    Ok(counter.0)
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn go_on(entry: &mut Map<String, Value>, name: String, value: Value) {
    match (entry.get_mut(&name), value) {
        (_, Value::Null) => {}
        (Some(Value::String(known)), Value::String(more)) if matches!(name.as_str(), "text" | "summary") => {
            known.push_str(&more);
        }
        (_, value) => {
            entry.insert(name, value);
        }
    }
}

/// What [`Details::seal`] closed; `None` where a signature is something else.
pub(super) fn open(signature: &str) -> Option<Vec<Value>> {
    let json = STANDARD.decode(signature).ok()?;
    let entries: Vec<Value> = serde_json::from_slice(&json).ok()?;
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
    fn pieces_become_whole_and_come_back_as_they_were() {
        let mut details = Details::default();
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
    fn other_signatures_are_no_details() {
        for signature in ["", "c2ln", "é", &STANDARD.encode("[1]"), &STANDARD.encode(r#"[{"type":"x"}]"#)] {
            assert_eq!(open(signature), None, "{signature}");
        }
    }
}
