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
use crate::tool::Tool;

/// All tools of a team, in the order they are offered. Which agent has which is the policy's decision.
#[must_use]
pub fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    [channel::all(swarm), standing::all(swarm), task::all(swarm), card::all(swarm), audit::all(swarm)]
        .concat()
}
