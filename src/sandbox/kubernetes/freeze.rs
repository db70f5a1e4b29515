//! Freezes and thaws pods. A cluster has no call for it, so all processes of the pod are stopped by a signal that none of them
//! can catch. The helper goes on, and flock sends it no commands meanwhile.

use std::sync::Arc;

use futures_util::future;
use tokio_util::sync::CancellationToken;

use super::KubernetesSandbox;
use super::client::ObjectKind;
use super::objects::{self, AGENT, LABEL_HOME};
use super::slot::Slot;
use crate::home::instance;
use crate::id::AgentId;
use crate::sandbox::engines::PlacedCluster;
use crate::sandbox::helper::{HelperClient, HelperError};
use crate::sandbox::{Command, FreezeCheck, SandboxError};
use crate::sync::lock;

impl KubernetesSandbox {
    pub(super) async fn freeze(&self, agent: &AgentId, frozen: bool) -> Result<(), SandboxError> {
        let slot = self.slot(agent);
        slot.set_frozen(frozen);
        self.settle(agent, &slot).await
    }

    /// Brings all sandboxes in line with `standing`, now and when they are created later.
    ///
    /// # Errors
    ///
    /// Returns the first failure. The other pods are frozen or thawed all the same.
    pub fn follow(&self, standing: FreezeCheck) -> impl Future<Output = Result<(), SandboxError>> + '_ {
        // The wish counts from the call on.
        *lock(&self.standing) = Arc::clone(&standing);
        let known: Vec<(AgentId, Arc<Slot>)> =
            lock(&self.slots).iter().map(|(agent, slot)| (agent.clone(), Arc::clone(slot))).collect();
        let mut changed: Vec<(AgentId, Arc<Slot>)> = Vec::new();
        for (agent, slot) in known {
            if slot.is_frozen() != standing(&agent) {
                slot.set_frozen(standing(&agent));
                changed.push((agent, slot));
            }
        }
        async move { self.follow_all(standing, changed).await }
    }

    async fn follow_all(
        &self,
        standing: FreezeCheck,
        mut changed: Vec<(AgentId, Arc<Slot>)>,
    ) -> Result<(), SandboxError> {
        // A gateway that was killed may have left pods running whose agents were frozen since.
        let listed =
            future::join_all(self.engines.clusters().into_iter().map(|placed| self.agents_in(placed))).await;
        for agent in listed.iter().flatten().flatten().filter(|agent| standing(agent)) {
            if !changed.iter().any(|(known, _)| known == agent) {
                changed.push((agent.clone(), self.slot(agent)));
            }
        }
        let settled = changed.iter().map(|(agent, slot)| self.settle(agent, slot));
        let settled = future::join_all(settled).await;
        settled.into_iter().chain(listed.into_iter().map(|found| found.map(drop))).collect()
    }

    /// Returns the agents that have pods in a cluster.
    pub(super) async fn agents_in(&self, placed: PlacedCluster) -> Result<Vec<AgentId>, SandboxError> {
        let Ok(instance) = instance::read(&self.home) else { return Ok(Vec::new()) };
        let home = objects::home_label(&instance);
        let pods = placed.client.list(ObjectKind::Pod, (LABEL_HOME, &home)).await?;
        let agent = |pod: &serde_json::Value| pod["metadata"]["annotations"][AGENT].as_str()?.parse().ok();
        Ok(pods.iter().filter_map(agent).collect())
    }

    /// Brings the agent's pod in line with the slot's wanted state. A pod that this process has no connection to gets one
    /// first if it has to be frozen; if it has to be thawed, the next connection does it.
    pub(super) async fn settle(&self, agent: &AgentId, slot: &Slot) -> Result<(), SandboxError> {
        // Held until the helper has answered, so that a freeze and a thaw can't overtake each other.
        let _freezing = slot.freezing.lock().await;
        let live = slot.live();
        let is_frozen = slot.is_frozen();
        match live {
            Some(live) if is_frozen => match stop(&live.client, agent).await {
                // The streams broke, and could not be resumed.
                Err(SandboxError::Lost { .. }) => self.end_unreached(agent).await,
                stopped => stopped,
            },
            Some(live) => signal(&live.client, agent, "CONT").await,
            None if is_frozen => self.end_unreached(agent).await,
            None => Ok(()),
        }
    }

    /// Converts an error of the helper. If the connection is lost, the pod may have ended, and the cluster knows why.
    pub(super) async fn explained(&self, agent: &AgentId, error: HelperError) -> SandboxError {
        if error.is_lost()
            && let Ok(plan) = self.plan(agent).await
            && let Ok(found) =
                plan.cluster.client.get(ObjectKind::Pod, objects::name_of(&plan.objects.pod)).await
        {
            let reason = match found.as_ref().map(super::pod_state::PodState::of) {
                None | Some(super::pod_state::PodState::Leaving) => "its pod was removed".to_owned(),
                Some(super::pod_state::PodState::Ended(why)) => format!("its pod has ended: {why}"),
                Some(_) => return error.of(agent),
            };
            return SandboxError::Lost { agent: agent.clone(), reason };
        }
        error.of(agent)
    }
}

async fn stop(client: &HelperClient, agent: &AgentId) -> Result<(), SandboxError> {
    signal(client, agent, "STOP").await?;
    // A command that was being sent when the freeze came has begun by now.
    signal(client, agent, "STOP").await
}

/// Sends a signal to all processes of a pod but the helper, which no signal from inside reaches.
pub(super) async fn signal(client: &HelperClient, agent: &AgentId, name: &str) -> Result<(), SandboxError> {
    let command = Command {
        // There may be no process at all.
        command: format!("kill -{name} -1 2>/dev/null || true"),
        keep: 64,
        workdir: Some("/".to_owned()),
        ..Command::default()
    };
    client.run(&command, &CancellationToken::new()).await.map(drop).map_err(|error| error.of(agent))
}
