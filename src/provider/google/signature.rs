//! Thought signatures. They are bytes to the API: anything that is not base64 is refused with the whole
//! request.

/// What stands for the signature of a call that has none because another model made it.
pub(super) const STAND_IN: &str = "skip_thought_signature_validator";

/// The signature, if this API can read it as one.
pub(super) fn usable(signature: Option<&str>) -> Option<&str> {
    signature.filter(|signature| is_base64(signature))
}

/// A look at the letters and the length: to decode what may be many kilobytes for each request says no more.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let letters = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'-' | b'_');
    !body.is_empty()
        && body.bytes().all(letters)
        && body.len() % 4 != 1
        && match padding {
            0 => true,
            _ => (body.len() + padding).is_multiple_of(4) && padding < 3,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_base64_goes_back() {
        for good in ["c2lnbmVk", "YQ==", "YWI=", "YWI", "-_-_"] {
            assert_eq!(usable(Some(good)), Some(good));
        }
        for bad in ["", "=", "a", "a=b", "{\"v\":1}", "msg_1=", "YQ=", "é"] {
            assert_eq!(usable(Some(bad)), None, "{bad}");
        }
        assert_eq!(usable(None), None);
    }
}
