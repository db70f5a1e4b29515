//! The store's container: the only writer of the volume. Nothing in it listens: Nix is run by the engine's
//! exec, so there is no daemon socket that a sandbox could reach through the volume it shares.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, ContainerStateStatusEnum, HostConfig, HostConfigLogConfig, Mount, MountType,
    MountVolumeOptions, RestartPolicy, RestartPolicyNameEnum,
};
use bollard::query_parameters::CreateContainerOptionsBuilder;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::NixError;
use crate::home::Home;
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::exec::{self, Exec};
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::{End, Outcome, SandboxError, inspect, names, owned, volumes};

/// Where the profiles of agents are.
pub const PROFILES: &str = "/nix/var/nix/profiles/per-agent";

/// The Nix store of one home.
pub struct Store {
    pub(super) home: Home,
    pub(super) config: ConfigSource,
    pub(super) engine: Arc<Engine>,
    /// Held while the container is made, and by whoever writes a profile.
    pub(super) writing: tokio::sync::Mutex<()>,
}

/// How the store is, from one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its container's name.
    pub container: String,
    /// As in `running`, `exited` or `absent`.
    pub state: String,
    /// The volume's name.
    pub volume: String,
}

impl Store {
    /// Touches nothing yet.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, engine: Arc<Engine>) -> Self {
        Self { home, config, engine, writing: tokio::sync::Mutex::default() }
    }

    /// Makes the container if it is not there, starts it if it does not run, and makes the store on a new
    /// volume.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says.
    pub async fn ensure(&self) -> Result<(), NixError> {
        let _writing = self.writing.lock().await;
        Box::pin(self.running()).await.map(drop)
    }

    /// How it is.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`].
    pub async fn state(&self) -> Result<State, SandboxError> {
        let container = names::store(&self.home);
        let found = owned::list(&self.engine, &self.home).await?;
        let state = found.into_iter().find(|found| found.name == container).map(|found| found.state);
        let volume = names::store_volume(&self.home);
        Ok(State { container, state: state.unwrap_or_else(|| "absent".to_owned()), volume })
    }

    /// Removes the container and the volume with all packages.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`]; a volume of this name that is not this home's is left alone.
    pub async fn remove(&self) -> Result<(), NixError> {
        let _writing = self.writing.lock().await;
        let name = names::store(&self.home);
        if let Some(id) = self.own_container(&name).await?.map(|(id, ..)| id) {
            owned::remove(&self.engine, &id).await?;
        }
        let client = self.engine.client()?;
        let volume = names::store_volume(&self.home);
        let what = format!("look at the volume {volume}");
        let found = self.engine.find(&what, engine::QUICK, client.inspect_volume(&volume)).await?;
        let Some(found) = found else { return Ok(()) };
        if found.labels.get(names::LABEL_HOME) != Some(&names::owner(&self.home)) {
            return Err(SandboxError::Foreign { name: volume }.into());
        }
        Ok(volumes::remove(&self.engine, &volume).await?)
    }

    /// Runs a command in the running container as its root. `what` completes "nix failed to …".
    pub(super) async fn command(
        &self,
        container: &str,
        what: &str,
        exec: Exec,
        cancel: &CancellationToken,
        watch: &(dyn Fn(&[u8]) + Send + Sync),
    ) -> Result<Outcome, NixError> {
        let limit = exec.timeout;
        let exec = Exec {
            container: container.to_owned(),
            user: Some("0:0".to_owned()),
            workdir: Some("/".to_owned()),
            env: vec![
                format!("NIX_CONFIG={NIX_CONFIG}"),
                "HOME=/root".to_owned(),
                "NIX_REMOTE=local".to_owned(),
            ],
            keep: KEEP,
            ..exec
        };
        let outcome = exec::run_with(&self.engine, &exec, cancel, watch).await?;
        let what = what.to_owned();
        match outcome.end {
            End::Exited(0) => Ok(outcome),
            End::TimedOut => Err(NixError::TimedOut { what, limit }),
            End::Cancelled => Err(NixError::Cancelled { what }),
            End::Exited(_) | End::Signalled(_) => Err(NixError::Nix { what, tail: tail(&outcome) }),
        }
    }

    /// The id of the container, which runs when this returns. Called by whoever holds `writing`.
    pub(super) async fn running(&self) -> Result<String, NixError> {
        let name = names::store(&self.home);
        let config = (self.config)();
        let reference = image::reference(&self.home, &config, Recipe::Store);
        let (image, found) =
            tokio::try_join!(image::id(&self.engine, &reference), self.own_container(&name))?;
        let image = image.ok_or(SandboxError::NoImage { image: reference })?;
        let body = self.body(&image);
        let hash = hash(&body);
        let client = self.engine.client()?;
        let id = match found {
            Some((id, spec, Some(ContainerStateStatusEnum::RUNNING))) if spec == hash => return Ok(id),
            Some((id, spec, Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::EXITED)))
                if spec == hash =>
            {
                id
            }
            found => {
                if let Some((id, ..)) = found {
                    owned::remove(&self.engine, &id).await?;
                }
                let labels = HashMap::from([
                    (names::LABEL_HOME.to_owned(), names::owner(&self.home)),
                    (names::LABEL_SPEC.to_owned(), hash),
                ]);
                let body = ContainerCreateBody { labels: Some(labels), ..body };
                let options = CreateContainerOptionsBuilder::default().name(&name).build();
                let what = format!("create {name}");
                let created = client.create_container(Some(options), body);
                self.engine.call(&what, engine::SLOW, created).await?.id
            }
        };
        let what = format!("start {name}");
        self.engine.call(&what, engine::SLOW, client.start_container(&id, None)).await?;
        let seed = Exec { command: shell(SEED), timeout: Duration::from_secs(120), ..Exec::default() };
        self.command(&id, "make the store", seed, &CancellationToken::new(), &|_| {}).await?;
        Ok(id)
    }

    /// Id, specification and state of the container, if there is one and it is this home's.
    async fn own_container(
        &self,
        name: &str,
    ) -> Result<Option<(String, String, Option<ContainerStateStatusEnum>)>, SandboxError> {
        let client = self.engine.client()?;
        let what = format!("look at {name}");
        let found = self.engine.find(&what, engine::QUICK, client.inspect_container(name, None)).await?;
        let Some(found) = found else { return Ok(None) };
        let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
        match inspect::spec_hash(&names::owner(&self.home), &labels) {
            Some(hash) => {
                let state = found.state.and_then(|state| state.status);
                Ok(Some((found.id.unwrap_or_else(|| name.to_owned()), hash.to_owned(), state)))
            }
            None => Err(SandboxError::Foreign { name: name.to_owned() }),
        }
    }

    /// Root, since it owns the store, but with no more than what files need; a network, since packages come
    /// over it; nothing of the host.
    fn body(&self, image: &str) -> ContainerCreateBody {
        let owner = HashMap::from([(names::LABEL_HOME.to_owned(), names::owner(&self.home))]);
        let volume = Mount {
            target: Some("/nix".to_owned()),
            source: Some(names::store_volume(&self.home)),
            typ: Some(MountType::VOLUME),
            read_only: Some(false),
            // An image that has a store of its own fills a new volume with it.
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(false),
                labels: Some(owner),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        };
        ContainerCreateBody {
            hostname: Some("flock-nix".to_owned()),
            user: Some("0:0".to_owned()),
            image: Some(image.to_owned()),
            entrypoint: Some(shell(WAIT)),
            cmd: Some(Vec::new()),
            stop_signal: Some("SIGKILL".to_owned()),
            host_config: Some(HostConfig {
                mounts: Some(vec![volume]),
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"].map(str::to_owned).to_vec()),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                pids_limit: Some(2048),
                log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
                restart_policy: Some(RestartPolicy {
                    name: Some(RestartPolicyNameEnum::NO),
                    maximum_retry_count: None,
                }),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }
}

/// The hash of what the container is made from.
fn hash(body: &ContainerCreateBody) -> String {
    // The engine's tables have no order of their own, and a value of this build keeps what it is given.
    let mut value = serde_json::to_value(body).unwrap_or_default();
    value.sort_all_objects();
    let text = value.to_string();
    crate::id::hex(&Sha256::digest(text))
}

pub(super) fn shell(script: &str) -> Vec<String> {
    vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()]
}

/// The end of an output: the last lines, for an error.
fn tail(outcome: &Outcome) -> String {
    let end = if outcome.output.tail.is_empty() { &outcome.output.head } else { &outcome.output.tail };
    let text = String::from_utf8_lossy(end);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(6)..].join("; ");
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let clean: String = last.chars().map(printable).collect();
    match clean.char_indices().rev().nth(1500) {
        Some((at, _)) => clean[at..].to_owned(),
        None if clean.is_empty() => "it said nothing".to_owned(),
        None => clean,
    }
}

const KEEP: usize = 256 << 10;

/// Settings for every Nix from 2.4 on. Builds run without users and namespaces of their own: the container
/// is their fence, and it has no right to make either.
const NIX_CONFIG: &str = "\
experimental-features = nix-command flakes
build-users-group =
sandbox = false
filter-syscalls = false
accept-flake-config = false
warn-dirty = false";

/// Waits, and reaps what builds leave behind.
const WAIT: &str = "while :; do sleep 3600 & wait $!; done";

/// What an interrupted collection left is removed, too.
const SEED: &str = "set -e; rm -rf /nix/var/nix/gc-socket; mkdir -p /nix/var/nix/profiles/per-agent /nix/var/nix/gcroots; nix-store --init";
