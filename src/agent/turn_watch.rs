//! The interface to an observer of the workspace: it makes a checkpoint before a turn can change anything.

use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::BoxFuture;

/// Observes the beginnings and ends of turns.
pub trait TurnWatch: Send + Sync {
    /// Reports that a turn begins. Nothing of it is in its session's transcript yet.
    ///
    /// It may wait, for example while the agent's files are set back. Dropping the future has no effect.
    fn begin<'a>(
        &'a self,
        agent: &'a AgentId,
        session: &'a SessionKey,
        turn: TurnId,
    ) -> BoxFuture<'a, Box<dyn WatchedTurn>>;
}

/// A turn that was reported. Dropping it reports the turn's end.
pub trait WatchedTurn: Send + Sync {
    /// Resolves when the turn may change the agent's workspace.
    fn may_change(&self) -> BoxFuture<'_, ()>;
}
