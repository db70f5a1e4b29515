//! Parser for server-sent events.
//!
//! It accepts deviations that servers have: any line ending, no space after the colon, no blank line after the last
//! event.

use memchr::memchr;

/// A server-sent event. A field that was not given is empty.
#[derive(Debug, Default)]
pub(crate) struct SseEvent {
    pub name: Vec<u8>,
    pub id: Vec<u8>,
    /// The data lines, joined by `\n`.
    pub data: Vec<u8>,
}

/// Splits a stream of bytes into events. Only an unfinished event is kept between two chunks.
#[derive(Debug, Default)]
pub(crate) struct EventStreamParser {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    after_return: bool,
    begun: bool,
}

impl EventStreamParser {
    /// Reads more bytes and calls `on_event` with each completed event, until it returns an error.
    ///
    /// # Errors
    ///
    /// Returns the error of `on_event`.
    pub fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(&SseEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        // The chunk before ended with `\r`. This `\n` belongs to the same line ending.
        if self.after_return && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
        }
        if !bytes.is_empty() {
            self.after_return = false;
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = &bytes[..end];
            // The usual case: the line is complete within one chunk and needs no copy.
            if self.line.is_empty() {
                self.take(line, &mut on_event)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.take(&whole, &mut on_event)?;
                whole.clear();
                self.line = whole;
            }
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the stream. An event without its final blank line counts too.
    ///
    /// # Errors
    ///
    /// Returns the error of `on_event`.
    pub fn end<E>(&mut self, mut on_event: impl FnMut(&SseEvent) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(&line, &mut on_event)?;
        }
        // An empty line completes the last event.
        self.take(b"", &mut on_event)
    }

    /// Returns the number of bytes kept of an incomplete event.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.line.len() + self.event.data.len()
    }

    fn take<E>(
        &mut self,
        line: &[u8],
        on_event: &mut impl FnMut(&SseEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        // The stream may begin with a byte order mark.
        let line = if self.begun { line } else { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            // An empty line without any data before it is no event.
            let result = if std::mem::take(&mut self.has_data) { on_event(&self.event) } else { Ok(()) };
            let SseEvent { name, id, data } = &mut self.event;
            for field in [name, id, data] {
                field.clear();
            }
            return result;
        }
        let colon = memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        // One space after the colon belongs to the syntax, any further one to the value.
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                // Several `data` lines of one event are joined by line breaks.
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"event" => value.clone_into(&mut self.event.name),
            b"id" => value.clone_into(&mut self.event.id),
            // Other fields are ignored. So are comments, which servers send to keep the connection alive.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut seen = Vec::new();
        let mut events = EventStreamParser::default();
        let mut on_event = |event: &SseEvent| {
            seen.push(String::from_utf8_lossy(&event.data).into_owned());
            Ok::<(), ()>(())
        };
        for piece in pieces {
            events.feed(piece, &mut on_event).unwrap();
        }
        events.end(&mut on_event).unwrap();
        assert_eq!(events.pending(), 0);
        seen
    }

    #[test]
    fn the_data_of_each_event() {
        let stream = b"\xef\xbb\xbf: hello\nevent: a\ndata: one\n\ndata:two\r\ndata: more\r\n\r\nid: 7\n\nretry: 1\rdata: three\r\rdatax: no\n\ndata\n\ndata: last";
        assert_eq!(events(&[stream]), ["one", "two\nmore", "three", "", "last"]);
    }

    #[test]
    fn events_are_the_same_wherever_the_pieces_end() {
        let stream = "\u{feff}: hi\n\nevent: turn\r\nid: 7\r\ndata: {\"a\":\"é\"}\r\n\r\n\
            data: one\ndata:two\n\n:keep\n\ndata\n\ndata: [DONE]\n\ndata: cut";
        for size in 1..=stream.len() {
            let mut parser = EventStreamParser::default();
            let mut out = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                let Ok(()) = parser.feed(piece, |event| {
                    out.push(
                        [&event.name, &event.id, &event.data]
                            .map(|field| String::from_utf8_lossy(field).into_owned()),
                    );
                    Ok::<(), std::convert::Infallible>(())
                });
            }
            let data: Vec<&str> = out.iter().map(|[_, _, data]| data.as_str()).collect();
            assert_eq!(data, ["{\"a\":\"é\"}", "one\ntwo", "", "[DONE]"], "pieces of {size}");
            assert_eq!((out[0][0].as_str(), out[0][1].as_str()), ("turn", "7"));
            assert_eq!((out[1][0].as_str(), out[1][1].as_str()), ("", ""));
        }
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_does_not_matter(
            text in "(data: ?[a-z]{0,3}|:x|[a-z]{0,4}|\r\n|\n|\r|é){0,40}",
            cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(&pieces), events(&[bytes]));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            events(&[&bytes]);
        }
    }
}
