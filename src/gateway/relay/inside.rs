//! What comes from sandboxes: answered as what comes over the gateway's own port, once there is a gateway.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::gateway::error::ApiError;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::Inside;

/// Answers sandboxes, which are there before the gateway is.
#[derive(Default)]
pub struct FromSandboxes(OnceLock<Arc<dyn Inside>>);

impl FromSandboxes {
    /// From here on this answers.
    pub fn connect(&self, inside: Arc<dyn Inside>) {
        // Only the first one does.
        drop(self.0.set(inside));
    }
}

impl Inside for FromSandboxes {
    fn answer<'a>(&'a self, agent: &'a AgentId, request: Request<Incoming>) -> BoxFuture<'a, Response<Body>> {
        match self.0.get() {
            Some(inside) => inside.answer(agent, request),
            None => {
                let error = ApiError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "not_ready",
                    "the gateway is not ready yet",
                );
                let answer = error.render(request.uri().path());
                Box::pin(std::future::ready(answer))
            }
        }
    }
}
