//! `/api/mcp/servers`: MCP servers, their tools, and the agents that may call them.

use axum::extract::{Extension, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::clock::{local_day, unix_ms};
use crate::config::{McpServer, mcp_servers};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::state::Gateway;
use crate::id::{AgentId, McpServerName};
use crate::mcp::definition::{ListedTool, offered_name};
use crate::mcp::oauth::{self, SignInState, TokenRevocation};
use crate::mcp::{GrantError, Grants, McpError, ServerState, package};
use crate::store::{McpCapability, McpRevocation, ServerUsage};

/// Tools to grant to an agent, as a person was shown them, and what the server may ask for while it is called.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewGrant {
    pub(crate) agent: AgentId,
    #[serde(default)]
    pub(crate) tools: Vec<ShownTool>,
    #[serde(default)]
    pub(crate) capabilities: Vec<McpCapability>,
    /// Set if the agent may call them although its autonomy is readonly.
    #[serde(default)]
    pub(crate) readonly_ok: bool,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A tool with the digest of the definition that a person was shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShownTool {
    pub(crate) name: String,
    pub(crate) sha256: String,
}

/// Grants to take away from an agent. All of the server's if it names none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revocation {
    pub(crate) agent: AgentId,
    #[serde(default)]
    pub(crate) tools: Vec<String>,
    #[serde(default)]
    pub(crate) capabilities: Vec<McpCapability>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// The query parameter that names the person.
#[derive(Debug, Deserialize)]
pub(crate) struct ByQuery {
    by: Option<String>,
}

/// Returns all servers with their states and their grants.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let facts = facts(&team).await?;
    let config = team.swarm.config();
    let servers: Vec<Value> =
        config.mcp_servers.iter().map(|server| described(&team, server, &facts)).collect();
    Ok(axum::Json(json!({"servers": servers})))
}

/// Returns one server.
pub(crate) async fn show(State(team): State<TeamState>, Path(name): Path<String>) -> JsonResult {
    let server = find(&team, &name)?;
    let facts = facts(&team).await?;
    Ok(axum::Json(json!({"server": described(&team, &server, &facts)})))
}

/// The database's facts about all servers.
struct ServerFacts {
    grants: Grants,
    /// Their questions to the agents' models today.
    sampled: Vec<ServerUsage>,
}

async fn facts(team: &TeamState) -> Result<ServerFacts, ApiError> {
    let grants = team.servers.granted().await.map_err(ApiError::explained)?;
    let sampled = team.swarm.store().usage().of_servers(&local_day(unix_ms())).await;
    Ok(ServerFacts { grants, sampled: sampled.map_err(ApiError::internal)? })
}

/// Starts a server if it does not run, and returns the tools that it lists.
pub(crate) async fn test(State(team): State<TeamState>, Path(name): Path<String>) -> JsonResult {
    let server = find(&team, &name)?;
    let (state, tools) = team.servers.list(&server.name).await.map_err(ApiError::explained)?;
    let tools: Vec<Value> = tools.iter().map(|tool| listed(&server.name, tool)).collect();
    Ok(axum::Json(json!({
        "name": server.name,
        "protocol": state.version,
        "title": state.title,
        "tools": tools,
    })))
}

/// Grants tools to an agent, if their definitions are still those that the person was shown.
pub(crate) async fn grant(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    JsonBody(new): JsonBody<NewGrant>,
) -> JsonResult {
    let server = find(&team, &name)?;
    if new.tools.is_empty() && new.capabilities.is_empty() {
        return Err(
            ApiError::invalid("invalid_body", "tools must name at least one tool").with_param("tools")
        );
    }
    let by = caller.speaks(new.by.as_deref())?.party.to_string();
    let shown: Vec<(String, String)> = new.tools.into_iter().map(|tool| (tool.name, tool.sha256)).collect();
    let granted = (shown.as_slice(), new.capabilities.as_slice());
    team.servers.grant((&server.name, &new.agent), granted, new.readonly_ok, &by).await?;
    let names: Vec<&String> = shown.iter().map(|(name, _)| name).collect();
    Ok(axum::Json(json!({
        "server": server.name,
        "agent": new.agent,
        "tools": names,
        "capabilities": new.capabilities,
    })))
}

/// Takes tools away from an agent.
pub(crate) async fn revoke(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    JsonBody(taken): JsonBody<Revocation>,
) -> JsonResult {
    let server = find(&team, &name)?;
    let by = caller.speaks(taken.by.as_deref())?.party.to_string();
    let revocation = if taken.tools.is_empty() && taken.capabilities.is_empty() {
        McpRevocation::All
    } else {
        McpRevocation::These(taken.tools, taken.capabilities)
    };
    let revoked = team.servers.revoke((&server.name, &taken.agent), revocation, &by).await;
    let revoked = revoked.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"server": server.name, "agent": taken.agent, "revoked": revoked})))
}

/// Removes a server: from the configuration, with its grants, its sandbox and its package. Its own files stay.
pub(crate) async fn remove(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(by): Query<ByQuery>,
) -> JsonResult {
    let server = find(&team, &name)?;
    let by = caller.speaks(by.by.as_deref())?.party.to_string();
    let (home, gone) = (team.swarm.home().clone(), server.name.clone());
    let edited = tokio::task::spawn_blocking(move || mcp_servers::remove(&home, &gone)).await;
    edited.map_err(ApiError::internal)?.map_err(ApiError::explained)?;
    team.servers.forget(&server.name, &by).await.map_err(ApiError::explained)?;
    let (home, gone) = (team.swarm.home().clone(), server.name.clone());
    let removed = tokio::task::spawn_blocking(move || package::forget(&home, &gone)).await;
    removed.map_err(ApiError::internal)?;
    let signed_out = oauth::sign_out(team.swarm.home(), &server).await.map_err(ApiError::explained)?;
    if let Some(TokenRevocation::Failed(reason)) = signed_out {
        tracing::warn!(server = %server.name, reason, "the tokens of a removed MCP server could not be revoked");
    }
    Ok(axum::Json(json!({"removed": server.name})))
}

/// Returns what the status says about each server.
pub(super) async fn summaries(gateway: &Gateway) -> Result<Vec<Value>, McpError> {
    let Grants { pins, .. } = gateway.servers.granted().await?;
    let config = gateway.config();
    let summary = |server: &McpServer| {
        let state = gateway.servers.state(&server.name);
        let waits = pins.iter().filter(|pin| pin.server == server.name && pin.changed.is_some()).count();
        json!({"name": server.name, "running": state.is_running, "failure": state.failure, "waiting": waits})
    };
    Ok(config.mcp_servers.iter().map(summary).collect())
}

fn find(team: &TeamState, name: &str) -> Result<McpServer, ApiError> {
    let parsed = name.parse::<McpServerName>().ok();
    let found = parsed.and_then(|name| team.swarm.config().mcp_server(&name).cloned());
    found.ok_or_else(|| {
        let text = format!("there is no MCP server {}", crate::clean::summary(name, 40));
        ApiError::not_found("mcp_server_not_found", text).with_hint("flock mcp list")
    })
}

fn described(team: &TeamState, server: &McpServer, facts: &ServerFacts) -> Value {
    let ServerState { is_running, version, title, failure, sign_in } = team.servers.state(&server.name);
    let Grants { pins, tools, capabilities } = &facts.grants;
    let own = tools.iter().filter(|grant| grant.server == server.name);
    let granted: Vec<Value> = own
        .map(|grant| {
            let pin = pins.iter().find(|pin| pin.server == grant.server && pin.tool == grant.tool);
            json!({
                "agent": grant.agent,
                "tool": grant.tool,
                "offeredAs": offered_name(&grant.server, &grant.tool).ok(),
                "readonlyOk": grant.readonly_ok,
                "sha256": pin.map(|pin| pin.sha256.clone()),
                "waits": pin.is_some_and(|pin| pin.changed.is_some()),
                "grantedBy": grant.granted_by,
                "grantedAt": grant.granted_at,
            })
        })
        .collect();
    let own = capabilities.iter().filter(|grant| grant.server == server.name);
    let capabilities: Vec<Value> = own
        .map(|grant| {
            let is_meant = |used: &&ServerUsage| used.server == grant.server && used.agent == grant.agent;
            let used = facts.sampled.iter().find(is_meant);
            json!({
                "agent": grant.agent,
                "capability": grant.capability,
                "today": used.map_or_else(
                    || json!({"calls": 0, "tokens": 0, "costMicros": 0}),
                    |used| json!({"calls": used.calls, "tokens": used.tokens, "costMicros": used.cost_micros}),
                ),
                "grantedBy": grant.granted_by,
                "grantedAt": grant.granted_at,
            })
        })
        .collect();
    let remote = server.remote.as_ref();
    json!({
        "name": server.name,
        "command": server.command,
        "package": package::described(team.swarm.home(), server),
        "url": remote.map(|remote| &remote.url),
        "headers": remote.map(|remote| &remote.headers),
        "allowLocal": remote.map(|remote| remote.allow_local),
        // Their values may be private, although they are no secrets.
        "variables": server.env.keys().collect::<Vec<_>>(),
        "secrets": server.secrets,
        "network": server.network,
        "egress": server.egress,
        "memoryBytes": server.docker.memory,
        "cpuMillis": server.docker.cpu_millis,
        "image": server.docker.image,
        "callSeconds": server.call_time.as_secs(),
        "callsPerTurn": server.calls_per_turn,
        "samplesPerCall": server.samples_per_call,
        "samplesPerDay": server.samples_per_day,
        "sampleTokens": server.sample_tokens,
        "idleMinutes": server.idle.as_secs() / 60,
        "running": is_running,
        "protocol": version,
        "title": title,
        "failure": failure,
        "signIn": sign_in.map(SignInState::word),
        "grants": granted,
        "capabilities": capabilities,
    })
}

fn listed(server: &McpServerName, tool: &ListedTool) -> Value {
    let definition = tool.definition.as_ref();
    let parsed = definition.ok().and_then(|found| serde_json::from_str::<Value>(&found.canonical).ok());
    json!({
        "name": tool.name,
        "offeredAs": definition.ok().and_then(|_| offered_name(server, &tool.name).ok()),
        "sha256": definition.ok().map(|found| found.sha256.clone()),
        "definition": parsed,
        "problem": definition.err(),
    })
}

impl From<GrantError> for ApiError {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::Server(error) => Self::explained(error),
            GrantError::NoAgent(_) => Self::not_found("agent_not_found", error.to_string()),
            GrantError::NoTool(..) => Self::not_found("mcp_tool_not_found", error.to_string()),
            GrantError::Unusable(..) => Self::invalid("mcp_tool_unusable", error.to_string()),
            GrantError::Changed(_) => Self::conflict("mcp_tool_changed", error.to_string()),
        }
    }
}

impl From<McpError> for ApiError {
    fn from(error: McpError) -> Self {
        Self::explained(error)
    }
}
