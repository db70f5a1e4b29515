//! Once a day a backup of the database, checked before it counts.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::unix_ms;
use crate::error::chain;
use crate::home::Home;
use crate::store::{Store, backup_due_at, backups};

/// The first look comes so long after a start, which has enough to do.
const FIRST: Duration = Duration::from_secs(60);
/// The longest time between two looks: a machine that was suspended is not a day late.
const LOOK: Duration = Duration::from_secs(600);

/// Makes a backup whenever one is due, until `stop`.
pub async fn watch(home: Home, store: Arc<Store>, stop: CancellationToken) {
    let mut wait = FIRST;
    // What failed is tried again with each look, and said once.
    let mut has_failed = false;
    loop {
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        wait = LOOK;
        if store.trouble().is_some() || backup_due_at(&backups(&home), unix_ms()) > unix_ms() {
            continue;
        }
        let (place, from) = (home.clone(), Arc::clone(&store));
        let made = tokio::task::spawn_blocking(move || from.back_up(&place, unix_ms())).await;
        match made {
            Ok(Ok(backup)) => {
                has_failed = false;
                tracing::info!(path = %backup.path.display(), "the database was backed up");
            }
            Ok(Err(error)) if !has_failed => {
                has_failed = true;
                tracing::error!(error = chain(&error), "failed to back the database up");
            }
            Ok(Err(_)) => {}
            Err(error) => tracing::error!(%error, "the backup of the database broke off"),
        }
    }
}
