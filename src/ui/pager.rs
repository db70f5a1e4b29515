//! A long text on a terminal, shown page by page, because a reader misses what has scrolled away.

use console::measure_text_width;

use super::{Failure, Printer, StyledLine, TextStyle, ask};

/// A line with a name before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagerRow {
    /// The name, padded with spaces. It is blank if the line continues the one before.
    pub name: String,
    pub text: String,
}

/// Number of lines of a page that are kept free for the question.
const QUESTION_LINES: usize = 4;

/// Prints all rows, page by page if a person can be asked. Returns `true` if the person saw the last page.
///
/// # Errors
///
/// Returns an error if the person cancels, or if the terminal can't be read.
pub(crate) fn show(printer: &Printer, rows: &[PagerRow], may_ask: bool) -> Result<bool, Failure> {
    if !may_ask || !console::Term::stdout().is_term() {
        rows.iter().for_each(|row| print(printer, row));
        return Ok(true);
    }
    // A terminal may report a size of zero. The minimums keep a page usable.
    let (height, width) = console::Term::stdout().size();
    let height = usize::from(height).saturating_sub(QUESTION_LINES).max(4);
    let pages = paginate(rows, height, usize::from(width).max(20));
    for (at, page) in pages.iter().enumerate() {
        let number = at + 1;
        if at > 0 && !ask::confirm(&format!("Show page {number} of {}?", pages.len()), true)? {
            return Ok(false);
        }
        page.iter().for_each(|row| print(printer, row));
    }
    Ok(true)
}

fn print(printer: &Printer, row: &PagerRow) {
    printer.line(StyledLine::new().with(TextStyle::Strong, row.name.clone()).plain(row.text.clone()));
}

/// Splits the rows into pages of at most `height` terminal lines.
fn paginate(rows: &[PagerRow], height: usize, width: usize) -> Vec<Vec<PagerRow>> {
    wrap(rows, width).chunks(height).map(<[PagerRow]>::to_vec).collect()
}

/// Returns the rows as lines of a terminal. A row that is longer than a line continues in the next.
pub(crate) fn wrap(rows: &[PagerRow], width: usize) -> Vec<PagerRow> {
    let mut lines = Vec::new();
    for row in rows {
        let indent = measure_text_width(&row.name);
        let mut name = row.name.clone();
        for piece in pieces(&row.text, width.saturating_sub(indent)) {
            let name = std::mem::replace(&mut name, " ".repeat(indent));
            lines.push(PagerRow { name, text: piece.to_owned() });
        }
    }
    lines
}

/// Cuts a text into pieces of at most `room` columns, without losing anything. A character that is wider than that is a
/// piece of its own.
///
/// The terminal would cut it too, but then nobody knows how many lines a page has, and its beginning may scroll away.
fn pieces(text: &str, room: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (at, c) in text.char_indices() {
        // Letters of East Asia take two columns, and a combining mark takes none.
        let columns = measure_text_width(c.encode_utf8(&mut [0; 4]));
        if used + columns > room && at > start {
            pieces.push(&text[start..at]);
            (start, used) = (at, 0);
        }
        used += columns;
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_and_no_page_is_longer_than_the_terminal() {
        let row = |name: &str, text: &str| PagerRow { name: format!("{name:<10}"), text: text.to_owned() };
        let mut rows = vec![row("request", "r-1"), row("empty", "")];
        rows.extend((0..50).map(|number| row("", &format!("{number} ").repeat(20))));
        rows.push(row("body", &"x".repeat(5000)));
        let pages = paginate(&rows, 10, 40);
        assert!(pages.iter().all(|page| page.len() <= 10));
        assert!(pages.iter().flatten().all(|row| row.name.len() + row.text.len() <= 40));
        let all =
            |rows: &mut dyn Iterator<Item = &PagerRow>| rows.map(|row| row.text.as_str()).collect::<String>();
        assert_eq!(all(&mut pages.iter().flatten()), all(&mut rows.iter()));
        assert_eq!(pages[0][0], rows[0]);
        assert_eq!(paginate(&rows[..2], 10, 40).len(), 1);
    }

    #[test]
    fn a_page_counts_the_columns_of_a_terminal_and_not_letters() {
        let row = |text: &str| PagerRow { name: "reason    ".to_owned(), text: text.to_owned() };
        let long = "승인해 주세요".repeat(30);
        let marked = "e\u{301}".repeat(60);
        for text in [long.as_str(), marked.as_str(), "a한b"] {
            let pages = paginate(&[row(text)], 4, 31);
            let lines: Vec<&PagerRow> = pages.iter().flatten().collect();
            assert!(lines.iter().all(|line| measure_text_width(&line.text) <= 21), "{lines:?}");
            assert_eq!(lines.iter().map(|line| line.text.as_str()).collect::<String>(), text);
        }
        // Marks take no room and stay with their letter.
        assert_eq!(pieces(&marked, 20), [&marked[..60]; 3]);
        assert_eq!(pieces("한글", 1), ["한", "글"]);
        assert_eq!(pieces("a한", 2), ["a", "한"]);
        assert_eq!(pieces("", 5), [""]);
    }
}
