//! Removes the context that flock adds to a person's message for the model from places where it does not belong: from
//! messages that were stored with it, and from answers in which the model repeated it.

use crate::provider::message::CONTEXT_OPEN;

const CONTEXT_CLOSE: &str = "</flock-context>";

/// Returns a text without the context wrappers at its beginning and end, or `None` if it has none. A wrapper in the
/// middle of other words is being quoted, and stays.
pub(super) fn unwrapped(text: &str) -> Option<&str> {
    let mut inner = text;
    // Several wrappers may follow each other, so this repeats until nothing more is removed.
    loop {
        let before = inner.len();
        let trimmed = inner.trim();
        if let Some(rest) = strip_leading_wrapper(trimmed) {
            inner = rest;
        } else if let Some(rest) = strip_trailing_wrapper(trimmed) {
            inner = rest;
        }
        if inner.len() == before {
            break;
        }
    }
    (inner.len() < text.len()).then(|| inner.trim())
}

/// Returns the text after the wrapper that it begins with.
fn strip_leading_wrapper(text: &str) -> Option<&str> {
    let end = text.strip_prefix(CONTEXT_OPEN)?.find(CONTEXT_CLOSE)?;
    Some(&text[CONTEXT_OPEN.len() + end + CONTEXT_CLOSE.len()..])
}

/// Returns the text before the wrapper that it ends with.
fn strip_trailing_wrapper(text: &str) -> Option<&str> {
    let inner = text.strip_suffix(CONTEXT_CLOSE)?;
    let start = inner.rfind(CONTEXT_OPEN)?;
    // A close tag in between means that the last wrapper begins later and is not the one this text ends with.
    (!inner[start..].contains(CONTEXT_CLOSE)).then(|| &text[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_wrappers_are_removed_and_quoted_ones_stay() {
        let time = "<flock-context source=\"flock\">time: 12:00</flock-context>";
        let client = "<flock-context source=\"client\">\nbe kind\n</flock-context>";
        for (text, expected) in [
            (format!("hello{time}"), Some("hello")),
            (format!("{time}\nhello there\n\n{client}{time}"), Some("hello there")),
            (format!(" {time} "), Some("")),
            (format!("what does {time} mean?"), None),
            (format!("{time} and {client} differ"), Some(&*format!("and {client} differ"))),
            (" hello ".to_owned(), None),
            ("<flock-context source=\"flock\">never closed".to_owned(), None),
            ("closed only</flock-context>".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(unwrapped(&text), expected, "{text}");
        }
    }
}
