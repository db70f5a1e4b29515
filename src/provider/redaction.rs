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
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn passed(key: &str, pieces: &[&[u8]]) -> Vec<u8> {
        let mut redaction = SecretFilter::new(Some(key));
        let mut all: Vec<u8> =
            pieces.iter().flat_map(|piece| redaction.pass(Bytes::copy_from_slice(piece))).collect();
        all.extend(redaction.rest().into_iter().flatten());
        all
    }

    #[test]
    fn a_repeated_key_is_replaced_however_chunks_divide_it() {
        let said = b"your key sk-planted, sk-plan and sk-sk-planted".as_slice();
        for at in 0..said.len() {
            let passed = passed("sk-planted", &[&said[..at], &said[at..]]);
            assert_eq!(String::from_utf8(passed).unwrap(), "your key [key], sk-plan and sk-[key]", "{at}");
        }
    }

    #[test]
    fn replacing_a_key_keeps_the_surrounding_json_unchanged() {
        for (key, said, expected) in [
            (
                "1234567890123456",
                r#"{"id":1234567890123456,"a":"1234567890123456"}"#,
                r#"{"id":1234567890123456,"a":"[key]"}"#,
            ),
            (
                "nvapi-planted-key",
                r#"{"a":"\nvapi-planted-key nvapi-planted-key"}"#,
                r#"{"a":"\nvapi-planted-key [key]"}"#,
            ),
            (r#"pl"an\ted"#, r#"{"a":"pl\"an\\ted","pl":"an"}"#, r#"{"a":"[key]","pl":"an"}"#),
            ("true,false,null,", r#"[true,false,null,"true,false,null,"]"#, r#"[true,false,null,"[key]"]"#),
        ] {
            for at in 0..said.len() {
                let (one, two) = said.as_bytes().split_at(at);
                let passed = String::from_utf8(passed(key, &[one, two])).unwrap();
                assert_eq!(passed, expected, "{at}");
                serde_json::from_str::<Value>(&passed).unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn text_without_the_key_passes_unchanged(text in "[aks-]{0,60}", cuts in prop::collection::vec(0usize..60, 0..5)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expected = text.replace("ska-s", "[key]");
            prop_assert_eq!(String::from_utf8(passed("ska-s", &pieces)).unwrap(), expected);
        }

        #[test]
        fn json_stays_json_whatever_the_key_is(
            key in r#"[12n\\":,\[\]{}-]{2,4}"#, texts in prop::collection::vec(r#"[12n\\":,\n\[\]{}-]{0,8}"#, 0..5),
            number in any::<u64>(), at in any::<prop::sample::Index>(),
        ) {
            let said = json!({"texts": texts, "number": number, "list": [12, [1, {"n": 2}], -1, null]});
            let bytes = said.to_string().into_bytes();
            let (one, two) = bytes.split_at(at.index(bytes.len()));
            let passed: Value = serde_json::from_slice(&passed(&key, &[one, two])).unwrap();
            let of = |document: &Value, name: &str| document[name].clone();
            prop_assert_eq!(of(&passed, "list"), of(&said, "list"));
            prop_assert_eq!(of(&passed, "number"), of(&said, "number"));
            prop_assert_eq!(passed["texts"].as_array().map(Vec::len), Some(texts.len()));
        }
    }
}
