//! What flock puts beside a person's words for the model, found again where it does not belong: in a message that was
//! stored with it, and in an answer whose model repeated it.

use crate::provider::message::CONTEXT_OPEN;

const CONTEXT_CLOSE: &str = "</flock-context>";

/// A text without the wrappers that it begins and ends with; `None` where it has none. One in the middle of other words is
/// something that is talked about, and stays.
pub(super) fn unwrapped(text: &str) -> Option<&str> {
    let mut inner = text;
    loop {
        let before = inner.len();
        let trimmed = inner.trim();
        if let Some(rest) = after(trimmed) {
            inner = rest;
        } else if let Some(rest) = before_last(trimmed) {
            inner = rest;
        }
        if inner.len() == before {
            break;
        }
    }
    (inner.len() < text.len()).then(|| inner.trim())
}

/// What follows the wrapper that a text begins with.
fn after(text: &str) -> Option<&str> {
    let end = text.strip_prefix(CONTEXT_OPEN)?.find(CONTEXT_CLOSE)?;
    Some(&text[CONTEXT_OPEN.len() + end + CONTEXT_CLOSE.len()..])
}

/// What precedes the wrapper that a text ends with.
fn before_last(text: &str) -> Option<&str> {
    let inner = text.strip_suffix(CONTEXT_CLOSE)?;
    let start = inner.rfind(CONTEXT_OPEN)?;
    (!inner[start..].contains(CONTEXT_CLOSE)).then(|| &text[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_around_a_text_go_and_those_within_it_stay() {
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
