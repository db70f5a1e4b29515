//! The provider-neutral form of what a model is sent and answers. Transcripts store these blocks, providers
//! encode them to their wire and decode them from it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parameters::Parameters;

/// How a text block begins that flock put beside a person's words: the time, a client's system text. What
/// is in it was not said by the person.
pub const CONTEXT_OPEN: &str = "<flock-context";

/// Who a message is from, as a model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// A person, another agent, or flock itself.
    User,
    /// The model.
    Assistant,
    /// Results of tools the model called.
    Tool,
}

/// One message: a role and its blocks, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who it is from.
    pub role: Role,
    /// What it holds.
    pub content: Vec<Block>,
}

impl Message {
    /// A message of one text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: vec![Block::text(text)] }
    }

    /// All its text blocks, joined.
    #[must_use]
    pub fn joined_text(&self) -> String {
        joined_text(&self.content)
    }

    /// Its text blocks without what flock put beside them, joined.
    #[must_use]
    pub fn said_text(&self) -> String {
        let said = self.content.iter().filter_map(|block| match block {
            Block::Text { text, .. } if !text.starts_with(CONTEXT_OPEN) => Some(text.as_str()),
            _ => None,
        });
        said.collect()
    }

    /// The tool calls in it, in order.
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
    /// The tool's name.
    pub name: &'a str,
    /// Its arguments as the model wrote them. Broken JSON is kept as a JSON string.
    pub arguments: &'a Value,
}

/// The text blocks of some content, joined.
#[must_use]
pub fn joined_text(content: &[Block]) -> String {
    content
        .iter()
        .filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", try_from = "Flat")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// What the provider wants back with it: a signature, or the id of its item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// What the model thought, with the provider's signature where it has one.
    #[serde(rename_all = "camelCase")]
    Thinking {
        /// The readable part; empty where the provider redacted it.
        thinking: String,
        /// To be given back unchanged, to the same provider only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The provider's opaque data of a redacted block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redacted: Option<String>,
    },
    /// The model wants a tool run.
    ToolCall {
        /// The provider's id for this call.
        id: String,
        /// The tool's name.
        name: String,
        /// Arguments; a JSON string where the model's JSON was broken.
        arguments: Value,
        /// What the provider wants back with it: the signature of the thinking that led to the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// What a tool answered.
    #[serde(rename_all = "camelCase")]
    ToolResult {
        /// The id of the call it answers.
        call_id: String,
        /// The tool's name.
        name: String,
        /// Text and images. Shared, because it is the bulk of a conversation: what changes the ids around it
        /// does not copy it.
        content: Arc<[Block]>,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// As in `image/png`.
        media_type: String,
        /// Base64.
        data: String,
    },
    /// What a newer version stored, whole. It is kept, and never sent.
    #[serde(untagged)]
    Other(Value),
}

impl Block {
    /// A text nobody signed.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), signature: None }
    }

    /// A call nobody signed.
    #[must_use]
    pub fn call(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self::ToolCall { id: id.into(), name: name.into(), arguments, signature: None }
    }
}

/// A block as it is read: with all fields of all kinds. A tagged enum would copy each block into a buffer
/// before it knows its kind, and a transcript has thousands of them.
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
    /// A call that was cut off has none, which is what `null` says too.
    #[serde(default)]
    arguments: Value,
    call_id: Option<String>,
    content: Option<Vec<Block>>,
    #[serde(default)]
    is_error: bool,
    media_type: Option<String>,
    data: Option<String>,
}

/// Why something is no block.
#[derive(Debug, thiserror::Error)]
enum NoBlock {
    #[error("a block of the type {0} has no {1}")]
    Lacks(Box<str>, &'static str),
    #[error("there is no block of the type {0}")]
    Unknown(Box<str>),
}

impl TryFrom<Flat> for Block {
    type Error = NoBlock;

    fn try_from(flat: Flat) -> Result<Self, NoBlock> {
        let lacks = |field| NoBlock::Lacks(flat.r#type.clone(), field);
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
            _ => return Err(NoBlock::Unknown(flat.r#type)),
        })
    }
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSpec {
    /// The name, at most 64 of `[a-zA-Z0-9_-]`.
    pub name: String,
    /// What it does and when to use it, short.
    pub description: String,
    /// A JSON schema of an object.
    pub parameters: Parameters,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It had said all.
    End,
    /// It wants tools run.
    ToolUse,
    /// It reached the limit of its answer.
    Length,
    /// The provider withheld the answer.
    Refusal,
    /// The call failed; what came before is kept.
    Error,
    /// The turn was stopped; what came before is kept.
    Aborted,
}

/// Tokens of one model call, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Fresh input.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Input read from the provider's cache.
    pub cache_read: u64,
    /// Input written to the provider's cache.
    pub cache_write: u64,
    /// What the provider says that it charges, in millionths of a dollar; `None` where it says nothing of money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

impl Usage {
    /// Whether nothing was counted.
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let was_nothing = self.is_nothing();
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        // Of a sum, what was charged is known only where it is known of each; nothing costs nothing.
        self.cost = match (self.cost, other.cost) {
            (Some(cost), Some(more)) => Some(cost.saturating_add(more)),
            (cost, None) if other.is_nothing() => cost,
            (None, more) if was_nothing => more,
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_charged_is_summed_where_all_of_it_is_known() {
        let told = |cost| Usage { input: 1, cost, ..Usage::default() };
        let sum = |parts: [Option<u64>; 2]| {
            let mut sum = Usage::default();
            parts.into_iter().for_each(|cost| sum += told(cost));
            sum.cost
        };
        assert_eq!(sum([Some(3), Some(4)]), Some(7));
        assert_eq!(sum([Some(3), None]), None);
        assert_eq!(sum([None, Some(4)]), None);
        let mut most = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        most += told(None);
        assert_eq!((most.input, most.output), (u64::MAX, u64::MAX), "a provider may say any number");
        let mut nothing = told(Some(3));
        nothing += Usage::default();
        assert_eq!(nothing.cost, Some(3));
    }

    #[test]
    fn blocks_read_back_and_what_lacks_a_field_is_none() {
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
