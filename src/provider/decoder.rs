//! The decoder of one wire format, and the errors of the events that it reads.

use serde::de::DeserializeOwned;

use super::http::Endpoint;
use super::response_builder::TooLong;
use super::{ProviderError, Usage};

/// Maximum bytes of an event in an error text.
const MAX_QUOTED_BYTES: usize = 200;

/// The progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More of the answer will arrive.
    Running,
    /// The model has stopped. Anything that follows only counts tokens.
    Stopped,
    /// Nothing else will arrive.
    Done,
}

/// The reason why an event cannot be used.
#[derive(Debug)]
pub(crate) enum EventError {
    /// The event is valid JSON but does not follow this wire format.
    Unreadable(String),
    /// The event is no JSON that can be read.
    Garbage {
        /// The parser's error.
        reason: String,
        /// The whole event. The key must be removed from it before it is cut, because half a key would no longer match.
        data: Vec<u8>,
    },
    /// The answer is larger than the limit.
    TooLong,
    /// The provider reports a failure.
    Failure {
        /// The HTTP status that the failure would have had.
        status: u16,
        /// The provider's error text.
        message: String,
    },
}

impl From<TooLong> for EventError {
    fn from(TooLong: TooLong) -> Self {
        Self::TooLong
    }
}

/// A decoder for the answers of one wire format.
pub trait Decoder {
    /// Reads the data of one event.
    ///
    /// # Errors
    ///
    /// Returns [`EventError`] if the event cannot be read, if the answer grows too long, or if the event reports a
    /// failure.
    fn event(&mut self, data: &[u8]) -> Result<Progress, EventError>;

    /// Reads an answer that came as one document, from a server that does not stream.
    ///
    /// # Errors
    ///
    /// Returns [`EventError`] if the document cannot be read, if the answer is too long, or if it reports a failure.
    fn whole(&mut self, document: &[u8]) -> Result<(), EventError>;

    /// Returns the tokens that the provider has counted so far.
    fn usage(&self) -> Usage;

    /// Returns the number of bytes of text, thinking and arguments so far.
    fn written(&self) -> usize;
}

/// Converts the error of an event into the error of the call.
pub(crate) fn explain(endpoint: &Endpoint, error: EventError) -> ProviderError {
    match error {
        EventError::Unreadable(reason) => endpoint.garbled(reason),
        EventError::Garbage { reason, data } => {
            endpoint.garbled(format!("{reason} in {}", endpoint.quoted(&data, MAX_QUOTED_BYTES)))
        }
        EventError::TooLong => endpoint.garbled("it is too long"),
        EventError::Failure { status, message } => endpoint.status(status, &message, None),
    }
}

/// Parses an event. Bytes that are not UTF-8 are replaced: some servers cut a character in two, and that must not cost
/// the whole answer.
///
/// # Errors
///
/// Returns [`EventError::Garbage`] if the event is no JSON of this type.
pub fn decode<T: DeserializeOwned>(data: &[u8]) -> Result<T, EventError> {
    // Almost all events are valid UTF-8, so the replacement is only tried after a failure.
    let error = match serde_json::from_slice(data) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if std::str::from_utf8(data).is_err()
        && let Ok(value) = serde_json::from_str(&String::from_utf8_lossy(data))
    {
        return Ok(value);
    }
    Err(EventError::Garbage { reason: error.to_string(), data: data.to_vec() })
}
