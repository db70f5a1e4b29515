//! Texts in forms that every wire format accepts.

use std::borrow::Cow;

use super::Block;

/// Returns `true` if a text is empty or only white space. No provider accepts such a text.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns the texts of these blocks, joined by line breaks. A single text is borrowed.
#[must_use]
pub fn joined(content: &[Block]) -> Cow<'_, str> {
    let mut texts = content.iter().filter_map(Block::as_text);
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(one), None) => Cow::Borrowed(one),
        (Some(first), Some(second)) => {
            Cow::Owned([first, second].into_iter().chain(texts).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Returns a tool's result for a wire format without a flag for failures. The text then says that the call failed.
#[must_use]
pub fn result(content: &[Block], is_error: bool) -> Cow<'_, str> {
    let text = joined(content);
    // Some tools already begin a failure with this word.
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match (is_blank(&text), is_error) {
        (true, false) => Cow::Borrowed("(no output)"),
        (true, true) => Cow::Borrowed("error: (no output)"),
        (false, true) if !says_so => Cow::Owned(format!("error: {text}")),
        (false, _) => text,
    }
}

/// Returns the text that takes the place of a picture which cannot be sent.
#[must_use]
pub(crate) fn left_out(media_type: &str) -> String {
    format!("[an image of type {media_type} was left out]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_that_it_failed_once() {
        let result = |texts: &[&str], is_error| {
            let content: Vec<Block> = texts.iter().map(|text| Block::text(*text)).collect();
            result(&content, is_error).into_owned()
        };
        assert_eq!(result(&["a", "b"], false), "a\nb");
        assert_eq!(result(&["no"], true), "error: no");
        assert_eq!(result(&["Error: no"], true), "Error: no");
        assert_eq!(result(&[], false), "(no output)");
        assert_eq!(result(&[" "], true), "error: (no output)");
    }
}
