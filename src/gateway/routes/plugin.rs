//! `POST /api/plugin/tools/{name}` and `POST /api/plugin/events`: the requests of flock's plugin in OpenClaw, for the
//! agents whose turns OpenClaw runs.
//!
//! The plugin's token opens these two paths and no others. It proves that OpenClaw asks. OpenClaw names the agent and
//! the conversation, and flock checks that: it must be an agent that runs on OpenClaw, a conversation of that agent,
//! and a call that the agent's role and policy allow.

use std::sync::Arc;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::JsonResult;
use crate::agent::TurnEvent;
use crate::agent::delegated::{IncomingCall, ProgramReport, ProgramSource, ToolCallResponse};
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::state::Gateway;
use crate::openclaw::plugin::{LIST_MCP_TOOLS, RUNTIME};
use crate::provider::{Block, ToolSpec};
use crate::runtime::ToolEvent;
use crate::tool::policy;
use crate::tool::{CallContext, safe_text};

/// Longest time for a call. The plugin waits a little longer.
const CALL_TIMEOUT: Duration = Duration::from_secs(140);
/// Most bytes in a body.
pub(crate) const MAX_BODY: usize = 2 << 20;
/// Most bytes of a conversation's name, and of a call's id and a tool's name.
const MAX_KEY: usize = 400;
const MAX_NAME: usize = 128;
/// Most bytes of a list of tools, and of one description in it.
const MAX_LISTING: usize = 60 << 10;
const MAX_LISTED_DESCRIPTION: usize = 400;
/// Most bytes of arguments and of results that are kept of a reported call.
const MAX_REPORTED_BYTES: usize = 20_000;

/// A call of one of flock's tools.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginCall {
    agent_id: String,
    session_key: String,
    tool_call_id: String,
    #[serde(default)]
    params: Value,
}

/// A report about something that happened in OpenClaw.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginReport {
    event: ReportKind,
    agent_id: String,
    session_key: String,
    tool_call_id: Option<String>,
    tool: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<String>,
    duration_ms: Option<f64>,
    error: Option<String>,
}

/// The kind of a reported event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReportKind {
    /// A tool of OpenClaw is about to be called.
    BeforeToolCall,
    /// A call of such a tool has ended.
    AfterToolCall,
    /// The agent's run in that conversation has ended.
    AgentEnd,
}

/// Calls a tool. A failure that the model should read is a normal response, but an error in the request itself is not.
pub(crate) async fn call(
    State(gateway): State<Arc<Gateway>>,
    Path(tool): Path<String>,
    JsonBody(call): JsonBody<PluginCall>,
) -> JsonResult {
    let source = source(&gateway, &call.agent_id, &call.session_key)?;
    if tool == LIST_MCP_TOOLS {
        return Ok(Answer(call_result(&mcp_tools(&gateway, &source, &call.params)?)));
    }
    if !policy::is_flocks_own(&tool) {
        // OpenClaw runs the tools with other names itself, in its own sandbox.
        let tool = safe_text::start(&tool, MAX_NAME);
        return Err(ApiError::not_found(
            "tool_not_found",
            format!("{tool:?} is not one of flock's own tools"),
        ));
    }
    let cancel = CancellationToken::new();
    // The plugin closes the connection when its call is stopped. This future is then dropped, and the guard cancels the
    // call.
    let _stop = cancel.clone().drop_guard();
    let id = clean_name(&call.tool_call_id)?;
    // The plugin answers with JSON alone.
    let asked = IncomingCall { id, tool, arguments: call.params, cancel, progress: None };
    Ok(Answer(call_result(&run_call(&gateway, &source, asked, CALL_TIMEOUT).await)))
}

/// Returns which tools of MCP servers the agent may call, or the parameters of one of them.
fn mcp_tools(
    gateway: &Gateway,
    source: &ProgramSource,
    params: &Value,
) -> Result<ToolCallResponse, ApiError> {
    let agent = gateway.agent(source.agent.as_str())?;
    let offered = gateway.engine.own_tools(&agent);
    let granted: Vec<&ToolSpec> =
        offered.iter().filter(|spec| policy::is_of_mcp_server(&spec.name)).collect();
    let (text, is_error) = match params["tool"].as_str() {
        None => (mcp_listing(&granted), false),
        Some(wanted) => match granted.iter().find(|spec| spec.name == wanted) {
            Some(spec) => (format!("{}\nParameters: {}", spec.description, spec.parameters.text()), false),
            None => {
                let wanted = safe_text::start(wanted, MAX_NAME);
                (format!("{wanted:?} is not granted to you. {}", mcp_listing(&granted)), true)
            }
        },
    };
    let text = safe_text::middle_cut(&text, MAX_LISTING);
    let content = vec![Block::text(text)];
    Ok(ToolCallResponse { content, attachments: Vec::new(), is_error, is_lost: false })
}

/// Returns a line for each tool.
fn mcp_listing(granted: &[&ToolSpec]) -> String {
    if granted.is_empty() {
        return "No tool of an MCP server is granted to you.".to_owned();
    }
    let line = |spec: &&ToolSpec| {
        format!("{}: {}", spec.name, safe_text::start(&spec.description, MAX_LISTED_DESCRIPTION))
    };
    granted.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Runs a call of one of flock's tools, at most for this time.
pub(super) async fn run_call(
    gateway: &Gateway,
    source: &ProgramSource,
    asked: IncomingCall,
    limit: Duration,
) -> ToolCallResponse {
    let witness = |context: &CallContext, event: TurnEvent| {
        gateway.driver.note(context.turn, &context.session, &event);
    };
    let work = gateway.engine.call_tool_for(source, asked, &witness);
    let late = "the call took too long; its effect is unknown";
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| ToolCallResponse::lost(late))
}

/// Returns a call's result for the plugin: text and pictures, because OpenClaw knows no other parts.
fn call_result(answered: &ToolCallResponse) -> Value {
    let content: Vec<Value> = answered.content.iter().filter_map(shown).collect();
    json!({"content": content, "isError": answered.is_error})
}

/// Records something that happened in OpenClaw.
pub(crate) async fn report(
    State(gateway): State<Arc<Gateway>>,
    JsonBody(happened): JsonBody<PluginReport>,
) -> JsonResult {
    let source = source(&gateway, &happened.agent_id, &happened.session_key)?;
    // Calls of flock's own tools are recorded where they run.
    if happened.tool.as_deref().is_some_and(policy::is_flocks_own) {
        return Ok(Answer(json!({"recorded": false})));
    }
    let told = told(happened)?;
    let witness = |context: &CallContext, event: TurnEvent| {
        gateway.driver.note(context.turn, &context.session, &event);
    };
    gateway.engine.handle_report(RUNTIME, &source, told, &witness).await;
    Ok(Answer(json!({"recorded": true})))
}

/// Returns the agent and the conversation, if both belong to OpenClaw and to each other.
fn source(gateway: &Gateway, agent: &str, key: &str) -> Result<ProgramSource, ApiError> {
    let agent = gateway.agent(agent)?;
    if agent.runtime != RUNTIME {
        return Err(ApiError::forbidden(
            "not_an_agent_of_openclaw",
            format!("agent {} runs on {}, not on OpenClaw", agent.id, agent.runtime),
        ));
    }
    let prefix = format!("agent:{}:", agent.id);
    let is_plain = key.len() <= MAX_KEY && key.chars().all(|c| c.is_ascii_graphic());
    // The rest of the key is OpenClaw's, so only its prefix can be checked.
    if !is_plain || key.len() == prefix.len() || !key.starts_with(&prefix) {
        return Err(ApiError::forbidden(
            "session_of_another_agent",
            format!("this session does not belong to agent {}", agent.id),
        ));
    }
    Ok(ProgramSource { agent: agent.id, conversation: key.to_owned() })
}

fn told(happened: PluginReport) -> Result<ProgramReport, ApiError> {
    if happened.event == ReportKind::AgentEnd {
        return Ok(ProgramReport::Over);
    }
    let missing = || ApiError::invalid("invalid_body", "a tool call needs toolCallId and tool");
    let call = clean_name(&happened.tool_call_id.ok_or_else(missing)?)?;
    let tool = clean_name(&happened.tool.ok_or_else(missing)?)?;
    Ok(ProgramReport::Tool(match happened.event {
        ReportKind::BeforeToolCall => ToolEvent::Began { call, tool, arguments: arguments(happened.params) },
        _ => ToolEvent::Ended {
            call,
            tool,
            result: safe_text::middle_cut(&happened.result.unwrap_or_default(), MAX_REPORTED_BYTES),
            error: happened.error.map(|error| safe_text::start(&error, MAX_REPORTED_BYTES).to_owned()),
            took: happened.duration_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()),
        },
    }))
}

/// Returns the arguments of a call that OpenClaw decides about itself, cut to the size that is kept.
fn arguments(params: Value) -> Value {
    let text = params.to_string();
    if !params.is_object() {
        return json!({});
    }
    if text.len() > MAX_REPORTED_BYTES {
        json!({"cut": safe_text::start(&text, MAX_REPORTED_BYTES)})
    } else {
        params
    }
}

/// Returns an id or a name in a form that is safe in a log, a transcript and a provider's request.
fn clean_name(text: &str) -> Result<String, ApiError> {
    let name: String = text.chars().filter(char::is_ascii_graphic).take(MAX_NAME).collect();
    if name.is_empty() {
        return Err(ApiError::invalid("invalid_body", "a tool call needs an id and a name"));
    }
    Ok(name)
}

/// Returns a block of a result in the form of MCP, which the plugin also takes.
pub(super) fn shown(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, .. } => Some(json!({"type": "text", "text": text})),
        Block::Image { media_type, data, .. } => {
            Some(json!({"type": "image", "data": data, "mimeType": media_type}))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened(body: Value) -> Result<ProgramReport, ApiError> {
        told(serde_json::from_value(body).unwrap())
    }

    #[test]
    fn reports_are_bounded_and_never_trusted_in_shape() {
        let base = |event: &str| json!({"event": event, "agentId": "coder", "sessionKey": "agent:coder:x", "toolCallId": "c 1\u{7}\n", "tool": "exec"});
        let mut long = base("before_tool_call");
        long["params"] = json!({"command": "x".repeat(100_000)});
        let ProgramReport::Tool(ToolEvent::Began { call, arguments, .. }) = happened(long).unwrap() else {
            panic!()
        };
        assert_eq!(call, "c1");
        assert!(arguments.to_string().len() < 2 * MAX_REPORTED_BYTES);
        let mut odd = base("before_tool_call");
        odd["params"] = json!("text");
        assert!(
            matches!(happened(odd).unwrap(), ProgramReport::Tool(ToolEvent::Began { arguments, .. }) if arguments == json!({}))
        );
        for ms in [json!(-5), json!(1e300), Value::Null] {
            let mut after = base("after_tool_call");
            after["durationMs"] = ms;
            after["result"] = "r".repeat(100_000).into();
            let ProgramReport::Tool(ToolEvent::Ended { took, result, .. }) = happened(after).unwrap() else {
                panic!()
            };
            assert_eq!(took, None);
            assert!(result.len() < 2 * MAX_REPORTED_BYTES);
        }
        let mut nameless = base("after_tool_call");
        nameless["toolCallId"] = "\u{0}".into();
        assert!(happened(nameless).is_err());
        let mut nothing = base("after_tool_call");
        nothing["tool"] = Value::Null;
        assert!(happened(nothing).is_err());
        assert_eq!(happened(base("agent_end")).unwrap(), ProgramReport::Over);
    }
}
