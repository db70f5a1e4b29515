//! Actions of commands on OpenClaw: checking that an agent could run on it, and preparing the configuration it starts
//! with.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Context, Failure, start};
use crate::agent::prompt;
use crate::cli::database;
use crate::config::{self, Config, ConfigError, Live};
use crate::error::{Explain as _, Kind};
use crate::home::Home;
use crate::id::AgentId;
use crate::install::pending_change::{self, VersionChangeState};
use crate::install::versions;
use crate::openclaw::check::OpenClawProgram;
use crate::openclaw::derive::quoted;
use crate::openclaw::place::ApplyOutcome;
use crate::openclaw::prepare::{self, PreparedConfig};
use crate::openclaw::unit::{OpenClawUnit, PrepareFn};
use crate::openclaw::{OpenClawError, agents, identity, place, plugin, port, process, sandboxes};
use crate::sandbox::engine::Engine;
use crate::sandbox::mount::{ApprovedMount, ApprovedMounts};
use crate::store::StoreError;
use crate::supervise::control::{ControlConnection, ControlRequest};
use crate::supervise::unit::StartError;
use crate::swarm::triage;
use crate::tool::{catalog, policy};

/// Checks that the installed OpenClaw could run the agents of a planned configuration, with everything it would be
/// given. Nothing is written.
///
/// # Errors
///
/// Returns an error if OpenClaw is not installed, if its configuration can't be derived, or if a provider key is
/// missing.
pub(crate) async fn check(home: &Home, mut document: Value, config: &Config) -> Result<(), Failure> {
    let program = installed(home)?;
    if let Some(port) = port::choose(config) {
        port::set(&mut document, port);
    }
    let engine = Engine::from_env();
    let (_, derived) = prepare::derived(home, &document, config, &engine, &approved(home)?, &program).await?;
    place::provider_keys(home, config, &derived.keys)?;
    Ok(())
}

/// Writes the configuration that the installed OpenClaw will start with.
///
/// # Errors
///
/// Returns an error if it can't be prepared. The configuration from before then stays.
pub(crate) async fn put(home: &Home, context: &Context) -> Result<PreparedConfig, Failure> {
    let progress = context.printer.progress("checking the configuration with OpenClaw");
    let ready = prepare(home).await?;
    progress.done("OpenClaw accepts its configuration");
    // A running supervisor restarts OpenClaw with the new configuration. That it fails to start is only a warning here.
    if let Some(trouble) = wait_until_started(home, context).await {
        context.printer.warn(&trouble.to_line_with_hint());
    }
    Ok(ready)
}

/// Waits until OpenClaw runs if a supervisor runs, and returns the reason if it does not.
async fn wait_until_started(home: &Home, context: &Context) -> Option<Failure> {
    let mut connection = ControlConnection::open(home).await.ok()?;
    connection.ask(ControlRequest::Look, LOOK_TIMEOUT).await.ok()?;
    let _progress = context.printer.progress("starting OpenClaw");
    let reply = connection.ask(ControlRequest::WaitReady, process::READY + process::START).await.ok()?;
    start::openclaw_failure(&reply.status?)
}

/// Returns `true` if the supervisor runs OpenClaw: a version is installed and an agent uses it.
#[must_use]
pub(crate) fn is_wanted(home: &Home, config: &Config) -> bool {
    agents(config).next().is_some() && versions::current(home).is_some()
}

/// Returns the unit that the supervisor runs OpenClaw with.
///
/// # Errors
///
/// Returns an error if the home's configuration can't be read.
pub(crate) fn unit(home: &Home) -> Result<OpenClawUnit, ConfigError> {
    let (own, other) = (home.clone(), home.clone());
    let prepare: PrepareFn = Arc::new(move || {
        let home = own.clone();
        Box::pin(async move {
            let ready = made(&home).await;
            ready.map_err(|PrepareFailure { failure, passes }| StartError {
                reason: failure.to_line_with_hint(),
                lasting: (!passes).then_some(failure.kind),
            })
        })
    });
    // The grants are not in the configuration, so they are hashed here. If they can't be read, the preparation reports
    // why.
    let basis = Arc::new(move || {
        let granted = database::read(&other, async |reader| reader.grants().list("mount").await);
        let mut hasher = DefaultHasher::new();
        for (agent, _, body) in granted.ok().flatten().into_iter().flatten() {
            (agent.as_str(), body.to_string()).hash(&mut hasher);
        }
        hasher.finish()
    });
    OpenClawUnit::new(home.clone(), prepare, basis)
}

/// Prepares everything that the installed OpenClaw starts with: flock's plugin, the identity and workspaces of its
/// agents, and its configuration.
///
/// # Errors
///
/// Returns an error if one of these can't be prepared. The configuration from before then stays.
pub(crate) async fn prepare(home: &Home) -> Result<PreparedConfig, Failure> {
    made(home).await.map_err(|unmade| unmade.failure)
}

/// The reason for which OpenClaw could not be prepared.
struct PrepareFailure {
    failure: Failure,
    /// `true` if a retry may succeed: the program did not answer, for example because the machine is too busy.
    passes: bool,
}

impl<E: Into<Failure>> From<E> for PrepareFailure {
    fn from(error: E) -> Self {
        Self { failure: error.into(), passes: false }
    }
}

async fn made(home: &Home) -> Result<PreparedConfig, PrepareFailure> {
    let version = versions::current(home).ok_or(OpenClawError::NotInstalled)?;
    let live = Arc::new(Live::open(home.clone())?);
    let tools = catalog::specs();
    plugin::install(home, &tools)?;
    place::made(home, plugin::SECRET)?;
    for agent in agents(&live.current()) {
        let text = prompt::role_and_team(agent, &policy::offered(agent, &tools));
        identity::set_role(home, &agent.id, &text)?;
    }
    let engine = Engine::from_env();
    // A gateway that starts at the same time may still be creating the database tables.
    let end = Instant::now() + TABLES_TIMEOUT;
    let approved = loop {
        // SQLite may block while another process writes, so it runs on a thread for blocking work.
        let own = home.clone();
        let asked = tokio::task::spawn_blocking(move || approved(&own)).await;
        match asked.map_err(|error| OpenClawError::Unready(error.to_string()))? {
            Ok(approved) => break approved,
            Err(_) if Instant::now() < end => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(PrepareFailure { failure: error.into(), passes: true }),
        }
    };
    let ready = Box::pin(prepare::ready(home, &engine, &approved, version)).await.map_err(|error| {
        let passes = matches!(error, OpenClawError::Unchecked { .. });
        PrepareFailure { failure: error.into(), passes }
    })?;
    if ready.put == ApplyOutcome::Sandboxes {
        // The new configuration may no longer allow what the present sandboxes were made with, so they are removed.
        match sandboxes::remove_all(&engine, home).await {
            Ok(_) => {}
            // Without an engine there are no sandboxes.
            Err(error) if error.kind() == Kind::DockerUnavailable => {}
            Err(error) => return Err(PrepareFailure { failure: error.into(), passes: true }),
        }
        // Written only after the removal: if it failed, the next start tries it again.
        place::cleared(home)?;
    }
    Ok(ready)
}

/// Time that a starting gateway may take to create its tables.
const TABLES_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that the supervisor may take to confirm that it looks for changes.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the OpenClaw that is in use.
///
/// # Errors
///
/// Returns [`OpenClawError::NotInstalled`] if there is none.
pub(crate) fn installed(home: &Home) -> Result<OpenClawProgram, OpenClawError> {
    versions::current(home).as_ref().map(OpenClawProgram::from).ok_or(OpenClawError::NotInstalled)
}

/// Returns the host folders that each agent is granted now.
///
/// # Errors
///
/// Returns an error if the database can't be read. Without its granted folders an agent would work on the wrong files.
pub(crate) fn approved(home: &Home) -> Result<ApprovedMounts, StoreError> {
    let mut found: BTreeMap<AgentId, Vec<ApprovedMount>> = BTreeMap::new();
    let granted = database::read(home, async |reader| reader.grants().list("mount").await)?;
    for (agent, _, body) in granted.into_iter().flatten() {
        if let Some(mount) = triage::mount_of_body(&body) {
            found.entry(agent).or_default().push(mount);
        }
    }
    Ok(Arc::new(move |agent| found.get(agent).cloned().unwrap_or_default()))
}

/// A problem with OpenClaw that a person should know.
pub(crate) struct OpenClawProblem {
    /// The description of the problem.
    pub text: String,
    /// The command that repairs it.
    pub mend: String,
    /// `true` if agents on OpenClaw can't work because of it.
    pub breaks: bool,
}

impl OpenClawProblem {
    /// Creates a problem in spite of which agents can work.
    fn warning(text: String, mend: impl Into<String>) -> Self {
        Self { text, mend: mend.into(), breaks: false }
    }
}

/// Returns the problems of the agents on OpenClaw that can be seen without starting it.
pub(crate) async fn troubles(home: &Home, config: &Config) -> Vec<OpenClawProblem> {
    let mut found = Vec::new();
    let interrupted = match pending_change::interrupted(home) {
        Some(VersionChangeState::Swapped { to, .. }) => Some(format!(
            "a change to OpenClaw {} was interrupted before that version was healthy",
            to.name()
        )),
        Some(VersionChangeState::Back { from }) => {
            Some(format!("going back to OpenClaw {} was interrupted before it served again", from.name()))
        }
        Some(VersionChangeState::Nothing) | None => None,
    };
    found.extend(interrupted.map(|text| OpenClawProblem::warning(text, "flock update")));
    // Without agents on OpenClaw its other problems affect nobody.
    if agents(config).next().is_none() {
        return found;
    }
    match find_problems(home, config).await {
        Ok(more) => found.extend(more),
        Err(failure) => {
            let text = failure.text();
            found.push(OpenClawProblem { text, mend: failure.hint.unwrap_or_default(), breaks: true });
        }
    }
    if Path::new(IN_CONTAINER).exists() {
        let text = format!(
            "{IN_CONTAINER} makes OpenClaw believe that it runs in a container, so its sandboxes fail"
        );
        let mend = "run flock outside of containers, or remove that file";
        found.push(OpenClawProblem::warning(text, mend));
    }
    found
}

/// The file whose presence makes OpenClaw believe that it runs in a container.
const IN_CONTAINER: &str = "/.dockerenv";

async fn find_problems(home: &Home, config: &Config) -> Result<Vec<OpenClawProblem>, Failure> {
    let program = installed(home)?;
    let (_, document) = config::file::read_document(home)?;
    let engine = Engine::from_env();
    let (_, derived) = prepare::derived(home, &document, config, &engine, &approved(home)?, &program).await?;
    place::provider_keys(home, config, &derived.keys)?;
    if derived.dropped.is_empty() {
        return Ok(Vec::new());
    }
    // Some entries are sentences and not paths of settings, so no command can unset them.
    let first = derived.dropped.iter().find(|place| !place.contains([' ', ':']));
    let mend = first.map_or("flock config get plugins.entries.flock.config.policy".to_owned(), |place| {
        format!("flock config unset {}", quoted(place))
    });
    let dropped = derived.dropped.join(", ");
    let text = format!("OpenClaw {} does not get these settings: {dropped}", program.version);
    Ok(vec![OpenClawProblem::warning(text, mend)])
}
