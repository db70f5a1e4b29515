//! The way of agent programs to their models: they ask flock with a token that is worth one turn, and flock asks the
//! provider with the real key, within the agent's budget.
//!
//! A program is given its [`tickets`] by [`gate`], and shows them with each request.

mod gate;
pub mod tickets;

use std::sync::Arc;

use crate::agent::Oversight;
use crate::config::Live;
use crate::provider::Catalog;

pub use tickets::{Ticket, Tickets};

/// The relay of a gateway.
pub struct Relay {
    live: Arc<Live>,
    catalog: Catalog,
    /// Who watches the calls.
    pub oversight: Arc<dyn Oversight>,
    tickets: Arc<Tickets>,
}

impl Relay {
    /// Nothing is open yet.
    #[must_use]
    pub fn new(live: Arc<Live>, catalog: Catalog, oversight: Arc<dyn Oversight>) -> Self {
        Self { live, catalog, oversight, tickets: Arc::default() }
    }

    /// The tickets of the turns that run.
    #[must_use]
    pub const fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }
}
