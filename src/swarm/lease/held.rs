//! Work that only one gateway does: it begins when the lease comes, and ends before the lease goes.

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Ownership;
use crate::store::LeaseSubject;

/// Runs `work` until `stop`, whenever this gateway has the lease of the subject. The token that `work` gets is cancelled
/// when the lease is to go away, and the lease stays here until `work` returns. A gateway without others runs it once.
pub(crate) async fn while_held<F>(
    ownership: Arc<Ownership>,
    subject: LeaseSubject,
    stop: CancellationToken,
    mut work: impl FnMut(CancellationToken) -> F,
) where
    F: Future<Output = ()>,
{
    if !ownership.is_shared() {
        return work(stop).await;
    }
    while stop.run_until_cancelled(ownership.until_held(&subject)).await.is_some() {
        let Some(in_use) = ownership.enter(subject.clone()) else {
            // It went away again, or the database does not answer. The next sign of life tells.
            let mut changes = ownership.changes();
            if stop.run_until_cancelled(changes.changed()).await.is_none() {
                return;
            }
            continue;
        };
        let end = stop.child_token();
        let lost = async {
            ownership.until_lost(&subject).await;
            end.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = work(end.clone()) => {}
            () = lost => {}
        }
        drop(in_use);
        // It ended by itself.
        if !end.is_cancelled() {
            return;
        }
    }
}
