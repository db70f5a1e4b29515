//! The objects that make up a sandbox in a Kubernetes cluster, written as an allow-list: flock can ask a cluster only for
//! what is here. The same agent, image and files always give the same objects and the same digest.
//!
//! They are plain JSON, because flock makes only four kinds. A test validates them by the published definitions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::config::{Agent, ClusterSettings};
use crate::home::elsewhere::{self, Mark};
use crate::id::{AgentId, EngineName, hex};
use crate::sandbox::SandboxError;
use crate::sandbox::spec::{self, HELPER_TARGET, WORKSPACE_TARGET};
use crate::sandbox::workspace::SHARED_USER;

/// Label: the home that owns an object, as a digest of its instance id.
pub const LABEL_HOME: &str = "flock.home";
/// Label: the agent that an object belongs to, as a digest, because an id can end in a character that no label may end in.
pub const LABEL_AGENT: &str = "flock.agent";
/// Label: the digest of everything that a pod was made from.
pub const LABEL_SPEC: &str = "flock.spec";
/// Label: the home whose workspace a volume is, or the gateways that share the files of a home, as a digest. Pods have it, too. A
/// volume has no [`LABEL_HOME`]: nothing that removes all that a home has in a cluster may find it.
pub(crate) const LABEL_WORKSPACE: &str = "flock.workspace";
/// Annotation: the agent that an object belongs to, for people.
pub const AGENT: &str = "flock.agent";
/// Name of the only container of a pod.
pub(crate) const CONTAINER: &str = "sandbox";

/// Version of what [`SandboxObjects::build`] hard-codes. Increase it when that changes.
const VERSION: u32 = 1;
/// A cluster says itself how many cores its machines have, so no limit is taken down to those of this machine.
const ANY_CORES: u64 = 1 << 20;
/// Limit on what a pod writes to its node besides its volumes: the container's log, which the node keeps short.
const EPHEMERAL: u64 = 256 << 20;

/// The facts that the objects of a sandbox depend on.
#[derive(Clone, Copy, Debug)]
pub struct SandboxFacts<'a> {
    /// The home's instance id, which no other home has, on whatever machine.
    pub instance: &'a str,
    /// The id of the files that the home shares with other gateways; without others, its instance id.
    pub files: &'a str,
    pub agent: &'a Agent,
    pub cluster: &'a ClusterSettings,
    /// The name of the claim for the volume that is the agent's workspace.
    pub claim: &'a str,
    /// The class of the runtime, or `None` for the cluster's default.
    pub runtime: Option<&'a str>,
    /// The identity files by name.
    pub identity: &'a BTreeMap<String, String>,
}

/// The objects of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxObjects {
    /// Denies all traffic of all sandboxes of the home.
    pub policy: Value,
    /// The volume of the workspace.
    pub claim: Value,
    /// The identity files.
    pub identity: Value,
    pub pod: Value,
}

impl SandboxObjects {
    /// Builds the objects of an agent's sandbox.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Refused`] if the configuration asks for something that no sandbox in a cluster may have.
    pub fn build(facts: &SandboxFacts<'_>) -> Result<Self, SandboxError> {
        check(facts.agent)?;
        let policy = policy(facts.instance);
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": facts.claim,
                "labels": {
                    LABEL_WORKSPACE: home_label(facts.files),
                    LABEL_AGENT: agent_label(&facts.agent.id),
                },
                "annotations": {AGENT: facts.agent.id},
            },
            "spec": claim_spec(facts.cluster),
        });
        let identity = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(facts, &pod_name(facts.instance, &facts.agent.id)),
            "data": facts.identity,
        });
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata(facts, &pod_name(facts.instance, &facts.agent.id)),
            "spec": pod_spec(facts),
        });
        pod["metadata"]["labels"][LABEL_WORKSPACE] = json!(home_label(facts.files));
        let digest = digest(&[&policy, &claim, &identity, &pod]);
        pod["metadata"]["labels"][LABEL_SPEC] = json!(digest);
        Ok(Self { policy, claim, identity, pod })
    }

    /// Returns the digest of everything that the pod is made from.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.pod["metadata"]["labels"][LABEL_SPEC].as_str().unwrap_or_default()
    }

    /// Returns `true` if another home has made the claim that was found, of which this one is a copy.
    #[must_use]
    pub(super) fn is_of_other_home(&self, claim: &Value) -> bool {
        let (files, home) = (label(&self.claim, LABEL_WORKSPACE), label(&self.pod, LABEL_HOME));
        // In a group it may have been made before the group, and has the id of the home that invited.
        files == home && label(claim, LABEL_WORKSPACE) != files
    }
}

/// Returns the name of an object.
#[must_use]
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns a label of an object.
#[must_use]
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

/// Returns the name of an agent's pod. No other home gives it to a pod of its own.
#[must_use]
pub fn pod_name(instance: &str, agent: &AgentId) -> String {
    format!("flock-sbx-{}-{}", plain(agent), short(&[instance, agent.as_str()], 10))
}

/// Returns the place of a workspace that no cluster has yet.
#[must_use]
pub(crate) fn new_mark(engine: &EngineName, agent: &AgentId) -> Mark {
    let chance = hex(&rand::random::<[u8; 8]>());
    Mark { engine: engine.clone(), volume: format!("{}{}-{chance}", elsewhere::VOLUMES, plain(agent)) }
}

/// Returns `true` if a pod has the volume of this claim.
#[must_use]
pub(crate) fn has_claim(pod: &Value, claim: &str) -> bool {
    let volumes = pod["spec"]["volumes"].as_array();
    volumes.into_iter().flatten().any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

/// Returns the value of [`LABEL_HOME`] or of [`LABEL_WORKSPACE`].
#[must_use]
pub fn home_label(id: &str) -> String {
    short(&[id], 32)
}

/// Returns the value of [`LABEL_AGENT`].
#[must_use]
pub fn agent_label(agent: &AgentId) -> String {
    short(&[agent.as_str()], 32)
}

/// A name of an object takes lower-case letters, digits and dashes only. What is replaced is told apart by what follows.
fn plain(agent: &AgentId) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    agent.as_str().chars().take(30).map(plain).collect()
}

fn short(parts: &[&str], length: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())[..length].to_owned()
}

fn digest(objects: &[&Value]) -> String {
    let text = serde_json::to_vec(&(VERSION, objects)).unwrap_or_default();
    hex(&Sha256::digest(text))[..32].to_owned()
}

fn check(agent: &Agent) -> Result<(), SandboxError> {
    let docker = &agent.docker;
    let refused = if let Some(key) = docker.refused.first() {
        Some(format!("the setting {key:?}"))
    } else if let Some(bind) = docker.binds.first() {
        Some(format!("the bind {bind:?} in a cluster, which does not have this machine's files"))
    } else if let Some(network) = docker.network.as_deref().filter(|network| *network != "none") {
        Some(format!("the network {network:?}"))
    } else {
        docker.image.as_ref().map(|image| format!("the image {image:?} in a cluster, which has one for all"))
    };
    match refused {
        None => Ok(()),
        Some(what) => Err(SandboxError::Refused { agent: agent.id.clone(), what, granted: false }),
    }
}

fn metadata(facts: &SandboxFacts<'_>, name: &str) -> Value {
    json!({
        "name": name,
        "labels": {
            LABEL_HOME: home_label(facts.instance),
            LABEL_AGENT: agent_label(&facts.agent.id),
        },
        "annotations": {AGENT: facts.agent.id},
    })
}

/// Returns the policy that lets nothing into the home's pods and nothing out.
fn policy(instance: &str) -> Value {
    let home = home_label(instance);
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": format!("flock-deny-all-{}", &home[..10]),
            "labels": {LABEL_HOME: home},
        },
        "spec": {
            "podSelector": {"matchLabels": {LABEL_HOME: home}},
            // Without a rule for a direction, nothing goes in it.
            "policyTypes": ["Ingress", "Egress"],
        },
    })
}

fn claim_spec(cluster: &ClusterSettings) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": quantity(cluster.storage)}},
    });
    if let Some(class) = &cluster.storage_class {
        spec["storageClassName"] = json!(class);
    }
    spec
}

fn pod_spec(facts: &SandboxFacts<'_>) -> Value {
    let name = pod_name(facts.instance, &facts.agent.id);
    let (_, tmp_bytes, _) = spec::limits(facts.agent, ANY_CORES);
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        // The helper has no state to save.
        "terminationGracePeriodSeconds": 1,
        // The names of the cluster's services are nobody's business here.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": SHARED_USER.uid,
            "runAsGroup": SHARED_USER.gid,
            "fsGroup": SHARED_USER.gid,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container(facts)],
        "volumes": [
            {"name": "workspace", "persistentVolumeClaim": {"claimName": facts.claim}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": quantity(tmp_bytes)}},
            {"name": "identity", "configMap": {"name": name, "defaultMode": 0o444}},
        ],
    });
    if let Some(class) = facts.runtime {
        spec["runtimeClassName"] = json!(class);
    }
    spec
}

fn container(facts: &SandboxFacts<'_>) -> Value {
    let (memory, _, cpu_millis) = spec::limits(facts.agent, ANY_CORES);
    let limits = json!({
        "cpu": cpu(cpu_millis),
        "memory": quantity(memory),
        "ephemeral-storage": quantity(EPHEMERAL),
    });
    let mut mounts = vec![
        json!({"name": "workspace", "mountPath": WORKSPACE_TARGET}),
        json!({"name": "tmp", "mountPath": "/tmp"}),
    ];
    // Over the workspace: the agent can neither change nor replace them.
    mounts.extend(facts.identity.keys().map(|name| {
        let target = format!("{WORKSPACE_TARGET}/{name}");
        json!({"name": "identity", "mountPath": target, "subPath": name, "readOnly": true})
    }));
    json!({
        "name": CONTAINER,
        "image": facts.cluster.image,
        "imagePullPolicy": "IfNotPresent",
        // The runtime's profile refuses less than flock's, so the helper adds a filter of its own.
        "command": [HELPER_TARGET, "restrict"],
        "workingDir": WORKSPACE_TARGET,
        "stdin": true,
        // A later connection gets the same input.
        "stdinOnce": false,
        "tty": false,
        "resources": {
            "limits": limits,
            // What it may have is not kept for it, except the memory, which can't be taken back.
            "requests": {"cpu": "50m", "memory": quantity(memory), "ephemeral-storage": quantity(EPHEMERAL)},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    })
}

/// Returns a number of bytes in the one form in which a cluster gives it back.
fn quantity(bytes: u64) -> String {
    for (suffix, shift) in [("Ti", 40), ("Gi", 30), ("Mi", 20)] {
        if bytes >= 1 << shift && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    format!("{}Ki", bytes.div_ceil(1024))
}

/// Returns thousandths of a core in the one form in which a cluster gives them back.
fn cpu(millis: u64) -> String {
    match millis % 1000 {
        0 => (millis / 1000).to_string(),
        _ => format!("{millis}m"),
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
