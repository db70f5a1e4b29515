//! Messages in the JSON of the GenAI conventions, for owners who want contents in their traces. Pure.
//!
//! Texts are cut and old messages left out, so that a long conversation does not make each of its spans as long.

use serde_json::{Value as Json, json};

use crate::provider::message::joined_text;
use crate::provider::{Block, Message, Role, StopReason};
use crate::telemetry::{MAX_CONTENT, Value, cut};

/// Longest text of one part, in bytes.
const MAX_PART: usize = 8 << 10;

/// Returns the newest messages that fit.
pub(crate) fn messages<'m>(messages: impl DoubleEndedIterator<Item = &'m Message>) -> Value {
    let mut kept = Vec::new();
    let mut room = MAX_CONTENT;
    for message in messages.rev() {
        let entry = json!({"role": role(message.role), "parts": parts(&message.content)});
        let size = entry.to_string().len();
        if size > room {
            break;
        }
        room -= size;
        kept.push(entry);
    }
    kept.reverse();
    Value::Content(Json::Array(kept).to_string())
}

/// Returns a system prompt.
pub(crate) fn system(text: &str) -> Value {
    Value::Content(json!([{"type": "text", "content": cut(text, MAX_PART)}]).to_string())
}

/// Returns a model's answer.
pub(crate) fn answer(content: &[Block], stop: StopReason) -> Value {
    let parts = parts(content);
    let entry = json!([{"role": "assistant", "parts": parts, "finish_reason": finish_reason(stop)}]);
    Value::Content(entry.to_string())
}

/// Returns the conventions' word for the end of an answer.
pub(crate) const fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::Length => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Error | StopReason::Aborted => "error",
    }
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn parts(content: &[Block]) -> Vec<Json> {
    content.iter().map(part).collect()
}

fn part(block: &Block) -> Json {
    match block {
        Block::Text { text, .. } => json!({"type": "text", "content": cut(text, MAX_PART)}),
        Block::Thinking { thinking, .. } => json!({"type": "reasoning", "content": cut(thinking, MAX_PART)}),
        Block::ToolCall { id, name, arguments, .. } => {
            let text = arguments.to_string();
            // Arguments that are too long are no object any more, which the conventions allow.
            let arguments =
                if text.len() > MAX_PART { cut(&text, MAX_PART).into() } else { arguments.clone() };
            json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})
        }
        Block::ToolResult { call_id, content, .. } => {
            let response = cut(&joined_text(content), MAX_PART);
            json!({"type": "tool_call_response", "id": call_id, "response": response})
        }
        Block::Image { media_type, .. } => json!({"type": "image_left_out", "mime_type": media_type}),
        Block::Other(_) => json!({"type": "unknown"}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value) -> Json {
        let Value::Content(text) = value else { panic!("{value:?}") };
        assert!(text.len() <= MAX_CONTENT + 2 * MAX_PART, "{}", text.len());
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_conversation_has_the_conventions_form() {
        let said = [
            Message::text(Role::User, "hi"),
            Message { role: Role::Assistant, content: vec![Block::call("c1", "read", json!({"path": "a"}))] },
            Message {
                role: Role::Tool,
                content: vec![Block::ToolResult {
                    call_id: "c1".into(),
                    name: "read".into(),
                    content: vec![Block::text("result")].into(),
                    is_error: false,
                }],
            },
        ];
        assert_eq!(
            text(messages(said.iter())),
            json!([
                {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
                {"role": "assistant", "parts":
                    [{"type": "tool_call", "id": "c1", "name": "read", "arguments": {"path": "a"}}]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "result"}]},
            ])
        );
        let answered = text(answer(&[Block::text("ok")], StopReason::End));
        assert_eq!(answered[0]["finish_reason"], "stop");
    }

    #[test]
    fn a_long_conversation_keeps_its_end() {
        let said: Vec<Message> =
            (0..100).map(|at| Message::text(Role::User, format!("{at} {}", "x".repeat(5_000)))).collect();
        let kept = text(messages(said.iter()));
        let kept = kept.as_array().unwrap();
        assert!((2..=8).contains(&kept.len()));
        assert!(kept.last().unwrap().to_string().contains("99 xxx"));
        // One that is too long for itself is cut.
        let long = text(messages([Message::text(Role::User, "ä".repeat(50_000))].iter()));
        assert!(long[0]["parts"][0]["content"].as_str().unwrap().contains("left out"));
    }
}
