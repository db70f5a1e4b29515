//! The engine: the entry point to turns and sessions.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use jiff::tz::TimeZone;

use super::compaction::findings::{self, Findings};
use super::delegated::TurnRouter;
use super::failover::Cooldowns;
use super::oversight::Oversight;
use super::prefix_cache::PrefixCache;
use super::prompt::{Knowledge, PromptContext, SystemPromptBuilder, ToolCallStyle};
use super::rejected_thinking::RejectedThinking;
use super::transcript::hygiene::PictureCache;
use super::transcript::{Header, Transcript, TranscriptError, model};
use super::turn::TurnError;
use super::turn_watch::TurnWatch;
use crate::config::{Agent, Config, Live};
use crate::home::Home;
use crate::id::{AgentId, SessionKey};
use crate::provider::retry::Policy;
use crate::provider::{Catalog, ToolSpec};
use crate::runtime::Runtimes;
use crate::sandbox::workspace_files::Workspaces;
use crate::store::{Session, Store, StoreError, StoredPrompt};
use crate::sync::lock;
use crate::tool::Registry;
use crate::tool::policy;
use crate::tool::sessions::SessionInfo;

/// Limits of one turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// Number of model calls.
    pub steps: u32,
    /// Total time, unless the configuration sets one.
    pub wall: Duration,
    /// Retry policy for a model that failed.
    pub retry: Policy,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { steps: 50, wall: Duration::from_secs(600), retry: Policy::default() }
    }
}

impl TurnLimits {
    /// Returns the turn's time limit under this configuration.
    #[must_use]
    pub(crate) fn wall_time_for(&self, config: &Config) -> Duration {
        config.turn_time.unwrap_or(self.wall)
    }
}

/// The dependencies of an engine.
pub struct EngineParts {
    /// The live configuration, which also knows the home.
    pub config: Arc<Live>,
    pub store: Arc<Store>,
    /// All tools. The policy decides which of them an agent has.
    pub registry: Registry,
    /// The source of models and their providers.
    pub catalog: Catalog,
    pub limits: TurnLimits,
    /// The observer of turns: budget, approvals, audit and freezes.
    pub oversight: Arc<dyn Oversight>,
}

/// Number of prompts that are cached. Each is a few kilobytes, and no two agents share one.
const MAX_CACHED_PROMPTS: usize = 64;

/// Runs turns and manages all sessions of one home. A process has one engine.
pub struct Engine {
    pub(super) parts: EngineParts,
    pub(super) zone: TimeZone,
    builder: SystemPromptBuilder,
    /// Builds the shorter prompt for programs that run turns in place of the native loop.
    brief: SystemPromptBuilder,
    pub(super) runtimes: Runtimes,
    /// Routes what such programs send to the turns they run.
    pub(super) router: TurnRouter,
    // By the inputs they were built from. When the map is full it is emptied, which costs one rebuild for each prompt.
    prompts: Mutex<HashMap<String, Arc<str>>>,
    busy: Mutex<HashSet<SessionKey>>,
    /// Cache of pictures that were scaled down for requests.
    pub(super) pictures: Arc<PictureCache>,
    /// Models that failed recently.
    pub(super) cooldowns: Cooldowns,
    /// Thinking blocks that providers rejected.
    pub(super) refusals: RejectedThinking,
    /// Encoded beginnings of long conversations.
    pub(super) prefixes: Arc<PrefixCache>,
    /// The observer of workspaces, if there is one.
    pub(super) watch: OnceLock<Arc<dyn TurnWatch>>,
    /// The ways to workspaces on other machines, if there can be some.
    workspaces: OnceLock<Workspaces>,
}

impl Engine {
    /// Creates an engine. Nothing is opened or started.
    #[must_use]
    pub fn new(parts: EngineParts) -> Self {
        Self {
            parts,
            zone: TimeZone::system(),
            builder: SystemPromptBuilder::for_team(),
            brief: SystemPromptBuilder::for_runtime(),
            runtimes: Runtimes::default(),
            router: TurnRouter::default(),
            prompts: Mutex::default(),
            busy: Mutex::default(),
            pictures: Arc::default(),
            cooldowns: Cooldowns::default(),
            refusals: RejectedThinking::default(),
            prefixes: Arc::default(),
            watch: OnceLock::new(),
            workspaces: OnceLock::new(),
        }
    }

    /// Sets the programs that can run turns, for agents that name one as their runtime.
    #[must_use]
    pub fn with_runtimes(mut self, runtimes: Runtimes) -> Self {
        self.runtimes = runtimes;
        self
    }

    /// Sets the observer of workspaces. Only the first call has an effect.
    pub(crate) fn watch_turns(&self, watch: Arc<dyn TurnWatch>) {
        // A second observer would be a mistake, and would make each checkpoint twice.
        drop(self.watch.set(watch));
    }

    /// Sets the ways to workspaces. Until then, and without it, they are folders of this machine.
    pub(crate) fn reach_workspaces(&self, workspaces: Workspaces) {
        drop(self.workspaces.set(workspaces));
    }

    /// Returns the ways to workspaces.
    #[must_use]
    pub(crate) fn workspaces(&self) -> &Workspaces {
        self.workspaces.get_or_init(Workspaces::of_this_machine)
    }

    /// Returns the files of a session's mission in the workspace of its agent. A workspace that can't be opened has none.
    pub(super) fn findings(&self, agent: &Agent, session: &SessionKey) -> Findings {
        let workspace = self.workspaces().open(&agent.id, &agent.workspace);
        findings::read_in(workspace.ok().as_ref(), &findings::mission(session))
    }

    /// Returns the names that an agent's `runtime` can have besides flock's own loop.
    #[must_use]
    pub(crate) fn runtime_names(&self) -> Vec<&str> {
        self.runtimes.names()
    }

    /// Returns the tools of flock's own that the agent may use: those that a program which runs its turns lacks.
    #[must_use]
    pub(crate) fn own_tools(&self, agent: &Agent) -> Vec<ToolSpec> {
        let offered = self.parts.registry.offered(agent);
        offered.into_iter().filter(|spec| policy::is_flocks_own(&spec.name)).collect()
    }

    /// Returns the name of flock's own tool that a client's tool of this name could be taken for.
    #[must_use]
    pub(crate) fn shadowed_tool(&self, name: &str) -> Option<String> {
        let is_it = |known: &str| known.eq_ignore_ascii_case(name);
        let mut tools = self.parts.registry.iter();
        let found =
            tools.find(|tool| is_it(&tool.spec().name) || tool.aliases().iter().any(|alias| is_it(alias)));
        found.map(|tool| tool.spec().name.clone())
    }

    /// Returns at most `limit` sessions of one agent or of all, the most recently used first.
    pub async fn sessions(
        &self,
        agent: Option<&AgentId>,
        limit: u32,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let sessions = self.parts.store.sessions().list(agent, limit).await?;
        Ok(sessions.into_iter().map(SessionInfo::from).collect())
    }

    /// Returns the database, which keeps messages between sessions until their turns have ended.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.parts.store
    }

    /// Returns one session, or `None` if the key is unknown.
    pub async fn session(&self, key: &SessionKey) -> Result<Option<SessionInfo>, StoreError> {
        Ok(self.parts.store.sessions().find(key).await?.map(SessionInfo::from))
    }

    /// Flushes everything that was committed to the disk.
    ///
    /// A shutdown calls this because the last engine of a process may never be dropped: its tools hold references to
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk refuses a write.
    pub async fn settle(&self) -> Result<(), StoreError> {
        self.parts.store.settle().await
    }

    pub(super) fn home(&self) -> &Home {
        self.parts.config.home()
    }

    /// Opens the session's transcript for the holder of its claim.
    pub(super) fn open_transcript(&self, session: &Session) -> Result<Transcript, TranscriptError> {
        let key = session.key.clone();
        let header =
            Header { version: model::VERSION, agent: key.agent().clone(), key, created: session.created_at };
        Transcript::open(&self.transcript_path(session), &header, &self.parts.store.syncer().handle())
    }

    pub(super) fn transcript_path(&self, session: &Session) -> PathBuf {
        self.home().sessions(session.key.agent()).join(format!("{}.jsonl", session.file))
    }

    /// Returns the current system prompt of a session that began at `began` (Unix milliseconds).
    pub(super) fn prompt(
        &self,
        agent: &Agent,
        model: &str,
        tools: &[ToolSpec],
        calls: ToolCallStyle,
        began: i64,
    ) -> Result<StoredPrompt, TurnError> {
        let knowledge = Knowledge::read_by(self.home(), agent, self.workspaces());
        let zone = &self.zone;
        let context = PromptContext { agent, model, tools, calls, knowledge: &knowledge, began, zone };
        // The inputs are a hash, so looking up a prompt costs less than building it.
        let inputs = context.inputs();
        let mut prompts = lock(&self.prompts);
        if let Some(text) = prompts.get(&inputs) {
            return Ok(StoredPrompt { text: Arc::clone(text), inputs });
        }
        let text: Arc<str> = self.builder.build(&context)?.into();
        if prompts.len() >= MAX_CACHED_PROMPTS {
            prompts.clear();
        }
        prompts.insert(inputs.clone(), Arc::clone(&text));
        Ok(StoredPrompt { inputs, text })
    }

    /// Returns the prompt for a program that runs the agent's turns, with the given tools of flock's own.
    pub(super) fn brief(
        &self,
        agent: &Agent,
        model: &str,
        tools: &[ToolSpec],
        began: i64,
    ) -> Result<StoredPrompt, TurnError> {
        let knowledge = Knowledge::read_by(self.home(), agent, self.workspaces());
        let (zone, calls) = (&self.zone, ToolCallStyle::Native);
        let context = PromptContext { agent, model, tools, calls, knowledge: &knowledge, began, zone };
        let text: Arc<str> = self.brief.build(&context)?.into();
        // The runtime's name keeps this prompt apart from the native one with the same inputs.
        Ok(StoredPrompt { text, inputs: format!("{} {}", agent.runtime, context.inputs()) })
    }

    /// Claims the session for one turn.
    ///
    /// The caller already has a queue per session. The claim guards against a defect there, because two turns of one
    /// session would write into each other's records.
    pub(super) fn claim(&self, session: &SessionKey) -> Result<SessionClaim<'_>, TurnError> {
        if lock(&self.busy).insert(session.clone()) {
            Ok(SessionClaim { engine: self, session: session.clone() })
        } else {
            Err(TurnError::Busy(session.clone()))
        }
    }
}

/// A session that is claimed for one turn until this guard is dropped.
pub(super) struct SessionClaim<'e> {
    engine: &'e Engine,
    session: SessionKey,
}

impl Drop for SessionClaim<'_> {
    fn drop(&mut self) {
        lock(&self.engine.busy).remove(&self.session);
    }
}
