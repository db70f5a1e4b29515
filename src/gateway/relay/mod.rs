//! The way of agent programs to their models: they ask flock with a token that is worth one turn, and flock asks the
//! provider with the real key, within the agent's budget.
//!
//! [`tickets`] are given out for a turn through [`crate::runtime::cli::Gate`]. [`pass`] takes a request, of which
//! [`shape`] knows what it is for; [`allowed`] whether it leads anywhere else than to the model; [`written`] puts the
//! agent's model and its limits in; `ask` finds a model that answers; `toll` pays for it; `passing` hands the answer on
//! as it comes; `last_word` is for programs that ask on. What has to be known of a request is read, and nothing else of it
//! is changed.

pub mod allowed;
mod ask;
mod entries;
mod gate;
mod headers;
pub mod inside;
mod last_word;
mod length;
pub mod pass;
mod passing;
pub mod shape;
pub mod tickets;
mod toll;
pub mod written;

use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Cooldowns, Oversight};
use crate::config::Live;
use crate::provider::Catalog;
use crate::provider::retry::Policy;

pub use inside::FromSandboxes;
pub use tickets::{Ticket, Tickets};

/// The most bytes of a request: what the largest of the model APIs takes.
pub const MOST: usize = 32 << 20;

/// The relay of a gateway.
pub struct Relay {
    live: Arc<Live>,
    catalog: Catalog,
    oversight: Arc<dyn Oversight>,
    tickets: Arc<Tickets>,
    cooldowns: Cooldowns,
    retry: Policy,
    /// How long the last word of a turn stands.
    stands: Duration,
    /// Where programs on the host find flock.
    port: u16,
}

impl Relay {
    /// Nothing is open yet. `port` is the one that the gateway listens on, whatever the configuration says by now.
    #[must_use]
    pub fn new(live: Arc<Live>, catalog: Catalog, oversight: Arc<dyn Oversight>, port: u16) -> Self {
        Self {
            live,
            catalog,
            oversight,
            tickets: Arc::default(),
            cooldowns: Cooldowns::default(),
            retry: Policy::default(),
            stands: last_word::STANDS,
            port,
        }
    }

    /// The same, with another word on how often and how soon a provider that failed is asked again.
    #[must_use]
    pub fn with_retry(self, retry: Policy) -> Self {
        Self { retry, ..self }
    }

    /// The same, where what a turn was told last stands for another time.
    #[must_use]
    pub fn with_last_words(self, stands: Duration) -> Self {
        Self { stands, ..self }
    }

    /// The tickets of the turns that run.
    #[must_use]
    pub const fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }
}
