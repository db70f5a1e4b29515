//! What lets a program's turn through to flock: its models by the relay, flock's tools by MCP.

use std::sync::{Arc, Mutex, PoisonError};

use super::Program;
use crate::config::Api;
use crate::id::ModelRef;
use crate::provider::Usage;
use crate::runtime::{Order, RuntimeError};

/// Lets turns through.
pub trait Gate: Send + Sync {
    /// Whether this home has the model's provider: with its own login a program is left to it only where it has not.
    fn has_provider(&self, model: &ModelRef) -> bool;

    /// Opens a way for one turn of this program. It is closed when what is given is dropped. With `own_login` a model
    /// whose provider is not in this home is left to the program's own login.
    ///
    /// # Errors
    ///
    /// Where the agent's model can't be asked, or not by this program.
    fn open(&self, order: &Order, program: &dyn Program, own_login: bool) -> Result<Pass, RuntimeError>;
}

/// A way through for one turn; dropping it closes it.
pub struct Pass {
    /// The way to the agent's model; `None` where the program asks with its own login.
    pub relay: Option<Relayed>,
    /// What opens MCP.
    pub mcp_token: String,
    /// Where flock is for programs on the host, as `http://127.0.0.1:3779`.
    pub host_origin: String,
    /// What came of it so far.
    pub calls: Arc<Calls>,
    /// Closes it when it is dropped.
    pub close: Box<dyn Send + Sync>,
}

/// A model behind the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// What opens the relay: in the place of a provider's key.
    pub token: String,
    /// How the model is asked.
    pub api: Api,
    /// Tokens it takes in all.
    pub context_window: u64,
    /// Tokens it may answer with.
    pub max_tokens: u64,
}

/// What came of the model calls of one turn, by the relay's own count.
#[derive(Debug, Default)]
pub struct Calls(Mutex<Count>);

/// See [`Calls`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// Calls that were answered well.
    pub answered: u32,
    /// What they took.
    pub usage: Usage,
    /// The last answer, if it was no good one: the provider's status, and what it said. It is 0 where there was none or it
    /// broke off, and 400 where that will not pass.
    pub refused: Option<(u16, String)>,
    /// Why the last call that flock did not let through was not; `None` again once one as large has been.
    pub forbidden: Option<Forbidden>,
    /// MCP was asked for the list of tools with this turn's token.
    pub listed_tools: bool,
}

/// Why flock did not let a call through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The budget has no room for it now, and may have later.
    #[error("{why}")]
    Paused {
        /// Why, for people.
        why: String,
        /// Tokens of the request and of the answer, at most.
        call: (u64, u64),
    },
    /// The agent's settings are against it.
    #[error("{0}")]
    Settings(String),
}

impl Forbidden {
    /// Whether a call of this size that was let through shows that it does not hold any more. A smaller one, as for a
    /// title beside the answer, shows nothing of a budget.
    #[must_use]
    pub const fn is_undone_by(&self, (input, output): (u64, u64)) -> bool {
        match self {
            Self::Paused { call, .. } => input.saturating_add(output) >= call.0.saturating_add(call.1),
            Self::Settings(_) => true,
        }
    }
}

impl Calls {
    /// Changes it.
    pub fn note(&self, change: impl FnOnce(&mut Count)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// As it is now.
    #[must_use]
    pub fn now(&self) -> Count {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_as_large_shows_that_the_budget_has_room_again() {
        let paused = Forbidden::Paused { why: "no room".to_owned(), call: (100, 50) };
        for (call, undone) in [((100, 50), true), ((0, 150), true), ((100, 49), false), ((1, 1), false)] {
            assert_eq!(paused.is_undone_by(call), undone, "{call:?}");
        }
        assert!(Forbidden::Settings("no such model".to_owned()).is_undone_by((1, 1)));
    }
}
