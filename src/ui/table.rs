//! Tables for people: a header, rows, two spaces between columns, no borders.

use comfy_table::{Attribute, Cell, ContentArrangement};

use super::TextStyle;
use crate::clean;

/// Rows below a header. Control characters in cells are escaped when the table is rendered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<(TextStyle, String)>>,
}

impl Table {
    #[must_use]
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| (TextStyle::Plain, cell.into())).collect());
    }

    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row of cells, each with a tone.
    pub(crate) fn styled_row(&mut self, cells: Vec<(TextStyle, String)>) {
        self.rows.push(cells);
    }

    /// Renders the table. On a terminal it is fitted to the width; elsewhere each row is exactly one line.
    #[must_use]
    pub(crate) fn render(&self, color: bool, terminal: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        // comfy-table asks the terminal for its width in this mode.
        if terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            // Scripts read a row as a line, so cells must not be wrapped to some guessed width.
            table.force_no_tty();
        }
        // Without this comfy-table leaves colours out when it sees no terminal, also with `--color always`.
        if color {
            table.enforce_styling();
        }
        table.set_header(self.header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
        for row in &self.rows {
            table.add_row(row.iter().map(|(tone, text)| cell(*tone, &clean::inline(text))));
        }
        for column in table.column_iter_mut() {
            // No padding on the left keeps the first column at the left edge.
            column.set_padding((0, 2));
        }
        table.trim_fmt()
    }
}

fn cell(tone: TextStyle, text: &str) -> Cell {
    let cell = Cell::new(text);
    match tone {
        TextStyle::Plain => cell,
        TextStyle::Good => cell.fg(comfy_table::Color::DarkGreen),
        TextStyle::Warn => cell.fg(comfy_table::Color::DarkYellow),
        TextStyle::Bad => cell.fg(comfy_table::Color::DarkRed),
        TextStyle::Accent => cell.fg(comfy_table::Color::DarkCyan),
        TextStyle::Dim => cell.add_attribute(Attribute::Dim),
        TextStyle::Strong => cell.add_attribute(Attribute::Bold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_without_control_characters() {
        let mut table = Table::new(&["AGENT", "ROLE"]);
        table.row(["coder", "worker"]);
        table.row(["a\x1b[2J", "line\nbreak"]);
        assert_eq!(
            table.render(false, false),
            "AGENT       ROLE\ncoder       worker\na\\u{1b}[2J  line\\nbreak"
        );
    }
}
