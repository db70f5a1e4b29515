//! Server-sent events, read from an answer as they arrive.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Answer, GatewayClientError};

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
    parser: SseParser,
    ready: VecDeque<ServerSentEvent>,
}

impl ServerSentEvents {
    pub(super) const fn new(answer: Answer) -> Self {
        Self { answer, parser: SseParser::new(), ready: VecDeque::new() }
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
            self.parser.feed(&chunk, &mut self.ready);
            if self.parser.held() > MAX_EVENT {
                return Err(GatewayClientError::TooLong { address: self.answer.address, cap: MAX_EVENT });
            }
        }
    }
}

/// The longest event in bytes.
const MAX_EVENT: usize = 16 << 20;

/// A parser for events whose chunks may end anywhere, even within a character or a line end.
struct SseParser {
    line: Vec<u8>,
    after_return: bool,
    event: ServerSentEvent,
    filled: bool,
}

impl SseParser {
    const fn new() -> Self {
        let event = ServerSentEvent { name: String::new(), id: String::new(), data: String::new() };
        Self { line: Vec::new(), after_return: false, event, filled: false }
    }

    fn held(&self) -> usize {
        self.line.len() + self.event.data.len()
    }

    fn feed(&mut self, piece: &[u8], out: &mut VecDeque<ServerSentEvent>) {
        for &byte in piece {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                // A CR LF pair is one line end, even if the two arrive in different chunks.
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.end_line(out),
                _ => self.line.push(byte),
            }
        }
    }

    fn end_line(&mut self, out: &mut VecDeque<ServerSentEvent>) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            // An event without data is dropped, as the specification of server-sent events says.
            if std::mem::take(&mut self.filled) {
                if event.data.ends_with('\n') {
                    event.data.pop();
                }
                out.push_back(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.event.data.push_str(value);
                self.event.data.push('\n');
                self.filled = true;
            }
            "event" => value.clone_into(&mut self.event.name),
            "id" => value.clone_into(&mut self.event.id),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\u{feff}: hi\n\nevent: turn\r\nid: 7\r\ndata: {\"a\":\"é\"}\r\n\r\n\
        data: one\ndata:two\n\n:keep\n\ndata\n\ndata: [DONE]\n\ndata: cut";

    #[test]
    fn events_are_the_same_wherever_the_pieces_end() {
        let bytes = STREAM.as_bytes();
        for size in 1..=bytes.len() {
            let mut parser = SseParser::new();
            let mut out = VecDeque::new();
            bytes.chunks(size).for_each(|piece| parser.feed(piece, &mut out));
            let data: Vec<&str> = out.iter().map(|event| event.data.as_str()).collect();
            assert_eq!(data, ["{\"a\":\"é\"}", "one\ntwo", "", "[DONE]"], "pieces of {size}");
            assert_eq!((out[0].name.as_str(), out[0].id.as_str()), ("turn", "7"));
        }
    }
}
