//! Tracks the part of an answer's text that was sent to the client. A program may take back text and begin again, but
//! sent text can't be taken back. So the answer is streamed only as long as it continues what was sent.

/// The text that was sent since the last tool call.
#[derive(Default)]
pub(super) struct StreamedText {
    text: String,
    /// Number of bytes that the answer is known to begin with.
    same: usize,
    is_replaced: bool,
}

/// The next thing to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextUpdate {
    /// Nothing: all was sent, or the answer is no longer streamed.
    Nothing,
    /// More text.
    More(String),
    /// A notice that the sent text is not the beginning of the answer.
    Replaced,
}

impl StreamedText {
    /// Handles an answer that has become longer.
    pub(super) fn grown(&mut self, answer: &str) -> TextUpdate {
        if self.is_replaced {
            return TextUpdate::Nothing;
        }
        let known = self.text.len().min(answer.len());
        // Only the bytes that were not compared before are compared, so the cost stays linear.
        if answer.as_bytes().get(self.same..known) != self.text.as_bytes().get(self.same..known) {
            self.is_replaced = true;
            return TextUpdate::Replaced;
        }
        self.same = known;
        // `None` means that the answer is shorter than what was sent, as it may be for a while after it was begun
        // again.
        match answer.get(self.text.len()..) {
            None | Some("") => TextUpdate::Nothing,
            Some(more) => {
                self.text.push_str(more);
                self.same = self.text.len();
                TextUpdate::More(more.to_owned())
            }
        }
    }

    /// Handles an answer that was begun again.
    pub(super) fn anew(&mut self, answer: &str) -> TextUpdate {
        self.same = 0;
        self.grown(answer)
    }

    /// Handles the complete answer.
    pub(super) fn ended(&mut self, answer: &str) -> TextUpdate {
        match self.grown(answer) {
            // The complete answer is shorter than what was sent, so the sent text is wrong at its end.
            TextUpdate::Nothing if !self.is_replaced && self.text.len() > answer.len() => {
                self.is_replaced = true;
                TextUpdate::Replaced
            }
            next => next,
        }
    }

    /// Handles a tool call: the text after it is another one.
    pub(super) fn called(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(text: &str) -> TextUpdate {
        TextUpdate::More(text.to_owned())
    }

    #[test]
    fn a_restarted_answer_is_streamed_on_while_it_matches() {
        let mut shown = StreamedText::default();
        assert_eq!(shown.grown("It is "), more("It is "));
        assert_eq!(shown.grown("It is f\u{fc}nf"), more("f\u{fc}nf"));
        assert_eq!(shown.anew(""), TextUpdate::Nothing);
        assert_eq!(shown.grown("It is"), TextUpdate::Nothing);
        assert_eq!(shown.grown("It is f\u{fc}nf, I think"), more(", I think"));
        assert_eq!(shown.anew("It is f\u{fc}nf, "), TextUpdate::Nothing);
        assert_eq!(shown.grown("It is f\u{fc}nf, I think."), more("."));
        assert_eq!(shown.ended("It is f\u{fc}nf, I think."), TextUpdate::Nothing);
    }

    #[test]
    fn a_differing_answer_is_not_streamed_until_the_next_tool_call() {
        for (told, anew, grown) in
            [("It is 4", "", "Four"), ("\u{e4}b", "", "\u{f6}b"), ("one", "two", "two")]
        {
            let mut shown = StreamedText::default();
            assert_eq!(shown.grown(told), more(told));
            let first = shown.anew(anew);
            let second = shown.grown(grown);
            assert!([&first, &second].contains(&&TextUpdate::Replaced), "{told}");
            assert_eq!(shown.grown(&format!("{grown}.")), TextUpdate::Nothing);
            assert_eq!(shown.ended(&format!("{grown}.")), TextUpdate::Nothing, "it is said once");
            shown.called();
            assert_eq!(shown.grown("after it"), more("after it"));
        }
        let mut shown = StreamedText::default();
        shown.grown("a long beginning");
        assert_eq!(shown.anew("a long"), TextUpdate::Nothing);
        assert_eq!(shown.ended("a long"), TextUpdate::Replaced, "it came to less");
    }
}
