//! The text of an answer as whoever follows the turn was told it. A program may take text back and begin again; what was
//! told can't be taken back, so an answer is told on only as far as it goes on with what was told.

/// What was told of the text since the last call of a tool.
#[derive(Default)]
pub(super) struct Shown {
    text: String,
    /// Bytes of it that the answer is known to begin with.
    same: usize,
    is_replaced: bool,
}

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: it has been told, or is no longer told.
    Nothing,
    /// More text.
    More(String),
    /// What was told is not how the answer begins.
    Replaced,
}

impl Shown {
    /// The answer has become longer, and reads like this.
    pub(super) fn grown(&mut self, answer: &str) -> Next {
        if self.is_replaced {
            return Next::Nothing;
        }
        let known = self.text.len().min(answer.len());
        if answer.as_bytes().get(self.same..known) != self.text.as_bytes().get(self.same..known) {
            self.is_replaced = true;
            return Next::Replaced;
        }
        self.same = known;
        match answer.get(self.text.len()..) {
            None | Some("") => Next::Nothing,
            Some(more) => {
                self.text.push_str(more);
                self.same = self.text.len();
                Next::More(more.to_owned())
            }
        }
    }

    /// The answer was begun again, and reads like this.
    pub(super) fn anew(&mut self, answer: &str) -> Next {
        self.same = 0;
        self.grown(answer)
    }

    /// The answer is complete, and reads like this.
    pub(super) fn ended(&mut self, answer: &str) -> Next {
        match self.grown(answer) {
            Next::Nothing if !self.is_replaced && self.text.len() > answer.len() => {
                self.is_replaced = true;
                Next::Replaced
            }
            next => next,
        }
    }

    /// A tool is called: what is told from now on is another text.
    pub(super) fn called(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(text: &str) -> Next {
        Next::More(text.to_owned())
    }

    #[test]
    fn an_answer_that_is_begun_again_is_told_on_where_it_says_the_same() {
        let mut shown = Shown::default();
        assert_eq!(shown.grown("It is "), more("It is "));
        assert_eq!(shown.grown("It is f\u{fc}nf"), more("f\u{fc}nf"));
        assert_eq!(shown.anew(""), Next::Nothing);
        assert_eq!(shown.grown("It is"), Next::Nothing);
        assert_eq!(shown.grown("It is f\u{fc}nf, I think"), more(", I think"));
        assert_eq!(shown.anew("It is f\u{fc}nf, "), Next::Nothing);
        assert_eq!(shown.grown("It is f\u{fc}nf, I think."), more("."));
        assert_eq!(shown.ended("It is f\u{fc}nf, I think."), Next::Nothing);
    }

    #[test]
    fn an_answer_that_reads_otherwise_is_told_no_more_of_until_a_tool_is_called() {
        for (told, anew, grown) in
            [("It is 4", "", "Four"), ("\u{e4}b", "", "\u{f6}b"), ("one", "two", "two")]
        {
            let mut shown = Shown::default();
            assert_eq!(shown.grown(told), more(told));
            let first = shown.anew(anew);
            let second = shown.grown(grown);
            assert!([&first, &second].contains(&&Next::Replaced), "{told}");
            assert_eq!(shown.grown(&format!("{grown}.")), Next::Nothing);
            assert_eq!(shown.ended(&format!("{grown}.")), Next::Nothing, "it is said once");
            shown.called();
            assert_eq!(shown.grown("after it"), more("after it"));
        }
        let mut shown = Shown::default();
        shown.grown("a long beginning");
        assert_eq!(shown.anew("a long"), Next::Nothing);
        assert_eq!(shown.ended("a long"), Next::Replaced, "it came to less");
    }
}
