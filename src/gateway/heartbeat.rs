//! Says every two seconds that this gateway lives, if its database is on a server.

use std::sync::Arc;
use std::time::Duration;

use crate::error::chain;
use crate::store::{Store, StoreError};
use crate::swarm::lease::{BEAT_MS, Contact, next_beat};

/// Says that this gateway lives, also while it stops: what it still does must not be taken over meanwhile. It returns if there
/// is nobody to tell, or if the gateway was ended, which the store also tells everybody who waits for it.
pub(super) async fn run(store: Arc<Store>) {
    let Some(epoch) = store.epoch() else { return };
    let mut contact = Contact::default();
    let mut has_failed = false;
    loop {
        let wait = match store.gateways().beat(epoch, contact.judging()).await {
            Ok(beat) => {
                has_failed = false;
                contact.beaten(&beat);
                for ended in &beat.ended {
                    tracing::warn!(epoch = ended.0, "a gateway gave no sign of life and was ended");
                }
                next_beat(epoch, &beat, contact.judging())
            }
            Err(StoreError::Fenced { .. }) => return,
            Err(error) => {
                if !has_failed {
                    tracing::error!(error = chain(&error), "failed to say that this gateway lives");
                }
                has_failed = true;
                BEAT_MS
            }
        };
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
    }
}

/// Says that this gateway ends, so that nobody waits for it. It can't change anything after that.
pub(super) async fn end(store: &Store) {
    let Some(epoch) = store.epoch() else { return };
    match store.gateways().leave(epoch).await {
        Ok(()) | Err(StoreError::Fenced { .. }) => {}
        Err(error) => tracing::warn!(error = chain(&error), "failed to say that this gateway ends"),
    }
}
