//! The error kind and the suggested command for each failure of a sandbox.

use crate::error::{Explain, Kind};
use crate::sandbox::SandboxError;

impl Explain for SandboxError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unavailable { .. } | Self::Denied { .. } => Kind::DockerUnavailable,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unavailable { endpoint, .. } if endpoint.starts_with("unix://") => {
                "sudo systemctl start docker"
            }
            Self::Unavailable { .. } => "unset DOCKER_HOST",
            Self::Denied { .. } => "sudo usermod -aG docker $USER && newgrp docker",
            Self::NoImage { .. } => "flock init",
            Self::NoRuntime { .. } | Self::NotConfined { .. } | Self::Lost { .. } | Self::Engine { .. } => {
                "flock doctor"
            }
            Self::Foreign { name } => {
                return Some(format!("docker rm -f {name}"));
            }
            Self::Frozen(agent) => return Some(format!("flock thaw {agent}")),
            Self::Unknown(_) => "flock list",
            Self::Refused { granted: true, .. } => "flock approvals list --all",
            Self::Refused { .. } => "flock config validate",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
