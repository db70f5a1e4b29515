//! Messages that one session sent to another: kept from the moment they were accepted until their turn has
//! ended, so that a crash in between loses none.

use rusqlite::Transaction;

use super::session::parsed;
use super::{Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// An accepted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The turn that it starts.
    pub turn: TurnId,
    /// Whose turn that is.
    pub session: SessionKey,
    /// What it says.
    pub text: String,
    /// What the model is told of where it comes from.
    pub context: String,
    /// When it was accepted, in milliseconds since the epoch.
    pub at: i64,
}

impl Store {
    /// Keeps a message.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn keep_message(&self, message: Accepted) -> Result<(), StoreError> {
        self.write("keep a message", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO inbox (id, session, kind, text, sender, created_at) VALUES (?1, ?2, 'session', ?3, ?4, ?5)",
                )?
                .execute((
                    message.turn.to_string(),
                    message.session.as_str(),
                    message.text,
                    message.context,
                    message.at,
                ))
                .map(drop)
        })
        .await
    }

    /// Forgets a message whose turn has ended, or never can begin.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn forget_message(&self, turn: TurnId) -> Result<(), StoreError> {
        self.write("forget a message", move |transaction| {
            transaction.execute("DELETE FROM inbox WHERE id = ?1", [turn.to_string()]).map(drop)
        })
        .await
    }

    /// Forgets a message if its turn has begun; one that only waited is kept for the next start.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn forget_begun_message(&self, turn: TurnId) -> Result<(), StoreError> {
        self.write("forget a message", move |transaction| {
            let sql = format!("DELETE FROM inbox WHERE id = ?1 AND {BEGUN}");
            transaction.execute(&sql, [turn.to_string()]).map(drop)
        })
        .await
    }

    /// What an earlier process accepted and did not end, oldest first. A message whose turn had begun gets
    /// one more turn, with a new id; one that had that already is given up.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn left_messages(&self) -> Result<Vec<Accepted>, StoreError> {
        self.write("list kept messages", |transaction| {
            transaction.execute(
                &format!("DELETE FROM inbox WHERE kind = 'session' AND attempts > 0 AND {BEGUN}"),
                (),
            )?;
            let begun: Vec<String> = transaction
                .prepare(&format!("SELECT id FROM inbox WHERE kind = 'session' AND {BEGUN}"))?
                .query_map((), |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for turn in begun {
                transaction.execute(
                    "UPDATE inbox SET id = ?2, attempts = attempts + 1 WHERE id = ?1",
                    (turn, TurnId::new().to_string()),
                )?;
            }
            all(transaction)
        })
        .await
    }
}

const BEGUN: &str = "EXISTS (SELECT 1 FROM turn WHERE turn.id = inbox.id)";

fn all(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<Accepted>> {
    transaction
        .prepare("SELECT id, session, text, sender, created_at FROM inbox WHERE kind = 'session' ORDER BY created_at, id")?
        .query_map((), |row| {
            Ok(Accepted {
                turn: parsed(row, 0)?,
                session: parsed(row, 1)?,
                text: row.get(2)?,
                context: row.get(3)?,
                at: row.get(4)?,
            })
        })?
        .collect()
}
