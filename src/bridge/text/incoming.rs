//! The text of a message as the channel shows it.

use crate::clean;
use crate::id::Party;

/// Longest quote of an answered message, in characters.
const MAX_QUOTE: usize = 160;
/// Longest title of a thread, in characters.
const MAX_TITLE: usize = 80;

/// The message that another one answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    /// The number of the message in the channel.
    pub(crate) seq: u64,
    pub(crate) author: Party,
    pub(crate) text: String,
}

/// Returns the text with what is around it on the platform: the thread, the message that it answers, and the files.
pub(crate) fn incoming(
    text: &str,
    thread: Option<&str>,
    quote: Option<&Quote>,
    markers: &[String],
) -> String {
    let mut lines = Vec::new();
    if let Some(title) = thread {
        lines.push(format!("[thread: {}]", clean::summary(title, MAX_TITLE)));
    }
    if let Some(quote) = quote {
        let start = clean::summary(&quote.text, MAX_QUOTE);
        lines.push(format!("(in reply to seq {}, {}: {start})", quote.seq, quote.author));
    }
    if !text.trim().is_empty() {
        lines.push(text.to_owned());
    }
    lines.extend(markers.iter().cloned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_thread_its_quote_and_its_files() {
        let quote = Quote { seq: 5, author: Party::human("ann"), text: "one\ntwo".to_owned() };
        let markers = ["[file: a]".to_owned()];
        assert_eq!(
            incoming("yes", Some("Plans"), Some(&quote), &markers),
            "[thread: Plans]\n(in reply to seq 5, human:ann: one two)\nyes\n[file: a]"
        );
        assert_eq!(incoming(" ", None, None, &markers), "[file: a]");
        assert_eq!(incoming("plain", None, None, &[]), "plain");
    }
}
