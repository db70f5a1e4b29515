//! Builds the parts of a gateway in the order in which they depend on each other.

use std::sync::{Arc, Mutex, Weak};

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::events::EventBuffer;
use super::git::GitService;
use super::grants::TeamGrants;
use super::limits::ServerLimits;
use super::mcp;
use super::middleware::Middleware;
use super::projects::Projects;
use super::relay::Relay;
use super::state::{Gateway, GatewayParts};
use super::status_source::DockerStatusSource;
use super::team::Team;
use super::tools;
use crate::agent::{self, Engine};
use crate::bridge::Bridges;
use crate::config::Live;
use crate::id::AgentId;
use crate::provider::{BoxFuture, Catalog};
use crate::runtime::program as programs;
use crate::runtime::{Runtime, Runtimes, openclaw};
use crate::sandbox::Sandbox;
use crate::sandbox::docker::{ConfigSource, DockerSandbox};
use crate::sandbox::egress::SandboxApi;
use crate::sandbox::kubernetes::KubernetesSandbox;
use crate::sandbox::placed_sandbox::PlacedSandbox;
use crate::sandbox::workspace_files::Workspaces;
use crate::store::{Store, StoreError};
use crate::swarm::oversight::TeamOversight;
use crate::swarm::scheduler::SchedulerEvent;
use crate::swarm::triage::TriageApproval;
use crate::swarm::{Notifier, Swarm, SwarmParts};

/// A gateway, the handler in front of it, and the parts that work behind it.
pub(crate) struct GatewayAssembly {
    pub gateway: Arc<Gateway>,
    pub middleware: Arc<Middleware>,
    pub team: Arc<Team>,
    pub sandboxes: Arc<PlacedSandbox>,
    /// Serves the projects' repositories to the sandboxes.
    pub git: Arc<GitService>,
    pub(super) grants: Arc<TeamGrants>,
}

impl GatewayAssembly {
    /// Builds a gateway that listens on this port. The returned receiver delivers what the scheduler is told. This
    /// contacts neither Docker nor a model.
    ///
    /// # Errors
    ///
    /// Returns the store's error if the frozen agents or the group of gateways can't be read.
    pub(crate) async fn new(
        live: Arc<Live>,
        store: Arc<Store>,
        instance: String,
        port: u16,
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<SchedulerEvent>), StoreError> {
        let limits = ServerLimits::for_team(live.current().max_turns);
        let events = Arc::new(EventBuffer::for_this_process(limits.events));
        let (ringer, rings) = mpsc::unbounded_channel();
        let news = events.clone();
        let bridges = Arc::new(Bridges::default());
        let woken = bridges.clone();
        let publish = move |name: &str, data: &_| {
            woken.wake_for(name);
            news.publish(name, data);
        };
        let notifier = Notifier::new(ringer, Arc::new(publish));
        let swarm = Arc::new(Swarm::new(SwarmParts { live: live.clone(), store: store.clone(), notifier }));
        swarm.load_frozen().await?;
        swarm.load_quotas().await?;
        let group = if store.is_in_group() { store.gateway_group().find().await? } else { None };
        let group = group.map(|group| group.files);
        let grants = TeamGrants::new(swarm.clone());
        // The sandboxes pass requests of programs to the middleware, whose gateway uses the sandboxes.
        let assembly = Arc::new_cyclic(|assembly: &Weak<Self>| {
            let newest = live.clone();
            let git = Arc::new(GitService::new(live.home().clone(), Arc::new(move || newest.current())));
            let docker = docker(&live, &swarm, &grants).with_sandbox_api(assembly.clone());
            let sandboxes = Arc::new(placed(&live, &swarm, &grants, docker));
            let reached: Arc<dyn Sandbox> = sandboxes.clone();
            let workspaces = Workspaces::new(&reached).fenced(store.syncer().fence().clone());
            swarm.reach_workspaces(workspaces.clone());
            let servers = mcp::recorded_servers(&live, &store, grants.clone());
            let triage = tools::triage(&live, &swarm, &reached, &servers);
            let projects = Arc::new(Projects::new(swarm.clone()));
            let catalog = Catalog::new(live.home().clone());
            let approval = Arc::new(TriageApproval(triage.clone()));
            let oversight = Arc::new(TeamOversight::new(swarm.clone(), approval));
            let relay = Arc::new(Relay::new(live.clone(), catalog.clone(), oversight.clone(), port));
            let gateway = Gateway::new(|gateway| {
                servers.people_asked_by(Arc::new(mcp::RequestedPerson(Arc::downgrade(&triage))));
                servers.sampled_by(Arc::new(mcp::EngineModel(gateway.clone())));
                servers.placed_by(Arc::new(mcp::LeasedServers(gateway.clone())));
                let engine = Engine::new(agent::EngineParts {
                    config: live.clone(),
                    store: store.clone(),
                    registry: tools::registry(&live, &triage, &reached, &projects, &servers, gateway.clone()),
                    catalog,
                    limits: agent::TurnLimits::default(),
                    oversight,
                });
                engine.reach_workspaces(workspaces);
                let engine = Arc::new(engine.with_runtimes(runtimes(&live, store, &sandboxes, &relay)));
                let records = DockerStatusSource {
                    engine: engine.clone(),
                    sandboxes: sandboxes.clone(),
                    live: live.clone(),
                    measured: tokio::sync::Mutex::default(),
                };
                GatewayParts {
                    live,
                    runner: engine.clone(),
                    sandbox: sandboxes.clone(),
                    records: Arc::new(records),
                    swarm,
                    events,
                    limits,
                    port,
                    group,
                    instance,
                    triage,
                    engine,
                    relay,
                    bridges,
                    projects,
                    servers,
                }
            });
            let team = Team::new(gateway.clone());
            let middleware = Arc::new(Middleware::new(gateway.clone()));
            Self { gateway, middleware, team, sandboxes, git, grants }
        });
        Ok((assembly, rings))
    }
}

impl SandboxApi for GatewayAssembly {
    fn answer<'a>(&'a self, agent: &'a AgentId, request: Request<Incoming>) -> BoxFuture<'a, Response<Body>> {
        if GitService::serves(request.uri().path()) {
            return Box::pin(self.git.answer(agent, request));
        }
        SandboxApi::answer(&*self.middleware, agent, request)
    }
}

/// Returns the programs that run turns instead of the native loop.
fn runtimes(
    live: &Arc<Live>,
    store: Arc<Store>,
    sandboxes: &Arc<PlacedSandbox>,
    relay: &Arc<Relay>,
) -> Runtimes {
    let (openclaws, newest) = (live.clone(), live.clone());
    let find = move || openclaw::find(openclaws.home(), &openclaws.current());
    let parts = Arc::new(programs::ProgramServices {
        home: live.home().clone(),
        config: Arc::new(move || newest.current()),
        store,
        sandbox: sandboxes.clone(),
        gate: relay.clone(),
        flock: crate::process::own_executable(),
        begun: Mutex::default(),
    });
    let mut all: Vec<Arc<dyn Runtime>> = vec![Arc::new(openclaw::OpenClaw::new(Arc::new(find)))];
    for program in programs::PROGRAMS {
        let program = programs::ProgramHandle::Listed(program);
        all.push(Arc::new(programs::ProgramRuntime::new(program, parts.clone())));
    }
    let described = move |name: &str| -> Option<Arc<dyn Runtime>> {
        let program = programs::named(name)?;
        Some(Arc::new(programs::ProgramRuntime::new(program, parts.clone())))
    };
    Runtimes::new(all).with_described(Arc::new(described))
}

/// Returns the backends for the agents' sandboxes in Docker engines and in clusters.
fn placed(live: &Arc<Live>, swarm: &Swarm, grants: &Arc<TeamGrants>, docker: DockerSandbox) -> PlacedSandbox {
    let newest = live.clone();
    let source: ConfigSource = Arc::new(move || newest.current());
    let clusters = KubernetesSandbox::new(live.home().clone(), Arc::clone(&source), swarm.engines().clone())
        .with_mounts(grants.mounts())
        .with_egress(grants.clone());
    PlacedSandbox::new(Arc::new(docker), Arc::new(clusters), source)
}

/// Returns the backend for the agents' containers. It connects to the engine when the first container is needed.
fn docker(live: &Arc<Live>, swarm: &Swarm, grants: &Arc<TeamGrants>) -> DockerSandbox {
    let (home, newest) = (live.home(), live.clone());
    let local = swarm.engines().local().clone();
    DockerSandbox::new(home.clone(), Arc::new(move || newest.current()), local)
        .with_engines(swarm.engines().clone())
        .with_mounts(grants.mounts())
        .with_program_mounts(programs::folders::mount_resolver(home))
        .with_egress(grants.clone())
}
