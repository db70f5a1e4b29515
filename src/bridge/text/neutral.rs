//! Mentions that nobody meant: `@everyone` in an agent's text must not notify a whole server.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A character without width, after which a platform does not read a name.
const BREAK: char = '\u{2060}';

/// Returns the text with a break after each `@` that a platform could take for a mention, but for the names in `meant`.
/// Addresses (`a@b.org`) stay as they are: no letter or digit stands before a mention. So does code, which people copy
/// and in which no platform reads mentions.
pub(crate) fn neutralise(markdown: &str, meant: &[&str]) -> String {
    if !markdown.contains('@') {
        return markdown.to_owned();
    }
    let code = code_ranges(markdown);
    let mut out = String::with_capacity(markdown.len() + 8);
    let mut last = ' ';
    for (at, c) in markdown.char_indices() {
        if last == '@'
            && is_within_name(c)
            && !out[..out.len() - 1].ends_with(is_within_name)
            && !code.iter().any(|range| range.contains(&at))
            && !name_at(&markdown[at..]).is_some_and(|name| meant.contains(&name))
        {
            out.push(BREAK);
        }
        out.push(c);
        last = c;
    }
    out
}

/// Returns the names that a text mentions outside of code, in the form of a person's name.
pub(crate) fn mentioned(markdown: &str) -> Vec<&str> {
    let code = code_ranges(markdown);
    let ats = markdown.match_indices('@').filter(|(at, _)| {
        !markdown[..*at].ends_with(is_within_name) && !code.iter().any(|range| range.contains(at))
    });
    let mut names: Vec<&str> = ats.filter_map(|(at, _)| name_at(&markdown[at + 1..])).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_within_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the name that a text begins with. A dot or a hyphen at its end belongs to the sentence. An id of Matrix
/// (`ann:e.org`) is no name of flock's.
fn name_at(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !is_within_name(c) && c != '-' && c != '.').unwrap_or(text.len());
    let is_id = text[end..].strip_prefix(':').is_some_and(|rest| rest.starts_with(is_within_name));
    Some(text[..end].trim_end_matches(['.', '-'])).filter(|name| !name.is_empty() && !is_id)
}

/// Returns the places of code in a text: blocks and within lines.
fn code_ranges(markdown: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut is_in_block = false;
    for (event, range) in Parser::new_ext(markdown, Options::all()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_in_block = true,
            Event::End(TagEnd::CodeBlock) => is_in_block = false,
            Event::Code(_) => ranges.push(range),
            Event::Text(_) if is_in_block => ranges.push(range),
            _ => {}
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_broken_and_addresses_are_not() {
        assert_eq!(
            neutralise("@room hi (@everyone) ann@e.org", &[]),
            "@\u{2060}room hi (@\u{2060}everyone) ann@e.org"
        );
        assert_eq!(neutralise("a @ b, @", &[]), "a @ b, @");
        assert_eq!(neutralise("@@here", &[]), "@@\u{2060}here");
    }

    #[test]
    fn a_mention_that_is_meant_stays() {
        assert_eq!(neutralise("@ann and @anna", &["ann"]), "@ann and @\u{2060}anna");
        assert_eq!(neutralise("ask @ann-2.", &["ann-2"]), "ask @ann-2.");
        assert_eq!(neutralise("@ann: look at @ann:e.org", &["ann"]), "@ann: look at @\u{2060}ann:e.org");
        assert_eq!(mentioned("@ann:e.org, @ben: look"), ["ben"]);
        assert_eq!(mentioned("@ann, `@ben` a@c.org (@d.e.) @ann"), ["ann", "d.e"]);
    }

    #[test]
    fn code_stays_as_it_is() {
        let code = "```py\n@property\ndef x(): ...\n```";
        assert_eq!(neutralise(code, &[]), code);
        assert_eq!(neutralise("`@x` @x", &[]), "`@x` @\u{2060}x");
        // A fence that is not closed is code to its end; a lone backtick is none.
        assert_eq!(neutralise("` @x", &[]), "` @\u{2060}x");
    }
}
