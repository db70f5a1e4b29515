//! Answers requests from sandboxes in the same way as requests on the gateway's own port, once the gateway is ready.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::gateway::error::ApiError;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::SandboxApi;

/// Answers sandboxes, which exist before the gateway does.
#[derive(Default)]
pub struct DeferredSandboxApi(OnceLock<Arc<dyn SandboxApi>>);

impl DeferredSandboxApi {
    /// Lets `inside` answer from now on.
    pub fn connect(&self, inside: Arc<dyn SandboxApi>) {
        // Only the first call has an effect.
        drop(self.0.set(inside));
    }
}

impl SandboxApi for DeferredSandboxApi {
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
