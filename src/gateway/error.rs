//! The response to a request that fails: for the client a status, a stable code, a sentence and the command that helps;
//! for the log alone the cause.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::projects::ProjectsError;
use super::races::RacesError;
use super::relay;
use super::turn_error;
use crate::checkpoint::CheckpointError;
use crate::error::{Explain, Kind, chain};
use crate::id::{SessionKey, TurnId};
use crate::store::StoreError;
use crate::swarm::SwarmError;

/// A refusal or a failure in the form that a client may see. [`Self::cause`] never leaves the process.
#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    /// Stable word for programs.
    pub code: Cow<'static, str>,
    /// Sentence that says what failed, and on which thing.
    pub message: String,
    /// Advice for the user, a command if there is one.
    pub hint: Option<String>,
    /// Delay after which a retry makes sense.
    pub retry_after: Option<Duration>,
    /// `true` if the client must not retry by itself, because the work had begun and would be done twice, or because it
    /// would only fail again.
    pub begun: bool,
    /// `true` if a turn did some work before it failed.
    pub did_something: bool,
    /// The part of the request and the turn that the error is about. They are boxed to keep results small, because most
    /// of them are no errors.
    pub(crate) details: Box<ErrorDetails>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

/// The subject of an error.
#[derive(Debug, Default)]
pub(crate) struct ErrorDetails {
    /// The parameter that is wrong, if the error is about one.
    pub param: Option<Cow<'static, str>>,
    /// The turn that failed, with its session.
    pub turn: Option<(SessionKey, TurnId)>,
}

impl ApiError {
    #[must_use]
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            hint: None,
            retry_after: None,
            begun: false,
            did_something: false,
            details: Box::default(),
            cause: None,
        }
    }

    /// Creates an error with status 400, for a wrong request.
    #[must_use]
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Creates an error with status 403, for a caller that may not do this.
    #[must_use]
    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    /// Creates an error with status 409, for a state that does not allow the request.
    #[must_use]
    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// Creates an error with status 404, for a thing that does not exist.
    #[must_use]
    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// Creates an error with status 500, for a defect on this machine. The client learns only that it happened. A fault
    /// of the storage may pass, so it is shown and has status 503.
    #[must_use]
    pub(crate) fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let cause = cause.into();
        // A full disk is not a defect. Its owner can fix it and has to know about it.
        let fault = cause.downcast_ref::<StoreError>().filter(|error| error.is_fault());
        let mut error = match fault {
            Some(error) => Self::described(status_of(error), error.kind().code(), error),
            None => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the gateway failed to do this")
                .with_hint("flock logs gateway"),
        };
        error.cause = Some(cause);
        error
    }

    /// Creates an error from one that explains itself. Its sentence and hint are written for people and are shown; its
    /// causes go only to the log.
    #[must_use]
    pub(crate) fn explained<E: Explain + Send + Sync + 'static>(error: E) -> Self {
        let mut api = Self::described(status_of(&error), error.kind().code(), &error);
        api.cause = Some(Box::new(error));
        api
    }

    /// Creates an error with the message and the hint of one that explains itself. If that one may pass, the client is
    /// told when to come back.
    #[must_use]
    pub(crate) fn described(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        error: &impl Explain,
    ) -> Self {
        let retry_after = error.may_pass().then_some(FAULT_RETRY_AFTER);
        Self { hint: error.hint(), retry_after, ..Self::new(status, code, error.to_string()) }
    }

    /// Names the parameter of the request that the error is about.
    #[must_use]
    pub(crate) fn with_param(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.details.param = Some(name.into());
        self
    }

    /// Adds advice for the user.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a cause for the log.
    #[must_use]
    pub(crate) fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Marks the error as final: a retry would only fail again.
    #[must_use]
    pub(crate) const fn finally(mut self) -> Self {
        self.begun = true;
        self
    }

    /// Names the turn that the error is about.
    #[must_use]
    pub(crate) fn of_turn(mut self, session: &SessionKey, turn: TurnId) -> Self {
        self.details.turn = Some((session.clone(), turn));
        self
    }

    /// Marks the error as that of a turn that did some work before it failed.
    ///
    /// Clients repeat 408, 409, 429 and 5xx by themselves, some of them regardless of what else they are told. They get
    /// 424 instead, so that nothing is done twice.
    #[must_use]
    pub(crate) fn after_work(mut self) -> Self {
        self.did_something = true;
        if self.status.is_server_error() || matches!(self.status.as_u16(), 408 | 409 | 425 | 429) {
            self.status = StatusCode::FAILED_DEPENDENCY;
        }
        self.finally()
    }

    /// Returns the chain of causes as one text, for the log.
    #[must_use]
    pub(crate) fn cause(&self) -> Option<String> {
        self.cause.as_deref().map(|cause| chain(cause))
    }

    /// Returns the body in the format that clients of this path expect: OpenAI's below `/v1`, that of each model API
    /// below `/relay`, and flock's own elsewhere.
    #[must_use]
    pub(crate) fn body(&self, path: &str) -> Value {
        if let Some(body) =
            relay::api_format::error(path, self.status.as_u16(), &self.message, self.hint.as_deref())
        {
            return body;
        }
        let mut error = json!({"code": self.code, "message": self.message, "hint": self.hint});
        if path == "/v1" || path.starts_with("/v1/") {
            error["type"] = self.openai_type().into();
            error["param"] = json!(self.details.param);
        }
        if let Some((session, turn)) = &self.details.turn {
            error["session"] = session.as_str().into();
            error["turn"] = turn.to_string().into();
        }
        json!({"error": error})
    }

    /// Returns the whole response. `path` selects the format of the body.
    #[must_use]
    pub(crate) fn render(&self, path: &str) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body(path).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A 429 always says when to come back, even if no provider did.
        let unsaid = (self.status == StatusCode::TOO_MANY_REQUESTS).then_some(DEFAULT_RETRY_AFTER);
        if let Some(after) = self.retry_after.or(unsaid) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if self.begun {
            // OpenAI's clients repeat 429 and 5xx by themselves unless this header forbids it.
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if let Some((session, turn)) = &self.details.turn {
            name_turn(headers, session, *turn);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn openai_type(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            // This 424 stands for an error of the server, see `after_work`.
            424 if self.did_something => "server_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        }
    }
}

/// The delay that a client is told if nothing else sets one.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(10);

/// The delay that a client is told after a fault that may pass at any moment.
const FAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Returns the HTTP status for an error that explains itself.
fn status_of(error: &impl Explain) -> StatusCode {
    match error.kind() {
        // This arm comes first: a fault that may pass is worth a retry, whatever its kind.
        _ if error.may_pass() => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Usage => StatusCode::BAD_REQUEST,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::NeedsApproval => StatusCode::FORBIDDEN,
        Kind::DockerUnavailable
        | Kind::NotRunning
        | Kind::Unreadable
        | Kind::Replaced
        | Kind::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Failed | Kind::NotInitialised | Kind::NewerHome | Kind::Damaged | Kind::Internal => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// Names the turn of a response in its headers.
pub(crate) fn name_turn(headers: &mut HeaderMap, session: &SessionKey, turn: TurnId) {
    for (name, value) in [("x-flock-session-key", session.as_str()), ("x-flock-turn-id", &turn.to_string())] {
        // A session key with characters that no header may hold is left out.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
}

/// Tells a client whose agent is at another gateway to come back, as for a turn.
impl From<CheckpointError> for ApiError {
    fn from(error: CheckpointError) -> Self {
        if !matches!(error, CheckpointError::Elsewhere { .. }) {
            return Self::explained(error);
        }
        let mut api = Self::described(StatusCode::SERVICE_UNAVAILABLE, turn_error::ELSEWHERE, &error);
        api.retry_after = Some(Duration::from_secs(1));
        api
    }
}

/// Keeps the wording of the team's refusals, and maps each reason to the status that clients know.
impl From<ProjectsError> for ApiError {
    fn from(error: ProjectsError) -> Self {
        let (status, code) = match error {
            ProjectsError::Swarm(error) => return error.into(),
            ProjectsError::Unknown(_) => (StatusCode::NOT_FOUND, "project_not_found"),
            ProjectsError::NoSubmission { .. } => (StatusCode::NOT_FOUND, "submission_not_found"),
            ProjectsError::NotPushed { .. } => (StatusCode::NOT_FOUND, "branch_not_found"),
            ProjectsError::Exists(_) => (StatusCode::CONFLICT, "project_exists"),
            ProjectsError::State { .. } => (StatusCode::CONFLICT, "submission_state"),
            ProjectsError::NotAssigned { .. } => (StatusCode::CONFLICT, "not_assigned"),
            ProjectsError::NoSandbox(_) => (StatusCode::CONFLICT, "no_sandbox"),
            ProjectsError::NothingNew { .. } => (StatusCode::CONFLICT, "nothing_new"),
            ProjectsError::Unanswered(_) => (StatusCode::CONFLICT, "findings_unanswered"),
            ProjectsError::NotLanded { .. } => (StatusCode::CONFLICT, "not_landed"),
            ProjectsError::Forbidden(_) => (StatusCode::FORBIDDEN, "not_asked"),
            ProjectsError::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid_project"),
            other => return Self::explained(other),
        };
        Self { cause: None, ..Self::described(status, code, &error) }
    }
}

impl From<RacesError> for ApiError {
    fn from(error: RacesError) -> Self {
        let (status, code) = match error {
            RacesError::Projects(error) => return error.into(),
            RacesError::Swarm(error) => return error.into(),
            RacesError::Unknown(_) => (StatusCode::NOT_FOUND, "race_not_found"),
            RacesError::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid_race"),
            RacesError::State { .. } | RacesError::Merged(_) => (StatusCode::CONFLICT, "race_state"),
            RacesError::NothingDelivered { .. } => (StatusCode::CONFLICT, "nothing_delivered"),
            other => return Self::explained(other),
        };
        Self { cause: None, ..Self::described(status, code, &error) }
    }
}

impl From<SwarmError> for ApiError {
    fn from(error: SwarmError) -> Self {
        let (status, code) = match &error {
            SwarmError::NoChannel(_) => (StatusCode::NOT_FOUND, "channel_not_found"),
            SwarmError::NoToken(_) => (StatusCode::NOT_FOUND, "token_not_found"),
            SwarmError::NoPerson(_) => (StatusCode::NOT_FOUND, "person_not_found"),
            SwarmError::NoSchedule(_) => (StatusCode::NOT_FOUND, "schedule_not_found"),
            SwarmError::NoHook(_) => (StatusCode::NOT_FOUND, "webhook_not_found"),
            SwarmError::NoBridge(_) => (StatusCode::NOT_FOUND, "bridge_not_found"),
            SwarmError::NoAgent(_) => (StatusCode::NOT_FOUND, "agent_not_found"),
            SwarmError::Archived(_) => (StatusCode::CONFLICT, "archived"),
            SwarmError::Refused(_) => (StatusCode::CONFLICT, "refused"),
            SwarmError::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
            // These errors explain themselves, so their own kind decides.
            SwarmError::ChannelExists(_)
            | SwarmError::TokenExists(_)
            | SwarmError::ScheduleExists(_)
            | SwarmError::HookExists(_)
            | SwarmError::Home(_)
            | SwarmError::Invalid(_)
            | SwarmError::Store(_) => {
                return Self::explained(error);
            }
        };
        Self::described(status, code, &error)
    }
}

impl Explain for ApiError {
    fn kind(&self) -> Kind {
        Kind::of_code(&self.code)
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl Error for ApiError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Attaches the error itself to an empty response. The front renders it when it knows the path and the id of the
/// request.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_never_in_the_body() {
        let error = ApiError::internal(std::io::Error::other("secret path /x"));
        for path in ["/v1/models", "/api/agents"] {
            assert!(!error.body(path).to_string().contains("secret"), "{path}");
        }
        assert_eq!(error.cause().as_deref(), Some("secret path /x"));
    }

    #[test]
    fn a_failing_disk_gives_503_with_retry_after() {
        let unread = || StoreError::Unreadable {
            path: "/home/x/data/flock.db".into(),
            source: std::io::Error::from_raw_os_error(5).into(),
        };
        for error in [
            ApiError::internal(unread()),
            ApiError::explained(unread()),
            ApiError::from(SwarmError::Store(unread())),
        ] {
            let answer = error.render("/api/channels/x");
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(answer.headers()["retry-after"], "5");
            assert_eq!(error.code, "unreadable");
            assert!(error.hint.is_some_and(|hint| hint.contains("kernel's log")));
        }
        let broken = StoreError::Damaged { path: "/x".into(), what: "a page".to_owned() };
        assert_eq!(ApiError::explained(broken).status, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn a_client_comes_back_for_an_agent_of_another_gateway_and_not_for_a_busy_one() {
        let agent = "coder".parse().unwrap();
        let error = ApiError::from(CheckpointError::Elsewhere { agent, gateway: None });
        let answer = error.render("/api/agents/coder/rewind");
        assert_eq!((answer.status(), &*error.code), (StatusCode::SERVICE_UNAVAILABLE, turn_error::ELSEWHERE));
        assert_eq!(answer.headers()["retry-after"], "1");
        let busy = || CheckpointError::Busy("coder".parse().unwrap());
        for error in [ApiError::from(RacesError::Fork(busy())), busy().into()] {
            assert_eq!((error.status, &*error.code), (StatusCode::CONFLICT, "conflict"), "{error:?}");
            assert!(error.retry_after.is_none(), "{error:?}");
        }
    }

    #[test]
    fn every_429_has_retry_after() {
        let limited = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "provider_limited", "too much");
        assert_eq!(limited.render("/v1/x").headers()["retry-after"], "10");
        let mut limited = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "provider_limited", "too much");
        limited.retry_after = Some(Duration::from_secs(3));
        assert_eq!(limited.render("/v1/x").headers()["retry-after"], "3");
    }

    #[test]
    fn each_path_has_its_own_error_format() {
        let error = ApiError::not_found("model_not_found", "no agent x").with_hint("flock list");
        let own = error.body("/api/agents/x");
        assert_eq!(own["error"]["hint"], "flock list");
        let openai = error.body("/v1/chat/completions");
        assert_eq!(openai["error"]["type"], "invalid_request_error");
        assert_eq!(openai["error"]["code"], "model_not_found");
        assert!(openai["error"]["param"].is_null());
    }
}
