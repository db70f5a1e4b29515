//! Requests that the database has as running, or as about to begin, though nothing in this process is at them: those of
//! a process before this one, and those whose end could not be written.

use std::collections::HashMap;
use std::sync::Arc;

use super::{MANY, SWEEP, Triage, notice};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::provider::BoxFuture;
use crate::store::{Along, RequestRow, RequestState, Step, StoreError};
use crate::swarm::By;

/// What is said of a request that broke off: nobody knows how far it came, so it is not run again.
const UNKNOWN: &str = "interrupted, outcome unknown";

/// How often a write is tried before it is left to the next look.
const TRIES: u32 = 5;

impl Triage {
    /// Ends what runs nowhere and begins what was granted and has not begun. One that can't be written holds none of the
    /// others up.
    ///
    /// # Errors
    ///
    /// Those of the database: the first there was.
    pub(super) async fn settle(self: &Arc<Self>) -> Result<(), StoreError> {
        // Whoever asked begins it in a moment, and waits for what comes of it.
        let begun_by = unix_ms().saturating_sub(i64::try_from(SWEEP.as_millis()).unwrap_or(i64::MAX));
        self.settle_older(begun_by).await
    }

    /// The same, of those that need nobody's word the ones only that were asked for before this time.
    pub(super) async fn settle_older(self: &Arc<Self>, asked_before: i64) -> Result<(), StoreError> {
        let store = self.swarm.store();
        let before: HashMap<String, RequestState> =
            store.requests(true, MANY)?.into_iter().map(|row| (row.id, row.state)).collect();
        // Between the two looks: what is the same in both and not under way in between neither began nor ended.
        let underway = self.underway().clone();
        let mut failed = None;
        for row in store.requests(true, MANY)? {
            if before.get(&row.id) != Some(&row.state) || underway.contains(&row.id) {
                continue;
            }
            match row.state {
                RequestState::Running => {
                    if let Err(error) = self.end_lost(&row).await {
                        tracing::error!(
                            request = row.id,
                            error = chain(&error),
                            "failed to end a request that was lost"
                        );
                        failed.get_or_insert(error);
                    }
                }
                RequestState::Approved => self.begin(row.id, None),
                RequestState::Triage
                    if row.kind != "other" && !row.asks_sysadmin && row.created_at < asked_before =>
                {
                    self.begin(row.id, None);
                }
                _ => {}
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn end_lost(&self, row: &RequestRow) -> Result<(), StoreError> {
        let now = unix_ms();
        let news = notice::result(row, &format!("Your request {} was {UNKNOWN}.", row.id), now);
        let entry = By::system().entry("request.failed", &row.id, row.level, UNKNOWN.to_owned());
        let along = Along { entry, items: vec![news.clone()], post: None };
        let result = Some(UNKNOWN.to_owned());
        self.swarm.store().step_request(row.id.clone(), Step::Fail, result, along, now).await?;
        self.ring(&[news]);
        Ok(())
    }

    /// Writes something, and tries again where the storage failed and can be used once more. It must do no harm done
    /// twice.
    pub(super) async fn insist<'w, T>(
        &self,
        write: impl Fn() -> BoxFuture<'w, Result<T, StoreError>> + Send + Sync,
    ) -> Result<T, StoreError> {
        for _ in 1..TRIES {
            match write().await {
                Err(error) if error.is_fault() => {
                    let usable = self.swarm.store().until_usable();
                    if self.stop.run_until_cancelled(usable).await.is_none() {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
        write().await
    }
}
