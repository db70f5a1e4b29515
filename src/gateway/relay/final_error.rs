//! Remembers the final error of a turn's model calls when no model answers.
//!
//! Programs ask again after any status: Claude Code up to six times in half a second, OpenCode for a minute and more.
//! They get the same error each time, and no provider is asked. An error in a single request is no final error, because
//! the program may correct the request.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Time for which the error is repeated. It is longer than all retries of a program take.
pub(crate) const REPEAT_PERIOD: Duration = Duration::from_secs(120);

/// A turn's final error, if there is one.
#[derive(Debug, Default)]
pub(crate) struct FinalError(Mutex<Option<(Instant, String)>>);

impl FinalError {
    /// Records why no model answers.
    pub(crate) fn set(&self, why: &str) {
        *lock(&self.0) = Some((Instant::now(), why.to_owned()));
    }

    /// Clears the error, because a model has answered after all, for example a request that was made beside the refused
    /// one.
    pub(crate) fn clear(&self) {
        *lock(&self.0) = None;
    }

    /// Returns the error if it is younger than `stands`.
    #[must_use]
    pub(crate) fn current(&self, stands: Duration) -> Option<String> {
        let word = lock(&self.0);
        word.as_ref().filter(|(said, _)| said.elapsed() < stands).map(|(_, why)| why.clone())
    }
}
