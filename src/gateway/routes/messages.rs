//! `POST /api/message`: a turn of an agent in a simple format. `GET /api/messages`: the messages of a session.

use std::sync::Arc;

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::JsonResult;
use super::chat::{record, refuse_frozen};
use super::sessions;
use crate::agent::messages::ListedMessage;
use crate::agent::{Command, TurnError, TurnRequest};
use crate::clock::unix_ms;
use crate::config::{self, Agent};
use crate::gateway::auth::Caller;
use crate::gateway::body::{RawBody, parsed};
use crate::gateway::driver::TurnOrigin;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Query, flag};
use crate::gateway::idempotency::{self, ClaimOutcome, EarlierRequest, REPLAYED_HEADER};
use crate::gateway::peers::OwnerLogin;
use crate::gateway::scope;
use crate::gateway::state::Gateway;
use crate::gateway::turn_error::{failed, failure, refusal};
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
use crate::process::login;
use crate::provider::{Message, Role};

/// Default and largest number of messages in one response.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

/// The body of a request for a turn.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PromptRequest {
    prompt: String,
    agent: Option<String>,
    session_key: Option<String>,
    #[serde(default)]
    force_new: bool,
}

/// The query parameters of the list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionMessagesQuery {
    agent: Option<String>,
    session_key: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    include_trace: String,
}

/// Runs a turn and returns its answer. With `forceNew` the turn begins a new conversation.
pub(crate) async fn say(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    login: Option<Extension<OwnerLogin>>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response<Body>, ApiError> {
    let PromptRequest { prompt, agent, session_key, force_new } = parsed(&body)?;
    if prompt.trim().is_empty() {
        return Err(ApiError::invalid("no_user_message", "the prompt is empty"));
    }
    let agent = chosen_for(&gateway, &caller, agent.as_deref(), session_key.as_deref())?;
    // A frozen agent is refused before a key is claimed, so the same request may be repeated later.
    refuse_frozen(&gateway, &headers, &agent.id)?;
    let own = || own_session(&caller, login, &agent.id);
    let session = resolve_session(&gateway, &agent, session_key.as_deref(), own).await?;
    caller.check_session(&session)?;
    let turn = TurnId::new();
    // The whole body is part of the digest, so a repeat with other options is a different request.
    let key = idempotency::key(&headers, caller.name(), &[b"message", session.as_str().as_bytes(), &body])?;
    let claim = match idempotency::claim(&gateway, key, &session, turn).await? {
        ClaimOutcome::Now(claim) => claim,
        ClaimOutcome::Before(earlier) => {
            let mut response = Answer(earlier_answer(&gateway, &agent, &earlier).await?).into_response();
            response.headers_mut().insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
            return Ok(response);
        }
    };
    let input = vec![Message::text(Role::User, &*prompt)];
    record(&gateway, &caller, &agent.id, &session, turn, &input).await?;
    if force_new {
        sessions::record(&gateway, &caller, &session, "session.reset").await?;
    }
    let command = Command::parse(&prompt);
    let order = TurnRequest { command, ..TurnRequest::new(session.clone(), turn, input) };
    let said = answer(Arc::clone(&gateway), agent, order, force_new);
    let Some(mut claim) = claim else { return Ok(Answer(said.await?).into_response()) };
    claim.began();
    // The turn continues even if its client disconnects, because the client may repeat the request to get the answer.
    let said = tokio::spawn(async move {
        let ended = said.await;
        claim.end(&ended).await;
        ended
    });
    Ok(Answer(said.await.map_err(ApiError::internal)??).into_response())
}

/// Returns the answer to an earlier request under the same key. If a gateway was killed in the middle of it, only the
/// text may be known.
async fn earlier_answer(
    gateway: &Gateway,
    agent: &Agent,
    earlier: &EarlierRequest,
) -> Result<Value, ApiError> {
    if earlier.answer.get("content").is_some() {
        return Ok(earlier.answer.clone());
    }
    let stored = stored(gateway, &earlier.session, earlier.turn).await?;
    let kept = &earlier.answer;
    let unstored = || {
        json!({"id": earlier.turn, "role": "assistant", "content": kept["text"], "cli": agent.runtime,
            "model": kept["model"], "created_at": earlier.created_at})
    };
    let mut answer = stored.map_or_else(unstored, |stored| shown(&stored, false));
    answer["sessionKey"] = json!(earlier.session);
    Ok(answer)
}

/// Runs the turn and returns its answer.
async fn answer(
    gateway: Arc<Gateway>,
    agent: Agent,
    order: TurnRequest,
    force_new: bool,
) -> Result<Value, ApiError> {
    let (session, turn) = (order.session.clone(), order.turn);
    // Both enter the session's queue one directly after the other, so no other turn comes between them.
    let begun = force_new.then(|| sessions::queued(&gateway, &session, Command::Fresh)).transpose()?;
    let mut running = gateway
        .driver
        .start(order, TurnOrigin::Request, CancellationToken::new(), |_| {})
        .map_err(refusal)?;
    if let Some(mut begun) = begun {
        begun.end().await.map_err(failure)?;
    }
    let ended = running.end().await;
    let outcome = ended.map_err(|error| failed(error, running.did_something(), &session, turn))?;
    let stored = stored(&gateway, &session, turn).await;
    // The turn has run already. The client must not repeat it only because its answer can't be read.
    let stored = stored.map_err(|error| error.of_turn(&session, turn).after_work())?;
    // The text of a command is meant for people and is not a message of the conversation.
    let unstored = || {
        json!({"id": turn, "role": "assistant", "content": outcome.text, "cli": agent.runtime,
            "model": outcome.model, "created_at": unix_ms()})
    };
    let mut answer = stored.map_or_else(unstored, |stored| shown(&stored, false));
    answer["sessionKey"] = json!(session);
    Ok(answer)
}

/// Returns the newest messages of a session, oldest first.
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    login: Option<Extension<OwnerLogin>>,
    Query(filter): Query<SessionMessagesQuery>,
) -> JsonResult {
    let with_trace = flag("includeTrace", &filter.include_trace)?;
    let limit = filter.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::invalid("invalid_query", format!("limit is a number from 1 to {MAX_LIMIT}")));
    }
    let key = filter.session_key.as_deref();
    let agent = chosen_for(&gateway, &caller, filter.agent.as_deref(), key)?;
    let session = resolve_session(&gateway, &agent, key, || own_session(&caller, login, &agent.id)).await?;
    sessions::check_readable(&caller, &session)?;
    let messages = gateway.engine.messages(&session, limit, with_trace).await.map_err(failure_of)?;
    let messages: Vec<Value> = messages.iter().map(|message| shown(message, with_trace)).collect();
    Ok(Answer(json!({"messages": messages})))
}

fn failure_of(error: TurnError) -> ApiError {
    let mut error = failure(error.into());
    // A read may be repeated, unlike the turns that these errors are made for.
    error.begun = false;
    error
}

/// Returns the message that a turn left as its answer.
async fn stored(
    gateway: &Gateway,
    session: &SessionKey,
    turn: TurnId,
) -> Result<Option<ListedMessage>, ApiError> {
    gateway.engine.answer_of(session, turn).await.map_err(failure_of)
}

fn shown(message: &ListedMessage, with_trace: bool) -> Value {
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    let mut shown = json!({"id": message.id, "role": role, "content": message.content, "cli": message.runtime,
        "model": message.model, "created_at": message.at});
    if with_trace {
        shown["trace"] = if message.trace.is_empty() { Value::Null } else { message.trace.join("\n").into() };
    }
    shown
}

/// Returns the agent that is named, otherwise the agent of the session, otherwise the orchestrator.
pub(in crate::gateway) fn chosen(
    gateway: &Gateway,
    agent: Option<&str>,
    key: Option<&str>,
) -> Result<Agent, ApiError> {
    let of_key = || key.and_then(|key| key.parse::<SessionKey>().ok()).map(|key| key.agent().to_string());
    if let Some(id) = agent.map(str::to_owned).or_else(of_key) {
        return gateway.agent(&id);
    }
    let config = gateway.config();
    let orchestrator = config.agents.iter().find(|agent| agent.role == config::Role::Orchestrator);
    orchestrator.cloned().ok_or_else(no_orchestrator)
}

/// Returns the agent as [`chosen`] does, unless the caller may not see it.
pub(super) fn chosen_for(
    gateway: &Gateway,
    caller: &Caller,
    agent: Option<&str>,
    key: Option<&str>,
) -> Result<Agent, ApiError> {
    let found = chosen(gateway, agent, key)?;
    let is_named = agent.is_some() || key.is_some();
    match caller.check_agent(&found.id) {
        // The refusal would name an agent that the person does not know.
        Err(_) if !is_named && caller.home_person().is_some() => Err(no_orchestrator()),
        checked => checked.map(|()| found),
    }
}

fn no_orchestrator() -> ApiError {
    ApiError::not_found("agent_not_found", "there is no orchestrator; name an agent").with_hint("flock list")
}

/// Returns the session that is named, otherwise the session that the client or this home's user has with the agent.
async fn resolve_session(
    gateway: &Gateway,
    agent: &Agent,
    key: Option<&str>,
    own: impl FnOnce() -> SessionKey,
) -> Result<SessionKey, ApiError> {
    match key {
        Some(key) => sessions::session_of(gateway, key, &agent.id).await,
        None => Ok(own()),
    }
}

/// Returns the session of a client, or that of the person who signed in with a browser. The owner's is that of the user,
/// under the name that `flock chat` uses on the machine where the owner asks.
fn own_session(caller: &Caller, there: Option<Extension<OwnerLogin>>, agent: &AgentId) -> SessionKey {
    let peer = match caller {
        Caller::Client(token) => scope::peer(token),
        Caller::Browser(browser) => browser.person.clone(),
        Caller::Person(caller) => caller.person.name.clone(),
        Caller::Owner | Caller::Plugin => there.map_or_else(login, |Extension(OwnerLogin(login))| login),
    };
    SessionKey::new(agent, SessionKind::Main, &peer)
}
