//! The store's container, which is the only writer of the volume. It has no network and runs no build and nothing that
//! an agent chose. New paths come from throw-away containers and are checked before they are taken over. Nothing
//! listens in it: Nix is run by the engine's exec, so there is no daemon socket that a sandbox could reach through the
//! shared volume.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, ContainerStateStatusEnum, HostConfig, Mount, MountType, MountVolumeOptions,
};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::NixError;
use super::container::Volumes;
use super::substituter::TRUSTED_KEYS;
use crate::home::Home;
use crate::sandbox::containers::OwnContainer;
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::egress::{Dialer, SystemDialer};
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::exec::{self, EngineExec};
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::{CommandExit, CommandOutcome, SandboxError, containers, names, spec};

/// Folder of the agents' profiles.
pub(crate) const PROFILES: &str = "/nix/var/nix/profiles/per-agent";
/// Folder of the builds in the store's container, with one subfolder per build.
pub(super) const BUILDS: &str = "/build";
/// Folder of the links that keep parts of an unfinished request from being collected.
pub(super) const GC_ROOTS: &str = "/nix/var/nix/gcroots/flock";

/// The Nix store of one home.
pub struct PackageStore {
    pub(super) home: Home,
    pub(super) config: ConfigSource,
    pub(super) engine: Arc<Engine>,
    /// Held while the container is created and while a profile is changed.
    pub(super) writing: tokio::sync::Mutex<()>,
    /// Limits the requests that are evaluated and built at once.
    pub(super) building: tokio::sync::Semaphore,
    /// The way to the internet for fetching packages.
    pub(super) dial: Arc<dyn Dialer>,
}

/// The state of the store at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// The container's name.
    pub container: String,
    /// The container's state, for example `running`, `exited` or `absent`.
    pub state: String,
    pub volume: String,
}

impl PackageStore {
    /// Creates the value without calling the engine.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, engine: Arc<Engine>) -> Self {
        Self {
            home,
            config,
            engine,
            writing: tokio::sync::Mutex::default(),
            building: tokio::sync::Semaphore::new(MAX_BUILDS),
            dial: Arc::new(SystemDialer::default()),
        }
    }

    /// Replaces the way to the internet, which is this machine's own network by default.
    #[must_use]
    pub fn with_dial(self, dial: Arc<dyn Dialer>) -> Self {
        Self { dial, ..self }
    }

    /// Makes sure that the container exists and runs, and initialises the store on a new volume.
    ///
    /// # Errors
    ///
    /// Fails if the engine or the image is missing, or if the store cannot be initialised.
    pub async fn ensure(&self) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        self.sweep(&container).await?;
        let configured = (self.config)().nix_flake.clone();
        // If the folder cannot be pinned, the request for a package of it reports the error.
        if let Err(error) = super::pin::adopt(&self.home, configured.as_deref()) {
            tracing::warn!(error = %crate::error::chain(&error), "the package set can't be pinned");
        }
        Ok(())
    }

    /// Returns the pin of the home's package set. `None` if it is not pinned yet.
    ///
    /// # Errors
    ///
    /// Fails if the flake cannot be used or the record cannot be read.
    pub(crate) fn current_pin(&self) -> Result<Option<super::Pin>, NixError> {
        super::Pin::read(&self.home, (self.config)().nix_flake.as_deref())
    }

    /// Returns the current state of the store.
    pub async fn state(&self) -> Result<StoreStatus, SandboxError> {
        let container = names::store(&self.home);
        let found = containers::list(&self.engine, &self.home).await?;
        let state = found.into_iter().find(|found| found.name == container).map(|found| found.state);
        let volume = names::store_volume(&self.home);
        Ok(StoreStatus { container, state: state.unwrap_or_else(|| "absent".to_owned()), volume })
    }

    /// Returns the id of the store's image.
    pub(super) async fn image(&self) -> Result<String, NixError> {
        let reference = image::reference(&self.home, &(self.config)(), Recipe::Store);
        let found = image::id(&self.engine, &reference).await?;
        Ok(found.ok_or(SandboxError::NoImage { image: reference })?)
    }

    /// Returns the paths of the two volumes on the engine's machine.
    pub(super) async fn volumes(&self) -> Result<Volumes, NixError> {
        let client = self.engine.client()?;
        let place = async |volume: String| {
            let what = format!("inspect the volume {volume}");
            let found = self.engine.call(&what, engine::QUICK, client.inspect_volume(&volume)).await?;
            // The paths become options of an overlay mount, in which these characters have a meaning.
            let place = found.mountpoint;
            if place.contains([',', ':', '\\']) || !place.starts_with('/') {
                let source = "its folder can't be the lower layer of an overlay".into();
                return Err(NixError::Sandbox(SandboxError::Engine { what, source }));
            }
            Ok(place)
        };
        let (store, builds) =
            tokio::try_join!(place(names::store_volume(&self.home)), place(names::build_volume(&self.home)))?;
        Ok(Volumes { store, builds })
    }

    /// Runs a script as root in the running container, waits for its end and returns its output.
    pub(super) async fn script(
        &self,
        container: &str,
        what: &str,
        script: &str,
        limit: Duration,
    ) -> Result<String, NixError> {
        self.command(container, what, exec(script, limit), &CancellationToken::new(), &|_| {}).await
    }

    /// Runs a command as root in the running container. `what` completes "nix failed to …".
    pub(super) async fn command(
        &self,
        container: &str,
        what: &str,
        exec: EngineExec,
        cancel: &CancellationToken,
        watch: &(dyn Fn(&[u8]) + Send + Sync),
    ) -> Result<String, NixError> {
        let limit = exec.timeout;
        let exec = EngineExec {
            container: container.to_owned(),
            user: Some("0:0".to_owned()),
            workdir: Some("/".to_owned()),
            env: vec![
                format!("NIX_CONFIG={NIX_CONFIG}\n{TRUSTED_KEYS}\n{STORE_NIX_CONFIG}"),
                "HOME=/root".to_owned(),
                "NIX_REMOTE=local".to_owned(),
            ],
            // `EngineExec::default` would keep no output.
            keep: if exec.keep == 0 { MAX_OUTPUT } else { exec.keep },
            ..exec
        };
        let outcome = exec::run_with(&self.engine, &exec, cancel, watch).await?;
        let what = what.to_owned();
        match outcome.end {
            CommandExit::Exited(0) => Ok(outcome.output.text()),
            CommandExit::TimedOut => Err(NixError::TimedOut { what, limit }),
            CommandExit::Cancelled => Err(NixError::Cancelled { what }),
            CommandExit::Exited(_) | CommandExit::Signalled(_) => {
                Err(NixError::Nix { what, tail: tail(&outcome) })
            }
        }
    }

    /// Returns the id of the container, after creating and starting it if necessary. The caller must hold `writing`.
    pub(super) async fn running(&self) -> Result<String, NixError> {
        let name = names::store(&self.home);
        let config = (self.config)();
        let reference = image::reference(&self.home, &config, Recipe::Store);
        let own = containers::find_own(&self.engine, &self.home, &name);
        let (image, found) = tokio::try_join!(image::id(&self.engine, &reference), own)?;
        let image = image.ok_or(SandboxError::NoImage { image: reference })?;
        let body = self.body(&image);
        let hash = hash(&body);
        let id = match found {
            Some(OwnContainer { id, spec, state: Some(ContainerStateStatusEnum::RUNNING) })
                if spec == hash =>
            {
                return Ok(id);
            }
            Some(OwnContainer {
                id,
                spec,
                state: Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::EXITED),
            }) if spec == hash => id,
            found => {
                // The container has another specification, or a state from which it cannot be started.
                if let Some(found) = found {
                    containers::remove(&self.engine, &found.id).await?;
                }
                // The labels contain the hash, so they are added after it was computed.
                let labels = HashMap::from([
                    (names::LABEL_HOME.to_owned(), names::owner(&self.home)),
                    (names::LABEL_SPEC.to_owned(), hash),
                ]);
                let body = ContainerCreateBody { labels: Some(labels), ..body };
                containers::create(&self.engine, &name, body).await?
            }
        };
        containers::start(&self.engine, &id).await?;
        // Initialising an existing store again changes nothing, so it is done after each start.
        self.script(&id, "make the store", INIT_SCRIPT, Duration::from_secs(120)).await?;
        Ok(id)
    }

    /// Returns the specification of the container. It runs as root, because root owns the store, but only with the
    /// capabilities that file operations need. It has no network and nothing of the host.
    fn body(&self, image: &str) -> ContainerCreateBody {
        let owner = HashMap::from([(names::LABEL_HOME.to_owned(), names::owner(&self.home))]);
        let volume = |target: &str, source: String, no_copy: bool| Mount {
            target: Some(target.to_owned()),
            source: Some(source),
            typ: Some(MountType::VOLUME),
            read_only: Some(false),
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(no_copy),
                labels: Some(owner.clone()),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        };
        let mounts = vec![
            // An image with a store of its own fills a new volume with it.
            volume("/nix", names::store_volume(&self.home), false),
            volume(BUILDS, names::build_volume(&self.home), true),
        ];
        let memory = |size: &str| format!("rw,nosuid,nodev,noexec,size={size},mode=1777");
        let tmpfs = [("/tmp", memory("256m")), ("/root", memory("64m"))];
        ContainerCreateBody {
            hostname: Some("flock-nix".to_owned()),
            user: Some("0:0".to_owned()),
            image: Some(image.to_owned()),
            entrypoint: Some(shell(WAIT_SCRIPT)),
            cmd: Some(Vec::new()),
            stop_signal: Some("SIGKILL".to_owned()),
            host_config: Some(HostConfig {
                mounts: Some(mounts),
                tmpfs: Some(tmpfs.map(|(target, options)| (target.to_owned(), options)).into()),
                memory: Some(MEMORY),
                memory_swap: Some(MEMORY),
                cap_add: Some(["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"].map(str::to_owned).to_vec()),
                pids_limit: Some(512),
                ..spec::confined_host_config()
            }),
            ..ContainerCreateBody::default()
        }
    }
}

/// Returns the hash of the container's specification.
fn hash(body: &ContainerCreateBody) -> String {
    // The maps have no fixed order, and this build of serde_json keeps the order it is given. Sort them, so that the
    // hash is stable.
    let mut value = serde_json::to_value(body).unwrap_or_default();
    value.sort_all_objects();
    let text = value.to_string();
    crate::id::hex(&Sha256::digest(text))
}

pub(super) fn shell(script: &str) -> Vec<String> {
    vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()]
}

/// Returns the run of a shell script with a time limit.
pub(super) fn exec(script: &str, timeout: Duration) -> EngineExec {
    EngineExec { command: shell(script), timeout, ..EngineExec::default() }
}

/// Runs blocking work on a thread of its own.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NixError> + Send + 'static,
) -> Result<T, NixError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| NixError::Lost { reason: error.to_string() })?
}

/// Returns the last lines of an output, for an error message.
pub(super) fn tail(outcome: &CommandOutcome) -> String {
    let end = if outcome.output.tail.is_empty() { &outcome.output.head } else { &outcome.output.tail };
    let text = String::from_utf8_lossy(end);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(6)..].join("; ");
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let clean: String = last.chars().map(printable).collect();
    match clean.char_indices().rev().nth(1500) {
        Some((at, _)) => clean[at..].to_owned(),
        None if clean.is_empty() => "it gave no output".to_owned(),
        None => clean,
    }
}

const MAX_OUTPUT: usize = 256 << 10;

/// Limit on requests that are evaluated and built at once. The others wait.
const MAX_BUILDS: usize = 2;

/// Memory limit of the store's container in bytes.
const MEMORY: i64 = 2 << 30;

/// Settings for every version of Nix from 2.4 on. Nix's own sandbox is off, because it needs a user namespace, which
/// the containers refuse. The container confines a build instead. A flake can reach only inputs that it names, and
/// nothing is built during an evaluation.
pub(super) const NIX_CONFIG: &str = "\
experimental-features = nix-command flakes
build-users-group =
sandbox = false
filter-syscalls = false
accept-flake-config = false
flake-registry =
allow-import-from-derivation = false
require-sigs = true
warn-dirty = false";

/// Additional settings of the store's container, which fetches and builds nothing. Garbage collection keeps profiles
/// and requests in progress: the derivations of a request with all of their outputs.
const STORE_NIX_CONFIG: &str = "\
substituters =
max-jobs = 0
keep-derivations = false
keep-outputs = true";

/// The container's main command. It waits and reaps children.
const WAIT_SCRIPT: &str = "while :; do sleep 3600 & wait $!; done";

/// Initialises the store. It also removes what an interrupted collection left.
const INIT_SCRIPT: &str = "set -e; rm -rf /nix/var/nix/gc-socket /tmp/flake.*; mkdir -p /nix/store /nix/var/nix/profiles/per-agent /nix/var/nix/gcroots/flock /nix/var/flock; nix-store --init";
