//! `/api/bridges`: the bridges of the configuration and their links.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::TeamState;
use crate::bridge::linking::{self, LinkSpec};
use crate::bridge::{self, BridgeStatus};
use crate::clock::unix_ms;
use crate::config::bridges::{self, BridgeSecret};
use crate::config::{Bridge, PlatformName, secret};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::state::Gateway;
use crate::id::ChannelId;
use crate::store::{Level, Store, StoreError};
use crate::swarm::SwarmError;

/// A request for a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewLink {
    pub(crate) channel: ChannelId,
    /// The platform's channel, by its id or the name that people know. `None` creates one.
    #[serde(default)]
    pub(crate) external: Option<String>,
    /// The accounts that are heard, or `everyone`. `None` hears the members of a private channel.
    #[serde(default)]
    pub(crate) allow: Option<Vec<String>>,
    /// Set to pass on what people say on other platforms.
    #[serde(default)]
    pub(crate) is_cross: bool,
    /// Set to hear programs among those who are heard.
    #[serde(default)]
    pub(crate) hears_bots: bool,
    /// Unix milliseconds since which earlier messages are brought in, as read history that wakes nobody.
    #[serde(default)]
    pub(crate) since: Option<i64>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A change of those who are heard over a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HeardChange {
    /// The platform's channel of the link.
    pub(crate) external: String,
    #[serde(default)]
    pub(crate) add: Vec<String>,
    #[serde(default)]
    pub(crate) remove: Vec<String>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// The query parameters that name a link.
#[derive(Debug, Deserialize)]
pub(crate) struct LinkQuery {
    external: String,
    by: Option<String>,
}

/// The query parameters that name a link, or without one the whole bridge.
#[derive(Debug, Deserialize)]
pub(crate) struct TargetQuery {
    external: Option<String>,
    by: Option<String>,
}

/// Returns the bridges with their state and their links.
pub(crate) async fn list(State(team): State<TeamState>) -> Result<axum::Json<Value>, ApiError> {
    let config = team.swarm.config();
    let store = team.swarm.store();
    let mut bridges = Vec::new();
    for bridge in &config.bridges {
        bridges.push(shown(&team, store, bridge).await.map_err(ApiError::explained)?);
    }
    Ok(axum::Json(json!({"bridges": bridges})))
}

/// A short account of a bridge.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BridgeSummary {
    pub(super) name: String,
    platform: PlatformName,
    pub(super) state: &'static str,
    /// The number of its links.
    links: usize,
    /// The number of messages that wait to be sent.
    pub(super) waiting: u64,
    last_error: Option<String>,
}

/// Returns a short account of each bridge.
///
/// # Errors
///
/// Returns an error if the database can't be read.
pub(super) async fn summaries(gateway: &Gateway) -> Result<Vec<BridgeSummary>, StoreError> {
    let mut found = Vec::new();
    for bridge in &gateway.swarm.config().bridges {
        let links = waiting(gateway.swarm.store(), &bridge.name).await?;
        let status = gateway.bridges.status(&bridge.name);
        found.push(BridgeSummary {
            name: bridge.name.clone(),
            platform: bridge.platform,
            state: state(bridge, status.as_ref()),
            links: links.len(),
            waiting: links.iter().sum(),
            last_error: status.and_then(|status| status.last_error),
        });
    }
    Ok(found)
}

/// Returns the number of messages that wait for each link.
async fn waiting(store: &Store, bridge: &str) -> Result<Vec<u64>, StoreError> {
    let mut waiting = Vec::new();
    for link in store.links().list(Some(bridge)).await? {
        waiting.push(store.outbox().backlog(&link.id).await?.entries);
    }
    Ok(waiting)
}

fn state(bridge: &Bridge, status: Option<&BridgeStatus>) -> &'static str {
    match status {
        _ if bridge.is_paused => "paused",
        None => "stopped",
        Some(status) if status.connected_since.is_some() => "connected",
        Some(_) => "disconnected",
    }
}

async fn shown(team: &TeamState, store: &Store, bridge: &Bridge) -> Result<Value, StoreError> {
    let status = team.bridges.as_ref().and_then(|bridges| bridges.status(&bridge.name));
    let state = state(bridge, status.as_ref());
    let mut links = Vec::new();
    for link in store.links().list(Some(&bridge.name)).await? {
        let mut shown = json!(link);
        shown["queue"] = json!(store.outbox().backlog(&link.id).await?);
        links.push(shown);
    }
    let mut shown = json!({
        "name": bridge.name, "platform": bridge.platform, "api": bridge.api, "state": state,
        "links": links,
    });
    for (key, value) in json!(status.unwrap_or_default()).as_object().into_iter().flatten() {
        shown[key] = value.clone();
    }
    Ok(shown)
}

/// The query parameter of a removal.
#[derive(Debug, Deserialize)]
pub(crate) struct ByQuery {
    by: Option<String>,
}

/// Removes a bridge with its links and its token.
pub(crate) async fn remove(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(ByQuery { by }): Query<ByQuery>,
) -> Result<axum::Json<Value>, ApiError> {
    let by = caller.speaks(by.as_deref())?;
    let bridge = linking::find(&team.swarm.config(), &name)?;
    let (home, name) = (team.swarm.home().clone(), bridge.name.clone());
    // Files are written on a thread for blocking work. The bridge goes before its token, so that none is left without.
    let removed = tokio::task::spawn_blocking(move || {
        bridges::remove(&home, &name).map_err(ApiError::explained)?;
        BridgeSecret::ALL
            .into_iter()
            .try_for_each(|kind| secret::remove(&home, &kind.name(&name)))
            .map_err(ApiError::explained)
    });
    removed.await.map_err(ApiError::internal)??;
    if let Some(running) = &team.bridges {
        running.apply(&team.swarm);
    }
    let entry = by.entry("bridge.remove", &bridge.name, Level::Yellow, bridge.platform.as_str().to_owned());
    let links = team.swarm.store().links().remove_all(bridge.name.clone(), entry, unix_ms()).await;
    let links = links.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"name": bridge.name, "removed": true, "links": links})))
}

/// Links a channel with a channel of the platform.
pub(crate) async fn link(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    JsonBody(wanted): JsonBody<NewLink>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(wanted.by.as_deref())?;
    let bridge = linking::find(&team.swarm.config(), &name)?;
    let platform = linking::open(&team.swarm, &bridge)?;
    let spec = LinkSpec {
        channel: wanted.channel,
        external: wanted.external,
        allow: wanted.allow,
        is_cross: wanted.is_cross,
        hears_bots: wanted.hears_bots,
    };
    let new = linking::create(&team.swarm, &by, &bridge, &*platform, spec).await?;
    let mut shown = json!(new);
    if let Some(since) = wanted.since {
        // The link stands whatever becomes of the history.
        match bridge::import_history(&team.swarm, &bridge, &*platform, &new, since).await {
            Ok(imported) => shown["imported"] = json!(imported),
            Err(error) => shown["importError"] = json!(error.to_string()),
        }
    }
    Ok((StatusCode::CREATED, axum::Json(shown)))
}

/// Lets more people be heard over a link, or fewer.
pub(crate) async fn change_heard(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    JsonBody(wanted): JsonBody<HeardChange>,
) -> Result<axum::Json<Value>, ApiError> {
    let by = caller.speaks(wanted.by.as_deref())?;
    let link = linking::find_link(&team.swarm, &name, &wanted.external).await?;
    let external = link.external.clone();
    let heard = linking::change_heard(&team.swarm, &by, link, &wanted.add, &wanted.remove).await?;
    Ok(axum::Json(json!({"external": external, "hears": heard})))
}

/// Ends a link.
pub(crate) async fn unlink(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(which): Query<LinkQuery>,
) -> Result<axum::Json<Value>, ApiError> {
    let by = caller.speaks(which.by.as_deref())?;
    let link = linking::find_link(&team.swarm, &name, &which.external).await?;
    linking::remove(&team.swarm, &by, &link).await?;
    Ok(axum::Json(json!({"removed": link})))
}

/// Pauses a bridge or one of its links.
///
/// A paused bridge does not connect. What either side says waits and arrives after the pause. A paused link is closed:
/// what is said meanwhile does not reach the other side.
pub(crate) async fn pause(
    team: State<TeamState>,
    caller: Extension<Caller>,
    name: Path<String>,
    which: Query<TargetQuery>,
) -> Result<axum::Json<Value>, ApiError> {
    set_paused(team, caller, name, which, true).await
}

/// Resumes a paused bridge or link.
pub(crate) async fn resume(
    team: State<TeamState>,
    caller: Extension<Caller>,
    name: Path<String>,
    which: Query<TargetQuery>,
) -> Result<axum::Json<Value>, ApiError> {
    set_paused(team, caller, name, which, false).await
}

async fn set_paused(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(TargetQuery { external, by }): Query<TargetQuery>,
    is_paused: bool,
) -> Result<axum::Json<Value>, ApiError> {
    let by = caller.speaks(by.as_deref())?;
    let action = if is_paused { "bridge.pause" } else { "bridge.resume" };
    let store = team.swarm.store();
    let changed = match external {
        Some(external) => {
            let link = linking::find_link(&team.swarm, &name, &external).await?;
            linking::set_paused(&team.swarm, &by, link, is_paused).await?
        }
        None => {
            let bridge = linking::find(&team.swarm.config(), &name)?;
            let entry = by.entry(action, &bridge.name, Level::Yellow, String::new());
            store.audit().append(entry, unix_ms()).await.map_err(ApiError::explained)?;
            let (home, name) = (team.swarm.home().clone(), bridge.name);
            // The configuration is a file, so it is written on a thread for blocking work.
            let edited = tokio::task::spawn_blocking(move || bridges::set_paused(&home, &name, is_paused));
            edited.await.map_err(ApiError::internal)?.map_err(ApiError::explained)?;
            if let Some(running) = &team.bridges {
                running.apply(&team.swarm);
            }
            bridge.is_paused != is_paused
        }
    };
    Ok(axum::Json(json!({"changed": changed})))
}

/// Sends one message over a link, or over each link of a bridge, and looks whether the platform's channel has it.
pub(crate) async fn test(
    State(team): State<TeamState>,
    Path(name): Path<String>,
    Query(which): Query<TargetQuery>,
) -> Result<axum::Json<Value>, ApiError> {
    let bridge = linking::find(&team.swarm.config(), &name)?;
    let links = match &which.external {
        Some(external) => vec![linking::find_link(&team.swarm, &name, external).await?],
        None => team.swarm.store().links().list(Some(&bridge.name)).await.map_err(ApiError::explained)?,
    };
    if links.is_empty() {
        return Err(SwarmError::Refused(format!("the bridge {} has no links", bridge.name)).into());
    }
    let platform = linking::open(&team.swarm, &bridge)?;
    let mut tested = Vec::new();
    for link in links {
        let begun = std::time::Instant::now();
        let sent = bridge::send_test(&*platform, &link).await;
        sent.map_err(|error| SwarmError::Refused(format!("{} of {}: {error}", link.title, bridge.name)))?;
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        tested.push(json!({"external": link.external, "title": link.title, "milliseconds": took}));
    }
    Ok(axum::Json(json!({"tested": tested})))
}
