//! Keeps agents at this gateway while their files and conversations are set back or copied. In a group, another gateway would
//! otherwise get such an agent in the middle, and begin its turns. The team of a channel may have agents of several gateways:
//! those of the others are copied without being kept, and it is found out if they had a turn meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::CheckpointError;
use super::{Checkpoints, journal};
use crate::config::Agent;
use crate::id::AgentId;
use crate::swarm::lease::{LeaseUse, Owner};

/// The longest time to wait until the work of an agent that broke off at another gateway is taken up here.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The agents of a channel while their team is copied.
#[derive(Debug)]
pub(super) struct TeamLease {
    /// Guards for those that this gateway has.
    _kept: Vec<LeaseUse>,
    /// Those of other gateways, each with the number of its turns before the copy.
    elsewhere: BTreeMap<AgentId, u64>,
}

impl TeamLease {
    /// Returns `true` if this gateway keeps the agent.
    pub(super) fn keeps(&self, agent: &AgentId) -> bool {
        !self.elsewhere.contains_key(agent)
    }
}

impl Checkpoints {
    /// Keeps an agent here until the returned guard is dropped. A gateway without others has all agents for ever.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Elsewhere`] if another gateway has the agent, or may have taken it.
    pub(super) async fn keep(&self, agent: &AgentId) -> Result<LeaseUse, CheckpointError> {
        let elsewhere =
            || CheckpointError::Elsewhere { agent: agent.clone(), gateway: self.gateway_of(agent) };
        let lease = self.ownership.enter_agent(agent).ok_or_else(elsewhere)?;
        // As before a turn: what broke off at another gateway comes first.
        let settled = self.ownership.until_settled(agent);
        match tokio::time::timeout(SETTLE_TIMEOUT, settled).await {
            Ok(true) => Ok(lease),
            Ok(false) | Err(_) => Err(elsewhere()),
        }
    }

    /// Keeps the agents of a channel here as far as this gateway has them, and looks at the others.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Busy`] if a turn or a rewind of an agent of another gateway is under way.
    pub(super) async fn keep_team(&self, team: &[Agent]) -> Result<TeamLease, CheckpointError> {
        let (mut kept, mut elsewhere) = (Vec::new(), BTreeMap::new());
        for agent in team {
            match self.keep(&agent.id).await {
                Ok(lease) => kept.push(lease),
                Err(CheckpointError::Elsewhere { agent, .. }) => {
                    let turns = self.turns_of_idle(&agent).await?;
                    elsewhere.insert(agent, turns);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(TeamLease { _kept: kept, elsewhere })
    }

    /// Looks again at the agents of a team that other gateways have.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Busy`] if one of them has had a turn since [`Self::keep_team`], or if a turn or a rewind is
    /// under way.
    pub(super) async fn check_undisturbed(&self, team: &TeamLease) -> Result<(), CheckpointError> {
        for (agent, turns) in &team.elsewhere {
            if self.turns_of_idle(agent).await? != *turns {
                return Err(CheckpointError::Busy(agent.clone()));
            }
        }
        Ok(())
    }

    /// Returns the number of an agent's turns so far, of which none is under way at any gateway.
    async fn turns_of_idle(&self, agent: &AgentId) -> Result<u64, CheckpointError> {
        // One statement counts the turns and tells if one runs. So a turn that is not seen yet is counted by the next look.
        let sessions = self.store().sessions().list(Some(agent), u32::MAX).await?;
        let is_set_back = journal::path(&self.home().checkpoints(agent)).exists();
        if is_set_back || sessions.iter().any(|session| session.running) {
            return Err(CheckpointError::Busy(agent.clone()));
        }
        Ok(sessions.iter().map(|session| session.turns).sum())
    }

    /// Returns the other gateway that has an agent, for people.
    fn gateway_of(&self, agent: &AgentId) -> Option<String> {
        match self.ownership.of_agent(agent) {
            Owner::Elsewhere(gateway) => Some(format!("{} ({})", gateway.name, gateway.address)),
            Owner::Here | Owner::Nobody => None,
        }
    }
}
