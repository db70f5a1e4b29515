//! Work under the lock of a sandbox that is being made, which ends in order even if nobody waits for it any more.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::SandboxError;

/// The lock of a sandbox that is being made. What goes on after the caller was dropped holds it, too.
pub(crate) type MakingLock = Arc<OwnedMutexGuard<()>>;

/// Takes the lock.
pub(crate) async fn take(mutex: &Arc<Mutex<()>>) -> MakingLock {
    Arc::new(Arc::clone(mutex).lock_owned().await)
}

/// Does `work` in a task of its own, which holds the lock until its end. If the caller is dropped, the work goes on, and the
/// token that it got is cancelled.
///
/// # Errors
///
/// Returns the error of the work, or one with this path if the task broke.
pub(crate) async fn finish<T, F>(
    making: &MakingLock,
    path: &Path,
    work: impl FnOnce(CancellationToken) -> F,
) -> Result<T, SandboxError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, SandboxError>> + Send + 'static,
{
    let (making, given_up) = (Arc::clone(making), CancellationToken::new());
    let _waiting = given_up.clone().drop_guard();
    let work = work(given_up);
    let task = tokio::spawn(async move {
        let done = work.await;
        drop(making);
        done
    });
    let broken = |error| SandboxError::Host { path: path.to_owned(), source: io::Error::other(error) };
    task.await.unwrap_or_else(|error| Err(broken(error)))
}
