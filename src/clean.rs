//! Removes from text what could deceive or attack the person who reads it. Names, messages and file contents may come
//! from a model or a web page. An escape sequence among them could move the cursor, rewrite what was printed or answer
//! a question. A line end could begin a line that seems to have been written by somebody else.

use std::borrow::Cow;
use std::fmt::Write as _;

mod ascii;
mod name;
mod skeleton;

pub(crate) use ascii::{spelled, spelled_lines};
pub(crate) use name::looks_like;
pub(crate) use skeleton::Skeleton;

/// Returns the text with every invisible character except newline and tab written as an escape, as in `\u{1b}`.
#[must_use]
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    escape_matching(text, |c| c != '\n' && c != '\t' && is_unseen(c))
}

/// Returns the text as [`block`] does, but on one line: newline and tab are escaped too.
#[must_use]
pub(crate) fn inline(text: &str) -> Cow<'_, str> {
    escape_matching(text, is_unseen)
}

/// Returns a name or topic in the form in which it is stored: one line without invisible characters, each run of white
/// space replaced by one space, at most `most` characters.
#[must_use]
pub(crate) fn label(text: &str, most: usize) -> String {
    let mut label = String::new();
    let mut left = most;
    for word in text.split(|c: char| c.is_whitespace() || is_line_end(c)) {
        let mut word = word.chars().filter(|c| !is_unseen(*c)).peekable();
        if word.peek().is_none() {
            continue;
        }
        if !label.is_empty() {
            // Without room for a letter after it, the space is left out too.
            if left < 2 {
                break;
            }
            label.push(' ');
            left -= 1;
        }
        for c in word.take(left) {
            label.push(c);
            left -= 1;
        }
    }
    label
}

/// Returns a text of any length as one line of at most `most` characters, cleaned as by [`label`]. An ellipsis shows
/// that something was cut off.
#[must_use]
pub(crate) fn summary(text: &str, most: usize) -> String {
    // Only the beginning is copied, because the text may have megabytes. 16 bytes a character leave room for characters
    // that are dropped.
    let (beginning, rest) = text.split_at(text.floor_char_boundary(most.saturating_mul(16)));
    // One character more than allowed, to notice that something is cut off.
    let mut line = label(beginning, most.saturating_add(1));
    // Characters that are dropped may fill the whole beginning, and then a short line is not the whole text either.
    let is_cut = line.chars().count() > most || rest.chars().any(|c| !c.is_whitespace() && !is_unseen(c));
    if is_cut && most > 0 {
        let end = line.char_indices().nth(most - 1).map_or(line.len(), |(at, _)| at);
        line.truncate(end);
        line.push('…');
    }
    line
}

fn escape_matching(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Most texts need no change. They are not copied.
    if !text.chars().any(&bad) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' if bad(c) => clean.push_str("\\r"),
            '\n' if bad(c) => clean.push_str("\\n"),
            '\t' if bad(c) => clean.push_str("\\t"),
            c if bad(c) => push_escape(&mut clean, c),
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// Appends a character as its number, as in `\u{1b}`.
pub(crate) fn push_escape(text: &mut String, c: char) {
    // Writing to a String does not fail.
    let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
}

/// Returns `true` for a character that a reader does not see, or sees something else for: control characters, marks
/// that reorder text, and characters that show nothing. The zero-width joiner and non-joiner do not count, because
/// words and emoji of several scripts need them.
#[must_use]
pub(crate) fn is_unseen(c: char) -> bool {
    // Control characters include the escape character and the C1 codes, which begin terminal commands.
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns `true` for a character that a reader passes over: those of [`is_unseen`], the joiners and variation
/// selectors, and blanks that Unicode does not call white space.
#[must_use]
pub(crate) fn is_ignorable(c: char) -> bool {
    is_unseen(c)
        || is_joiner(c)
        || is_selector(c)
        || matches!(
            c,
            '\u{34f}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{2800}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fff8}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
        )
}

const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

const fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180f}')
}

/// Returns a line without its invisible characters, except tabs. A joiner stays only between two letters or emoji that
/// can need it, a variation selector only after one.
#[must_use]
pub(crate) fn strip_invisible(line: &str) -> Cow<'_, str> {
    // Nearly all lines are plain ASCII.
    if line.bytes().all(|byte| byte == b'\t' || byte == b' ' || byte.is_ascii_graphic()) {
        return Cow::Borrowed(line);
    }
    // Only characters outside ASCII are joined or varied. Between ASCII letters a joiner could only hide a word from a
    // search.
    let carries = |c: char| !c.is_ascii() && !c.is_whitespace() && !is_ignorable(c);
    let mut kept = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        let before = kept.chars().next_back();
        let stays = match c {
            '\t' => true,
            c if is_joiner(c) => {
                before.is_some_and(|before| carries(before) || is_selector(before))
                    && letters.peek().is_some_and(|after| carries(*after))
            }
            c if is_selector(c) => before.is_some_and(carries),
            c => !is_ignorable(c),
        };
        if stays {
            kept.push(c);
        }
    }
    Cow::Owned(kept)
}

/// Decodes `%XX` to the byte it stands for. Anything else stays as it is.
pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            plain.push(byte);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Returns `true` for a character that some program or reader treats as the end of a line.
#[must_use]
pub(crate) const fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_left_alone() {
        assert!(matches!(block("안녕 – grüße 👩‍👩‍👧\n\tcode"), Cow::Borrowed(_)));
        assert_eq!(label("안녕 – grüße", 100), "안녕 – grüße");
    }

    #[test]
    fn invisible_characters_are_recognised() {
        for c in "\0\n\u{1b}\u{7f}\u{9b}\u{ad}\u{200b}\u{202e}\u{2028}\u{2066}\u{feff}\u{e0041}".chars() {
            assert!(is_unseen(c), "{c:?}");
        }
        for c in "a é한 '\"\\😀\u{200d}\u{200c}\u{301}\u{fe0f}".chars() {
            assert!(!is_unseen(c), "{c:?}");
        }
    }

    #[test]
    fn a_line_keeps_the_joiners_that_it_needs_and_no_others() {
        for needed in ["👩\u{200d}❤\u{fe0f}\u{200d}👩", "می\u{200c}خواهم", "क्\u{200d}ष", "a\tb"]
        {
            assert_eq!(strip_invisible(needed), needed);
        }
        for (line, seen) in [
            ("\u{200d}## a", "## a"),
            ("\u{2800}#\u{fe0f}# a", "## a"),
            ("fl\u{200d}ock\u{34f}-file", "flock-file"),
            ("😀\u{fe0f}\u{fe01}\u{fe02}", "😀\u{fe0f}"),
            ("é\u{200d} b\u{200c}", "é b"),
        ] {
            assert_eq!(strip_invisible(line), seen, "{line:?}");
        }
    }

    #[test]
    fn control_sequences_are_escaped() {
        let hostile = "\x1b[2J\x1b]0;title\x07\u{9b}31m\r\x7f\u{202e}txt";
        let clean = block(hostile);
        assert!(!clean.chars().any(is_unseen), "{clean:?}");
        assert_eq!(clean, "\\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{9b}31m\\r\\u{7f}\\u{202e}txt");
        assert_eq!(inline("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(block("a\u{2028}b\u{85}c\u{e0041}"), "a\\u{2028}b\\u{85}c\\u{e0041}");
    }

    #[test]
    fn a_label_is_one_short_line() {
        assert_eq!(
            label("  fix\nthe \u{2028}\u{b}build\u{202e} \u{1b}[31mnow\u{1b} \0 ", 100),
            "fix the build [31mnow"
        );
        assert_eq!(label("one two three", 7), "one two");
        assert_eq!(label("one two three", 8), "one two");
        assert_eq!(label("one two three", 9), "one two t");
        assert_eq!(label("äöü", 2), "äö");
        assert_eq!(label(" \n\t", 10), "");
        assert_eq!(label("x", 0), "");
    }

    #[test]
    fn a_summary_shows_that_something_was_cut_off() {
        assert_eq!(summary("fix\n the\u{202e} build", 13), "fix the build");
        assert_eq!(summary("fix\n the\u{202e} build", 12), "fix the bui…");
        assert_eq!(summary(&"äöü ".repeat(1 << 20), 6), "äöü ä…");
        assert_eq!(summary(" \u{200b}\n", 10), "");
        // What follows a long blank is cut off as well.
        let blank = " \u{200b}".repeat(1 << 10);
        assert_eq!(summary(&format!("fix{blank}the build"), 12), "fix…");
        assert_eq!(summary(&format!("{blank}fix"), 12), "…");
        assert_eq!(summary(&format!("fix{blank}"), 12), "fix");
        assert_eq!(summary(&format!("fix{}the", " ".repeat(189)), 12), "fix…");
        assert_eq!(summary("x", 0), "");
    }
}
