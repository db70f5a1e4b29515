//! The answer to a request over HTTP.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::error::{self, McpError};

/// The header with the id of a session.
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// An answer as JSON, or without a body.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    pub(super) body: Option<Value>,
    /// The id of the session that begins with it.
    session: Option<String>,
    /// The methods that the path takes, if the request had another one.
    allow: Option<&'static str>,
}

impl Reply {
    /// Returns a message as the answer.
    pub(super) fn message(body: Value) -> Self {
        Self { body: Some(body), ..Self::empty(StatusCode::OK) }
    }

    /// Returns the answer to what needs none.
    pub(super) fn accepted() -> Self {
        Self::empty(StatusCode::ACCEPTED)
    }

    /// Returns an answer without a body.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, body: None, session: None, allow: None }
    }

    /// Returns the refusal of a body that is no message.
    pub(super) fn wrong(code: i32, text: impl Into<String>) -> Self {
        Self::refusal(StatusCode::BAD_REQUEST, code, text)
    }

    /// Returns the refusal of a request to the path.
    pub(super) fn refusal(status: StatusCode, code: i32, text: impl Into<String>) -> Self {
        let body = McpError::new(code, text).response(&Value::Null);
        Self { body: Some(body), ..Self::empty(status) }
    }

    /// Returns the answer to a method that the path does not take now, with those that it takes.
    pub(super) fn not_allowed(allow: &'static str, text: &str) -> Self {
        let refusal = Self::refusal(StatusCode::METHOD_NOT_ALLOWED, error::INVALID_REQUEST, text);
        Self { allow: Some(allow), ..refusal }
    }

    /// Returns the answer with which this session begins.
    pub(super) fn beginning(self, session: Option<String>) -> Self {
        Self { session, ..self }
    }

    /// Returns the answer as HTTP has it.
    pub(super) fn into_response(self) -> Response<Body> {
        let has_body = self.body.is_some();
        let mut response =
            Response::new(self.body.map_or_else(Body::empty, |body| Body::from(body.to_string())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if has_body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(id) = self.session.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(SESSION_HEADER, id);
        }
        response
    }
}
