//! Decides what goes where: data to stdout, talk to stderr, and how much of it.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::MultiProgress;
use serde::Serialize;

use super::{Failure, Line, Progress, Table, Tone};
use crate::env;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal that does not ask for none.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How a command wants its output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// One JSON value on stdout instead of text for people.
    pub json: bool,
    /// No talk, only data, warnings and errors.
    pub quiet: bool,
    /// How much more talk than usual.
    pub verbose: u8,
    /// When to use colour.
    pub color: Color,
}

/// Writes everything that a command says. A reader that has gone away is not an error: the rest is dropped.
#[derive(Debug)]
pub struct Printer {
    options: Options,
    color_out: bool,
    color_err: bool,
    bars: Option<MultiProgress>,
    trouble: Mutex<Option<io::Error>>,
}

impl Printer {
    /// A printer for this process' stdout and stderr.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let dumb = env::TERM.get().is_some_and(|term| term == "dumb");
        let color = |terminal: bool| match options.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !dumb && env::NO_COLOR.get_os().is_none(),
        };
        let talks = !options.quiet && !options.json;
        let bars = (talks && io::stderr().is_terminal() && !dumb && !env::NO_PROGRESS.is_on())
            .then(MultiProgress::new);
        Self {
            options,
            color_out: color(io::stdout().is_terminal()),
            color_err: color(io::stderr().is_terminal()),
            bars,
            trouble: Mutex::new(None),
        }
    }

    /// Whether a program reads along.
    #[must_use]
    pub const fn json_wanted(&self) -> bool {
        self.options.json
    }

    /// How much more talk than usual was asked for.
    #[must_use]
    pub const fn verbose(&self) -> u8 {
        self.options.verbose
    }

    /// Writes a line of data.
    pub fn line(&self, line: impl Into<Line>) {
        let mut text = line.into().render(self.color_out);
        text.push('\n');
        self.out(text.as_bytes());
    }

    /// Writes a table of data.
    pub fn table(&self, table: &Table) {
        let mut text = table.render(self.color_out, io::stdout().is_terminal());
        text.push('\n');
        self.out(text.as_bytes());
    }

    /// Writes a value for programs, as one JSON document.
    pub fn json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value).map(seen) {
            Ok(mut text) => {
                text.push('\n');
                self.out(text.as_bytes());
            }
            Err(error) => self.remember(error.into()),
        }
    }

    /// Writes a value for programs on a line of its own, for a stream of them.
    pub fn json_line(&self, value: &impl Serialize) {
        match serde_json::to_string(value).map(seen) {
            Ok(mut text) => {
                text.push('\n');
                self.out(text.as_bytes());
            }
            Err(error) => self.remember(error.into()),
        }
    }

    /// Writes a piece of text as it arrives, with no newline of our own, and flushes it. Control characters
    /// are spelled out.
    pub fn stream(&self, piece: &str) {
        self.out(crate::clean::block(piece).as_bytes());
    }

    /// Writes bytes that are data as they are: a script, a value somebody pipes on. Never for what an agent
    /// or a model wrote.
    pub fn raw(&self, bytes: &[u8]) {
        self.out(bytes);
    }

    /// Writes a JSON document that was made for somebody else, byte for byte. On a terminal what it would not show as it
    /// is, is escaped, and a line ends after it.
    pub fn document(&self, json: &[u8]) {
        if !io::stdout().is_terminal() {
            self.out(json);
            return;
        }
        let mut text = seen(String::from_utf8_lossy(json).into_owned());
        text.push('\n');
        self.out(text.as_bytes());
    }

    /// Tells a person something, on stderr; not with `-q` or `--json`.
    pub fn say(&self, line: impl Into<Line>) {
        if !self.options.quiet && !self.options.json {
            self.err(&line.into());
        }
    }

    /// Tells a person who asked for more with `-v`.
    pub fn detail(&self, line: impl Into<Line>) {
        if self.options.verbose > 0 && !self.options.json {
            self.err(&line.into());
        }
    }

    /// Asks for a line of input, on stderr and without a newline.
    pub fn prompt(&self, text: &str) {
        // Where stderr is gone there is nobody left to ask.
        drop(write!(io::stderr().lock(), "{}", crate::clean::inline(text)));
    }

    /// Warns, on stderr, always.
    pub fn warn(&self, text: &str) {
        self.err(&Line::new().with(Tone::Warn, "warning").plain(format!(": {text}")));
    }

    /// Reports how a command failed: on stderr for people, on stdout for programs.
    pub fn fail(&self, failure: &Failure) {
        if self.options.json {
            self.json(&failure.to_json());
            return;
        }
        self.err(&Line::new().with(Tone::Bad, "error").plain(format!(": {}", failure.message)));
        for cause in &failure.causes {
            self.err(&Line::new().with(Tone::Dim, "  caused by").plain(format!(": {cause}")));
        }
        if let Some(hint) = &failure.hint {
            let mut line = Line::new().plain("\n").with(Tone::Accent, "hint").plain(": ");
            line = if is_command(hint) {
                line.plain("run ").accent(format!("`{hint}`"))
            } else {
                line.plain(hint.clone())
            };
            self.err(&line);
        }
    }

    /// Shows that something long is under way: a bar on a terminal, plain lines elsewhere.
    #[must_use]
    pub fn progress(&self, what: &str) -> Progress {
        let silent = self.options.quiet || self.options.json;
        Progress::new(what, self.bars.as_ref(), silent)
    }

    /// What went wrong with writing, once. A closed pipe is nothing wrong.
    #[must_use]
    pub fn take_trouble(&self) -> Option<io::Error> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// Whether nobody reads stdout any more, so that a command which follows something can end.
    #[must_use]
    pub fn closed(&self) -> bool {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn out(&self, bytes: &[u8]) {
        if self.closed() {
            return;
        }
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        let written = match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        };
        if let Err(error) = written {
            self.remember(error);
        }
    }

    fn err(&self, line: &Line) {
        let mut text = line.render(self.color_err);
        text.push('\n');
        // Where stderr is gone there is nobody left to tell.
        let write = || {
            let _ = io::stderr().lock().write_all(text.as_bytes());
        };
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    /// Says that the command line is not one, in clap's words.
    pub fn usage(&self, text: &str) {
        let text = text.trim_end();
        match text.strip_prefix("error: ") {
            Some(rest) => self.err(&Line::new().with(Tone::Bad, "error").plain(format!(": {rest}"))),
            None => self.err(&text.into()),
        }
    }

    fn remember(&self, error: io::Error) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// JSON in which what a terminal would not show as it is, is escaped; it means the same.
fn seen(json: String) -> String {
    use std::fmt::Write as _;
    let is_hidden = |c: char| c != '\n' && crate::clean::is_unseen(c);
    if !json.contains(is_hidden) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

/// Whether a hint is a command to run and not a sentence.
fn is_command(hint: &str) -> bool {
    const PROGRAMS: [&str; 9] = ["flock", "ls", "df", "cp", "echo", "sudo", "apt-get", "docker", "systemctl"];
    !hint.contains('`') && hint.split(' ').next().is_some_and(|word| PROGRAMS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_hides_nothing_and_means_the_same() {
        let value = serde_json::json!({"a": "x\u{202e}y\u{9b}2K\u{7f}\u{e0041}", "b": ["plain\nü\t"]});
        let text = seen(serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| c != '\n' && crate::clean::is_unseen(c)), "{text:?}");
        assert!(text.contains(r"x\u202ey\u009b2K\u007f\udb40\udc41"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
