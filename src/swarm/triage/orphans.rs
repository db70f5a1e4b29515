//! Handles requests that are running or about to begin according to the database, but that no task of this process
//! works on. They are left by an earlier process, another process decided about them, or their end could not be written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{MAX_ROWS, SWEEP_INTERVAL, Triage, messages, question};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::store::{Along, RequestRow, RequestState, RequestStep, StoreError};
use crate::swarm::Actor;
use crate::sync::lock;

/// Result of a request that was interrupted. It is unknown how far it came, so it is not run again.
const OUTCOME_UNKNOWN: &str = "interrupted, outcome unknown";

impl Triage {
    /// Ends requests that no task runs, begins those that were granted but have not begun, and takes up that questions were
    /// denied or ended at another gateway. A failure for one request does not stop the others.
    ///
    /// # Errors
    ///
    /// Returns the first error of the database.
    pub(super) async fn settle(self: &Arc<Self>) -> Result<(), StoreError> {
        // A new request is begun by its caller in a moment, and the caller waits for the result. So requests that are new
        // here are left alone for the time of one sweep.
        let taken_up = self.take_up_ended().await;
        self.recover_orphans(SWEEP_INTERVAL).await?;
        taken_up
    }

    /// Acts on a decision that another process may have recorded: begins a request that this gateway carries out, or tells the
    /// call that waits here of the end of its question.
    ///
    /// # Errors
    ///
    /// Returns the error of the database.
    pub(super) async fn take_up_decision(self: &Arc<Self>, id: &str) -> Result<(), StoreError> {
        let Some(row) = self.swarm.store().requests().find(id).await? else { return Ok(()) };
        self.take_up_end(&row.id, row.state);
        if may_begin(&row, true) && self.is_ours(&row) {
            self.begin(row.id, None);
        }
        Ok(())
    }

    /// Returns `true` if this gateway carries the request out: a question where its call waits, which may be at the gateway that
    /// runs the server, and any other request where its agent is taken care of.
    fn is_ours(&self, row: &RequestRow) -> bool {
        match row.kind == question::KIND {
            true => self.is_asked(&row.id),
            false => self.swarm.ownership().has_agent(&row.agent),
        }
    }

    /// Ends and begins requests as [`Self::settle`] does, with a given patience: requests that need no decision are begun, and
    /// questions of gateways that are gone are ended, only if this gateway has known them for this long. Until then another
    /// gateway may know more of where a server runs.
    pub(super) async fn recover_orphans(self: &Arc<Self>, patience: Duration) -> Result<(), StoreError> {
        let store = self.swarm.store();
        let before: HashMap<String, RequestState> =
            store.requests().list(true, MAX_ROWS).await?.into_iter().map(|row| (row.id, row.state)).collect();
        let known = self.known_for(&before, patience);
        // Taken between the two reads. A request with the same state in both, and not under way in between, was neither
        // begun nor ended meanwhile.
        let underway = lock(&self.underway).clone();
        let mut failed = None;
        for row in store.requests().list(true, MAX_ROWS).await? {
            if before.get(&row.id) != Some(&row.state) || underway.contains(&row.id) {
                continue;
            }
            let is_known = known.contains(&row.id);
            let is_lost = row.kind == question::KIND && is_known && self.is_lost(&row).await;
            // Another gateway does it.
            if !is_lost && !self.is_ours(&row) {
                continue;
            }
            let ended = match row.state {
                RequestState::Running => self.end_lost(&row).await,
                _ if is_lost => self.end_question(&row.id, row.level).await,
                _ => {
                    if may_begin(&row, is_known) {
                        self.begin(row.id.clone(), None);
                    }
                    Ok(())
                }
            };
            if let Err(error) = ended {
                tracing::error!(
                    request = row.id,
                    error = chain(&error),
                    "failed to end a request that was lost"
                );
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns the ids of the open requests that this gateway has known for this long. The times in their rows are by the
    /// clocks of the gateways that made them, which may differ by minutes.
    fn known_for(&self, open: &HashMap<String, RequestState>, patience: Duration) -> HashSet<String> {
        let now = Instant::now();
        let mut seen = lock(&self.seen);
        seen.retain(|id, _| open.contains_key(id));
        for id in open.keys() {
            seen.entry(id.clone()).or_insert(now);
        }
        let known = seen.iter().filter(|(_, since)| now.saturating_duration_since(**since) >= patience);
        known.map(|(id, _)| id.clone()).collect()
    }

    async fn end_lost(&self, row: &RequestRow) -> Result<(), StoreError> {
        let now = unix_ms();
        let news = messages::results(row, &format!("Your request {} was {OUTCOME_UNKNOWN}.", row.id), now);
        let entry = Actor::system().entry("request.failed", &row.id, row.level, OUTCOME_UNKNOWN.to_owned());
        let along = Along { entry, items: news.clone(), post: None };
        let result = Some(OUTCOME_UNKNOWN.to_owned());
        self.swarm.store().requests().step(row.id.clone(), RequestStep::Fail, result, along, now).await?;
        self.ring(&news);
        Ok(())
    }
}

/// Returns `true` if a request has not begun, and either was approved, or needs no decision and is known for long enough.
fn may_begin(row: &RequestRow, is_known: bool) -> bool {
    match row.state {
        RequestState::Approved => true,
        RequestState::Triage => row.kind != "other" && !row.asks_sysadmin && is_known,
        _ => false,
    }
}
