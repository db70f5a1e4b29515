//! The tools `flock_create_agent` and `flock_decommission_agent`, with which the orchestrator requests a larger or
//! smaller team.

use std::sync::Arc;

use crate::swarm::Actor;
use crate::swarm::triage::{Request, Triage};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Returns both tools.
#[must_use]
pub(crate) fn all(triage: &Arc<Triage>) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&team::CREATE_AGENT, triage, |t, c, a| {
            Box::pin(submit_request(t, c, a, create))
        }),
        FunctionTool::shared(&team::DECOMMISSION_AGENT, triage, |t, c, a| {
            Box::pin(submit_request(t, c, a, remove))
        }),
    ]
}

async fn submit_request(
    triage: &Arc<Triage>,
    context: &CallContext,
    arguments: Arguments,
    read: fn(&Arguments) -> Result<Request, ToolError>,
) -> ToolResult {
    let reason: String = arguments.required("reason")?;
    let request = read(&arguments)?;
    Ok(triage.request(&Actor::call(context), request, &reason, &context.cancel).await?)
}

fn create(arguments: &Arguments) -> Result<Request, ToolError> {
    arguments.only(&["newAgentId", "archetype", "model", "reason", "role"])?;
    let id: String = arguments.required("newAgentId")?;
    let archetype: Option<String> = arguments.optional("archetype")?;
    let model: Option<String> = arguments.optional("model")?;
    let role: Option<String> = arguments.optional("role")?;
    // Another role is refused instead of ignored, so that the caller does not believe that it got that role.
    if role.is_some_and(|role| role != "worker") {
        return Err(ToolError::model("a new agent is always a worker; omit `role`"));
    }
    // Models often send an empty string for a parameter that they do not use.
    let given = |text: &String| !text.is_empty();
    Ok(Request::AgentCreate {
        id: id.parse()?,
        archetype: archetype.filter(given).map(|name| name.parse()).transpose()?,
        model: model.filter(given).map(|name| name.parse()).transpose()?,
    })
}

fn remove(arguments: &Arguments) -> Result<Request, ToolError> {
    arguments.only(&["targetAgentId", "reason"])?;
    let id: String = arguments.required("targetAgentId")?;
    Ok(Request::AgentRemove { id: id.parse()? })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn made(arguments: &Value) -> Result<Request, ToolError> {
        create(&Arguments::new(arguments).unwrap())
    }

    #[test]
    fn only_workers_are_created_and_unknown_fields_are_refused() {
        assert!(made(&json!({"newAgentId": "bob", "reason": "x"})).is_ok());
        assert!(made(&json!({"newAgentId": "bob", "role": "worker", "reason": "x"})).is_ok());
        for (field, value) in [("role", "sysadmin"), ("role", "orchestrator"), ("autonomy", "full")] {
            let error = made(&json!({"newAgentId": "bob", "reason": "x", field: value})).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
        let unknown = json!({"targetAgentId": "bob", "reason": "x", "purge": true});
        assert!(remove(&Arguments::new(&unknown).unwrap()).is_err());
    }
}
