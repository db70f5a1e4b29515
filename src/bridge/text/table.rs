//! Tables, which chat platforms do not show, as blocks of code with aligned columns.

use std::fmt::Write as _;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Returns the Markdown with each table replaced by a block of code. Everything else stays as it is written.
pub(crate) fn tables_as_code(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut kept = 0;
    let mut events = Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter();
    while let Some((event, range)) = events.next() {
        if matches!(event, Event::Start(Tag::Table(_))) {
            let rows = rows(&mut (&mut events).map(|(event, _)| event));
            out.push_str(&markdown[kept..range.start]);
            // A fence longer than any run of backticks in the cells can't be closed by one of them.
            let fence = "`".repeat(longest_run(&rows).max(2) + 1);
            let _ = write!(out, "{fence}\n{}\n{fence}\n", aligned(&rows));
            kept = range.end;
        }
    }
    out.push_str(&markdown[kept..]);
    out
}

/// Reads the rows of a table whose start was read, up to its end, as plain text.
pub(super) fn rows<'e>(events: &mut impl Iterator<Item = Event<'e>>) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for event in events {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => {
                if let Some(row) = rows.last_mut() {
                    row.push(String::new());
                }
            }
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) => {
                if let Some(cell) = rows.last_mut().and_then(|row| row.last_mut()) {
                    cell.push_str(&text);
                }
            }
            Event::End(TagEnd::Table) => break,
            _ => {}
        }
    }
    rows
}

/// Returns the rows with aligned columns, and a line below the head.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |cell: &String| console::measure_text_width(cell);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(width).max().unwrap_or(0))
        .collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, &most)| cell.clone() + &" ".repeat(most - width(cell)))
            .collect();
        cells.join(" | ").trim_end().to_owned()
    };
    let rule = widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>().join("-|-");
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    if !lines.is_empty() {
        lines.insert(1, rule);
    }
    lines.join("\n")
}

fn longest_run(rows: &[Vec<String>]) -> usize {
    let runs = rows.iter().flatten().flat_map(|cell| cell.split(|c| c != '`')).map(str::len);
    runs.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_becomes_code_with_aligned_columns() {
        let text = "Before\n\n| name | 크기 |\n|---|---|\n| `a` | 1 |\n| long name | 12 |\n\nAfter *this*";
        let expected = "Before\n\n```\nname      | 크기\n----------|-----\na         | 1\nlong name | 12\n```\n\nAfter *this*";
        assert_eq!(tables_as_code(text), expected);
    }

    #[test]
    fn text_without_tables_stays_to_the_letter() {
        let text = "# A\n\n* b\n\n```\n| no | table |\n|---|---|\n```\n";
        assert_eq!(tables_as_code(text), text);
    }

    #[test]
    fn backticks_in_a_cell_do_not_end_the_code() {
        let out = tables_as_code("| a |\n|---|\n| ```` ``` ```` |\n");
        assert!(out.starts_with("````\n") && out.ends_with("````\n"), "{out}");
    }
}
