//! Work that only one gateway does: it begins when the lease comes, and ends before the lease goes.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
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
        let in_use = match or_changes(&ownership, || ownership.enter(subject.clone())) {
            Ok(in_use) => in_use,
            // It went away again, or the database does not answer. The next sign of life tells.
            Err(mut changes) => {
                if stop.run_until_cancelled(changes.changed()).await.is_none() {
                    return;
                }
                continue;
            }
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

/// Returns what `attempt` returns. If that is nothing, the error is the changes since before it.
fn or_changes<T>(
    ownership: &Ownership,
    attempt: impl FnOnce() -> Option<T>,
) -> Result<T, watch::Receiver<u64>> {
    // Subscribed first: a sign of life right after an attempt that fails may be the only one that is news for a long time.
    let changes = ownership.changes();
    attempt().ok_or(changes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store::Epoch;

    #[test]
    fn a_change_right_after_an_attempt_that_fails_is_not_missed() {
        let ownership = Ownership::of(Some(Epoch(1)));
        let attempt = || {
            let entered = ownership.enter(LeaseSubject::clock());
            ownership.settle_agents(&BTreeSet::new());
            entered
        };
        let changes = or_changes(&ownership, attempt).unwrap_err();
        assert!(changes.has_changed().unwrap());
    }
}
