//! The specification of an agent's container, written as an allow-list: flock can ask the engine only for what is a
//! field here. The same agent, image and files always give the same specification and the same hash.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountBindOptions,
    MountBindOptionsPropagationEnum, MountType, MountVolumeOptions, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::config::Agent;
use crate::home::Home;
use crate::id::hex;
use crate::sandbox::binds;
use crate::sandbox::mount::{self, Mounts};
use crate::sandbox::program_mounts::ProgramMount;
use crate::sandbox::project_mount::{PROJECTS_TARGET, ProjectMount};
use crate::sandbox::{SandboxError, names, seccomp};

/// Path of the helper program in the sandbox.
pub(crate) const HELPER_TARGET: &str = "/flock-helper";
/// Path of the workspace in the sandbox.
pub(crate) const WORKSPACE_TARGET: &str = "/workspace";
/// Names of the files that describe an agent. The agent can read them but not change them.
pub(crate) const IDENTITY_FILES: [&str; 5] = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md"];

/// Memory limit in bytes if the configuration sets none.
const DEFAULT_MEMORY: u64 = 2 << 30;
/// CPU limit in thousandths of a core if the configuration sets none.
const DEFAULT_CPU_MILLIS: u64 = 2000;
const TMP_BYTES: u64 = 512 << 20;
/// Limit on the number of processes in a sandbox.
pub const PIDS: i64 = 256;
/// Limit on the number of open files of a process.
pub(crate) const OPEN_FILES: i64 = 4096;

/// Returns the limits of an agent's sandbox: memory in bytes, size of `/tmp` in bytes, and CPU in thousandths of a
/// core.
#[must_use]
pub fn limits(agent: &Agent, cores: u64) -> (u64, u64, u64) {
    let memory = agent.docker.memory.unwrap_or(DEFAULT_MEMORY);
    // The engine refuses a CPU limit above the number of cores of the machine.
    let cpu_millis = agent.docker.cpu_millis.unwrap_or(DEFAULT_CPU_MILLIS).min(cores.max(1) * 1000);
    (memory, TMP_BYTES.min(memory / 2), cpu_millis)
}

/// Returns the memory limit of an agent's sandbox in bytes.
#[must_use]
pub(crate) fn memory_limit(agent: &Agent) -> u64 {
    agent.docker.memory.unwrap_or(DEFAULT_MEMORY)
}

/// Facts about the host that a specification needs besides the configuration.
#[derive(Clone, Debug)]
pub(crate) struct HostFacts {
    /// The image's id, not its tag, because a tag can be moved to another image.
    pub image: String,
    /// The user that the sandbox runs as.
    pub user: SandboxUser,
    /// Path of the helper program on the host.
    pub helper: PathBuf,
    /// The agent's workspace with all symbolic links resolved.
    pub workspace: PathBuf,
    /// All identity files of the agent.
    pub identity: Vec<IdentityMount>,
    /// The number of processor cores.
    pub cores: u64,
    /// The engine's socket, which no bind may expose.
    pub engine_socket: Option<PathBuf>,
    /// The host folders and files approved for the agent.
    pub mounts: Mounts,
    /// The mounts needed by the agent program that runs the agent's turns. Empty if flock itself runs them.
    pub fittings: Vec<ProgramMount>,
    /// The objects of the projects that the agent is assigned to.
    pub projects: Vec<ProjectMount>,
    /// The volume that is the workspace, if the engine is on another machine.
    pub volume: Option<String>,
}

/// A user of the container, by number because the image may not know the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxUser {
    pub uid: u32,
    pub gid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct IdentityMount {
    /// The file's name in the workspace.
    pub name: String,
    /// The inode, which changes when the file is replaced. A bind mount would keep showing the old file.
    pub inode: u64,
}

/// The complete description of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ContainerSpec {
    pub name: String,
    /// The home that owns the container, as [`names::owner`] writes it.
    pub home: String,
    /// The agent it belongs to. Empty for the container of a check, which belongs to no agent.
    pub agent: String,
    /// The MCP server that runs in it. `None` for an agent's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_server: Option<String>,
    /// The run of checks it is made for. `None` for an agent's container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    pub image: String,
    /// User and group as `uid:gid`.
    pub user: String,
    /// The name of the OCI runtime in the engine. `None` selects the engine's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// All mounts, sorted by target.
    pub mounts: Vec<MountSpec>,
    /// The identity files mounted over the workspace's own files of the same name.
    pub identity: Vec<IdentityMount>,
    /// Inode and modification time of each mounted file or folder of an agent program or a project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(u64, i64)>,
    /// Memory limit in bytes. Swap is not allowed beyond it.
    pub memory: i64,
    /// CPU limit in billionths of a core.
    pub nano_cpus: i64,
    /// Limit on the number of processes.
    pub pids: i64,
    /// Limit on the number of open files of a process.
    pub open_files: i64,
    /// Size of `/tmp` in bytes.
    pub tmp_bytes: u64,
}

/// A single mount of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct MountSpec {
    /// The path in the container.
    pub target: String,
    /// The path or volume of the host.
    pub source: MountSource,
    /// `true` if the container may write to it.
    pub writable: bool,
}

/// The source of a mount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum MountSource {
    /// A folder or file of the host.
    Path(PathBuf),
    /// A volume of the engine, by name.
    Volume(String),
}

impl ContainerSpec {
    /// Builds the specification of `agent`'s container. The result depends only on the arguments and on the symbolic
    /// links in the paths of binds and mounts.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Refused`] if the configuration, the workspace's place, an approved mount or a program
    /// mount asks for something that no sandbox may have.
    pub fn build(home: &Home, agent: &Agent, host: &HostFacts) -> Result<Self, SandboxError> {
        let refused = |what: String| SandboxError::Refused { agent: agent.id.clone(), what, granted: false };
        check_settings(home, agent, host.engine_socket.as_deref()).map_err(refused)?;
        check_workspace(home, agent, &host.workspace, host.engine_socket.as_deref())?;
        let mut mounts = vec![
            MountSpec::path(HELPER_TARGET, &host.helper, false),
            MountSpec::volume(binds::STORE_TARGET, names::store_volume(home), false),
            MountSpec::path(WORKSPACE_TARGET, &host.workspace, true),
        ];
        // Over the workspace: the agent can neither change nor replace them.
        mounts.extend(host.identity.iter().map(|file| {
            let target = format!("{WORKSPACE_TARGET}/{}", file.name);
            MountSpec::path(target, agent.identity.join(&file.name), false)
        }));
        if let Some(volume) = &host.volume {
            // Nothing of this machine can be mounted there: the helper is in the image, and the identity files are in the
            // volume.
            if let Some(what) = only_here(host) {
                return Err(refused(format!("{what} on an engine of another machine")));
            }
            mounts = vec![
                MountSpec::volume(binds::STORE_TARGET, names::store_volume(home), false),
                MountSpec::volume(WORKSPACE_TARGET, volume.as_str(), true),
            ];
        }
        let engine_socket = host.engine_socket.as_deref();
        let granted = |what| SandboxError::Refused { agent: agent.id.clone(), what, granted: true };
        let approved = host.mounts.decide(home, engine_socket, binds::resolve).map_err(granted)?;
        mounts.extend(approved.into_iter().map(|(source, target)| MountSpec::path(target, source, false)));
        for fitting in &host.fittings {
            mounts.push(fitting.mount(home, engine_socket).map_err(refused)?);
        }
        mounts.extend(host.projects.iter().map(ProjectMount::mount));
        // The hash is taken over the list, so its order must not depend on the configuration's order.
        mounts.sort();
        let (memory, tmp_bytes, cpu_millis) = limits(agent, host.cores);
        Ok(Self {
            name: names::sandbox(home, &agent.id),
            home: names::owner(home),
            agent: agent.id.to_string(),
            mcp_server: agent.id.mcp_server().map(str::to_owned),
            check: None,
            image: host.image.clone(),
            user: format!("{}:{}", host.user.uid, host.user.gid),
            runtime: agent.docker.runtime.clone(),
            mounts,
            identity: host.identity.clone(),
            parts: seen_parts(host),
            memory: i64::try_from(memory).unwrap_or(i64::MAX),
            nano_cpus: i64::try_from(cpu_millis.saturating_mul(1_000_000)).unwrap_or(i64::MAX),
            pids: PIDS,
            open_files: OPEN_FILES,
            tmp_bytes,
        })
    }

    /// Returns the hash that shows if a container was made from this specification.
    #[must_use]
    pub fn hash(&self) -> String {
        // Fields and mounts have a fixed order, so the JSON text is canonical. `BODY_VERSION` stands for the settings
        // that `body` hard-codes and that are therefore not fields.
        let text = serde_json::to_vec(&(BODY_VERSION, self, seccomp::profile())).unwrap_or_default();
        hex(&Sha256::digest(text))
    }

    /// Returns the labels of the container.
    #[must_use]
    pub fn labels(&self) -> HashMap<String, String> {
        let mut labels = HashMap::from([
            (names::LABEL_HOME.to_owned(), self.home.clone()),
            (names::LABEL_SPEC.to_owned(), self.hash()),
        ]);
        // A check container must never be taken for an agent's.
        match &self.check {
            Some(id) => labels.insert(names::LABEL_CHECK.to_owned(), id.clone()),
            None => match &self.mcp_server {
                // Nor must an MCP server's.
                Some(server) => labels.insert(names::LABEL_MCP.to_owned(), server.clone()),
                None => labels.insert(names::LABEL_AGENT.to_owned(), self.agent.clone()),
            },
        };
        labels.extend(self.runtime.iter().map(|name| (names::LABEL_RUNTIME.to_owned(), name.clone())));
        labels
    }

    /// Returns the mount options of `/tmp`. They allow execution because programs are built and run there.
    #[must_use]
    pub fn tmpfs(&self) -> HashMap<String, String> {
        let options = format!("rw,exec,nosuid,nodev,size={},mode=1777", self.tmp_bytes);
        HashMap::from([("/tmp".to_owned(), options)])
    }

    /// Returns the request body that creates the container.
    #[must_use]
    pub fn body(&self) -> ContainerCreateBody {
        let host_config = HostConfig {
            runtime: self.runtime.clone(),
            privileged: Some(false),
            pids_limit: Some(self.pids),
            memory: Some(self.memory),
            // A swap limit equal to the memory limit means no swap.
            memory_swap: Some(self.memory),
            nano_cpus: Some(self.nano_cpus),
            ulimits: Some(ulimits(self.open_files)),
            tmpfs: Some(self.tmpfs()),
            mounts: Some(self.mounts.iter().map(|mount| mount.body(&self.home)).collect()),
            // The helper itself is the init process.
            init: Some(false),
            // A check container is gone when its helper ends.
            auto_remove: self.check.as_ref().map(|_| true),
            ..confined_host_config()
        };
        ContainerCreateBody {
            hostname: Some(self.check.as_ref().map_or_else(|| self.agent.clone(), |_| "check".to_owned())),
            user: Some(self.user.clone()),
            image: Some(self.image.clone()),
            entrypoint: Some(vec![HELPER_TARGET.to_owned()]),
            cmd: Some(Vec::new()),
            working_dir: Some(WORKSPACE_TARGET.to_owned()),
            labels: Some(self.labels()),
            tty: Some(false),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            // The helper's frames use standard input and output only.
            attach_stderr: Some(false),
            open_stdin: Some(true),
            // With `true`, a second attach after the first connection is closed never gets an answer. A check is attached
            // to only once, and its container ends with the process that made it.
            stdin_once: Some(self.check.is_some()),
            // SIGKILL is enough, because the helper has no state to save.
            stop_signal: Some("SIGKILL".to_owned()),
            network_disabled: Some(false),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        }
    }
}

/// Returns the part of the host configuration that all of flock's containers share: no network, a read-only root, no
/// capabilities and no way to new privileges, no log and no restart.
pub(crate) fn confined_host_config() -> HostConfig {
    HostConfig {
        // There is no network interface besides loopback. Attached streams are the only way out.
        network_mode: Some("none".to_owned()),
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security_options()),
        ipc_mode: Some("private".to_owned()),
        // A log driver would copy everything that a command prints to the host's disk.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        // flock attaches to a container and checks it right after the start. The engine must not start one alone.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        ..HostConfig::default()
    }
}

pub(crate) fn security_options() -> Vec<String> {
    vec!["no-new-privileges".to_owned(), seccomp::option()]
}

/// Returns the limits of a process: on its open files, and no core dumps, which would fill the workspace.
pub(crate) fn ulimits(open_files: i64) -> Vec<ResourcesUlimits> {
    let limit = |name: &str, value| ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(value),
        hard: Some(value),
    };
    vec![limit("nofile", open_files), limit("core", 0)]
}

/// Returns the first of the things that only this machine has.
fn only_here(host: &HostFacts) -> Option<&'static str> {
    if !host.fittings.is_empty() {
        return Some("the files of an agent program");
    }
    if !host.projects.is_empty() {
        return Some("a project");
    }
    (!host.mounts.approved.is_empty()).then_some("an approved mount")
}

/// Returns what changes when a mounted file or folder is replaced by another one of the same name.
fn seen_parts(host: &HostFacts) -> Vec<(u64, i64)> {
    let programs = host.fittings.iter().filter_map(ProgramMount::seen);
    programs.chain(host.projects.iter().map(ProjectMount::seen)).collect()
}

impl MountSpec {
    /// Returns the mount of a file or folder of the host.
    pub(super) fn path(target: impl Into<String>, source: impl Into<PathBuf>, writable: bool) -> Self {
        Self { target: target.into(), source: MountSource::Path(source.into()), writable }
    }

    /// Returns the mount of a volume of the engine.
    pub(super) fn volume(target: impl Into<String>, name: impl Into<String>, writable: bool) -> Self {
        Self { target: target.into(), source: MountSource::Volume(name.into()), writable }
    }

    /// Returns the mount as the engine takes it.
    pub(super) fn body(&self, home: &str) -> Mount {
        // A read-only bind does not make the mounts below it read-only. An approved folder and a project's are therefore
        // mounted non-recursively: file systems mounted below them are not visible.
        let target = Path::new(&self.target);
        let approved = [mount::MOUNTS_TARGET, PROJECTS_TARGET].iter().any(|above| target.starts_with(above));
        let bind_options = approved.then(|| MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            non_recursive: Some(true),
            ..MountBindOptions::default()
        });
        let (typ, source, volume_options) = match &self.source {
            MountSource::Path(path) => (MountType::BIND, path.to_string_lossy().into_owned(), None),
            MountSource::Volume(name) => {
                let labels = HashMap::from([(names::LABEL_HOME.to_owned(), home.to_owned())]);
                let options = MountVolumeOptions {
                    // The store is filled by its own container, never with files of a sandbox's image.
                    no_copy: Some(true),
                    labels: Some(labels),
                    ..MountVolumeOptions::default()
                };
                (MountType::VOLUME, name.clone(), Some(options))
            }
        };
        Mount {
            target: Some(self.target.clone()),
            source: Some(source),
            typ: Some(typ),
            read_only: Some(!self.writable),
            bind_options,
            volume_options,
            ..Mount::default()
        }
    }
}

/// Checks the agent's docker settings.
///
/// # Errors
///
/// Returns a description of the first setting, network or bind that no sandbox may have. The text completes "may not
/// have …".
pub(crate) fn check_settings(home: &Home, agent: &Agent, engine_socket: Option<&Path>) -> Result<(), String> {
    if let Some(key) = agent.docker.refused.first() {
        return Err(format!("the setting {key:?}"));
    }
    if let Some(network) = agent.docker.network.as_deref().filter(|network| *network != "none") {
        return Err(format!("the network {network:?}"));
    }
    agent.docker.binds.iter().try_for_each(|bind| binds::check(home, bind, engine_socket, binds::resolve))
}

/// Checks that an agent may have a sandbox with its configuration, as far as this is known without an engine.
///
/// # Errors
///
/// Returns [`SandboxError::Refused`] for a setting, a bind or a workspace that no sandbox may have.
pub(crate) fn check(home: &Home, agent: &Agent, engine_socket: Option<&Path>) -> Result<(), SandboxError> {
    let refused = |what: String| SandboxError::Refused { agent: agent.id.clone(), what, granted: false };
    check_settings(home, agent, engine_socket).map_err(refused)?;
    match binds::resolve(&agent.workspace) {
        Some(workspace) => check_workspace(home, agent, &workspace.path, engine_socket),
        // A missing workspace is created together with the sandbox.
        None => Ok(()),
    }
}

/// Checks that a folder may be the agent's workspace. It must be the agent's own folder below `workspaces/`, or a
/// folder outside the home that exposes nothing of the system. `path` must have all symbolic links resolved.
///
/// # Errors
///
/// Returns [`SandboxError::Refused`] if the folder belongs to another agent, or if [`binds::forbidden`] rejects it.
pub(crate) fn check_workspace(
    home: &Home,
    agent: &Agent,
    path: &Path,
    engine_socket: Option<&Path>,
) -> Result<(), SandboxError> {
    let server = agent.id.mcp_server().and_then(|server| server.parse().ok());
    let why = if let Some(server) = server {
        (path != home.mcp_workspace(&server)).then_some("it is not the server's own")
    } else if agent.id.is_nobody() {
        // The trial of an engine.
        (path != agent.workspace || !path.starts_with(home.engine_trials()))
            .then_some("it is not the trial's own")
    } else if path.starts_with(home.workspaces()) {
        (path != home.workspace(&agent.id)).then_some("it is another agent's")
    } else {
        // Any other place inside the home is refused by `forbidden`.
        let resolved = binds::ResolvedPath { path: path.to_owned(), is_socket: false };
        binds::forbidden(home, &resolved, engine_socket)
    };
    match why {
        None => Ok(()),
        Some(why) => {
            let what = format!("the workspace {}: {why}", path.display());
            Err(SandboxError::Refused { agent: agent.id.clone(), what, granted: false })
        }
    }
}

/// Version of the settings hard-coded in [`ContainerSpec::body`]. Increase it when that function changes.
const BODY_VERSION: u32 = 2;

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
