//! Makes a pod ready: the objects in the cluster, the comparison with what was asked for, the connection to the helper, the
//! probe, and the workspace in its volume.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attached_pod::AttachedPod;
use super::client::ObjectKind;
use super::objects::{self, LABEL_HOME, LABEL_SPEC, LABEL_WORKSPACE, label, name_of};
use super::pod_state::PodState;
use super::slot::Slot;
use super::transfer::Transfer;
use super::{PodPlan, brief_command, deviations, freeze, relocation};
use crate::config::Network;
use crate::error::chain;
use crate::home::elsewhere;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::sandbox::egress::{self, Dialer, EgressPolicy, Proxy};
use crate::sandbox::engines::PlacedCluster;
use crate::sandbox::helper::{HelperClient, HelperError, PortForward, ProbeExpectations};
use crate::sandbox::making::{self, MakingLock};
use crate::sandbox::probe::ProbeResult;

/// Longest time until a pod runs. Its node may have to pull the image first.
const START: Duration = Duration::from_secs(300);
/// Longest time until a pod is gone.
const GONE: Duration = Duration::from_secs(60);
/// Time between two looks at a pod.
const LOOK: Duration = Duration::from_millis(300);
/// Time for which a try to reach an address waits for an answer.
const PATIENCE: Duration = Duration::from_millis(1500);
/// A file that every pod can write: its node shows people what the last process wrote there.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Makes pods. It has what a pod reaches of this machine.
pub(super) struct PodMaker {
    pub egress: Arc<dyn EgressPolicy>,
    pub dial: Arc<dyn Dialer>,
}

impl PodMaker {
    /// Makes the pod in a task of its own. If the caller is dropped, it goes on to its end, or to the removal of a new volume. The
    /// lock is held until then.
    pub(super) async fn make_or_clean(
        self,
        agent: &AgentId,
        plan: &Arc<PodPlan>,
        slot: &Arc<Slot>,
        making: &MakingLock,
    ) -> Result<(Arc<HelperClient>, ProbeResult), SandboxError> {
        let (agent, wanted, slot) = (agent.clone(), Arc::clone(plan), Arc::clone(slot));
        making::finish(making, &plan.agent.workspace, move |given_up| async move {
            Box::pin(self.make(&agent, &wanted, &slot, &given_up)).await
        })
        .await
    }

    /// Creates or repairs the agent's pod and connects to it. Only the wait for its start and the transfer of the workspace, which
    /// may be long, can be given up: a call whose answer nobody has may have made something that nobody removes.
    async fn make(
        &self,
        agent: &AgentId,
        plan: &PodPlan,
        slot: &Slot,
        given_up: &CancellationToken,
    ) -> Result<(Arc<HelperClient>, ProbeResult), SandboxError> {
        let made = Box::pin(self.make_pod(agent, plan, slot, given_up)).await;
        if made.is_err() && plan.is_new && elsewhere::read(&plan.agent.workspace).as_ref() != Some(&plan.mark)
        {
            // Nothing has its name yet but this call.
            if let Err(error) = forget_try(plan).await {
                let (claim, error) = (&plan.mark.volume, chain(&error));
                tracing::warn!(claim, error, "a volume that is not used could not be removed");
            }
        }
        made
    }

    async fn make_pod(
        &self,
        agent: &AgentId,
        plan: &PodPlan,
        slot: &Slot,
        given_up: &CancellationToken,
    ) -> Result<(Arc<HelperClient>, ProbeResult), SandboxError> {
        let cluster = &plan.cluster.client;
        let name = name_of(&plan.objects.pod);
        // Before the pod, so that it is never without.
        self.ensure_policy(agent, plan).await?;
        if let Some(found) = cluster.get(ObjectKind::Pod, name).await? {
            own(&plan.objects.pod, &found)?;
            let is_same = label(&found, LABEL_SPEC) == Some(plan.objects.digest());
            match PodState::of(&found) {
                PodState::Running if is_same => {
                    match Box::pin(self.connect(agent, plan, slot, &found, given_up)).await {
                        // The helper hangs, or is of an older flock. A new pod solves both.
                        Err(SandboxError::Lost { reason, .. }) => {
                            tracing::warn!(%agent, %reason, "its sandbox does not answer and is made anew");
                            remove_found(&plan.cluster, &found).await?;
                        }
                        answer => return answer,
                    }
                }
                // Another process of this home makes it.
                PodState::Starting(_) if is_same => {}
                state => {
                    if let PodState::Ended(why) = state {
                        tracing::warn!(%agent, why, "its sandbox has ended and is made anew");
                    }
                    remove_found(&plan.cluster, &found).await?;
                }
            }
        }
        // Without the turn, the agent may go on elsewhere, and a pod there has the same volume.
        if given_up.is_cancelled() {
            let reason = "its pod is not made, because its turn was cancelled".to_owned();
            return Err(SandboxError::Lost { agent: agent.clone(), reason });
        }
        self.ensure_claim(agent, plan).await?;
        self.ensure_identity(plan).await?;
        // If there is one by now, another process of this home has made it.
        cluster.create(ObjectKind::Pod, &plan.objects.pod).await?;
        let found = self.started(agent, plan, given_up).await?;
        own(&plan.objects.pod, &found)?;
        Box::pin(self.connect(agent, plan, slot, &found, given_up)).await
    }

    async fn ensure_policy(&self, agent: &AgentId, plan: &PodPlan) -> Result<(), SandboxError> {
        let (cluster, wanted) = (&plan.cluster.client, &plan.objects.policy);
        let name = name_of(wanted);
        let found = match cluster.get(ObjectKind::Policy, name).await? {
            Some(found) => {
                own(wanted, &found)?;
                match deviations::of_policy(wanted, &found).first() {
                    None => return Ok(()),
                    Some(finding) => {
                        tracing::warn!(%agent, policy = name, finding, "a policy was changed and is put back");
                        cluster.replace(ObjectKind::Policy, name, wanted).await?
                    }
                }
            }
            None => match cluster.create(ObjectKind::Policy, wanted).await? {
                Some(made) => made,
                None => cluster.get(ObjectKind::Policy, name).await?.unwrap_or_default(),
            },
        };
        match deviations::of_policy(wanted, &found).into_iter().next() {
            None => Ok(()),
            Some(finding) => {
                let finding = format!("the policy {name} is not as it must be: {finding}");
                Err(SandboxError::NotConfined { agent: agent.clone(), finding })
            }
        }
    }

    async fn ensure_claim(&self, agent: &AgentId, plan: &PodPlan) -> Result<(), SandboxError> {
        let (cluster, wanted) = (&plan.cluster.client, &plan.objects.claim);
        let name = name_of(wanted);
        if plan.is_new {
            return cluster.create(ObjectKind::Claim, wanted).await.map(drop);
        }
        // An empty volume must not be taken for the workspace.
        let what = match cluster.get(ObjectKind::Claim, name).await? {
            None => format!("is gone: the cluster {} has no volume {name}", cluster.name()),
            Some(found) if PodState::of(&found) == PodState::Leaving => {
                format!("is the volume {name} of the cluster {}, which is being removed", cluster.name())
            }
            Some(found) if plan.objects.is_of_other_home(&found) => {
                let own = label(wanted, LABEL_WORKSPACE).unwrap_or_default();
                return Err(relocation::of_other_home(&plan.cluster, agent, name, own));
            }
            Some(_) => return self.take_over(agent, plan).await,
        };
        Err(SandboxError::Workspace { agent: agent.clone(), what })
    }

    /// Removes the pods with the workspace that other gateways have left. The agent is this gateway's now, and two pods must not
    /// write to its workspace.
    async fn take_over(&self, agent: &AgentId, plan: &PodPlan) -> Result<(), SandboxError> {
        for other in relocation::others(&plan.cluster, &plan.objects).await? {
            tracing::info!(%agent, pod = name_of(&other), "the pod of another gateway with its workspace is removed");
            remove_found(&plan.cluster, &other).await?;
        }
        Ok(())
    }

    async fn ensure_identity(&self, plan: &PodPlan) -> Result<(), SandboxError> {
        let (cluster, wanted) = (&plan.cluster.client, &plan.objects.identity);
        let name = name_of(wanted);
        match cluster.get(ObjectKind::Identity, name).await? {
            Some(found) => {
                own(wanted, &found)?;
                if found["data"] != wanted["data"] {
                    cluster.replace(ObjectKind::Identity, name, wanted).await?;
                }
                Ok(())
            }
            None => cluster.create(ObjectKind::Identity, wanted).await.map(drop),
        }
    }

    /// Waits until the pod runs.
    async fn started(
        &self,
        agent: &AgentId,
        plan: &PodPlan,
        given_up: &CancellationToken,
    ) -> Result<Value, SandboxError> {
        let (cluster, name) = (&plan.cluster.client, name_of(&plan.objects.pod));
        let until = Instant::now() + START;
        let lost = |reason: String| SandboxError::Lost { agent: agent.clone(), reason };
        loop {
            let found = cluster.get(ObjectKind::Pod, name).await?;
            let found = found.ok_or_else(|| lost(format!("somebody removed the pod {name}")))?;
            let why = match PodState::of(&found) {
                PodState::Running => return Ok(found),
                PodState::Stuck(why) => {
                    remove_found(&plan.cluster, &found).await?;
                    return Err(SandboxError::ClusterImage {
                        engine: cluster.name().clone(),
                        image: plan.cluster.settings.image.clone(),
                        why,
                    });
                }
                PodState::Ended(why) => {
                    remove_found(&plan.cluster, &found).await?;
                    return Err(lost(format!("its pod has ended: {why}")));
                }
                PodState::Leaving => return Err(lost(format!("somebody removed the pod {name}"))),
                PodState::Starting(why) => why,
            };
            if Instant::now() > until {
                remove_found(&plan.cluster, &found).await?;
                return Err(lost(format!("its pod did not start within {} s: {why}", START.as_secs())));
            }
            if given_up.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return Err(lost(format!("its pod is not waited for any more: {why}")));
            }
        }
    }

    /// Connects to a running pod, compares it with what was asked for, probes it from inside and fills its volume.
    async fn connect(
        &self,
        agent: &AgentId,
        plan: &PodPlan,
        slot: &Slot,
        found: &Value,
        given_up: &CancellationToken,
    ) -> Result<(Arc<HelperClient>, ProbeResult), SandboxError> {
        if let Some(finding) = deviations::of_pod(&plan.objects.pod, found).into_iter().next() {
            // The cluster changed it when it was made, or somebody did so later.
            remove_found(&plan.cluster, found).await?;
            return Err(SandboxError::NotConfined { agent: agent.clone(), finding });
        }
        let (cluster, name) = (&plan.cluster.client, name_of(found));
        let pod = AttachedPod::new(cluster, &plan.objects, found);
        let streams = pod.attach().await?;
        let client = match pod.greet(streams, self.entrance(&plan.agent), slot.patience()).await {
            Ok(client) => client,
            Err(error @ HelperError::Version(_)) => {
                remove_found(&plan.cluster, found).await?;
                return Err(SandboxError::ClusterImage {
                    engine: cluster.name().clone(),
                    image: plan.cluster.settings.image.clone(),
                    why: error.to_string(),
                });
            }
            Err(error) => return Err(error.of(agent)),
        };
        // A gateway that was killed may have left its processes stopped.
        if !slot.is_frozen() {
            freeze::signal(&client, agent, &freeze::CONTINUE).await?;
        }
        let probed = self.probe_pod(agent, &plan.cluster, &client).await?;
        if let Err(error) = probed.verdict(agent) {
            // A sandbox that is not confined must not run anything.
            slot.record_probe(Some(probed));
            remove_found(&plan.cluster, found).await?;
            return Err(error);
        }
        if plan.is_new {
            let transfer = Transfer { cluster, agent, pod: name, mark: &plan.mark };
            transfer.bring(&plan.agent.workspace, given_up).await?;
        }
        Ok((Arc::new(client), probed))
    }

    pub(super) async fn probe_pod(
        &self,
        agent: &AgentId,
        placed: &PlacedCluster,
        client: &HelperClient,
    ) -> Result<ProbeResult, SandboxError> {
        let targets = self.targets(placed, client, agent).await;
        let report = client.probe_network(&targets, PATIENCE).await.map_err(|error| error.of(agent))?;
        let expected = ProbeExpectations {
            writable: &[TERMINATION_LOG],
            // Nobody may ask a cluster for the kernels of its nodes without rights on all of it. Judged as the node's own, a
            // kernel is judged more strictly.
            kernel: None,
            is_behind_policy: true,
        };
        Ok(ProbeResult::now(&report, &expected))
    }

    /// Returns the addresses of the cluster's own that must not be reached. A pod learns the one of the API server from its
    /// environment.
    async fn targets(
        &self,
        placed: &PlacedCluster,
        client: &HelperClient,
        agent: &AgentId,
    ) -> Vec<SocketAddr> {
        let mut targets = Vec::new();
        // The helper's own environment, which commands do not get, can't be read. Its hosts file has the pod's address.
        let command = "cat /etc/hosts".to_owned();
        match brief_command::run(client, command, brief_command::ANSWER_LIMIT).await {
            Ok(outcome) => targets.extend(neighbours(&String::from_utf8_lossy(&outcome.output.head))),
            Err(error) => tracing::debug!(%agent, error = chain(&error), "its hosts can't be read"),
        }
        targets.extend(placed.client.server_address().await);
        targets
    }

    /// Returns the proxy that the helper has to listen for. `None` if the agent has no network.
    fn entrance(&self, agent: &crate::config::Agent) -> Option<PortForward> {
        (agent.network == Network::Proxy).then(|| {
            egress::entrance(Arc::new(Proxy {
                agent: agent.id.clone(),
                policy: Arc::clone(&self.egress),
                dial: Arc::clone(&self.dial),
                has_network: true,
                inside: None,
            }))
        })
    }
}

/// Removes a pod that was found, and waits until it is gone. Another one with its name is left alone.
pub(super) async fn remove_found(placed: &PlacedCluster, found: &Value) -> Result<(), SandboxError> {
    let (cluster, name) = (&placed.client, name_of(found));
    let uid = found["metadata"]["uid"].as_str();
    cluster.delete(ObjectKind::Pod, name, uid).await?;
    let until = Instant::now() + GONE;
    loop {
        match cluster.get(ObjectKind::Pod, name).await? {
            Some(now) if now["metadata"]["uid"] == found["metadata"]["uid"] => {}
            _ => return Ok(()),
        }
        if Instant::now() > until {
            let reason = format!("the pod {name} does not end; its node may be gone");
            let source: Box<dyn std::error::Error + Send + Sync> = reason.into();
            let what = format!("remove {name}");
            return Err(SandboxError::Cluster { engine: placed.name.clone(), what, source });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Removes the volume of a workspace that was not brought to it, and the pod that has it.
async fn forget_try(plan: &PodPlan) -> Result<(), SandboxError> {
    let (cluster, name) = (&plan.cluster.client, name_of(&plan.objects.pod));
    if let Some(found) =
        cluster.get(ObjectKind::Pod, name).await?.filter(|found| objects::has_claim(found, &plan.mark.volume))
    {
        remove_found(&plan.cluster, &found).await?;
    }
    cluster.delete(ObjectKind::Claim, &plan.mark.volume, None).await
}

/// Returns addresses near the pod's own, by its hosts file: the first of its network is usually the node.
fn neighbours(hosts: &str) -> Vec<SocketAddr> {
    let own =
        hosts.lines().filter_map(|line| line.split_whitespace().next()?.parse::<std::net::Ipv4Addr>().ok());
    let own = own.filter(|address| !address.is_loopback() && !address.is_unspecified());
    own.take(2)
        .flat_map(|address| {
            let [a, b, c, _] = address.octets();
            // The port of the kubelet, and the one of the cluster's names.
            [10250, 53].map(|port| SocketAddr::from(([a, b, c, 1], port)))
        })
        .collect()
}

/// Checks that an object that was found is of this home.
pub(super) fn own(wanted: &Value, found: &Value) -> Result<(), SandboxError> {
    match objects::label(found, LABEL_HOME) == objects::label(wanted, LABEL_HOME) {
        true => Ok(()),
        false => Err(SandboxError::Foreign { name: name_of(found).to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_pods_network_are_tried() {
        let hosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost\n10.244.3.17\tflock-sbx-coder\n";
        let found: Vec<String> = neighbours(hosts).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.244.3.1:10250", "10.244.3.1:53"]);
        assert!(neighbours("127.0.0.1 localhost\nx y\n").is_empty());
    }
}
