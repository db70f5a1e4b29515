//! `flock list`: lists the agents of a home from its configuration.

use serde_json::{Value, json};

use super::{Context, Exit, Failure, team};
use crate::cli::stored::{FREEZES, SLEEP, StoredState};
use crate::config::{self, Agent, SandboxMode};
use crate::gateway::unread;
use crate::provider::catalog::label;
use crate::ui::{Table, TextStyle};

/// List the agents
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints the agents. If the database can't be read, the exit code says so, and the rest is printed.
///
/// # Errors
///
/// Returns an error if there is no home, or if its configuration is not valid.
pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let config = config::read(&home)?;
    let StoredState { frozen, asleep, mut unread, failure, .. } = StoredState::read(&home);
    unread.retain(|unread| matches!(unread.part.as_str(), FREEZES | SLEEP));
    let exit = failure.filter(|_| !unread.is_empty()).map_or(Exit::Done, Exit::Failed);
    // Only the gateway knows which agents are paused. Without one the map is empty.
    let paused = context.block_on(async { Ok(team::paused(&home, &config).await) })?;
    if context.printer.is_json() {
        let with_state = |agent: &Agent| {
            let mut value = describe(agent);
            value["frozen"] = json!(frozen.of(&agent.id));
            value["asleep"] = json!(asleep.get(&agent.id));
            value["paused"] = json!(paused.get(agent.id.as_str()));
            value
        };
        let agents: Vec<Value> = config.agents.iter().map(with_state).collect();
        context.printer.json(&json!({"agents": agents, "frozen": frozen.home(), "unread": unread}));
        return Ok(exit);
    }
    let mut table = Table::new(&["AGENT", "ROLE", "RUNTIME", "MODEL", "SANDBOX"]);
    for agent in &config.agents {
        let (paused, asleep) = (paused.get(agent.id.as_str()), asleep.get(&agent.id));
        let held = team::inactive_text(frozen.of(&agent.id), paused, asleep);
        let sandbox = match (held, agent.sandbox) {
            // The reason for which an agent does not work is more important than its sandbox, and shares the column.
            (Some(held), _) => held,
            (None, _) if agent.runs_on_host() => (TextStyle::Warn, "none, on the host".to_owned()),
            (None, SandboxMode::All) => (TextStyle::Plain, "docker".to_owned()),
            (None, SandboxMode::Off) => (TextStyle::Warn, "off".to_owned()),
        };
        table.styled_row(vec![
            (TextStyle::Accent, agent.id.to_string()),
            (TextStyle::Plain, role(agent)),
            (TextStyle::Plain, agent.runtime.clone()),
            (TextStyle::Plain, agent.model.as_ref().map_or("none".to_owned(), label)),
            sandbox,
        ]);
    }
    context.printer.table(&table);
    if let Some(freeze) = frozen.home() {
        context.printer.warn(&team::home_frozen_text(freeze));
    }
    for sentence in unread::sentences(&unread) {
        context.printer.warn(&sentence);
    }
    Ok(exit)
}

/// Returns an agent for programs.
pub(crate) fn describe(agent: &Agent) -> Value {
    json!({
        "id": agent.id,
        "role": agent.role,
        "archetype": agent.archetype,
        "runtime": agent.runtime,
        "onHost": agent.runs_on_host(),
        "model": agent.model,
        "scripted": agent.model.as_ref().is_some_and(crate::id::ModelRef::is_script),
        "autonomy": agent.autonomy.as_str(),
        "sandbox": agent.sandbox,
        "network": agent.network,
        "egress": agent.egress,
        "workspace": agent.workspace,
    })
}

fn role(agent: &Agent) -> String {
    match &agent.archetype {
        Some(archetype) => format!("{} ({archetype})", agent.role.as_str()),
        None => agent.role.as_str().to_owned(),
    }
}
