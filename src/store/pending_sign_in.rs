//! The sign-ins to the dashboard that have begun and not ended: the codes that were made, and the browsers that were led to
//! a provider of OpenID Connect. They are rows, so any gateway of a group ends what another one began. The secrets
//! themselves are never stored.

use super::sql::{self, OptionalExtension as _, Row, Transaction};
use super::subjects::SignIns;
use super::{Database, Store, StoreError};

/// Milliseconds in which a code can be used.
pub(crate) const CODE_LIFETIME: i64 = 60_000;
/// Milliseconds in which a browser has to come back from the provider.
pub(crate) const OIDC_SIGN_IN_LIFETIME: i64 = 600_000;

/// The person whose browser signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visitor {
    /// The name, without `human:`.
    pub person: String,
    /// The name of the person's own token, with which the sign-in ends. `None` for a code of the owner.
    pub token: Option<String>,
    /// The issuer and the subject of the account of OpenID Connect, with which the sign-in ends.
    pub account: Option<(String, String)>,
    /// The id of the sign-in whose browser made the code. The new sign-in ends no later than that one.
    pub made_by: Option<String>,
}

/// A sign-in whose browser was led to the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OidcSignIn {
    /// The address to which the browser comes back.
    pub redirect: String,
    /// The provider, as the configuration names it.
    pub issuer: String,
}

/// A table of sign-ins that have begun.
struct Pending {
    table: &'static str,
    /// Milliseconds for which a row is good.
    lifetime: i64,
    /// Most rows that can be there at once. A further one replaces the oldest.
    most: i64,
}

const CODES: Pending = Pending { table: "sign_in_code", lifetime: CODE_LIFETIME, most: 16 };
const OIDC_SIGN_INS: Pending = Pending { table: "oidc_sign_in", lifetime: OIDC_SIGN_IN_LIFETIME, most: 256 };

impl Pending {
    /// Returns the times between which a row that is good was made: after the first one, and not after the second one. A
    /// row of a later time is not good, because a clock that was set back would lengthen its life.
    const fn good(&self, now: i64) -> (i64, i64) {
        (now - self.lifetime, now)
    }

    /// Deletes the rows that are not good any more, and the oldest ones until there is room for one more.
    fn make_room(&self, transaction: &Transaction<'_>, now: i64) -> sql::Result<()> {
        let table = self.table;
        transaction
            .prepare_cached(&format!("DELETE FROM {table} WHERE created_at <= ?1 OR created_at > ?2"))?
            .execute(self.good(now))?;
        transaction
            .prepare_cached(&format!(
                "DELETE FROM {table} WHERE id <= (SELECT id FROM {table} ORDER BY id DESC LIMIT 1 OFFSET ?1)"
            ))?
            .execute([self.most - 1])
            .map(drop)
    }
}

const VISITOR: &str = "person, token, oidc_issuer, oidc_subject, made_by";

fn visitor(row: &Row<'_>) -> sql::Result<Visitor> {
    Ok(Visitor {
        person: row.get(0)?,
        token: row.get(1)?,
        account: row.get::<Option<String>>(2)?.zip(row.get(3)?),
        made_by: row.get(4)?,
    })
}

impl<A> SignIns<&Database<A>> {
    /// Returns the person of the code with this hash and leaves the code unused, or `None` if it is unknown, used or
    /// expired.
    pub(crate) async fn visitor(self, hash: String) -> Result<Option<Visitor>, StoreError> {
        self.read("look a code up", move |connection| {
            let (after, now) = CODES.good(connection.clock()?);
            connection
                .prepare_cached(&format!(
                    "SELECT {VISITOR} FROM sign_in_code WHERE hash = ?1 AND created_at > ?2 AND created_at <= ?3"
                ))?
                .query_row((hash, after, now), visitor)
                .optional()
        })
        .await
    }
}

impl SignIns<&Store> {
    /// Stores a new code under its hash.
    pub(crate) async fn add_code(self, hash: String, new: Visitor) -> Result<(), StoreError> {
        self.write("keep a code", move |transaction| {
            let now = transaction.clock()?;
            CODES.make_room(transaction, now)?;
            let (issuer, subject) = new.account.unzip();
            transaction
                .prepare_cached(
                    "INSERT INTO sign_in_code (hash, person, token, oidc_issuer, oidc_subject, made_by, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute((hash, new.person, new.token, issuer, subject, new.made_by, now))
                .map(drop)
        })
        .await
    }

    /// Uses the code with this hash up and returns its person, or `None` if it is unknown, used or expired. All changes of
    /// a database come one after the other, so of several who use a code at once, one gets the person.
    pub(crate) async fn take_code(self, hash: String) -> Result<Option<Visitor>, StoreError> {
        self.write("use a code", move |transaction| {
            let (after, now) = CODES.good(transaction.clock()?);
            transaction
                .prepare_cached(&format!(
                    "DELETE FROM sign_in_code WHERE hash = ?1 AND created_at > ?2 AND created_at <= ?3
                     RETURNING {VISITOR}"
                ))?
                .query_row((hash, after, now), visitor)
                .optional()
        })
        .await
    }

    /// Stores a sign-in that begins at the provider, under the hashes of its state and of its browser's cookie.
    pub(crate) async fn begin_oidc(
        self,
        (state, browser): (String, String),
        new: OidcSignIn,
    ) -> Result<(), StoreError> {
        self.write("keep a sign-in that begins", move |transaction| {
            let now = transaction.clock()?;
            OIDC_SIGN_INS.make_room(transaction, now)?;
            transaction
                .prepare_cached(
                    "INSERT INTO oidc_sign_in (state, browser, redirect, issuer, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute((state, browser, new.redirect, new.issuer, now))
                .map(drop)
        })
        .await
    }

    /// Ends a sign-in at the provider, and returns it if it has a state with this hash and belongs to the browser whose
    /// cookie has this hash. It is there once. Another browser does not end it.
    pub(crate) async fn take_oidc(
        self,
        (state, browser): (String, String),
    ) -> Result<Option<OidcSignIn>, StoreError> {
        self.write("end a sign-in that began", move |transaction| {
            let (after, now) = OIDC_SIGN_INS.good(transaction.clock()?);
            transaction
                .prepare_cached(
                    "DELETE FROM oidc_sign_in WHERE state = ?1 AND browser = ?2 AND created_at > ?3
                     AND created_at <= ?4 RETURNING redirect, issuer",
                )?
                .query_row((state, browser, after, now), |row| {
                    Ok(OidcSignIn { redirect: row.get(0)?, issuer: row.get(1)? })
                })
                .optional()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    fn open() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        (folder, store)
    }

    fn ann() -> Visitor {
        Visitor { person: "ann".to_owned(), token: None, account: None, made_by: None }
    }

    fn oidc() -> OidcSignIn {
        OidcSignIn { redirect: "http://b".to_owned(), issuer: "https://a".to_owned() }
    }

    fn pair(state: &str, browser: &str) -> (String, String) {
        (state.to_owned(), browser.to_owned())
    }

    /// Has the rows of a table be made so many milliseconds earlier.
    async fn age(store: &Store, pending: &Pending, by: i64) {
        let sql = format!("UPDATE {} SET created_at = created_at - ?1", pending.table);
        store
            .write("age what waits", move |transaction| transaction.execute(&sql, [by]).map(drop))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_code_is_good_once_and_for_a_minute() {
        let (_folder, store) = open();
        let add = |hash: &str, visitor| store.sign_ins().add_code(hash.to_owned(), visitor);
        let look = async |hash: &str| store.sign_ins().visitor(hash.to_owned()).await.unwrap();
        let take = async |hash: &str| store.sign_ins().take_code(hash.to_owned()).await.unwrap();
        let of_browser = Visitor {
            token: Some("ann.1".to_owned()),
            account: Some(pair("https://a", "4711")),
            made_by: Some("01020304".to_owned()),
            ..ann()
        };
        for visitor in [ann(), of_browser] {
            add("one", visitor.clone()).await.unwrap();
            assert_eq!((look("other").await, take("other").await), (None, None));
            age(&store, &CODES, CODE_LIFETIME / 2).await;
            assert_eq!(look("one").await, Some(visitor.clone()), "to look at it does not use it up");
            assert_eq!(take("one").await, Some(visitor));
            assert_eq!((look("one").await, take("one").await), (None, None));
        }
        // The second one is of a time that is still to come.
        for by in [CODE_LIFETIME, -CODE_LIFETIME] {
            add("late", ann()).await.unwrap();
            age(&store, &CODES, by).await;
            assert_eq!((look("late").await, take("late").await), (None, None), "{by}");
        }
        // The rows that are not good are gone, otherwise this hash would be there twice.
        add("late", ann()).await.unwrap();
        assert_eq!(take("late").await, Some(ann()));
    }

    #[tokio::test]
    async fn one_of_many_who_use_a_code_at_once_gets_the_person() {
        let (_folder, store) = open();
        store.sign_ins().add_code("one".to_owned(), ann()).await.unwrap();
        let takes = (0..8).map(|_| store.sign_ins().take_code("one".to_owned()));
        let taken = futures_util::future::join_all(takes).await;
        let good = taken.into_iter().filter_map(Result::unwrap).count();
        assert_eq!(good, 1);
    }

    #[tokio::test]
    async fn a_sign_in_at_a_provider_is_there_once_for_its_browser_and_for_ten_minutes() {
        let (_folder, store) = open();
        let begin = |state: &str, browser: &str| store.sign_ins().begin_oidc(pair(state, browser), oidc());
        let take = async |state: &str, browser: &str| {
            store.sign_ins().take_oidc(pair(state, browser)).await.unwrap()
        };
        begin("s1", "b1").await.unwrap();
        begin("s2", "b2").await.unwrap();
        assert_eq!(take("s1", "b2").await, None, "it is another browser's");
        assert_eq!(take("x", "b1").await, None);
        age(&store, &OIDC_SIGN_INS, OIDC_SIGN_IN_LIFETIME / 2).await;
        assert_eq!(take("s1", "b1").await, Some(oidc()));
        assert_eq!(take("s1", "b1").await, None, "it was used");
        age(&store, &OIDC_SIGN_INS, OIDC_SIGN_IN_LIFETIME / 2).await;
        assert_eq!(take("s2", "b2").await, None, "it has expired");
    }

    #[tokio::test]
    async fn the_oldest_gives_way() {
        let (_folder, store) = open();
        for number in 0..=CODES.most {
            store.sign_ins().add_code(number.to_string(), ann()).await.unwrap();
        }
        for number in 0..=CODES.most {
            let found = store.sign_ins().take_code(number.to_string()).await.unwrap();
            assert_eq!(found, (number > 0).then(ann), "{number}");
        }
        for number in 0..=OIDC_SIGN_INS.most {
            store.sign_ins().begin_oidc(pair(&number.to_string(), "b"), oidc()).await.unwrap();
        }
        for number in 0..=OIDC_SIGN_INS.most {
            let found = store.sign_ins().take_oidc(pair(&number.to_string(), "b")).await.unwrap();
            assert_eq!(found, (number > 0).then(oidc), "{number}");
        }
    }
}
