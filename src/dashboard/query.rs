//! The parameters of a page's address, and parts of addresses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but letters, digits and `-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the value of a parameter, decoded.
#[must_use]
pub(crate) fn value(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find_map(|(found, value)| (found == name).then(|| value.into_owned()))
}

/// Returns all values of a parameter, decoded.
#[must_use]
pub(super) fn values(query: &str, name: &str) -> Vec<String> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.filter(|(found, _)| found == name).map(|(_, value)| value.into_owned()).collect()
}

/// Returns a text as a part of a path or as a value in a query.
#[must_use]
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again() {
        for text in ["agent:coder:flock:main:ann", "a b&c=d/e?f#%+", "한국어", ""] {
            assert_eq!(value(&format!("x=1&q={}", encoded(text)), "q").as_deref(), Some(text));
        }
        assert_eq!(encoded("a/b c"), "a%2Fb%20c");
        assert_eq!(value("aq=1", "q"), None);
        assert_eq!(values("in=a&q=b&in=c+d", "in"), ["a", "c d"]);
    }
}
