//! Clients for model APIs. A [`Provider`] takes a neutral [`Request`], speaks one wire format, streams the answer and
//! returns it as a whole.
//!
//! Retries, timeouts and the choice of the provider for a model are here too. The agent decides what a request
//! contains. [`Catalog::resolve`] is the entry point.

pub mod anthropic;
pub(crate) mod bedrock;
pub(crate) mod call;
mod call_arguments;
pub mod catalog;
pub(crate) mod credential;
mod data_url;
mod decoder;
pub(crate) mod effort;
pub(crate) mod error;
pub mod google;
pub mod http;
mod json_end;
pub(crate) mod key;
pub mod message;
mod number;
pub(crate) mod openai;
mod parameters;
pub(crate) mod passthrough;
pub(crate) mod placeholder;
mod prefix;
pub(crate) mod price;
pub mod quota;
mod redaction;
pub(crate) mod relay_format;
mod response_builder;
pub(crate) mod responses;
pub mod retry;
pub(crate) mod route;
pub(crate) mod script;
mod serialization;
pub(crate) mod sigv4;
mod stream;
mod strict_schema;
mod text_format;
mod usage;
mod usage_meter;
pub(crate) mod wire_format;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

pub use crate::config::Effort;
pub(crate) use call_arguments::shallow;
pub use catalog::{Catalog, ResolvedModel};
pub use credential::Credential;
pub use error::ProviderError;
pub use message::{Block, Message, Role, StopReason, ToolSpec};
pub(crate) use parameters::Parameters;
pub use prefix::BodyPrefix;
pub(crate) use relay_format::RelayFormat;
pub(crate) use response_builder::MAX_BLOCKS;
pub use route::Route;
pub(crate) use stream::RAW_TARGET;
pub use usage::Usage;

/// A boxed future that borrows for `'a`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A request to a model, independent of the provider.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The provider's name for the model.
    pub model: String,
    pub system: String,
    /// The conversation, oldest first. Messages are shared with their owner, so that a call does not copy a long
    /// conversation.
    pub messages: Vec<Arc<Message>>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The freedom of the model to call them.
    #[serde(skip_serializing_if = "ToolChoice::is_auto")]
    pub choice: ToolChoice,
    /// Maximum number of tokens in the answer.
    pub max_tokens: u32,
    /// Effort for reasoning; `None` leaves it to the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Key under which a provider with a prompt cache finds the session's entries. It is the same in all requests of a
    /// session and reveals nothing about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
    /// Required form of the answer's text. Only set if the wire format can enforce one together with tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<AnswerFormat>,
    /// Cached beginning of the request body, if there is one; `messages` then holds only the messages that follow it.
    #[serde(skip)]
    pub prefix: Option<Arc<BodyPrefix>>,
}

/// The freedom of a model to call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model calls tools or answers, as it likes.
    #[default]
    Auto,
    /// The model must call some tool.
    Required,
    /// The model must call the tool with this name.
    Named(String),
}

impl ToolChoice {
    /// Returns `true` if nothing is asked of the model.
    #[must_use]
    pub const fn is_auto(&self) -> bool {
        matches!(self, Self::Auto)
    }
}

/// The required form of an answer's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        name: String,
        schema: serde_json::Value,
        /// `true` if the provider shall enforce every part of the schema; `None` leaves it to the provider.
        #[serde(skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

/// A piece of an answer, sent while the answer streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    /// Text of the model's reasoning.
    Thinking(String),
    /// The start of a tool call. The call itself is only available in the whole answer.
    ToolCall,
}

/// A callback for the pieces of an answer. It is called in order, from one task.
pub type Sink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Text, thinking and tool calls, in the order in which they arrived.
    pub content: Vec<Block>,
    pub stop: StopReason,
    /// Tokens that the provider counted.
    pub usage: Usage,
}

/// A client for one model API.
pub trait Provider: Send + Sync {
    /// Returns the request body that [`Provider::call`] would send first, byte for byte.
    ///
    /// Nothing is sent. The body contains no key, because keys are sent as headers.
    ///
    /// # Errors
    ///
    /// Returns [`ProviderError`] if the request cannot be written in this wire format.
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError>;

    /// Asks the model once and returns its whole answer. Pieces go to `sink` as they arrive. Dropping the future
    /// cancels the request.
    ///
    /// # Errors
    ///
    /// Returns [`ProviderError`] if the provider cannot be reached, refuses the request, stays silent past the timeout,
    /// breaks off, or sends an answer that cannot be read. Pieces that reached `sink` before the error belong to no
    /// answer.
    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>>;

    /// Returns a way to forward a request that another program has already written in this wire format.
    ///
    /// Returns `None` if that is impossible: the API signs each request (AWS Signature), or the provider is a script
    /// and asks nobody.
    fn passage(&self, _model: &str, _want: passthrough::ForwardKind) -> Option<passthrough::Forwarder> {
        None
    }
}
