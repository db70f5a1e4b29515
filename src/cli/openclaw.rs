//! What commands do about OpenClaw: whether an agent could run on it, and the configuration it is started on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Context, Failure, start};
use crate::agent::prompt;
use crate::config::{self, Config, ConfigError, Live};
use crate::error::{Explain as _, Kind};
use crate::gateway::tools;
use crate::home::Home;
use crate::id::AgentId;
use crate::install::underway::{self, Reached};
use crate::install::{Version, versions};
use crate::openclaw::check::Program;
use crate::openclaw::derive::{Derived, quoted};
use crate::openclaw::facts::{self, Ready};
use crate::openclaw::place::Put;
use crate::openclaw::unit::{OpenClaw, Prepare};
use crate::openclaw::{OpenClawError, agents, identity, place, plugin, port, process, sandboxes};
use crate::sandbox::engine::Engine;
use crate::sandbox::mount::{ApprovedMount, ApprovedMounts};
use crate::sandbox::policy;
use crate::store::{Reader, StoreError};
use crate::supervise::control::{Connection, Request};
use crate::supervise::unit::Unready;
use crate::swarm::triage;

/// Whether the installed OpenClaw could run the agents of a configuration that is to be, with all that it would be given.
/// Nothing is written.
///
/// # Errors
///
/// Why it could not.
pub async fn check(home: &Home, mut document: Value, config: &Config) -> Result<(), Failure> {
    let program = installed(home)?;
    if let Some(port) = port::choose(config) {
        port::set(&mut document, port);
    }
    let engine = Engine::from_env();
    let (_, derived) = facts::derived(home, &document, config, &engine, &approved(home)?, &program).await?;
    place::provider_keys(home, config, &derived.keys)?;
    Ok(())
}

/// Puts the configuration in place that the installed OpenClaw is to be started on.
///
/// # Errors
///
/// Why it can't; what was in place before is as it was.
pub async fn put(home: &Home, context: &Context) -> Result<Ready, Failure> {
    let progress = context.printer.progress("asking OpenClaw whether it takes its configuration");
    let ready = prepare(home).await?;
    progress.done("OpenClaw takes its configuration");
    if let Some(trouble) = started(home, context).await {
        context.printer.warn(&trouble.with_mend());
    }
    Ok(ready)
}

/// Waits until OpenClaw runs, where a supervisor does; gives back why it does not.
async fn started(home: &Home, context: &Context) -> Option<Failure> {
    let mut connection = Connection::open(home).await.ok()?;
    connection.ask(Request::Look, LOOK).await.ok()?;
    let _progress = context.printer.progress("starting OpenClaw");
    let reply = connection.ask(Request::WaitReady, process::READY + process::START).await.ok()?;
    start::without_openclaw(&reply.status?)
}

/// Whether the supervisor runs it: a version is installed and agents run on it.
#[must_use]
pub fn is_wanted(home: &Home, config: &Config) -> bool {
    agents(config).next().is_some() && versions::current(home).is_some()
}

/// What the supervisor runs OpenClaw with.
///
/// # Errors
///
/// If the home's configuration can't be read.
pub fn unit(home: &Home) -> Result<OpenClaw, ConfigError> {
    let (own, other) = (home.clone(), home.clone());
    let prepare: Prepare = Arc::new(move || {
        let home = own.clone();
        Box::pin(async move {
            let ready = made(&home).await;
            ready.map_err(|Unmade { failure, passes }| unready(&failure, passes))
        })
    });
    // What was granted is not in the configuration. Where it can't be read, making ready says why.
    let basis = Arc::new(move || {
        let granted = Reader::open(&other).ok().flatten().and_then(|reader| reader.granted("mount").ok());
        let mut hasher = DefaultHasher::new();
        for (agent, _, body) in granted.into_iter().flatten() {
            (agent.as_str(), body.to_string()).hash(&mut hasher);
        }
        hasher.finish()
    });
    OpenClaw::new(home.clone(), prepare, basis)
}

fn unready(failure: &Failure, passes: bool) -> Unready {
    Unready { reason: failure.with_mend(), lasting: (!passes).then_some(failure.kind) }
}

/// Makes everything ready that the installed OpenClaw is to be started on: flock's plugin, who its agents are, their
/// workspaces, and its configuration.
///
/// # Errors
///
/// Why it can't; the configuration that was in place before is as it was.
pub async fn prepare(home: &Home) -> Result<Ready, Failure> {
    made(home).await.map_err(|unmade| unmade.failure)
}

/// Why OpenClaw could not be made ready.
struct Unmade {
    failure: Failure,
    /// Whether a new try may end otherwise: the program did not answer, as on a machine that is too busy.
    passes: bool,
}

impl<E: Into<Failure>> From<E> for Unmade {
    fn from(error: E) -> Self {
        Self { failure: error.into(), passes: false }
    }
}

async fn made(home: &Home) -> Result<Ready, Unmade> {
    let version = versions::current(home).ok_or(OpenClawError::NotInstalled)?;
    let live = Arc::new(Live::open(home.clone())?);
    let tools = tools::specs(&live)?;
    plugin::install(home, &tools)?;
    place::made(home, plugin::SECRET)?;
    for agent in agents(&live.current()) {
        let text = prompt::role_and_team(agent, &policy::offered(agent, &tools));
        identity::set_role(home, &agent.id, &text)?;
    }
    let engine = Engine::from_env();
    // A gateway that starts at the same time may still be making its tables.
    let end = Instant::now() + TABLES;
    let approved = loop {
        // A database may keep who asks waiting.
        let own = home.clone();
        let asked = tokio::task::spawn_blocking(move || approved(&own)).await;
        match asked.map_err(|error| OpenClawError::Unready(error.to_string()))? {
            Ok(approved) => break approved,
            Err(_) if Instant::now() < end => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(Unmade { failure: error.into(), passes: true }),
        }
    };
    let ready = Box::pin(facts::ready(home, &engine, &approved, version)).await.map_err(|error| {
        let passes = matches!(error, OpenClawError::Unchecked { .. });
        Unmade { failure: error.into(), passes }
    })?;
    if ready.put == Put::Sandboxes {
        // What they were made with may not be allowed any more.
        match sandboxes::remove_all(&engine, home).await {
            Ok(_) => {}
            // Where there is no engine there are none.
            Err(error) if error.kind() == Kind::DockerUnavailable => {}
            Err(error) => return Err(Unmade { failure: error.into(), passes: true }),
        }
        place::cleared(home)?;
    }
    Ok(ready)
}

/// How long a gateway may take to make its tables.
const TABLES: Duration = Duration::from_secs(5);
/// How long the supervisor may take to say that it looks.
const LOOK: Duration = Duration::from_secs(2);

/// What an installed version would be started on; `None` where no agent runs on OpenClaw. Nothing is written.
///
/// # Errors
///
/// Why it can't be derived.
pub async fn derived_for(home: &Home, version: &Version) -> Result<Option<Derived>, Failure> {
    let (_, document) = config::file::read_document(home)?;
    let config = config::read(home)?;
    if agents(&config).next().is_none() {
        return Ok(None);
    }
    let (engine, program) = (Engine::from_env(), Program::from(version));
    let (_, derived) = facts::derived(home, &document, &config, &engine, &approved(home)?, &program).await?;
    Ok(Some(derived))
}

/// The OpenClaw in use.
///
/// # Errors
///
/// [`OpenClawError::NotInstalled`].
pub fn installed(home: &Home) -> Result<Program, OpenClawError> {
    versions::current(home).as_ref().map(Program::from).ok_or(OpenClawError::NotInstalled)
}

/// What of the host was granted to each agent, as it is now.
///
/// # Errors
///
/// If the database can't be read: an agent that lacks what it was granted would work on something else.
pub fn approved(home: &Home) -> Result<ApprovedMounts, StoreError> {
    let mut found: BTreeMap<AgentId, Vec<ApprovedMount>> = BTreeMap::new();
    if let Some(reader) = Reader::open(home)? {
        for (agent, _, body) in reader.granted("mount")? {
            if let Some(mount) = triage::granted_mount(&body) {
                found.entry(agent).or_default().push(mount);
            }
        }
    }
    Ok(Arc::new(move |agent| found.get(agent).cloned().unwrap_or_default()))
}

/// Something about OpenClaw that a person should know.
pub struct Trouble {
    /// What it is.
    pub text: String,
    /// The command that mends it.
    pub mend: String,
    /// Whether agents on OpenClaw can't work because of it.
    pub breaks: bool,
}

/// What stands in the way of the agents on OpenClaw, as far as it can be seen without running it.
pub async fn troubles(home: &Home, config: &Config) -> Vec<Trouble> {
    let mut found = Vec::new();
    let interrupted = match underway::interrupted(home) {
        Some(Reached::Swapped { to, .. }) => {
            Some(format!("a change to OpenClaw {} was interrupted before it had proved itself", to.name()))
        }
        Some(Reached::Back { from }) => {
            Some(format!("going back to OpenClaw {} was interrupted before it served again", from.name()))
        }
        Some(Reached::Nothing) | None => None,
    };
    found.extend(interrupted.map(|text| Trouble { text, mend: "flock update".to_owned(), breaks: false }));
    if agents(config).next().is_none() {
        return found;
    }
    match looked_at(home, config).await {
        Ok(more) => found.extend(more),
        Err(failure) => {
            let text = failure.text();
            found.push(Trouble { text, mend: failure.hint.unwrap_or_default(), breaks: true });
        }
    }
    if Path::new(IN_CONTAINER).exists() {
        found.push(Trouble {
            text: format!(
                "{IN_CONTAINER} makes OpenClaw believe that it runs in a container: its sandboxes fail"
            ),
            mend: "run flock outside of containers, or remove that file".to_owned(),
            breaks: false,
        });
    }
    found
}

/// The file by which OpenClaw knows that it runs in a container.
const IN_CONTAINER: &str = "/.dockerenv";

async fn looked_at(home: &Home, config: &Config) -> Result<Vec<Trouble>, Failure> {
    let program = installed(home)?;
    let (_, document) = config::file::read_document(home)?;
    let engine = Engine::from_env();
    let (_, derived) = facts::derived(home, &document, config, &engine, &approved(home)?, &program).await?;
    place::provider_keys(home, config, &derived.keys)?;
    if derived.dropped.is_empty() {
        return Ok(Vec::new());
    }
    // What is said in words is no place of a setting.
    let first = derived.dropped.iter().find(|place| !place.contains([' ', ':']));
    let mend = first.map(|place| format!("flock config unset {}", quoted(place)));
    Ok(vec![Trouble {
        text: format!("OpenClaw {} is not given {}", program.version, derived.dropped.join(", ")),
        mend: mend.unwrap_or_else(|| "flock config get plugins.entries.flock.config.policy".to_owned()),
        breaks: false,
    }])
}
