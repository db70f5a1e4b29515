//! The resources that an agent may read, by name.
//!
//! Nothing is listed that a call of the agent's tools would refuse. The names come from the functions that the tools use.

use std::path::Path;

use super::error::McpError;
use super::uri::Place;
use crate::agent::compaction::findings;
use crate::config::Agent;
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::home::Home;
use crate::home::beneath::{DirEntry, FileKind};
use crate::home::walk::WalkLimits;
use crate::id::{FolderName, Party};
use crate::sandbox::workspace_files::Workspaces;
use crate::store::{Channel, Level};
use crate::swarm::Actor;
use crate::swarm::vault::{MAX_ENTRIES, Vaults};
use crate::tool::policy::{self, Decision};
use crate::tool::team::{CHANNEL_LIST, CHANNEL_READ, WORKSPACE_LIST, WORKSPACE_READ};

/// The limits of a walk through an agent's findings.
const FINDINGS_LIMITS: WalkLimits = WalkLimits { depth: 8, entries: 5_000 };

/// Returns `true` if the agent may make the call that reads this.
pub(super) fn may_read(agent: &Agent, place: &Place) -> bool {
    let (tool, arguments) = place.call();
    policy::decide(agent, tool, &arguments) == Decision::Allow
}

/// Returns the channels that the agent may read, by id.
pub(super) async fn channels(gateway: &Gateway, agent: &Agent) -> Result<Vec<Channel>, McpError> {
    if ![&CHANNEL_LIST, &CHANNEL_READ].iter().all(|tool| policy::offers(agent, tool.name)) {
        return Ok(Vec::new());
    }
    let reader = Party::Agent(agent.id.clone());
    let found = gateway.swarm.readable_channels(&reader, None).await;
    let mut found = found.map_err(|error| {
        tracing::error!(error = crate::error::chain(&error), "the channels can't be listed");
        McpError::internal("the channels can't be listed")
    })?;
    found.retain(|channel| may_read(agent, &Place::Channel(channel.id.clone())));
    found.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(found)
}

/// Returns `true` if the agent is offered the tools that list vaults and read their files.
fn has_vaults(agent: &Agent) -> bool {
    [&WORKSPACE_LIST, &WORKSPACE_READ].iter().all(|tool| policy::offers(agent, tool.name))
}

/// Returns the names of the vaults whose files the agent may read, sorted.
pub(super) fn vaults(home: &Home, agent: &Agent) -> Vec<FolderName> {
    let mut names = if has_vaults(agent) { Vaults::new(home).names() } else { Vec::new() };
    names.sort();
    names
}

/// Returns the files of a vault, sorted. A vault that can't be listed has none.
pub(super) fn vault_files(home: &Home, agent: &Agent, vault: &FolderName) -> Vec<(Place, DirEntry)> {
    if !has_vaults(agent) {
        return Vec::new();
    }
    let (entries, _) = Vaults::new(home).entries(vault, usize::MAX, MAX_ENTRIES).unwrap_or_default();
    files(agent, entries, |path| Some(Place::VaultFile(vault.clone(), path.to_owned())))
}

/// Returns the files below the agent's own findings, sorted.
pub(super) fn findings(ways: &Workspaces, agent: &Agent) -> Vec<(Place, DirEntry)> {
    // Most agents have none.
    let Ok(workspace) = ways.open(&agent.id, &agent.workspace) else { return Vec::new() };
    let found = workspace.walk(Path::new(findings::FOLDER), FINDINGS_LIMITS).unwrap_or_default();
    let inner = |path: &str| {
        let path = path.strip_prefix(findings::FOLDER)?.strip_prefix('/')?;
        Some(Place::Finding(path.to_owned()))
    };
    files(agent, found.entries, inner)
}

/// Returns the regular files that the agent may read. A name that no address can have is left out.
fn files(
    agent: &Agent,
    entries: Vec<DirEntry>,
    place: impl Fn(&str) -> Option<Place>,
) -> Vec<(Place, DirEntry)> {
    let is_file = |entry: &DirEntry| entry.kind == FileKind::File;
    let named = entries.into_iter().filter(is_file).filter_map(|file| {
        let place = place(file.path.to_str()?)?;
        super::uri::ResourceUri::parse(&place.to_string()).ok()?;
        Some((place, file))
    });
    let mut found: Vec<_> = named.filter(|(place, _)| may_read(agent, place)).collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

/// Runs work on files outside of the threads that answer requests. Only a few lists of a turn are made at once.
pub(super) async fn on_files<T: Send + 'static>(
    ticket: &Ticket,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, McpError> {
    let failed = || McpError::internal("the files can't be listed");
    let _place = ticket.listings.acquire().await.map_err(|_| failed())?;
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())
}

/// Writes into the audit that the agent was shown names, as the calls that list them are there.
pub(super) async fn record(
    gateway: &Gateway,
    ticket: &Ticket,
    method: &'static str,
    count: usize,
) -> Result<(), McpError> {
    let actor = Actor::agent(&ticket.session, Some(ticket.turn));
    let entry = actor.entry("mcp.list", method, Level::Green, format!("{count} names"));
    let written = gateway.engine.store().audit().append(entry, crate::clock::unix_ms()).await;
    written.map_err(|error| {
        tracing::error!(error = crate::error::chain(&error), "a list of resources can't be recorded");
        McpError::internal("the list can't be recorded")
    })
}
