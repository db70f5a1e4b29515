//! The end of what this gateway runs for an agent, before another gateway takes it: its sandbox is removed, with the commands
//! that run in the background there. The next gateway makes its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::agent_services;
use super::state::Gateway;
use crate::store::LeaseSubject;

/// The agents that are about to go.
#[derive(Default)]
pub(super) struct Departures {
    /// The removals of their sandboxes. Each returns `true` if the sandbox is gone.
    removals: BTreeMap<LeaseSubject, JoinHandle<bool>>,
}

impl Departures {
    /// Returns `true` if nothing of the subject is here any more. Otherwise the end of it has begun, and a later call tells
    /// when it is over. Nothing may begin on the subject meanwhile.
    pub(super) async fn has_ended(&mut self, gateway: &Arc<Gateway>, subject: &LeaseSubject) -> bool {
        // Without others, an agent is given up only because it was removed, and its sandbox with it.
        if !gateway.swarm.ownership().is_shared() {
            return true;
        }
        let Some(agent) = subject.as_agent() else { return true };
        match self.removals.remove(subject) {
            // After a failure, such as an engine that hangs, the agent stays and it is tried again.
            Some(removal) if removal.is_finished() => removal.await.unwrap_or(false),
            Some(removal) => {
                self.removals.insert(subject.clone(), removal);
                false
            }
            None => {
                let sandbox = Arc::clone(&gateway.sandbox);
                let removal = tokio::spawn(async move {
                    let removed = agent_services::stop(&*sandbox, &agent).await;
                    if let Err(error) = &removed {
                        tracing::warn!(%agent, error, "an agent stays here, because its sandbox can't be removed");
                    }
                    removed.is_ok()
                });
                self.removals.insert(subject.clone(), removal);
                false
            }
        }
    }
}
