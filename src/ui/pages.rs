//! A long text on a terminal, shown page by page, because a reader misses what has scrolled away.

use super::{Failure, Line, Printer, Tone, ask};

/// A line with a name before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name, padded with spaces. It is blank if the line continues the one before.
    pub name: String,
    pub text: String,
}

/// Number of lines of a page that are kept free for the question.
const QUESTION: usize = 4;

/// Prints all rows, page by page if a person can be asked. Returns `true` if the person saw the last page.
///
/// # Errors
///
/// Returns an error if the person cancels, or if the terminal can't be read.
pub fn show(printer: &Printer, rows: &[Row], may_ask: bool) -> Result<bool, Failure> {
    if !may_ask || !console::Term::stdout().is_term() {
        rows.iter().for_each(|row| print(printer, row));
        return Ok(true);
    }
    // A terminal may report a size of zero. The minimums keep a page usable.
    let (height, width) = console::Term::stdout().size();
    let height = usize::from(height).saturating_sub(QUESTION).max(4);
    let pages = paged(rows, height, usize::from(width).max(20));
    for (at, page) in pages.iter().enumerate() {
        let number = at + 1;
        if at > 0 && !ask::confirm(&format!("Show page {number} of {}?", pages.len()), true)? {
            return Ok(false);
        }
        page.iter().for_each(|row| print(printer, row));
    }
    Ok(true)
}

fn print(printer: &Printer, row: &Row) {
    printer.line(Line::new().with(Tone::Strong, row.name.clone()).plain(row.text.clone()));
}

/// Splits the rows into pages of at most `height` terminal lines. A row that is longer than a line continues in the
/// next.
fn paged(rows: &[Row], height: usize, width: usize) -> Vec<Vec<Row>> {
    let mut pages: Vec<Vec<Row>> = vec![Vec::new()];
    for row in rows {
        let room = width.saturating_sub(row.name.chars().count()).max(1);
        // The rows are cut here and not by the terminal, because the count of lines on a page must be exact.
        let letters: Vec<char> = row.text.chars().collect();
        let mut pieces = letters.chunks(room).map(|piece| piece.iter().collect::<String>());
        let mut name = row.name.clone();
        let mut piece = pieces.next().unwrap_or_default();
        loop {
            if pages.last().is_none_or(|page| page.len() == height) {
                pages.push(Vec::new());
            }
            let blank = " ".repeat(row.name.chars().count());
            if let Some(page) = pages.last_mut() {
                page.push(Row { name: std::mem::replace(&mut name, blank), text: piece });
            }
            match pieces.next() {
                Some(next) => piece = next,
                None => break,
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_and_no_page_is_longer_than_the_terminal() {
        let row = |name: &str, text: &str| Row { name: format!("{name:<10}"), text: text.to_owned() };
        let mut rows = vec![row("request", "r-1"), row("empty", "")];
        rows.extend((0..50).map(|number| row("", &format!("{number} ").repeat(20))));
        rows.push(row("body", &"x".repeat(5000)));
        let pages = paged(&rows, 10, 40);
        assert!(pages.iter().all(|page| page.len() <= 10));
        assert!(pages.iter().flatten().all(|row| row.name.len() + row.text.len() <= 40));
        let all =
            |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.text.as_str()).collect::<String>();
        assert_eq!(all(&mut pages.iter().flatten()), all(&mut rows.iter()));
        assert_eq!(pages[0][0], rows[0]);
        assert_eq!(paged(&rows[..2], 10, 40).len(), 1);
    }
}
