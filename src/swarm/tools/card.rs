//! The tools `flock_discover` and `flock_update_card`.

use std::sync::Arc;

use crate::clean::summary;
use crate::config::Role;
use crate::store::TaskCounts;
use crate::swarm::card::{Card, CardEdit, CardQuery};
use crate::swarm::{Actor, Swarm};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Returns both tools in the order in which they are offered.
#[must_use]
pub(crate) fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&team::DISCOVER, swarm, |s, c, a| {
            Box::pin(async move { discover(s, c, &a).await })
        }),
        FunctionTool::shared(&team::UPDATE_CARD, swarm, |s, c, a| Box::pin(update(s, c, a))),
    ]
}

async fn discover(swarm: &Arc<Swarm>, _context: &CallContext, arguments: &Arguments) -> ToolResult {
    let word = |name| -> Result<Option<String>, ToolError> {
        let text = arguments.optional::<String>(name)?.map(|text| text.trim().to_owned());
        Ok(text.filter(|text| !text.is_empty()))
    };
    let role = word("role")?.map(|role| parse_role(&role)).transpose()?;
    let query = CardQuery { text: word("query")?, role, skill: word("skill")? };
    let limit = arguments.limit(20, 100)? as usize;
    // Every agent may look at every card. Only writing is limited to its own.
    let found = swarm.discover(&query).await?;
    if found.is_empty() {
        return Ok("no agent matches".to_owned());
    }
    let mut lines: Vec<String> = found.iter().take(limit).map(describe).collect();
    // Without this line, a model would take the list for complete.
    if found.len() > limit {
        lines.push(format!("[{limit} of {} agents]", found.len()));
    }
    Ok(lines.join("\n"))
}

async fn update(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let new = CardEdit {
        name: arguments.optional("name")?,
        description: arguments.optional("description")?,
        skills: arguments.optional("skills")?,
    };
    // The agent is that of the call. An `agentId` that a model adds has no effect.
    let card = swarm.update_card(&Actor::call(context), new).await?;
    Ok(format!(
        "your card says {}: {} ({} skills)",
        card.name,
        summary(&card.description, MAX_TEXT),
        card.skills.len()
    ))
}

/// Maximum number of characters of a description in a list.
const MAX_TEXT: usize = 80;

fn describe((card, counts): &(Card, TaskCounts)) -> String {
    let skills: Vec<&str> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
    let skills = if skills.is_empty() { String::new() } else { format!(" Skills: {}.", skills.join(", ")) };
    format!(
        "{} ({}) {}: {}{skills} Tasks: {} completed, {} failed, {} in all.",
        card.agent,
        card.role.as_str(),
        card.name,
        summary(&card.description, MAX_TEXT),
        counts.completed,
        counts.failed,
        counts.total
    )
}

fn parse_role(word: &str) -> Result<Role, ToolError> {
    [Role::Orchestrator, Role::Sysadmin, Role::Worker]
        .into_iter()
        .find(|role| role.as_str() == word)
        .ok_or_else(|| ToolError::model("`role` must be orchestrator, sysadmin or worker"))
}

#[cfg(test)]
#[path = "card_tests.rs"]
mod tests;
