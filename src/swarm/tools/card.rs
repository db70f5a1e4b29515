//! `flock_discover` and `flock_update_card`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::Role;
use crate::provider::{BoxFuture, ToolSpec};
use crate::store::TaskCounts;
use crate::swarm::card::{Card, CardQuery, NewCard};
use crate::swarm::task::one_line;
use crate::swarm::{By, Swarm};
use crate::tool::arguments::Arguments;
use crate::tool::{CallContext, Tool, ToolError, ToolOutput};

struct Discover {
    spec: ToolSpec,
    swarm: Arc<Swarm>,
}

struct Update {
    spec: ToolSpec,
    swarm: Arc<Swarm>,
}

/// Both of them, in the order they are offered.
#[must_use]
pub fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    let text = json!({"type": "string"});
    let spec = |name: &str, description: &str, properties: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": []}),
    };
    let discover = spec(
        "flock_discover",
        "Find agents by words, role or skill, with what became of their tasks.",
        json!({
            "query": text,
            "role": {"type": "string", "enum": ["orchestrator", "sysadmin", "worker"]},
            "skill": text,
            "limit": {"type": "integer"}
        }),
    );
    let update = spec(
        "flock_update_card",
        "Say what you are for and can do. skills replaces all: [{id, name, description?, tags?, examples?}].",
        json!({"name": text, "description": text, "skills": {"type": "array", "items": {"type": "object"}}}),
    );
    vec![
        Arc::new(Discover { spec: discover, swarm: Arc::clone(swarm) }),
        Arc::new(Update { spec: update, swarm: Arc::clone(swarm) }),
    ]
}

impl Tool for Discover {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        _context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = Arguments::new(arguments)?;
            let word = |name| -> Result<Option<String>, ToolError> {
                let text = arguments.optional::<String>(name)?.map(|text| text.trim().to_owned());
                Ok(text.filter(|text| !text.is_empty()))
            };
            let role = word("role")?.map(|role| named(&role)).transpose()?;
            let query = CardQuery { text: word("query")?, role, skill: word("skill")? };
            let limit = arguments.optional::<u64>("limit")?.unwrap_or(20).clamp(1, 100);
            let found = self.swarm.discover(&query)?;
            if found.is_empty() {
                return Ok(ToolOutput::text("no agent is like that"));
            }
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let mut lines: Vec<String> = found.iter().take(limit).map(describe).collect();
            if found.len() > limit {
                lines.push(format!("[{limit} of {} agents]", found.len()));
            }
            Ok(ToolOutput::text(lines.join("\n")))
        })
    }
}

impl Tool for Update {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = Arguments::new(arguments)?;
            let new = NewCard {
                name: arguments.optional("name")?,
                description: arguments.optional("description")?,
                skills: arguments.optional("skills")?,
            };
            let card = self.swarm.update_card(&By::call(context), new).await?;
            Ok(ToolOutput::text(format!(
                "your card says {}: {} ({} skills)",
                card.name,
                one_line(&card.description, SHORT),
                card.skills.len()
            )))
        })
    }
}

/// The most characters of a description in a list.
const SHORT: usize = 80;

fn describe((card, counts): &(Card, TaskCounts)) -> String {
    let skills: Vec<&str> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
    let skills = if skills.is_empty() { String::new() } else { format!(" Skills: {}.", skills.join(", ")) };
    format!(
        "{} ({}) {}: {}{skills} Tasks: {} completed, {} failed, {} in all.",
        card.agent,
        card.role.as_str(),
        card.name,
        one_line(&card.description, SHORT),
        counts.completed,
        counts.failed,
        counts.total
    )
}

fn named(word: &str) -> Result<Role, ToolError> {
    [Role::Orchestrator, Role::Sysadmin, Role::Worker]
        .into_iter()
        .find(|role| role.as_str() == word)
        .ok_or_else(|| ToolError::model("`role` must be orchestrator, sysadmin or worker"))
}

#[cfg(test)]
#[path = "card_tests.rs"]
mod tests;
