//! `/v1/responses`: a turn of an agent in the format of OpenAI's Responses API.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response};
use axum::response::IntoResponse as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::JsonResult;
use super::chat::{self, TurnPlace};
use super::client_calls;
use super::models::as_model;
use crate::agent::{TurnError, TurnEvent, TurnRequest, TurnStop};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::gateway::auth::Caller;
use crate::gateway::body::{RawBody, parsed};
use crate::gateway::driver::{TurnFailure, TurnHandle};
use crate::gateway::error::{ApiError, name_turn};
use crate::gateway::extract::Path;
use crate::gateway::idempotency::{self, Claim, ClaimOutcome, EarlierRequest, REPLAYED_HEADER};
use crate::gateway::openai::responses::{
    ResponseHead, ResponseOutput, ResponseRequest, ResponseWriter, response_id, turn_of, turn_of_item,
};
use crate::gateway::openai::{AnswerLimits, ResponseFormat};
use crate::gateway::state::Gateway;
use crate::gateway::stream::{StreamBody, StreamWriter, event_stream};
use crate::gateway::turn_error::failed;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::store::StoredResponse;
use crate::sync::lock;

/// Setting that switches this path on or off.
const ENABLED_SETTING: &str = "gateway.http.endpoints.responses.enabled";

/// Runs a turn and returns its response, as a whole or as a stream.
pub(crate) async fn create(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response<Body>, ApiError> {
    check_enabled(&gateway)?;
    let mut request: ResponseRequest = parsed(&body)?;
    let agent = chat::chosen_agent(&gateway, &headers, &request.model)?;
    caller.check_agent(&agent).map_err(as_model)?;
    chat::refuse_frozen(&gateway, &headers, &agent)?;
    let key = continued(&gateway, &caller, &headers, &agent, &request).await?;
    let named = key.as_ref().map_or("", SessionKey::as_str).as_bytes();
    let said: [&[u8]; 4] = [b"response", agent.as_str().as_bytes(), named, &body];
    let idempotency = idempotency::key(&headers, caller.name(), &said)?;
    let streams = request.streams();
    resolve_references(&gateway, &caller, &mut request).await?;
    let input = request.into_input()?;
    let (mut chat_input, repeated) = (input.chat, input.repeated);
    let is_stored = repeated.is_stored;
    let turn = TurnId::new();
    let key = match key {
        None => client_calls::waiting_session(&gateway, &caller, &agent, &chat_input).await?,
        key => key,
    };
    if key.is_some() {
        chat_input.continue_session();
    }
    let known = key.clone();
    let place = chat::place(&caller, &agent, key, turn, &chat_input.messages);
    let bound = chat_input.bound.clone();
    let claim = match idempotency::claim(&gateway, idempotency, &place.session, turn).await? {
        ClaimOutcome::Now(claim) => claim,
        ClaimOutcome::Before(earlier) => {
            return replayed(&earlier, &ResponseHead::new(earlier.turn, repeated, &bound), bound, streams);
        }
    };
    // After the claim: a repeat of a request whose calls are answered by now gets its first answer.
    client_calls::check(&gateway, &agent, known.as_ref(), &mut chat_input, "input").await?;
    // The audit row comes first, so no turn runs unrecorded.
    chat::record(&gateway, &caller, &agent, &place.session, turn, &chat_input.messages).await?;
    client_calls::record(&gateway, &caller, (&place.session, turn), &chat_input).await?;
    let TurnPlace { session, command } = place;
    let command = command.filter(|_| chat_input.client.results.is_empty());
    let order = TurnRequest {
        context: chat_input.context,
        command,
        client: chat_input.client,
        format: chat_input.format.as_ref().map(|format| format.asked.clone()),
        ..TurnRequest::new(session.clone(), turn, chat_input.messages)
    };
    let is_checked = chat_input.format.is_some();
    let head = ResponseHead::new(turn, repeated, &bound);
    let output = ResponseOutput::new(head, bound, is_checked, streams);
    let ending = Ending { gateway, claim, is_stored, output: Arc::new(Mutex::new(output)) };
    let mut response = if streams {
        stream(ending, order, chat_input.format).await?
    } else {
        whole(ending, order, chat_input.format).await?
    };
    name_turn(response.headers_mut(), &session, turn);
    Ok(response)
}

/// Returns a stored response.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> JsonResult {
    let found = stored(&gateway, &caller, &id).await?;
    serde_json::from_str(&found.body).map(axum::Json).map_err(ApiError::internal)
}

/// Deletes a stored response. Its session keeps the turn.
pub(crate) async fn delete(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> JsonResult {
    let found = stored(&gateway, &caller, &id).await?;
    gateway.swarm.store().responses().delete(found.turn).await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"id": id, "object": "response", "deleted": true})))
}

fn check_enabled(gateway: &Gateway) -> Result<(), ApiError> {
    if gateway.config().responses {
        return Ok(());
    }
    let message = format!("{ENABLED_SETTING} is false in the configuration");
    Err(ApiError::not_found("endpoint_disabled", message)
        .with_hint(format!("flock config set {ENABLED_SETTING} true")))
}

fn not_found(id: &str) -> ApiError {
    let id = crate::clean::summary(id, 80);
    ApiError::not_found("response_not_found", format!("there is no response {id:?}, or it was not stored"))
}

/// Returns the stored response that a path names.
async fn stored(gateway: &Gateway, caller: &Caller, id: &str) -> Result<StoredResponse, ApiError> {
    check_enabled(gateway)?;
    find(gateway, caller, id).await?.ok_or_else(|| not_found(id))
}

/// Returns a stored response, unless it is another client's.
async fn find(gateway: &Gateway, caller: &Caller, id: &str) -> Result<Option<StoredResponse>, ApiError> {
    let Some(turn) = turn_of(id) else { return Ok(None) };
    let found = gateway.swarm.store().responses().find(turn).await.map_err(ApiError::explained)?;
    let is_own = |found: &StoredResponse| {
        caller.check_agent(found.session.agent()).and_then(|()| caller.check_session(&found.session)).is_ok()
    };
    Ok(found.filter(|found| !found.body.is_empty() && is_own(found)))
}

/// Returns the session that a request continues: that of an earlier response, or the one in the header.
async fn continued(
    gateway: &Gateway,
    caller: &Caller,
    headers: &HeaderMap,
    agent: &AgentId,
    request: &ResponseRequest,
) -> Result<Option<SessionKey>, ApiError> {
    let named = chat::session_key(gateway, headers, agent).await?;
    named.as_ref().map_or(Ok(()), |key| caller.check_session(key))?;
    if named.is_some() && !request.stores() {
        let message = "store is false, but the session that the header names keeps its turns";
        return Err(ApiError::invalid("parameter_not_supported", message).with_param("store"));
    }
    let Some(id) = request.previous() else { return Ok(named) };
    let previous =
        |code, message: String| ApiError::invalid(code, message).with_param("previous_response_id");
    let Some(found) = find(gateway, caller, id).await? else {
        return Err(previous("previous_response_not_found", not_found(id).message));
    };
    if found.session.agent() != agent {
        return Err(previous(
            "agent_mismatch",
            format!("the response {id} is of another agent than the model"),
        ));
    }
    if named.is_some_and(|named| named != found.session) {
        let message = format!("the response {id} is in another session than the one that the header names");
        return Err(previous("session_mismatch", message));
    }
    // A session is one line of turns. To go on from the middle would change what the later turns refer to.
    if !found.is_newest {
        let message =
            format!("the response {id} was continued already; only the newest one of a session can be");
        return Err(previous("response_already_continued", message));
    }
    Ok(Some(found.session))
}

/// Replaces the references in the input by the items of stored responses that they name.
async fn resolve_references(
    gateway: &Gateway,
    caller: &Caller,
    request: &mut ResponseRequest,
) -> Result<(), ApiError> {
    // The items of one response are mostly named together.
    let mut last: Option<(TurnId, Value)> = None;
    for (at, item) in request.references() {
        let unknown = || {
            let message = format!("input[{at}] refers to an item that is not stored");
            ApiError::invalid("invalid_content", message).with_param("input")
        };
        let id = item["id"].as_str().unwrap_or_default().to_owned();
        let turn = turn_of_item(&id).ok_or_else(unknown)?;
        if last.as_ref().is_none_or(|(known, _)| *known != turn) {
            let found = find(gateway, caller, &response_id(turn)).await?.ok_or_else(unknown)?;
            last = Some((turn, serde_json::from_str(&found.body).map_err(ApiError::internal)?));
        }
        let items = last.as_ref().and_then(|(_, body)| body["output"].as_array());
        let mut items = items.into_iter().flatten();
        *item = items.find(|item| item["id"] == id.as_str()).cloned().ok_or_else(unknown)?;
    }
    Ok(())
}

/// The parts that the end of a turn needs.
struct Ending {
    gateway: Arc<Gateway>,
    claim: Option<Claim>,
    is_stored: bool,
    output: Arc<Mutex<ResponseOutput>>,
}

async fn whole(
    ending: Ending,
    order: TurnRequest,
    format: Option<ResponseFormat>,
) -> Result<Response<Body>, ApiError> {
    let output = Arc::clone(&ending.output);
    let mut turn = start(ending, order, format, CancellationToken::new(), {
        let output = Arc::clone(&output);
        // Nothing is written, because the output does not stream.
        move |event| lock(&output).event(&mut Vec::new(), &event)
    })?;
    let ended = turn.end().await;
    let outcome = ended.map_err(|failure| failed(failure, turn.did_something(), &turn.session, turn.id))?;
    let body = lock(&output).finish(&outcome);
    Ok(axum::Json(body).into_response())
}

async fn stream(
    ending: Ending,
    order: TurnRequest,
    format: Option<ResponseFormat>,
) -> Result<Response<Body>, ApiError> {
    let cancel = CancellationToken::new();
    let writer = ResponseWriter(Arc::clone(&ending.output));
    // `cancel` is the turn's own token: a reader that falls too far behind ends the turn.
    let inlet = StreamWriter::new(writer, ending.gateway.limits.unread, cancel.clone());
    let sink = inlet.clone();
    let turn = start(ending, order, format, cancel, move |event| sink.put(&event))?;
    let mut outlet = StreamBody::new(&inlet, turn);
    outlet.first(chat::FIRST_OUTPUT_TIMEOUT).await?;
    Ok(event_stream(Body::new(outlet)))
}

/// Starts a turn whose response is stored before the client learns that it is complete.
fn start(
    ending: Ending,
    order: TurnRequest,
    format: Option<ResponseFormat>,
    cancel: CancellationToken,
    on_event: impl FnMut(TurnEvent) + Send + 'static,
) -> Result<TurnHandle, ApiError> {
    let turn = chat::start(&ending.gateway, order, (None, format), cancel, on_event)?;
    let Ending { gateway, mut claim, is_stored, output } = ending;
    let has_claim = claim.as_mut().map(Claim::began).is_some();
    let (session, id) = (turn.session.clone(), turn.id);
    let turn = turn.then(move |ended, did_something| async move {
        let body = ended.as_ref().ok().and_then(|outcome| lock(&output).finish(outcome));
        let waits = ended.as_ref().is_ok_and(|outcome| outcome.stop == TurnStop::ToolCalls);
        settle(&gateway, (&session, id), Keep { is_stored, waits }, body.as_ref()).await?;
        let kept = match &ended {
            // A stream whose text was replaced has no whole response, but its turn has an answer.
            Ok(outcome) => Ok(body.unwrap_or_else(|| chat::written(outcome))),
            Err(failure) => Err(chat::failure_of(failure, did_something, &session, id)),
        };
        if let Some(claim) = claim {
            claim.end(&kept).await;
        }
        ended
    });
    // The client may repeat a request with a key to get the answer, so its turn continues without it.
    Ok(if has_claim { turn.detached() } else { turn })
}

/// The parts of a turn that outlive it.
#[derive(Clone, Copy)]
struct Keep {
    /// `true` if the client wants the response stored.
    is_stored: bool,
    /// `true` if the turn handed out calls, whose results need the session.
    waits: bool,
}

/// Stores a response, or removes everything of a turn that is not to be stored.
async fn settle(
    gateway: &Gateway,
    (session, turn): (&SessionKey, TurnId),
    keep: Keep,
    body: Option<&Value>,
) -> Result<(), TurnFailure> {
    if !keep.is_stored {
        let stored = gateway.swarm.store().responses().any(session).await.map_err(TurnError::from)?;
        // The session goes with the turn that answers its calls. One with responses that are stored stays.
        if keep.waits || stored {
            return Ok(());
        }
        return Ok(gateway.engine.forget_request(session).await?);
    }
    let Some(body) = body else { return Ok(()) };
    let kept =
        gateway.swarm.store().responses().add(turn, session.clone(), body.to_string(), unix_ms()).await;
    kept.map_err(|error| {
        tracing::error!(error = chain(&error), "failed to keep a response");
        TurnFailure::Turn(error.into())
    })
}

/// Returns the stored answer to an earlier request under the same key as the response to this one.
fn replayed(
    earlier: &EarlierRequest,
    head: &ResponseHead,
    bound: AnswerLimits,
    streams: bool,
) -> Result<Response<Body>, ApiError> {
    let body = if earlier.answer["object"] == "response" {
        Some(earlier.answer.clone())
    } else {
        // After a crash, only the text of the turn is left.
        let mut output = ResponseOutput::new(head.clone(), bound.clone(), true, false);
        chat::read(&earlier.answer).and_then(|outcome| output.finish(&outcome))
    };
    let body = body.ok_or_else(|| ApiError::internal("a kept answer can't be read"))?;
    let mut response = if streams {
        let mut out = Vec::new();
        ResponseOutput::new(head.clone(), bound, true, true).replay(&mut out, body);
        event_stream(Body::from(out))
    } else {
        axum::Json(body).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
    name_turn(headers, &earlier.session, earlier.turn);
    Ok(response)
}
