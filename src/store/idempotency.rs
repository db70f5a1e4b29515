//! Idempotency keys: a client may repeat a request under the same key and gets the outcome of the first one.
//!
//! A key is valid for a day.

use super::sql::{self, Connection, OptionalExtension as _, Transaction};
use super::subjects::IdempotencyKeys;
use super::{Database, Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// The lifetime of a key, in milliseconds.
pub const KEY_LIFETIME: i64 = 24 * 3_600_000;

/// A client's key for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The client. Two clients may use the same key.
    pub caller: String,
    /// The key as the client sent it.
    pub name: String,
    /// A digest of the request, which detects a key that is reused for another request.
    pub digest: String,
}

/// A stored request and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedRequest {
    pub digest: String,
    /// The session of its turn; `None` if the request began no turn.
    pub session: Option<SessionKey>,
    pub turn: Option<TurnId>,
    /// The outcome; `None` while the request is still being processed.
    pub answer: Option<String>,
    /// Unix milliseconds of the first attempt.
    pub created_at: i64,
}

/// Finds the request of a key that is still valid at `now`.
pub(super) fn find(
    connection: &Connection<'_>,
    key: &IdempotencyKey,
    now: i64,
) -> sql::Result<Option<KeyedRequest>> {
    let parsed = |text: Option<String>| text.and_then(|text| text.parse().ok());
    // Expired keys have to be ignored here, because they are deleted only when another key is stored.
    connection
        .prepare_cached(
            "SELECT digest, session, turn, answer, created_at FROM idempotency_key
             WHERE caller = ?1 AND name = ?2 AND created_at > ?3",
        )?
        .query_row((&key.caller, &key.name, now - KEY_LIFETIME), |row| {
            Ok(KeyedRequest {
                digest: row.get(0)?,
                session: row.get::<Option<String>>(1)?.and_then(|key| key.parse().ok()),
                turn: parsed(row.get(2)?),
                answer: row.get(3)?,
                created_at: row.get(4)?,
            })
        })
        .optional()
}

/// Stores a key for a request and deletes expired keys.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    key: &IdempotencyKey,
    turn: Option<(&SessionKey, TurnId)>,
    answer: Option<&str>,
    now: i64,
) -> sql::Result<()> {
    transaction
        .prepare_cached("DELETE FROM idempotency_key WHERE created_at <= ?1")?
        .send([now - KEY_LIFETIME])?;
    transaction
        .prepare_cached(
            "INSERT INTO idempotency_key (caller, name, digest, session, turn, answer, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .send((
            &key.caller,
            &key.name,
            &key.digest,
            turn.map(|(session, _)| session.as_str()),
            turn.map(|(_, turn)| turn.to_string()),
            answer,
            now,
        ))
}

impl<A> IdempotencyKeys<&Database<A>> {
    /// Finds the request of a key.
    pub(crate) async fn find(
        self,
        key: &IdempotencyKey,
        now: i64,
    ) -> Result<Option<KeyedRequest>, StoreError> {
        self.read("look an idempotency key up", |connection| find(connection, key, now)).await
    }
}

impl IdempotencyKeys<&Store> {
    /// Claims a key for the request that begins a turn. Returns the earlier request if the key is in use.
    pub(crate) async fn claim(
        self,
        key: IdempotencyKey,
        session: SessionKey,
        turn: TurnId,
        now: i64,
    ) -> Result<Option<KeyedRequest>, StoreError> {
        self.write("keep an idempotency key", move |transaction| {
            // Both statements are in one transaction, so of two simultaneous requests only one begins a turn.
            if let Some(found) = find(transaction, &key, now)? {
                return Ok(Some(found));
            }
            insert(transaction, &key, Some((&session, turn)), None, now)?;
            Ok(None)
        })
        .await
    }

    /// Stores the outcome of the request that claimed the key for this turn. If a later request has the key by now, nothing
    /// is changed.
    pub(crate) async fn set_answer(
        self,
        key: IdempotencyKey,
        turn: TurnId,
        answer: String,
    ) -> Result<(), StoreError> {
        self.write("keep the answer to a request", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE idempotency_key SET answer = ?4 WHERE caller = ?1 AND name = ?2 AND turn = ?3",
                )?
                .execute((&key.caller, &key.name, turn.to_string(), answer))
                .map(drop)
        })
        .await
    }

    /// Frees a key whose request had no effect. A key with an outcome is kept, and so is one that another turn claimed since:
    /// a gateway may free it late, when the client has already repeated its request at another one.
    pub(crate) async fn release(self, key: IdempotencyKey, turn: TurnId) -> Result<(), StoreError> {
        self.write("free an idempotency key", move |transaction| {
            // A key with an answer belongs to a request that had an effect.
            transaction
                .prepare_cached(
                    "DELETE FROM idempotency_key
                     WHERE caller = ?1 AND name = ?2 AND turn = ?3 AND answer IS NULL",
                )?
                .execute((&key.caller, &key.name, turn.to_string()))
                .map(drop)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    #[tokio::test]
    async fn a_key_names_its_request_for_a_day_across_processes() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let key = |caller: &str| IdempotencyKey {
            caller: caller.to_owned(),
            name: "k".to_owned(),
            digest: "d".to_owned(),
        };
        let session: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        let (turn, start) = (TurnId::new(), 1_000_000);
        let store = Store::open(&home).unwrap();
        assert!(
            store.idempotency_keys().claim(key("a"), session.clone(), turn, start).await.unwrap().is_none()
        );
        assert!(
            store.idempotency_keys().claim(key("b"), session.clone(), turn, start).await.unwrap().is_none()
        );
        store.idempotency_keys().set_answer(key("a"), turn, "done".to_owned()).await.unwrap();
        store.idempotency_keys().release(key("a"), turn).await.unwrap();
        store.idempotency_keys().release(key("b"), turn).await.unwrap();
        drop(store);
        let store = Store::open(&home).unwrap();
        let last = start + KEY_LIFETIME - 1;
        let known = store
            .idempotency_keys()
            .claim(key("a"), session.clone(), TurnId::new(), last)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((known.turn, known.answer.as_deref()), (Some(turn), Some("done")));
        assert!(store.idempotency_keys().find(&key("b"), last).await.unwrap().is_none(), "it was freed");
        assert!(
            store
                .idempotency_keys()
                .claim(key("a"), session, TurnId::new(), last + 1)
                .await
                .unwrap()
                .is_none()
        );
    }

    #[tokio::test]
    async fn a_late_end_of_one_turn_leaves_the_key_to_the_turn_that_claimed_it_since() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        let key = || IdempotencyKey { caller: "a".to_owned(), name: "k".to_owned(), digest: "d".to_owned() };
        let session: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        let keys = || store.idempotency_keys();
        let (first, second) = (TurnId::new(), TurnId::new());
        for turn in [first, second] {
            assert!(keys().claim(key(), session.clone(), turn, 1).await.unwrap().is_none());
            keys().release(key(), first).await.unwrap();
        }
        keys().set_answer(key(), first, "late".to_owned()).await.unwrap();
        let known = keys().find(&key(), 1).await.unwrap().unwrap();
        assert_eq!((known.turn, known.answer), (Some(second), None));
        keys().set_answer(key(), second, "done".to_owned()).await.unwrap();
        let known = keys().find(&key(), 1).await.unwrap().unwrap();
        assert_eq!((known.turn, known.answer.as_deref()), (Some(second), Some("done")));
    }
}
