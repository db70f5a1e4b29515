//! What a check found.

use serde::Serialize;

use super::super::{Context, Failure};
use super::fix::Fix;
use crate::home::Home;

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
    /// What was done about it.
    pub fixed: Option<String>,
    /// What can safely be done about it.
    #[serde(skip)]
    pub fix: Option<Fix>,
}

impl Check {
    fn new(name: &'static str, state: State, message: String, mend: Option<String>) -> Self {
        Self { name, state, message, mend, fixed: None, fix: None }
    }

    /// The same, which `--fix` can mend.
    pub fn fixed_by(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Mends it, where that is safe.
    pub fn mend_now(&mut self, home: &Home, context: &Context) {
        let Some(fix) = self.fix.take().filter(|_| self.state != State::Ok) else { return };
        match fix.apply(home, context) {
            Ok(done) => {
                self.state = State::Ok;
                self.mend = None;
                self.fixed = Some(done);
            }
            Err(failure) => {
                self.message = format!("{}; it was not mended: {}", self.message, failure.text());
                self.mend = failure.hint.or_else(|| self.mend.take());
            }
        }
    }

    /// All is well.
    pub fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, State::Ok, message.into(), None)
    }

    /// Worth knowing.
    pub fn warn(name: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(name, State::Warn, message.into(), Some(mend.into()))
    }

    /// Broken.
    pub fn bad(name: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(name, State::Bad, message.into(), Some(mend.into()))
    }

    /// Broken, in the words of an error.
    pub fn failed(name: &'static str, failure: Failure) -> Self {
        Self::new(name, State::Bad, failure.text(), failure.hint)
    }
}
