//! Takes the power over a terminal out of text. Names, messages and file contents may come from a model or
//! a web page; an escape sequence among them could move the cursor, rewrite what was printed or answer a
//! question.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with every control and direction-changing character but newline and tab spelled out, as in
/// `\u{1b}`.
#[must_use]
pub fn block(text: &str) -> Cow<'_, str> {
    neutralise(text, |c| c != '\n' && c != '\t' && is_steering(c))
}

/// As [`block`], for text that must stay on one line: newline and tab are spelled out too.
#[must_use]
pub fn inline(text: &str) -> Cow<'_, str> {
    neutralise(text, is_steering)
}

fn neutralise(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&bad) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' if bad(c) => clean.push_str("\\r"),
            '\n' if bad(c) => clean.push_str("\\n"),
            '\t' if bad(c) => clean.push_str("\\t"),
            c if bad(c) => {
                let _ = write!(clean, "\\u{{{:x}}}", u32::from(c));
            }
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// C0, DEL, C1, and the marks that reorder text (U+061C, U+200E.., U+202A.., U+2066..).
fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_left_alone() {
        assert!(matches!(block("안녕 – grüße\n\tcode"), Cow::Borrowed(_)));
    }

    #[test]
    fn nothing_steers_the_terminal() {
        let hostile = "\x1b[2J\x1b]0;title\x07\u{9b}31m\r\x7f\u{202e}txt";
        let clean = block(hostile);
        assert!(!clean.chars().any(is_steering), "{clean:?}");
        assert_eq!(clean, "\\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{9b}31m\\r\\u{7f}\\u{202e}txt");
        assert_eq!(inline("a\nb\tc"), "a\\nb\\tc");
    }
}
