//! Turns bytes of any size and kind into text for a model: valid UTF-8 without control sequences, cut to a limit, with
//! a note of how much was cut.

pub(crate) use crate::clean::is_unseen;
use crate::sandbox::Output;

/// Returns the longest prefix of `text` that has at most `limit` bytes and ends between two characters.
#[must_use]
pub fn start(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Returns the longest suffix of `text` that has at most `limit` bytes and begins between two characters.
#[must_use]
pub fn end(text: &str, limit: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..]
}

/// Returns `text`, or its start and end with a line between them that says how many bytes are missing.
///
/// The limit applies to the kept text. The line is not included.
#[must_use]
pub(crate) fn middle_cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let (head, tail) = (start(text, limit.div_ceil(2)), end(text, limit / 2));
    join_with_note(head, tail, (text.len() - head.len() - tail.len()) as u64)
}

/// Returns a command's output as text of at most `limit` bytes: head and tail, with a line between them that says how
/// many bytes are missing.
#[must_use]
pub fn output(output: &Output, limit: usize) -> String {
    let kept = (output.head.len() + output.tail.len()) as u64;
    if output.total <= kept {
        let mut whole = output.head.clone();
        whole.extend_from_slice(&output.tail);
        let text = harmless(&String::from_utf8_lossy(&whole));
        if text.len() <= limit {
            return text;
        }
        // All bytes were kept, but their text is too long: both halves of the bytes are cut like head and tail.
        let half = whole.len() / 2;
        return truncate_parts(&whole[..half], &whole[half..], whole.len() as u64, limit);
    }
    truncate_parts(&output.head, &output.tail, output.total, limit)
}

/// Cuts head and tail until their text fits.
///
/// The conversion to text can make bytes longer (an invalid byte becomes three). The cut is therefore made in the
/// bytes, so that the number of missing bytes is exact.
fn truncate_parts(head: &[u8], tail: &[u8], total: u64, limit: usize) -> String {
    let (head, head_text) = fit(trim_partial_end(head), limit.div_ceil(2), |bytes, excess| {
        trim_partial_end(&bytes[..bytes.len() - excess])
    });
    let (tail, tail_text) =
        fit(trim_partial_start(tail), limit / 2, |bytes, excess| trim_partial_start(&bytes[excess..]));
    join_with_note(&head_text, &tail_text, total.saturating_sub((head.len() + tail.len()) as u64))
}

/// Shortens bytes until their text fits, and returns them with the text. `shorten` drops that many bytes.
fn fit<'b>(
    mut bytes: &'b [u8],
    limit: usize,
    shorten: impl Fn(&'b [u8], usize) -> &'b [u8],
) -> (&'b [u8], String) {
    loop {
        let text = harmless(&String::from_utf8_lossy(bytes));
        match text.len().checked_sub(limit) {
            None | Some(0) => return (bytes, text),
            Some(over) => bytes = shorten(bytes, bytes_to_drop(over, bytes)),
        }
    }
}

/// Returns the number of bytes to drop so that the text becomes `over` bytes shorter.
///
/// One byte becomes at most three, so a third never drops too much. The minimum avoids dropping single bytes if they
/// produce no text.
fn bytes_to_drop(over: usize, bytes: &[u8]) -> usize {
    over.div_ceil(3).max(64).min(bytes.len())
}

fn join_with_note(head: &str, tail: &str, cut: u64) -> String {
    let before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    // The note always stands on a line of its own.
    let after = if tail.starts_with('\n') { "" } else { "\n" };
    format!("{head}{before}[… {cut} bytes cut here …]{after}{tail}")
}

/// Removes an incomplete character at the end. The command printed the whole character, so its part counts as cut.
fn trim_partial_end(bytes: &[u8]) -> &[u8] {
    // Four bytes are the longest character. They may also begin in the middle of one, so an error alone proves nothing.
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(4)..]) {
        Ok(_) => bytes,
        Err(_) => {
            let torn = (1..=3.min(bytes.len())).find(|back| {
                let from = bytes.len() - back;
                bytes[from] >= 0xc0
                    && std::str::from_utf8(&bytes[from..]).is_err_and(|error| error.error_len().is_none())
            });
            &bytes[..bytes.len() - torn.unwrap_or(0)]
        }
    }
}

/// Removes an incomplete character at the start.
fn trim_partial_start(bytes: &[u8]) -> &[u8] {
    let torn = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[torn..]
}

/// Length of the longest escape sequence that is removed. A longer one is shown as it is.
const MAX_SEQUENCE: usize = 512;

/// Returns the text without anything that a terminal would interpret.
///
/// Colour and cursor sequences are removed, and a carriage return becomes a line break. Every other control character
/// except newline and tab becomes its visible symbol.
#[must_use]
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // An incomplete sequence is not removed: its escape character becomes a visible symbol below.
        if c == '\u{1b}'
            && let Some(length) = escape_len(rest)
        {
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' | '\t' => out.push(c),
            '\r' => {
                if !rest.starts_with('\n') {
                    out.push('\n');
                }
            }
            '\u{7f}' => out.push('\u{2421}'),
            '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
            // C1 control characters, which some terminals interpret too.
            '\u{80}'..='\u{9f}' => out.push('\u{fffd}'),
            _ => out.push(c),
            // Programs print a bare carriage return to redraw a line, such as a progress bar.
        }
    }
    out
}

/// Returns the length of the escape sequence that `text` begins with, if it is complete.
fn escape_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.get(1)? {
        // Control sequences: parameters, then one final byte.
        b'[' => {
            let last = bytes.iter().take(MAX_SEQUENCE).skip(2).position(|b| !(0x20..=0x3f).contains(b))? + 2;
            (0x40..=0x7e).contains(&bytes[last]).then_some(last + 1)
        }
        // Strings for the terminal, such as window title, link and clipboard.
        b']' | b'P' | b'_' | b'^' | b'X' => {
            let mut at = 2;
            while at < bytes.len().min(MAX_SEQUENCE) {
                match bytes[at] {
                    0x07 => return Some(at + 1),
                    0x1b if bytes.get(at + 1) == Some(&b'\\') => return Some(at + 2),
                    b'\n' | 0x1b => return None,
                    _ => at += 1,
                }
            }
            None
        }
        // Selection of a character set.
        b'(' | b')' => bytes.get(2).filter(|b| b.is_ascii_graphic()).map(|_| 3),
        // Single commands: cursor save and restore, keypad mode, scrolling, reset.
        b'7' | b'8' | b'=' | b'>' | b'M' | b'c' => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(head: &[u8], tail: &[u8], total: u64) -> Output {
        Output { head: head.to_vec(), tail: tail.to_vec(), total }
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(start("añb", 2), "a");
        assert_eq!(end("añb", 2), "b");
        assert_eq!(middle_cut("abcdef", 6), "abcdef");
        assert_eq!(middle_cut("abcdefgh", 4), "ab\n[… 4 bytes cut here …]\ngh");
    }

    #[test]
    fn whole_output_is_joined_before_it_is_read() {
        // The head ends and the tail begins with half of the same character.
        assert_eq!(output(&raw(b"a\xc3", b"\xb1b", 4), 100), "añb");
        assert_eq!(output(&raw(b"a\xff", b"", 2), 100), "a\u{fffd}");
        assert_eq!(output(&raw(b"", b"", 0), 100), "");
    }

    #[test]
    fn what_was_cut_is_counted() {
        assert_eq!(
            output(&raw(b"head\n", b"tail\n", 1_000_000_010), 100),
            "head\n[… 1000000000 bytes cut here …]\ntail\n"
        );
        // The incomplete character on each side counts as cut too.
        assert_eq!(output(&raw(b"ab\xe2\x82", b"\x82\xaccd", 100), 100), "ab\n[… 96 bytes cut here …]\ncd");
        let text = output(&raw(&[0xff; 900], &[0xff; 900], 1800), 300);
        assert!(text.len() < 340, "{}", text.len());
        assert!(text.contains("[… 1700 bytes cut here …]"), "{text}");
    }

    #[test]
    fn nothing_is_left_for_a_terminal() {
        for (text, want) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[Hx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;aGk=", "␛]52;c;aGk="),
            ("10%\r20%\r\ndone", "10%\n20%\ndone"),
            ("a\u{8}b\0\u{7f}\u{9b}31m", "a␈b␀␡\u{fffd}31m"),
            ("\u{1b}", "␛"),
            ("\u{1b}[", "␛["),
            ("\u{1b}[é", "␛[é"),
            ("\u{1b}(B", ""),
        ] {
            assert_eq!(harmless(text), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_become_bounded_harmless_text(
            head in proptest::collection::vec(any::<u8>(), 0..300),
            tail in proptest::collection::vec(any::<u8>(), 0..300),
            more in 0u64..1000,
            limit in 0usize..400,
        ) {
            let total = (head.len() + tail.len()) as u64 + more;
            let text = output(&Output { head, tail, total }, limit);
            prop_assert!(text.len() <= limit + 60, "{} for {limit}", text.len());
            prop_assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }

        #[test]
        fn harmless_never_fails(text in "[\u{1b}\\[\\]0-9;a-zé\u{7}\\\\\r\n]{0,40}") {
            let out = harmless(&text);
            prop_assert!(out.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }
    }
}
