//! The result of a check.

use serde::Serialize;

use super::super::{Context, Failure};
use super::fix::Fix;
use crate::home::Home;

/// The state that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckState {
    /// The part is as it should be.
    Ok,
    /// Something to know. flock works.
    Warn,
    /// A part of flock does not work.
    Bad,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// The part that was checked, such as `engine`.
    pub name: &'static str,
    pub state: CheckState,
    /// A description of what was found.
    pub message: String,
    /// The command that repairs it, or the shortest correct advice.
    pub mend: Option<String>,
    /// The repair that `--fix` has made.
    pub fixed: Option<String>,
    /// The repair that `--fix` can make without losing anything.
    #[serde(skip)]
    pub fix: Option<Fix>,
}

impl Check {
    fn new(name: &'static str, state: CheckState, message: String, mend: Option<String>) -> Self {
        Self { name, state, message, mend, fixed: None, fix: None }
    }

    /// Adds a repair that `--fix` can make.
    pub(crate) fn with_fix(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Makes the repair if there is one and the check found a fault.
    pub(crate) fn apply_fix(&mut self, home: &Home, context: &Context) {
        // `take` makes a second call do nothing, so no repair is made twice.
        let Some(fix) = self.fix.take().filter(|_| self.state != CheckState::Ok) else { return };
        match fix.apply(home, context) {
            Ok(done) => {
                // The state is what remains after the repair, because the exit code depends on it.
                self.state = CheckState::Ok;
                self.mend = None;
                self.fixed = Some(done);
            }
            Err(failure) => {
                // The first message stays: the reason why the repair failed does not replace what is wrong.
                self.message = format!("{}; failed to mend it: {}", self.message, failure.text());
                self.mend = failure.hint.or_else(|| self.mend.take());
            }
        }
    }

    /// Creates a result without a fault.
    pub(crate) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, CheckState::Ok, message.into(), None)
    }

    /// Creates a result that is worth knowing.
    pub(crate) fn warn(name: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(name, CheckState::Warn, message.into(), Some(mend.into()))
    }

    /// Creates a result for something broken.
    pub(crate) fn bad(name: &'static str, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::new(name, CheckState::Bad, message.into(), Some(mend.into()))
    }

    /// Creates a result for something broken, with the text and hint of an error.
    pub(crate) fn failed(name: &'static str, failure: Failure) -> Self {
        Self::new(name, CheckState::Bad, failure.text(), failure.hint)
    }
}
