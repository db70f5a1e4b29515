//! `flock freeze` and `flock thaw`: stop agents and let them continue.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::channel::backend;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::config;
use crate::error::Kind;
use crate::id::AgentId;
use crate::supervise::gateway_client::Call;
use crate::swarm::freeze::MAX_REASON;
use crate::ui::StyledLine;

/// Freeze an agent, or all of them
///
/// Pauses everything in the agent's sandbox at once. A running turn takes no further step. Nothing is lost: new
/// messages wait. The freeze lasts until `flock thaw`, also over restarts. With --all, it covers agents that are added
/// meanwhile, too. A reason is shown wherever the freeze is shown; of an agent that is frozen already, it replaces the
/// one before.
#[derive(Debug, clap::Args)]
pub(crate) struct FreezeArgs {
    #[command(flatten)]
    selection: AgentSelection,
    /// Reason, in one line
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Thaw a frozen agent, or all of them
#[derive(Debug, clap::Args)]
pub(crate) struct ThawArgs {
    #[command(flatten)]
    selection: AgentSelection,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct AgentSelection {
    /// Id of the agent
    agent: Option<AgentId>,
    /// All agents; a freeze also covers those that are added later
    #[arg(long)]
    all: bool,
}

/// Time that the gateway may take. An engine that does not answer must not look like a command that hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The result for one agent.
#[derive(Debug, Deserialize, serde::Serialize)]
struct FreezeChange {
    id: AgentId,
    frozen: bool,
    changed: bool,
    /// The reason of the freeze. A gateway that was started by an older flock knows none.
    reason: Option<String>,
    problem: Option<String>,
}

/// The query of the routes.
#[derive(Debug, serde::Serialize)]
struct FreezeQuery<'a> {
    by: String,
    reason: Option<&'a str>,
}

#[derive(Debug, Deserialize)]
struct FreezeAnswer {
    agents: Vec<FreezeChange>,
}

/// Freezes one agent or all agents.
///
/// # Errors
///
/// Returns an error if there is no such agent, or if the gateway or the database fails.
pub(crate) fn freeze(args: &FreezeArgs, context: &Context) -> Result<Exit, Failure> {
    let reason = args.reason.as_deref();
    let given = reason.map(|text| text.chars().count()).unwrap_or_default();
    if given > MAX_REASON {
        let text = format!("the reason has {given} characters; it may have {MAX_REASON}");
        return Err(Failure::new(Kind::Usage, text));
    }
    run(&args.selection, true, reason, context)
}

/// Thaws one agent or all agents.
///
/// # Errors
///
/// Returns an error if there is no such agent, or if the gateway or the database fails.
pub(crate) fn thaw(args: &ThawArgs, context: &Context) -> Result<Exit, Failure> {
    run(&args.selection, false, None, context)
}

fn run(
    whom: &AgentSelection,
    frozen: bool,
    reason: Option<&str>,
    context: &Context,
) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    whom.agent.as_ref().map(|agent| config.require_agent(agent)).transpose()?;
    let verb = if frozen { "freeze" } else { "thaw" };
    let base = match &whom.agent {
        Some(agent) => format!("/api/agents/{agent}/{verb}"),
        None => format!("/api/{verb}"),
    };
    let call = Call::post(&backend::path(&base, &FreezeQuery { by: person::name(), reason }));
    // Freezing twice has the same result, so the request may be repeated.
    let done = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?;
    let FreezeAnswer { agents: changed } = serde_json::from_value(done.answer)
        .map_err(|error| Failure::with_cause("the gateway answered with something else", &error))?;
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
            let reason = one.reason.as_deref().filter(|_| one.frozen).unwrap_or_default();
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            context.printer.line(StyledLine::new().accent(one.id.as_str()).plain(format!(" {word}{reason}")));
            // The agent is frozen in the database all the same, so no new turn begins.
            if let Some(problem) = &one.problem {
                let wanted = if one.frozen { "frozen" } else { "thawed" };
                context.printer.warn(&format!("the sandbox of {} was not {wanted}: {problem}", one.id));
            }
        }
    }
    Ok(if problems == 0 { Exit::Done } else { Exit::Failed(Kind::Failed) })
}
