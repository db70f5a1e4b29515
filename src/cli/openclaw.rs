//! What commands do about OpenClaw: whether an agent could run on it, and the configuration it is started on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{Context, Failure};
use crate::agent::prompt;
use crate::config::agents::{NewAgent, add};
use crate::config::{self, Config, Live, parse};
use crate::gateway::tools;
use crate::home::Home;
use crate::id::AgentId;
use crate::install::versions;
use crate::openclaw::check::Program;
use crate::openclaw::facts::{self, Ready};
use crate::openclaw::place::Put;
use crate::openclaw::{OpenClawError, agents, identity, place, plugin, port};
use crate::sandbox::engine::Engine;
use crate::sandbox::mount::{ApprovedMount, ApprovedMounts};
use crate::sandbox::policy;
use crate::store::{Reader, StoreError};
use crate::swarm::triage;

/// Whether an agent that is to be could run on the installed OpenClaw, with all that it would be given. Nothing is
/// written.
///
/// # Errors
///
/// Why it could not.
pub async fn check(home: &Home, agent: &NewAgent) -> Result<(), Failure> {
    let program = installed(home)?;
    let (_, mut document) = config::file::read_document(home)?;
    add(&mut document, home, agent)?;
    let config = parse::config(&document, home)
        .map_err(|problem| config::ConfigError::Refused { at: problem.at, message: problem.message })?;
    if let Some(port) = port::choose(&config) {
        port::set(&mut document, port);
    }
    let engine = Engine::from_env();
    let (_, derived) = facts::derived(home, &document, &config, &engine, &approved(home)?, &program).await?;
    place::provider_keys(home, &config, &derived.keys)?;
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
    // The supervisor does not run it yet: whoever adds such an agent must not wait for answers.
    context.printer.warn("this flock does not start OpenClaw by itself yet; docs/openclaw.md says how to");
    if ready.put == Put::AtNextStart {
        context.printer.warn("OpenClaw takes this up when it is started again; run flock restart");
    }
    Ok(ready)
}

/// Makes everything ready that the installed OpenClaw is to be started on: flock's plugin, who its agents are, their
/// workspaces, and its configuration.
///
/// # Errors
///
/// Why it can't; the configuration that was in place before is as it was.
pub async fn prepare(home: &Home) -> Result<Ready, Failure> {
    let program = installed(home)?;
    let live = Arc::new(Live::open(home.clone())?);
    let tools = tools::specs(&live)?;
    plugin::install(home, &tools)?;
    place::made(home, plugin::SECRET)?;
    for agent in agents(&live.current()) {
        let text = prompt::role_and_team(agent, &policy::offered(agent, &tools));
        identity::set_role(home, &agent.id, &text)?;
    }
    Ok(Box::pin(facts::ready(home, &Engine::from_env(), &approved(home)?, &program)).await?)
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
    if agents(config).next().is_none() {
        return Vec::new();
    }
    let mut found = match looked_at(home, config).await {
        Ok(found) => found,
        Err(failure) => {
            let text = failure.text();
            vec![Trouble { text, mend: failure.hint.unwrap_or_default(), breaks: true }]
        }
    };
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
    Ok(vec![Trouble {
        text: format!("OpenClaw {} is not given {}", program.version, derived.dropped.join(", ")),
        mend: "flock config get".to_owned(),
        breaks: false,
    }])
}
