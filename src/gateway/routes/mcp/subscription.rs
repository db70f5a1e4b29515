//! `resources/subscribe` and `resources/unsubscribe`: resources whose changes a session is told of.
//!
//! A change is noticed by comparing states: the number of a channel's newest message, and what the file system says
//! about a file. So a change is noticed whoever made it, also while no stream was open. Nothing is kept for a stream.

use serde_json::{Value, json};

use super::error::{self, McpError};
use super::session::Asker;
use super::uri::{Place, ResourceUri};
use super::{listing, resources, text};
use crate::agent::compaction::findings;
use crate::config::Agent;
use crate::gateway::relay::Ticket;
use crate::gateway::relay::mcp_sessions::{MAX_WATCHED, McpSession, ResourceState, WatchedResource};
use crate::gateway::state::Gateway;
use crate::home::Home;
use crate::home::beneath::{BeneathError, FileKind};
use crate::id::{ChannelId, Party};
use crate::sandbox::workspace_files::Workspaces;
use crate::store::Level;
use crate::swarm::vault::Vaults;
use crate::swarm::{Actor, SwarmError};
use crate::tool::policy::{self, Decision};

/// Answers `resources/subscribe`. The agent needs the same rights as for reading the resource.
pub(super) async fn subscribe(asker: &Asker, params: &Value) -> Result<Value, McpError> {
    let uri = text(params, "uri")?;
    let found = resources::address(uri)?;
    if asker.session.id.is_none() {
        let text =
            "a subscription belongs to a session: send the Mcp-Session-Id that initialize was answered with";
        return Err(McpError::new(error::INVALID_REQUEST, text));
    }
    if found.is_part() {
        let text = format!("a part of a resource is not watched: subscribe to {}", found.place);
        return Err(McpError::invalid(text));
    }
    let agent = super::agent(&asker.gateway, &asker.ticket)?;
    let watched = match present(asker, &agent, &found.place).await {
        Ok(state) if asker.session.watch(WatchedResource { uri: uri.to_owned(), state }) => Ok(json!({})),
        Ok(_) => {
            let text =
                format!("a session watches at most {MAX_WATCHED} resources: unsubscribe from one first");
            Err(McpError::invalid(text))
        }
        Err(Refusal::Unreadable(text)) => Err(McpError::not_found(uri, text)),
        Err(Refusal::Failed) => Err(McpError::internal("the resource can't be looked at")),
    };
    let outcome = if watched.is_ok() { "subscribed" } else { "refused" };
    if let Err(error) = record(&asker.gateway, &asker.ticket, format!("{outcome}: {}", found.place)).await {
        asker.session.unwatch(uri);
        return Err(error);
    }
    watched
}

/// Answers `resources/unsubscribe`. Nothing has to be readable for it.
pub(super) fn unsubscribe(asker: &Asker, params: &Value) -> Result<Value, McpError> {
    let uri = text(params, "uri")?;
    resources::address(uri)?;
    asker.session.unwatch(uri);
    Ok(json!({}))
}

/// The reason why a resource has no state for an agent.
enum Refusal {
    /// It does not exist, or the agent may not read it.
    Unreadable(String),
    Failed,
}

/// Returns the present state of a resource that exists and that the agent may read.
async fn present(asker: &Asker, agent: &Agent, place: &Place) -> Result<ResourceState, Refusal> {
    let (tool, arguments) = place.call();
    match policy::decide(agent, tool, &arguments) {
        Decision::Allow => {}
        Decision::Ask(reason) | Decision::Deny(reason) => return Err(Refusal::Unreadable(reason)),
    }
    if let Place::SkillFile(..) = place {
        let reason = "a file of a skill changes only when a person updates the skill, and can't be watched";
        return Err(Refusal::Unreadable(reason.to_owned()));
    }
    if let Place::Channel(id) = place {
        return channel(&asker.gateway, agent, id).await;
    }
    let (home, agent, place) = (asker.gateway.home().clone(), agent.clone(), place.clone());
    let ways = asker.gateway.swarm.workspaces().clone();
    let look = move || {
        if let Place::VaultFile(vault, path) = &place {
            // A file that can't be read as a text is no resource.
            Vaults::new(&home).read(vault, path).map_err(|error| error.to_string())?;
        }
        let found = file((&home, &ways), &agent, &place);
        found.ok_or_else(|| "your workspace is on another machine, which does not answer".to_owned())
    };
    let state = listing::on_files(&asker.ticket, look);
    match state.await {
        Ok(Ok(ResourceState::Gone)) => Err(Refusal::Unreadable("there is no such file".to_owned())),
        Ok(state) => state.map_err(Refusal::Unreadable),
        Err(_) => Err(Refusal::Failed),
    }
}

/// Returns the state of a channel that the agent may read.
async fn channel(gateway: &Gateway, agent: &Agent, id: &ChannelId) -> Result<ResourceState, Refusal> {
    match gateway.swarm.readable(&Party::Agent(agent.id.clone()), id).await {
        Ok(channel) => Ok(ResourceState::Channel(channel.last_seq)),
        Err(error @ (SwarmError::NoChannel(_) | SwarmError::Refused(_))) => {
            Err(Refusal::Unreadable(error.to_string()))
        }
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "a watched channel can't be looked at");
            Err(Refusal::Failed)
        }
    }
}

/// Returns the state of a finding or of a file of a vault. Anything but a regular file counts as gone. `None` if the workspace
/// is on another machine and can't be looked at.
fn file((home, ways): (&Home, &Workspaces), agent: &Agent, place: &Place) -> Option<ResourceState> {
    let entry = match place {
        Place::VaultFile(vault, path) => Vaults::new(home).stat(vault, path).ok(),
        Place::Finding(path) => {
            let path = format!("{}/{path}", findings::FOLDER);
            let found = ways.open(&agent.id, &agent.workspace).map_err(BeneathError::from);
            match found.and_then(|files| files.stat(path.as_ref())) {
                Err(BeneathError::Elsewhere { .. } | BeneathError::Unreachable { .. }) => return None,
                found => found.ok(),
            }
        }
        Place::Channel(_) | Place::SkillFile(..) => None,
    };
    Some(match entry.filter(|entry| entry.kind == FileKind::File) {
        Some(entry) => {
            ResourceState::File { inode: entry.inode, size: entry.size, changed_ns: entry.changed_ns }
        }
        None => ResourceState::Gone,
    })
}

/// The kinds of resources to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) channels: bool,
    pub(super) files: bool,
}

impl Due {
    /// All kinds.
    pub(super) const ALL: Self = Self { channels: true, files: true };
}

/// Returns `true` if the session watches files.
pub(super) fn has_files(session: &McpSession) -> bool {
    let is_file = |known: &WatchedResource| {
        ResourceUri::parse(&known.uri).is_ok_and(|found| !matches!(found.place, Place::Channel(_)))
    };
    session.watched().iter().any(is_file)
}

/// Returns the addresses of the watched resources that have changed, and counts them as told. What the agent may not read
/// now is left out and is told later if it may again.
pub(super) async fn changed(
    gateway: &Gateway,
    ticket: &Ticket,
    session: &McpSession,
    due: Due,
) -> Vec<String> {
    let watched = session.watched();
    if due == Due::default() || watched.is_empty() {
        return Vec::new();
    }
    // A frozen agent is told nothing.
    let Ok(agent) = super::agent(gateway, ticket) else { return Vec::new() };
    let (mut found, mut files) = (Vec::new(), Vec::new());
    for known in watched {
        let Ok(ResourceUri { place, .. }) = ResourceUri::parse(&known.uri) else { continue };
        if !listing::may_read(&agent, &place) {
            continue;
        }
        match &place {
            Place::Channel(id) if due.channels => {
                // Its members may have changed, too.
                if let Ok(state) = channel(gateway, &agent, id).await {
                    found.push((known, state));
                }
            }
            Place::Finding(_) | Place::VaultFile(..) if due.files => files.push((known, place)),
            _ => {}
        }
    }
    if !files.is_empty() {
        // A look every few moments is no reason to start a sandbox.
        let (home, ways) = (gateway.home().clone(), gateway.swarm.workspaces().without_starting());
        let looked = listing::on_files(ticket, move || {
            let state = |(known, place): (_, Place)| Some((known, file((&home, &ways), &agent, &place)?));
            files.into_iter().filter_map(state).collect::<Vec<_>>()
        });
        found.extend(looked.await.unwrap_or_default());
    }
    found.retain(|(known, state)| known.state != *state);
    found.iter().for_each(|(known, state)| session.note(&known.uri, *state));
    found.into_iter().map(|(known, _)| known.uri).collect()
}

/// Returns the notification for a resource that has changed.
pub(super) fn notification(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

/// Writes into the audit what the agent wanted to watch, since the answer says if it is there.
async fn record(gateway: &Gateway, ticket: &Ticket, detail: String) -> Result<(), McpError> {
    let actor = Actor::agent(&ticket.session, Some(ticket.turn));
    let entry = actor.entry("mcp.subscribe", "resources/subscribe", Level::Green, detail);
    let written = gateway.engine.store().audit().append(entry, crate::clock::unix_ms()).await;
    written.map_err(|error| {
        tracing::error!(error = crate::error::chain(&error), "a subscription can't be recorded");
        McpError::internal("the subscription can't be recorded")
    })
}
