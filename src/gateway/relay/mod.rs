//! The relay between agent programs and their models. A program asks flock with a token that is good for one turn, and
//! flock asks the provider with the real key, within the agent's budget.
//!
//! [`tickets`] are issued for a turn through [`crate::runtime::program::AccessProvider`]. [`handler`] takes a request:
//! [`api_format`] knows what its path is for, [`request_filter`] decides if it reaches anything besides the model, and
//! [`request_body`] puts in the agent's model and its limits. [`crate::provider::RelayFormat`] has what differs
//! between the APIs. `model_call` finds a model that answers and reserves its cost, and `forwarder` forwards the answer
//! as it arrives. `final_error` answers programs that keep asking after a final error. The relay reads only what it has
//! to know of a request, and changes nothing else in it.

mod access;
mod answer_length;
pub(crate) mod api_format;
mod entries;
mod final_error;
mod forwarder;
pub(crate) mod handler;
mod headers;
pub(crate) mod mcp_sessions;
mod model_call;
pub(crate) mod request_body;
pub(crate) mod request_filter;
pub mod tickets;

use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Cooldowns, Oversight};
use crate::config::Live;
use crate::provider::Catalog;
use crate::provider::retry::Policy;

pub use tickets::Ticket;
pub(crate) use tickets::Tickets;

/// Most bytes of a request: the largest size that any of the model APIs accepts.
pub const MAX_BODY: usize = 32 << 20;

/// The relay of a gateway.
pub struct Relay {
    live: Arc<Live>,
    catalog: Catalog,
    oversight: Arc<dyn Oversight>,
    tickets: Arc<Tickets>,
    cooldowns: Cooldowns,
    retry: Policy,
    /// Time for which a turn's final error is repeated.
    stands: Duration,
    /// The port at which programs on the host find flock.
    port: u16,
}

impl Relay {
    /// Creates a relay without any ticket. `port` is the port that the gateway listens on, even if the configuration
    /// has changed since.
    #[must_use]
    pub fn new(live: Arc<Live>, catalog: Catalog, oversight: Arc<dyn Oversight>, port: u16) -> Self {
        Self {
            live,
            catalog,
            oversight,
            tickets: Arc::default(),
            cooldowns: Cooldowns::default(),
            retry: Policy::default(),
            stands: final_error::REPEAT_PERIOD,
            port,
        }
    }

    /// Returns the same relay with another policy for retries.
    #[must_use]
    pub fn with_retry(self, retry: Policy) -> Self {
        Self { retry, ..self }
    }

    /// Returns the same relay with another time for which a turn's final error is repeated.
    #[must_use]
    pub fn with_error_repeat(self, stands: Duration) -> Self {
        Self { stands, ..self }
    }

    /// Returns the tickets of the turns that run.
    #[must_use]
    pub const fn tickets(&self) -> &Arc<Tickets> {
        &self.tickets
    }
}
