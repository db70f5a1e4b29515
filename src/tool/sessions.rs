//! The session tools: an agent looks at its own conversations, sends itself a message in another one, and
//! starts a fresh one for a part of its work.
//!
//! Whose session a key names is checked here; what a session is, and running its turns, is the gateway's,
//! behind [`Sessions`].

mod spawned;
mod text;
mod tool;

use tokio_util::sync::CancellationToken;

pub use spawned::{MAX_DEPTH, depth};
pub use tool::{SessionTool, all};

use crate::id::{AgentId, SessionKey};
use crate::provider::{BoxFuture, Role, Usage};
use crate::store::Session;

/// One session, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its key.
    pub key: SessionKey,
    /// Whether a turn of it runs or waits.
    pub busy: bool,
    /// Turns it has had.
    pub turns: u64,
    /// When it began, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// When something was last written to it, in milliseconds since the Unix epoch.
    pub updated_at: i64,
    /// The model of its latest turn.
    pub model: Option<String>,
    /// Tokens of all its turns.
    pub usage: Usage,
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
            key: session.key,
        }
    }
}

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Who it is from.
    pub role: Role,
    /// Its text; for a tool call or its result a short description.
    pub text: String,
    /// When it was written, in milliseconds since the Unix epoch.
    pub at: i64,
}

/// What the session tools need of the gateway. Every key handed over has been found to be of the calling
/// agent.
pub trait Sessions: Send + Sync {
    /// The agent's sessions, the latest used first.
    fn list<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<Vec<SessionInfo>, SessionsError>>;

    /// One session.
    ///
    /// # Errors
    ///
    /// [`SessionsError::NotFound`] and others.
    fn status<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionInfo, SessionsError>>;

    /// The newest `limit` messages of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`SessionsError::NotFound`] and others.
    fn history<'a>(
        &'a self,
        key: &'a SessionKey,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, SessionsError>>;

    /// Puts a message into another session's queue and returns once it is committed there: waiting for the
    /// answer would let two sessions wait for each other. A turn that was itself started by such a message
    /// is refused, so that two sessions can't keep each other going.
    ///
    /// # Errors
    ///
    /// [`SessionsError::NotFound`], [`SessionsError::Refused`] and others.
    fn send<'a>(
        &'a self,
        from: &'a SessionKey,
        to: &'a SessionKey,
        message: String,
    ) -> BoxFuture<'a, Result<(), SessionsError>>;

    /// Runs a first turn in the new session `child` and returns its final text. The turn ends when `cancel`
    /// does.
    ///
    /// # Errors
    ///
    /// [`SessionsError::Refused`] where a limit is reached, and others.
    fn spawn<'a>(
        &'a self,
        parent: &'a SessionKey,
        child: SessionKey,
        task: String,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, SessionsError>>;
}

/// Why the gateway did not do what a session tool asked for.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NotFound(SessionKey),
    /// A rule or a limit is against it; the reason is for the model.
    #[error("{0}")]
    Refused(String),
    /// It was tried and failed; the source is for the log.
    #[error("the session could not be reached")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}
