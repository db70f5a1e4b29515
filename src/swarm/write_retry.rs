//! Repeats a write that the storage refused.

use tokio_util::sync::CancellationToken;

use crate::provider::BoxFuture;
use crate::store::{Store, StoreError};

/// Maximum number of attempts at a write.
const MAX_ATTEMPTS: u32 = 5;

/// Makes a write that must not be lost. After a fault of the storage it waits until the database can be used, and tries
/// again. `write` may run several times, so a repetition must have no second effect.
///
/// # Errors
///
/// Returns the last fault if all attempts failed or `stop` was cancelled, and any other error at once.
pub(crate) async fn insist<'w, T>(
    store: &Store,
    stop: &CancellationToken,
    write: impl Fn() -> BoxFuture<'w, Result<T, StoreError>> + Send + Sync,
) -> Result<T, StoreError> {
    for _ in 1..MAX_ATTEMPTS {
        match write().await {
            Err(error) if error.is_fault() => {
                if stop.run_until_cancelled(store.until_usable()).await.is_none() {
                    return Err(error);
                }
            }
            result => return result,
        }
    }
    // What is still open after the last attempt is ended by the sweep of the requests, or the watchdog of the team.
    write().await
}
