//! Parses records that are not in this version's form: written by a newer version, or damaged in the middle. The file
//! itself is not changed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use serde_json::value::RawValue;

use super::model::{MessageRecord, Record};
use crate::agent::Provenance;
use crate::provider::{Block, Message};

/// The fields of an object, not parsed yet.
type Fields<'a> = HashMap<String, &'a RawValue>;

/// Returns a record's type.
///
/// # Errors
///
/// Returns an error if the line is not an object with a type.
pub(super) fn kind(line: &[u8]) -> Result<Cow<'_, str>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    // serde would also accept an array for a struct.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(serde_json::Error::custom("no JSON object"));
    }
    serde_json::from_slice::<Tag<'_>>(line).map(|tag| tag.kind)
}

/// Parses as much of a record as possible.
///
/// # Errors
///
/// Returns an error if the line is no record.
pub(super) fn parse(line: &[u8]) -> Result<Record, serde_json::Error> {
    #[derive(Deserialize)]
    struct Least<'a> {
        #[serde(borrow)]
        message: Speaker<'a>,
    }
    #[derive(Deserialize)]
    struct Speaker<'a> {
        #[serde(borrow)]
        role: Cow<'a, str>,
    }
    // Two passes: a message without a role must be an error, and all its other faults must not be.
    if kind(line)? != "message" {
        return Ok(Record::Unknown);
    }
    let least: Least<'_> = serde_json::from_slice(line)?;
    if least.message.role.trim().is_empty() {
        return Err(serde_json::Error::custom("a message without a role"));
    }
    Ok(message(line).map_or(Record::Unknown, |record| Record::Message(Box::new(record))))
}

fn message(line: &[u8]) -> Option<MessageRecord> {
    let fields: Fields<'_> = serde_json::from_slice(line).ok()?;
    // The fields stay unparsed, so that one bad field does not lose the others.
    let inner: Fields<'_> = serde_json::from_str(fields.get("message")?.get()).ok()?;
    let said = Message {
        role: parse_field(&inner, "role")?,
        content: inner.get("content").map_or_else(Vec::new, blocks),
    };
    Some(MessageRecord {
        id: parse_field(&fields, "id")?,
        parent: parse_field(&fields, "parent"),
        context: parse_field(&fields, "context"),
        guidance: parse_field(&fields, "guidance").unwrap_or_default(),
        usage: parse_field(&fields, "usage"),
        model: parse_field(&fields, "model"),
        api: parse_field(&fields, "api"),
        stop: parse_field(&fields, "stop"),
        provenance: parse_field(&fields, "provenance"),
        filled: parse_field(&fields, "filled").unwrap_or_default(),
        trace: parse_field(&fields, "trace").unwrap_or_default(),
        ..MessageRecord::new(parse_field(&fields, "turn")?, parse_field(&fields, "at")?, said)
    })
}

/// Returns an input's provenance from inside the message, which is where other programs store it.
pub(super) fn nested_provenance(line: &[u8]) -> Option<Provenance> {
    #[derive(Deserialize)]
    struct Outer {
        message: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        provenance: Option<Provenance>,
    }
    // Hardly any line has it, so a search comes before the parser. A text can't contain the searched bytes, because its
    // quotes are escaped.
    static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""provenance""#));
    NAME.find(line)?;
    serde_json::from_slice::<Outer>(line).ok()?.message.provenance
}

/// Returns a field if it exists and has the right type.
fn parse_field<T: DeserializeOwned>(fields: &Fields<'_>, name: &str) -> Option<T> {
    serde_json::from_str(fields.get(name)?.get()).ok()
}

/// Parses a list of blocks. A single block or text counts as a list of one.
fn blocks(content: &&RawValue) -> Vec<Block> {
    // Each block is parsed on its own, so that an unknown one does not lose the others.
    if let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        return blocks.into_iter().map(block).collect();
    }
    match serde_json::from_str::<Value>(content.get()) {
        Ok(Value::String(text)) => vec![Block::text(text)],
        Ok(Value::Object(_)) => vec![block(content)],
        _ => Vec::new(),
    }
}

fn block(raw: &RawValue) -> Block {
    if let Ok(block) = serde_json::from_str(raw.get()) {
        return block;
    }
    // A result is worth a second try: without it, its call would count as unanswered.
    result(raw).unwrap_or_else(|| Block::Other(serde_json::from_str(raw.get()).unwrap_or_default()))
}

/// Parses a tool result that contains something unknown.
fn result(raw: &RawValue) -> Option<Block> {
    let fields: Fields<'_> = serde_json::from_str(raw.get()).ok()?;
    let kind: String = parse_field(&fields, "type")?;
    (kind == "toolResult").then_some(())?;
    Some(Block::ToolResult {
        call_id: parse_field(&fields, "callId")?,
        name: parse_field(&fields, "name")?,
        content: blocks(fields.get("content")?).into(),
        is_error: parse_field(&fields, "isError").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::TurnId;
    use crate::provider::Role;

    fn line(message: &Value, more: &Value) -> Vec<u8> {
        let mut record =
            json!({"type": "message", "id": "i", "turn": TurnId::new(), "at": 1, "message": message});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record.to_string().into_bytes()
    }

    fn read(message: &Value, more: &Value) -> MessageRecord {
        match Record::parse(&line(message, more)).unwrap() {
            Record::Message(record) => *record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn known_fields_are_parsed_and_unknown_blocks_kept_whole() {
        let hologram = json!({"type": "hologram", "data": [1], "text": 5});
        let result = json!({"type": "toolResult", "callId": "1", "name": "n", "content": [hologram, {"type": "text", "text": "t"}]});
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": "said"}, hologram, result, "loose"]});
        let more =
            json!({"stop": "pondering", "api": "smoke-signals", "usage": {"output": 3}, "model": "a/b"});
        let record = read(&message, &more);
        assert_eq!((record.stop, record.api, record.model.as_deref()), (None, None, Some("a/b")));
        assert_eq!(record.usage.unwrap().output, 3);
        let [said, other, Block::ToolResult { content, .. }, loose] = &record.message.content[..] else {
            panic!("{record:?}")
        };
        assert_eq!((said, other), (&Block::text("said"), &Block::Other(hologram.clone())));
        assert_eq!(**content, [Block::Other(hologram), Block::text("t")]);
        assert_eq!(*loose, Block::Other(json!("loose")));
        assert_eq!(serde_json::to_value(&record.message.content[1]).unwrap()["data"], json!([1]));
    }

    #[test]
    fn provenance_is_found_in_the_message_too_and_not_in_its_text() {
        let other = json!({"kind": "inter_session", "sourceSessionKey": "k"});
        let within = json!({"role": "user", "content": [], "provenance": other});
        assert_eq!(read(&within, &json!({})).provenance, Some(Provenance::Other(other)));
        let own = json!({"kind": "request", "item": "i"});
        let beside = read(&within, &json!({"provenance": own}));
        assert_eq!(beside.provenance, Some(Provenance::Request { item: "i".into() }));
        let said = json!({"role": "user", "content": [{"type": "text", "text": within.to_string()}]});
        assert_eq!(read(&said, &json!({})).provenance, None);
    }

    #[test]
    fn a_single_text_or_block_counts_as_content() {
        let none = json!({});
        let content =
            |content: Value| read(&json!({"role": "user", "content": content}), &none).message.content;
        assert_eq!(content(json!("hi")), [Block::text("hi")]);
        assert_eq!(content(json!({"type": "text", "text": "hi"})), [Block::text("hi")]);
        assert_eq!(content(Value::Null), []);
        assert_eq!(
            read(&json!({"role": "assistant"}), &none).message,
            Message { role: Role::Assistant, content: vec![] }
        );
    }

    #[test]
    fn unreadable_messages_are_unknown_records_and_invalid_ones_are_errors() {
        for (message, more) in [
            (json!({"role": "oracle", "content": []}), json!({})),
            (json!({"role": "user", "content": []}), json!({"at": "noon"})),
            (json!({"role": "user", "content": []}), json!({"turn": 7})),
        ] {
            assert_eq!(Record::parse(&line(&message, &more)).unwrap(), Record::Unknown);
            assert!(Record::parse_strict(&line(&message, &more)).is_err());
        }
        for message in [
            json!("text"),
            Value::Null,
            json!([]),
            json!({"content": []}),
            json!({"role": " ", "content": []}),
        ] {
            assert!(Record::parse(&line(&message, &json!({}))).is_err(), "{message}");
        }
    }

    #[test]
    fn deeply_nested_lines_are_still_records() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        let message = json!({"role": "assistant", "content": [{"type": "toolCall", "id": "1", "name": "n", "arguments": 0}]});
        let text = String::from_utf8(line(&message, &json!({})))
            .unwrap()
            .replace("\"arguments\":0", &format!("\"arguments\":{deep}"));
        assert!(Record::parse(text.as_bytes()).is_ok());
    }
}
