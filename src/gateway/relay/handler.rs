//! `POST /relay/…`: a request of an agent program to its model.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};

use super::model_call::{ModelRequest, RelayError};
use super::request_body::RequestBody;
use super::tickets::MAX_COUNTS;
use super::{Relay, Ticket, api_format, forwarder, headers};
use crate::agent::{ModelFailure, trouble_of};
use crate::gateway::body;
use crate::gateway::error::ApiError;
use crate::gateway::limits::ServerLimits;
use crate::gateway::state::Gateway;
use crate::provider::RelayFormat;
use crate::provider::http::RequestError;
use crate::provider::passthrough::ForwardKind;

/// Passes a request on to a model, and its answer back.
///
/// # Errors
///
/// Returns 404 for a path that is not passed on, and 400, 408 or 413 for a body that can't be. Returns 400 if flock or
/// the provider refuses to have it answered. A retry makes no sense then, and the program is told so. If it retries
/// anyway, it gets the same response at once, and no provider is asked.
pub(crate) async fn on(
    State(gateway): State<Arc<Gateway>>,
    Extension(ticket): Extension<Arc<Ticket>>,
    request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let over = ticket.over.clone();
    tokio::select! {
        biased;
        () = over.cancelled() => Err(finally(StatusCode::BAD_REQUEST, "the turn is over")),
        answer = gateway.relay.pass(ticket, request) => answer,
    }
}

impl Relay {
    async fn pass(&self, ticket: Arc<Ticket>, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let (parts, body) = request.into_parts();
        // The model in the path is not read. The ticket says which model answers.
        let asked = api_format::asked(parts.uri.path()).filter(|_| parts.method == Method::POST);
        // Two wire formats may share a path, so the path decides and not the exact format.
        let own = |format| ticket.api.is_some_and(|own| api_format::is_same(own, format));
        let Some((format, want)) = asked.filter(|(format, _)| own(format)) else {
            return Err(finally(StatusCode::NOT_FOUND, "this is not passed on to the agent's model"));
        };
        // The slot is taken before the body is read, so a turn can't fill the memory with waiting requests.
        let place = ticket.places.clone().acquire_owned().await;
        let place = place.map_err(|_| finally(StatusCode::BAD_REQUEST, "the turn is over"))?;
        let limits = parts.extensions.get::<ServerLimits>().copied().unwrap_or_default();
        let bytes = body::whole(body, &limits).await.map_err(ApiError::finally)?;
        let written = RequestBody::read(bytes.into(), format).map_err(|wrong| {
            tracing::warn!(agent = %ticket.agent, turn = %ticket.turn, wrong, "a request is not passed on");
            ticket.calls.note(|count| count.refused = Some((400, wrong.clone())));
            finally(StatusCode::BAD_REQUEST, wrong)
        })?;
        if want == ForwardKind::Count && !ticket.try_count() {
            let text = format!("tokens are counted at most {MAX_COUNTS} times in a turn");
            return Err(finally(StatusCode::BAD_REQUEST, text));
        }
        // A count asks for no answer, so a final error does not apply to it.
        if want != ForwardKind::Count
            && let Some(why) = ticket.final_error.current(self.stands)
        {
            return Err(finally(StatusCode::BAD_REQUEST, why));
        }
        let question = ModelRequest {
            format,
            want,
            query: filter_query(format, parts.uri.query().unwrap_or_default()),
            headers: headers::asked(&parts.headers),
            written,
            ticket: ticket.clone(),
        };
        match self.ask(&question).await {
            Ok((answer, reservation)) => {
                // A call was answered, so an earlier final error no longer holds.
                ticket.final_error.clear();
                ticket.calls.note(|count| count.used_up = false);
                Ok(forwarder::response(answer, reservation, ticket, place))
            }
            // The refusal is final for this turn, so the program gets the same answer if it asks again.
            Err(RelayError::Forbidden(forbidden)) => {
                let why = forbidden.to_string();
                tracing::info!(agent = %ticket.agent, turn = %ticket.turn, why, "a model call is not let through");
                ticket.calls.note(|count| count.forbidden = Some(forbidden));
                ticket.final_error.set(&why);
                Err(finally(StatusCode::BAD_REQUEST, why))
            }
            Err(RelayError::Refused(refused)) => {
                Ok(refused_response(&ticket, want, parts.uri.path(), *refused))
            }
        }
    }
}

/// Returns the part of a query that is passed on.
fn filter_query(format: &RelayFormat, query: &str) -> Vec<(&'static str, &'static str)> {
    let is_asked = |known: &_| query.split('&').any(|pair| pair.split_once('=') == Some(*known));
    format.query.filter(is_asked).into_iter().collect()
}

/// Returns an error that remains however often the program asks.
fn finally(status: StatusCode, message: impl Into<String>) -> ApiError {
    ApiError::new(status, "relay", message).finally()
}

/// Returns the response if no model answered.
///
/// flock has retried as often as made sense, so the status is the one that programs retry the least: two of the four do
/// not retry after 400. Claude Code and OpenCode do, and are told the same again. If the provider says that the request
/// is wrong, the program gets the provider's own words, because it may know how to correct the request and may ask
/// again.
fn refused_response(ticket: &Ticket, want: ForwardKind, path: &str, refused: RequestError) -> Response<Body> {
    let RequestError { error, status, said } = refused;
    let (agent, turn) = (&ticket.agent, ticket.turn);
    tracing::warn!(%agent, %turn, %error, status, "no model answered");
    // A request whose tokens can't be counted may still be answered.
    if want != ForwardKind::Count {
        // Without an answer (status 0) another attempt may succeed later, unless the provider can't be asked at all.
        let counted = if status == 0 && !error.is_passing() { 400 } else { status };
        ticket.calls.note(|count| count.refused = Some((counted, error.to_string())));
        if trouble_of(&error).is_some_and(|trouble| trouble != ModelFailure::TooLong) {
            ticket.final_error.set(&error.to_string());
        }
    }
    let mut response = finally(StatusCode::BAD_REQUEST, error.to_string()).render(path);
    if let (Some(said), 400 | 413 | 422) = (said, status) {
        *response.body_mut() = Body::from(said.to_string());
    }
    // The body is JSON in every case.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
