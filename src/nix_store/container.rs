//! The throw-away container in which a package is evaluated, fetched or built. Its user is neither an agent's nor the
//! store's. It has no capabilities, no network interface, limits, and a read-only root. It sees the store below an
//! overlay: its writes go to a folder of its own, and it can change neither the store nor a profile.
//!
//! The container ends with the process that made it. The engine closes its standard input when nobody is attached any
//! more, the helper inside then ends, and the engine removes the container with its overlay.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, HostConfig, Mount, MountPoint, MountType,
    MountVolumeOptions, MountVolumeOptionsDriverConfig,
};
use tokio_util::sync::CancellationToken;

use super::NixError;
use super::store::NIX_CONFIG;
use crate::home::Home;
use crate::sandbox::docker::{attach, install_helper};
use crate::sandbox::egress::{self, Proxy};
use crate::sandbox::engine::Engine;
use crate::sandbox::helper::{Environment, HelperClient, HelperError, ProbeExpectations};
use crate::sandbox::spec::{self, HELPER_TARGET};
use crate::sandbox::{Command, CommandExit, SandboxError, containers, image, load, names};

/// User and group id of builds. It is neither root nor the user of any sandbox.
const BUILD_UID: u32 = 30_001;
// Used instead if flock itself runs as `BUILD_UID`.
const FALLBACK_UID: u32 = 30_002;
/// Memory limit in bytes. There is no swap beyond it.
pub const MEMORY: i64 = 4 << 30;
/// Limit on processor cores.
pub(crate) const CORES: u64 = 2;
/// Limit on processes.
pub const PIDS: i64 = 1024;
/// Limit on disk space in KiB.
pub(crate) const DISK_KIB: u64 = 16 << 20;
/// Folder with flock's own files, below the store that the container sees.
pub const FILES: &str = ".flock";
/// Writable folders in the container besides `/tmp` and `/workspace`, which are in memory.
const WRITABLE: [&str; 2] = ["/nix/store", "/nix/var"];
const OPEN_FILES: i64 = 4096;

/// Returns the user id that builds run as.
#[must_use]
pub fn user() -> u32 {
    if crate::sandbox::workspace::process_user().uid == BUILD_UID { FALLBACK_UID } else { BUILD_UID }
}

/// The properties of a build container.
pub(super) struct BuildSpec<'a> {
    pub home: &'a Home,
    /// The request's id and a number, for example `5f3a90c1-2`.
    pub id: String,
    /// The id of the store's image.
    pub image: String,
    /// Paths of the store's volume and of the volume for builds.
    pub volumes: &'a Volumes,
    /// The way to public hosts, or `None` if the container has none.
    pub proxy: Option<Arc<Proxy>>,
    /// Settings of Nix in addition to those that always apply.
    pub settings: String,
}

/// Folders on the machine that runs the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volumes {
    pub store: String,
    pub builds: String,
}

/// A running build container. Dropping it removes it.
pub(super) struct BuildContainer {
    client: HelperClient,
    removal: containers::RemoveOnDrop,
}

impl BuildContainer {
    /// Creates the container without starting it.
    pub async fn create(engine: &Engine, plan: &BuildSpec<'_>) -> Result<(), NixError> {
        let body = if engine.is_remote() {
            // Nothing of this machine can be mounted there.
            let image = Box::pin(image::with_helper(engine, plan.home, &plan.image)).await?;
            ContainerCreateBody { image: Some(image), ..body(plan, None) }
        } else {
            let helpers = plan.home.helpers();
            let helper =
                tokio::task::spawn_blocking(move || install_helper(&helpers)).await.map_err(|error| {
                    SandboxError::Host { path: plan.home.helpers(), source: std::io::Error::other(error) }
                })??;
            body(plan, Some(helper.to_string_lossy().into_owned()))
        };
        let name = names::build(plan.home, &plan.id);
        containers::create(engine, &name, body).await?;
        Ok(())
    }

    /// Starts the container, compares the engine's description of it with the plan, and probes it from inside.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::NotConfined`] if the description differs or the probe finds something open, and
    /// [`NixError::Lost`] if the helper inside does not answer. After a failure the container is removed.
    pub async fn start(engine: &Arc<Engine>, plan: &BuildSpec<'_>) -> Result<Self, NixError> {
        let name = names::build(plan.home, &plan.id);
        let removal = containers::RemoveOnDrop { engine: Arc::clone(engine), name: Some(name.clone()) };
        let client = engine.client()?;
        let (streams, started) = tokio::join!(attach(&client, &name), containers::start(engine, &name));
        started?;
        let (reader, writer) = streams.map_err(|error| engine.error("attach", error))?;
        let entrance = plan.proxy.clone().map(egress::entrance);
        let (helper, found) = tokio::join!(
            HelperClient::attach(reader, writer, entrance),
            containers::described(engine, &name)
        );
        let helper = helper.map_err(|error| lost_error(&error))?;
        let found = found?;
        let mut findings = differences(plan, &found, engine.is_remote());
        let report = helper.probe(&[]).await.map_err(|error| lost_error(&error))?;
        // A runtime with its own kernel may show no seccomp filter. Every other one must.
        let kernel = engine.kernel().await?;
        findings.extend(report.findings(&ProbeExpectations {
            writable: &WRITABLE,
            kernel: Some(&kernel),
            ..ProbeExpectations::default()
        }));
        if let Some(finding) = findings.into_iter().next() {
            return Err(NixError::NotConfined { finding });
        }
        Ok(Self { client: helper.with_environment(environment(plan)), removal })
    }

    /// Runs a script, waits for its end and returns its output. `what` completes "nix failed to …".
    ///
    /// # Errors
    ///
    /// Returns [`NixError::Nix`] with the end of the output if the script fails, [`NixError::TimedOut`] at the
    /// deadline, [`NixError::Cancelled`] if `cancel` fires, and [`NixError::Lost`] if the container is gone.
    pub async fn run(
        &self,
        what: &str,
        script: String,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<String, NixError> {
        // The deadline is that of the whole request, so each step gets only the time that is left.
        let limit = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let command = Command {
            command: script,
            workdir: Some(format!("/nix/store/{FILES}")),
            env: Vec::new(),
            timeout: Some(limit),
            keep: MAX_OUTPUT,
        };
        let outcome = self.client.run(&command, cancel).await.map_err(|error| lost_error(&error))?;
        let what = what.to_owned();
        match outcome.end {
            CommandExit::Exited(0) => Ok(outcome.output.text()),
            CommandExit::TimedOut => Err(NixError::TimedOut { what, limit: super::profile::LONG }),
            CommandExit::Cancelled => Err(NixError::Cancelled { what }),
            CommandExit::Exited(_) | CommandExit::Signalled(_) => {
                Err(NixError::Nix { what, tail: super::store::tail(&outcome) })
            }
        }
    }

    /// Returns the bytes of memory that the container uses, or `None` if it does not run any more.
    pub(super) async fn memory(&self) -> Result<Option<u64>, SandboxError> {
        match &self.removal.name {
            Some(name) => load::memory_of(&self.removal.engine, name).await,
            None => Ok(None),
        }
    }

    /// Removes the container with every process in it. The files that it wrote remain, and nothing can change them any
    /// more.
    pub async fn remove(mut self) -> Result<(), NixError> {
        // The engine may be removing it already, because it is created with `auto_remove`.
        if let Some(name) = self.removal.name.take() {
            containers::remove(&self.removal.engine, &name).await?;
        }
        Ok(())
    }
}

fn lost_error(error: &HelperError) -> NixError {
    NixError::Lost { reason: error.to_string() }
}

fn environment(plan: &BuildSpec<'_>) -> Environment {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut variables = vec![
        variable("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        variable("HOME", "/workspace"),
        variable("USER", "build"),
        variable("LC_ALL", "C.UTF-8"),
        variable("NIX_REMOTE", "local"),
        variable("NIX_CONFIG", &format!("{NIX_CONFIG}\n{}", plan.settings)),
        // On disk, because the memory has no room for unpacked sources.
        variable("TMPDIR", &format!("/nix/store/{FILES}/tmp")),
    ];
    if plan.proxy.is_some() {
        variables.extend(egress::environment());
    }
    Environment { root: "/workspace".to_owned(), variables }
}

/// Returns the options of the folders that are in memory.
fn tmpfs() -> HashMap<String, String> {
    let user = user();
    // The owner is set, because the mode of a folder in the image overrides the mode given here.
    let own = format!("rw,noexec,nosuid,nodev,size={},uid={user},gid={user},mode=755", MEMORY / 8);
    HashMap::from([
        ("/tmp".to_owned(), format!("rw,exec,nosuid,nodev,size={},mode=1777", MEMORY / 4)),
        ("/workspace".to_owned(), own.clone()),
        ("/nix/var".to_owned(), own),
    ])
}

fn nano_cpus() -> i64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    i64::try_from(CORES.min(cores) * 1_000_000_000).unwrap_or(i64::MAX)
}

/// Returns the number of cores that a build may use.
pub(super) fn cores() -> i64 {
    nano_cpus() / 1_000_000_000
}

fn body(plan: &BuildSpec<'_>, helper: Option<String>) -> ContainerCreateBody {
    let owner = names::owner(plan.home);
    let Volumes { store, builds } = plan.volumes;
    let folder = format!("{builds}/{}", plan.id);
    // Without redirects and metadata-only copies each file in the upper folder is complete by itself.
    let layers = format!(
        "lowerdir={store}/store,upperdir={folder}/upper,workdir={folder}/work,redirect_dir=off,metacopy=off"
    );
    let options = [("type", "overlay"), ("device", "overlay"), ("o", &layers)];
    // An anonymous volume, which the engine removes together with the container.
    let overlay = Mount {
        target: Some("/nix/store".to_owned()),
        typ: Some(MountType::VOLUME),
        read_only: Some(false),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            labels: Some(HashMap::from([(names::LABEL_HOME.to_owned(), owner.clone())])),
            driver_config: Some(MountVolumeOptionsDriverConfig {
                name: Some("local".to_owned()),
                options: Some(
                    options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
                ),
            }),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    };
    // Without a path it is in the image.
    let helper = helper.map(|path| Mount {
        target: Some(HELPER_TARGET.to_owned()),
        source: Some(path),
        typ: Some(MountType::BIND),
        read_only: Some(true),
        ..Mount::default()
    });
    let user = user();
    ContainerCreateBody {
        hostname: Some("build".to_owned()),
        user: Some(format!("{user}:{user}")),
        image: Some(plan.image.clone()),
        entrypoint: Some(vec![HELPER_TARGET.to_owned()]),
        cmd: Some(Vec::new()),
        working_dir: Some("/workspace".to_owned()),
        labels: Some(HashMap::from([
            (names::LABEL_HOME.to_owned(), owner),
            (names::LABEL_BUILD.to_owned(), plan.id.clone()),
        ])),
        tty: Some(false),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(false),
        open_stdin: Some(true),
        // Standard input closes when the attached process goes away, for whatever reason. Then the helper ends, too.
        stdin_once: Some(true),
        stop_signal: Some("SIGKILL".to_owned()),
        host_config: Some(HostConfig {
            privileged: Some(false),
            pids_limit: Some(PIDS),
            memory: Some(MEMORY),
            memory_swap: Some(MEMORY),
            nano_cpus: Some(nano_cpus()),
            // If memory runs out, the kernel kills this container before other processes of the machine.
            oom_score_adj: Some(500),
            ulimits: Some(spec::ulimits(OPEN_FILES)),
            tmpfs: Some(tmpfs()),
            mounts: Some(std::iter::once(overlay).chain(helper).collect()),
            // The engine removes the container and its overlay when the helper has ended.
            auto_remove: Some(true),
            init: Some(false),
            // Even with a proxy there is no interface. Connections go through the helper's streams.
            ..spec::confined_host_config()
        }),
        ..ContainerCreateBody::default()
    }
}

/// Returns the differences between the engine's description of a container and the plan.
fn differences<'f>(
    plan: &BuildSpec<'_>,
    found: &'f ContainerInspectResponse,
    is_remote: bool,
) -> Vec<String> {
    // The helper's path is left out, because mounts are compared by their targets only.
    let asked = body(plan, None);
    let mut findings = Vec::new();
    let mut check = |what: &str, holds: bool| {
        if !holds {
            findings.push(format!("{what} differs from what was asked for"));
        }
    };
    let config = found.config.clone().unwrap_or_default();
    check("user", config.user == asked.user);
    check("entrypoint", config.entrypoint == asked.entrypoint);
    let (Some(wanted), Some(host)) = (asked.host_config, &found.host_config) else {
        return vec!["its host configuration is not known".to_owned()];
    };
    check("network", host.network_mode == wanted.network_mode);
    check("privileged", host.privileged != Some(true));
    check("read-only root", host.readonly_rootfs == wanted.readonly_rootfs);
    check("dropped capabilities", host.cap_drop == wanted.cap_drop);
    check("security options", host.security_opt == wanted.security_opt);
    check("memory", host.memory == wanted.memory && host.memory_swap == wanted.memory_swap);
    check("processors", host.nano_cpus == wanted.nano_cpus);
    check("processes", host.pids_limit == wanted.pids_limit);
    check("tmpfs", host.tmpfs == wanted.tmpfs);
    let none = |list: Option<usize>| list.unwrap_or_default() == 0;
    check("added capabilities", none(host.cap_add.as_ref().map(Vec::len)));
    check("devices", none(host.devices.as_ref().map(Vec::len)));
    check("binds", none(host.binds.as_ref().map(Vec::len)));
    check("volumes of other containers", none(host.volumes_from.as_ref().map(Vec::len)));
    let in_memory = tmpfs();
    let place = |mount: &'f MountPoint| Some((mount.destination.as_deref()?, mount.rw == Some(true)));
    let places = found.mounts.iter().flatten().filter_map(place);
    let mut mounts: Vec<_> = places.filter(|(target, _)| !in_memory.contains_key(*target)).collect();
    mounts.sort_unstable();
    let helper = (!is_remote).then_some((HELPER_TARGET, false));
    let wanted: Vec<_> = helper.into_iter().chain([("/nix/store", true)]).collect();
    check("mounts", mounts == wanted);
    findings
}

/// Limit on the kept output of a script in bytes. It has room for the names of some thousand paths.
const MAX_OUTPUT: usize = 768 * 1024;
