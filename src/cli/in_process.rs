//! Requests that this process handles itself while no gateway runs, by the gateway's own routes.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use serde_json::Value;
use tower_service::Service as _;

use super::{Context, Failure, team};
use crate::agent::transcript::RewindRecord;
use crate::checkpoint::{AgentServices, CheckpointError, Checkpoints};
use crate::config::{self, Live};
use crate::error::chain;
use crate::gateway::agent_services;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::mcp;
use crate::gateway::projects::Projects;
use crate::gateway::races::Races;
use crate::gateway::routes::{self, TeamState};
use crate::home::Home;
use crate::id::{AgentId, SessionKey};
use crate::nix_store::{PackageStores, ProfileDifference};
use crate::provider::BoxFuture;
use crate::sandbox::Sandbox;
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::engines::Engines;
use crate::sandbox::workspace_files::Workspaces;
use crate::store::Store;
use crate::supervise::gateway_client::Call;
use crate::swarm::operation;

/// The process that checkpoints need, without running agents.
struct Alone {
    home: Home,
    store: Arc<Store>,
    engines: Arc<Engines>,
    sandbox: Arc<dyn Sandbox>,
}

impl AgentServices for Alone {
    fn stop_sandbox<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            // A gateway that was killed leaves its sandboxes running.
            agent_services::stop(&*self.sandbox, agent).await
        })
    }

    fn packages_difference<'a>(
        &'a self,
        agent: &'a AgentId,
        number: u32,
    ) -> BoxFuture<'a, Result<Option<ProfileDifference>, String>> {
        Box::pin(async move { operation::packages_difference(&self.packages()?, agent, number).await })
    }

    fn set_packages_back<'a>(
        &'a self,
        agent: &'a AgentId,
        number: u32,
    ) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move { operation::set_packages_back(&self.packages()?, agent, number).await })
    }

    fn copy_packages<'a>(
        &'a self,
        from: &'a AgentId,
        to: &'a AgentId,
        number: Option<u32>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { operation::copy_packages(&self.packages()?, (from, to), number).await })
    }

    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { operation::forget_packages(&self.packages()?, agent).await })
    }

    fn set_back<'a>(
        &'a self,
        session: &'a SessionKey,
        record: RewindRecord,
    ) -> BoxFuture<'a, Result<(), CheckpointError>> {
        Box::pin(async move {
            let done = crate::agent::session::set_back(&self.store, &self.home, session, record).await;
            done.map_err(agent_services::explained)
        })
    }
}

impl Alone {
    fn packages(&self) -> Result<PackageStores, String> {
        let config = config::read(&self.home).map_err(|error| chain(&error))?;
        Ok(PackageStores::new(self.home.clone(), team::fixed_config(&config), self.engines.clone()))
    }
}

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
    let live = Arc::new(Live::open(home.clone())?);
    let servers = mcp::servers(&live, &store);
    let engines = swarm.engines().clone();
    let current = Arc::clone(&live);
    let source: ConfigSource = Arc::new(move || current.current());
    let sandbox: Arc<dyn Sandbox> = Arc::new(team::placed(home, source, engines.clone()));
    let ownership = Arc::clone(swarm.ownership());
    let checkpoints = Arc::new(Checkpoints::new(live, Arc::clone(&store), ownership));
    checkpoints.reach_workspaces(Workspaces::new(&sandbox));
    checkpoints.serve(Arc::new(Alone { home: home.clone(), store: Arc::clone(&store), engines, sandbox }));
    let projects = Arc::new(Projects::new(Arc::clone(&swarm)));
    let races = Arc::new(Races::new(Arc::clone(&swarm), Arc::clone(&projects), Arc::clone(&checkpoints)));
    let state = TeamState {
        swarm,
        triage: None,
        sandbox: None,
        bridges: None,
        checkpoints,
        projects,
        races,
        servers: Arc::clone(&servers),
    };
    let mut routes = routes::team().with_state(state);
    let mut response = match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    // Nobody would stop them later.
    servers.stop_all().await;
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
