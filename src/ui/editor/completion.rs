//! Completion of words in the editor, and the escaping of what the editor shows.

use std::borrow::Cow;
use std::cell::Cell;

use rustyline::Context;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;

/// The words that Tab completes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompletionWords {
    /// Commands such as `/new`. They are completed only at the beginning of a text.
    pub commands: Vec<String>,
    /// Commands that are followed by the name of an agent.
    pub of_agents: Vec<String>,
    /// Names of agents. In a message they are also completed after `@`.
    pub agents: Vec<String>,
    /// Names of channels. In a message they are completed after `#`.
    pub channels: Vec<String>,
}

impl CompletionWords {
    /// Returns the byte index at which the word before the cursor begins, and all words that it can become.
    fn at(&self, before: &str) -> (usize, Vec<String>) {
        // Whitespace may take several bytes in UTF-8, such as an em space, so its length is taken from the text.
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
            // An empty word would list every agent after each space.
            Vec::new()
        } else {
            fits("", &self.agents)
        };
        (start, found)
    }
}

/// The editor's callbacks for completion and display.
pub(crate) struct Helper {
    completion: CompletionWords,
    /// `true` if the line is empty. The editor does not report the text of a line that Ctrl-C drops.
    is_empty: Cell<bool>,
}

impl Helper {
    pub(crate) const fn new(completion: CompletionWords) -> Self {
        Self { completion, is_empty: Cell::new(true) }
    }

    /// Returns `true` if the line was empty when it was last shown.
    pub(crate) fn is_empty(&self) -> bool {
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
            // With only one candidate left the word is complete, and the next word can follow.
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
        // Returning `true` makes rustyline draw the whole line again through `highlight`, which escapes it.
        line.contains(is_hidden)
    }
}

/// Returns a line without characters that control the terminal: pasted text and text from the history must not.
///
/// The text keeps its width, since the editor has already computed the position of the cursor.
fn shown(line: &str) -> Cow<'_, str> {
    if !line.contains(is_hidden) {
        return Cow::Borrowed(line);
    }
    // The editor counts a control character as one column and a mark that reorders text as none.
    let shown = line.chars().filter_map(|c| match c {
        c if !is_hidden(c) => Some(c),
        c if c.is_control() => Some(char::REPLACEMENT_CHARACTER),
        _ => None,
    });
    Cow::Owned(shown.collect())
}

/// Returns `true` for characters that move the cursor, change the screen, or reorder the text around them.
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

    fn completion() -> CompletionWords {
        CompletionWords {
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
    fn shown_text_holds_no_control_characters() {
        assert!(matches!(shown("ü\tx\ny"), Cow::Borrowed(_)));
        assert_eq!(shown("a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}b\r"), "a\u{fffd}]0;x\u{fffd}\u{fffd}2Jb\u{fffd}");
    }
}
