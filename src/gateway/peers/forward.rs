//! Passes a request about an agent or an MCP server on to the gateway that has it, and the answer back.
//!
//! A request is passed on once: the gateway that gets it answers, or says that it does not have the agent (any more). It is
//! sent again only if nothing of it was begun. If that can't be told, the client is told so instead of being asked to repeat it.

use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use bytes::Bytes;
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::connection::{self, PeerError};
use super::routing::clue;
use super::statement::{About, HEADER, StatedCaller, Statement};
use crate::gateway::auth::Caller;
use crate::gateway::body::whole;
use crate::gateway::error::ApiError;
use crate::gateway::idempotency;
use crate::gateway::limits::ServerLimits;
use crate::gateway::state::Gateway;
use crate::gateway::turn_error;
use crate::sandbox::egress::strip_hop_headers;
use crate::store::LivingGateway;
use crate::swarm::lease::Owner;

/// The header of an answer that says that the gateway does not have the agent, and has begun nothing.
pub(in crate::gateway) const ELSEWHERE: &str = "x-flock-elsewhere";

/// Longest time for which a request waits until a gateway has the agent. One that dies is replaced within ten seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(12);
/// Longest pause until the next try. A change of the owners ends it.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Headers that are for this gateway, and the credentials, which are its to check.
const OWN_HEADERS: [HeaderName; 5] =
    [header::EXPECT, header::HOST, header::ORIGIN, header::AUTHORIZATION, header::COOKIE];

/// The place where a request is answered.
pub(in crate::gateway) enum Placed {
    /// Here.
    Here(Request<Body>),
    /// Another gateway has answered it.
    Elsewhere(Response<Body>),
}

/// A request that is passed on.
struct Passing<'r> {
    parts: &'r Parts,
    body: &'r Bytes,
    statement: &'r HeaderValue,
}

/// Has a request answered by the gateway that has its agent. The caller's right to make it was checked.
///
/// # Errors
///
/// Returns 503 if no gateway has the agent in time, and 424 if the one that has it was lost and may have begun.
pub(in crate::gateway) async fn place(gateway: &Gateway, request: Request<Body>) -> Result<Placed, ApiError> {
    let ownership = gateway.swarm.ownership();
    let Some(key) = gateway.peer_key.get() else { return Ok(Placed::Here(request)) };
    let Some(clue) = clue(request.method(), request.uri().path()) else { return Ok(Placed::Here(request)) };
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return Ok(Placed::Here(request));
    };
    let limits = request.extensions().get::<ServerLimits>().copied().unwrap_or_default();
    let (parts, body) = request.into_parts();
    let body = Bytes::from(whole(body, &limits).await?);
    let about = clue.about(gateway, &parts.uri, &parts.headers, &body).await;
    // The route refuses what the caller may not see, in its own words.
    let about = about.filter(|about| match about {
        About::Agent(agent) => caller.covers(agent),
        About::Server(_) => true,
    });
    let stated = about.and_then(|about| Some(Statement { caller: StatedCaller::of(&caller)?, about }));
    let named = stated.and_then(|statement| Some((statement.header()?, statement.about)));
    let here = |parts, body| Ok(Placed::Here(Request::from_parts(parts, Body::from(body))));
    let Some((statement, about)) = named else { return here(parts, body) };
    let deadline = Instant::now() + PATIENCE;
    let mut changes = ownership.changes();
    loop {
        changes.mark_unchanged();
        let passing = Passing { parts: &parts, body: &body, statement: &statement };
        let failed = match ownership.of_subject(&about.subject()) {
            Owner::Here => return here(parts, body),
            // The files tell it as well.
            Owner::Nobody if parts.method == Method::GET => return here(parts, body),
            Owner::Nobody => None,
            Owner::Elsewhere(owner) => {
                match connection::send(key, &owner, ownership, passing.request()).await {
                    Ok(answer) if answer.headers().contains_key(ELSEWHERE) => None,
                    Ok(answer) => return Ok(Placed::Elsewhere(answered(answer))),
                    Err(error @ PeerError::Lost { .. }) => return Err(lost(&parts, &about, &owner, error)),
                    Err(error) => Some(error),
                }
            }
        };
        let now = Instant::now();
        if now >= deadline || gateway.stop.is_cancelled() {
            return Err(absent(&about, failed));
        }
        // Either a change or the end of the pause is a reason to look again.
        drop(timeout_at(deadline.min(now + PAUSE), changes.changed()).await);
    }
}

impl Passing<'_> {
    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = self.parts.uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        let headers = request.headers_mut();
        *headers = passed(&self.parts.headers);
        headers.insert(header::HOST, HeaderValue::from_static("flock"));
        headers.insert(HEADER, self.statement.clone());
        request
    }
}

/// Returns the headers that go on.
fn passed(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    strip_hop_headers(&mut passed);
    for name in &OWN_HEADERS {
        passed.remove(name);
    }
    passed
}

/// Returns an answer as this gateway gives it.
fn answered(mut answer: Response<Body>) -> Response<Body> {
    let headers = passed(answer.headers());
    *answer.headers_mut() = headers;
    answer.extensions_mut().clear();
    *answer.version_mut() = axum::http::Version::HTTP_11;
    answer
}

/// Returns the error for an agent that no gateway has in time. Nothing was begun.
fn absent(about: &About, cause: Option<PeerError>) -> ApiError {
    let message = format!("no gateway that can be reached has {about} now");
    let mut error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, turn_error::ELSEWHERE, message)
        .with_hint("flock status");
    error.retry_after = Some(Duration::from_secs(1));
    match cause {
        Some(cause) => error.with_cause(cause),
        None => error,
    }
}

/// Returns the error for a gateway that was lost before it answered.
fn lost(parts: &Parts, about: &About, owner: &LivingGateway, cause: PeerError) -> ApiError {
    let message = format!("the gateway {} that has {about} was lost before it answered", owner.name);
    let mut error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "gateway_lost", message);
    error.retry_after = Some(Duration::from_secs(5));
    let error = error.with_cause(cause);
    // A repeat does no harm if it only reads, or has a key by which the gateway after it knows the request.
    let is_repeatable = parts.method == Method::GET || parts.headers.contains_key(idempotency::HEADER);
    // Gateways of one machine have its name, and the status tells them apart by their addresses.
    if is_repeatable {
        error.with_hint("flock status")
    } else {
        error.after_work().with_hint("flock session list")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Epoch;
    use crate::store::testing::living_gateway;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn neither_credentials_nor_what_is_of_the_connection_goes_on() {
        let before = headers(&[
            ("host", "127.0.0.1:1"),
            ("authorization", "Bearer x"),
            ("cookie", "flock_1=x"),
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("expect", "100-continue"),
            ("idempotency-key", "k"),
            ("x-flock-files", "a"),
            ("content-length", "2"),
        ]);
        let after = headers(&[("idempotency-key", "k"), ("x-flock-files", "a"), ("content-length", "2")]);
        assert_eq!(passed(&before), after);
    }

    #[test]
    fn a_client_is_asked_to_repeat_only_what_may_be_repeated() {
        let owner = LivingGateway { name: "box".to_owned(), ..living_gateway(Epoch(2)) };
        let of = |method: Method, list: &[(&'static str, &str)]| {
            let mut parts = Request::new(()).into_parts().0;
            (parts.method, parts.headers) = (method, headers(list));
            let cause = PeerError::Lost { address: "127.0.0.1:1".to_owned() };
            lost(&parts, &About::Agent("coder".parse().unwrap()), &owner, cause)
        };
        let read = of(Method::GET, &[]);
        let keyed = of(Method::POST, &[(idempotency::HEADER, "k")]);
        let turn = of(Method::POST, &[]);
        for error in [&read, &keyed] {
            assert!(
                error.status == StatusCode::SERVICE_UNAVAILABLE
                    && !error.begun
                    && error.retry_after.is_some()
            );
            assert_eq!(error.hint.as_deref(), Some("flock status"), "it names the gateways that are left");
        }
        assert!(turn.status == StatusCode::FAILED_DEPENDENCY && turn.begun);
    }
}
