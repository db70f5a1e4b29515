//! Replaces a secret in the bytes of an answer while they are forwarded, however the chunks divide it. A server that
//! repeats the key it received must not reveal it to the program behind flock.
//!
//! The bytes are JSON, or events that contain JSON. Replacing never breaks the syntax: a secret of digits is replaced
//! in strings but not in numbers, and an escape is never cut in two.

use bytes::Bytes;
use memchr::memmem::find;

use super::key::escaped;

/// The replacement for a secret.
const REPLACEMENT: &[u8] = b"[key]";

/// A filter that replaces one secret in a stream of bytes.
pub(super) struct SecretFilter {
    /// The secret with the escapes of a JSON string.
    secret: Option<Vec<u8>>,
    /// `true` if the secret could also occur in JSON outside of a string.
    is_syntax: bool,
    /// Position after the bytes that were forwarded.
    place: ScanState,
    /// Bytes that may be the beginning of the secret and are not forwarded yet.
    held: Vec<u8>,
}

impl SecretFilter {
    /// Returns a filter for this secret; without one, everything passes unchanged.
    pub(super) fn new(secret: Option<&str>) -> Self {
        let secret = secret.map(|secret| escaped(secret).into_bytes());
        let is_syntax = secret.as_ref().is_some_and(|secret| secret.iter().all(is_syntax));
        Self { secret, is_syntax, place: ScanState::default(), held: Vec::new() }
    }

    /// Returns the bytes that can be forwarded now, including bytes that were held back before.
    pub(super) fn pass(&mut self, piece: Bytes) -> Bytes {
        let Some(secret) = &self.secret else { return piece };
        // The usual case: no trace of the secret, so the chunk is forwarded without a copy.
        if self.held.is_empty() && partial_match_len(&piece, secret) == 0 && find(&piece, secret).is_none() {
            self.place.pass(&piece);
            return piece;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(&piece);
        let mut passed = Vec::with_capacity(all.len());
        let mut rest = &all[..];
        while let Some(at) = find(rest, secret) {
            self.place.pass(&rest[..at]);
            passed.extend_from_slice(&rest[..at]);
            // A match is replaced only if it is neither the end of an escape nor part of the JSON syntax.
            let is_one = !self.place.is_escaped && (self.place.in_string || !self.is_syntax);
            // A match outside of a string is part of the syntax. Only its first byte is forwarded, because the secret
            // may begin within the match.
            let length = if is_one { secret.len() } else { 1 };
            let (found, after) = rest[at..].split_at(length);
            self.place.pass(found);
            passed.extend_from_slice(if is_one { REPLACEMENT } else { found });
            rest = after;
        }
        // The end may be the beginning of the secret. It waits for the next chunk.
        let held = partial_match_len(rest, secret);
        let (clear, held) = rest.split_at(rest.len() - held);
        self.place.pass(clear);
        passed.extend_from_slice(clear);
        self.held = held.to_vec();
        passed.into()
    }

    /// Returns the bytes that were held back, once nothing else follows.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        (!self.held.is_empty()).then(|| std::mem::take(&mut self.held).into())
    }
}

/// The state of a scan through JSON, or through events that contain it.
#[derive(Default)]
struct ScanState {
    in_string: bool,
    is_escaped: bool,
}

impl ScanState {
    fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                // A JSON string contains no raw line break, so here begins a new event or a new line.
                b'\n' | b'\r' => *self = Self::default(),
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.in_string,
                b'"' => self.in_string = !self.in_string,
                _ => {}
            }
        }
    }
}

/// Returns `true` for a byte that JSON can have outside of strings.
fn is_syntax(byte: &u8) -> bool {
    // The digits and signs of numbers, the brackets, and the letters of `true`, `false` and `null`.
    b"0123456789+-.E{}[],:truefalsn".contains(byte)
}

/// Returns the length of the longest end of the bytes that the key begins with.
fn partial_match_len(bytes: &[u8], key: &[u8]) -> usize {
    let most = bytes.len().min(key.len().saturating_sub(1));
    (1..=most).rev().find(|length| key.starts_with(&bytes[bytes.len() - length..])).unwrap_or(0)
}

#[cfg(test)]
#[path = "redaction_tests.rs"]
mod tests;
