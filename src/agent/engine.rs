//! The door to turns and sessions.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio_util::sync::CancellationToken;

use super::delegated::Desk;
use super::failover::Cooldowns;
use super::lost::{self, Lost};
use super::oversight::Oversight;
use super::prefix_cache::PrefixCache;
use super::prompt::{Calls, Knowledge, PromptContext, SystemPromptBuilder};
use super::provenance::Provenance;
use super::recover::Interrupted;
use super::refusals::Refusals;
use super::transcript::hygiene::Pictures;
use super::turn::{TurnError, TurnEvent, TurnOutcome, TurnRequest};
use super::{history, recover, run};
use crate::config::{Agent, Config, Live};
use crate::home::Home;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::retry::Policy;
use crate::provider::{Catalog, ToolSpec};
use crate::runtime::Runtimes;
use crate::sandbox::policy;
use crate::store::{Session, Store, StoreError, StoredPrompt};
use crate::tool::Registry;
use crate::tool::sessions::{HistoryEntry, SessionInfo};

/// What a turn may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Model calls.
    pub steps: u32,
    /// Time in all, where the configuration does not say.
    pub wall: Duration,
    /// How often and how soon a model that failed is asked again.
    pub retry: Policy,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 50, wall: Duration::from_secs(600), retry: Policy::default() }
    }
}

impl Limits {
    /// Time in all, as this configuration has it.
    #[must_use]
    pub fn wall_of(&self, config: &Config) -> Duration {
        config.turn_time.unwrap_or(self.wall)
    }
}

/// What an engine is made of.
pub struct Parts {
    /// The configuration, and with it the home.
    pub config: Arc<Live>,
    /// The database.
    pub store: Arc<Store>,
    /// All tools; the policy decides which of them an agent has.
    pub registry: Registry,
    /// Where models come from.
    pub catalog: Catalog,
    /// What a turn may take.
    pub limits: Limits,
    /// Who watches turns.
    pub oversight: Arc<dyn Oversight>,
}

/// Prompts that are kept for the next turn. One is a few kilobytes, and agents of the same day share none.
const KEPT_PROMPTS: usize = 64;

/// Runs turns and knows all sessions of one home. One process has one.
pub struct Engine {
    pub(super) parts: Parts,
    pub(super) zone: TimeZone,
    builder: SystemPromptBuilder,
    /// What programs are told that run turns in the native loop's place.
    brief: SystemPromptBuilder,
    pub(super) runtimes: Runtimes,
    /// Where turns that such programs run are found by what they send.
    pub(super) desk: Desk,
    prompts: Mutex<HashMap<String, Arc<str>>>,
    busy: Mutex<HashSet<SessionKey>>,
    /// Pictures that were made smaller for some request.
    pub(super) pictures: Arc<Pictures>,
    /// Models that failed a short while ago.
    pub(super) cooldowns: Cooldowns,
    /// Thinking that providers refused.
    pub(super) refusals: Refusals,
    /// What long conversations begin with.
    pub(super) prefixes: Arc<PrefixCache>,
}

impl Engine {
    /// An engine of these parts. Nothing is opened or started.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            zone: TimeZone::system(),
            builder: SystemPromptBuilder::for_team(),
            brief: SystemPromptBuilder::for_runtime(),
            runtimes: Runtimes::default(),
            desk: Desk::default(),
            prompts: Mutex::default(),
            busy: Mutex::default(),
            pictures: Arc::default(),
            cooldowns: Cooldowns::default(),
            refusals: Refusals::default(),
            prefixes: Arc::default(),
        }
    }

    /// With these programs, which run the turns of agents that name one as their runtime.
    #[must_use]
    pub fn with_runtimes(mut self, runtimes: Runtimes) -> Self {
        self.runtimes = runtimes;
        self
    }

    /// What an agent's `runtime` can name beside flock's own loop.
    #[must_use]
    pub fn runtime_names(&self) -> Vec<&'static str> {
        self.runtimes.names()
    }

    /// What an agent is offered of flock's own tools: those that a program which runs its turns does not have itself.
    #[must_use]
    pub fn own_tools(&self, agent: &Agent) -> Vec<ToolSpec> {
        let offered = policy::offered(agent, self.parts.registry.iter().map(|tool| tool.spec()));
        offered.into_iter().filter(|spec| policy::is_flocks_own(&spec.name)).collect()
    }

    /// Runs one turn to its end. Ending `cancel` ends it with [`TurnError::Cancelled`]; dropping the future
    /// does the same without an answer. In both cases the transcript is left whole.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub async fn run(
        &self,
        request: TurnRequest,
        cancel: CancellationToken,
        on_event: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<TurnOutcome, TurnError> {
        run::run(self, request, cancel, on_event).await
    }

    /// Marks the turns that ran when the last process died, in the database and in their transcripts, and
    /// deletes sessions of agents that are gone. To be called once, before the first turn; gives the turns that
    /// were marked, in the order they began.
    ///
    /// # Errors
    ///
    /// Where the database fails. A transcript that can't be read is logged and passed over.
    pub async fn recover(&self) -> Result<Vec<Interrupted>, TurnError> {
        let marked = recover::interrupted(self).await?;
        recover::sweep(self).await?;
        recover::forget_purged(self).await?;
        Ok(marked)
    }

    /// Ends those of these turns that the database has as running. To be called for turns that nothing runs any more,
    /// whose end could not be written. One whose session is busy is left for later. Gives how many were ended.
    ///
    /// # Errors
    ///
    /// Where the database fails.
    pub async fn end_lost(&self, turns: &[TurnId]) -> Result<usize, TurnError> {
        recover::lost(self, turns).await
    }

    /// Deletes the sessions of single requests, and their transcripts, that were not used since `before` (Unix
    /// milliseconds).
    ///
    /// # Errors
    ///
    /// Where the database fails.
    pub async fn forget_requests(&self, before: i64) -> Result<(), TurnError> {
        recover::forget_requests(self, before).await?;
        recover::sweep_programs(self, false).await;
        Ok(())
    }

    /// Where the inputs of a turn came from that are committed in its session's transcript, in their order:
    /// that of the turn's own input, then what was delivered while it ran. Empty for a turn that never wrote
    /// any.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub fn deliveries(&self, session: &SessionKey, turn: TurnId) -> Result<Vec<Provenance>, TurnError> {
        match self.parts.store.session(session)? {
            Some(session) => history::deliveries(&self.transcript_path(&session), turn),
            None => Ok(Vec::new()),
        }
    }

    /// The final text of a turn that ended well; `None` where it did not.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub fn answer(&self, session: &SessionKey, turn: TurnId) -> Result<Option<String>, TurnError> {
        match self.parts.store.session(session)? {
            Some(session) => history::answer(&self.transcript_path(&session), turn),
            None => Ok(None),
        }
    }

    /// At most `limit` sessions of one agent or of all, the one used last first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn sessions(&self, agent: Option<&AgentId>, limit: u32) -> Result<Vec<SessionInfo>, StoreError> {
        let sessions = self.parts.store.sessions(agent, limit)?;
        Ok(sessions.into_iter().map(SessionInfo::from).collect())
    }

    /// Where messages between sessions are kept until their turns have ended.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.parts.store
    }

    /// Sessions whose transcript and database hold different turns, because a disk lost writes. For a start, before any
    /// turn begins.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub fn lost(&self) -> Result<Vec<Lost>, TurnError> {
        lost::compare(self)
    }

    /// How many sessions there are.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn count_sessions(&self) -> Result<i64, StoreError> {
        self.parts.store.count_sessions()
    }

    /// One session; `None` where there is none with this key.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn session(&self, key: &SessionKey) -> Result<Option<SessionInfo>, StoreError> {
        Ok(self.parts.store.session(key)?.map(SessionInfo::from))
    }

    /// The newest `limit` messages of a session, oldest first, without thinking; `None` where there is no
    /// session with this key.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub fn history(&self, key: &SessionKey, limit: usize) -> Result<Option<Vec<HistoryEntry>>, TurnError> {
        match self.parts.store.session(key)? {
            Some(session) => history::entries(&self.transcript_path(&session), limit).map(Some),
            None => Ok(None),
        }
    }

    /// Brings all that was committed to the disk. For a stop: the last engine of a process may never be
    /// dropped, because its tools know it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn settle(&self) -> Result<(), StoreError> {
        self.parts.store.settle().await
    }

    pub(super) fn home(&self) -> &Home {
        self.parts.config.home()
    }

    pub(super) fn transcript_path(&self, session: &Session) -> PathBuf {
        self.home().sessions(session.key.agent()).join(format!("{}.jsonl", session.file))
    }

    /// The system prompt as it has to be now for a session that began at `began`.
    pub(super) fn prompt(
        &self,
        agent: &Agent,
        model: &str,
        tools: &[ToolSpec],
        calls: Calls,
        began: i64,
    ) -> Result<StoredPrompt, TurnError> {
        let knowledge = Knowledge::read(self.home(), agent);
        let zone = &self.zone;
        let context = PromptContext { agent, model, tools, calls, knowledge: &knowledge, began, zone };
        let inputs = context.inputs();
        let mut prompts = lock(&self.prompts);
        if let Some(text) = prompts.get(&inputs) {
            return Ok(StoredPrompt { text: Arc::clone(text), inputs });
        }
        let text: Arc<str> = self.builder.build(&context)?.into();
        if prompts.len() >= KEPT_PROMPTS {
            prompts.clear();
        }
        prompts.insert(inputs.clone(), Arc::clone(&text));
        Ok(StoredPrompt { inputs, text })
    }

    /// What the program is told of an agent whose turns it runs, with these of flock's tools.
    pub(super) fn brief(
        &self,
        agent: &Agent,
        model: &str,
        tools: &[ToolSpec],
        began: i64,
    ) -> Result<StoredPrompt, TurnError> {
        let knowledge = Knowledge::read(self.home(), agent);
        let (zone, calls) = (&self.zone, Calls::Native);
        let context = PromptContext { agent, model, tools, calls, knowledge: &knowledge, began, zone };
        let text: Arc<str> = self.brief.build(&context)?.into();
        Ok(StoredPrompt { text, inputs: format!("{} {}", agent.runtime, context.inputs()) })
    }

    /// Takes the session for one turn. Who runs turns has a queue for each session; this holds even if that
    /// has a defect, because two turns of one session would write into each other.
    pub(super) fn claim(&self, session: &SessionKey) -> Result<Claim<'_>, TurnError> {
        if lock(&self.busy).insert(session.clone()) {
            Ok(Claim { engine: self, session: session.clone() })
        } else {
            Err(TurnError::Busy(session.clone()))
        }
    }
}

/// A session that is taken for one turn, until this is dropped.
pub(super) struct Claim<'e> {
    engine: &'e Engine,
    session: SessionKey,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        lock(&self.engine.busy).remove(&self.session);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
