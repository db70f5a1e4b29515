//! The inbox: messages to a session that do not come from a channel.
//!
//! They are direct messages and their answers, results of requests, messages of another session, and notes that a turn
//! was interrupted. An item is kept from its acceptance until the turn that received it has ended.

use super::audit::{self, AuditEntry};
use super::notice::NoticeKind;
use super::schedule;
use super::session::parsed;
use super::sql::{
    self, Connection, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult,
    Transaction, ValueRef,
};
use super::subjects::InboxItems;
use super::{Database, Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// The kind of an inbox item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxItemKind {
    /// A message from another session of the same agent.
    Session,
    /// A direct message; its answer becomes the answer of the task.
    Dm,
    /// The answer to a direct message.
    Answer,
    /// The result of a request that needed a decision.
    Result,
    /// A notice by flock itself.
    Notice,
    /// The last turn was interrupted and has to be resumed.
    Resume,
}

impl InboxItemKind {
    /// Returns the name that the database stores.
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

impl FromSql for InboxItemKind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        [Self::Session, Self::Dm, Self::Answer, Self::Result, Self::Notice, Self::Resume]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for InboxItemKind {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// An item to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInboxItem {
    pub session: SessionKey,
    pub kind: InboxItemKind,
    /// A party or a session key.
    pub sender: String,
    pub text: String,
    /// The id of the task that it belongs to.
    pub task: Option<String>,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// An item that waits, or that a turn has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    /// A UUID of version 7, so ids sort by time.
    pub id: String,
    pub session: SessionKey,
    pub kind: InboxItemKind,
    /// A party, a session key, or the interrupted turn for [`InboxItemKind::Resume`].
    pub sender: String,
    pub text: String,
    /// The id of the task that it belongs to.
    pub task: Option<String>,
    /// Unix milliseconds of its acceptance.
    pub created_at: i64,
    /// The turn that received it; `None` while it waits.
    pub turn: Option<TurnId>,
    /// The number of turns that began with it and were interrupted.
    pub attempts: u32,
}

const COLUMNS: &str = "id, session, kind, sender, text, task, created_at, turn, attempts";

fn item(row: &Row<'_>) -> sql::Result<InboxItem> {
    let turn: Option<String> = row.get(7)?;
    Ok(InboxItem {
        id: row.get(0)?,
        session: parsed(row, 1)?,
        kind: row.get(2)?,
        sender: row.get(3)?,
        text: row.get(4)?,
        task: row.get(5)?,
        created_at: row.get(6)?,
        turn: turn.map(|turn| turn.parse()).transpose().map_err(|_| sql::Error::Malformed)?,
        attempts: row.get(8)?,
    })
}

/// Adds an item and returns its id.
pub(super) fn add(transaction: &Transaction<'_>, new: &NewInboxItem) -> sql::Result<String> {
    // Version 7 starts with a time stamp, so ids sort in the order of acceptance.
    let id = uuid::Uuid::now_v7().to_string();
    transaction
        .prepare_cached(
            "INSERT INTO inbox (id, session, kind, sender, text, task, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((&id, new.session.as_str(), new.kind, &new.sender, &new.text, &new.task, new.now))?;
    transaction.tell(NoticeKind::Work, "");
    Ok(id)
}

fn first(connection: &Connection<'_>, session: &SessionKey) -> sql::Result<Option<InboxItem>> {
    // The interrupted turn is resumed before anything new begins.
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM inbox WHERE session = ?1 AND turn IS NULL
             ORDER BY kind <> 'resume', id LIMIT 1"
        ))?
        .query_row([session.as_str()], item)
        .optional()
}

impl<A> InboxItems<&Database<A>> {
    /// Returns `true` if an item waits for a session.
    pub(crate) async fn has_items(self, session: &SessionKey) -> Result<bool, StoreError> {
        // The texts of the items are not read: the scheduler waits for this at the end of each turn.
        self.read("look for messages", |connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ?1 AND turn IS NULL)")?
                .query_row([session.as_str()], |row| row.get(0))
        })
        .await
    }

    /// Returns the sessions with waiting items.
    pub async fn sessions(self) -> Result<Vec<SessionKey>, StoreError> {
        self.read("look for messages", |connection| {
            connection
                .prepare("SELECT DISTINCT session FROM inbox WHERE turn IS NULL")?
                .query_map((), |row| parsed(row, 0))?
                .collect()
        })
        .await
    }

    /// Returns the items that turns have received, oldest first.
    pub async fn in_flight(self) -> Result<Vec<InboxItem>, StoreError> {
        self.read("list messages", |connection| {
            connection
                .prepare(&format!("SELECT {COLUMNS} FROM inbox WHERE turn IS NOT NULL ORDER BY id"))?
                .query_map((), item)?
                .collect()
        })
        .await
    }
}

impl InboxItems<&Store> {
    /// Adds an item for a session and returns its id.
    pub(crate) async fn add(self, new: NewInboxItem) -> Result<String, StoreError> {
        self.write("keep a message", move |transaction| add(transaction, &new)).await
    }

    /// Adds an item, as [`Self::add`] does, with a row in the audit.
    pub(crate) async fn add_audited(
        self,
        new: NewInboxItem,
        entry: AuditEntry,
    ) -> Result<String, StoreError> {
        self.write("keep a message", move |transaction| {
            audit::append(transaction, &entry, new.now)?;
            add(transaction, &new)
        })
        .await
    }

    /// Gives a session's next waiting item to a turn: a [`InboxItemKind::Resume`] item first, then the oldest.
    pub async fn take(self, session: SessionKey, turn: TurnId) -> Result<Option<InboxItem>, StoreError> {
        self.write("take a message", move |transaction| {
            // The item stays in the table until the turn has ended, so that a crash does not lose it.
            let Some(mut found) = first(transaction, &session)? else { return Ok(None) };
            transaction
                .prepare_cached("UPDATE inbox SET turn = ?2 WHERE id = ?1")?
                .execute((&found.id, turn.to_string()))?;
            if let Some(task) = &found.task {
                schedule::charge_task(transaction, task, &turn.to_string())?;
            }
            found.turn = Some(turn);
            Ok(Some(found))
        })
        .await
    }

    /// Deletes the items of a turn that has ended.
    pub async fn delete(self, turn: TurnId) -> Result<(), StoreError> {
        self.write("end a message", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM inbox WHERE turn = ?1")?
                .execute([turn.to_string()])
                .map(drop)
        })
        .await
    }

    /// Returns the items of a turn that never began to the queue.
    pub(crate) async fn requeue(self, turn: TurnId) -> Result<(), StoreError> {
        self.write("return a message", move |transaction| {
            transaction
                .prepare_cached("UPDATE inbox SET turn = NULL WHERE turn = ?1")?
                .execute([turn.to_string()])
                .map(drop)
        })
        .await
    }

    /// Replaces the items of an interrupted turn by one [`InboxItemKind::Resume`] item, which keeps their task.
    ///
    /// Adds none if one waits for the session already and there is no task to keep.
    pub(crate) async fn queue_resume(
        self,
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
            // One note about an interruption is enough for a session.
            let waits: bool = transaction
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ?1 AND kind = 'resume' AND turn IS NULL)",
                )?
                .query_row([session.as_str()], |row| row.get(0))?;
            // A task must keep an item of its own, or nobody would work on it any more.
            if waits && task.is_none() {
                return Ok(());
            }
            let new = NewInboxItem {
                session: session.clone(),
                kind: InboxItemKind::Resume,
                // The interrupted turn is named as the sender.
                sender: turn.to_string(),
                text: reason.clone(),
                task,
                now,
            };
            let id = add(transaction, &new)?;
            // A new item starts with no attempts. This one continues the count of the interrupted turn.
            transaction.execute("UPDATE inbox SET attempts = ?2 WHERE id = ?1", (id, attempts)).map(drop)
        })
        .await
    }
}
