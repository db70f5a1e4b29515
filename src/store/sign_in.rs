//! The browsers that are signed in to the dashboard: the hash of each cookie, its person, and when it was last used. The
//! cookie itself is never stored.

use super::audit::{self, AuditEntry};
use super::sql::{self, Connection, OptionalExtension as _, Row};
use super::subjects::SignIns;
use super::{Database, Store, StoreError};

/// Milliseconds without a request after which a browser is signed out.
pub(crate) const IDLE_LIMIT: i64 = 3 * 24 * 3600 * 1000;
/// Milliseconds after which a browser is signed out in any case.
pub(crate) const LIFETIME: i64 = 30 * 24 * 3600 * 1000;

/// A browser that is signed in.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignIn {
    /// Names it for people; it opens nothing.
    pub id: String,
    /// The person who signed in, without `human:`.
    pub person: String,
    /// The name that the browser gives itself.
    pub browser: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds of the last request, about a minute exact.
    #[serde(rename = "lastUsedAt")]
    pub used_at: i64,
    /// The name of the person's token with which the browser signed in. The sign-in ends with it. `None` if the browser
    /// came with a code of the owner.
    #[serde(skip)]
    pub token: Option<String>,
    /// The issuer and the subject of the account of OpenID Connect with which the browser signed in. `None` if it came
    /// otherwise.
    #[serde(skip)]
    pub account: Option<(String, String)>,
}

impl SignIn {
    /// Returns the Unix milliseconds at which it ends if no request comes any more.
    #[must_use]
    pub(crate) const fn expires_at(&self) -> i64 {
        let (idle, absolute) = (self.used_at + IDLE_LIMIT, self.created_at + LIFETIME);
        if idle < absolute { idle } else { absolute }
    }

    /// Returns `true` if it has not expired at `now`.
    #[must_use]
    pub(crate) const fn is_good(&self, now: i64) -> bool {
        now < self.expires_at()
    }
}

const COLUMNS: &str = "id, person, browser, created_at, used_at, token, oidc_issuer, oidc_subject";

fn row(row: &Row<'_>) -> sql::Result<SignIn> {
    Ok(SignIn {
        id: row.get(0)?,
        person: row.get(1)?,
        browser: row.get(2)?,
        created_at: row.get(3)?,
        used_at: row.get(4)?,
        token: row.get(5)?,
        account: row.get::<Option<String>>(6)?.zip(row.get(7)?),
    })
}

fn list(connection: &Connection<'_>) -> sql::Result<Vec<SignIn>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM sign_in ORDER BY created_at, id"))?
        .query_map((), row)?
        .collect()
}

impl<A> SignIns<&Database<A>> {
    /// Finds a sign-in by the hash of its cookie, expired or not.
    pub(crate) async fn find(self, hash: String) -> Result<Option<SignIn>, StoreError> {
        self.read("look a sign-in up", move |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM sign_in WHERE hash = ?1"))?
                .query_row([hash], row)
                .optional()
        })
        .await
    }

    /// Finds a sign-in by its id, expired or not.
    pub(crate) async fn with_id(self, id: String) -> Result<Option<SignIn>, StoreError> {
        self.read("look a sign-in up", move |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM sign_in WHERE id = ?1"))?
                .query_row([id], row)
                .optional()
        })
        .await
    }

    /// Returns all sign-ins, the oldest first, expired ones too.
    pub(crate) async fn list(self) -> Result<Vec<SignIn>, StoreError> {
        self.read("list the sign-ins", list).await
    }
}

impl SignIns<&Store> {
    /// Stores a new sign-in under the hash of its cookie, and deletes the expired ones.
    pub(crate) async fn add(
        self,
        new: SignIn,
        hash: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep a sign-in", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM sign_in WHERE used_at <= ?1 OR created_at <= ?2")?
                .execute((now - IDLE_LIMIT, now - LIFETIME))?;
            transaction
                .prepare_cached(
                    "INSERT INTO sign_in (id, hash, person, browser, created_at, used_at, token, oidc_issuer, oidc_subject)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )?
                .execute((
                    &new.id,
                    &hash,
                    &new.person,
                    &new.browser,
                    new.created_at,
                    new.used_at,
                    &new.token,
                    new.account.as_ref().map(|(issuer, _)| issuer),
                    new.account.as_ref().map(|(_, subject)| subject),
                ))?;
            audit::append(transaction, &entry, now)
        })
        .await
    }

    /// Records that a sign-in was used at `now`.
    pub(crate) async fn touch(self, id: String, now: i64) -> Result<(), StoreError> {
        self.write("note the use of a sign-in", move |transaction| {
            transaction
                .prepare_cached("UPDATE sign_in SET used_at = ?2 WHERE id = ?1 AND used_at < ?2")?
                .execute((&id, now))
                .map(drop)
        })
        .await
    }

    /// Ends one sign-in, or all of them if `id` is `None`. Returns the number of those that ended.
    pub(crate) async fn end(
        self,
        id: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<usize, StoreError> {
        self.write("end a sign-in", move |transaction| {
            let ended = match &id {
                Some(id) => transaction.prepare_cached("DELETE FROM sign_in WHERE id = ?1")?.execute([id])?,
                None => transaction.prepare_cached("DELETE FROM sign_in")?.execute(())?,
            };
            if ended > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(ended)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_ends_when_it_is_idle_or_old() {
        let day = 24 * 3600 * 1000;
        let sign_in = |created_at, used_at| SignIn {
            id: "a".to_owned(),
            person: "ann".to_owned(),
            browser: String::new(),
            created_at,
            used_at,
            token: None,
            account: None,
        };
        assert!(sign_in(0, 0).is_good(3 * day - 1) && !sign_in(0, 0).is_good(3 * day));
        assert!(sign_in(0, 29 * day).is_good(30 * day - 1) && !sign_in(0, 29 * day).is_good(30 * day));
    }
}
