//! Backs the database up once a day. A backup is checked before it counts.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::unix_ms;
use crate::error::chain;
use crate::home::Home;
use crate::store::{Store, backup_due_at, backups};

/// Delay before the first look, because a start has enough to do already.
const INITIAL_DELAY: Duration = Duration::from_secs(60);
/// Longest time between two looks. It is short so that a machine that was suspended is not a day late.
const CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// Makes a backup whenever one is due, until `stop` is cancelled. A database on a server is left to that server: each gateway
/// would read all of it over the network each day.
pub(crate) async fn watch(home: Home, store: Arc<Store>, stop: CancellationToken) {
    if store.is_on_server() {
        tracing::info!("no daily backup is made of a database on a server; flock backup has a copy of it");
        return;
    }
    let mut wait = INITIAL_DELAY;
    // A failed backup is tried again at each look, but the failure is logged only once.
    let mut has_failed = false;
    loop {
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
        wait = CHECK_INTERVAL;
        // While the database has trouble no backup is tried.
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
            Err(error) => tracing::error!(%error, "the task that backs up the database failed"),
        }
    }
}
