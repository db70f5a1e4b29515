//! Locks whose poison is ignored.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a thread has panicked while it held the lock.
///
/// Changes under flock's locks are single insertions and removals, so a panic leaves no half of one behind. A poisoned
/// lock would only turn one failed request into the failure of all later ones.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
