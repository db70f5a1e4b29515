//! Where a client wants its answer to end (`stop`, `max_tokens`). An agent's model calls tools and thinks with the same
//! limits, so they are not handed to it: the final text is cut, whole or as it is streamed.

use crate::agent::{Stop, TurnOutcome};
use crate::tool::bounded::start;

/// The bytes of a token, as flock estimates it everywhere.
const TOKEN: usize = 4;

/// Where an answer ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Before the first of these.
    pub stops: Vec<String>,
    /// After so many tokens.
    pub tokens: Option<usize>,
}

impl Bound {
    /// Whether it cuts nothing.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.stops.is_empty() && self.tokens.is_none()
    }

    /// The outcome of a turn as its client gets it.
    #[must_use]
    pub fn applied(&self, outcome: TurnOutcome) -> TurnOutcome {
        let mut cutter = Cutter::new(self.clone());
        let mut text = cutter.take(&outcome.text);
        text.push_str(&cutter.rest());
        let stop = cutter.ended.unwrap_or(outcome.stop);
        TurnOutcome { text, stop, ..outcome }
    }
}

/// Cuts a text that comes in pieces.
#[derive(Clone, Debug)]
pub struct Cutter {
    bound: Bound,
    /// What could be the beginning of a stop.
    held: String,
    /// How much was let through.
    taken: usize,
    /// Why the text ended, if it did.
    pub ended: Option<Stop>,
}

impl Cutter {
    /// A cutter of one text.
    #[must_use]
    pub const fn new(bound: Bound) -> Self {
        Self { bound, held: String::new(), taken: 0, ended: None }
    }

    /// What of this piece, and of what was held before it, is let through.
    pub fn take(&mut self, piece: &str) -> String {
        if self.ended.is_some() {
            return String::new();
        }
        self.held.push_str(piece);
        if let Some(at) = self.bound.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(at);
            let text = self.let_through(at);
            self.ended.get_or_insert(Stop::End);
            return text;
        }
        self.let_through(self.held.len() - self.unsure())
    }

    /// What was held to the end of the text. The next piece begins another text.
    pub fn rest(&mut self) -> String {
        if self.ended.is_some() { String::new() } else { self.let_through(self.held.len()) }
    }

    /// Another text begins.
    pub fn begin_anew(&mut self) {
        (self.held, self.taken, self.ended) = (String::new(), 0, None);
    }

    fn let_through(&mut self, bytes: usize) -> String {
        let mut text: String = self.held.drain(..bytes).collect();
        let left = self.bound.tokens.map_or(usize::MAX, |most| most.saturating_mul(TOKEN) - self.taken);
        if text.len() > left {
            text.truncate(start(&text, left).len());
            self.ended = Some(Stop::Length);
        }
        self.taken += text.len();
        text
    }

    /// The length of the longest end of what is held that a stop begins with.
    fn unsure(&self) -> usize {
        let begins = |stop: &String| {
            let most = stop.len().saturating_sub(1).min(self.held.len());
            (1..=most).rev().find(|length| {
                stop.is_char_boundary(*length) && self.held.as_bytes().ends_with(&stop.as_bytes()[..*length])
            })
        };
        self.bound.stops.iter().filter_map(begins).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bound: &Bound, pieces: &[&str]) -> (String, Option<Stop>) {
        let mut cutter = Cutter::new(bound.clone());
        let mut text: String = pieces.iter().map(|piece| cutter.take(piece)).collect();
        text.push_str(&cutter.rest());
        (text, cutter.ended)
    }

    #[test]
    fn a_text_ends_before_a_stop_however_it_comes() {
        let bound = Bound { stops: vec!["END".into(), "\u{e9}!".into()], tokens: None };
        for (pieces, text, ended) in [
            (&["one END two"][..], "one ", Some(Stop::End)),
            (&["one E", "N", "D two"], "one ", Some(Stop::End)),
            (&["one EN", "ough"], "one ENough", None),
            (&["EN", "EN", "D"], "EN", Some(Stop::End)),
            (&["caf\u{e9}", "! x"], "caf", Some(Stop::End)),
            (&["caf\u{e9}", "?"], "caf\u{e9}?", None),
            (&["one EN"], "one EN", None),
            (&["END"], "", Some(Stop::End)),
        ] {
            assert_eq!(cut(&bound, pieces), (text.to_owned(), ended), "{pieces:?}");
        }
    }

    #[test]
    fn a_text_ends_with_its_last_token() {
        let bound = Bound { stops: Vec::new(), tokens: Some(2) };
        assert_eq!(cut(&bound, &["12345678"]), ("12345678".to_owned(), None));
        assert_eq!(cut(&bound, &["1234", "56789", "x"]), ("12345678".to_owned(), Some(Stop::Length)));
        assert_eq!(cut(&bound, &["1234567\u{e9}"]), ("1234567".to_owned(), Some(Stop::Length)));
        let both = Bound { stops: vec!["9".into()], tokens: Some(2) };
        assert_eq!(cut(&both, &["123456789"]), ("12345678".to_owned(), Some(Stop::End)));
        assert_eq!(cut(&both, &["12345678x9"]), ("12345678".to_owned(), Some(Stop::Length)));
        assert!(Bound::default().is_none() && !both.is_none());
    }
}
