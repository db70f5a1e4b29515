//! The tools `flock_status` and `flock_sleep`.

use std::sync::Arc;

use crate::clock::unix_ms;
use crate::id::AgentId;
use crate::store::ChannelState;
use crate::swarm::agent_state::mode;
use crate::swarm::scheduler::Mode;
use crate::swarm::{Actor, Swarm, SwarmError};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolResult, team};

/// Returns the tools of this module.
#[must_use]
pub(crate) fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&team::STATUS, swarm, |s, c, a| Box::pin(async move { status(s, c, &a).await })),
        FunctionTool::shared(&team::SLEEP, swarm, |s, c, a| Box::pin(sleep(s, c, a))),
    ]
}

async fn sleep(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let reason: Option<String> = arguments.optional("reason")?;
    let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
    // An agent can only put itself to sleep, whatever it names.
    Ok(if swarm.sleep(&Actor::call(context), &context.agent, &reason).await? {
        "you sleep after this turn; a mention or a direct message wakes you".to_owned()
    } else {
        "you sleep already".to_owned()
    })
}

async fn status(swarm: &Arc<Swarm>, _context: &CallContext, arguments: &Arguments) -> ToolResult {
    let wanted: Option<String> = arguments.optional("agentId")?;
    let wanted: Option<AgentId> = wanted.map(|id| id.trim().parse()).transpose()?;
    if let Some(id) = &wanted {
        swarm.require_agent(id)?;
    }
    let config = swarm.config();
    let now = unix_ms();
    let states = swarm.store().agents().states().await.map_err(SwarmError::from)?;
    let mut lines = Vec::new();
    for agent in config.agents.iter().filter(|agent| wanted.as_ref().is_none_or(|id| *id == agent.id)) {
        let state = states.iter().find(|state| state.agent == agent.id);
        // A clock that was set back could give a negative duration.
        let minutes = |since: i64| (now - since).max(0) / 60_000;
        let stands = match state {
            // A freeze comes first: nothing wakes a frozen agent, even if it also sleeps.
            _ if swarm.is_frozen(&agent.id) => "frozen by a person".to_owned(),
            Some(state) if state.asleep_at.is_some() => {
                format!("asleep for {} min", minutes(state.asleep_at.unwrap_or(now)))
            }
            _ => match mode(agent.role) {
                Mode::Active => "awake".to_owned(),
                Mode::Reactive => "awake when called".to_owned(),
            },
        };
        let archetype = agent.archetype.as_deref().map(|name| format!(", {name}")).unwrap_or_default();
        lines.push(format!("{} ({}{archetype}): {stands}", agent.id, agent.role.as_str()));
    }
    if wanted.is_none() {
        let counts = swarm.store().channels().counts().await.map_err(SwarmError::from)?;
        let archived = counts.iter().filter(|(state, _)| *state == ChannelState::Archived);
        let archived: u64 = archived.map(|(_, count)| count).sum();
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        lines.push(format!("{all} channels, {archived} of them archived"));
    }
    Ok(lines.join("\n"))
}
