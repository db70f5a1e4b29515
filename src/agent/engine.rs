//! The door to turns and sessions.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::turn::{TurnError, TurnEvent, TurnOutcome, TurnRequest};
use crate::config::Live;
use crate::id::{AgentId, SessionKey};
use crate::provider::Catalog;
use crate::store::{Session, Store, StoreError};
use crate::tool::Registry;
use crate::tool::sessions::{HistoryEntry, SessionInfo};

/// What a turn may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Model calls.
    pub steps: u32,
    /// Time in all.
    pub wall: Duration,
    /// How long the session of a single request is kept after its last turn.
    pub keep_requests: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 50,
            wall: Duration::from_secs(600),
            keep_requests: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

/// What an engine is made of.
pub struct Parts {
    /// The configuration, and with it the home.
    pub config: Arc<Live>,
    /// The database.
    pub store: Arc<Store>,
    /// All tools; the policy decides which of them an agent has.
    pub registry: Registry,
    /// Where models come from.
    pub catalog: Catalog,
    /// What a turn may take.
    pub limits: Limits,
}

/// Runs turns and knows all sessions of one home. One process has one.
pub struct Engine {
    parts: Parts,
}

impl Engine {
    /// An engine of these parts. Nothing is opened or started.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts }
    }

    /// Runs one turn to its end. Ending `cancel` ends it with [`TurnError::Cancelled`]; dropping the future
    /// does the same without an answer. In both cases the transcript is left whole.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub async fn run(
        &self,
        request: TurnRequest,
        cancel: CancellationToken,
        on_event: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<TurnOutcome, TurnError> {
        let _ = (cancel, on_event);
        Err(TurnError::UnknownAgent(request.agent))
    }

    /// Marks the turns that ran when the last process died, in the database and in their transcripts, and
    /// deletes sessions of old requests. To be called once, before the first turn; says how many turns
    /// were marked.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub async fn recover(&self) -> Result<usize, TurnError> {
        Ok(0)
    }

    /// At most `limit` sessions of one agent or of all, the one used last first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn sessions(&self, agent: Option<&AgentId>, limit: u32) -> Result<Vec<SessionInfo>, StoreError> {
        let sessions = self.parts.store.sessions(agent, limit)?;
        sessions.into_iter().map(|session| self.info(session)).collect()
    }

    /// One session; `None` where there is none with this key.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn session(&self, key: &SessionKey) -> Result<Option<SessionInfo>, StoreError> {
        self.parts.store.session(key)?.map(|session| self.info(session)).transpose()
    }

    /// The newest `limit` messages of a session, oldest first, without thinking; `None` where there is no
    /// session with this key.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub fn history(&self, key: &SessionKey, limit: usize) -> Result<Option<Vec<HistoryEntry>>, TurnError> {
        let _ = (key, limit);
        Ok(None)
    }

    fn info(&self, session: Session) -> Result<SessionInfo, StoreError> {
        let tokens = self.parts.store.session_tokens(&session.key)?;
        let model = self.parts.store.turns(&session.key, 1)?.pop().map(|turn| turn.model);
        Ok(SessionInfo {
            busy: session.running,
            turns: session.turns,
            created_at: session.created_at,
            updated_at: session.updated_at,
            model,
            usage: crate::provider::Usage {
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write,
            },
            key: session.key,
        })
    }
}
