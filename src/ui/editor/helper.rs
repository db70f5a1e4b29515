//! What the editor completes, and how it shows what was typed.

use std::borrow::Cow;
use std::cell::Cell;

use rustyline::Context;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;

/// The words that Tab completes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Commands, as in `/new`; they stand at the beginning.
    pub commands: Vec<String>,
    /// Commands that an agent's name follows.
    pub of_agents: Vec<String>,
    /// Names of agents; in a message also behind `@`.
    pub agents: Vec<String>,
    /// Names of channels; in a message behind `#`.
    pub channels: Vec<String>,
}

impl Completion {
    /// Where the word before the cursor begins, and all that it can become.
    fn at(&self, before: &str) -> (usize, Vec<String>) {
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let (earlier, word) = before.split_at(start);
        let fits = |mark: &str, all: &[String]| -> Vec<String> {
            all.iter().map(|name| format!("{mark}{name}")).filter(|name| name.starts_with(word)).collect()
        };
        let found = if earlier.is_empty() && word.starts_with('/') {
            fits("", &self.commands)
        } else if self.of_agents.iter().any(|command| earlier.trim_end() == command) {
            fits("", &self.agents)
        } else if word.starts_with('@') {
            fits("@", &self.agents)
        } else if word.starts_with('#') {
            fits("#", &self.channels)
        } else if word.is_empty() {
            Vec::new()
        } else {
            fits("", &self.agents)
        };
        (start, found)
    }
}

/// What the editor asks.
pub struct Helper {
    completion: Completion,
    /// Whether nothing is typed. The editor does not tell when it drops a line what was in it.
    is_empty: Cell<bool>,
}

impl Helper {
    /// A helper that completes these words.
    pub const fn new(completion: Completion) -> Self {
        Self { completion, is_empty: Cell::new(true) }
    }

    /// Whether nothing was typed when the line was shown last.
    pub fn is_empty(&self) -> bool {
        self.is_empty.get()
    }
}

impl rustyline::Helper for Helper {}

impl Hinter for Helper {
    type Hint = String;
}

impl Validator for Helper {}

impl Completer for Helper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = self.completion.at(&line[..at]);
        let is_one = found.len() == 1;
        let pairs = found.into_iter().map(|name| {
            // Once it is certain the next word can follow.
            let replacement = if is_one { format!("{name} ") } else { name.clone() };
            Pair { display: name, replacement }
        });
        Ok((start, pairs.collect()))
    }
}

impl Highlighter for Helper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        self.is_empty.set(line.is_empty());
        shown(line)
    }

    fn highlight_char(&self, line: &str, _: usize, _: CmdKind) -> bool {
        self.is_empty.set(line.is_empty());
        line.contains(is_hidden)
    }
}

/// A line as it is shown: what was pasted or comes from the history steers no terminal. The text keeps its width, since
/// the editor has computed where the cursor stands.
fn shown(line: &str) -> Cow<'_, str> {
    if !line.contains(is_hidden) {
        return Cow::Borrowed(line);
    }
    // A control character counts as one column, a mark that reorders text as none.
    let shown = line.chars().filter_map(|c| match c {
        c if !is_hidden(c) => Some(c),
        c if c.is_control() => Some(char::REPLACEMENT_CHARACTER),
        _ => None,
    });
    Cow::Owned(shown.collect())
}

/// Characters that move the cursor, change what is on the screen, or reorder the text around them.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    fn completion() -> Completion {
        Completion {
            commands: words(&["/new", "/agent", "/help"]),
            of_agents: words(&["/agent"]),
            agents: words(&["coder", "critic", "scout"]),
            channels: words(&["dev"]),
        }
    }

    #[test]
    fn the_word_before_the_cursor_is_completed() {
        for (before, start, found) in [
            ("/", 0, &["/new", "/agent", "/help"][..]),
            ("/n", 0, &["/new"]),
            ("/agent c", 7, &["coder", "critic"]),
            ("/agent ", 7, &["coder", "critic", "scout"]),
            ("ask @c", 4, &["@coder", "@critic"]),
            ("ask sc", 4, &["scout"]),
            ("in #", 3, &["#dev"]),
            ("a\u{2003}@s", 4, &["@scout"]),
            ("a\n/n", 2, &[]),
            ("read /n", 5, &[]),
            ("", 0, &[]),
            ("ask ", 4, &[]),
        ] {
            assert_eq!(completion().at(before), (start, words(found)), "{before:?}");
        }
    }

    #[test]
    fn what_is_shown_steers_no_terminal() {
        assert!(matches!(shown("ü\tx\ny"), Cow::Borrowed(_)));
        assert_eq!(shown("a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}b\r"), "a\u{fffd}]0;x\u{fffd}\u{fffd}2Jb\u{fffd}");
    }
}
