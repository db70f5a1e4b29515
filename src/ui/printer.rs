//! The printer: it writes data to stdout and messages to stderr, and decides how much is written.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use indicatif::MultiProgress;
use serde::Serialize;

use super::failure::is_command;
use super::{Failure, Progress, StyledLine, Table, TextStyle};
use crate::env;

/// The use of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// Only on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The output options of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputOptions {
    /// Prints one JSON value on stdout instead of text for people.
    pub json: bool,
    /// Prints no messages, only data, warnings and errors.
    pub quiet: bool,
    /// Number of `-v` options.
    pub verbose: u8,
    /// The colour setting of the command line.
    pub color: Color,
}

/// Writes all output of a command. If the reader of stdout has gone away, the rest is dropped without an error.
#[derive(Debug)]
pub(crate) struct Printer {
    options: OutputOptions,
    color_out: bool,
    color_err: bool,
    bars: Option<MultiProgress>,
    /// The first error of writing to stdout.
    write_error: OnceLock<io::Error>,
}

impl Printer {
    /// Creates a printer for the stdout and stderr of this process.
    #[must_use]
    pub(crate) fn new(options: OutputOptions) -> Self {
        let dumb = env::TERM.get().is_some_and(|term| term == "dumb");
        let color = |terminal: bool| match options.color {
            Color::Always => true,
            Color::Never => false,
            // Any value of NO_COLOR that is not empty counts.
            Color::Auto => terminal && !dumb && env::NO_COLOR.get_os().is_none(),
        };
        let talks = !options.quiet && !options.json;
        // The bars are drawn on stderr, so that stdout can be redirected while they are visible.
        let bars = (talks && io::stderr().is_terminal() && !dumb && !env::NO_PROGRESS.is_on())
            .then(MultiProgress::new);
        Self {
            options,
            color_out: color(io::stdout().is_terminal()),
            color_err: color(io::stderr().is_terminal()),
            bars,
            write_error: OnceLock::new(),
        }
    }

    /// Returns `true` if `--json` was given.
    #[must_use]
    pub(crate) const fn is_json(&self) -> bool {
        self.options.json
    }

    /// Returns `true` if text on stdout is coloured.
    #[must_use]
    pub(crate) const fn is_colored(&self) -> bool {
        self.color_out
    }

    /// Writes a line of data to stdout.
    pub(crate) fn line(&self, line: impl Into<StyledLine>) {
        self.out_line(line.into().render(self.color_out));
    }

    /// Writes a table to stdout.
    pub(crate) fn table(&self, table: &Table) {
        self.out_line(table.render(self.color_out, io::stdout().is_terminal()));
    }

    /// Writes a value as one indented JSON document to stdout.
    pub(crate) fn json(&self, value: &impl Serialize) {
        self.out_json(serde_json::to_string_pretty(value));
    }

    /// Writes a value as JSON if `--json` was given. People get a message by [`Self::say`], which is silent then.
    pub(crate) fn if_json(&self, value: &impl Serialize) {
        if self.options.json {
            self.json(value);
        }
    }

    /// Writes the result of a command to stdout: the value as JSON with `--json`, otherwise the line.
    pub(crate) fn result(&self, value: &impl Serialize, line: impl Into<StyledLine>) {
        if self.options.json { self.json(value) } else { self.line(line) }
    }

    /// Writes a list to stdout: the value as JSON with `--json`, otherwise the table. If it has no rows, says `none`.
    pub(crate) fn list(&self, value: &impl Serialize, table: &Table, none: impl Into<StyledLine>) {
        if self.options.json {
            self.json(value);
        } else if table.is_empty() {
            self.say(none);
        } else {
            self.table(table);
        }
    }

    /// Writes a value as one line of JSON to stdout, for streams of values.
    pub(crate) fn json_line(&self, value: &impl Serialize) {
        self.out_json(serde_json::to_string(value));
    }

    /// Writes a piece of text as it arrives and flushes it. It adds no newline. Control characters are escaped.
    pub(crate) fn stream(&self, piece: &str) {
        self.out(crate::clean::block(piece).as_bytes());
    }

    /// Writes bytes to stdout unchanged, such as a script or a value for a pipe.
    ///
    /// Never use it for text of an agent or a model, which could control the terminal.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.out(bytes);
    }

    /// Writes a JSON document of another program byte for byte.
    ///
    /// On a terminal, characters that the terminal would not show as they are become JSON escapes, and a newline
    /// follows.
    pub(crate) fn document(&self, json: &[u8]) {
        if !io::stdout().is_terminal() {
            self.out(json);
            return;
        }
        self.out_line(seen(String::from_utf8_lossy(json).into_owned()));
    }

    /// Writes a message for a person to stderr. `-q` and `--json` suppress it.
    pub(crate) fn say(&self, line: impl Into<StyledLine>) {
        if !self.options.quiet && !self.options.json {
            self.err(&line.into());
        }
    }

    /// Writes a detail for a person to stderr. Only `-v` shows it.
    pub(crate) fn detail(&self, line: impl Into<StyledLine>) {
        if self.options.verbose > 0 && !self.options.json {
            self.err(&line.into());
        }
    }

    /// Writes a prompt for input to stderr, without a newline.
    pub(crate) fn prompt(&self, text: &str) {
        // If stderr is gone, nobody can answer.
        drop(write!(io::stderr().lock(), "{}", crate::clean::inline(text)));
    }

    /// Writes a warning to stderr. No option suppresses it.
    pub(crate) fn warn(&self, text: &str) {
        self.err(&StyledLine::new().with(TextStyle::Warn, "warning").plain(format!(": {text}")));
    }

    /// Reports the failure of a command: on stderr for people, on stdout as JSON for programs.
    pub(crate) fn fail(&self, failure: &Failure) {
        if self.options.json {
            self.json(&failure.to_json());
            return;
        }
        self.error_line(&failure.message);
        for cause in &failure.causes {
            self.err(&StyledLine::new().with(TextStyle::Dim, "  caused by").plain(format!(": {cause}")));
        }
        if let Some(hint) = &failure.hint {
            let mut line = StyledLine::new().plain("\n").with(TextStyle::Accent, "hint").plain(": ");
            line = if is_command(hint) {
                line.plain("run ").accent(format!("`{hint}`"))
            } else {
                line.plain(hint.clone())
            };
            self.err(&line);
        }
    }

    /// Shows that long work has begun: with a bar on a terminal, with plain lines elsewhere.
    #[must_use]
    pub(crate) fn progress(&self, what: &str) -> Progress {
        let silent = self.options.quiet || self.options.json;
        Progress::new(what, self.bars.as_ref(), silent)
    }

    /// Returns the first error of writing to stdout. A closed pipe does not count as an error.
    #[must_use]
    pub(crate) fn write_error(&self) -> Option<&io::Error> {
        self.write_error.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// Returns `true` if writing to stdout has failed, so that a command which follows a stream can end.
    #[must_use]
    pub(crate) fn closed(&self) -> bool {
        self.write_error.get().is_some()
    }

    fn out_json(&self, json: serde_json::Result<String>) {
        match json {
            Ok(text) => self.out_line(seen(text)),
            Err(error) => self.remember(error.into()),
        }
    }

    fn out_line(&self, mut text: String) {
        text.push('\n');
        self.out(text.as_bytes());
    }

    fn out(&self, bytes: &[u8]) {
        // After the first error nothing more is written: a reader must not get a text with a gap.
        if self.closed() {
            return;
        }
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        // Without suspending the bars, their next redraw would overwrite the line.
        let written = match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        };
        if let Err(error) = written {
            self.remember(error);
        }
    }

    fn err(&self, line: &StyledLine) {
        let mut text = line.render(self.color_err);
        text.push('\n');
        // If stderr is gone, nobody can be told.
        let write = || {
            let _ = io::stderr().lock().write_all(text.as_bytes());
        };
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    /// Reports a command line that clap rejected, in clap's words.
    pub(crate) fn usage(&self, text: &str) {
        let text = text.trim_end();
        match text.strip_prefix("error: ") {
            Some(rest) => self.error_line(rest),
            None => self.err(&text.into()),
        }
    }

    fn error_line(&self, message: &str) {
        self.err(&StyledLine::new().with(TextStyle::Bad, "error").plain(format!(": {message}")));
    }

    fn remember(&self, error: io::Error) {
        // Only the first one is kept: the later ones follow from it.
        let _ = self.write_error.set(error);
    }
}

/// Escapes the characters of a JSON text that a terminal would not show as they are. The JSON keeps its meaning.
fn seen(json: String) -> String {
    use std::fmt::Write as _;
    let is_hidden = |c: char| c != '\n' && crate::clean::is_unseen(c);
    if !json.contains(is_hidden) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) {
            // JSON escapes hold UTF-16 units, so a character above U+FFFF needs two of them.
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a `String` can't fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_escaped_and_keeps_its_meaning() {
        let value = serde_json::json!({"a": "x\u{202e}y\u{9b}2K\u{7f}\u{e0041}", "b": ["plain\nü\t"]});
        let text = seen(serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| c != '\n' && crate::clean::is_unseen(c)), "{text:?}");
        assert!(text.contains(r"x\u202ey\u009b2K\u007f\udb40\udc41"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
