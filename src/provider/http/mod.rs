//! HTTP requests to providers: one connection pool, flock's own timeouts, bounded error texts, and the answer's bytes
//! as they arrive. This module knows no wire format.

mod body;
mod client;
mod endpoint;
mod error_response;
mod retry_after;
pub mod sse;

use std::time::Duration;

pub use body::Body;
pub(crate) use client::HttpClients;
pub(crate) use endpoint::Endpoint;
pub(crate) use error_response::RequestError;
pub(super) use error_response::message_of;
pub(crate) use retry_after::of as retry_after;

/// Timeouts and size limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Timeout for opening a connection.
    pub connect: Duration,
    /// Timeout for the first byte of the answer. It is well below the time limit of a turn, so that a turn with
    /// fallback models has time left for them.
    pub first_byte: Duration,
    /// The same for a server on this machine or in its network. Such a server may have to load the model first, and
    /// reads a long prompt slowly.
    pub near_first_byte: Duration,
    /// Timeout between two chunks of an answer.
    pub idle: Duration,
    /// Timeout for data after the end of the answer, such as token counts.
    pub settle: Duration,
    /// Maximum bytes of text, thinking and arguments in one answer.
    pub answer: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            first_byte: Duration::from_secs(120),
            near_first_byte: Duration::from_secs(400),
            idle: Duration::from_secs(300),
            settle: Duration::from_secs(5),
            answer: 8 * 1024 * 1024,
        }
    }
}
