//! Questions to a person on a terminal.
//!
//! Callers ask only if `Context::may_ask` says that a person is there. Every question also has a command-line option
//! that answers it, for scripts.

use std::io;

use super::Failure;
use crate::clean;
use crate::error::Kind;

/// One entry of a list to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectItem {
    /// The text of the entry itself.
    pub label: String,
    /// An explanation shown beside the entry.
    pub note: String,
}

/// Prints the title of a series of questions.
pub(crate) fn begin(title: &str) {
    // If the terminal is gone, the first question fails and reports it.
    let _ = cliclack::intro(clean::inline(title));
}

/// Prints the closing line of a series of questions.
pub(crate) fn end(text: &str) {
    let _ = cliclack::outro(clean::inline(text));
}

/// Lets a person choose one item and returns its index in `items`. The item at index `first` is preselected.
///
/// # Errors
///
/// Returns an error if the person cancels, or if the terminal can't be read.
pub(crate) fn choose(question: &str, items: &[SelectItem], first: usize) -> Result<usize, Failure> {
    // Labels and notes can come from files or other programs, so their control characters are escaped.
    let mut select = cliclack::select(clean::inline(question)).initial_value(first);
    for (place, item) in items.iter().enumerate() {
        select = select.item(place, clean::inline(&item.label), clean::inline(&item.note));
    }
    select.interact().map_err(|error| to_failure(question, &error))
}

/// Asks for a text that `check` accepts. An empty answer stands for `default`.
///
/// # Errors
///
/// Returns an error if the person cancels, or if the terminal can't be read.
pub(crate) fn text(
    question: &str,
    default: &str,
    check: impl Fn(&str) -> Result<(), String> + 'static,
) -> Result<String, Failure> {
    cliclack::input(clean::inline(question))
        .default_input(default)
        .validate(move |text: &String| check(text))
        .interact()
        .map_err(|error| to_failure(question, &error))
}

/// Asks for a secret, which is not shown while it is typed.
///
/// # Errors
///
/// Returns an error if the person cancels, or if the terminal can't be read.
pub(crate) fn secret(question: &str) -> Result<String, Failure> {
    cliclack::password(clean::inline(question))
        .mask('•')
        .interact()
        .map_err(|error| to_failure(question, &error))
}

/// Asks a question that is answered by yes or no.
///
/// # Errors
///
/// Returns an error if the person cancels, or if the terminal can't be read.
pub(crate) fn confirm(question: &str, default: bool) -> Result<bool, Failure> {
    cliclack::confirm(clean::inline(question))
        .initial_value(default)
        .interact()
        .map_err(|error| to_failure(question, &error))
}

fn to_failure(question: &str, error: &io::Error) -> Failure {
    // cliclack reports Ctrl-C and Esc as an interrupted read. That is a decision of the person, not a fault.
    if error.kind() == io::ErrorKind::Interrupted {
        Failure::new(Kind::Failed, "given up; nothing more was changed")
    } else {
        Failure::with_cause(format!("failed to ask: {question}"), error)
    }
}
