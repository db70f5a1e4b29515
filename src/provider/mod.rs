//! Model APIs. A [`Provider`] takes the neutral [`Request`], speaks one wire format, streams what comes and
//! returns the whole answer.
//!
//! Retry, time limits and the choice of a provider for a model live here too; what goes into a request is
//! the agent's business. [`Catalog::resolve`] is the way in.

pub mod anthropic;
mod assembly;
pub mod bedrock;
pub(crate) mod call;
pub mod catalog;
mod closed;
mod data_url;
pub mod effort;
mod ending;
pub mod error;
pub mod google;
pub mod http;
pub mod key;
pub mod message;
mod number;
pub mod openai;
mod parameters;
pub mod passing;
pub(crate) mod placeholder;
mod prefix;
pub mod price;
pub mod responses;
pub mod retry;
pub mod route;
pub mod script;
mod stream;
mod text;
mod veil;
mod written;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

pub use crate::config::Effort;
pub use assembly::{MOST_BLOCKS, shallow};
pub use catalog::{Catalog, Resolved};
pub use error::ProviderError;
pub use message::{Block, Message, Role, StopReason, ToolSpec, Usage};
pub use parameters::Parameters;
pub use prefix::BodyPrefix;
pub use route::Route;

/// A boxed future that borrows for `'a`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a model is asked.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The provider's name for the model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation, oldest first. Shared with whoever keeps it: a long one is not copied for each call.
    pub messages: Vec<Arc<Message>>,
    /// The tools it may call.
    pub tools: Vec<ToolSpec>,
    /// The most tokens it may answer with.
    pub max_tokens: u32,
    /// How much it is to think; `None` leaves it to the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// What a provider that keeps prompts finds the session's by: the same in all its requests, and nothing
    /// that tells of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// The form of the answer's text, where the wire format can hold the model to one beside its tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<AnswerFormat>,
    /// The beginning of the body, where it was kept: `messages` are those that follow.
    #[serde(skip)]
    pub prefix: Option<Arc<BodyPrefix>>,
}

/// The form of an answer's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that a schema describes.
    JsonSchema {
        /// The schema's name.
        name: String,
        /// The schema.
        schema: serde_json::Value,
        /// Whether the model is to be held to every part of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

/// A piece of an answer as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// A call of a tool begins; nothing of it is shown before it is whole.
    ToolCall,
}

/// Receives the pieces; called in order, from one task.
pub type Sink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Text, thinking and tool calls, in the order they came.
    pub content: Vec<Block>,
    /// Why it ended.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
}

/// A model API.
pub trait Provider: Send + Sync {
    /// The body of the request that [`Provider::call`] would send first, byte for byte. Nothing is sent, and no key is
    /// in it: keys are headers.
    ///
    /// # Errors
    ///
    /// If the request can't be written in this wire format.
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError>;

    /// Asks the model once and returns its whole answer; pieces go to `sink` as they arrive. Dropping the
    /// future ends the request.
    ///
    /// # Errors
    ///
    /// As [`ProviderError`] says. What had reached `sink` before is not part of any answer.
    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>>;

    /// The way of a request that another program has written in this wire format already; `None` where there is none, as
    /// each request is signed by itself, or nobody is asked.
    fn passage(&self, _model: &str, _want: passing::Want) -> Option<passing::Passage> {
        None
    }
}
