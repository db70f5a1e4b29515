//! Takes over agents from other gateways. Their turns that broke off there go on here as they do after a restart, before
//! anything else of these agents begins.
//!
//! What the database has is settled for all agents that come together. Their workspaces may be on engines that answer late or never,
//! so each agent waits for its own alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::watchdog::SettleError;
use super::{Team, lost_writes, watchdog};
use crate::error::chain;
use crate::id::AgentId;
use crate::store::LeaseSubject;
use crate::swarm::lease::LeaseUse;
use crate::sync::lock;

/// The pause after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The agents whose workspaces are being looked at.
type Looking = Arc<Mutex<BTreeSet<AgentId>>>;

/// Takes up the interrupted work of each agent whose lease comes, until the gateway stops. A gateway without others returns
/// at once.
pub(super) async fn run(team: Arc<Team>) {
    let ownership = team.swarm.ownership();
    if !ownership.is_shared() {
        return;
    }
    let looking = Looking::default();
    let mut changes = ownership.changes();
    loop {
        let mut agents = ownership.unsettled_agents();
        agents.retain(|agent| !lock(&looking).contains(agent));
        let mut has_failed = false;
        if !agents.is_empty()
            && let Err(error) = take_up(&team, &agents, &looking).await
        {
            tracing::error!(error = chain(&error), "failed to take over agents of another gateway");
            has_failed = true;
        }
        tokio::select! {
            () = team.gateway.stop.cancelled() => return,
            // The sender lives as long as the swarm.
            _ = changes.changed() => {}
            () = tokio::time::sleep(RETRY_DELAY), if has_failed => {}
        }
    }
}

async fn take_up(team: &Arc<Team>, agents: &BTreeSet<AgentId>, looking: &Looking) -> Result<(), SettleError> {
    let ownership = team.swarm.ownership();
    // With these, no other gateway gets an agent in the middle.
    let mut leases = Vec::new();
    let mut here = BTreeSet::new();
    for agent in agents {
        if let Some(lease) = ownership.enter_agent(agent) {
            leases.push(lease);
            here.insert(agent.clone());
        }
    }
    if here.is_empty() {
        // This gateway was silent for too long. The next sign of life says so, and wakes the loop.
        return Ok(());
    }
    tracing::info!(agents = here.len(), "this gateway takes over agents");
    lost_writes::settle(team, Some(&here)).await?;
    // A turn whose transcript can't be read holds up nobody, as at the start of a gateway without others. The log names it, and
    // the watchdog tries it again.
    let refused = watchdog::settle(team).await?.refused;
    // This gateway may have been silent since. The next sign of life brings those that are still its own back here.
    here.retain(|agent| !refused.contains(agent) && ownership.enter_agent(agent).is_some());
    team.gateway.triage.end_old_questions(|agent| here.contains(agent)).await?;
    team.gateway.checkpoints.finish_forks().await;
    for agent in here {
        if let Some(lease) = ownership.enter_agent(&agent) {
            lock(looking).insert(agent.clone());
            tokio::spawn(look(Arc::clone(team), agent, lease, Arc::clone(looking)));
        }
    }
    Ok(())
}

/// Completes what was interrupted in an agent's workspace, and lets its turns begin. One whose lease went away meanwhile is looked at
/// from the beginning if it comes back.
async fn look(team: Arc<Team>, agent: AgentId, lease: LeaseUse, looking: Looking) {
    let ownership = team.swarm.ownership();
    let subject = LeaseSubject::agent(&agent);
    let mut recovery = Box::pin(team.gateway.checkpoints.recover_agent(&agent));
    let is_lost = tokio::select! {
        () = &mut recovery => false,
        () = ownership.until_lost(&subject) => {
            recovery.await;
            true
        }
    };
    lock(&looking).remove(&agent);
    let mut settled = BTreeSet::new();
    if !is_lost {
        settled.insert(agent.clone());
    }
    // `Team::meet` then tells the scheduler about it and what waits for it. Also without one, the loop looks again.
    ownership.settle_agents(&settled);
    drop(lease);
}
