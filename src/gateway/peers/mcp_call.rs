//! Calls of the tools of MCP servers that another gateway runs. The agent's turn is here, and the server with its folder is there.
//!
//! The gateway that runs the server checks the grant and makes the call, as for its own agents. A call is sent again only if
//! nothing of it was begun.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::connection::{self, PeerError};
use super::forward::{ELSEWHERE, PATIENCE, PAUSE};
use crate::error::chain;
use crate::gateway::state::Gateway;
use crate::mcp::ServerCall;
use crate::store::{LeaseSubject, LivingGateway};
use crate::swarm::lease::Owner;
use crate::tool::{CallContext, ToolError, ToolOutput};

/// The path at the port for gateways.
const PATH: &str = "/mcp-call";
/// Most bytes of a call. Its arguments have a limit of their own.
const MAX_CALL: usize = 2 << 20;
/// Most bytes of an answer, with sounds and pictures in it.
const MAX_ANSWER: usize = 64 << 20;
/// Longest time for sending a call.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer to a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Output(ToolOutput),
    /// A failure that the model reads.
    Failure(String),
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Has a call made by the gateway that runs the server. Returns `None` if that is this one.
pub(in crate::gateway) async fn call(
    gateway: &Gateway,
    context: &CallContext,
    call: &ServerCall,
) -> Option<Result<ToolOutput, ToolError>> {
    gateway.peer_key.get()?;
    let made = context.cancel.run_until_cancelled(placed(gateway, call)).await;
    made.unwrap_or_else(|| Some(Err(ToolError::model("the call was cancelled"))))
}

async fn placed(gateway: &Gateway, call: &ServerCall) -> Option<Result<ToolOutput, ToolError>> {
    let ownership = gateway.swarm.ownership();
    let subject = LeaseSubject::server(&call.server);
    let deadline = Instant::now() + PATIENCE;
    let mut changes = ownership.changes();
    loop {
        changes.mark_unchanged();
        match ownership.of_subject(&subject) {
            Owner::Here => return None,
            Owner::Nobody => {}
            Owner::Elsewhere(owner) => match ask(gateway, &owner, call).await {
                Ok(Some(Answer::Output(output))) => return Some(Ok(output)),
                Ok(Some(Answer::Failure(text))) => return Some(Err(ToolError::model(text))),
                Ok(None) => {}
                Err(error) if is_begun(&*error) => return Some(Err(lost(call, &owner, &*error))),
                Err(error) => {
                    tracing::warn!(gateway = owner.name, error = chain(&*error), "a call was not passed on");
                }
            },
        }
        let now = Instant::now();
        if now >= deadline || gateway.stop.is_cancelled() {
            let text = format!("no gateway that can be reached has the MCP server {} now", call.server);
            return Some(Err(ToolError::model(text)));
        }
        drop(timeout_at(deadline.min(now + PAUSE), changes.changed()).await);
    }
}

/// Returns `true` unless it is sure that the other gateway has not begun with the call.
fn is_begun(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<PeerError>().is_none_or(|error| matches!(error, PeerError::Lost { .. }))
}

fn lost(call: &ServerCall, owner: &LivingGateway, error: &(dyn std::error::Error + 'static)) -> ToolError {
    tracing::warn!(gateway = owner.name, error = chain(error), "a gateway was lost during a call");
    ToolError::model(format!(
        "the gateway that runs the MCP server {} was lost before it answered; the call may have been carried out",
        call.server
    ))
}

/// Asks a gateway. Returns `None` if it does not have the server, and has begun nothing.
async fn ask(
    gateway: &Gateway,
    other: &LivingGateway,
    call: &ServerCall,
) -> Result<Option<Answer>, AnyError> {
    let unsent = || PeerError::NoAddress(other.name.clone());
    let key = gateway.peer_key.get().ok_or_else(unsent)?;
    let body = Bytes::from(serde_json::to_vec(call).map_err(|_| unsent())?);
    let request = Request::post(PATH).header("host", "flock").body(Full::new(body)).map_err(|_| unsent())?;
    let answer = connection::send(key, other, gateway.swarm.ownership(), request).await?;
    if answer.headers().contains_key(ELSEWHERE) || answer.status() == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await?.to_bytes();
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Returns `true` for a request that [`answer`] answers.
pub(in crate::gateway) fn is_call<B>(request: &Request<B>) -> bool {
    request.uri().path() == PATH && request.method() == Method::POST
}

/// Makes a call for another gateway.
pub(in crate::gateway) async fn answer(gateway: &Arc<Gateway>, request: Request<Incoming>) -> Response<Body> {
    let read = Limited::new(request.into_body(), MAX_CALL).collect();
    let call = match tokio::time::timeout(READ_TIMEOUT, read).await {
        Ok(Ok(body)) => serde_json::from_slice::<ServerCall>(&body.to_bytes()).ok(),
        _ => None,
    };
    let Some(call) = call else { return StatusCode::BAD_REQUEST.into_response() };
    let subject = LeaseSubject::server(&call.server);
    if gateway.swarm.ownership().of_subject(&subject) != Owner::Here || gateway.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, [(ELSEWHERE, "1")]).into_response();
    }
    // The other gateway closes the connection if its turn is stopped, which drops this future.
    let cancel = CancellationToken::new();
    let _ends = cancel.clone().drop_guard();
    let context =
        CallContext { agent: call.agent, session: call.session, turn: call.turn, cancel, progress: None };
    let made = gateway.servers.call_here(&context, &call.server, &call.tool, &call.arguments).await;
    Json(match made {
        Ok(output) => Answer::Output(output),
        Err(ToolError::ForModel(text)) => Answer::Failure(text),
        Err(ToolError::Fatal(error)) => {
            tracing::error!(error = chain(&*error), "a call for another gateway failed");
            Answer::Failure(format!("the MCP server {} could not be asked", call.server))
        }
    })
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Block;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let output = ToolOutput::from(vec![Block::text("one"), Block::text("two")]);
        let text = serde_json::to_string(&Answer::Output(output.clone())).unwrap();
        assert!(matches!(serde_json::from_str(&text).unwrap(), Answer::Output(read) if read == output));
        let text = serde_json::to_string(&Answer::Failure("no".to_owned())).unwrap();
        assert!(matches!(serde_json::from_str(&text).unwrap(), Answer::Failure(read) if read == "no"));
    }

    #[test]
    fn only_what_was_surely_not_begun_is_sent_again() {
        assert!(!is_begun(&PeerError::NoAddress("b".to_owned())));
        assert!(is_begun(&PeerError::Lost { address: "127.0.0.1:1".to_owned() }));
        assert!(is_begun(&std::io::Error::other("the answer broke off")));
    }
}
