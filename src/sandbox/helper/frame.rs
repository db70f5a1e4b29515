//! Splits the streams between flock and the helper into frames. The helper program compiles this file as well, so it
//! uses only the standard library.
//!
//! A frame is a header of 32 bytes and a payload:
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | magic |
//! | 4 | kind of message |
//! | 5..8 | number of the frame in its direction of a connection that can be resumed, little-endian, or zero |
//! | 8..12 | length of the payload, little-endian, at most 1 MiB |
//! | 12..28 | nonce of the connection |
//! | 28..32 | checksum of bytes 4..28 and of the payload as sent |
//!
//! The payload is sent XORed with the nonce. A client may die in the middle of a frame, and the helper must still
//! recognise the next client at once. So a [`Decoder`] also finds an opening frame (the hello) inside an unfinished
//! frame.
//!
//! The input and output of a job travel in payloads and must not be taken for a hello. They cannot be, because their
//! author does not know the nonce that they will be XORed with.

/// Size of a header in bytes.
pub const HEADER: usize = 32;
/// Largest payload in bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;

const MAGIC: [u8; 4] = [0xF1, 0x0C, b'k', 1];

/// The random identifier of a connection, chosen by the client.
pub type Nonce = [u8; 16];

/// A frame that was received completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of message.
    pub kind: u8,
    /// The connection it belongs to.
    pub nonce: Nonce,
    /// Its number. 0 if it has none.
    pub number: Number,
    /// The unmasked payload.
    pub payload: Vec<u8>,
}

/// Appends a frame to `out`.
///
/// # Errors
///
/// Returns [`TooLarge`] for a payload over [`MAX_PAYLOAD`], because the other side would drop it.
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

/// Gives a complete frame its number.
pub fn number(bytes: &mut [u8], number: Number) {
    bytes[5..8].copy_from_slice(&number.0.to_le_bytes()[..3]);
    let sum = checksum(&bytes[4..28], &bytes[HEADER..]);
    bytes[28..HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// The number of a frame. Numbers begin with 1 and come again after [`LAST`], which is far more than the frames that can be on
/// their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number(u32);

/// The highest number.
const LAST: u32 = (1 << 24) - 1;

impl Number {
    /// Returns the number that a message has, or `None` if there is none like it.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number <= LAST).then_some(Self(number))
    }

    /// Returns it as it is sent. 0 stands for no frame at all.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }

    /// Returns the number of the next frame.
    #[must_use]
    pub fn next(self) -> Self {
        Self(if self.0 == LAST { 1 } else { self.0 + 1 })
    }

    /// Returns how many frames come after `earlier` up to this one. A frame that is older has a number beyond half of all.
    #[must_use]
    pub fn since(self, earlier: Self) -> u32 {
        // 0 is the place before 1, which is also that of LAST.
        let place = |number: u32| if number == 0 { LAST } else { number };
        (place(self.0) + LAST - place(earlier.0)) % LAST
    }
}

/// The error for a payload over [`MAX_PAYLOAD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Finds frames in a stream of bytes that may contain anything else. It buffers at most one frame of the largest size
/// and the bytes pushed last.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    /// No opening frame begins before this index, so that the search does not repeat itself.
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
    /// Creates a decoder that also finds frames of the kind `opening` inside unfinished frames.
    #[must_use]
    pub fn new(opening: u8) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, opening, broken: 0 }
    }

    /// Adds bytes that were read. Call [`Decoder::next_frame`] until it returns `None` before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        // Bytes before `start` have been consumed.
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned = self.scanned.saturating_sub(self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
        // Release the memory of a large frame. The connection may live for days.
        if self.buffer.len() < 64 * 1024 && self.buffer.capacity() > 256 * 1024 {
            self.buffer.shrink_to(64 * 1024);
        }
    }

    /// Returns the next complete frame, if there is one.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            self.start += find_magic(&self.buffer[self.start..]);
            match look(&self.buffer[self.start..]) {
                Look::Frame(length) => {
                    let bytes = &self.buffer[self.start..self.start + length];
                    let frame = take(bytes);
                    // If a client died while sending, the first bytes of the next frame may have completed the previous
                    // one. So look for a frame again at the last bytes of this one if they could be a magic.
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

    /// Returns the number of frames with a wrong checksum. Checking one costs up to a megabyte of arithmetic, so a
    /// reader that does not trust the other side gives up after a limited number.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.broken
    }

    /// Returns the start of a complete opening frame inside the unfinished frame.
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
                    // More bytes may complete this frame, so the next search starts here again. Its sender may also
                    // have died, and a complete opening frame may follow.
                    Look::Incomplete => unfinished = unfinished.or(Some(at)),
                    Look::Nothing | Look::Broken => {}
                }
            }
            at += 1;
        }
    }
}

/// Returns the number of bytes before the first place where a frame may begin, or the length of the slice.
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

/// Returns how many bytes at the end may be the beginning of a magic.
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
    // A header that cannot be valid is rejected at once, so a forged length does not make the decoder wait for more
    // bytes.
    if bytes[..4] != MAGIC || length > MAX_PAYLOAD {
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
    let number = Number(u32::from_le_bytes([bytes[5], bytes[6], bytes[7], 0]));
    Frame { kind: bytes[4], nonce, number, payload }
}

fn mask(payload: &mut [u8], nonce: &Nonce) {
    for block in payload.chunks_mut(nonce.len()) {
        for (byte, key) in block.iter_mut().zip(nonce) {
            *byte ^= key;
        }
    }
}

/// Computes a checksum that detects torn frames but is no protection against forgery. It takes eight bytes per step,
/// because a megabyte must be cheap.
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
