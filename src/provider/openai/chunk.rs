//! The structure of a streamed completion. It is lenient: each field is missing, null or of another type with some
//! server.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::super::number;

/// An event of a stream, or a whole completion.
#[derive(Deserialize)]
pub(super) struct Chunk {
    pub choices: Option<Vec<Choice>>,
    #[serde(default, deserialize_with = "number::counts")]
    pub usage: Option<Tokens>,
    /// Holds Groq's token counts.
    pub x_groq: Option<Groq>,
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Groq {
    #[serde(default, deserialize_with = "number::counts")]
    pub usage: Option<Tokens>,
}

#[derive(Deserialize)]
pub(super) struct Choice {
    pub delta: Option<MessageDelta>,
    pub message: Option<MessageDelta>,
    pub finish_reason: Option<String>,
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct MessageDelta {
    #[serde(default)]
    pub content: MessageContent,
    pub reasoning_content: Option<String>,
    pub reasoning: Option<String>,
    /// OpenRouter's data about the reasoning.
    pub reasoning_details: Option<Vec<Value>>,
    pub refusal: Option<String>,
    pub tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta {
    pub index: Option<u64>,
    pub id: Option<String>,
    pub function: Option<FunctionDelta>,
}

#[derive(Deserialize, Default)]
pub(super) struct FunctionDelta {
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
    pub prompt_tokens_details: Option<PromptTokenDetails>,
    /// DeepSeek's count of cached tokens.
    #[serde(default, deserialize_with = "number::count")]
    pub prompt_cache_hit_tokens: Option<u64>,
    /// OpenRouter's charge in dollars.
    pub cost: Option<f64>,
    /// `true` if OpenRouter used the user's own key with the provider and charges only its own fee.
    pub is_byok: Option<bool>,
    pub cost_details: Option<CostDetails>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct CostDetails {
    /// Charge of the provider behind the router, in dollars.
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
        let mut whole = Self::default();
        match Value::deserialize(deserializer)? {
            Value::String(text) => whole.text = text,
            Value::Array(parts) => parts.iter().for_each(|part| whole.add(part)),
            // An object has no known meaning here. It is skipped, so that the rest of the chunk is not lost.
            Value::Null | Value::Object(_) => {}
            _ => return Err(de::Error::custom("a content is a text, a list of parts, or null")),
        }
        Ok(whole)
    }
}

impl MessageContent {
    fn add(&mut self, part: &Value) {
        let text = |part: &Value| part["text"].as_str().unwrap_or_default().to_owned();
        self.text.push_str(&text(part));
        // Mistral's thinking is a text, or again a list of parts.
        match &part["thinking"] {
            Value::String(thinking) => self.thinking.push_str(thinking),
            Value::Array(inner) => self.thinking.extend(inner.iter().map(text)),
            _ => {}
        }
    }
}
