//! `POST /v1/chat/completions`: a turn of an agent in the format of OpenAI's clients.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::client_calls;
use super::models::{agent_name, as_model};
use super::sessions::session_of;
use crate::agent::{ClientTools, Command, TurnEvent, TurnOutcome, TurnRequest, TurnStop};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::body::{RawBody, parsed};
use crate::gateway::driver::{TurnFailure, TurnHandle, TurnOrigin};
use crate::gateway::error::{ApiError, name_turn};
use crate::gateway::idempotency::{self, Claim, ClaimOutcome, EarlierRequest, REPLAYED_HEADER};
use crate::gateway::openai::chunk::{ChunkWriter, StreamExtras};
use crate::gateway::openai::response_format::correction_prompt;
use crate::gateway::openai::{
    AnswerLimits, AnswerWriter as _, ChatRequest, CompletionHead, ResponseFormat, completion, finish_reason,
};
use crate::gateway::state::Gateway;
use crate::gateway::stream::{StreamBody, StreamWriter, event_stream};
use crate::gateway::turn_error::{describe_failure, failed, never_ran, refusal};
use crate::gateway::uploads;
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
use crate::provider::{Block, Message, Role};
use crate::store::{Level, text_digest};
use crate::swarm::Actor;

/// Header that names the agent if `model` does not.
const AGENT_HEADER: &str = "x-openclaw-agent-id";
/// Header that names the session to continue.
const SESSION_HEADER: &str = "x-openclaw-session-key";
/// Header with the value `1` if a streamed answer should also report the agent's activity, as named events.
pub(crate) const ACTIVITY_HEADER: &str = "x-flock-activity";
/// Header with the value `1` if the request should wait for a frozen agent instead of being refused.
pub(crate) const WAIT: &str = "x-flock-wait";

/// Header with the ids of files that were sent before. The agent gets them in its `inbox`.
const FILES_HEADER: &str = "x-flock-files";
/// The folder in the agent's `inbox`.
const FILES_FOLDER: &str = "chat";

/// Setting that switches this path on or off.
const ENABLED_SETTING: &str = "gateway.http.endpoints.chatCompletions.enabled";

/// Longest time for which a streamed answer waits for its first word before its head is sent.
pub(super) const FIRST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a turn and returns its text, as a whole or as a stream.
pub(crate) async fn complete(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response<Body>, ApiError> {
    if !gateway.config().chat_completions {
        return Err(ApiError::not_found(
            "endpoint_disabled",
            format!("{ENABLED_SETTING} is false in the configuration"),
        )
        .with_hint(format!("flock config set {ENABLED_SETTING} true")));
    }
    let request: ChatRequest = parsed(&body)?;
    let agent = chosen_agent(&gateway, &headers, &request.model)?;
    caller.check_agent(&agent).map_err(as_model)?;
    refuse_frozen(&gateway, &headers, &agent)?;
    let key = session_key(&gateway, &headers, &agent).await?;
    key.as_ref().map_or(Ok(()), |key| caller.check_session(key))?;
    // The agent and the session come from headers, so they belong to the digest beside the body.
    let named = key.as_ref().map_or("", SessionKey::as_str).as_bytes();
    let files = text(&headers, FILES_HEADER)?.unwrap_or_default();
    let mut said: Vec<&[u8]> = vec![b"chat", agent.as_str().as_bytes(), named, &body];
    if !files.is_empty() {
        said.push(files.as_bytes());
    }
    let files: Vec<String> =
        files.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect();
    let idempotency = idempotency::key(&headers, caller.name(), &said)?;
    // The response repeats the name that the client used.
    let model = request.model.clone();
    let streams = request.streams();
    let extras = StreamExtras {
        usage: request.includes_usage(),
        activity: headers.get(ACTIVITY_HEADER).is_some_and(|value| value == "1"),
    };
    let mut input = request.into_input()?;
    let turn = TurnId::new();
    let key = match key {
        None => client_calls::waiting_session(&gateway, &caller, &agent, &input).await?,
        key => key,
    };
    if key.is_some() {
        // The session remembers what came before, so only the end is new.
        input.continue_session();
    }
    let known = key.clone();
    let TurnPlace { session, command } = place(&caller, &agent, key, turn, &input.messages);
    let claim = match idempotency::claim(&gateway, idempotency, &session, turn).await? {
        ClaimOutcome::Now(claim) => claim,
        ClaimOutcome::Before(earlier) => {
            return replay_response(&earlier, model, streams.then_some(extras), &input.bound);
        }
    };
    // After the claim: a repeat of a request whose calls are answered by now gets its first answer.
    client_calls::check(&gateway, &agent, known.as_ref(), &mut input, "messages").await?;
    // The calls wait until somebody answers them or goes on without them. A command does neither.
    let command = command.filter(|_| input.client.results.is_empty());
    if !files.is_empty() && input.messages.is_empty() {
        let message =
            format!("the header {FILES_HEADER} names files, and there is no message to name them in");
        return Err(ApiError::invalid("no_user_message", message).with_param("messages"));
    }
    if !files.is_empty()
        && command.is_none()
        && let Some(message) = input.messages.last_mut()
    {
        give_files(&gateway, &caller, &agent, &files, message).await?;
    }
    // The audit row comes first, so no turn runs unrecorded.
    record(&gateway, &caller, &agent, &session, turn, &input.messages).await?;
    client_calls::record(&gateway, &caller, (&session, turn), &input).await?;
    let head = CompletionHead::new(turn, model);
    let order = TurnRequest {
        context: input.context,
        command,
        client: input.client,
        format: input.format.as_ref().map(|format| format.asked.clone()),
        ..TurnRequest::new(session.clone(), turn, input.messages)
    };
    let (format, bound) = (input.format, input.bound);
    let mut response = if streams {
        let is_checked = format.is_some();
        let writer = ChunkWriter::new(&head, extras, bound, is_checked);
        stream(&gateway, order, (claim, format), writer).await?
    } else {
        let mut turn = start(&gateway, order, (claim, format), CancellationToken::new(), |_| {})?;
        let ended = turn.end().await;
        let outcome =
            ended.map_err(|failure| failed(failure, turn.did_something(), &turn.session, turn.id))?;
        axum::Json(completion(&head, &bound.applied(outcome))).into_response()
    };
    // Not earlier: a request that was refused may be repeated with the same files.
    uploads::remove(gateway.swarm.home(), &files);
    name_turn(response.headers_mut(), &session, turn);
    Ok(response)
}

/// Writes files into the agent's `inbox`, and names their places in the message.
async fn give_files(
    gateway: &Gateway,
    caller: &Caller,
    agent: &AgentId,
    files: &[String],
    message: &mut Message,
) -> Result<(), ApiError> {
    let agent = gateway.agent(agent.as_str())?;
    let sent = uploads::read(gateway.swarm.home(), caller.name(), files).await?;
    let agents = std::slice::from_ref(&agent);
    let (lines, _) = uploads::deliver(gateway.swarm.workspaces(), agents, FILES_FOLDER, sent).await;
    let lines = lines.join("\n");
    let last = message.content.iter_mut().rev().find_map(|block| match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    });
    match last {
        Some(text) => *text = format!("{}\n\n{lines}", text.trim_end()),
        None => message.content.push(Block::text(lines)),
    }
    Ok(())
}

/// The session of a turn, and the command that its input is.
pub(super) struct TurnPlace {
    pub(super) session: SessionKey,
    pub(super) command: Option<Command>,
}

/// Returns the place of a turn in the session of this key, or in a new one without a key.
pub(super) fn place(
    caller: &Caller,
    agent: &AgentId,
    key: Option<SessionKey>,
    turn: TurnId,
    messages: &[Message],
) -> TurnPlace {
    // Only a session that continues can be compacted or left.
    let asked = key.as_ref().and_then(|_| messages.last());
    let command = asked.and_then(|asked| Command::parse(&asked.joined_text()));
    let new = || SessionKey::new(agent, SessionKind::Request, &new_peer(caller, turn));
    TurnPlace { session: key.unwrap_or_else(new), command }
}

/// Returns the peer of a session that begins with this turn. The session of a client or a person is marked as theirs.
fn new_peer(caller: &Caller, turn: TurnId) -> String {
    caller.request_peer().map_or_else(|| turn.to_string(), |peer| format!("{peer}:{turn}"))
}

/// Lets a turn with an idempotency key continue without its client, because the client may repeat the request to get
/// the answer.
fn with_claim(turn: TurnHandle, claim: Option<Claim>) -> TurnHandle {
    let Some(mut claim) = claim else { return turn };
    claim.began();
    let (session, id) = (turn.session.clone(), turn.id);
    let turn = turn.then(move |ended, did_something| async move {
        let kept =
            ended.as_ref().map(written).map_err(|failure| failure_of(failure, did_something, &session, id));
        claim.end(&kept).await;
        ended
    });
    turn.detached()
}

/// Returns the failure of a turn in the form in which it is stored for a repeat of the request.
pub(super) fn failure_of(
    failure: &TurnFailure,
    did_something: bool,
    session: &SessionKey,
    turn: TurnId,
) -> ApiError {
    let error = describe_failure(failure).finally().of_turn(session, turn);
    if did_something && !never_ran(failure) { error.after_work() } else { error }
}

/// Starts a turn. Its answer is checked and stored if the client asked for that.
pub(super) fn start(
    gateway: &Arc<Gateway>,
    order: TurnRequest,
    (claim, format): (Option<Claim>, Option<ResponseFormat>),
    cancel: CancellationToken,
    on_event: impl FnMut(TurnEvent) + Send + 'static,
) -> Result<TurnHandle, ApiError> {
    // `order` moves into the first turn. A follow-up needs all of it but the input.
    let again = format.map(|format| (format, without_input(&order)));
    let started = gateway.driver.start(order, TurnOrigin::Request, cancel.clone(), on_event);
    let mut turn = started.map_err(refusal)?;
    // A command's text is no answer of the model, so it has no format.
    if let Some((format, again)) = again.filter(|(_, again)| again.command.is_none()) {
        turn = check_format(turn, Arc::clone(gateway), format, again, cancel);
    }
    Ok(with_claim(turn, claim))
}

/// Returns the same request without its input and the client's tools. Only the form of the answer is corrected with it.
fn without_input(order: &TurnRequest) -> TurnRequest {
    TurnRequest { input: Vec::new(), client: ClientTools::default(), ..order.clone() }
}

/// Wraps a turn so that its answer has this format. If it does not, the agent is asked once more.
fn check_format(
    turn: TurnHandle,
    gateway: Arc<Gateway>,
    format: ResponseFormat,
    again: TurnRequest,
    cancel: CancellationToken,
) -> TurnHandle {
    turn.then(move |ended, _| async move {
        let first = ended?;
        // The answer with the format comes after the results of the calls.
        if first.stop == TurnStop::ToolCalls {
            return Ok(first);
        }
        let wrong = match format.check(&first.text) {
            Ok(text) => return Ok(TurnOutcome { text, ..first }),
            Err(wrong) => wrong,
        };
        // The follow-up is a second turn of the same session, so the agent sees its first answer.
        let input = vec![Message::text(Role::User, correction_prompt(&wrong))];
        let again = TurnRequest { turn: TurnId::new(), input, ..again };
        let Ok(mut second) = gateway.driver.start(again, TurnOrigin::Request, cancel, |_| {}) else {
            return Err(TurnFailure::Form(wrong));
        };
        let mut second = second.end().await?;
        // The usage covers both attempts.
        second.usage += first.usage;
        second.steps += first.steps;
        match format.check(&second.text) {
            Ok(text) => Ok(TurnOutcome { text, ..second }),
            Err(wrong) => Err(TurnFailure::Form(wrong)),
        }
    })
}

/// Returns the stored answer to an earlier request under the same key as the response to this one.
fn replay_response(
    earlier: &EarlierRequest,
    model: String,
    stream: Option<StreamExtras>,
    bound: &AnswerLimits,
) -> Result<Response<Body>, ApiError> {
    let outcome = read(&earlier.answer).ok_or_else(|| ApiError::internal("a kept answer can't be read"))?;
    let head =
        CompletionHead { created: earlier.created_at / 1000, ..CompletionHead::new(earlier.turn, model) };
    let mut response = match stream {
        None => axum::Json(completion(&head, &bound.applied(outcome))).into_response(),
        Some(extras) => {
            // A stored answer is complete, so it is written like a checked one.
            let (mut writer, mut body) = (ChunkWriter::new(&head, extras, bound.clone(), true), Vec::new());
            writer.begin(&mut body);
            writer.end(&mut body, &outcome);
            event_stream(Body::from(body))
        }
    };
    let headers = response.headers_mut();
    headers.insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
    name_turn(headers, &earlier.session, earlier.turn);
    Ok(response)
}

/// Returns the outcome of a turn in the form in which it is stored for a repeat of the request.
pub(super) fn written(outcome: &TurnOutcome) -> Value {
    json!({
        "text": outcome.text,
        "stop": finish_reason(outcome.stop),
        "calls": outcome.calls,
        "usage": outcome.usage,
        "model": outcome.model,
        "steps": outcome.steps,
    })
}

/// Reads an outcome in that form.
pub(super) fn read(kept: &Value) -> Option<TurnOutcome> {
    let stop = kept["stop"].as_str()?;
    Some(TurnOutcome {
        text: kept["text"].as_str()?.to_owned(),
        stop: [TurnStop::End, TurnStop::Length, TurnStop::Refusal, TurnStop::ToolCalls]
            .into_iter()
            .find(|known| finish_reason(*known) == stop)?,
        // An answer that an earlier flock kept has none.
        calls: kept
            .get("calls")
            .map_or(Ok(Vec::new()), |calls| serde_json::from_value(calls.clone()))
            .ok()?,
        usage: serde_json::from_value(kept["usage"].clone()).ok()?,
        model: kept["model"].as_str()?.parse().ok()?,
        steps: u32::try_from(kept["steps"].as_u64()?).ok()?,
    })
}

/// Refuses a turn of a frozen agent, which would begin only after a thaw, unless the client wants to wait.
pub(super) fn refuse_frozen(gateway: &Gateway, headers: &HeaderMap, agent: &AgentId) -> Result<(), ApiError> {
    let waits = headers.get(WAIT).is_some_and(|value| value == "1");
    let Some(message) = gateway.swarm.frozen_text(agent).filter(|_| !waits) else { return Ok(()) };
    // The status is not 409, 429 or 503, because OpenAI's clients repeat those by themselves.
    Err(ApiError::new(StatusCode::LOCKED, "agent_frozen", message).with_hint(format!(
        "thaw it with `flock thaw {agent}`, or wait until it is thawed with `flock chat {agent} --wait`"
    )))
}

/// Writes to the audit that a person starts a turn. The text itself is not recorded, only its length and its digest.
pub(super) async fn record(
    gateway: &Gateway,
    caller: &Caller,
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
    let by = Actor { session: Some(session.clone()), turn: Some(turn), ..Actor::party(caller.party()?) };
    let entry = by.entry("chat.turn", agent.as_str(), Level::Green, detail);
    gateway.swarm.store().audit().append(entry, unix_ms()).await.map_err(ApiError::internal)
}

async fn stream(
    gateway: &Arc<Gateway>,
    order: TurnRequest,
    wishes: (Option<Claim>, Option<ResponseFormat>),
    writer: ChunkWriter,
) -> Result<Response<Body>, ApiError> {
    let cancel = CancellationToken::new();
    // `cancel` is the turn's own token: a reader that falls too far behind ends the turn.
    let inlet = StreamWriter::new(writer, gateway.limits.unread, cancel.clone());
    let sink = inlet.clone();
    let turn = start(gateway, order, wishes, cancel, move |event| sink.put(&event))?;
    let mut outlet = StreamBody::new(&inlet, turn);
    // Until the first word the failure of the turn can still become an HTTP status.
    outlet.first(FIRST_OUTPUT_TIMEOUT).await?;
    Ok(event_stream(Body::new(outlet)))
}

/// Returns the agent that `model` and the header name. Both may be given if they agree.
pub(in crate::gateway) fn chosen_agent(
    gateway: &Gateway,
    headers: &HeaderMap,
    model: &str,
) -> Result<AgentId, ApiError> {
    let header = text(headers, AGENT_HEADER)?;
    let name = match (agent_name(model), header) {
        // With one of these names for the model, the header chooses the agent. This is OpenClaw's convention.
        ("openclaw" | "flock", Some(header)) => header,
        (name, Some(header)) if header != name => {
            return Err(ApiError::invalid(
                "agent_mismatch",
                format!("the model and the header {AGENT_HEADER} name different agents"),
            ));
        }
        (name, _) => name,
    };
    Ok(gateway.agent(name).map_err(as_model)?.id)
}

/// Returns the session that the header names.
pub(super) async fn session_key(
    gateway: &Gateway,
    headers: &HeaderMap,
    agent: &AgentId,
) -> Result<Option<SessionKey>, ApiError> {
    match text(headers, SESSION_HEADER)? {
        Some(key) => session_of(gateway, key, agent).await.map(Some),
        None => Ok(None),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, ApiError> {
    match headers.get(name).map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) if text.trim().is_empty() => Ok(None),
        Some(Ok(text)) => Ok(Some(text.trim())),
        Some(Err(_)) => Err(ApiError::invalid("invalid_header", format!("the header {name} is not text"))),
    }
}
