//! Server-sent events, read from an answer as they arrive.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use super::{Answer, GatewayClientError};
use crate::provider::http::sse::EventStreamParser;

/// A server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSentEvent {
    /// Empty if none was given.
    pub name: String,
    /// Empty if none was given.
    pub id: String,
    /// The data lines, joined by `\n`.
    pub data: String,
}

/// A response body that is read as events.
pub struct ServerSentEvents {
    answer: Answer,
    parser: EventStreamParser,
    ready: VecDeque<ServerSentEvent>,
}

impl ServerSentEvents {
    pub(super) fn new(answer: Answer) -> Self {
        Self { answer, parser: EventStreamParser::default(), ready: VecDeque::new() }
    }

    /// Returns the next event, or `None` at the end of the stream.
    ///
    /// Comments, which servers send as keep-alives, reset the timeout but are not returned.
    ///
    /// # Errors
    /// Returns a [`GatewayClientError`] if the connection breaks, if nothing at all arrives within `idle`, or if an event is
    /// too long.
    pub async fn next(&mut self, idle: Duration) -> Result<Option<ServerSentEvent>, GatewayClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.answer.chunk(idle).await? else { return Ok(None) };
            let Ok(()) = self.parser.feed(&chunk, |event| {
                let text = |field: &Vec<u8>| String::from_utf8_lossy(field).into_owned();
                let (name, id, data) = (text(&event.name), text(&event.id), text(&event.data));
                self.ready.push_back(ServerSentEvent { name, id, data });
                Ok::<(), Infallible>(())
            });
            if self.parser.pending() > MAX_EVENT {
                return Err(GatewayClientError::TooLong { address: self.answer.address, cap: MAX_EVENT });
            }
        }
    }
}

/// The longest event in bytes.
const MAX_EVENT: usize = 16 << 20;
