//! Locking of mutexes whose contents stay valid when a holder panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if another holder has panicked. Use it only where each change is complete at any point, because
/// nobody repairs the contents.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
