//! What a check found.

use serde::Serialize;

use super::super::Failure;

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Worth knowing; flock works.
    Warn,
    /// Something of flock does not work.
    Bad,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at, as in `engine`.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was seen.
    pub message: String,
    /// The command that mends it, or the shortest true advice.
    pub mend: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, state: State::Ok, message: message.into(), mend: None }
    }

    /// Worth knowing.
    pub fn warn(name: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, state: State::Warn, message: message.into(), mend: Some(mend.into()) }
    }

    /// Broken.
    pub fn bad(name: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { name, state: State::Bad, message: message.into(), mend: Some(mend.into()) }
    }

    /// Broken, in the words of an error.
    pub fn failed(name: &'static str, failure: Failure) -> Self {
        Self { name, state: State::Bad, message: failure.text(), mend: failure.hint }
    }
}
