//! The tools between the team and its sysadmin: requests for things that an agent may not do itself, decisions about
//! their level, and a restart of the gateway.

use std::sync::Arc;

use serde_json::Value;

use crate::clean::summary;
use crate::store::Level;
use crate::swarm::Actor;
use crate::swarm::task::MAX_SUMMARY;
use crate::swarm::triage::{Request, Triage};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Returns the tools of this module in the order in which they are offered.
#[must_use]
pub(crate) fn all(triage: &Arc<Triage>) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&team::SYSADMIN_REQUEST, triage, |s, c, a| Box::pin(ask(s, c, a))),
        FunctionTool::shared(&team::TRIAGE_DECISION, triage, |s, c, a| Box::pin(decide(s, c, a))),
        FunctionTool::shared(&team::RESTART_GATEWAY, triage, |s, c, a| Box::pin(restart(s, c, a))),
    ]
}

/// Builds the request from the fields of its kind. An empty field of another kind is ignored. A field of another kind
/// with a value is an error: the request must be exactly what the agent believes it asked for.
fn typed(arguments: Arguments) -> Result<Request, ToolError> {
    let mut fields = arguments.into_fields();
    for name in ["reason", "urgency"] {
        fields.remove(name);
    }
    fields.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
    // Models sometimes send only the text of a request to the sysadmin.
    if !fields.contains_key("kind") && fields.contains_key("request") {
        fields.insert("kind".to_owned(), "other".into());
    }
    if fields.get("kind").is_some_and(|kind| kind == "other")
        && let Some(mut request) = fields.get("request").and_then(Value::as_str).map(str::to_owned)
    {
        // A request to the sysadmin has only one text, so further fields are appended to it.
        for (name, word) in [("context", "Context"), ("project", "Project")] {
            if let Some(more) = fields.remove(name) {
                let more = more.as_str().map_or_else(|| more.to_string(), str::to_owned);
                request.extend(["\n\n", word, ": ", more.as_str()]);
            }
        }
        fields.insert("request".to_owned(), request.into());
    }
    let request = serde_json::from_value(Value::Object(fields))
        .map_err(|error| ToolError::model(format!("invalid request: {error}")))?;
    match request {
        Request::AgentCreate { .. }
        | Request::AgentRemove { .. }
        | Request::BridgeLink { .. }
        | Request::McpTool { .. }
        | Request::McpQuestion { .. }
        | Request::Schedule { .. } => {
            Err(ToolError::model("`kind` must be package, egress, mount, command or other"))
        }
        // flock itself determines how a command runs on the host, and a person approves exactly that.
        Request::Command { execution: Some(_), .. } => {
            Err(ToolError::model("flock decides how a command runs on the host: omit `execution`"))
        }
        request => Ok(request),
    }
}

async fn ask(triage: &Arc<Triage>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let request = typed(arguments.clone())?;
    let reason = match (arguments.optional::<String>("reason")?, &request) {
        // A text for the sysadmin explains itself, so it also serves as the reason.
        (None, Request::Other { request }) => summary(request, MAX_SUMMARY),
        (Some(reason), _) => reason,
        (None, _) => arguments.required("reason")?,
    };
    Ok(triage.request(&Actor::call(context), request, &reason, &context.cancel).await?)
}

async fn decide(triage: &Arc<Triage>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let id: String = arguments.required("request_id")?;
    let level: Level = (arguments.required::<String>("level")?.parse())
        .map_err(|_| ToolError::model("`level` must be GREEN, YELLOW or RED"))?;
    let reasoning: String = arguments.required("reasoning")?;
    if arguments.optional::<bool>("revoke")? == Some(true) {
        return Ok(triage.take_back(&Actor::call(context), &id, &reasoning).await?);
    }
    Ok(triage.raise(&Actor::call(context), &id, level, &reasoning).await?)
}

async fn restart(triage: &Arc<Triage>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let reason: String = arguments.required("reason")?;
    Ok(triage.restart_gateway(&Actor::call(context), &reason).await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(arguments: &Value) -> Result<Request, ToolError> {
        super::typed(Arguments::new(arguments)?)
    }

    #[test]
    fn the_older_form_becomes_a_free_text_request() {
        let older =
            json!({"request": "Add ripgrep", "context": "slow grep", "urgency": "high", "project": "web"});
        let Ok(Request::Other { request }) = typed(&older) else { panic!("{older}") };
        assert_eq!(request, "Add ripgrep\n\nContext: slow grep\n\nProject: web");
        let plain = typed(&json!({"request": "Add ripgrep"}));
        assert!(matches!(plain, Ok(Request::Other { request }) if request == "Add ripgrep"));
        assert!(typed(&json!({"kind": "package", "package": "hello", "context": "x"})).is_err());
        assert!(typed(&json!({"context": "x"})).is_err());
    }

    #[test]
    fn fields_of_another_kind_are_refused() {
        let good =
            json!({"kind": "package", "package": "hello", "reason": "x", "urgency": "high", "host": ""});
        assert!(typed(&good).is_ok());
        for bad in [
            json!({"kind": "package", "package": "hello", "host": "a.example"}),
            json!({"kind": "package", "package": "hello", "agentId": "other"}),
            json!({"kind": "agent-create", "id": "x"}),
            json!({"kind": "agent-remove", "id": "x"}),
            json!({"kind": "bridge-link", "bridge": "b", "channel": "c", "external": "x", "title": "x", "hears": [],
                "widens": false}),
            json!({"kind": "mcp-tool", "server": "files", "tool": "x", "sha256": "aa"}),
            json!({"kind": "egress"}),
            json!({"kind": "command", "command": "id", "execution": {"cwd": "/etc", "env": {}}}),
            json!({"package": "hello"}),
            json!([]),
        ] {
            assert!(typed(&bad).is_err(), "{bad}");
        }
    }
}
