//! Thought signatures. The API reads them as bytes, and refuses the whole request if one is not Base64.

/// The stand-in signature for a call that another model made. Hygiene inserts it, and it passes here like any other.
pub const PLACEHOLDER_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns the signature if this API can read it.
pub(super) fn usable(signature: Option<&str>) -> Option<&str> {
    signature.filter(|signature| is_base64(signature))
}

/// Returns `true` if a text is Base64 of at least one byte, in one of the two alphabets, as an encoder writes it.
/// Padding may be missing, and white space does not count.
#[must_use]
pub(crate) fn is_base64(text: &str) -> bool {
    // Padding carries no data, and some encoders omit it.
    let text = text.trim().trim_end_matches('=');
    let (mut length, mut last) = (0usize, 0u8);
    let (mut standard, mut url) = (false, false);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        last = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        standard |= matches!(byte, b'+' | b'/');
        url |= matches!(byte, b'-' | b'_');
        length += 1;
    }
    // An encoder sets the unused bits of the last character to zero.
    let is_whole = match length % 4 {
        0 => true,
        2 => last & 0b1111 == 0,
        3 => last & 0b11 == 0,
        _ => false,
    };
    // A text with characters of both alphabets is valid in neither.
    length > 1 && is_whole && !(standard && url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_recognised() {
        for good in ["AA==", "AA", "QUJD", "YWJj ZGVm\n", "_-_-", "+/+/", "msg_abc1"] {
            assert!(is_base64(good), "{good}");
        }
        for bad in
            ["", " ", "A", "=", "msg_abc123", "reasoning_text", "sig-1", "AB==", "a b.c", "+-+-", "AAé="]
        {
            assert!(!is_base64(bad), "{bad}");
        }
    }

    #[test]
    fn only_base64_signatures_are_sent_back() {
        assert_eq!(usable(Some("c2lnbmVk")), Some("c2lnbmVk"));
        assert_eq!(usable(Some(PLACEHOLDER_SIGNATURE)), Some(PLACEHOLDER_SIGNATURE));
        for bad in ["{\"v\":1}", "msg_1="] {
            assert_eq!(usable(Some(bad)), None, "{bad}");
        }
        assert_eq!(usable(None), None);
    }
}
