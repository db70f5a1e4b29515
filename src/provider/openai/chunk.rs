//! The structure of a streamed completion. It is lenient: each field is missing, null or of another type with some
//! server.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::super::number;

/// An event of a stream, or a whole completion.
#[derive(Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub choices: Option<Vec<Choice>>,
    #[serde(default, deserialize_with = "number::counts")]
    pub usage: Option<Tokens>,
    /// Holds Groq's token counts.
    #[serde(default)]
    pub x_groq: Option<Groq>,
    #[serde(default)]
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Groq {
    #[serde(default, deserialize_with = "number::counts")]
    pub usage: Option<Tokens>,
}

#[derive(Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub delta: Option<MessageDelta>,
    #[serde(default)]
    pub message: Option<MessageDelta>,
    #[serde(default)]
    pub finish_reason: Option<String>,
    #[serde(default)]
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct MessageDelta {
    #[serde(default)]
    pub content: MessageContent,
    #[serde(default)]
    pub reasoning_content: Option<String>,
    #[serde(default)]
    pub reasoning: Option<String>,
    /// OpenRouter's data about the reasoning.
    #[serde(default)]
    pub reasoning_details: Option<Vec<Value>>,
    #[serde(default)]
    pub refusal: Option<String>,
    #[serde(default)]
    pub tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub index: Option<u64>,
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub function: Option<FunctionDelta>,
}

#[derive(Deserialize, Default)]
pub(super) struct FunctionDelta {
    #[serde(default)]
    pub name: Option<String>,
    /// Arguments as a text, or as an object with some servers.
    #[serde(default)]
    pub arguments: Value,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Tokens {
    #[serde(default, deserialize_with = "number::count")]
    pub prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    pub completion_tokens: Option<u64>,
    #[serde(default)]
    pub prompt_tokens_details: Option<PromptTokenDetails>,
    /// DeepSeek's count of cached tokens.
    #[serde(default, deserialize_with = "number::count")]
    pub prompt_cache_hit_tokens: Option<u64>,
    /// OpenRouter's charge in dollars.
    #[serde(default)]
    pub cost: Option<f64>,
    /// `true` if OpenRouter used the user's own key with the provider and charges only its own fee.
    #[serde(default)]
    pub is_byok: Option<bool>,
    #[serde(default)]
    pub cost_details: Option<CostDetails>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct CostDetails {
    /// Charge of the provider behind the router, in dollars.
    #[serde(default)]
    pub upstream_inference_cost: Option<f64>,
}

impl Tokens {
    /// Returns the cost in millionths of a dollar, rounded up; `None` if the value is no amount of money.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked before"
    )]
    pub(super) fn charged(&self) -> Option<u64> {
        const MAX_DOLLARS: f64 = 1e9;
        let upstream = self.cost_details.and_then(|details| details.upstream_inference_cost);
        // With the user's own key the provider charges separately, so both parts are added.
        let upstream = upstream.filter(|_| self.is_byok == Some(true)).unwrap_or(0.0);
        let dollars = self.cost? + upstream;
        // Without this, rounding errors of the floating-point sum would round it up by one.
        let micros = (dollars * 1e6 - 1e-6).ceil().max(0.0);
        (0.0..=MAX_DOLLARS).contains(&dollars).then_some(micros as u64)
    }
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct PromptTokenDetails {
    #[serde(default, deserialize_with = "number::count")]
    pub cached_tokens: Option<u64>,
    /// OpenRouter's count of tokens written to the cache.
    #[serde(default, deserialize_with = "number::count")]
    pub cache_write_tokens: Option<u64>,
}

/// The content of a message: a string, null, or Mistral's list of parts with text and thinking.
#[derive(Default)]
pub(super) struct MessageContent {
    pub text: String,
    pub thinking: String,
}

impl<'de> Deserialize<'de> for MessageContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = MessageContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a list of parts, or null")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MessageContent, E> {
        Ok(MessageContent { text: text.to_owned(), thinking: String::new() })
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<MessageContent, E> {
        Ok(MessageContent { text, thinking: String::new() })
    }

    fn visit_unit<E: de::Error>(self) -> Result<MessageContent, E> {
        Ok(MessageContent::default())
    }

    // An object has no known meaning here. It is skipped, so that the rest of the chunk is not lost.
    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<MessageContent, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(MessageContent::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<MessageContent, A::Error> {
        let mut whole = MessageContent::default();
        while let Some(part) = parts.next_element::<Value>()? {
            whole.text.push_str(part["text"].as_str().unwrap_or_default());
            // Mistral's thinking is a text, or again a list of parts.
            match &part["thinking"] {
                Value::String(thinking) => whole.thinking.push_str(thinking),
                Value::Array(inner) => {
                    for part in inner {
                        whole.thinking.push_str(part["text"].as_str().unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
        Ok(whole)
    }
}
