//! The one form in which a receipt and the other signed documents are written: JSON without white space, the keys of
//! every object sorted, no fractions, and nothing twice. docs/receipts.md describes it byte for byte.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::ReceiptError;
use crate::id::hex;

/// Largest size of a document in bytes.
pub(crate) const MAX_BYTES: usize = 8 << 20;

/// Writes a document in its canonical form.
///
/// # Errors
///
/// Returns [`ReceiptError::Malformed`] if it is larger than [`MAX_BYTES`].
pub(crate) fn write<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, ReceiptError> {
    let malformed = |reason: String| ReceiptError::Malformed { what, reason };
    let mut value = serde_json::to_value(value).map_err(|error| malformed(error.to_string()))?;
    value.sort_all_objects();
    let text = serde_json::to_vec(&value).map_err(|error| malformed(error.to_string()))?;
    if text.len() > MAX_BYTES {
        return Err(malformed(format!("it has more than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(text)
}

/// Reads a document that must be in its canonical form.
///
/// # Errors
///
/// Returns [`ReceiptError::Malformed`] if it is something else, has an unknown or a double key, or is written in another
/// form.
pub(crate) fn read<T: Serialize + DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, ReceiptError> {
    let malformed = |reason: String| ReceiptError::Malformed { what, reason };
    if bytes.len() > MAX_BYTES {
        return Err(malformed(format!("it has more than {} MiB", MAX_BYTES >> 20)));
    }
    let value: T = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
    // Two texts of the same document would have two hashes.
    if write(what, &value)? != bytes {
        return Err(malformed("it is not in the canonical form".to_owned()));
    }
    Ok(value)
}

/// Returns the SHA-256 of a document's bytes, in hex.
#[must_use]
pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        b: u64,
        a: String,
    }

    #[test]
    fn a_document_has_exactly_one_form() {
        let document = Document { b: 7, a: "\u{7f}\u{1}é\"\\/\n".to_owned() };
        let text = write("it", &document).unwrap();
        assert_eq!(text, "{\"a\":\"\u{7f}\\u0001é\\\"\\\\/\\n\",\"b\":7}".as_bytes());
        assert_eq!(read::<Document>("it", &text).unwrap(), document);
        for other in [
            r#"{"b":7,"a":"x"}"#,
            r#"{"a":"x", "b":7}"#,
            r#"{"a":"x","b":7}
"#,
            r#"{"a":"\u0078","b":7}"#,
            r#"{"a":"x","b":7.0}"#,
            r#"{"a":"x","b":07}"#,
            r#"{"a":"x","a":"x","b":7}"#,
            r#"{"a":"x","b":7,"c":1}"#,
            r#"{"a":"x"}"#,
            "",
        ] {
            assert!(read::<Document>("it", other.as_bytes()).is_err(), "{other}");
        }
    }
}
