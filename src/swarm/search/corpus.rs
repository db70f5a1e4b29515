//! The texts that can be found, and those that somebody may find.
//!
//! An agent finds only what its other tools would show it: its files if it has `read`, its sessions if it has
//! `sessions_history`, vaults if it has `flock_workspace_read`, and the channels that it may read if it has
//! `flock_channel_read`. Findings of reviews were told to it in its sessions, so they need `sessions_history`.

use std::path::PathBuf;

use serde_json::json;

use super::SearchArea;
use crate::config::Agent;
use crate::home::Home;
use crate::id::{AgentId, FolderName, Party};
use crate::sandbox::workspace_files::Workspaces;
use crate::store::{ReviewedSubmission, SearchIndex, Session, SourceKind, StoreError};
use crate::swarm::vault::Vaults;
use crate::swarm::{Swarm, SwarmError};
use crate::tool::policy::{self, Decision};
use crate::tool::sessions::HISTORY;
use crate::tool::team::{CHANNEL_READ, WORKSPACE_READ};

/// The most sessions whose transcripts are searched: the ones that were used last.
const MAX_SESSIONS: u32 = 20_000;
/// The most submissions whose findings are searched: the newest ones.
const MAX_REVIEWS: u32 = 20_000;
/// The name of the tool that reads files of the workspace.
const READ: &str = "read";

/// An agent with its workspace.
#[derive(Clone, Debug)]
pub(super) struct AgentFiles {
    pub id: AgentId,
    /// Absolute path on the host.
    pub workspace: PathBuf,
    /// The ways to it. They start a sandbox only for an agent that searches its own files.
    pub ways: Workspaces,
}

/// Everything that can be found, or the part of it that one agent may find.
#[derive(Clone, Debug)]
pub(super) struct Corpus {
    pub home: Home,
    /// The agent that searches, with its limits on paths; `None` for a person.
    pub searcher: Option<Agent>,
    pub agents: Vec<AgentFiles>,
    pub sessions: Vec<Session>,
    /// The submissions with findings of reviewers.
    pub reviews: Vec<ReviewedSubmission>,
    pub vaults: Vec<FolderName>,
    /// The ids of the channels that may be read; `None` for all.
    pub channels: Option<Vec<String>>,
    /// Set if messages of channels are searched at all.
    pub has_channels: bool,
    /// Set if nothing that exists is missing here, so that what is not here is gone.
    pub is_whole: bool,
    /// The inode of the home's database.
    pub database: i64,
}

impl Corpus {
    /// Returns everything that there is.
    pub(super) async fn whole(swarm: &Swarm, vaults: &Vaults) -> Result<Self, SwarmError> {
        let config = swarm.config();
        Ok(Self {
            home: swarm.home().clone(),
            searcher: None,
            agents: config.agents.iter().map(|agent| files_of(swarm, agent)).collect(),
            sessions: swarm.store().sessions().list(None, MAX_SESSIONS).await?,
            reviews: swarm.store().submissions().reviewed(None, MAX_REVIEWS).await?,
            vaults: vaults.names(),
            channels: None,
            has_channels: true,
            is_whole: true,
            database: swarm.store().identity(),
        })
    }

    /// Returns what an agent may find, and the areas that its tool policy closes to it.
    pub(super) async fn of_agent(
        swarm: &Swarm,
        vaults: &Vaults,
        id: &AgentId,
    ) -> Result<(Self, Vec<SearchArea>), SwarmError> {
        let config = swarm.config();
        let agent = config.agent(id).ok_or_else(|| SwarmError::NoAgent(id.clone()))?;
        let closed: Vec<SearchArea> =
            SearchArea::ALL.into_iter().filter(|area| !policy::offers(agent, reader(*area))).collect();
        let is_open = |area| !closed.contains(&area);
        let has_files = is_open(SearchArea::Memory);
        let sessions = if is_open(SearchArea::Sessions) {
            swarm.store().sessions().list(Some(id), MAX_SESSIONS).await?
        } else {
            Vec::new()
        };
        let reviews = if has_files && is_open(SearchArea::Sessions) {
            swarm.store().submissions().reviewed(Some(id), MAX_REVIEWS).await?
        } else {
            Vec::new()
        };
        let has_channels = is_open(SearchArea::Channels);
        let channels = if has_channels {
            let party = Party::Agent(id.clone());
            let readable = swarm.readable_channels(&party, None).await?;
            readable.into_iter().map(|channel| channel.id.to_string()).collect()
        } else {
            Vec::new()
        };
        let corpus = Self {
            home: swarm.home().clone(),
            searcher: Some(agent.clone()),
            agents: if has_files {
                vec![AgentFiles { ways: swarm.workspaces().clone(), ..files_of(swarm, agent) }]
            } else {
                Vec::new()
            },
            sessions,
            reviews,
            vaults: if is_open(SearchArea::Vaults) { vaults.names() } else { Vec::new() },
            channels: Some(channels),
            has_channels,
            is_whole: false,
            database: swarm.store().identity(),
        };
        Ok((corpus, closed))
    }

    /// Leaves out all areas but these.
    pub(super) fn narrow(&mut self, areas: &[SearchArea]) {
        if !areas.contains(&SearchArea::Sessions) {
            self.sessions.clear();
        }
        if !areas.contains(&SearchArea::Findings) {
            self.reviews.clear();
        }
        if !areas.contains(&SearchArea::Vaults) {
            self.vaults.clear();
        }
        if !areas.contains(&SearchArea::Channels) {
            self.has_channels = false;
        }
        if !areas.contains(&SearchArea::Memory) && !areas.contains(&SearchArea::Findings) {
            self.agents.clear();
        }
        self.is_whole = false;
    }

    /// Returns the path of a session's transcript.
    pub(super) fn transcript(&self, session: &Session) -> PathBuf {
        self.home.sessions(session.key.agent()).join(format!("{}.jsonl", session.file))
    }

    /// Returns the ids of the sources in the index that may be found.
    pub(super) fn sources(&self, index: &SearchIndex, areas: &[SearchArea]) -> Result<Vec<i64>, StoreError> {
        let mut ids = Vec::new();
        let files = [(SearchArea::Memory, SourceKind::Memory), (SearchArea::Findings, SourceKind::Findings)];
        for (_, kind) in files.into_iter().filter(|(area, _)| areas.contains(area)) {
            for agent in &self.agents {
                let found = index.sources(kind, agent.id.as_str())?;
                ids.extend(found.iter().filter(|(path, _)| self.may_open(path)).map(|(_, state)| state.id));
            }
        }
        if !self.reviews.is_empty() {
            let known = index.sources(SourceKind::Review, "")?;
            ids.extend(self.reviews.iter().filter_map(|review| Some(known.get(&review.id.to_string())?.id)));
        }
        for vault in &self.vaults {
            ids.extend(index.sources(SourceKind::Vault, vault.as_str())?.values().map(|state| state.id));
        }
        if !self.sessions.is_empty() {
            let known = index.sources(SourceKind::Session, "")?;
            ids.extend(
                self.sessions.iter().filter_map(|session| known.get(&session.file)).map(|state| state.id),
            );
        }
        if self.has_channels {
            let known = index.sources(SourceKind::Channel, "")?;
            let may_read = |id: &String| self.channels.as_ref().is_none_or(|readable| readable.contains(id));
            ids.extend(known.iter().filter(|(id, _)| may_read(id)).map(|(_, state)| state.id));
        }
        Ok(ids)
    }

    /// Returns `true` if the searcher may read this file of its workspace.
    fn may_open(&self, path: &str) -> bool {
        self.searcher
            .as_ref()
            .is_none_or(|agent| policy::decide(agent, READ, &json!({"path": path})) == Decision::Allow)
    }
}

/// Returns the tool that shows an agent what is in an area.
fn reader(area: SearchArea) -> &'static str {
    match area {
        SearchArea::Memory | SearchArea::Findings => READ,
        SearchArea::Sessions => HISTORY.name,
        SearchArea::Vaults => WORKSPACE_READ.name,
        SearchArea::Channels => CHANNEL_READ.name,
    }
}

/// Returns an agent's files, for whoever looks through those of many agents.
pub(super) fn files_of(swarm: &Swarm, agent: &Agent) -> AgentFiles {
    let ways = swarm.workspaces().without_starting();
    AgentFiles { id: agent.id.clone(), workspace: agent.workspace.clone(), ways }
}
