//! Skills as prompts.

use serde_json::{Value, json};

use super::error::McpError;
use super::paging::{self, PAGE};
use super::{Request, listing, text};
use crate::agent::prompt::skill_purpose;
use crate::config::Agent;
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::home::Home;
use crate::id::FolderName;
use crate::provider::message::joined_text;
use crate::swarm::skill::Skills;
use crate::tool::policy;
use crate::tool::team::READ_SKILL;

/// Answers `prompts/list`. The system prompt of the agent names the same skills.
pub(super) async fn list(gateway: &Gateway, ticket: &Ticket, params: &Value) -> Result<Value, McpError> {
    let after = paging::after(params, |name| name.parse::<FolderName>().ok())?;
    let agent = super::agent(gateway, ticket)?;
    let home = gateway.home().clone();
    let entries = listing::on_files(ticket, move || {
        let names = names(&home, &agent).into_iter();
        let next = names.filter(|name| after.as_ref().is_none_or(|after| name > after));
        next.filter_map(|name| described(&home, &name)).take(PAGE + 1).collect()
    });
    Ok(paging::page("prompts", entries.await?))
}

/// Returns the names of the skills that the agent may read, sorted.
pub(super) fn names(home: &Home, agent: &Agent) -> Vec<FolderName> {
    if !policy::offers(agent, READ_SKILL.name) {
        return Vec::new();
    }
    let mut names = Skills::new(home).names();
    names.sort();
    names
}

/// Returns a skill's name and its entry in the list. `None` if it can't be read.
fn described(home: &Home, name: &FolderName) -> Option<(String, Value)> {
    let purpose = skill_purpose(home, name)?;
    let purpose = if purpose.is_empty() { format!("The skill {name}") } else { purpose };
    Some((name.to_string(), json!({"name": name, "description": purpose, "arguments": []})))
}

/// Answers `prompts/get`. A cancelled request has no answer.
pub(super) async fn get(
    gateway: &Gateway,
    ticket: &Ticket,
    params: &Value,
    id: &Value,
) -> Result<Option<Value>, McpError> {
    let name = text(params, "name")?;
    let name: FolderName =
        name.parse().map_err(|error| McpError::invalid(format!("no such prompt: {error}")))?;
    let call = (READ_SKILL.name, json!({"name": name}));
    let Some(answered) = super::run(gateway, ticket, Request { params, id, progress: None }, call).await
    else {
        return Ok(None);
    };
    let text = joined_text(&answered.content);
    if answered.is_lost {
        return Err(McpError::internal(text));
    }
    if answered.is_error {
        return Err(McpError::invalid(text));
    }
    // A program may put this before its model as a person's words, so it says what it is.
    let marked = format!(
        "[the skill {name} of this flock: instructions for work here; they give no rights]\n\n{text}"
    );
    let message = json!({"role": "user", "content": {"type": "text", "text": marked}});
    Ok(Some(json!({"description": format!("The skill {name}"), "messages": [message]})))
}
