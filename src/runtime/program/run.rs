//! Runs a turn of any program: chooses the conversation, prepares the files, starts the program and evaluates the
//! result.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::conversation_record::{self, ConversationRecorder};
use super::folders::TurnFolder;
use super::gate::{AccessProvider, Count, TurnAccess};
use super::host::RunExit;
use super::interface::{ConversationStart, Invocation, Parser, ProgramFiles, RunOutcome};
use super::locate;
use super::output_reader::{ConversationEvent, OutputReader, RunObservations, lingers};
use super::run_paths::RunPaths;
use super::state::{self, StateBackup};
use super::{ProgramHandle, disabled_tools, host, outcome, version_check};
use crate::config::{Agent, Config};
use crate::env;
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::BoxFuture;
use crate::runtime::{
    Runtime, RuntimeError, RuntimeEvent, RuntimeEventSink, RuntimeReply, RuntimeRequest, prompt,
};
use crate::sandbox::{OutputChunk, ProgramCommand, ProgramFeed, Sandbox, SandboxError};
use crate::store::{ConversationOrigin, ProgramConversation, Store};
use crate::sync::lock;
use crate::tool::policy::DisabledTools;

/// Time in which a program must exit after the relay has told it that a quota is used up. The turn holds a slot until
/// then, and OpenCode would go on asking for more than a minute.
const QUOTA_GRACE: Duration = Duration::from_secs(5);

/// Time in which a program must exit after it has reported how its run went.
const EXIT_GRACE: Duration = Duration::from_secs(20);
/// The same for a program that is answered: its standard input has ended, and it has nothing more to say.
const ANSWERED_EXIT_GRACE: Duration = Duration::from_secs(3);

/// The parts of flock that turns of programs need.
pub struct ProgramServices {
    pub home: Home,
    /// Returns the present configuration.
    pub config: Arc<dyn Fn() -> Arc<Config> + Send + Sync>,
    /// The record of the programs' conversations.
    pub store: Arc<Store>,
    /// Runs programs that are not on the host.
    pub sandbox: Arc<dyn Sandbox>,
    /// Grants access to models and tools.
    pub gate: Arc<dyn AccessProvider>,
    /// Path of flock's own program, which runs as the keeper of programs on the host.
    pub flock: PathBuf,
    /// The agents that have had a turn in this process.
    pub begun: Mutex<HashSet<AgentId>>,
}

/// The runtime of one program.
pub struct ProgramRuntime {
    pub(super) program: ProgramHandle,
    pub(super) parts: Arc<ProgramServices>,
    /// Time in which the program must exit after it has reported how its run went.
    grace: Duration,
    /// Time in which it must exit after the relay has told it that a quota is used up.
    quota_grace: Duration,
}

impl ProgramRuntime {
    #[must_use]
    pub fn new(program: ProgramHandle, parts: Arc<ProgramServices>) -> Self {
        let grace = if program.facts().converses { ANSWERED_EXIT_GRACE } else { EXIT_GRACE };
        Self { program, parts, grace, quota_grace: QUOTA_GRACE }
    }

    /// Returns the program's name for people, for an error.
    fn title(&self) -> String {
        self.program.title().to_owned()
    }

    fn missing(&self, reason: String) -> RuntimeError {
        let hint = version_check::install_hint(&*self.program);
        RuntimeError::NotInstalled { program: self.title(), reason, hint }
    }

    fn failed(&self, message: String) -> RuntimeError {
        let hint = outcome::LOGS_HINT.to_owned();
        RuntimeError::Failed { program: self.title(), message, hint }
    }

    /// Makes the error of a turn of which nothing has begun.
    pub(super) fn not_begun(&self, reason: String) -> RuntimeError {
        let hint = outcome::LOGS_HINT.to_owned();
        RuntimeError::NotBegun { program: self.title(), reason, hint }
    }

    /// Makes the folder for the files of a turn. Before an agent's first turn, the remains of an earlier process are
    /// removed.
    fn folder(&self, order: &RuntimeRequest) -> Result<TurnFolder, RuntimeError> {
        // The lock is held while the folder is made, so that no other first turn of the agent removes it.
        let mut begun = lock(&self.parts.begun);
        let first = begun.insert(order.agent.clone());
        let made = TurnFolder::make(&self.parts.home, &order.session, first);
        made.map_err(|why| self.unwritten(&why))
    }

    pub(super) fn unwritten(&self, why: &str) -> RuntimeError {
        self.not_begun(format!("its files can't be written: {why}"))
    }

    /// Returns the record of the program's conversation of a session.
    async fn known(&self, session: &SessionKey) -> Result<Option<ProgramConversation>, RuntimeError> {
        let known = self.parts.store.program_conversations().find(session, self.program.name()).await;
        known.map_err(|error| self.not_begun(chain(&error)))
    }

    async fn turn(
        &self,
        order: &RuntimeRequest,
        tell: RuntimeEventSink<'_>,
    ) -> Result<RuntimeReply, RuntimeError> {
        let config = (self.parts.config)();
        let agent = config.agent(&order.agent);
        let agent = agent.ok_or_else(|| self.not_begun(format!("there is no agent {}", order.agent)))?;
        // The present configuration decides, not the one with which the conversation began.
        let withheld = DisabledTools::of(agent);
        if let Some(refused) = disabled_tools::refusal(&*self.program, agent, withheld) {
            return Err(refused);
        }
        if let Some(why) = self.program.refuses_host(host::is_root()).filter(|_| agent.runs_on_host()) {
            return Err(RuntimeError::Refused {
                program: self.title(),
                status: 403,
                message: format!("agent {} can't run on this machine itself: {why}", agent.id),
                hint: host::off(&agent.id),
            });
        }
        let found = locate::find(&*self.program).map_err(|reason| self.missing(reason))?;
        let access = self.parts.gate.open(order, &*self.program, agent.runs_on_host())?;
        let turn =
            ProgramTurn { runtime: self, order, agent, withheld, found, access, folder: self.folder(order)? };
        let begun = conversation_record::origin(order, agent, turn.access.relay.is_some());
        let renews = self.program.facts().renews_prompt;
        // Another place, login or prompt needs a new conversation, even if the program knows the old one.
        let known = self
            .known(&order.session)
            .await?
            .filter(|known| conversation_record::can_resume(&known.begun, &begun, renews));
        if let (Some(known), Some(missed)) = (known, &order.missed) {
            let (ended, seen) =
                turn.run(ConversationStart::Resumed(&known.name), missed, &begun, tell).await?;
            // The conversation could not be continued, and nothing was done in it. The turn is run once more, in a new
            // one.
            let why = outcome::lost(&ended, &seen, &turn.access.calls.now());
            let Some(why) = why else { return turn.reply(ended, &seen) };
            let title = self.program.title();
            tell(RuntimeEvent::Trace(format!("[{}] {title} {why} and begins another", order.agent)));
        }
        let (ended, seen) =
            turn.run(ConversationStart::New(Uuid::new_v4()), &order.recent, &begun, tell).await?;
        turn.reply(ended, &seen)
    }
}

impl Runtime for ProgramRuntime {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn is_metered(&self, order: &RuntimeRequest) -> bool {
        let config = (self.parts.config)();
        let on_host = config.agent(&order.agent).is_some_and(|agent| agent.runs_on_host());
        // In a sandbox every model call passes through the relay. On the host it depends on the provider.
        !on_host || self.parts.gate.has_provider(&order.model)
    }

    fn wants_recent(&self) -> bool {
        true
    }

    fn knows<'a>(
        &'a self,
        session: &'a SessionKey,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Option<TurnId>, RuntimeError>> {
        Box::pin(async move {
            let known = self.known(session).await?;
            Ok(known.filter(|known| known.begun.conversation == conversation).map(|known| known.turn))
        })
    }

    fn run<'a>(
        &'a self,
        order: &'a RuntimeRequest,
        tell: RuntimeEventSink<'a>,
    ) -> BoxFuture<'a, Result<RuntimeReply, RuntimeError>> {
        Box::pin(async {
            let reply = self.turn(order, tell).await;
            // After the turn, so that removing old files does not delay the answer.
            state::tidy(&self.parts.home, &order.agent);
            reply
        })
    }
}

/// One turn and its resources.
pub(super) struct ProgramTurn<'a> {
    pub(super) runtime: &'a ProgramRuntime,
    pub(super) order: &'a RuntimeRequest,
    agent: &'a Agent,
    withheld: DisabledTools,
    pub(super) found: ProgramFiles,
    access: TurnAccess,
    folder: TurnFolder,
}

impl ProgramTurn<'_> {
    fn paths(&self) -> RunPaths {
        let runtime = self.runtime;
        RunPaths::of(&runtime.parts.home, &*runtime.program, self.agent, &self.order.session, &self.access)
    }

    /// Runs the program once in this conversation. `before` holds the earlier messages that it lacks.
    async fn run(
        &self,
        conversation: ConversationStart<'_>,
        before: &str,
        begun: &ConversationOrigin,
        tell: RuntimeEventSink<'_>,
    ) -> Result<(RunOutcome, RunObservations), RuntimeError> {
        let (runtime, order, paths) = (self.runtime, self.order, self.paths());
        let unwritten = |why: String| runtime.unwritten(&why);
        let replaced = match (&paths.kept, conversation) {
            (Some(kept), ConversationStart::New(_)) => Some(kept.anew().map_err(unwritten)?),
            (Some(kept), ConversationStart::Resumed(_)) => {
                kept.ready().map_err(unwritten)?;
                None
            }
            (None, _) => None,
        };
        let text = prompt::compose(before, &prompt::said(&order.messages));
        let mut turn = paths.spec(order, self.agent, &self.access, conversation, &text);
        let probe_answer = match runtime.program.probe(&turn) {
            Some(wanted) => match (self.learn(&wanted, &paths).await, conversation) {
                (Ok(text), _) => Some(text),
                // A resumed conversation that cannot be prepared is replaced by a new one. A new one that cannot be
                // prepared is an error.
                (Err(error), ConversationStart::Resumed(_)) => return Ok(self.unready(&chain(&error))),
                (Err(error), ConversationStart::New(_)) => return Err(error),
            },
            None => None,
        };
        turn.probe_answer = probe_answer.as_deref();
        let invocation = runtime
            .program
            .invocation(&turn)
            .map_err(|message| RuntimeError::unsupported(runtime.program.title(), message))?;
        if let Err(why) = self.write(&invocation, &paths) {
            return match conversation {
                ConversationStart::Resumed(_) => Ok(self.unready(&why)),
                ConversationStart::New(_) => Err(unwritten(why)),
            };
        }
        let recorder = self.recorder(conversation, begun.clone(), replaced);
        let parser = runtime.program.parser_of(&turn);
        self.attend(&invocation, parser, recorder, tell).await
    }

    fn recorder(
        &self,
        conversation: ConversationStart<'_>,
        begun: ConversationOrigin,
        replaced: Option<StateBackup>,
    ) -> ConversationRecorder {
        ConversationRecorder {
            store: Arc::clone(&self.runtime.parts.store),
            session: self.order.session.clone(),
            program: self.runtime.program.name().to_owned(),
            turn: self.order.turn,
            begun,
            name: match conversation {
                ConversationStart::Resumed(name) => Some(name.to_owned()),
                // A program that takes no names reports its own when it has begun.
                ConversationStart::New(name) => {
                    self.runtime.program.facts().takes_names.then(|| name.to_string())
                }
            },
            has_turn: false,
            replaced,
            writing: None,
        }
    }

    /// Runs the program with its files in place, and reports and records what it does.
    async fn attend(
        &self,
        invocation: &Invocation,
        parser: Box<dyn Parser>,
        mut recorder: ConversationRecorder,
        tell: RuntimeEventSink<'_>,
    ) -> Result<(RunOutcome, RunObservations), RuntimeError> {
        let (runtime, order) = (self.runtime, self.order);
        // A second run of the same turn must not count the answers of the first.
        let answered = self.access.calls.now().answered;
        let (answers, feed) = runtime.program.facts().converses.then(ProgramFeed::new).unzip();
        let mut reader =
            OutputReader::new(parser, order.agent.as_str(), tell, Box::new(|note| recorder.note(note)))
                .with_answers(answers);
        let (doom, over) = (reader.doom.clone(), reader.over.subscribe());
        let mut heard = |piece: OutputChunk<'_>| reader.hear(piece);
        let started = tokio::select! {
            started = self.start(invocation, feed, &mut heard) => Some(started),
            () = doom.cancelled() => None,
            () = self.access.calls.stays_used_up(runtime.quota_grace) => None,
            // The program has reported its result, which counts. It is treated as one that exited with code 0.
            () = lingers(over, runtime.grace) => Some(Ok(RunExit::default())),
        };
        let (ran, stopped) = match started.transpose() {
            Ok(ran) => (ran, None),
            Err(error) => (None, Some(error)),
        };
        if let Some(text) = ran.as_ref().and_then(|ran| ran.left.note(runtime.program.title())) {
            reader.add_note(text);
        }
        // The count includes an earlier run of this turn, whose conversation could not be continued.
        reader.counted(self.access.calls.now().usage);
        // Whatever ended the run, the output so far is reported and the conversation's name is recorded.
        let (ended, seen) = reader.end(ran.map(|ran| ran.code));
        let calls = self.access.calls.now();
        if self.access.relay.is_some() {
            // flock's own count is the one that is charged.
            tell(RuntimeEvent::Usage(calls.usage));
        }
        // A model call was answered, so the program has the turn even if it printed nothing.
        if matches!(ended, RunOutcome::Well { .. }) || calls.answered > answered {
            recorder.note(ConversationEvent::Begun);
        }
        recorder.settled().await.map_err(|error| runtime.failed(chain(&error)))?;
        if let Some(error) = stopped {
            return Err(outcome::stopped(error, &seen, self.counted().as_ref()));
        }
        // A program that did not list flock's tools could not use them in this turn.
        if ended == (RunOutcome::Well { cut: false }) && !calls.listed_tools {
            let title = runtime.program.title();
            let note = format!("[{}] note: {title} did not reach flock's tools in this turn", order.agent);
            tell(RuntimeEvent::Trace(note));
            tracing::warn!(agent = %order.agent, "{title} has not asked for flock's tools");
        }
        Ok((ended, seen))
    }

    /// Returns the result for a conversation that cannot be prepared, so that a new one is begun. The obstacle does not
    /// affect a new one.
    fn unready(&self, why: &str) -> (RunOutcome, RunObservations) {
        tracing::warn!(agent = %self.order.agent, why, "a program's conversation can't be gone on with");
        (RunOutcome::Unknown, RunObservations::default())
    }

    /// Writes the files of a run into the folders of the turn and of the program.
    pub(super) fn write(&self, invocation: &Invocation, paths: &RunPaths) -> Result<(), String> {
        self.folder.write(&invocation.files)?;
        let Some(kept) = &paths.kept else { return Ok(()) };
        kept.write(&invocation.state, invocation.kept)?;
        paths.user.as_ref().map_or(Ok(()), |user| kept.link(user.folder(), invocation.links))
    }

    pub(super) async fn start(
        &self,
        invocation: &Invocation,
        feed: Option<ProgramFeed>,
        heard: &mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> Result<RunExit, RuntimeError> {
        let parts = &self.found;
        let words = if self.agent.runs_on_host() { &parts.host } else { &parts.sandbox };
        let mut variables = invocation.environment.clone();
        // For `flock mcp`, which connects programs without HTTP support to flock's tools.
        variables.push((env::MCP_URL.name.to_owned(), format!("{}/mcp", self.paths().origin)));
        variables.extend(disabled_tools::environment(self.withheld));
        let run = ProgramCommand {
            command: words.iter().chain(&invocation.arguments).cloned().collect(),
            env: variables,
            input: Bytes::from(invocation.input.clone()),
            feed,
        };
        if self.agent.runs_on_host() {
            let parts = &self.runtime.parts;
            let home = parts.home.digest();
            let ended = host::attend(&run, &self.agent.workspace, &home, &parts.flock, heard).await;
            return ended.map_err(|error| self.runtime.not_begun(format!("it can't be started: {error}")));
        }
        // In a sandbox its helper ends the processes that a program leaves.
        let ended = self.runtime.parts.sandbox.attend(&self.order.agent, &run, heard).await;
        let code = ended.map_err(|error| self.start_error(&error))?;
        Ok(RunExit { code, ..RunExit::default() })
    }

    fn start_error(&self, error: &SandboxError) -> RuntimeError {
        let program = self.runtime.title();
        let hint = error.hint().unwrap_or_else(|| "flock doctor".to_owned());
        match error {
            SandboxError::Unavailable { .. } | SandboxError::Denied { .. } => {
                RuntimeError::NotRunning { program, reason: chain(error), hint }
            }
            _ => RuntimeError::NotBegun { program, reason: chain(error), hint },
        }
    }

    fn reply(&self, ended: RunOutcome, seen: &RunObservations) -> Result<RuntimeReply, RuntimeError> {
        outcome::of(self.runtime.program.title(), ended, seen, self.counted().as_ref())
    }

    /// Returns flock's own count of the turn's model calls. `None` if the program asks its models directly.
    fn counted(&self) -> Option<Count> {
        self.access.relay.as_ref().map(|_| self.access.calls.now())
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
