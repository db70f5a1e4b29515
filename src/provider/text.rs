//! Texts as every wire takes them.

use std::borrow::Cow;

use super::Block;

/// Whether there is nothing to read in it: no provider takes such a text.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The texts among these blocks, joined; borrowed where there is one.
#[must_use]
pub fn joined(content: &[Block]) -> Cow<'_, str> {
    let mut texts = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(one), None) => Cow::Borrowed(one),
        (Some(first), Some(second)) => {
            Cow::Owned([first, second].into_iter().chain(texts).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// A tool's result for a wire without a mark for failures: there the text has to say it.
#[must_use]
pub fn result(content: &[Block], is_error: bool) -> Cow<'_, str> {
    let text = joined(content);
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match (is_blank(&text), is_error) {
        (true, false) => Cow::Borrowed("(no output)"),
        (true, true) => Cow::Borrowed("error: (no output)"),
        (false, true) if !says_so => Cow::Owned(format!("error: {text}")),
        (false, _) => text,
    }
}

/// What is said in the place of a picture that no provider takes.
#[must_use]
pub fn left_out(media_type: &str) -> String {
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
