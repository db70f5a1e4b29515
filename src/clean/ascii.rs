//! Text for a person who has to decide about it: in printable ASCII only, so that nothing looks like something else.

use std::fmt::Write as _;

use unicode_script::{Script, UnicodeScript as _};

/// Length from which a run of blanks is counted instead of shown.
const MIN_COUNTED_BLANKS: usize = 3;

/// Returns the text on one line. A character outside printable ASCII is written as its number and script, as in
/// `\u{0456 Cyrillic}`. A line end, a tab and a backslash are written as `\n`, `\t` and `\\`. Three or more blanks, and
/// all blanks at the end of a line, are written as `\{12 blanks}`. Different texts always give different results.
#[must_use]
pub(crate) fn spelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            ' ' => {
                let mut run = 1;
                while letters.next_if_eq(&' ').is_some() {
                    run += 1;
                }
                // A long run could push the rest of a command out of the window. Blanks at a line's end are invisible.
                if run >= MIN_COUNTED_BLANKS || matches!(letters.peek(), None | Some('\n' | '\r')) {
                    let noun = if run == 1 { "blank" } else { "blanks" };
                    // Writing to a String does not fail.
                    let _ = write!(out, "\\{{{run} {noun}}}");
                } else {
                    out.extend(std::iter::repeat_n(' ', run));
                }
            }
            // The backslash is escaped, so that a text cannot imitate the escapes of this function.
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_graphic() => out.push(c),
            c => push_code_point(&mut out, c),
        }
    }
    out
}

/// Returns the lines of a text, each written as by [`spelled`].
pub(crate) fn spelled_lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('\n').map(spelled)
}

fn push_code_point(out: &mut String, c: char) {
    let code = u32::from(c);
    // Writing to a String does not fail.
    let _ = match c.script() {
        Script::Common | Script::Inherited | Script::Unknown => write!(out, "\\u{{{code:04x}}}"),
        script => write!(out, "\\u{{{code:04x} {}}}", script.full_name()),
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lookalike_characters_are_written_as_code_points() {
        for (text, shown) in [
            ("df -h /", "df -h /"),
            ("https://g\u{456}thub.com", "https://g\\u{0456 Cyrillic}thub.com"),
            ("a\u{2800}b\u{ffa0}c", "a\\u{2800 Braille}b\\u{ffa0 Hangul}c"),
            ("a\u{34f}b\u{200d}c\u{200b}d", "a\\u{034f}b\\u{200d}c\\u{200b}d"),
            ("a\u{a0}b\u{3000}c\u{202e}d", "a\\u{00a0}b\\u{3000}c\\u{202e}d"),
            ("\u{1b}[2J\r\u{7f}", "\\u{001b}[2J\\u{000d}\\u{007f}"),
            ("a\nb\tc\\n", "a\\nb\\tc\\\\n"),
            ("true            ; rm x", "true\\{12 blanks}; rm x"),
            ("a  b \nc ", "a  b\\{1 blank}\\nc\\{1 blank}"),
            ("\\{12 blanks}", "\\\\{12 blanks}"),
            ("안녕", "\\u{c548 Hangul}\\u{b155 Hangul}"),
        ] {
            assert_eq!(spelled(text), shown, "{text:?}");
        }
        assert_eq!(spelled_lines("a\n  b \n").collect::<Vec<_>>(), ["a", "  b\\{1 blank}", ""]);
    }

    proptest! {
        #[test]
        fn texts_that_differ_are_written_differently_and_in_printable_ascii(
            texts in prop::collection::vec("([ab \\\\{}\n\tu0]|\u{456}|\u{2800}|12 blanks){0,12}", 2..20)
        ) {
            let mut seen: HashMap<String, String> = HashMap::new();
            for text in texts {
                let shown = spelled(&text);
                prop_assert!(shown.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{shown:?}");
                if let Some(other) = seen.insert(shown, text.clone()) {
                    prop_assert_eq!(other, text);
                }
            }
        }
    }
}
