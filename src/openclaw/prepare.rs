//! Collects the facts about the machine that [`mod@derive`](super::derive) needs, and runs all steps from a home to a
//! configuration that is in place.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::check::OpenClawProgram;
use super::derive::{DerivedConfig, MachineFacts, derive};
use super::place::ApplyOutcome;
use super::schema::ConfigSchema;
use super::{OpenClawError, agents, identity, place, plugin, port};
use crate::config::{Config, file};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::install::InstalledVersion;
use crate::sandbox::engine::{Engine, QUICK};
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::mount::{ApprovedMounts, Mounts};
use crate::sandbox::spec::SandboxUser;
use crate::sandbox::{names, workspace};

/// OpenClaw's configuration after it was put in place.
#[derive(Debug)]
pub(crate) struct PreparedConfig {
    /// The effect on the configuration file.
    pub put: ApplyOutcome,
    /// The version for which it was derived.
    pub version: InstalledVersion,
    pub port: u16,
    pub token: String,
    /// The secrets that OpenClaw's process needs in its environment, as variable and value.
    pub environment: Vec<(String, String)>,
}

impl From<&InstalledVersion> for OpenClawProgram {
    fn from(version: &InstalledVersion) -> Self {
        Self { node: version.node.clone(), entry: version.entry(), version: version.version.clone() }
    }
}

/// Derives OpenClaw's configuration from the home's current one and puts it in place for this version. Also gives each
/// agent's workspace to the user that runs the agent's sandbox.
///
/// # Errors
///
/// Returns [`OpenClawError`] if the configuration can't be read or derived, a workspace can't be prepared, or the
/// program rejects the result. The configuration that was in place before stays unchanged then.
pub(crate) async fn ready(
    home: &Home,
    engine: &Engine,
    approved: &ApprovedMounts,
    version: InstalledVersion,
) -> Result<PreparedConfig, OpenClawError> {
    let program = &OpenClawProgram::from(&version);
    // One caller at a time, from reading to writing. Otherwise the caller that read first could write last and bring
    // back settings that were changed meanwhile.
    let _one = acquire_lock(home, program).await?;
    let (_, document) = file::read_document(home)?;
    let config = file::read(home)?;
    let (facts, derived) = derived(home, &document, &config, engine, approved, program).await?;
    let environment = place::environment(home, &config, &derived.keys)?;
    let folders =
        agents(&config).filter_map(|agent| Some((agent.workspace.clone(), *facts.users.get(&agent.id)?)));
    let folders: Vec<(PathBuf, SandboxUser)> = folders.collect();
    // Changing the owner of a large workspace blocks, so it runs on a blocking thread.
    let owned =
        tokio::task::spawn_blocking(move || folders.iter().try_for_each(|(folder, user)| own(folder, *user)));
    owned.await.map_err(|error| OpenClawError::Unready(error.to_string()))??;
    let put = place::put(home, &derived, program).await?;
    Ok(PreparedConfig { put, version, port: facts.port, token: place::token(home)?, environment })
}

/// Waits for the lock that admits one caller at a time, up to [`LOCK_TIMEOUT`].
async fn acquire_lock(home: &Home, program: &OpenClawProgram) -> Result<Lock, OpenClawError> {
    let path = home.openclaw_versions().join("ready.lock");
    place::make_folders(home)?;
    let end = tokio::time::Instant::now() + LOCK_TIMEOUT;
    loop {
        match Lock::try_acquire(&path) {
            Ok(lock) => return Ok(lock),
            Err(HomeError::Held { .. }) if tokio::time::Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(HomeError::Held { .. }) => {
                let reason = "another command still asks it".to_owned();
                return Err(OpenClawError::Unchecked { version: program.version.clone(), reason });
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Time limit for another caller that holds the lock. On a slow machine, a version's first answer takes minutes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(240);

/// Returns the configuration that would be derived for this program, with the facts that went into it. Writes nothing
/// except which user each agent's sandbox has.
///
/// # Errors
///
/// Returns [`OpenClawError::NoPort`] if no port is free, [`OpenClawError::Unready`] if an agent's sandbox user can't be
/// determined, and [`OpenClawError::Refused`] if [`derive()`] refuses a setting.
pub(crate) async fn derived(
    home: &Home,
    document: &Value,
    config: &Config,
    engine: &Engine,
    approved: &ApprovedMounts,
    program: &OpenClawProgram,
) -> Result<(MachineFacts, DerivedConfig), OpenClawError> {
    let dialect = ConfigSchema::of(&program.version);
    // Asked only for versions that need it, because the answer takes a call of the engine.
    let store = if dialect.volumes { None } else { store(home, engine).await };
    let facts = MachineFacts {
        port: port::choose(config).ok_or(OpenClawError::NoPort)?,
        image: image::reference(home, config, Recipe::Sandbox),
        user: workspace::process_user(),
        users: agents(config)
            .map(|agent| {
                let user = workspace::sandbox_user(&agent.identity).map_err(failed);
                user.map(|user| (agent.id.clone(), user))
            })
            .collect::<Result<_, _>>()?,
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        engine_socket: engine.socket().map(PathBuf::from),
        store,
        plugin: plugin::folder(home),
        plugin_settings: plugin::settings(home, config),
        hooks: identity::hooks(home),
        mounts: agents(config)
            // A callback of the caller, because approvals are known only in a higher layer.
            .map(|agent| (agent.id.clone(), Mounts::new(config, approved(&agent.id))))
            .collect(),
    };
    let derived = derive(home, document, config, dialect, &facts)?;
    Ok((facts, derived))
}

/// Returns the host path of the package store's volume. `None` without an engine, because there are no sandboxes then
/// either.
async fn store(home: &Home, engine: &Engine) -> Option<PathBuf> {
    let client = engine.client().ok()?;
    let name = names::store_volume(home);
    let found =
        engine.find("look for the package store", QUICK, client.inspect_volume(&name)).await.ok()??;
    Some(found.mountpoint.into())
}

fn failed((path, error): (PathBuf, std::io::Error)) -> OpenClawError {
    OpenClawError::Unready(format!("the workspace {}: {error}", path.display()))
}

fn own(folder: &std::path::Path, user: SandboxUser) -> Result<(), OpenClawError> {
    workspace::locate(folder).map_err(failed)?;
    workspace::own(folder, user).map_err(failed)
}
