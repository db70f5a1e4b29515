//! Splits a message where a platform's limit demands it, at borders that a reader would choose.

/// Splits Markdown into parts that fit, in order. `fits` tells if a part, as the platform would show it, is within its
/// limit.
///
/// A part ends at the border of a paragraph if there is one in its second half, else at the end of a line, else between
/// words, and only within a longer word at any character. A fenced block of code that is cut is closed at the end of its
/// part, and opened again in the next one with the same language. The parts together have the words of the text; blank
/// lines at the borders go.
///
/// A single character that does not fit becomes a part nevertheless: the platform's own error is better than a lost
/// message.
pub(crate) fn split(text: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches('\n').to_owned();
    while !rest.is_empty() {
        let Some(cut) = largest_cut(&rest, &fits) else {
            parts.push(rest);
            break;
        };
        let (part, next) = apart(&rest, cut);
        parts.push(part);
        rest = next;
    }
    parts
}

/// Returns the byte at which the text is cut, so that the part before it fits. It is never 0. Returns `None` if the
/// whole text fits.
fn largest_cut(text: &str, fits: &impl Fn(&str) -> bool) -> Option<usize> {
    // The search begins small: a message of a megabyte would else be rendered whole for each of its many parts.
    let mut end = text.len().min(1024);
    loop {
        end = text.ceil_char_boundary(end);
        if !fits(&apart(text, end).0) {
            break;
        }
        if end == text.len() {
            return None;
        }
        end = text.len().min(2 * end);
    }
    let borders: Vec<usize> = text[..end].char_indices().map(|(at, _)| at).skip(1).collect();
    // A longer part is at least as long when it is rendered, so the largest one that fits is found by halving.
    let fitting = borders.partition_point(|&at| fits(&apart(text, at).0));
    let Some(&most) = borders.get(fitting.saturating_sub(1)) else {
        return (end < text.len()).then_some(end);
    };
    let window = &text[..most];
    let after =
        |found: Option<usize>| found.map(|at| at + 1).filter(|&at| at > most / 2 && fits(&apart(text, at).0));
    let border = after(paragraph_border(window));
    Some(border.or_else(|| after(window.rfind('\n'))).or_else(|| after(window.rfind(' '))).unwrap_or(most))
}

/// Returns the last border of a paragraph outside fenced code.
fn paragraph_border(window: &str) -> Option<usize> {
    let mut end = window.len();
    while let Some(at) = window[..end].rfind("\n\n") {
        if open_fence(&window[..at]).is_none() {
            return Some(at);
        }
        end = at + 1;
    }
    None
}

/// Parts a text at a byte, and closes and opens again the block of code that the cut goes through.
fn apart(text: &str, at: usize) -> (String, String) {
    let (before, after) = text.split_at(at);
    let before_lines = before.trim_end_matches('\n');
    let Some(fence) = open_fence(before) else {
        return (before_lines.to_owned(), after.trim_start_matches('\n').to_owned());
    };
    let close = fence.closing();
    if after.trim_start_matches('\n').lines().next().is_some_and(|line| fence.is_closed_by(line)) {
        // Nothing of the code is left: the closing line belongs to this part.
        let rest = after.trim_start_matches('\n');
        let rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        return (format!("{before_lines}\n{close}"), rest.trim_start_matches('\n').to_owned());
    }
    let after = after.strip_prefix('\n').unwrap_or(after);
    (format!("{before_lines}\n{close}"), format!("{}\n{after}", fence.line))
}

/// The opening line of a fenced block of code.
struct Fence<'t> {
    line: &'t str,
    mark: char,
    length: usize,
}

impl<'t> Fence<'t> {
    /// Reads an opening line, by the rules of CommonMark.
    fn opened_by(line: &'t str) -> Option<Self> {
        let (mark, length, info) = fence_line(line)?;
        // Backticks within the language would make it code within a line.
        (mark == '~' || !info.contains('`')).then_some(Self { line, mark, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        fence_line(line).is_some_and(|(mark, length, info)| {
            mark == self.mark && length >= self.length && info.trim().is_empty()
        })
    }

    fn closing(&self) -> String {
        self.mark.to_string().repeat(self.length)
    }
}

/// Returns the fence's character, its length and what follows it.
fn fence_line(line: &str) -> Option<(char, usize, &str)> {
    let inner = line.trim_start_matches(' ');
    let mark = inner.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let info = inner.trim_start_matches(mark);
    let length = inner.len() - info.len();
    (line.len() - inner.len() <= 3 && length >= 3).then_some((mark, length, info))
}

/// Returns the fence that is open at the end of a text.
fn open_fence(text: &str) -> Option<Fence<'_>> {
    let mut open: Option<Fence<'_>> = None;
    for line in text.lines() {
        match &open {
            Some(fence) if fence.is_closed_by(line) => open = None,
            Some(_) => {}
            None => open = Fence::opened_by(line),
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn within(limit: usize) -> impl Fn(&str) -> bool {
        move |part| part.chars().count() <= limit
    }

    #[test]
    fn a_text_that_fits_stays_one_part() {
        assert_eq!(split("one\n\ntwo", within(8)), ["one\n\ntwo"]);
        assert_eq!(split("", within(8)), Vec::<String>::new());
        assert_eq!(split("\n\nkept\n", within(8)), ["kept"]);
    }

    #[test]
    fn a_long_text_is_cut_between_paragraphs_then_lines_then_words() {
        assert_eq!(split("aaaa bbbb\n\ncccc dddd", within(14)), ["aaaa bbbb", "cccc dddd"]);
        assert_eq!(split("aaaa bbbb\ncccc dddd", within(14)), ["aaaa bbbb", "cccc dddd"]);
        assert_eq!(split("aaaa bbbb cccc", within(11)), ["aaaa bbbb ", "cccc"]);
        assert_eq!(split("aaaaaaaaaa", within(4)), ["aaaa", "aaaa", "aa"]);
    }

    #[test]
    fn code_that_is_cut_is_closed_and_opened_again_with_its_language() {
        let text = "```rust\nlet a = 1;\nlet b = 2;\nlet c = 3;\n```\nafter";
        let parts = split(text, within(36));
        assert_eq!(parts, ["```rust\nlet a = 1;\nlet b = 2;\n```", "```rust\nlet c = 3;\n```\nafter"]);
    }

    #[test]
    fn a_closing_fence_is_not_left_alone() {
        let parts = split("```\naaaaaaaa\nbbbbbbbb\n```\n\nafter and more", within(26));
        assert_eq!(parts, ["```\naaaaaaaa\nbbbbbbbb\n```", "after and more"]);
    }

    #[test]
    fn a_character_that_never_fits_is_a_part_of_its_own() {
        assert_eq!(split("ab", |_| false), ["a", "b"]);
    }

    /// Returns the words of the text without lines of fences.
    fn words(text: &str) -> String {
        text.lines()
            .filter(|line| fence_line(line).is_none())
            .flat_map(str::chars)
            .filter(|c| !c.is_whitespace())
            .collect()
    }

    proptest! {
        #[test]
        fn parts_fit_and_lose_no_word(
            blocks in prop::collection::vec(prop_oneof![
                "[a-z가é ]{1,60}",
                "[a-z\n]{1,80}",
                "```[a-z]{0,4}\n[a-z \n]{0,80}\n```",
            ], 1..12),
            limit in 20..90_usize,
        ) {
            let text = blocks.join("\n\n");
            let parts = split(&text, within(limit));
            for part in &parts {
                prop_assert!(part.chars().count() <= limit, "{part:?}");
                prop_assert!(open_fence(part).is_none(), "{part:?}");
                prop_assert!(!part.is_empty());
            }
            prop_assert_eq!(parts.iter().map(|part| words(part)).collect::<String>(), words(&text));
        }
    }
}
