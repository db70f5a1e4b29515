//! All servers of a home: started at the first call, stopped when idle, restarted after a failure with a growing pause, and
//! called only by agents that were granted a tool with the definition that a person has seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::asks::{AskError, AskedCall, Asks, CallGuard, Offers, RunningCalls, Sampled};
use super::definition::{self, ListedTool};
use super::elicitation::{self, PersonAnswer, Question};
use super::error::McpError;
use super::launch::Launcher;
use super::oauth::{self, SignInState};
use super::output;
use super::package;
use super::rounds::{self, CallError, ToolCall};
use super::running::Running;
use super::sampling;
use super::tool::GrantedTool;
use crate::agent::sampling::{SampleAnswer, SampleError, SampleQuestion, SampledCall};
use crate::clock::{local_day, unix_ms};
use crate::config::{Agent, Autonomy, Live, McpServer};
use crate::error::chain;
use crate::id::{AgentId, McpServerName, TurnId};
use crate::provider::{Block, BoxFuture};
use crate::store::{
    AuditEntry, Level, McpCapability, McpCapabilityGrant, McpGrant, McpRevocation, NewMcpGrant, PinnedTool,
    Store, StoreError,
};
use crate::sync::lock;
use crate::telemetry;
use crate::tool::{CallContext, Tool, ToolError, ToolOutput, ToolSource, safe_text};

/// The most bytes of the arguments of a call.
const MAX_ARGUMENTS: usize = 1 << 20;
/// The first pause after a failure, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The running time after which a server's end is no failure of its start.
const STABLE_TIME: Duration = Duration::from_secs(60);
/// The number of turns whose calls are counted.
const MAX_TURNS: usize = 1_000;
/// The most questions to a person in one call, and the longest time for an answer.
const MAX_QUESTIONS: u32 = 3;
const QUESTION_TIME: Duration = Duration::from_secs(300);
/// The interval between two looks for servers that nobody uses.
const IDLE_LOOK: Duration = Duration::from_secs(5);

/// Tells people about a definition that has changed.
pub(crate) trait DefinitionReview: Send + Sync + 'static {
    /// Asks a person to look at the changed definition of a tool. Returns the text for the agent.
    fn changed<'a>(
        &'a self,
        context: &'a CallContext,
        server: &'a McpServerName,
        tool: &'a str,
        sha256: &'a str,
    ) -> BoxFuture<'a, String>;
}

/// Asks an agent's model for a server.
pub(crate) trait AgentModel: Send + Sync + 'static {
    /// Asks the model, and charges the agent. Dropping the future ends the call.
    fn sample<'a>(
        &'a self,
        asked: SampledCall<'a>,
        question: &'a SampleQuestion,
    ) -> BoxFuture<'a, Result<SampleAnswer, SampleError>>;
}

/// Asks a person for a server.
pub(crate) trait Person: Send + Sync + 'static {
    /// Asks a person, and waits for the answer, at most for this time. Dropping the future takes the question back.
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        server: &'a McpServerName,
        question: Question,
        limit: Duration,
    ) -> BoxFuture<'a, Result<PersonAnswer, String>>;
}

/// The grants of all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// The tools whose definitions a person has seen.
    pub pins: Vec<PinnedTool>,
    pub tools: Vec<McpGrant>,
    pub capabilities: Vec<McpCapabilityGrant>,
}

/// The MCP servers of one home. Only one process of a home uses them at a time: the gateway while it runs, otherwise the
/// command line.
pub struct Servers {
    live: Arc<Live>,
    store: Arc<Store>,
    launcher: Arc<dyn Launcher>,
    slots: Mutex<HashMap<McpServerName, Arc<Slot>>>,
    /// The tools that are offered, as the database had them last. Each call looks there again.
    offered: Mutex<Arc<Offered>>,
    /// The number of calls of each turn.
    turns: Mutex<HashMap<(TurnId, McpServerName), u32>>,
    review: OnceLock<Arc<dyn DefinitionReview>>,
    model: OnceLock<Arc<dyn AgentModel>>,
    person: OnceLock<Arc<dyn Person>>,
    this: Weak<Self>,
}

#[derive(Default)]
struct Offered {
    tools: Vec<OfferedTool>,
    capabilities: Vec<McpCapabilityGrant>,
}

struct OfferedTool {
    tool: Arc<dyn Tool>,
    server: McpServerName,
    grants: Vec<McpGrant>,
}

/// A server, whether it runs or not.
#[derive(Default)]
struct Slot {
    /// Held while the server is started or stopped.
    starting: tokio::sync::Mutex<()>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    running: Option<Arc<Running>>,
    failures: u32,
    /// The time before which it is not started, and the last reason.
    paused: Option<(Instant, String)>,
    /// Set if the last start failed because nobody has signed in.
    wants_sign_in: bool,
}

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerState {
    pub is_running: bool,
    /// The version of the protocol that it speaks.
    pub version: Option<String>,
    /// Its own name and version.
    pub title: Option<String>,
    /// The reason of the last failure, while it is not started again.
    pub failure: Option<String>,
    /// The state of the sign-in to a server at a URL.
    pub sign_in: Option<SignInState>,
}

/// The reason why tools were not granted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GrantError {
    #[error(transparent)]
    Server(#[from] McpError),
    #[error("there is no agent {0}")]
    NoAgent(AgentId),
    #[error("the MCP server {0} has no tool {1:?}")]
    NoTool(McpServerName, String),
    #[error("the tool {0:?} can't be granted: {1}")]
    Unusable(String, String),
    /// The definition is not the one that the person was shown.
    #[error("the definition of {0:?} has changed since it was shown")]
    Changed(String),
}

impl Servers {
    /// Creates the value. Nothing is started or read.
    #[must_use]
    pub fn new(live: Arc<Live>, store: Arc<Store>, launcher: Arc<dyn Launcher>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            live,
            store,
            launcher,
            slots: Mutex::default(),
            offered: Mutex::default(),
            turns: Mutex::default(),
            review: OnceLock::new(),
            model: OnceLock::new(),
            person: OnceLock::new(),
            this: this.clone(),
        })
    }

    /// Sets who is told about changed definitions. Only the first call has an effect.
    pub(crate) fn reviewed_by(&self, review: Arc<dyn DefinitionReview>) {
        drop(self.review.set(review));
    }

    /// Sets who asks the agents' models. Only the first call has an effect. Before it, servers are refused.
    pub(crate) fn sampled_by(&self, model: Arc<dyn AgentModel>) {
        drop(self.model.set(model));
    }

    /// Sets who asks people. Only the first call has an effect. Before it, servers are refused.
    pub(crate) fn people_asked_by(&self, person: Arc<dyn Person>) {
        drop(self.person.set(person));
    }

    /// Returns what a server may ask of an agent, or of any.
    fn offers(&self, server: &McpServerName, agent: Option<&AgentId>) -> Offers {
        let is_possible = |capability: McpCapability| match capability {
            McpCapability::Sampling => self.model.get().is_some(),
            McpCapability::Elicitation => self.person.get().is_some(),
        };
        let (offered, config) = (Arc::clone(&lock(&self.offered)), self.live.current());
        let is_meant = |grant: &&McpCapabilityGrant| {
            let is_there = grant.server == *server && config.agent(&grant.agent).is_some();
            let is_asked = agent.is_none_or(|agent| grant.agent == *agent);
            is_there && is_asked && is_possible(grant.capability)
        };
        let granted = offered.capabilities.iter().filter(is_meant);
        granted.fold(Offers::default(), |offers, grant| offers.with(grant.capability))
    }

    fn server(&self, name: &McpServerName) -> Result<McpServer, McpError> {
        let config = self.live.current();
        config.mcp_server(name).cloned().ok_or_else(|| McpError::Unknown(name.clone()))
    }

    fn slot(&self, name: &McpServerName) -> Arc<Slot> {
        Arc::clone(lock(&self.slots).entry(name.clone()).or_default())
    }

    /// Reads the grants again, and stops the servers that are not configured any more.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub async fn refresh(&self) -> Result<(), McpError> {
        let (pins, grants) = self.store.mcp_tools().all().await?;
        let capabilities = self.store.mcp_tools().capabilities().await?;
        let Some(this) = self.this.upgrade() else { return Ok(()) };
        let tools = pins.iter().filter_map(|pin| {
            let spec = definition::spec(&pin.server, &pin.tool, &pin.definition)?;
            let of_tool = |grant: &&McpGrant| grant.server == pin.server && grant.tool == pin.tool;
            let grants = grants.iter().filter(of_tool).cloned().collect();
            let (server, tool) = (pin.server.clone(), pin.tool.clone());
            let granted = GrantedTool { spec, server: server.clone(), tool, servers: Arc::clone(&this) };
            Some(OfferedTool { tool: Arc::new(granted), server, grants })
        });
        *lock(&self.offered) = Arc::new(Offered { tools: tools.collect(), capabilities });
        let config = self.live.current();
        let gone: Vec<McpServerName> =
            lock(&self.slots).keys().filter(|name| config.mcp_server(name).is_none()).cloned().collect();
        for name in gone {
            self.stop(&name, "it was removed").await;
        }
        Ok(())
    }

    /// Returns what is known of a server.
    pub(crate) fn state(&self, name: &McpServerName) -> ServerState {
        let server = self.server(name).ok();
        let stored = server.and_then(|server| oauth::state(self.live.home(), &server));
        let Some(slot) = lock(&self.slots).get(name).cloned() else {
            return ServerState { sign_in: stored, ..ServerState::default() };
        };
        let state = lock(&slot.state);
        let is_mended = state.wants_sign_in && stored == Some(SignInState::SignedIn);
        let sign_in = stored.or(state.wants_sign_in.then_some(SignInState::Needed));
        let running = state.running.as_ref().filter(|running| running.is_alive());
        let failure = || {
            let ended = state.running.as_ref().and_then(|running| running.connection.flow.reason());
            state.paused.as_ref().map(|(_, reason)| reason.clone()).or(ended)
        };
        ServerState {
            is_running: running.is_some(),
            version: running.map(|running| running.connection.version.clone()),
            title: running.map(|running| running.connection.title.clone()).filter(|title| !title.is_empty()),
            // Somebody has signed in since the last start failed for want of that.
            failure: if running.is_some() || is_mended { None } else { failure() },
            sign_in,
        }
    }

    /// Lets the last look at the tools of a running server become so old that the next call looks again.
    #[cfg(test)]
    pub(super) async fn age_tools(&self, name: &McpServerName) {
        let running = lock(&self.slot(name).state).running.clone();
        running.unwrap().age_tools().await;
    }

    /// Returns the running server, which is started if it does not run or has other settings.
    async fn running(&self, name: &McpServerName) -> Result<Arc<Running>, McpError> {
        let server = self.server(name)?;
        let slot = self.slot(name);
        let usable = |slot: &Slot| {
            let running = lock(&slot.state).running.clone()?;
            let home = self.live.home();
            let is_same = running.server == server
                && running.sign_in == oauth::current(home, &server)
                && running.package == package::placed(home, &server);
            // What the server may ask for is declared at the beginning. That it has changed interrupts no call.
            let declares = running.connection.asks.offers == self.offers(name, None) || running.is_used();
            (running.is_alive() && is_same && declares).then_some(running)
        };
        // A server that runs costs no lock of its start.
        if let Some(running) = usable(&slot) {
            return Ok(running);
        }
        let starting = slot.starting.lock().await;
        if let Some(running) = usable(&slot) {
            return Ok(running);
        }
        self.take_ended(&slot, &server).await?;
        if let Some((at, reason)) = lock(&slot.state).paused.clone()
            && let Some(left) = at.checked_duration_since(Instant::now())
        {
            let seconds = left.as_secs() + 1;
            return Err(McpError::Waits { server: name.clone(), seconds, reason });
        }
        let asks = Asks::new(self.this.clone(), name.clone(), self.offers(name, None));
        let started = Box::pin(Running::start(self.live.home(), &server, &self.launcher, &asks)).await;
        let started = match started {
            Ok(running) => Arc::new(running),
            Err(error) => {
                match &error {
                    // It is asked again at once when a person has signed in.
                    McpError::NotSignedIn { .. } => Self::note_no_sign_in(&slot, &chain(&error)),
                    // It is looked for again at once, which costs nothing, when a person has fetched it.
                    McpError::Package { .. } => {
                        lock(&slot.state).paused = Some((Instant::now(), chain(&error)));
                    }
                    error => Self::note_failure(&slot, &chain(error)),
                }
                return Err(error);
            }
        };
        {
            let mut state = lock(&slot.state);
            state.running = Some(Arc::clone(&started));
            state.paused = None;
            state.wants_sign_in = false;
        }
        drop(starting);
        let (tools, _) = started.tools().await?;
        self.compare(&server.name, &tools).await?;
        if let Some(this) = self.this.upgrade() {
            tokio::spawn(stop_when_idle(Arc::downgrade(&this), Arc::downgrade(&started)));
        }
        Ok(started)
    }

    /// Takes a server that has ended, or has to, out of its slot. One that ended soon after its start counts as failed.
    async fn take_ended(&self, slot: &Slot, server: &McpServer) -> Result<(), McpError> {
        let Some(ended) = lock(&slot.state).running.take() else { return Ok(()) };
        if ended.is_alive() {
            ended.end("its settings were changed");
            // The settings may be those of its sandbox.
            return self.release(&ended).await;
        }
        if ended.server != *server || ended.started.elapsed() > STABLE_TIME {
            lock(&slot.state).failures = 0;
            return Ok(());
        }
        let reason = ended.connection.flow.reason().unwrap_or_default();
        Self::note_failure(slot, &reason);
        Ok(())
    }

    fn note_no_sign_in(slot: &Slot, reason: &str) {
        let mut state = lock(&slot.state);
        state.paused = Some((Instant::now(), reason.to_owned()));
        state.wants_sign_in = true;
    }

    fn note_failure(slot: &Slot, reason: &str) {
        let mut state = lock(&slot.state);
        state.failures = state.failures.saturating_add(1);
        // The first failure is forgiven: a call may have ended a server that works otherwise.
        let doubled = FIRST_PAUSE.saturating_mul(1 << state.failures.saturating_sub(2).min(16));
        let pause = if state.failures < 2 { Duration::ZERO } else { doubled.min(LONGEST_PAUSE) };
        state.paused = Some((Instant::now() + pause, reason.to_owned()));
    }

    /// Records which of the granted tools a server defines differently now.
    async fn compare(&self, server: &McpServerName, tools: &[ListedTool]) -> Result<(), McpError> {
        let (pins, _) = self.store.mcp_tools().all().await?;
        for pin in pins.into_iter().filter(|pin| pin.server == *server) {
            self.note_change(&pin, tools).await?;
        }
        Ok(())
    }

    /// Records if a server defines a granted tool differently now. Returns the other definition's digest.
    async fn note_change(&self, pin: &PinnedTool, tools: &[ListedTool]) -> Result<Option<String>, McpError> {
        let Some(Ok(now)) = tools.iter().find(|tool| tool.name == pin.tool).map(|tool| &tool.definition)
        else {
            // A tool that is gone, or that can't be used any more, can't be called either.
            return Ok(None);
        };
        let changed = (now.sha256 != pin.sha256).then(|| (now.canonical.clone(), now.sha256.clone()));
        let known = pin.changed.as_ref().map(|(_, sha256)| sha256);
        if known != changed.as_ref().map(|(_, sha256)| sha256) {
            let (server, tool) = (pin.server.clone(), pin.tool.clone());
            self.store.mcp_tools().note_change(server, tool, changed.clone(), unix_ms()).await?;
            tracing::warn!(server = %pin.server, tool = pin.tool, changed = changed.is_some(),
                "the definition of a tool of an MCP server is not what it was");
        }
        Ok(changed.map(|(_, sha256)| sha256))
    }

    /// Starts a server if it does not run, and returns its tools.
    pub(crate) async fn list(
        &self,
        name: &McpServerName,
    ) -> Result<(ServerState, Arc<Vec<ListedTool>>), McpError> {
        let running = self.running(name).await?;
        let _use = running.begin();
        let (tools, is_new) = running.tools().await?;
        if is_new {
            self.compare(name, &tools).await?;
        }
        Ok((self.state(name), tools))
    }

    /// Grants tools to an agent: names, and the digests of the definitions that a person was shown.
    pub(crate) async fn grant(
        &self,
        (server, agent): (&McpServerName, &AgentId),
        (shown, capabilities): (&[(String, String)], &[McpCapability]),
        readonly_ok: bool,
        by: &str,
    ) -> Result<(), GrantError> {
        if self.live.current().agent(agent).is_none() {
            return Err(GrantError::NoAgent(agent.clone()));
        }
        let listed = if shown.is_empty() { Arc::default() } else { self.list(server).await?.1 };
        let mut tools = Vec::with_capacity(shown.len());
        for (name, sha256) in shown {
            let found = listed.iter().find(|tool| tool.name == *name);
            let found = found.ok_or_else(|| GrantError::NoTool(server.clone(), name.clone()))?;
            let now = found.definition.as_ref();
            let now = now.map_err(|why| GrantError::Unusable(name.clone(), why.clone()))?;
            if now.sha256 != *sha256 {
                return Err(GrantError::Changed(name.clone()));
            }
            tools.push((name.clone(), now.canonical.clone(), now.sha256.clone()));
        }
        let names: Vec<&str> = tools
            .iter()
            .map(|(name, ..)| name.as_str())
            .chain(capabilities.iter().map(|capability| capability.as_str()))
            .collect();
        let detail = format!("to {agent}: {}", names.join(", "));
        let entry = AuditEntry::new(by, "mcp.grant", server.as_str(), Level::Yellow, detail);
        let new = NewMcpGrant {
            server: server.clone(),
            agent: agent.clone(),
            tools,
            capabilities: capabilities.to_vec(),
            readonly_ok,
            by: by.to_owned(),
            now: unix_ms(),
        };
        self.store.mcp_tools().grant(new, entry).await.map_err(McpError::from)?;
        Ok(self.refresh().await?)
    }

    /// Takes grants away from an agent. Returns their number.
    pub(crate) async fn revoke(
        &self,
        (server, agent): (&McpServerName, &AgentId),
        revocation: McpRevocation,
        by: &str,
    ) -> Result<usize, McpError> {
        let which = match &revocation {
            McpRevocation::All => "everything of it".to_owned(),
            McpRevocation::These(names, capabilities) => {
                let capabilities = capabilities.iter().map(|capability| capability.as_str());
                names.iter().map(String::as_str).chain(capabilities).collect::<Vec<_>>().join(", ")
            }
        };
        let detail = format!("from {agent}: {which}");
        let entry = AuditEntry::new(by, "mcp.revoke", server.as_str(), Level::Yellow, detail);
        let tools = self.store.mcp_tools();
        let ended = tools.revoke(server.clone(), agent.clone(), revocation, entry, unix_ms()).await?;
        self.refresh().await?;
        Ok(ended)
    }

    /// Accepts the changed definition of a tool, if it is still the one with this digest. Returns `false` if it is not.
    pub(crate) async fn accept(
        &self,
        (server, tool): (&McpServerName, &str),
        sha256: &str,
        by: &str,
    ) -> Result<bool, McpError> {
        let tools = self.store.mcp_tools();
        let (name, sha256, by) = (tool.to_owned(), sha256.to_owned(), by.to_owned());
        let is_accepted = tools.accept_change(server.clone(), name, sha256, by, unix_ms()).await?;
        self.refresh().await?;
        Ok(is_accepted)
    }

    /// Forgets a server that was taken out of the configuration: its grants, and its sandbox. Its files stay.
    pub(crate) async fn forget(&self, server: &McpServerName, by: &str) -> Result<(), McpError> {
        let entry = AuditEntry::new(by, "mcp.remove", server.as_str(), Level::Yellow, String::new());
        self.store.mcp_tools().forget_server(server.clone(), entry, unix_ms()).await?;
        self.stop(server, "it was removed").await;
        self.launcher.release(server).await?;
        self.refresh().await
    }

    /// Returns what was granted of all servers.
    pub(crate) async fn granted(&self) -> Result<Grants, McpError> {
        let (pins, tools) = self.store.mcp_tools().all().await?;
        let capabilities = self.store.mcp_tools().capabilities().await?;
        Ok(Grants { pins, tools, capabilities })
    }

    /// Answers a server that asks the model of the agent whose call is running.
    pub(super) async fn sample(
        &self,
        name: &McpServerName,
        (calls, asked): (&Arc<RunningCalls>, &AskedCall),
        params: &Value,
    ) -> Result<Value, AskError> {
        let agent = &asked.context.agent;
        if !self.may_ask(name, agent, McpCapability::Sampling).await? {
            return Err(AskError::refused("not granted: the agent that calls lends you no model"));
        }
        let (Some(model), Ok(server)) = (self.model.get(), self.server(name)) else {
            return Err(AskError::unknown());
        };
        let call = calls.count(asked, server.samples_per_call)?;
        let sample = sampling::read(name, params, server.sample_tokens)?;
        let today =
            self.store.usage().of_servers(&local_day(unix_ms())).await.map_err(|error| not_looked(&error))?;
        let used = today.iter().find(|used| used.server == *name && used.agent == *agent);
        if used.is_some_and(|used| used.calls >= u64::from(server.samples_per_day)) {
            let most = server.samples_per_day;
            let text = format!("not done: the agent's model can be asked {most} times a day");
            self.note_sample(name, &asked.context, Level::Yellow, "refused: no more today").await;
            return Err(AskError::refused(text));
        }
        let source = SampledCall { context: &asked.context, server: name };
        let work = telemetry::scoped(asked.trace.clone(), model.sample(source, &sample.question));
        // The answer is of no use when the call has ended.
        let Some(answered) = asked.over.run_until_cancelled(work).await else {
            self.note_sample(name, &asked.context, Level::Yellow, "stopped: the call has ended").await;
            return Err(AskError::refused("not done: the call has ended"));
        };
        match answered {
            Ok(answer) => {
                let tokens = answer.usage.tokens();
                calls.answered(call, tokens);
                let detail = format!("answered by {}, {tokens} tokens", answer.model);
                self.note_sample(name, &asked.context, Level::Green, &detail).await;
                Ok(sampling::result(&sample, &answer))
            }
            Err(error) => {
                self.note_sample(name, &asked.context, Level::Yellow, &format!("refused: {error}")).await;
                Err(match error {
                    SampleError::Failed | SampleError::Silent => {
                        AskError::failed(format!("not done: {error}"))
                    }
                    _ => AskError::refused(format!("not done: {error}")),
                })
            }
        }
    }

    /// Returns `true` if the server may ask for this while the agent calls it. The database decides, as for calls.
    async fn may_ask(
        &self,
        name: &McpServerName,
        agent: &AgentId,
        wanted: McpCapability,
    ) -> Result<bool, AskError> {
        self.store.mcp_tools().may_ask(name, agent, wanted).await.map_err(|error| not_looked(&error))
    }

    /// Answers a server that asks a person during the call of an agent.
    pub(super) async fn elicit(
        &self,
        name: &McpServerName,
        (calls, asked): (&Arc<RunningCalls>, &AskedCall),
        params: &Value,
    ) -> Result<Value, AskError> {
        if !self.may_ask(name, &asked.context.agent, McpCapability::Elicitation).await? {
            return Err(AskError::refused("not granted: nobody answers for the agent that calls"));
        }
        let person = self.person.get().ok_or_else(AskError::unknown)?;
        let question = elicitation::read(params)?;
        calls.count_question(asked, MAX_QUESTIONS)?;
        let _stands_still = calls.pause(asked);
        let answered = person.ask(&asked.context, name, question, QUESTION_TIME);
        let answered = asked.over.run_until_cancelled(answered).await;
        let answered = answered.unwrap_or(Ok(PersonAnswer::Cancelled));
        let how = answered.as_ref().map_or("not asked", PersonAnswer::action);
        self.note_ask("mcp.elicit", name, &asked.context, (Level::Yellow, how)).await;
        match answered {
            Ok(answer) => Ok(answer.result()),
            Err(why) => Err(AskError::refused(format!("not done: {why}"))),
        }
    }

    /// Writes into the audit that a server asked an agent's model. No text of either is in it.
    async fn note_sample(&self, server: &McpServerName, context: &CallContext, level: Level, detail: &str) {
        self.note_ask("mcp.sample", server, context, (level, detail)).await;
    }

    async fn note_ask(
        &self,
        action: &'static str,
        server: &McpServerName,
        context: &CallContext,
        (level, detail): (Level, &str),
    ) {
        let actor = context.agent.as_str();
        let entry = AuditEntry::new(actor, action, server.as_str(), level, detail.to_owned());
        let entry = AuditEntry { session: Some(context.session.clone()), turn: Some(context.turn), ..entry };
        if let Err(error) = self.store.audit().append(entry, unix_ms()).await {
            tracing::error!(
                error = chain(&error),
                "failed to write a request of an MCP server into the audit"
            );
        }
    }

    /// Removes what a server that has ended occupied. One at a URL occupied nothing.
    async fn release(&self, ended: &Running) -> Result<(), McpError> {
        match ended.server.remote {
            None => self.launcher.release(&ended.server.name).await,
            Some(_) => Ok(()),
        }
    }

    /// Stops a server. A failure to remove its sandbox is logged.
    async fn stop(&self, name: &McpServerName, reason: &str) {
        let slot = self.slot(name);
        let _starting = slot.starting.lock().await;
        let running = std::mem::take(&mut *lock(&slot.state)).running;
        if let Some(running) = running {
            running.end(reason);
            if let Err(error) = self.release(&running).await {
                tracing::warn!(server = %name, error = %chain(&error), "the sandbox of an MCP server could not be removed");
            }
        }
    }

    /// Ends the programs of all servers, without a wait. Their sandboxes stay.
    pub(crate) fn end_all(&self) {
        for slot in lock(&self.slots).values() {
            if let Some(running) = std::mem::take(&mut *lock(&slot.state)).running {
                running.end("flock is stopping");
            }
        }
    }

    /// Stops all servers.
    pub async fn stop_all(&self) {
        let names: Vec<McpServerName> = lock(&self.slots).keys().cloned().collect();
        for name in names {
            self.stop(&name, "flock is stopping").await;
        }
    }

    /// Counts a call of a turn.
    fn count_call(&self, server: &McpServer, turn: TurnId) -> Result<(), ToolError> {
        let mut turns = lock(&self.turns);
        // Old turns are forgotten all at once. A turn then starts to count again, which is no harm.
        if turns.len() >= MAX_TURNS {
            turns.clear();
        }
        let count = turns.entry((turn, server.name.clone())).or_default();
        if *count >= server.calls_per_turn {
            return Err(ToolError::model(format!(
                "not run: one turn can make {} calls of the tools of {} (callsPerTurn)",
                server.calls_per_turn, server.name
            )));
        }
        *count += 1;
        Ok(())
    }

    /// Calls a tool for an agent, if it was granted.
    pub(super) async fn call(
        &self,
        context: &CallContext,
        name: &McpServerName,
        tool: &str,
        arguments: &Value,
    ) -> Result<ToolOutput, ToolError> {
        let Value::Object(arguments) = arguments else {
            return Err(ToolError::model("the arguments must be an object"));
        };
        if serde_json::to_vec(arguments).map_or(usize::MAX, |bytes| bytes.len()) > MAX_ARGUMENTS {
            return Err(ToolError::model(format!(
                "the arguments have more than {} MiB",
                MAX_ARGUMENTS >> 20
            )));
        }
        let server = self.server(name).map_err(|error| for_model(&error))?;
        self.check_grant(context, name, tool).await?;
        self.count_call(&server, context.turn)?;
        let ready = async {
            let running = self.running(name).await?;
            let used = running.begin();
            let (tools, is_new) = running.tools().await?;
            if is_new {
                self.compare(name, &tools).await?;
            }
            Ok((running, used, tools))
        };
        let cancelled = || ToolError::model("the call was cancelled before it began");
        let ready = context.cancel.run_until_cancelled(ready).await.ok_or_else(cancelled)?;
        let (running, _used, tools) = ready.map_err(|error: McpError| for_model(&error))?;
        let pin = self.check_listed(context, (name, tool), &tools).await?;
        let (result, sampled) = self.ask(&running, tool, arguments, context).await;
        let output = result.and_then(|result| {
            output::read(name, tool, &result, definition::output_schema(&pin.definition).as_ref())
        });
        with_note(output, name, sampled)
    }

    async fn ask(
        &self,
        running: &Running,
        tool: &str,
        arguments: &serde_json::Map<String, Value>,
        context: &CallContext,
    ) -> (Result<Value, ToolError>, Sampled) {
        let mut guard = None;
        let result = self.ask_within(running, tool, arguments, (context, &mut guard)).await;
        let result = result.map_err(|error| match error {
            CallError::Server(error) => for_model(&error),
            CallError::TakenBack(error) => error,
        });
        (result, guard.map(CallGuard::end).unwrap_or_default())
    }

    async fn ask_within(
        &self,
        running: &Running,
        tool: &str,
        arguments: &serde_json::Map<String, Value>,
        (context, guard): (&CallContext, &mut Option<CallGuard>),
    ) -> Result<Value, CallError> {
        let cancel = &context.cancel;
        let limit = running.server.call_time;
        let began = Instant::now();
        let silent = |reported| McpError::Silent {
            server: running.server.name.clone(),
            seconds: limit.as_secs(),
            reported,
        };
        // The wait for a place counts: a server that answers nobody must not hold up its callers longer.
        let place = tokio::time::timeout(limit, running.calls.acquire());
        let place = cancel.run_until_cancelled(place).await.ok_or(McpError::Cancelled)?;
        let Ok(Ok(_place)) = place else { return Err(silent(String::new()).into()) };
        let left = limit.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
        let guard = &*guard.insert(running.connection.asks.calls.begin(context));
        let offers = self.offers(&running.server.name, Some(&context.agent));
        let call = ToolCall { tool, arguments, context, guard, offers, limit: left };
        let may_go_on =
            || -> BoxFuture<'_, Result<(), ToolError>> { Box::pin(self.check_again(running, context, tool)) };
        let called = Box::pin(rounds::call(&running.connection, &call, &may_go_on)).await;
        called.map_err(|error| match error {
            CallError::Server(McpError::Silent { reported, .. }) => silent(reported).into(),
            error => error,
        })
    }

    /// Checks before the next round of a call that it is still allowed. Much can happen while a person is asked.
    async fn check_again(
        &self,
        running: &Running,
        context: &CallContext,
        tool: &str,
    ) -> Result<(), ToolError> {
        let name = &running.server.name;
        self.check_grant(context, name, tool).await?;
        let listed = async {
            let (tools, is_new) = running.tools().await?;
            if is_new {
                self.compare(name, &tools).await?;
            }
            Ok(tools)
        };
        let tools = listed.await.map_err(|error: McpError| for_model(&error))?;
        self.check_listed(context, (name, tool), &tools).await.map(drop)
    }

    /// Returns the definition that a person has seen, if the server has no other one now.
    async fn check_listed(
        &self,
        context: &CallContext,
        (server, tool): (&McpServerName, &str),
        tools: &[ListedTool],
    ) -> Result<PinnedTool, ToolError> {
        let pin = self.store.mcp_tools().find(server, tool).await;
        let pin = pin.map_err(|error| ToolError::Fatal(Box::new(error)))?;
        let pin = pin.ok_or_else(|| ToolError::model(format!("{tool} of {server} was taken back")))?;
        self.check_definition(context, &pin, tools).await?;
        Ok(pin)
    }

    async fn check_grant(
        &self,
        context: &CallContext,
        server: &McpServerName,
        tool: &str,
    ) -> Result<(), ToolError> {
        // The database decides, not the list that the agent was offered.
        let grant = self.store.mcp_tools().grant_of(&context.agent, server, tool).await;
        let grant = grant.map_err(|error| ToolError::Fatal(Box::new(error)))?;
        let grant =
            grant.ok_or_else(|| ToolError::model(format!("{tool} of {server} is not granted to you")))?;
        let config = self.live.current();
        match config.agent(&context.agent) {
            Some(agent) if may(agent, &grant) => Ok(()),
            _ => Err(ToolError::model(format!(
                "{tool} of {server} is not possible: your autonomy is readonly, and the owner did not grant it for that"
            ))),
        }
    }

    /// Returns an error unless the server defines a tool as a person has seen it.
    async fn check_definition(
        &self,
        context: &CallContext,
        pin: &PinnedTool,
        tools: &[ListedTool],
    ) -> Result<(), ToolError> {
        let (server, tool) = (&pin.server, &pin.tool);
        match tools.iter().find(|listed| listed.name == *tool).map(|listed| &listed.definition) {
            None => Err(ToolError::model(format!("the MCP server {server} has no tool {tool} any more"))),
            Some(Err(why)) => {
                Err(ToolError::model(format!("{tool} of {server} can't be used any more: {why}")))
            }
            Some(Ok(_)) => {
                let changed = self.note_change(pin, tools).await.map_err(|error| for_model(&error))?;
                let Some(sha256) = changed else { return Ok(()) };
                let told = match self.review.get() {
                    Some(review) => review.changed(context, server, tool, &sha256).await,
                    None => "a person has to look at it".to_owned(),
                };
                Err(ToolError::model(format!(
                    "not run: the MCP server {server} describes {tool} differently than when it was granted. {told}"
                )))
            }
        }
    }
}

impl ToolSource for Servers {
    fn tools(&self, agent: &Agent) -> Vec<Arc<dyn Tool>> {
        let offered = Arc::clone(&lock(&self.offered));
        let config = self.live.current();
        let granted = |offered: &&OfferedTool| {
            let mut grants = offered.grants.iter();
            config.mcp_server(&offered.server).is_some()
                && grants.any(|grant| grant.agent == agent.id && may(agent, grant))
        };
        offered.tools.iter().filter(granted).map(|offered| Arc::clone(&offered.tool)).collect()
    }
}

/// Returns `true` if the agent's autonomy allows what was granted. What the server says about its tool does not count.
fn may(agent: &Agent, grant: &McpGrant) -> bool {
    agent.autonomy != Autonomy::Readonly || grant.readonly_ok
}

/// Adds what the server asked the agent's model during the call, so that the transcript and the agent have it.
fn with_note(
    output: Result<ToolOutput, ToolError>,
    server: &McpServerName,
    sampled: Sampled,
) -> Result<ToolOutput, ToolError> {
    if sampled.asked == 0 {
        return output;
    }
    let Sampled { asked, answered, tokens } = sampled;
    let note = format!(
        "[flock: during this call, {server} asked your model {asked} times (sampling) and got {answered} answers, {tokens} \
         tokens, which are charged to you]"
    );
    match output {
        Ok(mut output) => {
            output.content.push(Block::text(note));
            Ok(output)
        }
        Err(ToolError::ForModel(text)) => Err(ToolError::model(format!("{text}\n{note}"))),
        Err(error) => Err(error),
    }
}

/// Returns the answer to a server if the database can't be read.
fn not_looked(error: &StoreError) -> AskError {
    tracing::error!(error = chain(error), "failed to look what an MCP server may ask for");
    AskError::failed("not done: flock could not look whether this is granted")
}

/// Returns an error for the model, with the texts of the server cleaned and cut.
fn for_model(error: &McpError) -> ToolError {
    let text = definition::cleaned_text(&chain(error));
    ToolError::model(safe_text::start(&text, 2_000).to_owned())
}

/// Stops a server when nobody has used it for some time.
async fn stop_when_idle(servers: Weak<Servers>, running: Weak<Running>) {
    loop {
        tokio::time::sleep(IDLE_LOOK).await;
        let (Some(servers), Some(found)) = (servers.upgrade(), running.upgrade()) else { return };
        if !found.is_alive() {
            return;
        }
        if found.idle_for() < found.server.idle {
            continue;
        }
        let name = found.server.name.clone();
        let slot = servers.slot(&name);
        let _starting = slot.starting.lock().await;
        // A call may have come in before the lock.
        let is_current =
            lock(&slot.state).running.as_ref().is_some_and(|current| Arc::ptr_eq(current, &found));
        if !is_current {
            return;
        }
        if found.idle_for() < found.server.idle {
            continue;
        }
        lock(&slot.state).running = None;
        found.end("nobody used it");
        if let Err(error) = servers.release(&found).await {
            tracing::warn!(server = %name, error = %chain(&error), "the sandbox of an MCP server could not be removed");
        }
        return;
    }
}
