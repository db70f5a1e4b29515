//! What an agent's container is, as an allow-list: nothing that is not a field here can be asked of the
//! engine. The same agent, image and files always give the same specification and so the same hash.

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
use crate::sandbox::binds::{self, Decision};
use crate::sandbox::fitting::Fitting;
use crate::sandbox::mount::{self, Mounts};
use crate::sandbox::{SandboxError, names, seccomp};

/// Where the helper is in the sandbox.
pub const HELPER_TARGET: &str = "/flock-helper";
/// Where the workspace is in the sandbox.
pub const WORKSPACE_TARGET: &str = "/workspace";
/// The files that say who an agent is; it can read them and not change them.
pub const IDENTITY_FILES: [&str; 5] = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md"];

/// The most memory in bytes where the configuration says nothing.
const MEMORY: u64 = 2 << 30;
/// The most thousandths of a core where it says nothing.
const CPU_MILLIS: u64 = 2000;
const TMP_BYTES: u64 = 512 << 20;
/// The most processes of a sandbox.
pub const PIDS: i64 = 256;
/// The most open files of a process.
pub const OPEN_FILES: i64 = 4096;

/// The most memory and `/tmp` of an agent's sandbox, in bytes, and its thousandths of a core.
#[must_use]
pub fn limits(agent: &Agent, cores: u64) -> (u64, u64, u64) {
    let memory = agent.docker.memory.unwrap_or(MEMORY);
    // The engine refuses a limit above what the machine has.
    let cpu_millis = agent.docker.cpu_millis.unwrap_or(CPU_MILLIS).min(cores.max(1) * 1000);
    (memory, TMP_BYTES.min(memory / 2), cpu_millis)
}

/// What the host knows beyond the configuration.
#[derive(Clone, Debug)]
pub struct Host {
    /// The image, as an id: a tag may come to mean another image.
    pub image: String,
    /// Who the sandbox runs as.
    pub user: User,
    /// The helper's program on the host.
    pub helper: PathBuf,
    /// The agent's workspace, with all links followed.
    pub workspace: PathBuf,
    /// The identity files, all of them.
    pub identity: Vec<IdentityFile>,
    /// Processor cores there are.
    pub cores: u64,
    /// The engine's socket, which no bind may reach.
    pub engine_socket: Option<PathBuf>,
    /// What of the host was approved for the agent.
    pub mounts: Mounts,
    /// What the program that runs its turns needs.
    pub fittings: Vec<Fitting>,
}

/// A user of the container: numbers, since the image need not know the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// An identity file as it is on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdentityFile {
    /// Its name in the workspace.
    pub name: String,
    /// Its inode: a file that was replaced is another one, and a mount stays on the old.
    pub inode: u64,
}

/// A container, complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerSpec {
    /// Its name.
    pub name: String,
    /// The home that owns it.
    pub home: String,
    /// Whose it is.
    pub agent: String,
    /// The image's id.
    pub image: String,
    /// `uid:gid`.
    pub user: String,
    /// The engine's name of the OCI runtime; its default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// All that is mounted, by target.
    pub mounts: Vec<MountSpec>,
    /// The identity files mounted over the workspace's own.
    pub identity: Vec<IdentityFile>,
    /// The inode and time of change of each part of a mounted program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(u64, i64)>,
    /// Memory limit in bytes; there is no swap beyond it.
    pub memory: i64,
    /// CPU limit in billionths of a core.
    pub nano_cpus: i64,
    /// The most processes.
    pub pids: i64,
    /// The most open files of a process.
    pub open_files: i64,
    /// The size of `/tmp` in bytes.
    pub tmp_bytes: u64,
}

/// Something mounted into a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MountSpec {
    /// Where in the container.
    pub target: String,
    /// What of the host.
    pub source: Source,
    /// Whether it may be written.
    pub writable: bool,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Source {
    /// A folder or file.
    Path(PathBuf),
    /// A volume.
    Volume(String),
}

impl ContainerSpec {
    /// The container of `agent`, a pure function of its arguments but for links that binds lead through.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Refused`] where the configuration asks for what no sandbox may have.
    pub fn build(home: &Home, agent: &Agent, host: &Host) -> Result<Self, SandboxError> {
        let refused = |what: String| SandboxError::Refused { agent: agent.id.clone(), what, granted: false };
        let binds = allowed(home, agent, host.engine_socket.as_deref()).map_err(refused)?;
        check_workspace(home, agent, &host.workspace, host.engine_socket.as_deref())?;
        let mut mounts = vec![
            MountSpec {
                target: HELPER_TARGET.to_owned(),
                source: Source::Path(host.helper.clone()),
                writable: false,
            },
            MountSpec {
                target: binds::STORE_TARGET.to_owned(),
                source: Source::Volume(names::store_volume(home)),
                writable: false,
            },
            MountSpec {
                target: WORKSPACE_TARGET.to_owned(),
                source: Source::Path(host.workspace.clone()),
                writable: true,
            },
        ];
        mounts.extend(host.identity.iter().map(|file| MountSpec {
            target: format!("{WORKSPACE_TARGET}/{}", file.name),
            source: Source::Path(agent.identity.join(&file.name)),
            writable: false,
        }));
        mounts.extend(binds);
        let engine_socket = host.engine_socket.as_deref();
        let granted = |what| SandboxError::Refused { agent: agent.id.clone(), what, granted: true };
        let approved = host.mounts.decide(home, engine_socket, binds::resolve).map_err(granted)?;
        mounts.extend(approved.into_iter().map(|(source, target)| MountSpec {
            target,
            source: Source::Path(source),
            writable: false,
        }));
        for fitting in &host.fittings {
            mounts.push(fitting.mount(home, engine_socket).map_err(refused)?);
        }
        mounts.sort();
        let (memory, tmp_bytes, cpu_millis) = limits(agent, host.cores);
        Ok(Self {
            name: names::sandbox(home, &agent.id),
            home: names::owner(home),
            agent: agent.id.to_string(),
            image: host.image.clone(),
            user: format!("{}:{}", host.user.uid, host.user.gid),
            runtime: agent.docker.runtime.clone(),
            mounts,
            identity: host.identity.clone(),
            parts: host.fittings.iter().filter_map(Fitting::seen).collect(),
            memory: i64::try_from(memory).unwrap_or(i64::MAX),
            nano_cpus: i64::try_from(cpu_millis.saturating_mul(1_000_000)).unwrap_or(i64::MAX),
            pids: PIDS,
            open_files: OPEN_FILES,
            tmp_bytes,
        })
    }

    /// The hash that tells whether a container was made from this specification.
    #[must_use]
    pub fn hash(&self) -> String {
        // Fields and mounts have a fixed order, so the text is canonical. The version takes in what is
        // fixed in `body` and so not a field.
        let text = serde_json::to_vec(&(BODY_VERSION, self, seccomp::profile())).unwrap_or_default();
        hex(&Sha256::digest(text))
    }

    /// The labels of the container.
    #[must_use]
    pub fn labels(&self) -> HashMap<String, String> {
        let mut labels = HashMap::from([
            (names::LABEL_HOME.to_owned(), self.home.clone()),
            (names::LABEL_AGENT.to_owned(), self.agent.clone()),
            (names::LABEL_SPEC.to_owned(), self.hash()),
        ]);
        labels.extend(self.runtime.iter().map(|name| (names::LABEL_RUNTIME.to_owned(), name.clone())));
        labels
    }

    /// The limits on a process.
    #[must_use]
    pub fn ulimits(&self) -> Vec<ResourcesUlimits> {
        let limit = |name: &str, value| ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(value),
            hard: Some(value),
        };
        vec![limit("nofile", self.open_files), limit("core", 0)]
    }

    /// The options of the container's security.
    #[must_use]
    pub fn security_options(&self) -> Vec<String> {
        vec!["no-new-privileges".to_owned(), seccomp::option()]
    }

    /// The options of `/tmp`. Programs are built and run there.
    #[must_use]
    pub fn tmpfs(&self) -> HashMap<String, String> {
        let options = format!("rw,exec,nosuid,nodev,size={},mode=1777", self.tmp_bytes);
        HashMap::from([("/tmp".to_owned(), options)])
    }

    /// What the engine is asked to create.
    #[must_use]
    pub fn body(&self) -> ContainerCreateBody {
        let host_config = HostConfig {
            network_mode: Some("none".to_owned()),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            runtime: self.runtime.clone(),
            security_opt: Some(self.security_options()),
            privileged: Some(false),
            ipc_mode: Some("private".to_owned()),
            pids_limit: Some(self.pids),
            memory: Some(self.memory),
            memory_swap: Some(self.memory),
            nano_cpus: Some(self.nano_cpus),
            ulimits: Some(self.ulimits()),
            tmpfs: Some(self.tmpfs()),
            mounts: Some(self.mounts.iter().map(|mount| mount.body(&self.home)).collect()),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            // Who starts a container also attaches to it and probes it: the engine must not do it alone.
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                maximum_retry_count: None,
            }),
            init: Some(false),
            ..HostConfig::default()
        };
        ContainerCreateBody {
            hostname: Some(self.agent.clone()),
            user: Some(self.user.clone()),
            image: Some(self.image.clone()),
            entrypoint: Some(vec![HELPER_TARGET.to_owned()]),
            cmd: Some(Vec::new()),
            working_dir: Some(WORKSPACE_TARGET.to_owned()),
            labels: Some(self.labels()),
            tty: Some(false),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(false),
            open_stdin: Some(true),
            // With `true` a second attach after the first one has gone never gets an answer.
            stdin_once: Some(false),
            stop_signal: Some("SIGKILL".to_owned()),
            network_disabled: Some(false),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        }
    }
}

impl MountSpec {
    fn body(&self, home: &str) -> Mount {
        // Read-only holds for a mount and not for those below it: of an approved folder there are none.
        let approved = Path::new(&self.target).starts_with(mount::TARGET);
        let bind_options = approved.then(|| MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            non_recursive: Some(true),
            ..MountBindOptions::default()
        });
        let (typ, source, volume_options) = match &self.source {
            Source::Path(path) => (MountType::BIND, path.to_string_lossy().into_owned(), None),
            Source::Volume(name) => {
                let labels = HashMap::from([(names::LABEL_HOME.to_owned(), home.to_owned())]);
                let options = MountVolumeOptions {
                    // The store is seeded by its own container, never from a sandbox's image.
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

/// What a person's docker settings of an agent add to its mounts; the store is not among them, every sandbox
/// has it.
///
/// # Errors
///
/// What of them no sandbox may have, whoever makes it; the text completes "may not have …".
pub fn allowed(home: &Home, agent: &Agent, engine_socket: Option<&Path>) -> Result<Vec<MountSpec>, String> {
    if let Some(key) = agent.docker.refused.first() {
        return Err(format!("the setting {key:?}"));
    }
    if let Some(network) = agent.docker.network.as_deref().filter(|network| *network != "none") {
        return Err(format!("the network {network:?}"));
    }
    let mut mounts = Vec::new();
    for bind in &agent.docker.binds {
        match binds::decide(home, bind, engine_socket, &[], binds::resolve) {
            Decision::Store => {}
            Decision::Host { source, target, writable } => {
                mounts.push(MountSpec { target, source: Source::Path(source), writable });
            }
            Decision::Refused(what) => return Err(what),
        }
    }
    Ok(mounts)
}

/// Whether an agent may have a sandbox as it is configured, as far as that can be told without an engine.
///
/// # Errors
///
/// [`SandboxError::Refused`] for a setting that no sandbox may have.
pub fn check(home: &Home, agent: &Agent, engine_socket: Option<&Path>) -> Result<(), SandboxError> {
    let refused = |what: String| SandboxError::Refused { agent: agent.id.clone(), what, granted: false };
    allowed(home, agent, engine_socket).map_err(refused)?;
    match binds::resolve(&agent.workspace) {
        Some(workspace) => check_workspace(home, agent, &workspace.path, engine_socket),
        // It is made with the sandbox.
        None => Ok(()),
    }
}

/// A workspace is the agent's own folder below `workspaces/`, or a folder outside the home that a person
/// configured and that gives away nothing of the system. `path` has all links followed.
///
/// # Errors
///
/// [`SandboxError::Refused`].
pub fn check_workspace(
    home: &Home,
    agent: &Agent,
    path: &Path,
    engine_socket: Option<&Path>,
) -> Result<(), SandboxError> {
    let why = if path.starts_with(home.workspaces()) {
        (path != home.workspace(&agent.id)).then_some("it is another agent's")
    } else {
        let resolved = binds::Resolved { path: path.to_owned(), is_socket: false };
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

/// Goes up when [`ContainerSpec::body`] changes what it asks for.
const BODY_VERSION: u32 = 2;

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
