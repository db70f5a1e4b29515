//! The errors of a sandbox, each with the command that helps.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::id::{AgentId, EngineName};
use crate::sandbox::disk_room::NoRoom;
use crate::sandbox::engine_route::RouteError;
use crate::sandbox::placement::NoEngine;

/// An error of a sandbox or of its engine.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The agent's configuration turns the sandbox off.
    #[error("agent {0} has no sandbox: its sandbox.mode is \"off\"")]
    Off(AgentId),
    /// No engine answers, or it does not answer in time.
    #[error("the {} does not answer", title(engine.as_ref(), endpoint))]
    Unavailable {
        /// The name in the configuration. `None` for the machine's own engine.
        engine: Option<EngineName>,
        /// The address that was tried, such as `unix:///var/run/docker.sock`.
        endpoint: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine's socket refuses the user that runs flock.
    #[error("the {} refuses this user", title(engine.as_ref(), endpoint))]
    Denied {
        /// The name in the configuration. `None` for the machine's own engine.
        engine: Option<EngineName>,
        /// The address that was tried.
        endpoint: String,
    },
    /// No engine has what the agent needs.
    #[error("agent {agent} can't be placed")]
    NoPlace {
        agent: AgentId,
        #[source]
        source: NoEngine,
    },
    /// The database does not tell or take where an agent is placed.
    #[error("failed to find the engine of an agent")]
    Placements(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An image is missing and could not be pulled or built.
    #[error("the image {image} is not there")]
    NoImage { image: String },
    /// The engine does not know the OCI runtime that the agent's configuration names.
    #[error("the Docker engine has no runtime {runtime:?}, which is configured for agent {agent}")]
    NoRuntime {
        agent: AgentId,
        /// The runtime's name in `sandbox.docker.runtime`.
        runtime: String,
    },
    /// The sandbox is not confined as its specification demands, so nothing may run in it.
    #[error("the sandbox of {agent} is not confined: {finding}")]
    NotConfined {
        agent: AgentId,
        /// The difference that the inspection found, or the way out that the probe found.
        finding: String,
    },
    /// The configuration or an approval asks for something that no sandbox may have.
    #[error("the sandbox of {agent} may not have {what}")]
    Refused {
        agent: AgentId,
        /// The refused thing, for example `a bind of /var/run/docker.sock`.
        what: String,
        /// `true` if an approval granted it, `false` if the configuration asks for it.
        granted: bool,
    },
    /// The configuration has no agent of this id.
    #[error("there is no agent {0}")]
    Unknown(AgentId),
    /// A container has the expected name but was not made by this home. It is left alone.
    #[error("the container {name} is not of this home")]
    Foreign { name: String },
    /// The home of another machine at the same path uses the engine.
    #[error(
        "the {engine} is used by the home {home} of another machine: homes that share an engine need different paths"
    )]
    Claimed {
        /// The words for the engine, as in `engine far at ssh://far`.
        engine: String,
        /// The path of both homes.
        home: String,
        /// The volume by which the other one is known.
        volume: String,
    },
    /// The agent has no background job of this number.
    #[error("there is no job {0}")]
    NoJob(u32),
    /// The background job ended because its container was replaced by a new one.
    #[error("job {id} ({command}) has ended: its sandbox was made anew, with changed settings")]
    JobEnded {
        id: u32,
        /// The shell text of the job.
        command: String,
    },
    #[error("failed to start the command: {reason}")]
    NotStarted {
        /// The reason, for example `can't enter the folder "/workspace/x"`.
        reason: String,
    },
    /// The processes of a pod did not get a signal.
    #[error("the processes of {agent} can't be {done}: {reason}")]
    NotSignalled {
        agent: AgentId,
        /// The effect of the signal: `stopped` or `continued`.
        done: &'static str,
        /// The reason, for example `64 commands run already`.
        reason: String,
    },
    /// The agent is frozen, so nothing runs until it is thawed.
    #[error("the sandbox of {0} is frozen")]
    Frozen(AgentId),
    /// The helper inside the sandbox broke the protocol or closed its streams.
    #[error("the sandbox of {agent} stopped answering: {reason}")]
    Lost {
        agent: AgentId,
        /// A description of the broken frame or of the lost connection.
        reason: String,
    },
    /// The workspace is not where the sandbox is, or did not arrive there whole.
    #[error("the workspace of {agent} {what}")]
    Workspace {
        agent: AgentId,
        /// The problem with it, as in `is on the engine far`.
        what: String,
    },
    /// Another home has made the volume of the workspace. This home is a copy of it, and their sandboxes must not write to the
    /// same files.
    #[error("the workspace of {agent} is the volume {volume}, which may still use it")]
    OfOtherHome {
        agent: AgentId,
        engine: EngineName,
        /// The volume and its home, as in `flock-ws-coder-0123 of the home /home/ann/.flock`.
        volume: String,
        /// The command by which this home gets the files in the volume.
        take: String,
    },
    /// The workspace is longer than what the disk of this machine has room for, so it stays where it is.
    #[error(
        "the workspace of {agent} does not fit on this machine: {need}; free space there, or remove large files from the workspace"
    )]
    NoRoom { agent: AgentId, need: NoRoom },
    #[error("failed to prepare {}", path.display())]
    Host {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A cluster refused something.
    #[error("the cluster {engine} failed to {what}")]
    Cluster {
        engine: EngineName,
        /// The attempted action, which completes the sentence.
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The image that a cluster has for sandboxes can't be used.
    #[error("the image {image} of the cluster {engine} can't be used: {why}")]
    ClusterImage { engine: EngineName, image: String, why: String },
    /// The agent's sandbox is in a cluster, which does not have what was asked for.
    #[error("{agent} is in the cluster {engine}, which has no {what}")]
    InCluster { agent: AgentId, engine: EngineName, what: &'static str },
    #[error("Docker failed to {what}")]
    Engine {
        /// The attempted action, for example `create flock-sbx-coder`. It completes "Docker failed to …".
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Explain for SandboxError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unavailable { .. } | Self::Denied { .. } => Kind::DockerUnavailable,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        if let Some(hint) = self.way_hint() {
            return Some(hint);
        }
        let hint = match self {
            Self::Unavailable { engine: Some(name), .. } | Self::Denied { engine: Some(name), .. } => {
                return Some(format!("flock engine show {name}"));
            }
            Self::Cluster { engine, .. } => return Some(format!("flock engine show {engine}")),
            Self::NoPlace { .. } | Self::Workspace { .. } | Self::InCluster { .. } => "flock engine list",
            Self::Unavailable { endpoint, .. } if endpoint.starts_with("unix://") => {
                "sudo systemctl start docker"
            }
            Self::Unavailable { .. } => "unset DOCKER_HOST",
            Self::Denied { .. } => "sudo usermod -aG docker $USER && newgrp docker",
            Self::NoImage { .. } => "flock init",
            Self::NoRuntime { .. }
            | Self::NotConfined { .. }
            | Self::Lost { .. }
            | Self::Placements(_)
            | Self::ClusterImage { .. }
            | Self::Engine { .. } => "flock doctor",
            Self::Foreign { name } => {
                return Some(format!("docker rm -f {name}"));
            }
            Self::Claimed { volume, .. } => {
                return Some(format!(
                    "docker volume rm {volume}, on that engine, if the other home is no more"
                ));
            }
            Self::OfOtherHome { engine, take, .. } => {
                return Some(format!(
                    "if that home is gone: {take}; otherwise, for the files of the last checkpoints: \
                     flock engine remove {engine} --force"
                ));
            }
            Self::NoRoom { need, .. } => return Some(format!("df -h {}", need.folder.display())),
            Self::Frozen(agent) => return Some(format!("flock thaw {agent}")),
            // A freeze ends a pod whose processes can't be stopped.
            Self::NotSignalled { agent, .. } => {
                return Some(format!("flock freeze {agent} && flock thaw {agent}"));
            }
            Self::Unknown(_) => "flock list",
            Self::Refused { granted: true, .. } => "flock approvals list --all",
            Self::Refused { .. } => "flock config validate",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl SandboxError {
    /// Returns what mends the way to an engine on another machine, if that way is what failed.
    #[must_use]
    pub(crate) fn way_hint(&self) -> Option<String> {
        self.way()?.hint()
    }

    /// Returns the reason why the way to an engine on another machine failed.
    #[must_use]
    pub(crate) fn way(&self) -> Option<&RouteError> {
        match self {
            Self::Unavailable { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}

/// Returns the words for an engine in a message.
pub(super) fn title(engine: Option<&EngineName>, endpoint: &str) -> String {
    match engine {
        Some(name) => format!("engine {name} at {endpoint}"),
        None => format!("Docker engine at {endpoint}"),
    }
}
