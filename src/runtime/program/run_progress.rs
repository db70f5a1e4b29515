//! The progress of a run, as far as the program's output shows it. All parsers keep it.

use super::interface::ProgramExit;
use crate::runtime::ProgramEvent;

/// The progress of a run.
#[derive(Default)]
pub(super) struct RunProgress {
    /// Set if the run continues a conversation.
    pub(super) is_resumed: bool,
    /// Set once anything was said or done.
    pub(super) begun: bool,
    conversation: String,
    /// Set if text, or thinking, was reported since the last call.
    has_text: bool,
    has_thought: bool,
}

impl RunProgress {
    pub(super) fn new(is_resumed: bool) -> Self {
        Self { is_resumed, ..Self::default() }
    }

    /// Reports the name of the conversation, if the program has not named it before.
    pub(super) fn named(&mut self, name: Option<&str>, said: &mut Vec<ProgramEvent>) {
        if let Some(name) = name.filter(|name| *name != self.conversation) {
            name.clone_into(&mut self.conversation);
            said.push(ProgramEvent::Conversation(name.to_owned()));
        }
    }

    /// Reports a whole paragraph of the answer.
    pub(super) fn text(&mut self, text: &str, said: &mut Vec<ProgramEvent>) {
        if let Some(paragraph) = paragraph(text, &mut self.has_text) {
            said.push(ProgramEvent::Text(paragraph));
            self.begun = true;
        }
    }

    /// Reports a whole paragraph of thinking.
    pub(super) fn thought(&mut self, text: &str, said: &mut Vec<ProgramEvent>) {
        if let Some(paragraph) = paragraph(text, &mut self.has_thought) {
            said.push(ProgramEvent::Thinking(paragraph));
            self.begun = true;
        }
    }

    /// Records that a call begins. The text before it is no part of the final answer.
    pub(super) fn call(&mut self) {
        (self.begun, self.has_text, self.has_thought) = (true, false, false);
    }

    /// Returns `true` if the program ended because it does not know the conversation that it should continue. `sign` is
    /// the text with which it says so.
    pub(super) fn is_unknown(&self, exit: &ProgramExit<'_>, sign: &str) -> bool {
        self.is_resumed && !self.begun && exit.stderr.contains(sign)
    }
}

/// Returns a text with a blank line before it if others preceded it. `None` if it is empty.
fn paragraph(text: &str, has_before: &mut bool) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let before = if std::mem::replace(has_before, true) { "\n\n" } else { "" };
    Some(format!("{before}{text}"))
}
