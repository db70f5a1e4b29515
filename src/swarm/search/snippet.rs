//! Cuts the part out of a text that shows best why it was found. Pure.

use super::words::{Token, pairs, tokens};
use crate::secret_text;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snippet {
    /// The part on one line, with an ellipsis where something was left out. Keys are replaced.
    pub text: String,
    /// The number of lines before the first found word.
    pub line: usize,
}

/// Returns the part of at most about `most` bytes that has the most different terms, or the beginning if none is found.
/// The terms are in lower case.
#[must_use]
pub(super) fn cut(text: &str, terms: &[String], most: usize) -> Snippet {
    let text = &*secret_text::without_keys(text);
    let matches = matches(text, terms);
    let count = |from: usize| {
        let mut seen = 0_u64;
        for (at, term) in &matches {
            if (from..from + most).contains(at) {
                seen |= 1 << (term % 64);
            }
        }
        seen.count_ones()
    };
    // Of places with the same number of terms, the first one counts.
    let best = matches.iter().map(|(at, _)| *at).max_by_key(|at| (count(*at), std::cmp::Reverse(*at)));
    let first = best.unwrap_or(0);
    // Some words before the first match make it easier to understand.
    let from = text.ceil_char_boundary(first.saturating_sub(most / 5));
    let from =
        text[from..first].find(char::is_whitespace).filter(|_| from > 0).map_or(from, |space| from + space);
    let to = text.floor_char_boundary((from + most).min(text.len()));
    let to = match text[from..to].rfind(char::is_whitespace) {
        Some(space) if to < text.len() && from + space > first => from + space,
        _ => to,
    };
    let mut part = text[from..to].split_whitespace().collect::<Vec<_>>().join(" ");
    if !text[..from].trim().is_empty() {
        part.insert(0, '…');
    }
    if !text[to..].trim().is_empty() {
        part.push('…');
    }
    Snippet { text: part, line: text[..first].bytes().filter(|byte| *byte == b'\n').count() }
}

/// Returns the places of the terms in a text, each with the number of its term.
fn matches(text: &str, terms: &[String]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, token) in tokens(text) {
        match token {
            Token::Word(word) => {
                let word = word.to_lowercase();
                let term = terms.iter().position(|term| is_form_of(&word, term));
                found.extend(term.map(|term| (at, term)));
            }
            Token::Run(run) => {
                let mut place = at;
                for pair in pairs(run) {
                    // A term of one character is the beginning of a pair.
                    let term = terms.iter().position(|term| pair.starts_with(term.as_str()));
                    found.extend(term.map(|term| (place, term)));
                    place += pair.chars().next().map_or(0, char::len_utf8);
                }
            }
        }
    }
    found
}

/// Returns `true` if a word is a form of a term: both begin alike and differ only at their ends, as `search` and
/// `searching`.
fn is_form_of(word: &str, term: &str) -> bool {
    let common = word.chars().zip(term.chars()).take_while(|(a, b)| a == b).count();
    let shorter = word.chars().count().min(term.chars().count());
    common == shorter && (shorter > 3 || word == term)
        || common > 3 && common + 3 >= term.chars().count().max(shorter + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snippet(text: &str, words: &[&str], most: usize) -> Snippet {
        cut(text, &words.iter().map(ToString::to_string).collect::<Vec<_>>(), most)
    }

    #[test]
    fn the_part_with_the_most_terms_is_cut_out() {
        let text =
            format!("token\n{}\nRotate the token\nof the gateway.\n{}", "x ".repeat(200), "y ".repeat(200));
        let found = snippet(&text, &["rotate", "token", "gateway"], 60);
        assert!(found.text.contains("Rotate the token of the gateway."), "{found:?}");
        assert!(found.text.starts_with('…') && found.text.ends_with('…'));
        assert!(found.text.len() < 80);
        assert_eq!(found.line, 2);
    }

    #[test]
    fn forms_runs_and_keys_are_handled() {
        assert_eq!(snippet("a\nsearching here", &["searches"], 100).line, 1);
        assert_eq!(snippet("가나다\n라 결제를 했다", &["결제"], 100).line, 1);
        assert_eq!(snippet("the key sk-0123456789abcdef is", &["key"], 100).text, "the key [key] is");
        assert_eq!(snippet("", &["x"], 10), Snippet { text: String::new(), line: 0 });
        assert_eq!(snippet("nothing of it", &["zebra"], 100).text, "nothing of it");
        let long = "한".repeat(5000);
        assert!(snippet(&long, &["한한"], 100).text.len() <= 110);
    }
}
