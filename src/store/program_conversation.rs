//! The agent programs' own names for sessions' conversations, with which a program can continue one.

use super::session::parsed;
use super::sql::{self, Connection, OptionalExtension as _};
use super::subjects::ProgramConversations;
use super::{Database, Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// A conversation in an agent program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramConversation {
    /// The program's own name for it.
    pub name: String,
    /// The last turn of the session that the program has seen.
    pub turn: TurnId,
    pub begun: ConversationOrigin,
}

/// The conditions under which a program's conversation was begun. It can be continued only if they are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationOrigin {
    /// flock's own name of the conversation.
    pub conversation: String,
    /// The place in which the program ran.
    pub place: String,
    /// The SHA-256 of the system prompt, in hex.
    pub prompt: String,
}

const FIND_OPERATION: &str = "find a program's conversation";

fn find(
    connection: &Connection<'_>,
    session: &SessionKey,
    program: &str,
) -> sql::Result<Option<ProgramConversation>> {
    connection
        .prepare_cached(
            "SELECT name, turn, conversation, place, prompt FROM program_conversation
             WHERE session = ?1 AND program = ?2",
        )?
        .query_row((session.as_str(), program), |row| {
            let begun =
                ConversationOrigin { conversation: row.get(2)?, place: row.get(3)?, prompt: row.get(4)? };
            Ok(ProgramConversation { name: row.get(0)?, turn: parsed(row, 1)?, begun })
        })
        .optional()
}

impl<A> ProgramConversations<&Database<A>> {
    /// Finds a session's conversation in a program.
    pub(crate) async fn find(
        self,
        session: &SessionKey,
        program: &str,
    ) -> Result<Option<ProgramConversation>, StoreError> {
        self.read(FIND_OPERATION, |connection| find(connection, session, program)).await
    }
}

impl ProgramConversations<&Store> {
    /// Stores a session's conversation in a program and replaces an earlier one.
    pub(crate) async fn set(
        self,
        session: SessionKey,
        program: String,
        kept: ProgramConversation,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep a program's conversation", move |transaction| {
            let ProgramConversation { name, turn, begun } = kept;
            // A session has one conversation in each program, so a new one replaces the old one.
            transaction
                .prepare_cached(
                    "INSERT INTO program_conversation
                         (session, program, name, turn, conversation, place, prompt, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                     ON CONFLICT (session, program) DO UPDATE SET name = ?3, turn = ?4, conversation = ?5, place = ?6,
                         prompt = ?7, updated_at = ?8",
                )?
                .execute((
                    session.as_str(),
                    program,
                    name,
                    turn.to_string(),
                    begun.conversation,
                    begun.place,
                    begun.prompt,
                    now,
                ))?;
            Ok(())
        })
        .await
    }
}
