//! The `flock_*` tools. Who calls is known from the [`crate::tool::CallContext`] alone, never from a parameter.

mod audit;
mod card;
mod channel;
pub mod lifecycle;
mod standing;
pub mod sysadmin;
mod task;
mod team_tool;
pub mod vault;

use std::sync::Arc;

use super::Swarm;
use super::triage::Triage;
use crate::home::Home;
use crate::tool::Tool;

/// Everything that a gateway adds to the tools of agents, in the order it is offered.
#[must_use]
pub fn assembled(swarm: &Arc<Swarm>, triage: &Arc<Triage>, home: &Home) -> Vec<Arc<dyn Tool>> {
    [all(swarm), vault::all(home, swarm.store()), sysadmin::all(triage), lifecycle::all(triage)].concat()
}

/// All tools of a team, in the order they are offered. Which agent has which is the policy's decision.
#[must_use]
pub fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    [channel::all(swarm), standing::all(swarm), task::all(swarm), card::all(swarm), audit::all(swarm)]
        .concat()
}
