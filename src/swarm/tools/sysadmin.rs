//! The tools between the team and its sysadmin: requests for things that an agent may not do itself, decisions about
//! their level, and a restart of the gateway.

use std::sync::Arc;

use serde_json::{Value, json};

use super::team_tool::TeamTool;
use crate::clean::summary;
use crate::provider::BoxFuture;
use crate::store::Level;
use crate::swarm::By;
use crate::swarm::task::MAX_SUMMARY;
use crate::swarm::triage::{Request, Triage};
use crate::tool::arguments::Arguments;
use crate::tool::{CallContext, Tool, ToolError};

/// Returns the tools of this module in the order in which they are offered.
#[must_use]
pub fn all(triage: &Arc<Triage>) -> Vec<Arc<dyn Tool>> {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    vec![
        TeamTool::shared(
            triage,
            "flock_sysadmin_request",
            "Request something that you may not do yourself: package (name in nixpkgs; action install or remove), egress \
             (host, port), mount (path on the host, read-only), command (on the host) or other (request: text for \
             the sysadmin). Returns the result, or who decides.",
            &json!({
                "kind": {"enum": ["package", "egress", "mount", "command", "other"]},
                "reason": text, "package": text, "action": text, "host": text, "port": number, "path": text,
                "target": text, "command": text, "timeout": number, "request": text, "urgency": text
            }),
            &["kind", "reason"],
            ask,
        ),
        TeamTool::shared(
            triage,
            "triage_decision",
            "Confirm or raise the level of a request that has not begun. YELLOW carries out one that waits for you. \
             revoke refuses that one, or takes back what was done without a person.",
            &json!({
                "request_id": text, "level": {"enum": ["GREEN", "YELLOW", "RED"]}, "reasoning": text,
                "revoke": {"type": "boolean"},
                "action_plan": text, "risk_factors": {"type": "array", "items": text}
            }),
            &["request_id", "level", "reasoning"],
            decide,
        ),
        TeamTool::shared(
            triage,
            "flock_restart_gateway",
            "Restart the gateway after this turn has ended.",
            &json!({"reason": text}),
            &["reason"],
            restart,
        ),
    ]
}

type ToolFuture<'a> = BoxFuture<'a, Result<String, ToolError>>;

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
        Request::AgentCreate { .. } | Request::AgentRemove { .. } => {
            Err(ToolError::model("`kind` must be package, egress, mount, command or other"))
        }
        // flock itself determines how a command runs on the host, and a person approves exactly that.
        Request::Command { execution: Some(_), .. } => {
            Err(ToolError::model("flock decides how a command runs on the host: omit `execution`"))
        }
        request => Ok(request),
    }
}

fn ask<'a>(triage: &'a Arc<Triage>, context: &'a CallContext, arguments: Arguments) -> ToolFuture<'a> {
    Box::pin(async move {
        let request = typed(arguments.clone())?;
        let reason = match (arguments.optional::<String>("reason")?, &request) {
            // A text for the sysadmin explains itself, so it also serves as the reason.
            (None, Request::Other { request }) => summary(request, MAX_SUMMARY),
            (Some(reason), _) => reason,
            (None, _) => arguments.required("reason")?,
        };
        Ok(triage.request(&By::call(context), request, &reason, &context.cancel).await?)
    })
}

fn decide<'a>(triage: &'a Arc<Triage>, context: &'a CallContext, arguments: Arguments) -> ToolFuture<'a> {
    Box::pin(async move {
        let id: String = arguments.required("request_id")?;
        let level = match arguments.required::<String>("level")?.to_ascii_uppercase().as_str() {
            "GREEN" => Level::Green,
            "YELLOW" => Level::Yellow,
            "RED" => Level::Red,
            _ => return Err(ToolError::model("`level` must be GREEN, YELLOW or RED")),
        };
        let reasoning: String = arguments.required("reasoning")?;
        if arguments.optional::<bool>("revoke")? == Some(true) {
            return Ok(triage.take_back(&By::call(context), &id, &reasoning).await?);
        }
        Ok(triage.raise(&By::call(context), &id, level, &reasoning).await?)
    })
}

fn restart<'a>(triage: &'a Arc<Triage>, context: &'a CallContext, arguments: Arguments) -> ToolFuture<'a> {
    Box::pin(async move {
        let reason: String = arguments.required("reason")?;
        Ok(triage.restart_gateway(&By::call(context), &reason).await?)
    })
}

#[cfg(test)]
mod tests {
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
            json!({"kind": "egress"}),
            json!({"kind": "command", "command": "id", "execution": {"cwd": "/etc", "env": {}}}),
            json!({"package": "hello"}),
            json!([]),
        ] {
            assert!(typed(&bad).is_err(), "{bad}");
        }
    }
}
