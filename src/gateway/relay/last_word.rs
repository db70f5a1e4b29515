//! The last word on a turn's model calls, where nobody answers. Programs ask again after any status: Claude Code up to
//! six times in half a second, OpenCode for a minute and more. Then each is told the same, and nobody else is asked. What is wrong with one request is
//! no last word: the program may mend it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long it stands: longer than all tries of a program take.
pub const STANDS: Duration = Duration::from_secs(120);

/// A turn's last word, if one has been said.
#[derive(Debug, Default)]
pub struct LastWord(Mutex<Option<(Instant, String)>>);

impl LastWord {
    /// Nobody answers: why.
    pub fn say(&self, why: &str) {
        *self.word() = Some((Instant::now(), why.to_owned()));
    }

    /// Somebody has answered after all, as to a request that was made beside the refused one.
    pub fn take_back(&self) {
        *self.word() = None;
    }

    /// What was said, if that is no longer ago than this.
    #[must_use]
    pub fn heard(&self, stands: Duration) -> Option<String> {
        let word = self.word();
        word.as_ref().filter(|(said, _)| said.elapsed() < stands).map(|(_, why)| why.clone())
    }

    fn word(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
