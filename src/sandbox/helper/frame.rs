//! How the two sides cut their streams into frames. Std-only: the helper's program compiles this file too.
//!
//! A frame is a header of 32 bytes and a payload:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | magic |
//! | 4 | kind, of [`crate`]'s messages |
//! | 5..8 | zero |
//! | 8..12 | length of the payload, little-endian, at most 1 MiB |
//! | 12..28 | nonce of the connection |
//! | 28..32 | checksum of bytes 4..28 and of the payload as sent |
//!
//! The payload is sent XORed with the nonce. A client may die in the middle of a frame, and the next one
//! must still be heard at once: so a [`Decoder`] finds an opening frame (the hello) inside an unfinished
//! frame as well. What a job prints or reads travels in payloads, and must not pass for a hello: it can't,
//! because who writes it does not know the nonce it will be XORed with.

/// Bytes of a header.
pub const HEADER: usize = 32;
/// The largest payload.
pub const MAX_PAYLOAD: usize = 1 << 20;

const MAGIC: [u8; 4] = [0xF1, 0x0C, b'k', 1];

/// What names a connection: random, chosen by the client.
pub type Nonce = [u8; 16];

/// A frame that arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: u8,
    /// Whose connection it belongs to.
    pub nonce: Nonce,
    /// Its content, unmasked.
    pub payload: Vec<u8>,
}

/// Appends a frame to `out`. A payload over [`MAX_PAYLOAD`] is refused: the other side would drop it.
pub fn encode(kind: u8, nonce: &Nonce, payload: &[u8], out: &mut Vec<u8>) -> Result<(), TooLarge> {
    if payload.len() > MAX_PAYLOAD {
        return Err(TooLarge);
    }
    let start = out.len();
    out.reserve(HEADER + payload.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(nonce);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
    mask(&mut out[start + HEADER..], nonce);
    let sum = checksum(&out[start + 4..start + 28], &out[start + HEADER..]);
    out[start + 28..start + HEADER].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// A payload over [`MAX_PAYLOAD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Finds frames in a stream of bytes, whatever else is in it. Holds at most one largest frame and what was
/// pushed last.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    /// Before this place no opening frame begins.
    scanned: usize,
    opening: u8,
    broken: u64,
}

enum Look {
    Frame(usize),
    Incomplete,
    Broken,
    Nothing,
}

impl Decoder {
    /// A decoder that also finds frames of the kind `opening` inside unfinished ones.
    #[must_use]
    pub fn new(opening: u8) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, opening, broken: 0 }
    }

    /// Takes in what was read. Call [`Decoder::next_frame`] until it gives `None` before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned = self.scanned.saturating_sub(self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
        // A large frame must not leave its memory behind for ever.
        if self.buffer.len() < 64 * 1024 && self.buffer.capacity() > 256 * 1024 {
            self.buffer.shrink_to(64 * 1024);
        }
    }

    /// The next whole frame, if there is one.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            self.start += find_magic(&self.buffer[self.start..]);
            match look(&self.buffer[self.start..]) {
                Look::Frame(length) => {
                    let bytes = &self.buffer[self.start..self.start + length];
                    let frame = take(bytes);
                    // The next frame may have completed one that was cut, and have lost its first bytes by it.
                    self.start += length - begun(bytes);
                    return Some(frame);
                }
                Look::Broken => {
                    self.broken += 1;
                    self.start += 1;
                }
                Look::Nothing if self.start < self.buffer.len() => self.start += 1,
                Look::Nothing => return None,
                Look::Incomplete => {
                    let at = self.find_opening()?;
                    self.start = at;
                }
            }
        }
    }

    /// How many frames had a wrong checksum. A stream made of nothing but such frames costs a megabyte of
    /// arithmetic for each: a reader that does not trust the other side gives up after some.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Where a whole opening frame begins behind the unfinished frame's first byte.
    fn find_opening(&mut self) -> Option<usize> {
        let mut at = self.scanned.max(self.start + 1);
        let mut unfinished = None;
        loop {
            at += find_magic(self.buffer.get(at..)?);
            let rest = &self.buffer[at..];
            if rest.len() < HEADER {
                self.scanned = unfinished.unwrap_or(at);
                return None;
            }
            if rest[4] == self.opening && length(rest) <= 64 {
                match look(rest) {
                    Look::Frame(_) => return Some(at),
                    // It may still become one: look here again. But its sender may have died as well, and a
                    // whole one follow it.
                    Look::Incomplete => unfinished = unfinished.or(Some(at)),
                    Look::Nothing | Look::Broken => {}
                }
            }
            at += 1;
        }
    }
}

/// How many bytes to skip to the first place where a frame may begin, or to the end.
fn find_magic(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == MAGIC[0]) {
        at += found;
        let rest = &bytes[at..];
        let known = rest.len().min(MAGIC.len());
        if rest[..known] == MAGIC[..known] {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// With how many bytes of the magic these end.
fn begun(bytes: &[u8]) -> usize {
    (1..=MAGIC.len()).rev().find(|known| bytes.ends_with(&MAGIC[..*known])).unwrap_or(0)
}

fn look(bytes: &[u8]) -> Look {
    if bytes.is_empty() {
        return Look::Nothing;
    }
    if bytes.len() < HEADER {
        return Look::Incomplete;
    }
    let length = length(bytes);
    if bytes[..4] != MAGIC || bytes[5..8] != [0; 3] || length > MAX_PAYLOAD {
        return Look::Nothing;
    }
    let Some(payload) = bytes.get(HEADER..HEADER + length) else { return Look::Incomplete };
    let sum = checksum(&bytes[4..28], payload);
    if bytes[28..HEADER] == sum.to_le_bytes() { Look::Frame(HEADER + length) } else { Look::Broken }
}

fn length(header: &[u8]) -> usize {
    u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize
}

fn take(bytes: &[u8]) -> Frame {
    let mut nonce = Nonce::default();
    nonce.copy_from_slice(&bytes[12..28]);
    let mut payload = bytes[HEADER..].to_vec();
    mask(&mut payload, &nonce);
    Frame { kind: bytes[4], nonce, payload }
}

fn mask(payload: &mut [u8], nonce: &Nonce) {
    for block in payload.chunks_mut(nonce.len()) {
        for (byte, key) in block.iter_mut().zip(nonce) {
            *byte ^= key;
        }
    }
}

/// Against torn frames, not against forgers: eight bytes a step, because a megabyte must cost little.
fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut sum: u64 = payload.len() as u64;
    for part in [header, payload] {
        let mut words = part.chunks_exact(8);
        for word in &mut words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            sum = (sum ^ u64::from_le_bytes(bytes)).wrapping_mul(PRIME).rotate_left(29);
        }
        for byte in words.remainder() {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(PRIME).rotate_left(29);
        }
    }
    (sum ^ (sum >> 32)) as u32
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
