//! Lists of requests, and the review of those that no person decided.

use super::{RequestRow, find, select};
use crate::id::AgentId;
use crate::store::inbox::{self, NewInboxItem};
use crate::store::sql::{self, Connection};
use crate::store::subjects::Requests;
use crate::store::{Database, Store, StoreError};

fn list(connection: &Connection<'_>, open: bool, limit: u32) -> sql::Result<Vec<RequestRow>> {
    let condition = if open { "state IN ('triage', 'waiting', 'approved', 'running')" } else { "true" };
    let rows = format!("{condition} ORDER BY created_at DESC, id DESC LIMIT ?1");
    let mut found = select(connection, &rows, [limit])?;
    // The query selects the newest rows; the caller gets them oldest first.
    found.reverse();
    Ok(found)
}

impl<A> Requests<&Database<A>> {
    /// Returns an agent's requests of this kind that a person denied at or after `since`, last denied first.
    pub(crate) async fn denied(
        self,
        agent: &AgentId,
        kind: &str,
        since: i64,
    ) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for a denial", |connection| {
            let rows = "agent = ?1 AND kind = ?2 AND state = 'denied' AND decided_at >= ?3
                 ORDER BY decided_at DESC";
            select(connection, rows, (agent.as_str(), kind, since))
        })
        .await
    }

    /// Returns an agent's requests of this kind since `since`, without those that were denied or expired.
    pub(crate) async fn since(
        self,
        agent: &AgentId,
        kind: &str,
        since: i64,
    ) -> Result<Vec<RequestRow>, StoreError> {
        self.read("count an agent's requests", |connection| {
            let rows = "created_at >= ?3 AND agent = ?1 AND kind = ?2 AND state NOT IN ('denied', 'expired')";
            select(connection, rows, (agent.as_str(), kind, since))
        })
        .await
    }

    /// Returns finished requests that no person decided and that the sysadmin has not reviewed, oldest first, at most
    /// `limit`. The second value is the time of the last review.
    pub(crate) async fn unreviewed(self, limit: u32) -> Result<(Vec<RequestRow>, Option<i64>), StoreError> {
        self.read("look what is to be reviewed", |connection| {
            let rows = "level = 'YELLOW' AND reviewed_at IS NULL AND ended_at IS NOT NULL
                 AND state IN ('done', 'failed') ORDER BY ended_at, id LIMIT ?1";
            let rows = select(connection, rows, [limit])?;
            let last = connection
                .prepare_cached("SELECT max(reviewed_at) FROM request")?
                .query_row((), |row| row.get(0))?;
            Ok((rows, last))
        })
        .await
    }

    /// Finds a request by its id.
    pub async fn find(self, id: &str) -> Result<Option<RequestRow>, StoreError> {
        self.read("read a request", |connection| find(connection, id)).await
    }

    /// Returns the number of requests that wait for a person.
    pub(crate) async fn count_waiting(self) -> Result<u64, StoreError> {
        self.read("count the waiting requests", |connection| {
            connection
                // The first condition is that of the index.
                .prepare_cached(
                    "SELECT count(*) FROM request
                     WHERE state IN ('triage', 'waiting', 'approved', 'running') AND state = 'waiting'",
                )?
                .query_row((), |row| row.get::<i64>(0))
                .map(i64::unsigned_abs)
        })
        .await
    }

    /// Returns the requests that wait for a person, oldest first, each with its agent and the Unix milliseconds at which
    /// it expires; at most `limit`.
    pub(crate) async fn waiting(self, limit: u32) -> Result<Vec<(String, String, i64)>, StoreError> {
        self.read("look which requests wait", |connection| {
            connection
                // The first condition is that of the index.
                .prepare_cached(
                    "SELECT id, agent, expires_at FROM request
                     WHERE state IN ('triage', 'waiting', 'approved', 'running') AND state = 'waiting'
                     ORDER BY created_at, id LIMIT ?1",
                )?
                .query_map([limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        })
        .await
    }

    /// Returns the newest requests, at most `limit`, in the order of their creation; with `open`, only those not
    /// finished.
    pub async fn list(self, open: bool, limit: u32) -> Result<Vec<RequestRow>, StoreError> {
        self.read("list requests", |connection| list(connection, open, limit)).await
    }
}

impl Requests<&Store> {
    /// Marks requests as reviewed and adds `item`, which asks the sysadmin for the review, in one transaction.
    pub(crate) async fn mark_reviewed(self, ids: Vec<String>, item: NewInboxItem) -> Result<(), StoreError> {
        self.write("give requests for review", move |transaction| {
            for id in &ids {
                transaction
                    .prepare_cached("UPDATE request SET reviewed_at = ?2 WHERE id = ?1")?
                    .execute((id, item.now))?;
            }
            inbox::add(transaction, &item).map(drop)
        })
        .await
    }
}
