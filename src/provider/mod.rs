//! Model APIs. A [`Provider`] takes the neutral [`Request`], speaks one wire format, streams what comes and
//! returns the whole answer.
//!
//! Retry, time limits and the choice of a provider for a model live here too; what goes into a request is
//! the agent's business.

pub mod message;

use std::future::Future;
use std::pin::Pin;

pub use message::{Block, Message, Role, StopReason, ToolSpec, Usage};

/// A boxed future that borrows for `'a`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a model is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The provider's name for the model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools it may call.
    pub tools: Vec<ToolSpec>,
    /// The most tokens it may answer with.
    pub max_tokens: u32,
}

/// A piece of an answer as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More thinking.
    Thinking(String),
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
}

/// Why a model did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The model's provider is not configured, or has no key.
    #[error("the provider {provider} of the model {model} is not configured: {reason}")]
    NotConfigured {
        /// Its id.
        provider: String,
        /// The model asked for.
        model: String,
        /// What is missing.
        reason: String,
    },
    /// It refused the key (401, 403).
    #[error("{provider} refused the key ({status}): {message}")]
    Unauthorised {
        /// Its id.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It says that the request is wrong (other 4xx).
    #[error("{provider} rejected the request ({status}): {message}")]
    Rejected {
        /// Its id.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It is overloaded or limits the rate (429, 529).
    #[error("{provider} is limiting requests ({status}): {message}")]
    Limited {
        /// Its id.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<std::time::Duration>,
    },
    /// It failed (5xx), could not be reached, or broke off.
    #[error("{provider} failed: {message}")]
    Failed {
        /// Its id.
        provider: String,
        /// What happened.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<std::time::Duration>,
    },
    /// It sent nothing for too long.
    #[error("{provider} sent nothing for {} seconds", after.as_secs())]
    TimedOut {
        /// Its id.
        provider: String,
        /// How long.
        after: std::time::Duration,
    },
    /// What it sent is not its own format.
    #[error("{provider} sent an answer that can't be read: {message}")]
    Garbled {
        /// Its id.
        provider: String,
        /// What is wrong with it.
        message: String,
    },
}
