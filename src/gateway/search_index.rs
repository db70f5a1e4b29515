//! Keeps the search index up to date in the background, so that a search itself has little to do.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::swarm::Swarm;

/// Time after the start in which the index is left alone, because then much else has to be done.
const FIRST: Duration = Duration::from_secs(20);
/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(60);

/// Updates the index until `stop` is cancelled, which also ends an update on its thread.
pub(crate) async fn watch(swarm: Arc<Swarm>, stop: CancellationToken) {
    let mut pause = FIRST;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        pause = INTERVAL;
        if let Some(Err(error)) = stop.run_until_cancelled(swarm.update_search_index(&stop)).await {
            tracing::warn!(error = chain(&error), "failed to update the search index");
        }
    }
}
