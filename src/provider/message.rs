//! The provider-neutral form of conversations and answers. Transcripts store these blocks, and each provider translates
//! them to and from its wire format.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parameters::Parameters;

/// The prefix of a text block that flock adds to a person's message: the time, or the system text of a client. The
/// person did not write it.
pub(crate) const CONTEXT_OPEN: &str = "<flock-context";

/// The sender of a message, from the model's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// A person, another agent, or flock itself.
    User,
    Assistant,
    /// The results of tools that the model called.
    Tool,
}

/// One message: a role and its blocks, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: Vec<Block>,
}

impl Message {
    /// Returns a message with a single text block.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: vec![Block::text(text)] }
    }

    /// Returns all text blocks, concatenated.
    #[must_use]
    pub fn joined_text(&self) -> String {
        joined_text(&self.content)
    }

    /// Returns the text blocks that flock did not add, concatenated.
    #[must_use]
    pub(crate) fn text_without_context(&self) -> String {
        let texts = self.content.iter().filter_map(Block::as_text);
        texts.filter(|text| !text.starts_with(CONTEXT_OPEN)).collect()
    }

    /// Returns the tool calls of the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = ToolCall<'_>> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall { id, name, arguments, .. } => Some(ToolCall { id, name, arguments }),
            _ => None,
        })
    }
}

/// A tool call, borrowed from a message.
#[derive(Clone, Copy, Debug)]
pub struct ToolCall<'a> {
    /// The provider's id for this call.
    pub id: &'a str,
    pub name: &'a str,
    /// Arguments as the model wrote them. Broken JSON is kept as a JSON string.
    pub arguments: &'a Value,
}

/// Returns the text blocks of some content, concatenated.
#[must_use]
pub fn joined_text(content: &[Block]) -> String {
    content.iter().filter_map(Block::as_text).collect()
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", try_from = "Flat")]
pub enum Block {
    Text {
        text: String,
        /// Data that must be sent back with the text: a signature, or the id of the provider's item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// The model's reasoning.
    #[serde(rename_all = "camelCase")]
    Thinking {
        /// The readable part; empty if the provider redacted it.
        thinking: String,
        /// The provider's signature. It must be sent back unchanged, and to the same provider only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The provider's opaque data of a redacted block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redacted: Option<String>,
    },
    /// A call of a tool by the model.
    ToolCall {
        /// The provider's id for this call.
        id: String,
        name: String,
        /// Arguments; a JSON string if the model's JSON was broken.
        arguments: Value,
        /// Data that must be sent back with the call: the signature of the reasoning that led to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// The result of a tool call.
    #[serde(rename_all = "camelCase")]
    ToolResult {
        /// The id of the answered call.
        call_id: String,
        /// The tool's name.
        name: String,
        /// Text and images. They are shared because they are the bulk of a conversation: a change of the ids around
        /// them must not copy them.
        content: Arc<[Block]>,
        /// `true` if the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        /// The picture in Base64.
        data: String,
    },
    /// A block that a newer version of flock stored, as a whole. It is kept and never sent.
    #[serde(untagged)]
    Other(Value),
}

impl Block {
    /// Returns a text block without a signature.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), signature: None }
    }

    /// Returns the text of a text block.
    #[must_use]
    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text { text, .. } = self { Some(text) } else { None }
    }

    /// Returns a tool call without a signature.
    #[must_use]
    pub fn call(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self::ToolCall { id: id.into(), name: name.into(), arguments, signature: None }
    }
}

/// A block as it is deserialised, with the fields of all kinds.
///
/// A tagged enum would copy each block into a buffer before it knows its kind, and a transcript has thousands of
/// blocks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flat {
    r#type: Box<str>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    redacted: Option<String>,
    id: Option<String>,
    name: Option<String>,
    /// Missing for a call that was cut off; read as `null`.
    #[serde(default)]
    arguments: Value,
    call_id: Option<String>,
    content: Option<Vec<Block>>,
    #[serde(default)]
    is_error: bool,
    media_type: Option<String>,
    data: Option<String>,
}

/// The reason why a value is no block.
#[derive(Debug, thiserror::Error)]
enum BlockError {
    #[error("a block of the type {0} has no {1}")]
    Lacks(Box<str>, &'static str),
    #[error("there is no block of the type {0}")]
    Unknown(Box<str>),
}

impl TryFrom<Flat> for Block {
    type Error = BlockError;

    fn try_from(flat: Flat) -> Result<Self, BlockError> {
        let lacks = |field| BlockError::Lacks(flat.r#type.clone(), field);
        Ok(match &*flat.r#type {
            "text" => Self::Text { text: flat.text.ok_or_else(|| lacks("text"))?, signature: flat.signature },
            "thinking" => Self::Thinking {
                thinking: flat.thinking.ok_or_else(|| lacks("thinking"))?,
                signature: flat.signature,
                redacted: flat.redacted,
            },
            "toolCall" => Self::ToolCall {
                id: flat.id.ok_or_else(|| lacks("id"))?,
                name: flat.name.ok_or_else(|| lacks("name"))?,
                arguments: flat.arguments,
                signature: flat.signature,
            },
            "toolResult" => Self::ToolResult {
                call_id: flat.call_id.ok_or_else(|| lacks("callId"))?,
                name: flat.name.ok_or_else(|| lacks("name"))?,
                content: flat.content.ok_or_else(|| lacks("content"))?.into(),
                is_error: flat.is_error,
            },
            "image" => Self::Image {
                media_type: flat.media_type.ok_or_else(|| lacks("mediaType"))?,
                data: flat.data.ok_or_else(|| lacks("data"))?,
            },
            _ => return Err(BlockError::Unknown(flat.r#type)),
        })
    }
}

/// The description of a tool for a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Name of at most 64 characters from `[a-zA-Z0-9_-]`.
    pub name: String,
    /// Short text about what the tool does and when to use it.
    pub description: String,
    /// JSON schema of an object.
    pub parameters: Parameters,
}

/// The reason why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The answer is finished.
    End,
    /// The model waits for the results of its tool calls.
    ToolUse,
    /// The answer reached its maximum length.
    Length,
    /// The provider withheld the answer.
    Refusal,
    /// The call failed; the part that had arrived is kept.
    Error,
    /// The turn was cancelled; the part that had arrived is kept.
    Aborted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_survive_a_round_trip_and_incomplete_blocks_are_refused() {
        let text = Block::text("t");
        let blocks = vec![
            text.clone(),
            Block::Text { text: "t".into(), signature: Some("s".into()) },
            Block::Thinking {
                thinking: String::new(),
                signature: Some("s".into()),
                redacted: Some("r".into()),
            },
            Block::call("1", "n", json!({"a": [1]})),
            Block::call("1", "n", Value::Null),
            Block::ToolCall {
                id: "1".into(),
                name: "n".into(),
                arguments: json!({}),
                signature: Some("s".into()),
            },
            Block::ToolResult {
                call_id: "1".into(),
                name: "n".into(),
                content: [text].into(),
                is_error: true,
            },
            Block::Image { media_type: "image/png".into(), data: "AA".into() },
        ];
        let written = serde_json::to_string(&blocks).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Block>>(&written).unwrap(), blocks);
        for bad in [json!({"type": "text"}), json!({"type": "toolCall", "id": "1"}), json!({"type": "new"})] {
            assert!(serde_json::from_value::<Block>(bad).is_err());
        }
        let newer = json!({"type": "text", "text": "t", "added": {"later": true}});
        assert!(serde_json::from_value::<Block>(newer).is_ok());
        let cut_off = json!({"type": "toolCall", "id": "1", "name": "n"});
        assert_eq!(serde_json::from_value::<Block>(cut_off).unwrap(), Block::call("1", "n", Value::Null));
        let other = json!({"type": "hologram", "data": [1]});
        assert_eq!(serde_json::to_value(Block::Other(other.clone())).unwrap(), other);
    }
}
