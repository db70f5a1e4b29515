//! What agent programs know sessions' conversations by.

use rusqlite::OptionalExtension as _;

use super::{Store, StoreError};
use crate::id::SessionKey;

/// A conversation as an agent program knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramConversation {
    /// The program's name for it.
    pub name: String,
    /// What it was begun with.
    pub begun: Begun,
}

/// What a program's conversation was begun with. One that was begun with something else can't be gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// flock's own name of the conversation.
    pub conversation: String,
    /// Where the program ran.
    pub place: String,
    /// The SHA-256 of the system prompt, in hex.
    pub prompt: String,
}

impl Store {
    /// What a program knows a session's conversation by.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn program_conversation(
        &self,
        session: &SessionKey,
        program: &str,
    ) -> Result<Option<ProgramConversation>, StoreError> {
        self.read("find a program's conversation", |connection| {
            connection
                .prepare_cached(
                    "SELECT name, conversation, place, prompt FROM program_conversation
                     WHERE session = ?1 AND program = ?2",
                )?
                .query_row((session.as_str(), program), |row| {
                    let begun = Begun { conversation: row.get(1)?, place: row.get(2)?, prompt: row.get(3)? };
                    Ok(ProgramConversation { name: row.get(0)?, begun })
                })
                .optional()
        })
    }

    /// Keeps it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn keep_program_conversation(
        &self,
        session: SessionKey,
        program: &'static str,
        kept: ProgramConversation,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep a program's conversation", move |transaction| {
            let ProgramConversation { name, begun } = kept;
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO program_conversation
                         (session, program, name, conversation, place, prompt, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute((
                    session.as_str(),
                    program,
                    name,
                    begun.conversation,
                    begun.place,
                    begun.prompt,
                    now,
                ))?;
            Ok(())
        })
        .await
    }

    /// Forgets it: the program does not know it any more.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn forget_program_conversation(
        &self,
        session: SessionKey,
        program: &'static str,
    ) -> Result<(), StoreError> {
        self.write("forget a program's conversation", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM program_conversation WHERE session = ?1 AND program = ?2")?
                .execute((session.as_str(), program))?;
            Ok(())
        })
        .await
    }
}
