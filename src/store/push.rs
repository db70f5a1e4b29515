//! The browsers that get notifications by Web Push, and which notifications each of them got.

use super::audit::{self, AuditEntry};
use super::sql::{self, Connection, Row};
use super::subjects::PushSubscriptions;
use super::{Database, SignIn, Store, StoreError};

/// Most browsers that get notifications.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 32;

/// A browser that gets notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushSubscription {
    pub(crate) id: String,
    /// The id of the sign-in that it belongs to.
    pub(crate) sign_in: String,
    /// The address at the push service.
    pub(crate) endpoint: String,
    /// The browser's public key, as an uncompressed point of P-256.
    pub(crate) p256dh: Vec<u8>,
    /// The browser's secret for the encryption.
    pub(crate) auth: Vec<u8>,
    /// Unix milliseconds.
    pub(crate) created_at: i64,
    /// The end of the last attempt, for people; `None` before the first one.
    pub(crate) result: Option<String>,
    /// Unix milliseconds of that attempt.
    pub(crate) result_at: Option<i64>,
    /// The attempts in a row that failed.
    pub(crate) failures: u32,
}

/// A notification that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushNotice {
    pub(crate) subscription: String,
    /// Names the thing that it is about.
    pub(crate) subject: String,
    pub(crate) attempts: u32,
    /// Unix milliseconds before which it is not tried again.
    pub(crate) next_at: i64,
    /// Set if it is never sent again.
    pub(crate) is_closed: bool,
}

/// The end of an attempt at a notification.
#[derive(Clone, Debug)]
pub(crate) struct PushAttempt {
    /// The id of the subscription.
    pub(crate) subscription: String,
    pub(crate) subject: String,
    /// The reason why it failed, for people. `None` if it was delivered.
    pub(crate) problem: Option<String>,
    /// Unix milliseconds of the next attempt; `None` if nothing more is done.
    pub(crate) next_at: Option<i64>,
}

/// The result of an attempt that a push service accepted.
const DELIVERED: &str = "delivered";

const COLUMNS: &str =
    "p.id, p.sign_in, p.endpoint, p.p256dh, p.auth, p.created_at, p.result, p.result_at, p.failures";

fn subscription(row: &Row<'_>) -> sql::Result<PushSubscription> {
    Ok(PushSubscription {
        id: row.get(0)?,
        sign_in: row.get(1)?,
        endpoint: row.get(2)?,
        p256dh: row.get(3)?,
        auth: row.get(4)?,
        created_at: row.get(5)?,
        result: row.get(6)?,
        result_at: row.get(7)?,
        failures: row.get(8)?,
    })
}

fn notice(row: &Row<'_>) -> sql::Result<PushNotice> {
    Ok(PushNotice {
        subscription: row.get(0)?,
        subject: row.get(1)?,
        attempts: row.get(2)?,
        next_at: row.get(3)?,
        is_closed: row.get::<Option<i64>>(4)?.is_some(),
    })
}

/// Returns the subscriptions of the sign-ins that are good at `now`.
fn list(connection: &Connection<'_>, now: i64) -> sql::Result<Vec<PushSubscription>> {
    let sql = format!(
        "SELECT {COLUMNS}, s.created_at, s.used_at FROM push_subscription p JOIN sign_in s ON s.id = p.sign_in
         ORDER BY p.created_at, p.id"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map((), |row| {
        let sign_in = SignIn {
            token: None,
            account: None,
            id: row.get(1)?,
            person: String::new(),
            browser: String::new(),
            created_at: row.get(9)?,
            used_at: row.get(10)?,
        };
        sign_in.is_good(now).then(|| subscription(row)).transpose()
    })?;
    rows.filter_map(Result::transpose).collect()
}

impl<A> PushSubscriptions<&Database<A>> {
    /// Returns the subscriptions whose browsers are signed in at `now`, the oldest first.
    pub(crate) async fn list(self, now: i64) -> Result<Vec<PushSubscription>, StoreError> {
        self.read("list the subscriptions", move |connection| list(connection, now)).await
    }

    /// Returns what was begun about these subjects, a JSON array of texts.
    pub(crate) async fn notices(self, subjects: &[String]) -> Result<Vec<PushNotice>, StoreError> {
        let subjects = serde_json::json!(subjects).to_string();
        self.read("look which notifications were sent", move |connection| {
            connection
                .prepare_cached(
                    "SELECT subscription, subject, attempts, next_at, closed_at FROM push_notice
                     WHERE subject IN (SELECT value FROM json_each(CAST(?1 AS TEXT)))",
                )?
                .query_map([&subjects], notice)?
                .collect()
        })
        .await
    }
}

impl PushSubscriptions<&Store> {
    /// Stores a subscription in place of the one of its sign-in, and of the one with its endpoint. The things that
    /// `seen` names are known to the person, so nothing is sent about them. Returns `false` if there are too many.
    pub(crate) async fn add(
        self,
        new: PushSubscription,
        seen: Vec<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("keep a subscription", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM push_subscription WHERE sign_in = ?1 OR endpoint = ?2")?
                .execute((&new.sign_in, &new.endpoint))?;
            if list(transaction, now)?.len() >= MAX_SUBSCRIPTIONS {
                return Ok(false);
            }
            transaction
                .prepare_cached(
                    "INSERT INTO push_subscription (id, sign_in, endpoint, p256dh, auth, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute((&new.id, &new.sign_in, &new.endpoint, &new.p256dh, &new.auth, new.created_at))?;
            for subject in &seen {
                transaction
                    .prepare_cached(
                        "INSERT INTO push_notice (subscription, subject, attempts, next_at, closed_at)
                         VALUES (?1, ?2, 0, 0, ?3) ON CONFLICT DO NOTHING",
                    )?
                    .execute((&new.id, subject, now))?;
            }
            audit::append(transaction, &entry, now)?;
            Ok(true)
        })
        .await
    }

    /// Ends the subscription of a sign-in. Returns `false` if there is none.
    pub(crate) async fn end(self, sign_in: String, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("end a subscription", move |transaction| {
            let ended = transaction
                .prepare_cached("DELETE FROM push_subscription WHERE sign_in = ?1")?
                .execute([&sign_in])?;
            audit::append_if_any(transaction, ended, &entry, now)
        })
        .await
    }

    /// Ends a subscription that its push service does not know any more.
    pub(crate) async fn remove(self, id: String) -> Result<(), StoreError> {
        self.write("end a subscription", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM push_subscription WHERE id = ?1")?
                .execute([&id])
                .map(drop)
        })
        .await
    }

    /// Records that an attempt begins. If its end is never recorded, it counts as failed, and `next_at` is the time of
    /// the next one. Returns `false` if the subscription has ended.
    pub(crate) async fn begin(
        self,
        subscription: String,
        subject: String,
        next_at: i64,
    ) -> Result<bool, StoreError> {
        self.write("begin a notification", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO push_notice (subscription, subject, attempts, next_at)
                     SELECT id, ?2, 1, ?3 FROM push_subscription WHERE id = ?1
                     ON CONFLICT (subscription, subject)
                     DO UPDATE SET attempts = push_notice.attempts + 1, next_at = excluded.next_at",
                )?
                .execute((&subscription, &subject, next_at))
                .map(|changed| changed > 0)
        })
        .await
    }

    /// Records how an attempt ended.
    pub(crate) async fn conclude(self, attempt: PushAttempt, now: i64) -> Result<(), StoreError> {
        self.write("record a notification", move |transaction| {
            let closed = attempt.next_at.is_none().then_some(now);
            transaction
                .prepare_cached(
                    "UPDATE push_notice SET next_at = ?3, closed_at = ?4 WHERE subscription = ?1 AND subject = ?2",
                )?
                .execute((
                    &attempt.subscription,
                    &attempt.subject,
                    attempt.next_at.unwrap_or_default(),
                    closed,
                ))?;
            let result = attempt.problem.as_deref().unwrap_or(DELIVERED);
            transaction
                .prepare_cached(
                    "UPDATE push_subscription SET result = ?2, result_at = ?3,
                        failures = CASE WHEN CAST(?4 AS BIGINT) <> 0 THEN failures + 1 ELSE 0 END
                     WHERE id = ?1",
                )?
                .execute((&attempt.subscription, result, now, attempt.problem.is_some()))
                .map(drop)
        })
        .await
    }
}
