//! `POST /api/message`: a turn of an agent in a few words. `GET /api/messages`: what was said in a session.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::chat::{failure, record, refusal};
use super::sessions;
use crate::agent::messages::Stored;
use crate::agent::{Command, TurnError, TurnRequest};
use crate::clock::unix_ms;
use crate::config::{Agent, Role};
use crate::gateway::body::Json;
use crate::gateway::driver::Origin;
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
use crate::process::login;
use crate::provider::{Message, Role as Speaker};

/// Messages of one answer, unless it is said, and at most.
const LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

/// What is said to whom.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Say {
    prompt: String,
    agent: Option<String>,
    session_key: Option<String>,
    #[serde(default)]
    force_new: bool,
}

/// Which messages.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    agent: Option<String>,
    session_key: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    include_trace: String,
}

/// Runs a turn, and gives its answer. With `forceNew` in a conversation that begins with it.
pub async fn say(
    State(gateway): State<Arc<Gateway>>,
    Json(Say { prompt, agent, session_key, force_new }): Json<Say>,
) -> Result<Answer<Value>, ApiError> {
    if prompt.trim().is_empty() {
        return Err(ApiError::invalid("no_user_message", "the prompt is empty"));
    }
    let agent = chosen(&gateway, agent.as_deref(), session_key.as_deref())?;
    let session = session_of(&agent, session_key.as_deref())?;
    let turn = TurnId::new();
    let input = vec![Message::text(Speaker::User, &*prompt)];
    record(&gateway, &agent.id, &session, turn, &input).await?;
    if force_new {
        sessions::record(&gateway, &session, "session.reset").await?;
    }
    let order = TurnRequest {
        agent: agent.id.clone(),
        session: session.clone(),
        turn,
        input,
        context: Vec::new(),
        provenance: None,
        command: Command::parse(&prompt),
        inbox: None,
    };
    // One right behind the other in the session's line: no other turn comes between.
    let begun = force_new.then(|| sessions::queued(&gateway, &session, Command::Fresh)).transpose()?;
    let mut running =
        gateway.driver.start(order, Origin::Request, CancellationToken::new(), |_| {}).map_err(refusal)?;
    if let Some(mut begun) = begun {
        begun.end().await.map_err(failure)?;
    }
    let outcome = running.end().await.map_err(failure)?;
    let stored = stored(&gateway, &session, turn).await.map_err(|mut error| {
        error.begun = true;
        error
    })?;
    let mut answer = stored.map_or_else(
        // What a command says is for people, and no message of the conversation.
        || {
            json!({"id": turn, "role": "assistant", "content": outcome.text, "cli": agent.runtime,
                "model": outcome.model, "created_at": unix_ms()})
        },
        |stored| shown(&stored, false),
    );
    answer["sessionKey"] = json!(session);
    Ok(Answer(answer))
}

/// The newest messages of a session, oldest first.
pub async fn list(
    State(gateway): State<Arc<Gateway>>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Answer<Value>, ApiError> {
    let Query(filter) = filter.map_err(|error| ApiError::invalid("invalid_query", error.body_text()))?;
    let with_trace = match &*filter.include_trace {
        "" | "0" | "false" => false,
        "1" | "true" => true,
        _ => return Err(ApiError::invalid("invalid_query", "includeTrace is 1 or 0")),
    };
    let limit = filter.limit.unwrap_or(LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::invalid("invalid_query", format!("limit is a number from 1 to {MAX_LIMIT}")));
    }
    let key = filter.session_key.as_deref();
    let session = session_of(&chosen(&gateway, filter.agent.as_deref(), key)?, key)?;
    let engine = sessions::engine(&gateway)?.clone();
    let read = tokio::task::spawn_blocking(move || engine.messages(&session, limit, with_trace)).await;
    let messages = read.map_err(ApiError::internal)?.map_err(failure_of)?;
    let messages: Vec<Value> = messages.iter().map(|message| shown(message, with_trace)).collect();
    Ok(Answer(json!({"messages": messages})))
}

fn failure_of(error: TurnError) -> ApiError {
    let mut error = failure(error.into());
    error.begun = false;
    error
}

/// What a turn left as its answer.
async fn stored(gateway: &Gateway, session: &SessionKey, turn: TurnId) -> Result<Option<Stored>, ApiError> {
    let Some(engine) = gateway.engine.get().cloned() else { return Ok(None) };
    let session = session.clone();
    let read = tokio::task::spawn_blocking(move || engine.answer_of(&session, turn)).await;
    read.map_err(ApiError::internal)?.map_err(failure_of)
}

fn shown(message: &Stored, with_trace: bool) -> Value {
    let role = if message.role == Speaker::Assistant { "assistant" } else { "user" };
    let mut shown = json!({"id": message.id, "role": role, "content": message.content, "cli": message.runtime,
        "model": message.model, "created_at": message.at});
    if with_trace {
        shown["trace"] = if message.trace.is_empty() { Value::Null } else { message.trace.join("\n").into() };
    }
    shown
}

/// The agent that is named, else that of the session, else the orchestrator.
pub(super) fn chosen(gateway: &Gateway, agent: Option<&str>, key: Option<&str>) -> Result<Agent, ApiError> {
    let of_key = || key.and_then(|key| key.parse::<SessionKey>().ok()).map(|key| key.agent().to_string());
    if let Some(id) = agent.map(str::to_owned).or_else(of_key) {
        return gateway.agent(&id);
    }
    let config = gateway.config();
    let orchestrator = config.agents.iter().find(|agent| agent.role == Role::Orchestrator);
    orchestrator.cloned().ok_or_else(|| {
        ApiError::not_found("agent_not_found", "there is no orchestrator; name an agent")
            .with_hint("flock list")
    })
}

/// The session that is named, else the one that this home's person has with the agent.
fn session_of(agent: &Agent, key: Option<&str>) -> Result<SessionKey, ApiError> {
    let Some(key) = key else { return Ok(own_session(&agent.id)) };
    let key: SessionKey =
        key.parse().map_err(|error| ApiError::invalid("invalid_session_key", format!("{error}")))?;
    if key.agent() != &agent.id {
        return Err(ApiError::invalid(
            "session_of_another_agent",
            format!("session {key} is not one of agent {}", agent.id),
        ));
    }
    Ok(key)
}

/// As `flock chat` names it.
fn own_session(agent: &AgentId) -> SessionKey {
    SessionKey::new(agent, SessionKind::Main, &login())
}
