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
    /// The last answer, if it was no good one: the provider's status, 0 where there was none, and what it said.
    pub refused: Option<(u16, String)>,
    /// The budget, a freeze or the agent's settings forbade a call: why.
    pub forbidden: Option<String>,
    /// MCP was asked for the list of tools with this turn's token.
    pub listed_tools: bool,
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
