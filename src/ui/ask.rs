//! Questions to a person on a terminal. Callers ask only where `Context::may_ask` says that
//! somebody is there; every question has an option that answers it.

use std::io;

use super::Failure;
use crate::clean;
use crate::error::Kind;

/// Something to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub label: String,
    /// What more there is to know of it.
    pub note: String,
}

/// Begins a series of questions.
pub fn begin(title: &str) {
    // Where the terminal is gone the first question fails and says so.
    let _ = cliclack::intro(clean::inline(title));
}

/// Ends a series of questions.
pub fn end(text: &str) {
    let _ = cliclack::outro(clean::inline(text));
}

/// Lets a person choose one; the result is its place in `items`.
///
/// # Errors
///
/// If they would rather not, or the terminal is gone.
pub fn choose(question: &str, items: &[Item]) -> Result<usize, Failure> {
    choose_from(question, items, 0)
}

/// As [`choose`], beginning at one of the items.
///
/// # Errors
///
/// As [`choose`].
pub fn choose_from(question: &str, items: &[Item], first: usize) -> Result<usize, Failure> {
    let mut select = cliclack::select(clean::inline(question)).initial_value(first);
    for (place, item) in items.iter().enumerate() {
        select = select.item(place, clean::inline(&item.label), clean::inline(&item.note));
    }
    select.interact().map_err(|error| given_up(question, &error))
}

/// Asks for a text that `check` accepts.
///
/// # Errors
///
/// If they would rather not, or the terminal is gone.
pub fn text(
    question: &str,
    default: &str,
    check: impl Fn(&str) -> Result<(), String> + 'static,
) -> Result<String, Failure> {
    cliclack::input(clean::inline(question))
        .default_input(default)
        .validate(move |text: &String| check(text))
        .interact()
        .map_err(|error| given_up(question, &error))
}

/// Asks for a text that is not shown.
///
/// # Errors
///
/// If they would rather not, or the terminal is gone.
pub fn secret(question: &str) -> Result<String, Failure> {
    cliclack::password(clean::inline(question)).interact().map_err(|error| given_up(question, &error))
}

/// Asks yes or no.
///
/// # Errors
///
/// If they would rather not, or the terminal is gone.
pub fn confirm(question: &str, default: bool) -> Result<bool, Failure> {
    cliclack::confirm(clean::inline(question))
        .initial_value(default)
        .interact()
        .map_err(|error| given_up(question, &error))
}

fn given_up(question: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::Interrupted {
        Failure::new(Kind::Failed, "given up; nothing more was changed")
    } else {
        Failure::caused(format!("failed to ask: {question}"), error)
    }
}
