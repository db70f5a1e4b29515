//! The MCP servers of a gateway: who is asked about changed definitions, what a person's answer does, and whose model
//! servers may ask.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::peers;
use super::state::Gateway;
use crate::agent::sampling::{SampleAnswer, SampleError, SampleQuestion, SampledCall};
use crate::config::Live;
use crate::id::{AgentId, McpServerName};
use crate::mcp::{
    AgentModel, DefinitionReview, Hold, Person, PersonAnswer, Question, SandboxLauncher, ServerCall,
    ServerPlace, Servers, sandbox_source,
};
use crate::provider::BoxFuture;
use crate::sandbox::docker::{ConfigSource, DockerSandbox};
use crate::sandbox::egress::{ConfiguredEgress, ConnectionRecord, EgressPolicy, EgressRule};
use crate::sandbox::engine::Engine;
use crate::store::{LeaseSubject, NoticeKind, Store};
use crate::swarm::Actor;
use crate::swarm::triage::{FiledRequest, Request, ToolDefinitions, Triage, question};
use crate::tool::{CallContext, ToolError, ToolOutput};

/// The most open requests that are searched for one about the same definition.
const MAX_OPEN: u32 = 1_000;

/// Returns the MCP servers of a home, in sandboxes of their own. Nothing is started.
#[must_use]
pub fn servers(live: &Arc<Live>, store: &Arc<Store>) -> Arc<Servers> {
    with_sandboxes(live, store, |sandbox, _| sandbox)
}

/// Returns the same, with servers whose connections are recorded as those of agents are.
#[must_use]
pub(crate) fn recorded_servers(
    live: &Arc<Live>,
    store: &Arc<Store>,
    record: Arc<dyn EgressPolicy>,
) -> Arc<Servers> {
    with_sandboxes(live, store, |sandbox, source| {
        sandbox.with_egress(Arc::new(ServerEgress { rules: ConfiguredEgress(source), record }))
    })
}

fn with_sandboxes(
    live: &Arc<Live>,
    store: &Arc<Store>,
    finish: impl FnOnce(DockerSandbox, ConfigSource) -> DockerSandbox,
) -> Arc<Servers> {
    let (home, newest) = (live.home().clone(), live.clone());
    let source = sandbox_source(home.clone(), Arc::new(move || newest.current()));
    let sandbox = DockerSandbox::new(home.clone(), Arc::clone(&source), Arc::new(Engine::from_env()));
    let sandbox = finish(sandbox, source);
    Servers::new(live.clone(), store.clone(), Arc::new(SandboxLauncher::new(home, sandbox)))
}

/// The hosts of the configuration alone: nothing that was granted to an agent counts for a server.
struct ServerEgress {
    rules: ConfiguredEgress,
    record: Arc<dyn EgressPolicy>,
}

impl EgressPolicy for ServerEgress {
    fn rules<'a>(&'a self, server: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        self.rules.rules(server)
    }

    fn note(&self, server: &AgentId, connection: &ConnectionRecord) {
        self.record.note(server, connection);
    }
}

/// Asks a person about changed definitions, as about other requests of agents.
pub(crate) struct RequestedReview(pub(crate) Weak<Triage>);

impl RequestedReview {
    async fn ask(
        &self,
        context: &CallContext,
        (server, tool): (&McpServerName, &str),
        sha256: &str,
    ) -> Result<String, String> {
        let Some(triage) = self.0.upgrade() else { return Err("the gateway is stopping".to_owned()) };
        // Several agents may have the tool. A person looks once.
        let open = triage.swarm().store().requests().list(true, MAX_OPEN).await;
        let open = open.map_err(|error| crate::error::chain(&error))?;
        let is_same = |asked: FiledRequest| {
            matches!(&asked.request, Request::McpTool { server: of, tool: name, sha256: known, .. }
                if of == server && name == tool && known == sha256)
        };
        if let Some(row) = open.iter().find(|row| FiledRequest::read(&row.body).is_some_and(is_same)) {
            return Ok(format!("{}: a person was asked already; it is {}", row.id, row.state.as_str()));
        }
        let request = Request::McpTool {
            server: server.clone(),
            tool: tool.to_owned(),
            sha256: sha256.to_owned(),
            changes: Vec::new(),
        };
        let reason = format!("the MCP server {server} has changed what it says about {tool}");
        let asked = triage.request(&Actor::call(context), request, &reason, &context.cancel).await;
        asked.map_err(|error| crate::error::chain(&error))
    }
}

impl DefinitionReview for RequestedReview {
    fn changed<'a>(
        &'a self,
        context: &'a CallContext,
        server: &'a McpServerName,
        tool: &'a str,
        sha256: &'a str,
    ) -> BoxFuture<'a, String> {
        Box::pin(async move {
            self.ask(context, (server, tool), sha256)
                .await
                .unwrap_or_else(|why| format!("Nobody was asked: {why}"))
        })
    }
}

/// Asks people for servers, as for other requests of agents.
pub(crate) struct RequestedPerson(pub(crate) Weak<Triage>);

impl Person for RequestedPerson {
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        server: &'a McpServerName,
        asked: Question,
        limit: Duration,
    ) -> BoxFuture<'a, Result<PersonAnswer, String>> {
        Box::pin(async move {
            let triage = self.0.upgrade().ok_or_else(|| "the gateway is stopping".to_owned())?;
            triage.ask_person(context, question::request(server, asked), limit).await
        })
    }
}

/// Asks the agents' models for servers.
pub(crate) struct EngineModel(pub(crate) Weak<Gateway>);

impl AgentModel for EngineModel {
    fn sample<'a>(
        &'a self,
        asked: SampledCall<'a>,
        question: &'a SampleQuestion,
    ) -> BoxFuture<'a, Result<SampleAnswer, SampleError>> {
        Box::pin(async move {
            let gateway = self.0.upgrade().ok_or(SampleError::Failed)?;
            gateway.engine.sample(asked, question).await
        })
    }
}

/// Knows by the leases which gateway runs a server.
pub(crate) struct LeasedServers(pub(crate) Weak<Gateway>);

impl ServerPlace for LeasedServers {
    fn is_shared(&self) -> bool {
        self.0.upgrade().is_some_and(|gateway| gateway.swarm.ownership().is_shared())
    }

    fn enter(&self, server: &McpServerName) -> Option<Hold> {
        let gateway = self.0.upgrade()?;
        let subject = LeaseSubject::server(server);
        Some(Box::new(gateway.swarm.ownership().enter(subject)?))
    }

    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        call: ServerCall,
    ) -> BoxFuture<'a, Option<Result<ToolOutput, ToolError>>> {
        Box::pin(async move {
            let gateway = self.0.upgrade()?;
            peers::call_mcp_server(&gateway, context, &call).await
        })
    }
}

/// Reads the grants again whenever another gateway may have changed some, until this one stops.
pub(crate) async fn follow_grants(gateway: Arc<Gateway>) {
    let mut notices = gateway.swarm.store().notices();
    while gateway.stop.run_until_cancelled(notices.next_of(&[NoticeKind::Server])).await.is_some() {
        if let Err(error) = gateway.servers.refresh().await {
            tracing::error!(error = crate::error::chain(&error), "failed to read the grants of MCP servers");
        }
    }
}

/// Takes over definitions that a person approved.
pub(crate) struct ApprovedDefinitions(pub(crate) Arc<Servers>);

impl ToolDefinitions for ApprovedDefinitions {
    fn accept<'a>(&'a self, asked: &'a FiledRequest) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let Request::McpTool { server, tool, sha256, .. } = &asked.request else {
                return Err("not done: it is no request about a tool".to_owned());
            };
            let accepted = self.0.accept((server, tool), sha256, "a person").await;
            match accepted.map_err(|error| crate::error::chain(&error))? {
                true => Ok(format!("you can use {tool} of {server} again")),
                false => Err(format!("{tool} of {server} has changed once more since, or was taken back")),
            }
        })
    }
}
