//! The five tools over [`SessionService`].

use std::sync::Arc;

use serde_json::json;

use super::{SessionService, SessionServiceError, spawn_key, text};
use crate::error;
use crate::id::SessionKey;
use crate::tool::arguments::{Arguments, check_size};
use crate::tool::definition::{Effect, ToolGroup};
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolDefinition, ToolError, ToolResult, safe_text};

/// Number of messages in a history if the call names none.
const DEFAULT_LIMIT: u32 = 20;
/// Maximum number of messages in a history.
const MAX_LIMIT: u32 = 200;

/// Maximum bytes of a message or a task.
const MAX_TEXT: usize = 64 * 1024;

/// Maximum bytes of the answer of a spawned session that the caller receives.
const MAX_ANSWER: usize = 30 * 1024;

const SESSIONS: ToolDefinition = ToolDefinition { group: ToolGroup::Sessions, ..ToolDefinition::BUILT_IN };

pub static LIST: ToolDefinition = ToolDefinition {
    name: "sessions_list",
    description: "List your own sessions (conversations).",
    effect: Effect::Reads,
    ..SESSIONS
};

pub static HISTORY: ToolDefinition = ToolDefinition {
    name: "sessions_history",
    description: "Read the newest messages of one of your sessions.",
    properties: || {
        json!({
            "sessionKey": {"type": "string"},
            "limit": {"type": "integer"}
        })
    },
    required: &["sessionKey"],
    effect: Effect::Reads,
    ..SESSIONS
};

pub(crate) static SEND: ToolDefinition = ToolDefinition {
    name: "sessions_send",
    description: "Send a message to another of your sessions; no answer comes here.",
    properties: || json!({"sessionKey": {"type": "string"}, "message": {"type": "string"}}),
    required: &["sessionKey", "message"],
    effect: Effect::Adds,
    ..SESSIONS
};

pub(crate) static SPAWN: ToolDefinition = ToolDefinition {
    name: "sessions_spawn",
    description: "Run a task in a new session of your own and get its final answer. It sees only \
                  task, not this conversation.",
    properties: || {
        json!({
            "task": {"type": "string"},
            "agentId": {"type": "string", "description": "only yourself (default)"}
        })
    },
    required: &["task"],
    effect: Effect::Adds,
    ..SESSIONS
};

pub static STATUS: ToolDefinition = ToolDefinition {
    name: "session_status",
    description: "Show state, model, turns and tokens of a session (default: this).",
    properties: || json!({"sessionKey": {"type": "string"}}),
    effect: Effect::Reads,
    ..SESSIONS
};

type Sessions = Arc<dyn SessionService>;

/// Returns all five tools in the order in which they are offered.
///
/// No call races against the stop of the turn. A spawned turn ends by the token itself, so that it is marked as
/// stopped. A message that is stored must be reported. The other calls return at once.
#[must_use]
pub fn all(sessions: &Sessions) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&LIST, sessions, |s, c, _| Box::pin(list(s, c))),
        FunctionTool::shared(&HISTORY, sessions, |s, c, a| Box::pin(history(s, c, a))),
        FunctionTool::shared(&SEND, sessions, |s, c, a| Box::pin(send(s, c, a))),
        FunctionTool::shared(&SPAWN, sessions, |s, c, a| Box::pin(spawn(s, c, a))),
        FunctionTool::shared(&STATUS, sessions, |s, c, a| Box::pin(status(s, c, a))),
    ]
}

async fn list(sessions: &Sessions, context: &CallContext) -> ToolResult {
    Ok(text::list(&sessions.list(&context.agent).await.map_err(for_model)?))
}

async fn history(sessions: &Sessions, context: &CallContext, arguments: Arguments) -> ToolResult {
    let key = parse_own_key(context, &arguments.required::<String>("sessionKey")?)?;
    let limit = arguments.limit(DEFAULT_LIMIT, MAX_LIMIT)? as usize;
    Ok(text::history(&sessions.history(&key, limit).await.map_err(for_model)?))
}

async fn send(sessions: &Sessions, context: &CallContext, arguments: Arguments) -> ToolResult {
    let key = parse_own_key(context, &arguments.required::<String>("sessionKey")?)?;
    // The message would only become the next input of the turn that sends it.
    if key == context.session {
        return Err(ToolError::model("that is this session"));
    }
    let message = body(&arguments, "message")?;
    sessions.send(&context.session, &key, message).await.map_err(for_model)?;
    Ok(format!("sent to {key}, which will handle it"))
}

async fn status(sessions: &Sessions, context: &CallContext, arguments: Arguments) -> ToolResult {
    let key = match arguments.optional::<String>("sessionKey")? {
        Some(text) => parse_own_key(context, &text)?,
        None => context.session.clone(),
    };
    Ok(text::status(&sessions.status(&key).await.map_err(for_model)?))
}

async fn spawn(sessions: &Sessions, context: &CallContext, arguments: Arguments) -> ToolResult {
    // Models often name themselves, which is accepted.
    if let Some(agent) = arguments.optional::<String>("agentId")?
        && agent != context.agent.as_str()
    {
        return Err(ToolError::model(format!(
            "you can start sessions only of yourself ({}): ask another agent by message or in a channel",
            context.agent
        )));
    }
    let task = body(&arguments, "task")?;
    let child = spawn_key::child(&context.session).ok_or_else(|| {
        ToolError::model(format!(
            "this session has the nesting depth {}, which is the limit: do the task here",
            spawn_key::MAX_DEPTH
        ))
    })?;
    let answer =
        sessions.spawn(&context.session, child.clone(), task, &context.cancel).await.map_err(for_model)?;
    Ok(format!("{child} answered:\n{}", safe_text::middle_cut(&answer, MAX_ANSWER)))
}

/// Parses a key and checks that it names a session of the caller. A key of another agent is refused with the same words
/// whether such a session exists or not, so that nothing is revealed.
fn parse_own_key(context: &CallContext, text: &str) -> Result<SessionKey, ToolError> {
    let key: SessionKey =
        text.parse().map_err(|_| ToolError::model("that is not a session key: sessions_list shows yours"))?;
    if *key.agent() != context.agent {
        return Err(ToolError::model("that session belongs to another agent: use only your own"));
    }
    Ok(key)
}

fn body(arguments: &Arguments, name: &str) -> Result<String, ToolError> {
    let text: String = arguments.required(name)?;
    // No model API accepts a blank message, so the turn that it starts would fail.
    if text.trim().is_empty() {
        return Err(ToolError::model(format!("`{name}` is empty")));
    }
    check_size(name, text.len(), MAX_TEXT, ": write a file and name it")?;
    Ok(text)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn for_model(failure: SessionServiceError) -> ToolError {
    // The model only gets the general sentence, not the source of the failure.
    if matches!(failure, SessionServiceError::Failed(_)) {
        tracing::warn!("session tool: {}", error::chain(&failure));
    }
    ToolError::model(failure.to_string())
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
