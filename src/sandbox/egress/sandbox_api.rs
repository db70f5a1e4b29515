//! The part of flock that programs in a sandbox may call: the relay to their models, flock's tools, and the repositories
//! of their projects.

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;

use crate::id::AgentId;
use crate::provider::BoxFuture;

/// A service that answers requests from inside a sandbox to flock. Every process in the sandbox can send such requests,
/// so it has to check the credential where the agent alone is not enough.
pub trait SandboxApi: Send + Sync {
    /// Answers a request from this agent's sandbox. The request's path has passed [`is_inside`].
    fn answer<'a>(&'a self, agent: &'a AgentId, request: Request<Incoming>) -> BoxFuture<'a, Response<Body>>;
}

/// Returns `true` for a path that a sandbox may request from flock. No other path of flock is reachable from there.
#[must_use]
pub fn is_inside(path: &str) -> bool {
    path.starts_with("/relay/") || path.starts_with("/git/") || path == "/mcp"
}
