//! `flock freeze` and `flock thaw`: stop agents and let them continue.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::reconnect::{Repeat, Waiting};
use super::{Context, Exit, Failure, team};
use crate::config::{self, Config, ConfigError};
use crate::error::Kind;
use crate::home::Home;
use crate::id::{AgentId, Party};
use crate::store::Store;
use crate::supervise::gateway_client::{Call, Client};
use crate::swarm::{By, freeze};
use crate::ui::{StyledLine, TextStyle};

/// Freeze an agent, or all of them
///
/// Pauses everything in the agent's sandbox at once. A running turn takes no further step. Nothing is lost: new
/// messages wait. The freeze lasts until `flock thaw`, also over restarts. With --all, it covers agents that are added
/// meanwhile, too.
#[derive(Debug, clap::Args)]
pub struct FreezeArgs {
    #[command(flatten)]
    whom: AgentSelection,
}

/// Thaw a frozen agent, or all of them
#[derive(Debug, clap::Args)]
pub struct ThawArgs {
    #[command(flatten)]
    whom: AgentSelection,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct AgentSelection {
    /// Id of the agent
    agent: Option<AgentId>,
    /// Freeze or thaw all agents; a freeze then covers agents that are added later, too
    #[arg(long)]
    all: bool,
}

/// Time that the gateway may take. An engine that does not answer must not look like a command that hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The result for one agent.
#[derive(Debug, Deserialize, serde::Serialize)]
struct Changed {
    id: AgentId,
    frozen: bool,
    changed: bool,
    problem: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    agents: Vec<Changed>,
}

/// Freezes one agent or all agents.
///
/// # Errors
///
/// Returns an error if there is no such agent, or if the gateway or the database fails.
pub fn freeze(args: &FreezeArgs, context: &Context) -> Result<Exit, Failure> {
    run(&args.whom, true, context)
}

/// Thaws one agent or all agents.
///
/// # Errors
///
/// Returns an error if there is no such agent, or if the gateway or the database fails.
pub fn thaw(args: &ThawArgs, context: &Context) -> Result<Exit, Failure> {
    run(&args.whom, false, context)
}

fn run(whom: &AgentSelection, frozen: bool, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    if let Some(agent) = &whom.agent
        && config.agent(agent).is_none()
    {
        return Err(ConfigError::Unknown(agent.clone()).into());
    }
    let changed = context.block_on(change(&home, &config, whom.agent.as_ref(), frozen, context))?;
    let problems = changed.iter().filter(|one| one.problem.is_some()).count();
    if context.printer.is_json() {
        context.printer.json(&json!({"agents": changed}));
    } else {
        for one in &changed {
            let word = match (one.frozen, one.changed) {
                (true, true) => "frozen",
                (true, false) => "was frozen already",
                (false, true) => "thawed",
                (false, false) => "was not frozen",
            };
            context
                .printer
                .line(StyledLine::new().with(TextStyle::Accent, one.id.as_str()).plain(format!(" {word}")));
            // The agent is frozen in the database all the same, so no new turn begins.
            if let Some(problem) = &one.problem {
                let wanted = if one.frozen { "frozen" } else { "thawed" };
                context.printer.warn(&format!("the sandbox of {} was not {wanted}: {problem}", one.id));
            }
        }
    }
    Ok(if problems == 0 { Exit::Done } else { Exit::Failed(Kind::Failed) })
}

async fn change(
    home: &Home,
    config: &Config,
    agent: Option<&AgentId>,
    frozen: bool,
    context: &Context,
) -> Result<Vec<Changed>, Failure> {
    let verb = if frozen { "freeze" } else { "thaw" };
    let Party::Human(login) = Party::human(&super::person::login()) else {
        return Err(Failure::new(Kind::Internal, "a person has no name"));
    };
    let waiting = Waiting::default();
    if let Some(gateway) = waiting.gateway(home, context).await? {
        let path = match agent {
            Some(agent) => format!("/api/agents/{agent}/{verb}?by={login}"),
            None => format!("/api/{verb}?by={login}"),
        };
        let ask = async |to: &Client| to.ask(Call::post(&path), TIMEOUT).await?.json::<Answer>(TIMEOUT).await;
        // Freezing twice has the same result, so the request may be repeated.
        let answer = waiting.ask(home, context, &gateway, Repeat::Safe, ask).await?;
        return Ok(answer.agents);
    }
    team::require_no_gateway(home)?;
    // Without a gateway no turn runs and nothing needs to be stopped: the next gateway reads the database.
    let by = By::human(&login);
    let store = Store::open(home)?;
    let now = crate::clock::unix_ms();
    let who = frozen.then(|| by.party.to_string());
    let changed = if let Some(agent) = agent {
        let entry = freeze::entry(&by, agent, frozen);
        vec![(agent.clone(), store.set_frozen(agent.clone(), who, entry, now).await?)]
    } else {
        // One transaction freezes all agents, together with the mark that also covers agents added later.
        let agents: Vec<_> = config
            .agents
            .iter()
            .map(|agent| (agent.id.clone(), freeze::entry(&by, &agent.id, frozen)))
            .collect();
        let changed =
            store.set_home_frozen(who, freeze::home_audit_entry(&by, frozen), agents.clone(), now).await?;
        agents.into_iter().map(|(agent, _)| agent).zip(changed).collect()
    };
    // A freeze must survive a power failure, so it is synced before it is reported.
    store.sync().await?;
    let done = changed.into_iter().map(|(id, changed)| Changed { id, frozen, changed, problem: None });
    Ok(done.collect())
}
