//! Finds out whether the database can be used again after a fault. All who have to write wait for its word, so it is a task of its own
//! that waits for none of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::store::{FaultSubscription, Store};

/// The interval between two looks while nothing fails.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// The delay before the next look after a failure.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Tries the database each minute and after each of `faults`, until `stop`. Each time it can be used, `look` is told: what could not
/// be read may not have been announced to the scheduler.
pub(super) async fn run(
    store: Arc<Store>,
    mut faults: FaultSubscription,
    look: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut failures = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = faults.next() => {}
            () = tokio::time::sleep(after(failures)) => {}
        }
        if stop.run_until_cancelled(until_usable(&store)).await.is_none() {
            return;
        }
        look.notify_one();
        if store.trouble().is_none() {
            failures = 0;
            continue;
        }
        failures = failures.saturating_add(1);
        // On a disk that can't be read, a look is or causes a fault itself. Without the pause the next one would follow at once.
        if stop.run_until_cancelled(tokio::time::sleep(RETRY_DELAY)).await.is_none() {
            return;
        }
    }
}

/// Returns the delay before the next look after this many failures. It doubles with each failure, because something
/// that can't be read now, such as a transcript on a failing disk, may be readable soon.
pub(super) fn after(failures: u32) -> Duration {
    match failures {
        0 => INTERVAL,
        count => RETRY_DELAY.saturating_mul(1 << count.min(8)).min(INTERVAL),
    }
}

/// Tries until the database can be written and read. It logs once that this is impossible, and once that it is possible
/// again.
async fn until_usable(store: &Store) {
    let mut said = false;
    loop {
        match store.try_out().await {
            Ok(()) => break,
            Err(error) if !said => {
                let sentence = store
                    .trouble()
                    .map_or_else(|| "the database can't be used".to_owned(), |trouble| trouble.sentence());
                tracing::error!(error = chain(&error), "{sentence}");
                said = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
    match store.trouble() {
        Some(trouble) => tracing::error!("{}", trouble.sentence()),
        None if said => tracing::warn!("the database can be written and read again"),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    #[tokio::test]
    async fn whoever_waits_for_the_database_goes_on_once_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let store = Arc::new(Store::open(&home).unwrap());
        let (faults, look, stop) = (store.faults(), Arc::new(Notify::new()), CancellationToken::new());
        let aside = folder.path().join("aside");
        std::fs::rename(home.database(), &aside).unwrap();
        assert!(store.try_out().await.is_err());
        let waits = Arc::clone(&store);
        let waiter = tokio::spawn(async move { waits.until_usable().await });
        let probe = tokio::spawn(run(Arc::clone(&store), faults, Arc::clone(&look), stop.clone()));
        std::fs::rename(&aside, home.database()).unwrap();
        waiter.await.unwrap();
        assert_eq!(store.trouble(), None);
        look.notified().await;
        stop.cancel();
        probe.await.unwrap();
    }

    #[test]
    fn the_delay_grows_with_each_failure_up_to_the_interval() {
        assert_eq!(after(0), INTERVAL);
        assert!(after(1) < after(2) && after(2) < after(3) && after(3) < INTERVAL);
        assert_eq!(after(u32::MAX), INTERVAL);
    }
}
