//! The HTTP routes, with one file for each resource.

pub(crate) mod a2a;
pub mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod bridges;
pub(crate) mod channels;
pub(crate) mod chat;
pub(crate) mod checkpoints;
mod client_calls;
pub(crate) mod config;
pub(crate) mod dashboard;
pub(crate) mod doctor;
pub(crate) mod engines;
pub mod events;
pub(crate) mod files;
pub(crate) mod freeze;
pub(crate) mod generations;
pub(crate) mod graph;
pub mod health;
pub(crate) mod hooks;
pub(crate) mod logs;
pub(crate) mod mcp;
pub(crate) mod mcp_servers;
pub(crate) mod messages;
pub(crate) mod metrics;
pub mod models;
pub(crate) mod openapi;
pub(crate) mod parts;
pub(crate) mod people;
pub mod plugin;
pub(crate) mod projects;
pub(crate) mod prompt;
pub(crate) mod push;
pub(crate) mod quota;
pub(crate) mod races;
pub(crate) mod receipts;
pub(crate) mod responses;
pub(crate) mod schedules;
pub(crate) mod search;
pub mod sessions;
pub(crate) mod settings;
pub(crate) mod sign_ins;
pub(crate) mod skills;
pub mod status;
mod stored_status;
pub(crate) mod supervisor;
pub(crate) mod tasks;
pub(crate) mod tokens;
pub(crate) mod transcript;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{delete, get, post, put};

use super::error::ApiError;
use super::projects::Projects;
use super::races::Races;
use super::state::Gateway;
use crate::bridge::Bridges;
use crate::checkpoint::Checkpoints;
use crate::mcp::Servers;
use crate::sandbox::Sandbox;
use crate::swarm::Swarm;
use crate::swarm::triage::Triage;

/// The JSON answer of a route, or its error.
pub(crate) type JsonResult = Result<axum::Json<serde_json::Value>, ApiError>;

/// The state of the routes that need no running gateway.
#[derive(Clone)]
pub(crate) struct TeamState {
    pub swarm: Arc<Swarm>,
    /// The part that carries out requests, or `None` if this process carries out none.
    pub triage: Option<Arc<Triage>>,
    /// The backend in which the commands of agents run, or `None` if this process runs none.
    pub sandbox: Option<Arc<dyn Sandbox>>,
    /// The running bridges, or `None` if this process runs none.
    pub(crate) bridges: Option<Arc<Bridges>>,
    pub(crate) projects: Arc<Projects>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) races: Arc<Races>,
    pub(crate) servers: Arc<Servers>,
}

impl FromRef<Arc<Gateway>> for TeamState {
    fn from_ref(gateway: &Arc<Gateway>) -> Self {
        Self {
            swarm: gateway.swarm.clone(),
            triage: Some(gateway.triage.clone()),
            sandbox: Some(gateway.sandbox.clone()),
            bridges: Some(gateway.bridges.clone()),
            projects: gateway.projects.clone(),
            checkpoints: gateway.checkpoints.clone(),
            races: gateway.races.clone(),
            servers: gateway.servers.clone(),
        }
    }
}

/// Returns the routes that need only the team and its database. The command line calls them in its own process while
/// no gateway runs.
pub(crate) fn team<S: Clone + Send + Sync + 'static>() -> Router<S>
where
    TeamState: FromRef<S>,
{
    Router::new()
        .route("/api/approvals", get(approvals::list))
        .route("/api/approvals/{id}", get(approvals::show))
        .route("/api/approvals/{id}/approve", post(approvals::approve))
        .route("/api/approvals/{id}/answer", post(approvals::answer))
        .route("/api/approvals/{id}/deny", post(approvals::deny))
        .route("/api/approvals/{id}/revoke", post(approvals::revoke))
        .route("/api/agents/{id}/checkpoints", get(checkpoints::list).post(checkpoints::make))
        .route("/api/agents/{id}/rewind", post(checkpoints::rewind))
        .route("/api/agents/{id}/fork", post(checkpoints::fork))
        .route("/api/agents/{id}/freeze", post(freeze::freeze))
        .route("/api/agents/{id}/thaw", post(freeze::thaw))
        .route("/api/freeze", post(freeze::freeze_all))
        .route("/api/thaw", post(freeze::thaw_all))
        .route("/api/generations", get(generations::list))
        .route("/api/generations/{number}", get(generations::show))
        .route("/api/receipts", get(receipts::list))
        .route("/api/receipts/{id}", get(receipts::show))
        .route("/api/bridges", get(bridges::list))
        .route("/api/bridges/{name}", delete(bridges::remove))
        .route("/api/bridges/{name}/links", post(bridges::link).delete(bridges::unlink))
        .route("/api/bridges/{name}/heard", post(bridges::change_heard))
        .route("/api/bridges/{name}/pause", post(bridges::pause))
        .route("/api/bridges/{name}/resume", post(bridges::resume))
        .route("/api/bridges/{name}/test", post(bridges::test))
        .route("/api/channels", get(channels::list).post(channels::create))
        .route("/api/channels/{id}", get(channels::show).put(channels::retitle))
        .route("/api/channels/{id}/messages", get(channels::read).post(channels::post))
        .route("/api/channels/{id}/messages/{seq}/files/{n}", get(files::show))
        .route("/api/channels/{id}/members", post(channels::assign))
        .route("/api/channels/{id}/archive", post(channels::archive))
        .route("/api/channels/{id}/fork", post(checkpoints::fork_channel))
        .route("/api/dashboard/sessions", get(sign_ins::list).delete(sign_ins::end_all))
        .route("/api/dashboard/sessions/{id}", delete(sign_ins::end))
        .route("/api/engines", get(engines::list).post(engines::add))
        .route("/api/engines/{name}", get(engines::show).delete(engines::remove))
        .route("/api/engines/{name}/check", post(engines::check))
        .route("/api/engines/{name}/drain", post(engines::drain))
        .route("/api/files", put(files::take))
        .route("/api/skills", get(skills::list))
        .route("/api/hooks", get(hooks::list).post(hooks::add))
        .route("/api/hooks/{name}", get(hooks::show).put(hooks::change).delete(hooks::remove))
        .route("/api/hooks/{name}/history", get(hooks::history))
        .route("/api/hooks/{name}/preview", post(hooks::preview))
        .route("/api/mcp/servers", get(mcp_servers::list))
        .route("/api/mcp/servers/{name}", get(mcp_servers::show).delete(mcp_servers::remove))
        .route("/api/mcp/servers/{name}/test", post(mcp_servers::test))
        .route("/api/mcp/servers/{name}/grant", post(mcp_servers::grant))
        .route("/api/mcp/servers/{name}/revoke", post(mcp_servers::revoke))
        .route("/api/people", get(people::list).post(people::add))
        .route("/api/people/{name}", get(people::show).put(people::change).delete(people::remove))
        .route("/api/people/{name}/tokens", post(people::add_token))
        .route("/api/people/accounts", post(people::bind))
        .route("/api/people/rename", post(people::rename))
        .route("/api/projects", get(projects::list).post(projects::add))
        .route("/api/projects/{name}", get(projects::show).delete(projects::remove))
        .route("/api/projects/{name}/agents", post(projects::change_agents))
        .route("/api/projects/{name}/diff", get(projects::diff))
        .route("/api/projects/{name}/land", post(projects::land))
        .route("/api/projects/{name}/log", get(projects::log))
        .route("/api/projects/{name}/submissions", get(projects::submissions).post(projects::submit))
        .route("/api/projects/{name}/submissions/{number}", get(projects::submission))
        .route("/api/projects/{name}/submissions/{number}/accept", post(projects::accept))
        .route("/api/projects/{name}/submissions/{number}/refuse", post(projects::refuse))
        .route("/api/projects/{name}/submissions/{number}/withdraw", post(projects::withdraw))
        .route("/api/projects/{name}/sync", post(projects::sync))
        .route("/api/quota/resume", post(quota::resume))
        .route("/api/races", get(races::list).post(races::begin))
        .route("/api/races/{number}", get(races::show))
        .route("/api/races/{number}/drop", post(races::drop_losers))
        .route("/api/races/{number}/keep", post(races::keep))
        .route("/api/races/{number}/stop", post(races::stop))
        .route("/api/schedules", get(schedules::list).post(schedules::add))
        .route("/api/schedules/{name}", get(schedules::show).put(schedules::change).delete(schedules::remove))
        .route("/api/schedules/{name}/history", get(schedules::history))
        .route("/api/schedules/{name}/run", post(schedules::run))
        .route("/api/search", get(channels::search))
        .route("/api/search/memory", get(search::memory))
        .route("/api/search/memory/file", get(search::file))
        .route("/api/tokens", get(tokens::list).post(tokens::add))
        .route("/api/tokens/{name}", delete(tokens::revoke))
}
