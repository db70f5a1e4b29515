//! Removes pods and volumes, and moves agents from a cluster to another engine.

use std::sync::Arc;

use futures_util::future;
use serde_json::Value;

use super::KubernetesSandbox;
use super::attached_pod::helper_streams;
use super::client::ObjectKind;
use super::objects::{self, CONTAINER, LABEL_HOME, LABEL_WORKSPACE, SandboxObjects, label, name_of};
use super::pod_state::PodState;
use super::provision::{own, remove_found};
use super::slot::{LivePod, Slot};
use super::transfer::Transfer;
use crate::error::chain;
use crate::home::elsewhere::{self, Mark};
use crate::home::{Home, instance};
use crate::id::AgentId;
use crate::sandbox::engines::{self, AgentPlace, PlacedCluster, PlannedMove};
use crate::sandbox::workspace_volume::{self, FOREIGN, Removed};
use crate::sandbox::{Relocation, SandboxError, work_left, workspace};

impl KubernetesSandbox {
    pub(super) async fn remove_pod(&self, agent: &AgentId) -> Result<(), SandboxError> {
        let slot = self.slot(agent);
        // No call may create the pod again while it is being removed.
        let _making = slot.making.lock().await;
        slot.forget();
        self.end_unreached(agent).await?;
        slot.record_probe(None);
        slot.set_frozen(crate::sync::lock(&self.standing)(agent));
        Ok(())
    }

    /// Ends the pod of an agent, wherever it is. Its workspace stays, and its next command makes a new one.
    pub(super) async fn end_unreached(&self, agent: &AgentId) -> Result<(), SandboxError> {
        match self.engines.place_of_id(agent).await? {
            AgentPlace::Cluster(placed) => remove_sandbox(&placed, &self.home, agent).await,
            AgentPlace::Engine(_) => Ok(()),
        }
    }

    /// Removes the pod that an agent has left in a cluster that did not answer, unless it is placed there again.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster, or an error if the database fails.
    pub(crate) async fn end_leftover(&self, agent: &AgentId, on: &PlacedCluster) -> Result<(), SandboxError> {
        let slot = self.slot(agent);
        // Nobody makes a pod meanwhile.
        let _making = slot.making.lock().await;
        if *self.engines.place_of_id(agent).await?.name() == on.name {
            return Ok(());
        }
        slot.forget_if(|live| Arc::ptr_eq(&live.cluster, &on.client));
        remove_sandbox(on, &self.home, agent).await
    }

    /// Removes all pods of the home in all clusters. Volumes stay.
    ///
    /// # Errors
    ///
    /// Returns the first failure. The other pods are removed all the same.
    pub async fn stop_all(&self) -> Result<(), SandboxError> {
        crate::sync::lock(&self.slots).values().for_each(|slot| slot.forget());
        let clusters = self.engines.clusters();
        let stopped = clusters.iter().map(|placed| remove_pods(placed, &self.home));
        future::join_all(stopped).await.into_iter().try_for_each(|removed| removed.map(drop))
    }

    /// Leaves the clusters that were removed from the configuration, by whichever process. What still runs there ends with an
    /// error. Its pods stay, because the access to the cluster may be gone as well.
    pub(crate) fn leave_removed(&self) {
        let removed = self.engines.take_removed_clusters();
        if removed.is_empty() {
            return;
        }
        let is_there = |live: &LivePod| removed.iter().any(|cluster| Arc::ptr_eq(cluster, &live.cluster));
        for old in crate::sync::lock(&self.slots).values().filter_map(|slot| slot.forget_if(is_there)) {
            old.client.disconnect(&engines::removed(old.cluster.name()));
        }
    }

    /// Moves an agent away from its cluster if nothing runs. Its workspace comes back to this machine first, and from here its
    /// next sandbox takes it along.
    pub(super) async fn relocate_idle(&self, planned: &PlannedMove) -> Result<Relocation, SandboxError> {
        let waits = |reason: &str| Ok(Relocation::Waits(reason.to_owned()));
        if let Err(reason) = &planned.to {
            return Ok(Relocation::Waits(reason.to_string()));
        }
        let (agent, slot) = (&planned.agent, self.slot(&planned.agent));
        if slot.is_frozen() {
            return waits(work_left::FROZEN);
        }
        let Some(placed) = self.engines.cluster(&planned.from) else {
            return waits("its engine was removed");
        };
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return Err(SandboxError::Unknown(agent.clone())) };
        let mark = elsewhere::read(&found.workspace).filter(|mark| mark.engine == placed.name);
        // Whoever holds the lock may be waiting for a cluster that does not answer.
        let Ok(making) = slot.making.try_lock() else { return waits("its sandbox is being made") };
        if let Some(reason) = self.work_in(agent, &slot, &placed).await? {
            return Ok(Relocation::Waits(reason));
        }
        if let Some(mark) = &mark {
            // The volume is read by the pod.
            drop(making);
            let live = self.live(agent, &slot).await?;
            // Something may have begun since.
            if let Some(reason) = work_of(&live).await {
                return Ok(Relocation::Waits(reason));
            }
            let Ok(_making) = slot.making.try_lock() else { return waits("its sandbox is being made") };
            // A command that begins from now on waits for the lock instead of ending with the pod.
            slot.forget();
            let failed = |(path, source)| SandboxError::Host { path, source };
            let owner = workspace::owner(&found.identity).map_err(failed)?;
            let pod = objects::pod_name(&read_instance(&self.home)?, agent);
            let transfer = Transfer { cluster: &placed.client, agent, pod: &pod, mark };
            Box::pin(transfer.bring_back(&found.workspace, owner)).await?;
            return self.leave(planned, &placed, Some(mark)).await;
        }
        slot.forget();
        self.leave(planned, &placed, None).await
    }

    /// Returns why the agent's pod has to stay, or `None` if nothing runs in it. A pod without a connection is asked before
    /// [`KubernetesSandbox::live`] may replace it, and whatever it was made from: a gateway that was restarted has left it, or
    /// a break lasted too long. The caller holds the slot's lock `making`, so that no other connection is in use.
    async fn work_in(
        &self,
        agent: &AgentId,
        slot: &Slot,
        placed: &PlacedCluster,
    ) -> Result<Option<String>, SandboxError> {
        if let Some(live) = slot.live() {
            return Ok(work_of(&live).await);
        }
        let instance = read_instance(&self.home)?;
        let Some(found) = own_pod(placed, &instance, agent).await? else { return Ok(None) };
        if PodState::of(&found) != PodState::Running {
            return Ok(None);
        }
        let asked = async {
            let streams = placed.client.attach(name_of(&found), CONTAINER).await?;
            work_left::ask(helper_streams(streams)).await.map_err(|error| error.of(agent))
        };
        Ok(match work_left::told(Box::pin(asked)).await {
            Ok(jobs) => work_left::of_jobs(&jobs),
            Err(reason) => Some(reason),
        })
    }

    async fn leave(
        &self,
        planned: &PlannedMove,
        placed: &PlacedCluster,
        mark: Option<&Mark>,
    ) -> Result<Relocation, SandboxError> {
        remove_sandbox(placed, &self.home, &planned.agent).await?;
        if let Some(mark) = mark {
            let volume = &mark.volume;
            // The files are here: what is left there is no reason to keep the agent.
            match remove_volume(placed, &self.home, mark).await {
                Ok(Removed::Gone) => {}
                Ok(Removed::Foreign) => tracing::warn!(volume, "{FOREIGN}"),
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(volume, error, "the volume of a workspace that is here now stays");
                }
            }
        }
        let to = self.engines.commit_move(planned).await?;
        if to == planned.from {
            return Ok(Relocation::Waits(
                "its engine fits again or has stopped answering, or the other one fits no more".to_owned(),
            ));
        }
        tracing::info!(agent = %planned.agent, from = %planned.from, %to, "an agent moved to another engine");
        Ok(Relocation::Done(to))
    }
}

/// Returns why a connected pod has to stay, or `None` if nothing runs in it.
async fn work_of(live: &LivePod) -> Option<String> {
    work_left::told(live.work()).await.unwrap_or_else(Some)
}

/// Returns the pod of an agent, or `None` if there is none.
async fn own_pod(
    placed: &PlacedCluster,
    instance: &str,
    agent: &AgentId,
) -> Result<Option<Value>, SandboxError> {
    let found = placed.client.get(ObjectKind::Pod, &objects::pod_name(instance, agent)).await?;
    if let Some(found) = &found {
        own(&labelled(instance), found)?;
    }
    Ok(found)
}

/// Returns an object with the label of a home.
fn labelled(instance: &str) -> Value {
    serde_json::json!({"metadata": {"labels": {LABEL_HOME: objects::home_label(instance)}}})
}

/// Removes an agent's pod and identity files from a cluster. Its volume stays.
///
/// # Errors
///
/// Returns the refusal of the cluster, and [`SandboxError::Foreign`] if they are another home's.
pub(crate) async fn remove_sandbox(
    placed: &PlacedCluster,
    home: &Home,
    agent: &AgentId,
) -> Result<(), SandboxError> {
    let instance = read_instance(home)?;
    if let Some(found) = own_pod(placed, &instance, agent).await? {
        remove_found(placed, &found).await?;
    }
    let name = objects::pod_name(&instance, agent);
    if let Some(found) = placed.client.get(ObjectKind::Identity, &name).await? {
        own(&labelled(&instance), &found)?;
        placed.client.delete(ObjectKind::Identity, &name, found["metadata"]["uid"].as_str()).await?;
    }
    Ok(())
}

/// Returns the pods that other gateways with the same files have left with this workspace.
pub(super) async fn others(
    placed: &PlacedCluster,
    objects: &SandboxObjects,
) -> Result<Vec<Value>, SandboxError> {
    let (own, claim) = (name_of(&objects.pod), name_of(&objects.claim));
    let group = label(&objects.pod, LABEL_WORKSPACE).unwrap_or_default();
    let mut pods = placed.client.list(ObjectKind::Pod, (LABEL_WORKSPACE, group)).await?;
    pods.retain(|pod| name_of(pod) != own && objects::has_claim(pod, claim));
    Ok(pods)
}

/// Removes the volume that a workspace is, if this home has made it or a gateway that has the same files. It is no error if the
/// volume is gone. The cluster keeps it until the last pod with it has ended.
///
/// # Errors
///
/// Returns the refusal of the cluster.
pub(crate) async fn remove_volume(
    placed: &PlacedCluster,
    home: &Home,
    mark: &Mark,
) -> Result<Removed, SandboxError> {
    let Some(found) = placed.client.get(ObjectKind::Claim, &mark.volume).await? else {
        return Ok(Removed::Gone);
    };
    if !has_made(home, &found) {
        return Ok(Removed::Foreign);
    }
    let uid = found["metadata"]["uid"].as_str();
    placed.client.delete(ObjectKind::Claim, &mark.volume, uid).await.map(|()| Removed::Gone)
}

/// Returns `true` if this home has made the claim, or a gateway that has the same files. A copy of a home has the marks of the
/// original.
fn has_made(home: &Home, claim: &Value) -> bool {
    let of_us = |id: &String| label(claim, LABEL_WORKSPACE) == Some(objects::home_label(id).as_str());
    workspace_volume::ids(home).iter().any(of_us)
}

/// Returns why this home may not use the volume that a workspace is: another home has made it. Returns `None` if this home may use
/// it, or if there is none.
///
/// # Errors
///
/// Returns the refusal of the cluster.
pub(crate) async fn refusal(
    placed: &PlacedCluster,
    home: &Home,
    agent: &AgentId,
    mark: &Mark,
) -> Result<Option<SandboxError>, SandboxError> {
    let Some(found) = placed.client.get(ObjectKind::Claim, &mark.volume).await? else { return Ok(None) };
    // In a group it may have been made before the group, and has the id of the home that invited.
    if has_made(home, &found) || instance::of_shared_files(home).is_some() {
        return Ok(None);
    }
    let own = objects::home_label(&read_instance(home)?);
    Ok(Some(of_other_home(placed, agent, &mark.volume, &own)))
}

/// Returns the refusal of a claim that another home has made. `own` is the label of this home's claims: with it, the claim is this
/// home's, and the other one is refused.
pub(super) fn of_other_home(placed: &PlacedCluster, agent: &AgentId, claim: &str, own: &str) -> SandboxError {
    SandboxError::OfOtherHome {
        agent: agent.clone(),
        engine: placed.name.clone(),
        volume: format!("{claim} of another home"),
        take: placed.client.address().labelling_of(claim, &format!("{LABEL_WORKSPACE}={own}")),
    }
}

/// Returns the claims for workspaces that this home has made in a cluster, and that no mark has.
///
/// # Errors
///
/// Returns the refusal of the cluster, or an error if the marks can't be read.
pub(crate) async fn unclaimed(placed: &PlacedCluster, home: &Home) -> Result<Vec<String>, SandboxError> {
    let mut names = Vec::new();
    for id in workspace_volume::ids(home) {
        let label = objects::home_label(&id);
        let found = placed.client.list(ObjectKind::Claim, (LABEL_WORKSPACE, &label)).await?;
        // One that is being removed is there until its pod has ended.
        let found = found.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
        names.extend(found.map(|claim| name_of(claim).to_owned()));
    }
    // Read last: a volume is there before its mark.
    let marks = workspace_volume::marks(home)?;
    names.retain(|name| {
        name.starts_with(elsewhere::VOLUMES) && marks.iter().all(|(_, mark)| mark.volume != *name)
    });
    names.sort();
    Ok(names)
}

/// Removes all pods of the home in a cluster, and returns their names. The cluster ends them by itself, so nobody waits for it.
///
/// # Errors
///
/// Returns the first refusal of the cluster. The other pods are removed all the same.
pub(crate) async fn remove_pods(placed: &PlacedCluster, home: &Home) -> Result<Vec<String>, SandboxError> {
    // A home that was never started has none.
    let Ok(instance) = instance::read(home) else { return Ok(Vec::new()) };
    let pods = placed.client.list(ObjectKind::Pod, (LABEL_HOME, &objects::home_label(&instance))).await?;
    let gone = pods.iter().map(|pod| async move {
        let (name, uid) = (name_of(pod), pod["metadata"]["uid"].as_str());
        placed.client.delete(ObjectKind::Pod, name, uid).await.map(|()| name.to_owned())
    });
    future::join_all(gone).await.into_iter().collect()
}

/// Removes everything that the home has in a cluster but the volumes of workspaces.
///
/// # Errors
///
/// Returns the first refusal of the cluster.
pub(crate) async fn remove_home(placed: &PlacedCluster, home: &Home) -> Result<(), SandboxError> {
    for (kind, found) in all_of(placed, home).await? {
        placed.client.delete(kind, name_of(&found), found["metadata"]["uid"].as_str()).await?;
    }
    Ok(())
}

/// Returns what [`remove_home`] would remove, as in `pods/NAME`.
///
/// # Errors
///
/// Returns the first refusal of the cluster.
pub(crate) async fn belongings(placed: &PlacedCluster, home: &Home) -> Result<Vec<String>, SandboxError> {
    let found = all_of(placed, home).await?;
    Ok(found.iter().map(|(kind, found)| format!("{}/{}", kind.resource().1, name_of(found))).collect())
}

async fn all_of(placed: &PlacedCluster, home: &Home) -> Result<Vec<(ObjectKind, Value)>, SandboxError> {
    // A home that was never started has nothing.
    let Ok(instance) = instance::read(home) else { return Ok(Vec::new()) };
    let label = objects::home_label(&instance);
    let mut all = Vec::new();
    // The policy goes last, so that no pod is without.
    for kind in [ObjectKind::Pod, ObjectKind::Identity, ObjectKind::Policy] {
        let found = placed.client.list(kind, (LABEL_HOME, &label)).await?;
        all.extend(found.into_iter().map(|found| (kind, found)));
    }
    Ok(all)
}

fn read_instance(home: &Home) -> Result<String, SandboxError> {
    let failed = |error| SandboxError::Host { path: home.instance(), source: std::io::Error::other(error) };
    instance::read(home).map_err(failed)
}
