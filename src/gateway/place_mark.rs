//! Gives the second place of this home to all gateways of its group, if an earlier version has marked it for this one alone.

use std::sync::Arc;
use std::time::Duration;

use super::state::Gateway;
use crate::blob::{self, owner};
use crate::error::chain;

/// Time until another attempt, if the place can't be used now.
const RETRY: Duration = Duration::from_secs(60);

/// Replaces such a mark. Every gateway does that at its start, and not only the one that makes the copies: that one can't know
/// a mark of this home.
pub(super) async fn share(gateway: Arc<Gateway>) {
    let Some(settings) = gateway.config().blobs.clone() else { return };
    let store = blob::open(gateway.home(), &settings);
    while let Err(error) = owner::share(gateway.home(), &*store).await {
        // Those that make copies report that the place can't be used.
        tracing::debug!(error = chain(&error), "the mark of the second place was not replaced");
        if gateway.stop.run_until_cancelled(tokio::time::sleep(RETRY)).await.is_none() {
            return;
        }
    }
}
