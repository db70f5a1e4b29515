//! The team: channels and their members, who is due when, and what is told to whom.

pub mod archive;
mod bell;
pub mod brake;
mod braking;
pub mod budget;
mod by;
pub mod card;
pub mod channel;
mod error;
pub mod freeze;
pub mod mention;
pub mod notice;
pub mod operation;
pub mod oversight;
pub mod pause;
pub mod scheduler;
pub mod skill;
pub mod standing;
pub mod task;
pub mod title;
pub mod token;
pub mod tools;
pub mod triage;
mod unheard;
pub mod vault;

#[cfg(test)]
pub(crate) mod testing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

pub use bell::{Bell, News};
pub use by::By;
pub use error::SwarmError;
pub use task::TaskEnd;

use crate::config::{Config, Live};
use crate::home::Home;
use crate::id::{AgentId, TurnId};
use crate::store::{Frozen, Store};

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
    /// Who sleeps, and in which turn it said so where that is known: a post does not have to ask the database whom it
    /// wakes.
    asleep: Mutex<HashMap<AgentId, Option<TurnId>>>,
    /// For whoever waits for the end of a freeze.
    frozen: watch::Sender<Frozen>,
    written: freeze::Written,
    /// Held by who counts those that are ready for an archive.
    counting: tokio::sync::Mutex<()>,
    /// Who has no budget left.
    pauses: pause::Pauses,
    /// The providers that are down, as the scheduler last said.
    down: Mutex<Vec<scheduler::Down>>,
}

impl Swarm {
    /// A team of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { live, store, bell } = parts;
        Self {
            live,
            store,
            bell,
            asleep: Mutex::default(),
            frozen: watch::Sender::default(),
            written: freeze::Written::default(),
            counting: tokio::sync::Mutex::default(),
            pauses: pause::Pauses::default(),
            down: Mutex::default(),
        }
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

    /// The home.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.live.home()
    }

    /// The configuration as it is now.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.live.current()
    }

    /// Takes note of which providers are down, for who asks how the team stands.
    pub fn note_down(&self, down: Vec<scheduler::Down>) {
        *self.down.lock().unwrap_or_else(PoisonError::into_inner) = down;
    }

    /// The providers that are down: none of their agents is run, but from time to time one.
    #[must_use]
    pub fn providers_down(&self) -> Vec<scheduler::Down> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    fn asleep(&self) -> MutexGuard<'_, HashMap<AgentId, Option<TurnId>>> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
