//! The `flock_*` tools. The caller is identified by the [`crate::tool::CallContext`] alone, never by a parameter.
//!
//! Cancellation is not checked. A change that has begun runs to its end: it takes milliseconds, and half of it would be
//! useless.

mod audit;
mod card;
mod channel;
pub mod lifecycle;
mod schedule;
mod search;
mod status;
pub(crate) mod sysadmin;
mod task;
pub mod vault;

use std::sync::Arc;

use super::Swarm;
use super::triage::Triage;
use crate::home::Home;
use crate::tool::Tool;

/// Returns all tools that a gateway adds for agents, in the order in which they are offered.
#[must_use]
pub fn assembled(swarm: &Arc<Swarm>, triage: &Arc<Triage>, home: &Home) -> Vec<Arc<dyn Tool>> {
    [
        all(swarm),
        vault::all(home, swarm.store()),
        schedule::all(triage),
        search::all(swarm),
        sysadmin::all(triage),
        lifecycle::all(triage),
    ]
    .concat()
}

/// Returns all tools of a team, in the order in which they are offered. The policy decides which agent gets which tool.
#[must_use]
pub(crate) fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    [channel::all(swarm), status::all(swarm), task::all(swarm), card::all(swarm), audit::all(swarm)].concat()
}
