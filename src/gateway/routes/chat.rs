//! `POST /v1/chat/completions`: a turn of an agent, as OpenAI's clients ask for one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use tokio_util::sync::CancellationToken;

use super::models::{agent_name, as_model};
use crate::agent::{Command, TurnError, TurnRequest};
use crate::clock::unix_ms;
use crate::gateway::body::Json;
use crate::gateway::driver::{Failure, Origin, Refused};
use crate::gateway::error::ApiError;
use crate::gateway::openai::chunk::{Extras, Writer};
use crate::gateway::openai::{ChatRequest, Head, completion};
use crate::gateway::state::Gateway;
use crate::gateway::stream::{Inlet, Outlet};
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
use crate::provider::{Block, Message, ProviderError};
use crate::runtime::RuntimeError;
use crate::store::{Level, text_digest};
use crate::swarm::By;

/// Names the agent, where `model` does not.
const AGENT: &str = "x-openclaw-agent-id";
/// Names the session that goes on.
const SESSION: &str = "x-openclaw-session-key";
/// `1`: a streamed answer also tells, as named events, what the agent does.
pub const ACTIVITY: &str = "x-flock-activity";
/// Tells the session's key.
const OUR_SESSION: &str = "x-flock-session-key";
/// Tells the turn's id.
const OUR_TURN: &str = "x-flock-turn-id";

/// The configuration's switch for this path.
const ENABLED: &str = "gateway.http.endpoints.chatCompletions.enabled";

/// How long a streamed answer may wait for its first word before its head is sent.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// Runs a turn and answers with its text, whole or as it comes.
pub async fn complete(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    Json(request): Json<ChatRequest>,
) -> Result<Response<Body>, ApiError> {
    if !gateway.config().chat_completions {
        return Err(ApiError::not_found(
            "endpoint_disabled",
            format!("{ENABLED} is false in the configuration"),
        )
        .with_hint(format!("flock config set {ENABLED} true")));
    }
    let agent = chosen_agent(&gateway, &headers, &request.model)?;
    let key = session_key(&headers, &agent)?;
    let model = request.model.clone();
    let streams = request.streams();
    let extras = Extras {
        usage: request.includes_usage(),
        activity: headers.get(ACTIVITY).is_some_and(|value| value == "1"),
    };
    let mut input = request.into_input()?;
    // Only a session that goes on has something to compact or to leave.
    let asked = key.as_ref().and_then(|_| input.messages.last());
    let command = asked.and_then(|asked| Command::parse(&asked.joined_text()));
    let turn = TurnId::new();
    let session = match key {
        Some(key) => {
            // The session has its own memory of what came before.
            input.messages.drain(..input.messages.len() - 1);
            key
        }
        None => SessionKey::new(&agent, SessionKind::Request, &turn.to_string()),
    };
    record(&gateway, &agent, &session, turn, &input.messages).await?;
    let head = Head::new(turn, model);
    let order = TurnRequest {
        agent,
        session: session.clone(),
        turn,
        input: input.messages,
        context: input.context,
        provenance: None,
        command,
        inbox: None,
    };
    let mut response = if streams {
        stream(&gateway, order, &head, extras).await?
    } else {
        let mut turn = gateway
            .driver
            .start(order, Origin::Request, CancellationToken::new(), |_| {})
            .map_err(refusal)?;
        let outcome = turn.end().await.map_err(failure)?;
        axum::Json(completion(&head, &outcome)).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in [(OUR_SESSION, session.as_str()), (OUR_TURN, &turn.to_string())] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    Ok(response)
}

/// Writes into the audit that a person has a turn, without what they say.
pub(super) async fn record(
    gateway: &Gateway,
    agent: &AgentId,
    session: &SessionKey,
    turn: TurnId,
    messages: &[Message],
) -> Result<(), ApiError> {
    let blocks = messages.last().map_or(&[][..], |message| &message.content);
    let text: String = blocks
        .iter()
        .filter_map(|block| if let Block::Text { text, .. } = block { Some(text.as_str()) } else { None })
        .collect();
    let detail = format!("{} bytes, sha256 {}", text.len(), text_digest(&text));
    let by = By { session: Some(session.clone()), turn: Some(turn), ..By::human("owner") };
    let entry = by.entry("chat.turn", agent.as_str(), Level::Green, detail);
    gateway.swarm.store().audit(entry, unix_ms()).await.map_err(ApiError::internal)
}

async fn stream(
    gateway: &Gateway,
    order: TurnRequest,
    head: &Head,
    extras: Extras,
) -> Result<Response<Body>, ApiError> {
    let cancel = CancellationToken::new();
    let inlet = Inlet::new(Writer::new(head, extras), gateway.limits.unread, cancel.clone());
    let sink = inlet.clone();
    let turn = gateway
        .driver
        .start(order, Origin::Request, cancel, move |event| sink.put(&event))
        .map_err(refusal)?;
    let mut outlet = Outlet::new(&inlet, turn);
    outlet.first(FIRST_WORD).await.map_err(failure)?;
    let mut response = Response::new(Body::new(outlet));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// The agent that `model` and the header name; both may, if they agree.
fn chosen_agent(gateway: &Gateway, headers: &HeaderMap, model: &str) -> Result<AgentId, ApiError> {
    let header = text(headers, AGENT)?;
    let name = match (agent_name(model), header) {
        // OpenClaw's own name for "whichever agent the header says".
        ("openclaw" | "flock", Some(header)) => header,
        (name, Some(header)) if header != name => {
            return Err(ApiError::invalid(
                "agent_mismatch",
                format!("the model and the header {AGENT} name different agents"),
            ));
        }
        (name, _) => name,
    };
    Ok(gateway.agent(name).map_err(as_model)?.id)
}

fn session_key(headers: &HeaderMap, agent: &AgentId) -> Result<Option<SessionKey>, ApiError> {
    let Some(key) = text(headers, SESSION)? else { return Ok(None) };
    let key: SessionKey =
        key.parse().map_err(|error| ApiError::invalid("invalid_session_key", format!("{error}")))?;
    if key.agent() != agent {
        return Err(ApiError::invalid(
            "session_of_another_agent",
            format!("session {key} is not one of agent {agent}"),
        ));
    }
    Ok(Some(key))
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, ApiError> {
    match headers.get(name).map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) if text.trim().is_empty() => Ok(None),
        Some(Ok(text)) => Ok(Some(text.trim())),
        Some(Err(_)) => Err(ApiError::invalid("invalid_header", format!("the header {name} is not text"))),
    }
}

/// What a client is told whose turn was not taken on.
#[must_use]
pub fn refusal(refused: Refused) -> ApiError {
    let (status, code) = match refused {
        Refused::Full(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many_turns"),
        Refused::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    let mut error = ApiError::new(status, code, refused.to_string());
    error.retry_after = Some(Duration::from_secs(1));
    error
}

/// What a client is told whose turn failed.
#[must_use]
pub fn failure(failure: Failure) -> ApiError {
    let mut error = match failure {
        Failure::Lost => ApiError::internal("the turn's task broke"),
        Failure::Turn(TurnError::Provider(error)) => provider_failure(error),
        Failure::Turn(error) => turn_failure(error),
    };
    error.begun = true;
    error
}

fn turn_failure(error: TurnError) -> ApiError {
    let (status, code) = match &error {
        TurnError::UnknownAgent(_) => (StatusCode::NOT_FOUND, "model_not_found"),
        TurnError::WrongAgent { .. } => (StatusCode::BAD_REQUEST, "session_of_another_agent"),
        TurnError::NoInput => (StatusCode::BAD_REQUEST, "no_user_message"),
        TurnError::TooLong { .. } => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
        TurnError::WrongRuntime { .. } => (StatusCode::NOT_IMPLEMENTED, "runtime_not_supported"),
        TurnError::Runtime(error) => match error {
            RuntimeError::NotInstalled { .. } => (StatusCode::FAILED_DEPENDENCY, "runtime_not_installed"),
            RuntimeError::NoModel { .. } => (StatusCode::FAILED_DEPENDENCY, "runtime_no_model"),
            RuntimeError::NotRunning { .. } => (StatusCode::SERVICE_UNAVAILABLE, "runtime_not_running"),
            RuntimeError::NotBegun { .. } => (StatusCode::SERVICE_UNAVAILABLE, "runtime_not_begun"),
            RuntimeError::Unanswered { .. } => (StatusCode::BAD_GATEWAY, "provider_failed"),
            RuntimeError::Paused { .. } => (StatusCode::PAYMENT_REQUIRED, "agent_paused"),
            RuntimeError::Refused { .. } => (StatusCode::BAD_GATEWAY, "runtime_refused"),
            RuntimeError::Failed { .. } => (StatusCode::BAD_GATEWAY, "runtime_failed"),
            RuntimeError::Interrupted { .. } => (StatusCode::BAD_GATEWAY, "runtime_interrupted"),
        },
        TurnError::NoModel(_) => (StatusCode::FAILED_DEPENDENCY, "no_model"),
        TurnError::NoSession(_) => (StatusCode::NOT_FOUND, "session_not_found"),
        TurnError::Closed(_) => (StatusCode::CONFLICT, "session_closed"),
        TurnError::Busy(_) => (StatusCode::CONFLICT, "session_busy"),
        TurnError::Steps(_) => (StatusCode::INTERNAL_SERVER_ERROR, "too_many_steps"),
        TurnError::Looping { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "looping"),
        TurnError::Paused(_) => (StatusCode::PAYMENT_REQUIRED, "agent_paused"),
        TurnError::TimedOut(_) => (StatusCode::GATEWAY_TIMEOUT, "turn_timed_out"),
        TurnError::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "cancelled"),
        TurnError::Tool { .. }
        | TurnError::Prompt(_)
        | TurnError::Store(_)
        | TurnError::Hygiene(_)
        | TurnError::Transcript { .. } => {
            return ApiError::internal(error);
        }
        TurnError::Provider(_) => (StatusCode::BAD_GATEWAY, "provider_failed"),
    };
    let hint = crate::error::Explain::hint(&error);
    let mut answer = ApiError::new(status, code, error.to_string()).because(error);
    answer.hint = hint;
    answer
}

/// A provider's failure is never the client's 401 or 400: its own credential and request were fine.
fn provider_failure(error: ProviderError) -> ApiError {
    let (status, code) = match &error {
        ProviderError::NotConfigured { .. } => (StatusCode::FAILED_DEPENDENCY, "provider_not_configured"),
        ProviderError::Unauthorised { .. } => (StatusCode::BAD_GATEWAY, "provider_unauthorised"),
        ProviderError::Rejected { .. } => (StatusCode::BAD_GATEWAY, "provider_rejected"),
        ProviderError::Limited { .. } => (StatusCode::TOO_MANY_REQUESTS, "provider_limited"),
        ProviderError::Failed { .. } => (StatusCode::BAD_GATEWAY, "provider_failed"),
        ProviderError::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "provider_timed_out"),
        ProviderError::Garbled { .. } => (StatusCode::BAD_GATEWAY, "provider_garbled"),
    };
    let retry_after = match &error {
        ProviderError::Limited { retry_after, .. } | ProviderError::Failed { retry_after, .. } => {
            *retry_after
        }
        _ => None,
    };
    let hint = crate::error::Explain::hint(&error);
    let mut answer = ApiError::new(status, code, error.to_string()).because(error);
    answer.hint = hint;
    answer.retry_after = retry_after;
    answer
}
