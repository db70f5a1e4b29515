//! Takes over agents from other gateways. Their turns that broke off there go on here as they do after a restart, before
//! anything else of these agents begins.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::watchdog::SettleError;
use super::{Team, lost_writes, watchdog};
use crate::error::chain;
use crate::id::AgentId;

/// The pause after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Takes up the interrupted work of each agent whose lease comes, until the gateway stops. A gateway without others returns
/// at once.
pub(super) async fn run(team: Arc<Team>) {
    let ownership = team.swarm.ownership();
    if !ownership.is_shared() {
        return;
    }
    let mut changes = ownership.changes();
    loop {
        let agents = ownership.unsettled_agents();
        let mut has_failed = false;
        if !agents.is_empty()
            && let Err(error) = take_up(&team, &agents).await
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

async fn take_up(team: &Arc<Team>, agents: &BTreeSet<AgentId>) -> Result<(), SettleError> {
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
    team.gateway.checkpoints.recover(|agent| here.contains(agent)).await;
    // `Team::meet` then tells the scheduler about them and what waits for them.
    ownership.settle_agents(&here);
    Ok(())
}
