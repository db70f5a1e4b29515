//! Requests that this process handles itself while no gateway runs, by the gateway's own routes.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use serde_json::Value;
use tower_service::Service as _;

use super::{Context, Failure, team};
use crate::error::chain;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::projects::Projects;
use crate::gateway::routes::{self, TeamState};
use crate::home::Home;
use crate::supervise::gateway_client::Call;

/// Handles a request of the owner in the home's database. No notification is sent: the gateway looks for changes when
/// it starts.
///
/// # Errors
///
/// Returns an error if a gateway lives, if the configuration or the database can't be used, or if the route refuses the
/// request.
pub(crate) async fn handle(home: &Home, context: &Context, call: Call) -> Result<Value, Failure> {
    // The check comes before the store is opened: only one process may write to it.
    team::require_no_gateway(home)?;
    let swarm = Arc::new(team::swarm(home)?);
    let store = Arc::clone(swarm.store());
    // Loads which agents sleep, so that a mention wakes them.
    swarm.agent_events().await?;
    let mut request = call.request()?.map(Body::from);
    request.extensions_mut().insert(Caller::Owner);
    let projects = Arc::new(Projects::new(Arc::clone(&swarm)));
    let state = TeamState { swarm, triage: None, sandbox: None, bridges: None, projects };
    let mut routes = routes::team().with_state(state);
    let mut response = match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    if let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>().and_then(Arc::into_inner) {
        return Err(error.into());
    }
    let failed = "failed to read the result of the change";
    let body = to_bytes(response.into_body(), usize::MAX).await;
    let body = body.map_err(|error| Failure::with_cause(failed, &error))?;
    let done = serde_json::from_slice(&body).map_err(|error| Failure::with_cause(failed, &error))?;
    // The work is already done. A failure to checkpoint the log now is only worth a warning.
    if let Err(error) = store.settle().await {
        context.printer.warn(&chain(&error));
    }
    Ok(done)
}
