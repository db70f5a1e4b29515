//! The name of a blob: segments of plain characters with slashes between them, so that it is the same as a path of a
//! folder, in an address and in a signature.

use std::fmt;
use std::str::FromStr;

/// The most bytes of a key. S3 allows 1024, of which the settings' prefix needs a part.
const MAX_BYTES: usize = 700;

/// The name of a blob, below the prefix or the folder of its store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobKey(String);

/// A text that is no key of a blob.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no key of a blob")]
pub struct NotAKey(String);

impl BlobKey {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BlobKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A segment that begins with a dot would be a step upwards, or a draft of the folder's own.
        let is_segment =
            |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_plain);
        if text.len() <= MAX_BYTES && text.split('/').all(is_segment) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAKey(text.to_owned()))
        }
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_nowhere_else() {
        for good in ["a", "checkpoints/coder/objects/ab/cd.0", "a_b-C/1"] {
            assert_eq!(good.parse::<BlobKey>().unwrap().as_str(), good);
        }
        let long = "a".repeat(MAX_BYTES + 1);
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", ".new-1-abcdef", "a b", "a%2F", "ä", &long] {
            assert!(bad.parse::<BlobKey>().is_err(), "{bad}");
        }
    }
}
