//! Changes that wait for the writing thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::post::{self, NewPost, PostOutcome};
use super::sql;

/// The body of a change, which runs within a transaction.
pub(super) type ChangeBody = Box<dyn FnOnce(&sql::Transaction<'_>) -> sql::Result<()> + Send>;
/// A callback that reports if a change was committed.
pub(super) type CommitCallback = Box<dyn FnOnce(sql::Result<()>) + Send>;

/// A change to be committed.
pub(super) struct PendingChange {
    /// The time of its submission, from which its wait for the lock is counted.
    pub(super) since: Instant,
    pub(super) work: Work,
    pub(super) answer: CommitCallback,
}

/// The content of a change.
pub(super) enum Work {
    Any(ChangeBody),
    /// Messages are most of the changes that wait together, so those beside each other are posted together.
    Post(Box<PendingPost>),
}

/// A message to be posted.
pub(super) struct PendingPost {
    pub(super) new: NewPost,
    pub(super) outcome: Slot<PostOutcome>,
}

/// The value of a change, which is there once the change was made.
pub(super) struct Slot<T>(Arc<Mutex<Option<T>>>);

impl Work {
    /// Makes the change.
    pub(super) fn run(self, transaction: &sql::Transaction<'_>) -> sql::Result<()> {
        match self {
            Self::Any(body) => body(transaction),
            Self::Post(pending) => {
                pending.outcome.fill(post::post(transaction, &pending.new)?);
                Ok(())
            }
        }
    }
}

impl<T> Slot<T> {
    pub(super) fn fill(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
