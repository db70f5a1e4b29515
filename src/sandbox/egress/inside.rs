//! What of flock programs in a sandbox may ask for: the way to their models, and flock's tools.

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;

use crate::id::AgentId;
use crate::provider::BoxFuture;

/// Answers requests that come from inside a sandbox and are for flock. It has to look at the credential: everything in
/// the sandbox can send them.
pub trait Inside: Send + Sync {
    /// The answer to a request that comes from this agent's sandbox. Its path is one that [`is_inside`].
    fn answer<'a>(&'a self, agent: &'a AgentId, request: Request<Incoming>) -> BoxFuture<'a, Response<Body>>;
}

/// Whether a path is one that a sandbox may ask flock for. Nothing else of flock can be asked for from there.
#[must_use]
pub fn is_inside(path: &str) -> bool {
    path.starts_with("/relay/") || path == "/mcp"
}
