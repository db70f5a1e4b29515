//! The head of a request: the version of the protocol and the session, which `initialize` begins and `DELETE /mcp` ends.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Extension;
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};

use super::error::{self, McpError};
use super::reply::{Reply, SESSION_HEADER};
use super::{ASSUMED_VERSION, MAX_NAME, VERSION_HEADER, VERSIONS, text};
use crate::gateway::relay::Ticket;
use crate::gateway::relay::mcp_sessions::McpSession;
use crate::gateway::state::Gateway;
use crate::tool::{LogLevel, safe_text};

/// The program that asks, and the session that its request names.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) gateway: Arc<Gateway>,
    pub(super) ticket: Arc<Ticket>,
    /// The state of requests without a session if none is named.
    pub(super) session: Arc<McpSession>,
    /// The version of the protocol that is spoken.
    pub(super) version: &'static str,
}

impl Asker {
    /// Reads the head of a request.
    ///
    /// # Errors
    ///
    /// Returns 400 for a version of the protocol that is not supported, and 404 for a session that this turn does not have.
    pub(super) fn read(
        gateway: Arc<Gateway>,
        ticket: Arc<Ticket>,
        headers: &HeaderMap,
    ) -> Result<Self, Reply> {
        let named = named_version(headers)?;
        let session = match headers.get(SESSION_HEADER) {
            None => ticket.mcp_sessions.outside(),
            Some(id) => {
                let known = id.to_str().ok().and_then(|id| ticket.mcp_sessions.find(id));
                known.ok_or_else(unknown)?
            }
        };
        let version = named.or(session.version).unwrap_or(ASSUMED_VERSION);
        Ok(Self { gateway, ticket, session, version })
    }
}

/// Returns the version of the protocol that a request names.
fn named_version(headers: &HeaderMap) -> Result<Option<&'static str>, Reply> {
    let Some(version) = headers.get(VERSION_HEADER) else { return Ok(None) };
    let version = version.to_str().unwrap_or("?").trim();
    let known = VERSIONS.into_iter().find(|known| *known == version);
    known.map(Some).ok_or_else(|| {
        let text = format!(
            "version {:?} of the protocol is not spoken here; these are: {}",
            safe_text::start(version, MAX_NAME),
            VERSIONS.join(", ")
        );
        Reply::wrong(error::INVALID_REQUEST, text)
    })
}

fn unknown() -> Reply {
    let text = "this turn has no such session: begin one with initialize, without Mcp-Session-Id";
    Reply::refusal(StatusCode::NOT_FOUND, error::NO_SESSION, text)
}

/// Ends a session.
pub(crate) async fn end(Extension(ticket): Extension<Arc<Ticket>>, headers: HeaderMap) -> Response<Body> {
    let reply = match (named_version(&headers), headers.get(SESSION_HEADER)) {
        (Err(refusal), _) => refusal,
        (Ok(_), None) => {
            Reply::wrong(error::INVALID_REQUEST, "Mcp-Session-Id has to name the session to end")
        }
        (Ok(_), Some(id)) => match id.to_str() {
            Ok(id) if ticket.mcp_sessions.end(id) => Reply::empty(StatusCode::NO_CONTENT),
            _ => unknown(),
        },
    };
    reply.into_response()
}

/// Answers `logging/setLevel`.
pub(super) fn set_level(session: &McpSession, params: &Value) -> Result<Value, McpError> {
    let level = LogLevel::parse(text(params, "level")?).ok_or_else(|| {
        McpError::invalid(format!("level is one of {}", LogLevel::ALL.map(LogLevel::as_str).join(", ")))
    })?;
    session.set_level(level);
    Ok(json!({}))
}
