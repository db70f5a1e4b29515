//! The end of what this gateway runs for an agent, before another gateway takes it: its sandbox is removed, with the commands
//! that run in the background there. The next gateway makes its own.
//!
//! The sandbox of an agent whose engine has not answered for long is left behind. The commands there have ended, as after any long
//! break of the connection, and the sandbox is removed when the engine answers again.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::agent_services;
use super::engine_contact::EngineReach;
use super::state::Gateway;
use crate::clock;
use crate::id::AgentId;
use crate::store::LeaseSubject;

/// The agents that are about to go.
#[derive(Default)]
pub(super) struct Departures {
    /// The removals of their sandboxes.
    removals: BTreeMap<AgentId, JoinHandle<Result<(), String>>>,
    /// The agents that went without their sandboxes, because their engines did not answer. Each with the time from which the
    /// removal is tried, in milliseconds of a clock of this machine that is never set.
    left: BTreeMap<AgentId, i64>,
}

/// The pause after a failure to remove a sandbox that was left behind, in milliseconds.
const RETRY_MS: i64 = 60_000;

/// The removal of a sandbox.
enum Removal {
    NotBegun,
    Running,
    Ended(Result<(), String>),
}

impl Departures {
    /// Returns `true` if nothing of the subject is here any more. Otherwise the end of it has begun, and a later call tells
    /// when it is over. Nothing may begin on the subject meanwhile.
    pub(super) async fn has_ended(
        &mut self,
        gateway: &Arc<Gateway>,
        subject: &LeaseSubject,
        reach: &EngineReach,
    ) -> bool {
        // Without others, an agent is given up only because it was removed, and its sandbox with it.
        if !gateway.swarm.ownership().is_shared() {
            return true;
        }
        let Some(agent) = subject.as_agent() else { return true };
        match self.removal(&agent).await {
            Removal::NotBegun => self.begin(gateway, agent),
            Removal::Running => {}
            Removal::Ended(Ok(())) => return true,
            Removal::Ended(Err(error)) if reach.is_lost(&agent) => {
                tracing::warn!(
                    %agent,
                    error,
                    "an agent goes without its sandbox, which is removed when its engine answers again"
                );
                self.left.insert(agent, clock::boot_ms());
                return true;
            }
            // After a failure, such as an engine that hangs, the agent stays and it is tried again.
            Removal::Ended(Err(error)) => {
                tracing::warn!(%agent, error, "an agent stays here, because its sandbox can't be removed");
            }
        }
        false
    }

    /// Begins to remove the sandboxes without which agents went, once their engines answer again.
    pub(super) async fn tidy(&mut self, gateway: &Arc<Gateway>, reach: &EngineReach) {
        for (agent, due) in self.left.clone() {
            let is_here = gateway.swarm.ownership().holds_agent(&agent);
            let step = match self.removal(&agent).await {
                Removal::NotBegun if !is_here && clock::boot_ms() < due => Leftover::Wait,
                Removal::NotBegun => leftover(is_here, reach.answers(&agent)),
                Removal::Running => Leftover::Wait,
                Removal::Ended(Ok(())) => Leftover::Forget,
                // The engine may be silent again.
                Removal::Ended(Err(error)) => {
                    tracing::warn!(%agent, error, "the sandbox of an agent that went can't be removed");
                    self.left.insert(agent.clone(), clock::boot_ms() + RETRY_MS);
                    Leftover::Wait
                }
            };
            match step {
                Leftover::Wait => {}
                Leftover::Remove => self.begin(gateway, agent),
                Leftover::Forget => drop(self.left.remove(&agent)),
            }
        }
    }

    /// Returns `true` if the subject's sandbox is being removed. Until that is over, the subject must not come back: its next
    /// sandbox would have the same name.
    pub(super) fn is_removing(&self, subject: &LeaseSubject) -> bool {
        subject.as_agent().is_some_and(|agent| self.removals.contains_key(&agent))
    }

    async fn removal(&mut self, agent: &AgentId) -> Removal {
        match self.removals.remove(agent) {
            None => Removal::NotBegun,
            Some(removal) if removal.is_finished() => {
                Removal::Ended(removal.await.unwrap_or_else(|error| Err(error.to_string())))
            }
            Some(removal) => {
                self.removals.insert(agent.clone(), removal);
                Removal::Running
            }
        }
    }

    fn begin(&mut self, gateway: &Arc<Gateway>, agent: AgentId) {
        let (sandbox, stopped) = (Arc::clone(&gateway.sandbox), agent.clone());
        let removal = tokio::spawn(async move { agent_services::stop(&*sandbox, &stopped).await });
        self.removals.insert(agent, removal);
    }
}

/// The next step for a sandbox without which an agent went.
#[derive(Debug, PartialEq, Eq)]
enum Leftover {
    Wait,
    Remove,
    Forget,
}

/// Returns the next step. `answers` is `None` if the agent is on no engine any more.
const fn leftover(is_here: bool, answers: Option<bool>) -> Leftover {
    // The next command of an agent that is back takes up the sandbox.
    if is_here {
        return Leftover::Forget;
    }
    match answers {
        None => Leftover::Forget,
        Some(true) => Leftover::Remove,
        Some(false) => Leftover::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_was_left_is_removed_once_its_engine_answers_unless_its_agent_is_back() {
        assert_eq!(leftover(false, Some(false)), Leftover::Wait);
        assert_eq!(leftover(false, Some(true)), Leftover::Remove);
        assert_eq!(leftover(false, None), Leftover::Forget);
        for answers in [Some(false), Some(true), None] {
            assert_eq!(leftover(true, answers), Leftover::Forget);
        }
    }
}
