//! What waits for a session besides a channel's messages: direct messages, answers, results, words of
//! another session, and the news that a turn was interrupted. Kept from the moment it was accepted until the
//! turn it was given to has ended.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};

use super::audit::{self, AuditEntry};
use super::session::parsed;
use super::{Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// Words of another session of the same agent.
    Session,
    /// A direct message; its answer goes back as the task's.
    Dm,
    /// The answer to a direct message.
    Answer,
    /// What came of a request that needed a decision.
    Result,
    /// A word of flock's.
    Notice,
    /// The last turn broke off and is to go on.
    Resume,
}

impl ItemKind {
    /// The word in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Dm => "dm",
            Self::Answer => "answer",
            Self::Result => "result",
            Self::Notice => "notice",
            Self::Resume => "resume",
        }
    }
}

impl FromSql for ItemKind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        [Self::Session, Self::Dm, Self::Answer, Self::Result, Self::Notice, Self::Resume]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for ItemKind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

/// Something that is to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// For which session.
    pub session: SessionKey,
    /// What it is.
    pub kind: ItemKind,
    /// Who it comes from: a party, or a session.
    pub sender: String,
    /// What it says.
    pub text: String,
    /// The task that it belongs to.
    pub task: Option<String>,
    /// Now, in Unix milliseconds.
    pub now: i64,
}

/// Something that waits, or is with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its id; ids sort by time.
    pub id: String,
    /// For which session.
    pub session: SessionKey,
    /// What it is.
    pub kind: ItemKind,
    /// Who it comes from.
    pub sender: String,
    /// What it says.
    pub text: String,
    /// The task that it belongs to.
    pub task: Option<String>,
    /// When it was accepted, in Unix milliseconds.
    pub created_at: i64,
    /// The turn that it was given to.
    pub turn: Option<TurnId>,
    /// How many turns that began with it broke off.
    pub attempts: u32,
}

const COLUMNS: &str = "id, session, kind, sender, text, task, created_at, turn, attempts";

fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    let turn: Option<String> = row.get(7)?;
    Ok(Item {
        id: row.get(0)?,
        session: parsed(row, 1)?,
        kind: row.get(2)?,
        sender: row.get(3)?,
        text: row.get(4)?,
        task: row.get(5)?,
        created_at: row.get(6)?,
        turn: turn.map(|turn| turn.parse()).transpose().map_err(|_| rusqlite::Error::InvalidQuery)?,
        attempts: row.get(8)?,
    })
}

/// Adds it, and gives its id.
pub(super) fn add(transaction: &Transaction<'_>, new: &NewItem) -> rusqlite::Result<String> {
    let id = uuid::Uuid::now_v7().to_string();
    transaction
        .prepare_cached(
            "INSERT INTO inbox (id, session, kind, sender, text, task, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((&id, new.session.as_str(), new.kind, &new.sender, &new.text, &new.task, new.now))?;
    Ok(id)
}

fn first(connection: &Connection, session: &SessionKey) -> rusqlite::Result<Option<Item>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM inbox WHERE session = ?1 AND turn IS NULL
             ORDER BY kind <> 'resume', id LIMIT 1"
        ))?
        .query_row([session.as_str()], item)
        .optional()
}

impl Store {
    /// Keeps something for a session; gives its id.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn add_item(&self, new: NewItem) -> Result<String, StoreError> {
        self.write("keep a message", move |transaction| add(transaction, &new)).await
    }

    /// As [`Self::add_item`], with a row of the audit.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn add_item_audited(&self, new: NewItem, entry: AuditEntry) -> Result<String, StoreError> {
        self.write("keep a message", move |transaction| {
            audit::append(transaction, &entry, new.now)?;
            add(transaction, &new)
        })
        .await
    }

    /// Gives the next thing that waits for a session to a turn: the news of an interruption first, then the
    /// oldest.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn take_item(&self, session: SessionKey, turn: TurnId) -> Result<Option<Item>, StoreError> {
        self.write("take a message", move |transaction| {
            let Some(mut found) = first(transaction, &session)? else { return Ok(None) };
            transaction
                .prepare_cached("UPDATE inbox SET turn = ?2 WHERE id = ?1")?
                .execute((&found.id, turn.to_string()))?;
            found.turn = Some(turn);
            Ok(Some(found))
        })
        .await
    }

    /// Whether something waits for a session.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn has_items(&self, session: &SessionKey) -> Result<bool, StoreError> {
        self.read("look for messages", |connection| Ok(first(connection, session)?.is_some()))
    }

    /// The sessions for which something waits.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn sessions_with_items(&self) -> Result<Vec<SessionKey>, StoreError> {
        self.read("look for messages", |connection| {
            connection
                .prepare("SELECT DISTINCT session FROM inbox WHERE turn IS NULL")?
                .query_map((), |row| parsed(row, 0))?
                .collect()
        })
    }

    /// What is with a turn.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn items_in_flight(&self) -> Result<Vec<Item>, StoreError> {
        self.read("list messages", |connection| {
            connection
                .prepare(&format!("SELECT {COLUMNS} FROM inbox WHERE turn IS NOT NULL ORDER BY id"))?
                .query_map((), item)?
                .collect()
        })
    }

    /// Ends what was given to a turn: it is done.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn end_items(&self, turn: TurnId) -> Result<(), StoreError> {
        self.write("end a message", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM inbox WHERE turn = ?1")?
                .execute([turn.to_string()])
                .map(drop)
        })
        .await
    }

    /// Lets what was given to a turn that never began wait again.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn return_items(&self, turn: TurnId) -> Result<(), StoreError> {
        self.write("return a message", move |transaction| {
            transaction
                .prepare_cached("UPDATE inbox SET turn = NULL WHERE turn = ?1")?
                .execute([turn.to_string()])
                .map(drop)
        })
        .await
    }

    /// Turns what was given to a turn that broke off into the news of it, unless one waits for the session
    /// already. The task that it belongs to stays with it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn resume_later(
        &self,
        session: SessionKey,
        turn: TurnId,
        reason: String,
        attempts: u32,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("resume a turn later", move |transaction| {
            let task: Option<String> = transaction
                .prepare_cached("SELECT task FROM inbox WHERE turn = ?1 AND task IS NOT NULL")?
                .query_row([turn.to_string()], |row| row.get(0))
                .optional()?;
            transaction.prepare_cached("DELETE FROM inbox WHERE turn = ?1")?.execute([turn.to_string()])?;
            let waits: bool = transaction
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ?1 AND kind = 'resume' AND turn IS NULL)",
                )?
                .query_row([session.as_str()], |row| row.get(0))?;
            if waits && task.is_none() {
                return Ok(());
            }
            let new = NewItem {
                session: session.clone(),
                kind: ItemKind::Resume,
                // Whose news it is.
                sender: turn.to_string(),
                text: reason.clone(),
                task,
                now,
            };
            let id = add(transaction, &new)?;
            transaction.execute("UPDATE inbox SET attempts = ?2 WHERE id = ?1", (id, attempts)).map(drop)
        })
        .await
    }
}
