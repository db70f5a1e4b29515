//! What a request is answered when it fails: a status, a stable code, a sentence and the command that mends
//! it for the client; the cause only for the log.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::relay;
use crate::error::{Explain, Kind, chain};
use crate::swarm::SwarmError;

/// A refusal or a failure, as a client may see it. [`Self::cause`] never leaves the process.
#[derive(Debug)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// A stable word for programs.
    pub code: Cow<'static, str>,
    /// What failed, on which thing.
    pub message: String,
    /// What to do about it, a command where there is one.
    pub hint: Option<String>,
    /// When it makes sense to ask again.
    pub retry_after: Option<Duration>,
    /// Whether the work had begun, so that a client's own retry would do it twice, or it would only fail again.
    pub begun: bool,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl ApiError {
    /// An error with this status, code and sentence.
    #[must_use]
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            hint: None,
            retry_after: None,
            begun: false,
            cause: None,
        }
    }

    /// 400: the request is wrong.
    #[must_use]
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404: there is no such thing.
    #[must_use]
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// 500: a defect or a fault of this machine. The client only learns that it happened.
    #[must_use]
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let mut error =
            Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the gateway failed to do this");
        error.cause = Some(cause.into());
        error.with_hint("flock logs gateway")
    }

    /// An error that explains itself: its sentence and hint are made for people, its causes stay here.
    #[must_use]
    pub fn explained<E: Explain + Send + Sync + 'static>(error: E) -> Self {
        let kind = error.kind();
        let status = match kind {
            Kind::Usage => StatusCode::BAD_REQUEST,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::NeedsApproval => StatusCode::FORBIDDEN,
            Kind::DockerUnavailable | Kind::NotRunning => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Failed | Kind::NotInitialised | Kind::NewerHome | Kind::Internal => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        let mut api = Self::new(status, kind.code(), error.to_string());
        api.hint = error.hint();
        api.cause = Some(Box::new(error));
        api
    }

    /// The same with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with a cause for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The same, where it would only fail again.
    #[must_use]
    pub const fn finally(mut self) -> Self {
        self.begun = true;
        self
    }

    /// The causes, joined, for the log.
    #[must_use]
    pub fn cause(&self) -> Option<String> {
        self.cause.as_deref().map(|cause| chain(cause))
    }

    /// The body as clients of this path expect it: OpenAI's shape below `/v1`, that of each model API below `/relay`,
    /// flock's own elsewhere.
    #[must_use]
    pub fn body(&self, path: &str) -> Value {
        if let Some(body) =
            relay::shape::error(path, self.status.as_u16(), &self.message, self.hint.as_deref())
        {
            return body;
        }
        if path == "/v1" || path.starts_with("/v1/") {
            return json!({"error": {
                "message": self.message,
                "type": self.openai_type(),
                "param": null,
                "code": self.code,
                "hint": self.hint,
            }});
        }
        json!({"error": {"code": self.code, "message": self.message, "hint": self.hint}})
    }

    /// The whole answer. `path` picks the shape, `request` names the request in the log.
    #[must_use]
    pub fn render(&self, path: &str) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body(path).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if self.begun {
            // OpenAI's clients repeat 429 and 5xx by themselves unless they are told not to.
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
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
            400..=499 => "invalid_request_error",
            _ => "server_error",
        }
    }
}

/// What the team refuses keeps its words; each reason has the status that clients know it by.
impl From<SwarmError> for ApiError {
    fn from(error: SwarmError) -> Self {
        let (status, code) = match &error {
            SwarmError::NoChannel(_) => (StatusCode::NOT_FOUND, "channel_not_found"),
            SwarmError::NoAgent(_) => (StatusCode::NOT_FOUND, "agent_not_found"),
            SwarmError::Archived(_) => (StatusCode::CONFLICT, "archived"),
            SwarmError::Refused(_) => (StatusCode::CONFLICT, "refused"),
            SwarmError::ChannelExists(_) | SwarmError::Invalid(_) | SwarmError::Store(_) => {
                return Self::explained(error);
            }
        };
        let mut api = Self::new(status, code, error.to_string());
        api.hint = error.hint();
        api
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Handlers return the error itself; the front renders it once it knows the path and the request's id.
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
    fn the_cause_stays_here() {
        let error = ApiError::internal(std::io::Error::other("secret path /x"));
        for path in ["/v1/models", "/api/agents"] {
            assert!(!error.body(path).to_string().contains("secret"), "{path}");
        }
        assert_eq!(error.cause().as_deref(), Some("secret path /x"));
    }

    #[test]
    fn each_path_has_its_shape() {
        let error = ApiError::not_found("model_not_found", "no agent x").with_hint("flock list");
        let own = error.body("/api/agents/x");
        assert_eq!(own["error"]["hint"], "flock list");
        let openai = error.body("/v1/chat/completions");
        assert_eq!(openai["error"]["type"], "invalid_request_error");
        assert_eq!(openai["error"]["code"], "model_not_found");
        assert!(openai["error"]["param"].is_null());
    }
}
