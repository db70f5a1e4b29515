//! Parser for `application/vnd.amazon.eventstream`: frames with headers and a payload, each with its lengths and two
//! checksums.
//!
//! The input is hostile. Lengths are checked before anything is buffered, and a wrong checksum ends the stream.

/// Bytes of the prelude: two lengths and their checksum.
const PRELUDE_BYTES: usize = 12;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;
/// The format's limit for the headers of one frame, in bytes.
const MAX_HEADER_BYTES: usize = 128 * 1024;

/// The reason why the bytes are no stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// The lengths are impossible, or their checksum is wrong.
    #[error("it is not a stream of events")]
    Prelude,
    /// A frame exceeds the limit.
    #[error("an event is too long")]
    TooLong,
    /// The checksum of a frame is wrong.
    #[error("the checksum of an event is wrong")]
    Checksum,
    /// The headers cannot be parsed.
    #[error("the headers of an event can't be read")]
    Headers,
}

/// The needed parts of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// `event`, `exception` or `error`.
    pub(super) kind: &'a str,
    /// Name of the event, exception or error.
    pub(super) name: &'a str,
    /// Text of an `error`, which has no payload.
    pub(super) message: &'a str,
    pub(super) payload: &'a [u8],
}

/// Splits a stream of bytes into frames. Only an unfinished frame is kept between two chunks.
#[derive(Debug)]
pub(super) struct FrameParser {
    bytes: Vec<u8>,
    longest: usize,
}

impl FrameParser {
    /// Returns a splitter for frames of at most `longest` bytes.
    pub(super) const fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), longest }
    }

    /// Reads more bytes and calls `on_frame` for each completed frame, until it returns an error.
    pub(super) fn feed<E: From<FrameError>>(
        &mut self,
        bytes: &[u8],
        mut on_frame: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(total) = total(&self.bytes[at..], self.longest)? {
            let Some(whole) = self.bytes[at..].get(..total) else { break };
            on_frame(read(whole)?)?;
            at += total;
        }
        self.bytes.drain(..at);
        Ok(())
    }

    /// Returns `true` if a frame has begun and not ended.
    pub(super) fn is_pending(&self) -> bool {
        !self.bytes.is_empty()
    }
}

/// Returns the length of the next frame, or `None` before its prelude has arrived.
fn total(bytes: &[u8], longest: usize) -> Result<Option<usize>, FrameError> {
    let Some(prelude) = bytes.get(..PRELUDE_BYTES) else { return Ok(None) };
    // The checksum comes first: only lengths that it confirms are looked at.
    if word(prelude, 8) != crc32(&prelude[..8]) {
        return Err(FrameError::Prelude);
    }
    let total = usize::try_from(word(prelude, 0)).map_err(|_| FrameError::TooLong)?;
    let headers = usize::try_from(word(prelude, 4)).map_err(|_| FrameError::TooLong)?;
    if total > longest || headers > MAX_HEADER_BYTES {
        return Err(FrameError::TooLong);
    }
    if total < PRELUDE_BYTES + headers + CHECKSUM_BYTES {
        return Err(FrameError::Prelude);
    }
    Ok(Some(total))
}

/// Parses a complete frame whose lengths have been checked.
fn read(whole: &[u8]) -> Result<Frame<'_>, FrameError> {
    let (body, tail) =
        whole.split_at_checked(whole.len().saturating_sub(CHECKSUM_BYTES)).ok_or(FrameError::Prelude)?;
    if word(tail, 0) != crc32(body) {
        return Err(FrameError::Checksum);
    }
    let length = usize::try_from(word(body, 4)).map_err(|_| FrameError::Prelude)?;
    let (headers, payload) = body[PRELUDE_BYTES..].split_at_checked(length).ok_or(FrameError::Prelude)?;
    let mut frame = Frame { payload, ..Frame::default() };
    let mut rest = headers;
    while !rest.is_empty() {
        let (name, value) = take_header(&mut rest).ok_or(FrameError::Headers)?;
        // Only text headers are needed, but the length of the others has to be known to skip them.
        let Some(value) = value else { continue };
        match name {
            b":message-type" => frame.kind = value,
            b":event-type" | b":exception-type" | b":error-code" => frame.name = value,
            b":error-message" => frame.message = value,
            _ => {}
        }
    }
    Ok(frame)
}

/// Removes the first header and returns its name, and its value if that is a text.
fn take_header<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a str>)> {
    let length = take(rest, 1)?[0];
    let name = take(rest, usize::from(length))?;
    let kind = take(rest, 1)?[0];
    // Value types: booleans, byte, short, integer, long and timestamp, byte array and string, UUID.
    let length = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        6 | 7 => {
            let length = take(rest, 2)?;
            usize::from(u16::from_be_bytes([length[0], length[1]]))
        }
        9 => 16,
        _ => return None,
    };
    let value = take(rest, length)?;
    let text = if kind == 7 { Some(std::str::from_utf8(value).ok()?) } else { None };
    Some((name, text))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Returns the big-endian word at this position. The caller has checked that it exists.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

/// Returns the CRC-32 checksum as used by Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
