//! The answers of the Responses API that clients may read again and continue. They go with their session.

use super::session::parsed;
use super::sql::OptionalExtension as _;
use super::subjects::Responses;
use super::{Database, Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// A stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredResponse {
    pub(crate) turn: TurnId,
    pub(crate) session: SessionKey,
    /// The whole answer as JSON. Empty if a client deleted it.
    pub(crate) body: String,
    /// `true` if no later answer continues the session.
    pub(crate) is_newest: bool,
}

impl<A> Responses<&Database<A>> {
    /// Returns the answer of a turn, if it is stored.
    pub(crate) async fn find(self, turn: TurnId) -> Result<Option<StoredResponse>, StoreError> {
        self.read("find a response", move |connection| {
            connection
                .prepare_cached(
                    "SELECT r.turn, r.session, r.body, NOT EXISTS
                       (SELECT 1 FROM response l WHERE l.session = r.session
                        AND (l.created_at, l.turn) > (r.created_at, r.turn))
                     FROM response r WHERE r.turn = ?1",
                )?
                .query_row([turn.to_string()], |row| {
                    Ok(StoredResponse {
                        turn: parsed(row, 0)?,
                        session: parsed(row, 1)?,
                        body: row.get(2)?,
                        is_newest: row.get(3)?,
                    })
                })
                .optional()
        })
        .await
    }
}

impl<A> Responses<&Database<A>> {
    /// Returns `true` if an answer of this session is stored.
    pub(crate) async fn any(self, session: &SessionKey) -> Result<bool, StoreError> {
        self.read("look for responses", move |connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM response WHERE session = ?1)")?
                .query_row([session.as_str()], |row| row.get(0))
        })
        .await
    }
}

impl Responses<&Store> {
    /// Stores the answer of a turn at `now`.
    pub(crate) async fn add(
        self,
        turn: TurnId,
        session: SessionKey,
        body: String,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep a response", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO response (turn, session, body, created_at) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute((turn.to_string(), session.as_str(), &body, now))?;
            Ok(())
        })
        .await
    }

    /// Deletes the answer of a turn. The row stays, because the session still has the turn: an earlier answer does not
    /// become the newest again.
    pub(crate) async fn delete(self, turn: TurnId) -> Result<(), StoreError> {
        self.write("delete a response", move |transaction| {
            transaction
                .prepare_cached("UPDATE response SET body = '' WHERE turn = ?1")?
                .execute([turn.to_string()])?;
            Ok(())
        })
        .await
    }
}
