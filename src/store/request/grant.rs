//! What agents were granted, and how it is revoked and restored.

use std::sync::atomic::Ordering;

use super::change::{changed, take};
use super::{Along, RequestRow, RequestState, RequestStep, RequestTransition, digest, find, select};
use crate::id::AgentId;
use crate::store::audit::{self, AuditEntry};
use crate::store::notice::NoticeKind;
use crate::store::session::parsed;
use crate::store::sql;
use crate::store::subjects::Grants;
use crate::store::{Database, Store, StoreError, person, token};

impl<A> Grants<&Database<A>> {
    /// Returns an agent's requests of this kind whose grants somebody revoked, last revoked first.
    pub(crate) async fn revoked(self, agent: &AgentId, kind: &str) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for what was taken back", |connection| {
            let rows = "agent = ?1 AND kind = ?2 AND state = 'done' AND revoked_by IS NOT NULL
                 ORDER BY revoked_at DESC";
            select(connection, rows, (agent.as_str(), kind))
        })
        .await
    }

    /// Returns an agent's requests of this kind that were carried out and not revoked, newest first.
    pub(crate) async fn carried_out(
        self,
        agent: &AgentId,
        kind: &str,
    ) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for what was granted", |connection| {
            let rows = "agent = ?1 AND kind = ?2 AND state = 'done' AND revoked_at IS NULL
                 ORDER BY created_at DESC";
            select(connection, rows, (agent.as_str(), kind))
        })
        .await
    }

    /// Returns the hosts that an older version of flock granted without a person and that have not been listed to
    /// anybody yet.
    pub(crate) async fn unlisted(self) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for older grants", |connection| {
            let rows = "to_list = 1 AND state = 'done' AND revoked_at IS NULL ORDER BY agent, created_at";
            select(connection, rows, ())
        })
        .await
    }

    /// Returns the bodies of an agent's current grants of this kind.
    pub async fn bodies(self, agent: &AgentId, kind: &str) -> Result<Vec<String>, StoreError> {
        self.read("read what was granted", |connection| {
            let found: Vec<(String, String)> = connection
                .prepare_cached(
                    "SELECT body, sha256 FROM request WHERE agent = ?1 AND kind = ?2 AND state = 'done'
                     AND scope = 'agent' AND revoked_at IS NULL ORDER BY created_at",
                )?
                .query_map((agent.as_str(), kind), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<sql::Result<_>>()?;
            // A body that no longer matches its digest was edited in the database, so it grants nothing.
            Ok(found
                .into_iter()
                .filter(|(body, sha256)| digest(body) == *sha256)
                .map(|(body, _)| body)
                .collect())
        })
        .await
    }

    /// Returns the agents that have a grant, wait for one, or are named in a client's token, sorted and without
    /// duplicates.
    pub(crate) async fn agents(self) -> Result<Vec<AgentId>, StoreError> {
        self.read("read who was granted something", |connection| {
            let granted: Vec<AgentId> = connection
                .prepare_cached(
                    "SELECT DISTINCT agent FROM request WHERE revoked_at IS NULL
                     AND (state = 'done' AND scope = 'agent' OR state IN ('triage', 'waiting', 'approved'))",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect::<sql::Result<_>>()?;
            // A token can name an agent that has never made a request.
            let mut all =
                [granted, token::named_agents(connection)?, person::named_agents(connection)?].concat();
            all.sort_unstable();
            all.dedup();
            Ok(all)
        })
        .await
    }

    /// Returns the requests of this kind that grant something and that no person decided.
    pub(crate) async fn automatic(self, kind: &str) -> Result<Vec<RequestRow>, StoreError> {
        self.read("read what was granted", |connection| {
            let rows = "kind = ?1 AND state = 'done' AND scope = 'agent' AND revoked_at IS NULL
                 AND decided_by IS NULL ORDER BY agent, created_at";
            select(connection, rows, [kind])
        })
        .await
    }

    /// Returns the current grants of this kind, each with its agent, the request's id and its body.
    pub async fn list(self, kind: &str) -> Result<Vec<(AgentId, String, String)>, StoreError> {
        self.read("read what was granted", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT agent, id, body, sha256 FROM request WHERE kind = ?1 AND state = 'done'
                 AND scope = 'agent' AND revoked_at IS NULL ORDER BY agent, created_at",
            )?;
            let mut rows = statement.query([kind])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let (body, sha256): (String, String) = (row.get(2)?, row.get(3)?);
                // As in [`Self::bodies`], an edited body grants nothing.
                if digest(&body) == sha256 {
                    found.push((parsed(&row, 0)?, row.get(1)?, body));
                }
            }
            Ok(found)
        })
        .await
    }
}

impl Grants<&Store> {
    /// Restores the grant of a request that somebody revoked. Returns [`RequestTransition::Not`] if it was not revoked by anybody.
    pub(crate) async fn restore(
        self,
        id: String,
        sha256: String,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        let moved = self.write("give back what was taken back", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            if found.sha256 != sha256 || digest(&found.body) != sha256 {
                return Ok(RequestTransition::Changed(found));
            }
            // Without a `revoked_by` the grant ended with its agent, and there is nobody to get it back.
            if found.revoked_by.is_none() || found.state != RequestState::Done {
                return Ok(RequestTransition::Not(found));
            }
            // Restoring a grant is a new approval of the same body.
            transaction
                .prepare_cached(
                    "UPDATE request SET revoked_at = NULL, revoked_by = NULL, decided_by = ?2, decided_at = ?3,
                        approved = ?4 WHERE id = ?1",
                )?
                .execute((&id, &along.entry.actor, now, &sha256))?;
            along.write(transaction, now)?;
            transaction.tell(NoticeKind::Grant, found.agent.as_str());
            changed(transaction, &id)
        });
        let moved = moved.await;
        self.0.access.grants.fetch_add(1, Ordering::SeqCst);
        moved
    }

    /// Records that older grants were listed, with a row in the audit.
    pub(crate) async fn mark_listed(
        self,
        ids: Vec<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("note that grants were listed", move |transaction| {
            for id in &ids {
                transaction.prepare_cached("UPDATE request SET to_list = 0 WHERE id = ?1")?.execute([id])?;
            }
            audit::append(transaction, &entry, now)
        })
        .await
    }

    /// Revokes all grants of an agent, or with `only` those of one request. Returns the number of revoked grants.
    ///
    /// Without `only` the agent itself is going away: its open requests are denied, and it is removed from the tokens
    /// of clients. With `only`, the party that revoked is recorded, and an installed package and a created agent count
    /// as grants too.
    pub async fn revoke(
        self,
        agent: AgentId,
        only: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<usize, StoreError> {
        let revoked = self.write("take back what was granted", move |transaction| {
            let revoked = transaction
                .prepare_cached(
                    "UPDATE request SET revoked_at = ?3,
                        revoked_by = CASE WHEN CAST(?2 AS TEXT) IS NULL THEN NULL ELSE ?4 END
                     WHERE agent = ?1 AND (CAST(?2 AS TEXT) IS NULL OR id = ?2) AND state = 'done' AND revoked_at IS NULL
                     AND (scope = 'agent' OR CAST(?2 AS TEXT) IS NOT NULL AND kind IN ('package', 'agent-create'))",
                )?
                .execute((agent.as_str(), &only, now, &entry.actor))?;
            if only.is_none() {
                // A later agent with this id is another agent, to which nobody denied anything.
                transaction
                    .prepare_cached("UPDATE request SET revoked_by = NULL WHERE agent = ?1")?
                    .execute([agent.as_str()])?;
            }
            // An open request of an agent that is going away must not become a grant for its successor.
            let open: Vec<String> = transaction
                .prepare_cached(
                    "SELECT id FROM request WHERE agent = ?1 AND CAST(?2 AS TEXT) IS NULL
                     AND state IN ('triage', 'waiting', 'approved')",
                )?
                .query_map((agent.as_str(), &only), |row| row.get(0))?
                .collect::<sql::Result<_>>()?;
            let mut denied = 0;
            for id in open {
                if let RequestTransition::Done(_) = take(transaction, &id, RequestStep::Deny, now)? {
                    transaction
                        .prepare_cached(
                            "UPDATE request SET decided_by = ?2, decided_at = ?3, result = ?4 WHERE id = ?1",
                        )?
                        .execute((&id, &entry.actor, now, "the agent was removed"))?;
                    denied += 1;
                }
            }
            let narrowed = if only.is_none() {
                token::remove_agent(transaction, &agent)? + person::remove_agent(transaction, &agent)?
            } else {
                0
            };
            // A call that changed nothing leaves no audit row.
            if revoked + denied + narrowed > 0 {
                transaction.tell(NoticeKind::Grant, agent.as_str());
                audit::append(transaction, &entry, now)?;
            }
            Ok(revoked)
        });
        let revoked = revoked.await;
        self.0.access.grants.fetch_add(1, Ordering::SeqCst);
        revoked
    }

    /// Marks a grant as one that an older version of flock made.
    #[cfg(test)]
    pub(crate) async fn mark_unlisted(self, id: &str) {
        let id = id.to_owned();
        let mark = |transaction: &sql::Transaction<'_>, id: &str| {
            transaction.execute("UPDATE request SET to_list = 1 WHERE id = ?1", [id]).map(drop)
        };
        self.write("mark a grant", move |transaction| mark(transaction, &id)).await.unwrap();
    }

    /// Returns a number that changes with each change of a grant that is made through this store, or by another process that tells
    /// the gateway.
    #[must_use]
    pub(crate) fn version(self) -> u64 {
        self.0.access.grants.load(Ordering::SeqCst)
    }
}
