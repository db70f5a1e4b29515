//! Makes a second agent that goes on from where an agent is, or was at a checkpoint.
//!
//! Everything is made under other names first. The new agent exists once it is in the configuration.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;

use super::Checkpoints;
use super::agent_store::AgentStore;
use super::error::CheckpointError;
use super::packages::{self, PackagesThen};
use super::record::CheckpointRecord;
use crate::agent::transcript::model::VERSION;
use crate::agent::transcript::{self, Header, Record};
use crate::clock::unix_ms;
use crate::config::{self, Agent, ConfigError, agents};
use crate::error::chain;
use crate::generation::Origin;
use crate::home::scratch::{self, ScratchDir};
use crate::home::{Home, instance, regular};
use crate::id::{AgentId, ChannelId, SessionKey, SessionKind};
use crate::store::{AuditEntry, Level, NewSession, Session};

/// A wish for a fork.
#[derive(Clone, Debug)]
pub(crate) struct ForkRequest {
    /// The id of the new agent.
    pub(crate) name: AgentId,
    /// The checkpoint from which it goes on. `None` is the present state.
    pub(crate) checkpoint: Option<u64>,
    /// The person who asks.
    pub(crate) by: String,
}

/// A fork that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForkView {
    pub(crate) agent: AgentId,
    pub(crate) from: AgentId,
    /// The checkpoint from which it goes on.
    pub(crate) checkpoint: Option<u64>,
    /// Number of conversations that it has.
    pub(crate) sessions: usize,
    /// The parts that it does not have, for people.
    pub(crate) warnings: Vec<String>,
}

/// Prefix of the names of what is not complete.
const UNFINISHED: &str = ".fork-";
/// The time after which a draft of another home is taken for one that nobody will complete or remove: no fork takes as long.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

impl Checkpoints {
    /// Makes a new agent with the settings, files, conversations and packages of an agent.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Busy`] during a turn unless a checkpoint is given, [`CheckpointError::Elsewhere`] if another
    /// gateway has the agent, [`CheckpointError::Taken`] if files or sessions of an agent with the new id exist, and another
    /// error if a step fails. The new agent does not exist then.
    pub(crate) async fn fork(
        &self,
        agent: &Agent,
        request: ForkRequest,
    ) -> Result<ForkView, CheckpointError> {
        let ForkRequest { name, checkpoint, by } = request;
        let _lease = self.keep(&agent.id).await?;
        let _one = self.forks.lock().await;
        if self.config().agent(&name).is_some() {
            return Err(ConfigError::Exists(name).into());
        }
        let gate = self.gate(&agent.id);
        // At a checkpoint nothing changes any more.
        let alone = gate.alone().await;
        if alone.is_some() {
            self.complete(agent).await?;
        } else if checkpoint.is_none() {
            return Err(CheckpointError::Busy(agent.id.clone()));
        }
        let home = self.home().clone();
        let has_data = self.store().agents().has_data(&name).await?;
        if has_data || home.agent(&name).exists() || home.workspace(&name).exists() {
            return Err(CheckpointError::Taken(name));
        }
        let sessions = self.store().sessions().list(Some(&agent.id), u32::MAX).await?;
        let copying = AgentCopy {
            home,
            agent: agent.clone(),
            new: name.clone(),
            sessions,
            checkpoint,
            peers: PeerNames::default(),
        };
        let (copied, then) = self.blocking(agent, move |mut store| copying.make(&mut store)).await?;
        for session in &copied {
            self.store().sessions().create(session.clone(), unix_ms()).await?;
        }
        // The packages and the configuration of the new agent are one generation.
        let origin = Origin::new(&by, format!("flock fork {} {name}", agent.id));
        let packages = self.services()?.copy_packages(&agent.id, &name, then.here());
        let packages = origin.clone().scope(packages).await;
        let warnings = match (packages, checkpoint) {
            (Err(reason), _) => vec![format!("its packages were not copied: {reason}")],
            (Ok(()), Some(number)) if then == PackagesThen::Elsewhere => {
                vec![format!("its packages are the present ones: {}", packages::elsewhere_text(number))]
            }
            (Ok(()), _) => Vec::new(),
        };
        let (home, from, to) = (self.home().clone(), agent.id.clone(), name.clone());
        drop(alone);
        let edited = tokio::task::spawn_blocking(move || {
            origin.run(|| config::edit(&home, |document| agents::fork(document, &home, &from, &to)))
        });
        edited.await.unwrap_or(Ok(()))?;
        let detail = match checkpoint {
            Some(number) => format!("from {} at checkpoint {number}", agent.id),
            None => format!("from {}", agent.id),
        };
        let entry = AuditEntry::new(&by, "agent.fork", name.as_str(), Level::Yellow, detail);
        if let Err(error) = self.store().audit().append(entry, unix_ms()).await {
            tracing::error!(error = chain(&error), "failed to write a fork into the audit");
        }
        let (from, sessions) = (agent.id.clone(), copied.len());
        Ok(ForkView { agent: name, from, checkpoint, sessions, warnings })
    }
}

/// The names of those with whom a copy goes on talking where the original talked with others.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerNames {
    /// Channels, each with its copy.
    pub(super) channels: Vec<(ChannelId, ChannelId)>,
    /// Agents, each with its copy.
    pub(super) agents: Vec<(AgentId, AgentId)>,
}

impl PeerNames {
    /// Returns the peer of the copy's session in place of the original's.
    fn of(&self, session: &SessionKey) -> String {
        let peer = session.peer();
        let copy = match session.kind() {
            SessionKind::Channel => {
                let is_it = |(from, _): &&(ChannelId, ChannelId)| from.as_str().eq_ignore_ascii_case(peer);
                self.channels.iter().find(is_it).map(|(_, to)| to.to_string())
            }
            SessionKind::Dm => {
                self.agents.iter().find(|(from, _)| from.as_str() == peer).map(|(_, to)| to.to_string())
            }
            SessionKind::Request | SessionKind::Main => None,
        };
        copy.unwrap_or_else(|| peer.to_owned())
    }
}

/// A copy of an agent's files and conversations.
pub(super) struct AgentCopy {
    pub(super) home: Home,
    pub(super) agent: Agent,
    pub(super) new: AgentId,
    /// The conversations of the original.
    pub(super) sessions: Vec<Session>,
    /// The checkpoint whose state is copied. `None` is the present one.
    pub(super) checkpoint: Option<u64>,
    pub(super) peers: PeerNames,
}

impl AgentCopy {
    /// Copies everything, and puts it into its place. Returns the sessions of the copy, which are not in the database, and the
    /// packages of the checkpoint, whose generation of the profile it gets if that is known, and otherwise the present one.
    ///
    /// # Errors
    ///
    /// Returns an error if something can't be read or written.
    pub(super) fn make(
        &self,
        store: &mut AgentStore,
    ) -> Result<(Vec<NewSession>, PackagesThen), CheckpointError> {
        let Self { home, agent, new, sessions, checkpoint, peers } = self;
        copy(store, (home, agent, new), sessions, *checkpoint, peers)
    }
}

fn copy(
    store: &mut AgentStore,
    (home, agent, new): (&Home, &Agent, &AgentId),
    sessions: &[Session],
    checkpoint: Option<u64>,
    peers: &PeerNames,
) -> Result<(Vec<NewSession>, PackagesThen), CheckpointError> {
    let (tree, moment) = match checkpoint {
        None => (store.scan(&AtomicBool::new(false))?.tree, None),
        Some(number) => {
            let mut records = store.log.read()?;
            let record = records.swap_remove(store.find(&records, Some(number), |_| true)?);
            let reason = record.problem.clone().unwrap_or_default();
            let without = CheckpointError::WithoutFiles { agent: agent.id.clone(), number, reason };
            (record.files.ok_or(without)?, Some(record))
        }
    };
    let drafts = format!("{UNFINISHED}{}-", instance::read(home)?);
    let above = [home.workspaces(), home.agents()];
    for above in &above {
        sweep_drafts(above, &drafts);
    }
    let unfinished = format!("{drafts}{:08x}", rand::random::<u32>());
    let files = ScratchDir::make(&above[0], &unfinished)?;
    let own = ScratchDir::make(&above[1], &unfinished)?;
    store.extract(tree, &files.path())?;
    copy_folder(&agent.identity, &own.path().join("identity"))?;
    let mut copied = Vec::new();
    for session in sessions {
        // A single request is over, and its client knows the agent by its id.
        if session.key.kind() == SessionKind::Request {
            continue;
        }
        let text = format!("agent:{new}:flock:{}:{}", session.key.kind().as_str(), peers.of(&session.key));
        // A key can become too long with a longer id.
        let Ok(key) = text.parse::<SessionKey>() else { continue };
        copied.extend(copy_session(home, session, key, moment.as_ref(), &own.path().join("sessions"))?);
    }
    let put = |from: &Path, to: &Path| fs_err::rename(from, to).map_err(CheckpointError::io("rename", to));
    use std::os::unix::fs::PermissionsExt as _;
    let open = fs_err::set_permissions(files.path(), std::fs::Permissions::from_mode(0o755));
    open.map_err(CheckpointError::io("open", &files.path()))?;
    // The conversations go first: a workspace alone would be given to the next agent of this name.
    put(&own.path(), &home.agent(new))?;
    put(&files.path(), &home.workspace(new))?;
    let then = moment.map_or(PackagesThen::Unknown, |moment| packages::at(home, &agent.id, &moment));
    Ok((copied, then))
}

/// Removes what killed forks of this home have left, whose names begin with `own`, and what those of other homes left long
/// ago. The homes of a group share the folder, so a young draft of another one may be in use.
fn sweep_drafts(above: &Path, own: &str) {
    let is_left = |name: &String| {
        name.starts_with(own) || (name.starts_with(UNFINISHED) && is_abandoned(&above.join(name)))
    };
    let left: Vec<String> = scratch::names(above).into_iter().filter(is_left).collect();
    scratch::sweep(above, &left);
}

fn is_abandoned(draft: &Path) -> bool {
    let changed = fs_err::symlink_metadata(draft).and_then(|facts| facts.modified());
    // The clock of the machine that made it may be ahead. Then it seems to be of later, and stays.
    changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
}

/// Copies a conversation up to a moment. Returns `None` for one that the new agent does not get.
fn copy_session(
    home: &Home,
    session: &Session,
    key: SessionKey,
    moment: Option<&CheckpointRecord>,
    folder: &Path,
) -> Result<Option<NewSession>, CheckpointError> {
    let path = home.sessions(session.key.agent()).join(format!("{}.jsonl", session.file));
    let Some(from) = transcript::look(&path)? else { return Ok(None) };
    let failed = CheckpointError::io("copy", &path);
    let length = from.metadata().map_err(&failed)?.len();
    let end = moment.and_then(|moment| moment.transcripts.get(&session.file).copied());
    let mut lines = BufReader::new(from);
    let (mut line, mut at, mut bytes) = (Vec::new(), 0, Vec::new());
    while at < length && lines.read_until(b'\n', &mut line).map_err(&failed)? > 0 {
        at += line.len() as u64;
        let record = Record::parse(line.trim_ascii_end()).ok();
        let is_before = match (moment, end) {
            (None, _) => true,
            (Some(_), Some(end)) => at <= end,
            (Some(moment), None) => record.as_ref().and_then(Record::at).is_none_or(|made| made <= moment.at),
        };
        if !is_before {
            break;
        }
        match record {
            Some(Record::Session(header)) => {
                let header =
                    Header { version: VERSION, agent: key.agent().clone(), key: key.clone(), ..header };
                Record::Session(header).write_to(&mut bytes);
            }
            // A torn line is not copied.
            Some(_) if line.ends_with(b"\n") => bytes.extend(&line),
            _ => {}
        }
        line.clear();
    }
    // One that began later is not there yet.
    if bytes.is_empty() {
        return Ok(None);
    }
    let file = uuid::Uuid::now_v7().to_string();
    fs_err::create_dir_all(folder).map_err(&failed)?;
    use std::os::unix::fs::OpenOptionsExt as _;
    let to = folder.join(format!("{file}.jsonl"));
    let written = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to);
    written.and_then(|mut file| file.write_all(&bytes)).map_err(failed)?;
    Ok(Some(NewSession { key, file }))
}

/// Copies the files that define an agent. They are its owner's.
fn copy_folder(from: &Path, to: &Path) -> Result<(), CheckpointError> {
    let failed = CheckpointError::io("copy", from);
    fs_err::create_dir_all(to).map_err(&failed)?;
    let entries = match fs_err::read_dir(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(&failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(&failed)?;
        let kind = entry.file_type().map_err(&failed)?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            regular::copy(&entry.path(), &target).map_err(&failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::checkpoint::testing::home_with_coder;
    use crate::config::CheckpointSettings;

    #[test]
    fn a_fork_leaves_the_drafts_of_other_homes_unless_they_are_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let (home, agent) = home_with_coder(&folder.path().join("home"));
        let own = format!("{UNFINISHED}{}-1", instance::read(&home).unwrap());
        for above in [home.workspaces(), home.agents()] {
            for name in [own.as_str(), ".fork-other-young", ".fork-other-old"] {
                fs_err::create_dir_all(above.join(name).join("deep")).unwrap();
            }
            let old = std::fs::File::open(above.join(".fork-other-old")).unwrap();
            old.set_modified(SystemTime::now() - ABANDONED * 2).unwrap();
        }
        let copying = AgentCopy {
            home: home.clone(),
            agent: agent.clone(),
            new: "copy".parse().unwrap(),
            sessions: Vec::new(),
            checkpoint: None,
            peers: PeerNames::default(),
        };
        let mut store = AgentStore::open(&home, &agent, CheckpointSettings::default()).unwrap();
        copying.make(&mut store).unwrap();
        for above in [home.workspaces(), home.agents()] {
            let mut drafts = scratch::names(&above);
            drafts.retain(|name| name.starts_with(UNFINISHED));
            assert_eq!(drafts, [".fork-other-young"], "{}", above.display());
        }
        assert!(home.workspace(&copying.new).is_dir() && home.agent(&copying.new).is_dir());
    }
}
