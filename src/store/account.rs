//! People from other platforms, and the accounts by which they are known.

use serde::Serialize;

use super::audit::{self, AuditEntry, Level};
use super::session::parsed;
use super::sql::{self, OptionalExtension as _, Transaction};
use super::subjects::Accounts;
use super::{Database, Store, StoreError};
use crate::id::Party;

/// An account of a person on a platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Account {
    pub(crate) platform: String,
    /// The platform's id of the account, which never changes.
    pub(crate) id: String,
    pub(crate) person: Party,
    /// The user name when the account was first seen.
    pub(crate) username: String,
    /// The party that bound the account to the person; `None` if the account's first message made the person.
    pub(crate) bound_by: Option<String>,
    /// Unix milliseconds.
    pub(crate) created_at: i64,
}

/// The result of giving a person another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenameOutcome {
    Renamed,
    /// No account belongs to a person of the old name.
    NotFound,
    /// The new name belongs to somebody.
    Taken,
}

/// Moves the memberships of a person to another name.
fn move_memberships(transaction: &Transaction<'_>, from: &Party, to: &Party) -> sql::Result<()> {
    let (from, to) = (from.to_string(), to.to_string());
    transaction.execute(
        // Where the new name is a member already, the row of the old one is deleted below.
        "UPDATE member SET member = ?2 WHERE member = ?1 AND NOT EXISTS (
            SELECT 1 FROM member AS other WHERE other.channel = member.channel AND other.member = ?2)",
        (&from, &to),
    )?;
    transaction.execute("DELETE FROM member WHERE member = ?1", [&from]).map(drop)
}

/// Returns `true` if a name of flock's own people is taken: by another account, a member, an author, or somebody who
/// created a channel or a link, or has a session with an agent.
fn is_known(transaction: &Transaction<'_>, person: &Party) -> sql::Result<bool> {
    if super::person::has_like(transaction, person)? {
        return Ok(true);
    }
    // The search through the messages has no index. It runs once for each new account.
    transaction
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM account WHERE person = ?1 COLLATE NOCASE)
                 OR EXISTS (SELECT 1 FROM member WHERE member = ?1 COLLATE NOCASE)
                 OR EXISTS (SELECT 1 FROM channel WHERE created_by = ?1 COLLATE NOCASE)
                 OR EXISTS (SELECT 1 FROM link WHERE created_by = ?1 COLLATE NOCASE)
                 OR EXISTS (SELECT 1 FROM message WHERE author = ?1 COLLATE NOCASE)
                 OR EXISTS (SELECT 1 FROM session WHERE key LIKE 'agent:%' AND
                    substr(key, length(key) - length(?1) - 9) = ':flock:dm:' || ?1 COLLATE NOCASE)",
        )?
        .query_row([person.to_string()], |row| row.get(0))
}

/// The person behind an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountBinding {
    pub(crate) person: Party,
    /// The party that bound the account to the person. `None` if the account's first message made the person.
    pub(crate) bound_by: Option<Party>,
}

impl Accounts<&Store> {
    /// Returns the person behind an account. The first time, the person gets the first name of `names` that nobody has.
    pub(crate) async fn person_of<N>(
        self,
        platform: String,
        id: String,
        username: String,
        names: N,
        now: i64,
    ) -> Result<Party, StoreError>
    where
        N: IntoIterator<Item = Party> + Send + 'static,
    {
        self.write("find the person of an account", move |transaction| {
            let known = transaction
                .prepare_cached("SELECT person FROM account WHERE platform = ?1 AND id = ?2")?
                .query_row((&platform, &id), |row| parsed(row, 0))
                .optional()?;
            if let Some(person) = known {
                return Ok(person);
            }
            for person in names {
                if is_known(transaction, &person)? {
                    continue;
                }
                transaction
                    .prepare_cached(
                        "INSERT INTO account (platform, id, person, username, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute((&platform, &id, person.to_string(), &username, now))?;
                let entry = AuditEntry {
                    actor: Party::System.to_string(),
                    action: "person.create",
                    subject: person.to_string(),
                    level: Level::Green,
                    detail: format!("{platform} account {id}"),
                    session: None,
                    turn: None,
                };
                audit::append(transaction, &entry, now)?;
                return Ok(person);
            }
            Err(sql::Error::NoRow)
        })
        .await
    }

    /// Binds an account to a person. The memberships of the person that it had before move, unless that person has
    /// another account or is `permanent`.
    pub(crate) async fn bind(
        self,
        account: Account,
        permanent: Vec<Party>,
        entry: AuditEntry,
    ) -> Result<(), StoreError> {
        self.write("bind an account to a person", move |transaction| {
            let before: Option<Party> = transaction
                .prepare_cached("SELECT person FROM account WHERE platform = ?1 AND id = ?2")?
                .query_row((&account.platform, &account.id), |row| parsed(row, 0))
                .optional()?;
            transaction.execute(
                "INSERT INTO account (platform, id, person, username, bound_by, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (platform, id) DO UPDATE SET person = excluded.person, bound_by = excluded.bound_by",
                (
                    &account.platform,
                    &account.id,
                    account.person.to_string(),
                    &account.username,
                    &account.bound_by,
                    account.created_at,
                ),
            )?;
            if let Some(before) = before.filter(|before| *before != account.person) {
                let others: i64 = transaction.query_row(
                    "SELECT count(*) FROM account WHERE person = ?1",
                    [before.to_string()],
                    |row| row.get(0),
                )?;
                if others == 0 && !permanent.contains(&before) {
                    move_memberships(transaction, &before, &account.person)?;
                }
            }
            audit::append(transaction, &entry, account.created_at)
        })
        .await
    }

    /// Forgets an account. Its next message makes a person of its own. Returns `false` if it is not known.
    pub(crate) async fn forget(
        self,
        platform: String,
        id: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("forget an account", move |transaction| {
            let removed = transaction
                .execute("DELETE FROM account WHERE platform = ?1 AND id = ?2", (&platform, &id))?;
            audit::append_if_any(transaction, removed, &entry, now)
        })
        .await
    }

    /// Gives a person another name. Messages that the person wrote keep the name of their time.
    pub(crate) async fn rename(
        self,
        from: Party,
        to: Party,
        entry: AuditEntry,
        now: i64,
    ) -> Result<RenameOutcome, StoreError> {
        self.write("rename a person", move |transaction| {
            let is_other = !from.to_string().eq_ignore_ascii_case(&to.to_string());
            if is_other && is_known(transaction, &to)? {
                return Ok(RenameOutcome::Taken);
            }
            let renamed = transaction.execute(
                "UPDATE account SET person = ?2 WHERE person = ?1",
                (from.to_string(), to.to_string()),
            )?;
            if renamed == 0 {
                return Ok(RenameOutcome::NotFound);
            }
            move_memberships(transaction, &from, &to)?;
            audit::append(transaction, &entry, now)?;
            Ok(RenameOutcome::Renamed)
        })
        .await
    }
}

impl<A> Accounts<&Database<A>> {
    /// Returns all accounts, by the names of their people.
    pub(crate) async fn list(self) -> Result<Vec<Account>, StoreError> {
        self.read("list accounts of people", |connection| {
            connection
                .prepare_cached(
                    "SELECT platform, id, person, username, bound_by, created_at FROM account
                     ORDER BY person, created_at, platform, id",
                )?
                .query_map((), |row| {
                    Ok(Account {
                        platform: row.get(0)?,
                        id: row.get(1)?,
                        person: parsed(row, 2)?,
                        username: row.get(3)?,
                        bound_by: row.get(4)?,
                        created_at: row.get(5)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// Returns the person behind an account of a platform.
    pub(crate) async fn binding(
        self,
        platform: &str,
        id: &str,
    ) -> Result<Option<AccountBinding>, StoreError> {
        self.read("look up the person of an account", |connection| {
            connection
                .prepare_cached("SELECT person, bound_by FROM account WHERE platform = ?1 AND id = ?2")?
                .query_row((platform, id), |row| {
                    let bound_by: Option<String> = row.get(1)?;
                    // A party that can't be read bound nothing.
                    let bound_by = bound_by.and_then(|party| party.parse().ok());
                    Ok(AccountBinding { person: parsed(row, 0)?, bound_by })
                })
                .optional()
        })
        .await
    }

    /// Returns the people to whom the owner bound an account.
    pub(crate) async fn bound_people(self) -> Result<Vec<Party>, StoreError> {
        self.read("list people with a bound account", |connection| {
            connection
                .prepare_cached(
                    "SELECT DISTINCT person FROM account WHERE bound_by IS NOT NULL ORDER BY person",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect()
        })
        .await
    }

    /// Returns the accounts that people have on a platform, one for each person: the one that was made first.
    pub(crate) async fn of_people(
        self,
        platform: &str,
        people: &[Party],
    ) -> Result<Vec<(Party, String)>, StoreError> {
        self.read("look up accounts of people", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id FROM account WHERE platform = ?1 AND person = ?2 ORDER BY created_at LIMIT 1",
            )?;
            let mut found = Vec::new();
            for person in people {
                let account =
                    statement.query_row((platform, person.to_string()), |row| row.get(0)).optional()?;
                found.extend(account.map(|account| (person.clone(), account)));
            }
            Ok(found)
        })
        .await
    }
}
