//! The end of an answer as the client wants it (`stop`, `max_tokens`). These limits are not handed to the agent's
//! model, because they would also apply to its tool calls and its thinking. flock cuts the final text instead, as a
//! whole or while it is streamed.

use crate::agent::{TurnOutcome, TurnStop};
use crate::tool::safe_text::start;

/// Bytes in a token, as flock estimates it everywhere.
const BYTES_PER_TOKEN: usize = 4;

/// The limits of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerLimits {
    /// The answer ends before the first of these texts.
    pub stops: Vec<String>,
    /// The answer ends after this number of tokens.
    pub tokens: Option<usize>,
}

impl AnswerLimits {
    /// Returns the outcome of a turn with its text cut to these limits.
    #[must_use]
    pub(crate) fn applied(&self, outcome: TurnOutcome) -> TurnOutcome {
        let mut cutter = AnswerCutter::new(self.clone());
        let mut text = cutter.take(&outcome.text);
        text.push_str(&cutter.rest());
        let stop = cutter.stop(outcome.stop);
        TurnOutcome { text, stop, ..outcome }
    }
}

/// Cuts a text that arrives in pieces.
#[derive(Clone, Debug)]
pub(crate) struct AnswerCutter {
    bound: AnswerLimits,
    /// Text that could be the beginning of a stop text.
    held: String,
    /// Bytes that were let through.
    taken: usize,
    /// The reason why the text ended, if it has.
    pub ended: Option<TurnStop>,
}

impl AnswerCutter {
    /// Creates a cutter for one text.
    #[must_use]
    pub(crate) const fn new(bound: AnswerLimits) -> Self {
        Self { bound, held: String::new(), taken: 0, ended: None }
    }

    /// Takes a piece, and returns the text that may be sent now. It may begin with text that was held back before.
    pub(crate) fn take(&mut self, piece: &str) -> String {
        if self.ended.is_some() {
            return String::new();
        }
        self.held.push_str(piece);
        // The earliest stop text counts, whichever of them it is.
        if let Some(at) = self.bound.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(at);
            let text = self.let_through(at);
            // `let_through` may have ended the text already, at the limit of tokens.
            self.ended.get_or_insert(TurnStop::End);
            return text;
        }
        self.let_through(self.held.len() - self.partial_stop_len())
    }

    /// Returns the text that was held back until the end. The next piece begins another text.
    pub(crate) fn rest(&mut self) -> String {
        if self.ended.is_some() { String::new() } else { self.let_through(self.held.len()) }
    }

    /// Returns the reason why the whole answer ended. Calls for the client are told even if the text before them was cut.
    #[must_use]
    pub(crate) fn stop(&self, stop: TurnStop) -> TurnStop {
        if stop == TurnStop::ToolCalls { stop } else { self.ended.unwrap_or(stop) }
    }

    /// Starts another text, with all limits anew.
    pub(crate) fn begin_anew(&mut self) {
        (self.held, self.taken, self.ended) = (String::new(), 0, None);
    }

    fn let_through(&mut self, bytes: usize) -> String {
        let mut text: String = self.held.drain(..bytes).collect();
        let left =
            self.bound.tokens.map_or(usize::MAX, |most| most.saturating_mul(BYTES_PER_TOKEN) - self.taken);
        if text.len() > left {
            // The cut must not fall into the middle of a character.
            text.truncate(start(&text, left).len());
            self.ended = Some(TurnStop::Length);
        }
        self.taken += text.len();
        text
    }

    /// Returns the length of the longest suffix of the held text that is a prefix of a stop text.
    fn partial_stop_len(&self) -> usize {
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

    fn cut(bound: &AnswerLimits, pieces: &[&str]) -> (String, Option<TurnStop>) {
        let mut cutter = AnswerCutter::new(bound.clone());
        let mut text: String = pieces.iter().map(|piece| cutter.take(piece)).collect();
        text.push_str(&cutter.rest());
        (text, cutter.ended)
    }

    #[test]
    fn a_text_ends_before_a_stop_however_it_comes() {
        let bound = AnswerLimits { stops: vec!["END".into(), "\u{e9}!".into()], tokens: None };
        for (pieces, text, ended) in [
            (&["one END two"][..], "one ", Some(TurnStop::End)),
            (&["one E", "N", "D two"], "one ", Some(TurnStop::End)),
            (&["one EN", "ough"], "one ENough", None),
            (&["EN", "EN", "D"], "EN", Some(TurnStop::End)),
            (&["caf\u{e9}", "! x"], "caf", Some(TurnStop::End)),
            (&["caf\u{e9}", "?"], "caf\u{e9}?", None),
            (&["one EN"], "one EN", None),
            (&["END"], "", Some(TurnStop::End)),
        ] {
            assert_eq!(cut(&bound, pieces), (text.to_owned(), ended), "{pieces:?}");
        }
    }

    #[test]
    fn a_text_ends_with_its_last_token() {
        let bound = AnswerLimits { stops: Vec::new(), tokens: Some(2) };
        assert_eq!(cut(&bound, &["12345678"]), ("12345678".to_owned(), None));
        assert_eq!(cut(&bound, &["1234", "56789", "x"]), ("12345678".to_owned(), Some(TurnStop::Length)));
        assert_eq!(cut(&bound, &["1234567\u{e9}"]), ("1234567".to_owned(), Some(TurnStop::Length)));
        let both = AnswerLimits { stops: vec!["9".into()], tokens: Some(2) };
        assert_eq!(cut(&both, &["123456789"]), ("12345678".to_owned(), Some(TurnStop::End)));
        assert_eq!(cut(&both, &["12345678x9"]), ("12345678".to_owned(), Some(TurnStop::Length)));
    }
}
