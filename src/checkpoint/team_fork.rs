//! Makes copies of a channel with its whole team: each agent among the members is forked, and each copy of the channel has
//! what was said in it until then.
//!
//! A fork of a team is written down before its first step. Its agents exist once all of them are in the configuration,
//! which is one replacement of a file. A fork that was killed before is undone, and one that was killed afterwards is
//! completed, by the next gateway or by the next fork.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Checkpoints;
use super::error::CheckpointError;
use super::fork::{AgentCopy, PeerNames};
use crate::clock::unix_ms;
use crate::config::{self, Agent, ConfigError, Role, agents};
use crate::fault_point::{self, FaultPoint};
use crate::generation::Origin;
use crate::home::{Home, HomeError, atomic, pending, remove_tree};
use crate::id::{AgentId, ChannelId, Party};
use crate::store::{
    AuditEntry, Channel, ChannelCopy, CommittedPost, CopyOutcome, Level, NewPost, NewRace, PostMentions,
    WakeUrgency,
};

/// The largest record in bytes.
const MAX_RECORD: u64 = 64 << 20;

/// A wish for copies of a channel's team.
#[derive(Clone, Debug)]
pub(crate) struct TeamForkRequest {
    /// The channel whose team is copied.
    pub(crate) channel: Channel,
    /// The copies to make.
    pub(crate) copies: Vec<CopyName>,
    /// The party that asks.
    pub(crate) by: Party,
    /// The race that the copies are made for. Its task is posted in each of them.
    pub(crate) race: Option<NewRace>,
    /// The agents that the task of the race mentions.
    pub(crate) mentions: Vec<AgentId>,
}

/// The names of one copy.
#[derive(Clone, Debug)]
pub(crate) struct CopyName {
    pub(crate) channel: ChannelId,
    /// The text after the id of an agent and a dash in the id of its copy.
    pub(crate) suffix: String,
}

impl CopyName {
    /// Returns the names of a copy whose agents are named after the channel.
    #[must_use]
    pub(crate) fn of_channel(channel: ChannelId) -> Self {
        let suffix = channel.as_str().to_ascii_lowercase();
        Self { channel, suffix }
    }
}

/// Copies that were made.
#[derive(Clone, Debug)]
pub(crate) struct TeamForkView {
    pub(crate) copies: Vec<TeamCopy>,
    /// Number of the last message that the copies have.
    pub(crate) up_to: u64,
    /// The messages that were posted in the copies.
    pub(crate) posts: Vec<(NewPost, CommittedPost)>,
    /// The parts that the copies do not have, for people.
    pub(crate) warnings: Vec<String>,
}

/// One copy of a channel's team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TeamCopy {
    pub(crate) channel: ChannelId,
    /// The originals, each with its copy.
    pub(crate) agents: Vec<(AgentId, AgentId)>,
}

/// A fork of a team that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TeamForkRecord {
    by: Party,
    /// Unix milliseconds.
    at: i64,
    from: ChannelId,
    topic: String,
    up_to: u64,
    people: Vec<Party>,
    copies: Vec<TeamCopy>,
    race: Option<NewRace>,
    mentions: Vec<AgentId>,
}

impl TeamForkRecord {
    fn new_agents(&self) -> impl Iterator<Item = &AgentId> {
        self.copies.iter().flat_map(|copy| copy.agents.iter().map(|(_, new)| new))
    }

    /// Returns the messages that follow the copied ones in each copy.
    fn posts(&self, copy: &TeamCopy) -> Vec<NewPost> {
        let mut posts = vec![NewPost::of_system(&copy.channel, notice(self, copy), self.at)];
        if let Some(race) = &self.race {
            // Whoever the task mentions is meant in the copy as well.
            let meant = copy.agents.iter().filter(|(original, _)| self.mentions.contains(original));
            let agents = meant.map(|(_, new)| new.clone()).collect();
            posts.push(NewPost {
                wake: WakeUrgency::AtOnce,
                mentions: PostMentions { agents, all: false },
                author: self.by.clone(),
                ..NewPost::of_system(&copy.channel, race.task.clone(), self.at)
            });
        }
        posts
    }

    /// Returns the rows of the audit about everything that was made.
    fn entries(&self) -> Vec<AuditEntry> {
        let by = self.by.to_string();
        let mut entries = Vec::new();
        for copy in &self.copies {
            for (original, new) in &copy.agents {
                let detail = format!("from {original}, in channel {}", copy.channel);
                entries.push(AuditEntry::new(&by, "agent.fork", new.as_str(), Level::Yellow, detail));
            }
            let detail = format!("from {} at message {}", self.from, self.up_to);
            entries.push(AuditEntry::new(&by, "channel.fork", copy.channel.as_str(), Level::Yellow, detail));
        }
        if let Some(race) = &self.race {
            let detail = format!("{} copies of {} for {}", self.copies.len(), race.channel, race.project);
            entries.push(AuditEntry::new(&by, "race.start", &race.id.to_string(), Level::Yellow, detail));
        }
        entries
    }
}

/// Returns what the agents of a copy are told: they are copies, and their conversations still name the originals.
fn notice(record: &TeamForkRecord, copy: &TeamCopy) -> String {
    let names: Vec<String> =
        copy.agents.iter().map(|(original, new)| format!("{original} is {new}")).collect();
    let mut text = format!(
        "This channel is a copy of #{} as it was at message {}. Its agents are copies, too: here {}.",
        record.from,
        record.up_to,
        names.join(", ")
    );
    if let Some(race) = &record.race {
        let number = record.copies.iter().position(|one| one == copy).unwrap_or_default() + 1;
        let rest = format!(
            " It is copy {number} of {} in race {}: all of them get the same task, and one budget together. Work in your \
             clone of the project {}, push to your own branches, and submit with flock_project_submit. The first \
             submission whose checks pass is the result of this copy, so submit when the whole task is done.",
            record.copies.len(),
            race.id,
            race.project
        );
        text.push_str(&rest);
    }
    text
}

impl Checkpoints {
    /// Makes copies of a channel with copies of its agents, all of them or none.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Busy`] during a turn of one of the agents, or if one of them has a turn at another gateway
    /// meanwhile, [`CheckpointError::Taken`] or [`CheckpointError::ChannelTaken`] if a name is in use,
    /// [`CheckpointError::TooMany`] if the home may not have as many agents, and another error if a step fails. Nothing is made
    /// then.
    pub(crate) async fn fork_team(&self, request: TeamForkRequest) -> Result<TeamForkView, CheckpointError> {
        let _one = self.forks.lock().await;
        let home = self.home().clone();
        // Another process must not undo this one, and none of the agents is removed or renamed meanwhile.
        let lock = tokio::task::spawn_blocking(move || pending::lock(&home)).await;
        let _alone = lock.map_err(|_| CheckpointError::Stopped)??;
        self.finish_locked().await?;
        let (team, mut warnings) = self.team(&request.channel)?;
        let copies = self.names(&request, &team).await?;
        // The gates below know nothing of turns at other gateways.
        let lease = self.keep_team(&team).await?;
        // In one order, so that two of them never wait for each other. Nothing of the team changes while they are held.
        let mut held = Vec::new();
        for agent in &team {
            let gate = self.gate(&agent.id);
            let Some(alone) = gate.alone().await else {
                return Err(CheckpointError::Busy(agent.id.clone()));
            };
            // Its own gateway completes the rewinds of an agent.
            if lease.keeps(&agent.id) {
                self.complete(agent).await?;
            }
            held.push(alone);
        }
        let channel = self.store().channels().find(&request.channel.id).await?;
        let channel = channel.unwrap_or(request.channel);
        let record = TeamForkRecord {
            by: request.by,
            at: unix_ms(),
            from: channel.id.clone(),
            topic: channel.topic.clone(),
            up_to: channel.last_seq,
            people: channel
                .members
                .iter()
                .map(|member| &member.party)
                .filter(|party| party.is_human())
                .cloned()
                .collect(),
            copies,
            race: request.race,
            mentions: request.mentions,
        };
        self.write_record(&record)?;
        step();
        // The packages and the configuration of all copies are one generation.
        let origin = Origin::new(record.by.to_string(), format!("fork of #{}", record.from));
        let made = async {
            warnings.extend(self.copy_agents(&record, &team, &origin).await?);
            self.check_undisturbed(&lease).await?;
            self.configure(&record, origin).await
        };
        if let Err(error) = made.await {
            // The error that led here says more than one of the clean-up, which is tried again later.
            if let Err(left) = self.undo(&record).await {
                tracing::error!(error = crate::error::chain(&left), "failed to undo a fork of a team");
            }
            return Err(error);
        }
        step();
        let posts = self.publish_copies(&record).await?;
        drop(held);
        Ok(TeamForkView { up_to: record.up_to, copies: record.copies, posts, warnings })
    }

    /// Completes or undoes a fork of a team that was killed.
    ///
    /// # Errors
    ///
    /// Returns an error if a step fails. The next call begins again.
    pub(crate) async fn finish_team_fork(&self) -> Result<(), CheckpointError> {
        if !Self::is_team_fork_open(self.home()) {
            return Ok(());
        }
        let _one = self.forks.lock().await;
        let _alone = match pending::try_lock(self.home()) {
            // The process that has it is the one that makes the fork, or finishes it.
            Err(HomeError::Held { .. }) => return Ok(()),
            lock => lock?,
        };
        self.finish_locked().await
    }

    /// Returns `true` if a fork of a team was interrupted, or is under way in another process.
    #[must_use]
    pub(crate) fn is_team_fork_open(home: &Home) -> bool {
        home.team_fork().exists()
    }

    async fn finish_locked(&self) -> Result<(), CheckpointError> {
        let path = self.home().team_fork();
        let Some(bytes) = atomic::read(&path, MAX_RECORD)? else { return Ok(()) };
        let record: TeamForkRecord = serde_json::from_slice(&bytes)
            .map_err(|error| CheckpointError::io("read", &path)(error.into()))?;
        let config = self.config();
        if record.new_agents().all(|agent| config.agent(agent).is_some()) {
            self.publish_copies(&record).await.map(drop)
        } else {
            self.undo(&record).await
        }
    }

    /// Returns the agents of a channel that can be copied, by their ids.
    fn team(&self, channel: &Channel) -> Result<(Vec<Agent>, Vec<String>), CheckpointError> {
        let config = self.config();
        let mut warnings = Vec::new();
        let mut team = BTreeMap::new();
        for agent in channel.agents().filter_map(|id| config.agent(id)) {
            if agent.role == Role::Sysadmin {
                // It works on the machine itself, and decides about requests.
                warnings.push(format!("{} is a sysadmin and is not copied", agent.id));
            } else {
                team.insert(agent.id.clone(), agent.clone());
            }
        }
        if team.is_empty() {
            return Err(CheckpointError::NoTeam(channel.id.clone()));
        }
        Ok((team.into_values().collect(), warnings))
    }

    /// Names the copies, and refuses names that are in use.
    async fn names(
        &self,
        request: &TeamForkRequest,
        team: &[Agent],
    ) -> Result<Vec<TeamCopy>, CheckpointError> {
        let (config, home) = (self.config(), self.home());
        let wanted = config.agents.len() + team.len() * request.copies.len();
        if wanted > config.max_agents {
            return Err(CheckpointError::TooMany { wanted, limit: config.max_agents });
        }
        let mut copies = Vec::new();
        for name in &request.copies {
            if self.store().channels().find(&name.channel).await?.is_some() {
                return Err(CheckpointError::ChannelTaken(name.channel.clone()));
            }
            let mut agents = Vec::new();
            for agent in team {
                let new: AgentId = format!("{}-{}", agent.id, name.suffix).parse()?;
                if config.agent(&new).is_some() {
                    return Err(ConfigError::Exists(new).into());
                }
                let has_data = self.store().agents().has_data(&new).await?;
                if has_data || home.agent(&new).exists() || home.workspace(&new).exists() {
                    return Err(CheckpointError::Taken(new));
                }
                agents.push((agent.id.clone(), new));
            }
            copies.push(TeamCopy { channel: name.channel.clone(), agents });
        }
        Ok(copies)
    }

    /// Copies the files, conversations and packages of all agents. Returns what they do not have.
    async fn copy_agents(
        &self,
        record: &TeamForkRecord,
        team: &[Agent],
        origin: &Origin,
    ) -> Result<Vec<String>, CheckpointError> {
        let mut warnings = Vec::new();
        for copy in &record.copies {
            let peers = PeerNames {
                channels: vec![(record.from.clone(), copy.channel.clone())],
                agents: copy.agents.clone(),
            };
            for (agent, (_, new)) in team.iter().zip(&copy.agents) {
                let copying = AgentCopy {
                    home: self.home().clone(),
                    agent: agent.clone(),
                    new: new.clone(),
                    sessions: self.store().sessions().list(Some(&agent.id), u32::MAX).await?,
                    checkpoint: None,
                    peers: peers.clone(),
                };
                let (sessions, _) = self.blocking(agent, move |mut store| copying.make(&mut store)).await?;
                step();
                for session in sessions {
                    self.store().sessions().create(session, unix_ms()).await?;
                }
                let packages = self.services()?.copy_packages(&agent.id, new, None);
                if let Err(reason) = origin.clone().scope(packages).await {
                    warnings.push(format!("the packages of {new} were not copied: {reason}"));
                }
                step();
            }
        }
        Ok(warnings)
    }

    /// Adds all agents to the configuration at once.
    async fn configure(&self, record: &TeamForkRecord, origin: Origin) -> Result<(), CheckpointError> {
        let (home, record) = (self.home().clone(), record.clone());
        let edit = move || {
            config::edit(&home, |document| -> Result<(), ConfigError> {
                for copy in &record.copies {
                    for (original, new) in &copy.agents {
                        agents::fork(document, &home, original, new)?;
                    }
                    agents::fork_channel_budget(document, &record.from, &copy.channel);
                }
                Ok(())
            })
        };
        let edited = tokio::task::spawn_blocking(move || origin.run(edit)).await;
        Ok(edited.map_err(|_| CheckpointError::Stopped)??)
    }

    /// Makes the channels, and ends the fork. Returns the messages that were posted in them.
    async fn publish_copies(
        &self,
        record: &TeamForkRecord,
    ) -> Result<Vec<(NewPost, CommittedPost)>, CheckpointError> {
        let mut posts = Vec::new();
        let mut copies = Vec::new();
        for copy in &record.copies {
            let own = record.posts(copy);
            posts.extend(own.clone());
            copies.push(ChannelCopy {
                from: record.from.clone(),
                up_to: record.up_to,
                id: copy.channel.clone(),
                name: copy.channel.to_string(),
                topic: record.topic.clone(),
                created_by: record.by.clone(),
                agents: copy.agents.clone(),
                people: record.people.clone(),
                posts: own,
            });
        }
        let outcome =
            self.store().channels().copy(copies, record.race.clone(), record.entries(), unix_ms()).await?;
        step();
        match outcome {
            CopyOutcome::Made(posted) => {
                self.clear_record()?;
                Ok(posts.into_iter().zip(posted).collect())
            }
            CopyOutcome::Taken(id) => {
                // A process that was killed after it had made the channels.
                let found = self.store().channels().find(&id).await?;
                let is_own = |channel: &Channel| {
                    channel.agents().any(|agent| record.new_agents().any(|new| new == agent))
                };
                if found.as_ref().is_some_and(is_own) {
                    self.clear_record()?;
                    return Ok(Vec::new());
                }
                // Somebody has made a channel of this name meanwhile.
                self.undo(record).await?;
                Err(CheckpointError::ChannelTaken(id))
            }
        }
    }

    /// Removes everything that was made.
    async fn undo(&self, record: &TeamForkRecord) -> Result<(), CheckpointError> {
        let (home, listed) = (self.home().clone(), record.clone());
        let origin = Origin::new(record.by.to_string(), format!("undone fork of #{}", record.from));
        let edit = move || {
            let known = config::read(&home)?;
            if !listed.new_agents().any(|agent| known.agent(agent).is_some()) {
                return Ok(());
            }
            config::edit(&home, |document| -> Result<(), ConfigError> {
                for copy in &listed.copies {
                    for (_, new) in &copy.agents {
                        match agents::remove(document, new) {
                            Ok(()) | Err(ConfigError::Unknown(_)) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    agents::remove_channel_budget(document, &copy.channel);
                }
                Ok(())
            })
        };
        let edited = tokio::task::spawn_blocking(move || origin.run(edit)).await;
        edited.map_err(|_| CheckpointError::Stopped)??;
        for agent in record.new_agents() {
            // Rows go before files, as in a removal.
            self.store().agents().delete(agent.clone()).await?;
            for folder in [self.home().agent(agent), self.home().workspace(agent)] {
                clear(&folder)?;
            }
            if let Err(reason) = self.services()?.forget_packages(agent).await {
                tracing::warn!(%agent, reason, "the packages of an agent that was not made may still be there");
            }
        }
        self.clear_record()
    }

    fn write_record(&self, record: &TeamForkRecord) -> Result<(), CheckpointError> {
        let bytes = serde_json::to_vec(record).unwrap_or_default();
        Ok(atomic::write(&self.home().team_fork(), &bytes, 0o600)?)
    }

    fn clear_record(&self) -> Result<(), CheckpointError> {
        let path = self.home().team_fork();
        match fs_err::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(HomeError::io("remove", &path)(error).into())
            }
            _ => Ok(()),
        }
    }
}

fn step() {
    fault_point::reach(FaultPoint::Forking);
}

fn clear(folder: &Path) -> Result<(), CheckpointError> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    remove_tree::clear(above, Path::new(name))
        .map_err(|(stuck, _)| CheckpointError::io("remove", &stuck.path)(stuck.error))
}
