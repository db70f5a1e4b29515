//! The session tools. An agent looks at its own conversations, sends itself a message in another one, and starts a new
//! one for a part of its work.
//!
//! The tools check that a key belongs to the caller. The gateway, behind [`SessionService`], knows the sessions and runs
//! their turns.

mod spawn_key;
mod text;
mod tool;

use tokio_util::sync::CancellationToken;

pub use tool::{HISTORY, LIST, STATUS, all};
pub(crate) use tool::{SEND, SPAWN};

use crate::id::{AgentId, SessionKey};
use crate::provider::{BoxFuture, Role, Usage};
use crate::store::{PendingCall, Session};

/// One session in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    pub key: SessionKey,
    /// `true` while one of its turns runs or waits.
    pub busy: bool,
    /// Number of turns so far.
    pub turns: u64,
    /// Creation time in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the last write in milliseconds since the Unix epoch.
    pub updated_at: i64,
    /// Model of the latest turn; `None` before the first one.
    pub model: Option<String>,
    /// Tokens of all turns together.
    pub usage: Usage,
    /// Calls of a client's tools that wait for their results.
    pub pending: Vec<PendingCall>,
}

impl From<Session> for SessionInfo {
    fn from(session: Session) -> Self {
        Self {
            busy: session.running,
            turns: session.turns,
            created_at: session.created_at,
            updated_at: session.updated_at,
            model: session.model,
            usage: Usage {
                input: session.tokens.input,
                output: session.tokens.output,
                cache_read: session.tokens.cache_read,
                cache_write: session.tokens.cache_write,
                cost: None,
            },
            pending: session.pending,
            key: session.key,
        }
    }
}

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    pub role: Role,
    /// Text of the message; a short description for a tool call or its result.
    pub text: String,
    /// Time of writing in milliseconds since the Unix epoch.
    pub at: i64,
}

/// The operations that the session tools need from the gateway. Every key that is passed here was checked to belong to
/// the calling agent.
pub trait SessionService: Send + Sync {
    /// Returns the agent's sessions, the most recently used first.
    fn list<'a>(&'a self, agent: &'a AgentId)
    -> BoxFuture<'a, Result<Vec<SessionInfo>, SessionServiceError>>;

    /// Returns one session.
    ///
    /// # Errors
    ///
    /// Returns [`SessionServiceError::NotFound`] if there is no such session, and [`SessionServiceError::Failed`] if it cannot be
    /// read.
    fn status<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionInfo, SessionServiceError>>;

    /// Returns the newest `limit` messages of a session, oldest first.
    ///
    /// # Errors
    ///
    /// Returns [`SessionServiceError::NotFound`] if there is no such session, and [`SessionServiceError::Failed`] if it cannot be
    /// read.
    fn history<'a>(
        &'a self,
        key: &'a SessionKey,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, SessionServiceError>>;

    /// Puts a message into another session's queue and returns once it is committed there.
    ///
    /// It does not wait for an answer, because two sessions could then wait for each other. A turn that such a message
    /// started is refused, so that two sessions cannot keep each other running.
    ///
    /// # Errors
    ///
    /// Returns [`SessionServiceError::NotFound`] if there is no session `to`, [`SessionServiceError::Refused`] if a rule forbids
    /// the message, and [`SessionServiceError::Failed`] if it cannot be stored.
    fn send<'a>(
        &'a self,
        from: &'a SessionKey,
        to: &'a SessionKey,
        message: String,
    ) -> BoxFuture<'a, Result<(), SessionServiceError>>;

    /// Runs a first turn in the new session `child` and returns its final text. Cancelling `cancel` stops the turn.
    ///
    /// # Errors
    ///
    /// Returns [`SessionServiceError::Refused`] if a limit is reached, and [`SessionServiceError::Failed`] if the turn fails.
    fn spawn<'a>(
        &'a self,
        parent: &'a SessionKey,
        child: SessionKey,
        task: String,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, SessionServiceError>>;
}

/// The reason why the gateway did not do what a session tool asked for.
#[derive(Debug, thiserror::Error)]
pub enum SessionServiceError {
    /// The session does not exist.
    #[error("there is no session {0}")]
    NotFound(SessionKey),
    /// A rule or a limit forbids it. The reason is for the model.
    #[error("{0}")]
    Refused(String),
    /// The operation failed. The source is for the log.
    #[error("the session could not be reached")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}
