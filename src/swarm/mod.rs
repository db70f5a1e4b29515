//! The team: channels and their members, who is due when, and what is told to whom.

mod bell;
mod by;
mod error;
pub mod scheduler;
pub mod skill;
pub mod tools;
pub mod vault;

use std::sync::Arc;

pub use bell::{Bell, News};
pub use by::By;
pub use error::SwarmError;

use crate::config::{Config, Live};
use crate::id::AgentId;
use crate::store::Store;

/// What a team is made of.
pub struct Parts {
    /// The configuration, and with it the home.
    pub live: Arc<Live>,
    /// The database.
    pub store: Arc<Store>,
    /// Who is told of what was committed.
    pub bell: Bell,
}

/// The team of one home. What it does is committed when its future resolves; who runs turns and who
/// watches is told after that.
pub struct Swarm {
    live: Arc<Live>,
    store: Arc<Store>,
    bell: Bell,
}

impl Swarm {
    /// A team of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { live, store, bell } = parts;
        Self { live, store, bell }
    }

    /// The database.
    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Who is told of what was committed.
    #[must_use]
    pub const fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The configuration as it is now.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.live.current()
    }

    /// Whether there is such an agent now.
    ///
    /// # Errors
    ///
    /// [`SwarmError::NoAgent`].
    pub fn require_agent(&self, agent: &AgentId) -> Result<(), SwarmError> {
        match self.config().agent(agent) {
            Some(_) => Ok(()),
            None => Err(SwarmError::NoAgent(agent.clone())),
        }
    }
}
