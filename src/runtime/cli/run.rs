//! A turn of any program: where it goes on, what it is given, what becomes of what it tells.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::ear::{Ear, Note, Seen, lingers};
use super::folders::{self, TurnFolder};
use super::gate::{Count, Gate, Pass};
use super::host::Ran;
use super::locate::{self, Found};
use super::memory::{self, Memory};
use super::program::{Conversation, Ended, Invocation, Place, Program, Turn};
use super::state::{self, State};
use super::user::User;
use super::{host, verdict, withheld};
use crate::config::{Agent, Config};
use crate::env;
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::BoxFuture;
use crate::runtime::{Event, Order, Reply, Runtime, RuntimeError, Tell, prompt};
use crate::sandbox::fitting::{STATE_TARGET, TURN_TARGET};
use crate::sandbox::policy::Withheld;
use crate::sandbox::spec::WORKSPACE_TARGET;
use crate::sandbox::{Piece, Run, Sandbox, SandboxError, egress};
use crate::store::{Begun, ProgramConversation, Store};

/// How long a program may take to exit once it has told how its run went.
const GRACE: Duration = Duration::from_secs(20);

/// What turns of programs need of flock.
pub struct Parts {
    /// The home.
    pub home: Home,
    /// The configuration as it is at each look.
    pub config: Arc<dyn Fn() -> Arc<Config> + Send + Sync>,
    /// Where is kept what programs know conversations by.
    pub store: Arc<Store>,
    /// Where programs run that are not on the host.
    pub sandbox: Arc<dyn Sandbox>,
    /// What lets them through to models and tools.
    pub gate: Arc<dyn Gate>,
    /// flock's own program, which holds what runs on the host.
    pub flock: PathBuf,
    /// The agents that have had a turn in this process.
    pub begun: Mutex<HashSet<AgentId>>,
}

/// Turns of one program.
pub struct Cli {
    pub(super) program: &'static dyn Program,
    pub(super) parts: Arc<Parts>,
    /// How long it may take to exit once it has told how its run went.
    grace: Duration,
}

impl Cli {
    /// Of this program.
    #[must_use]
    pub fn new(program: &'static dyn Program, parts: Arc<Parts>) -> Self {
        Self { program, parts, grace: GRACE }
    }

    fn missing(&self, reason: String) -> RuntimeError {
        let hint = format!("npm install -g {}", self.program.package());
        RuntimeError::NotInstalled { program: self.program.title(), reason, hint }
    }

    fn failed(&self, message: String) -> RuntimeError {
        let hint = verdict::LOGS.to_owned();
        RuntimeError::Failed { program: self.program.title(), message, hint }
    }

    /// Nothing of the turn has been begun.
    pub(super) fn unbegun(&self, reason: String) -> RuntimeError {
        let hint = verdict::LOGS.to_owned();
        RuntimeError::NotBegun { program: self.program.title(), reason, hint }
    }

    /// The folder for the files of a turn. What an earlier process left is removed before an agent's first turn.
    fn folder(&self, order: &Order) -> Result<TurnFolder, RuntimeError> {
        let mut begun = self.parts.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let first = begun.insert(order.agent.clone());
        let made = TurnFolder::make(&self.parts.home, &order.session, first);
        made.map_err(|why| self.unwritten(&why))
    }

    pub(super) fn unwritten(&self, why: &str) -> RuntimeError {
        self.unbegun(format!("its files can't be written: {why}"))
    }

    /// What it knows of a session.
    fn known(&self, session: &SessionKey) -> Result<Option<ProgramConversation>, RuntimeError> {
        let known = self.parts.store.program_conversation(session, self.program.name());
        known.map_err(|error| self.unbegun(chain(&error)))
    }

    async fn turn(&self, order: &Order, tell: Tell<'_>) -> Result<Reply, RuntimeError> {
        let config = (self.parts.config)();
        let agent = config.agent(&order.agent);
        let agent = agent.ok_or_else(|| self.unbegun(format!("there is no agent {}", order.agent)))?;
        // As the configuration is now: what it was in the conversation before does not count.
        let withheld = Withheld::of(agent);
        if let Some(refused) = withheld::refusal(self.program, agent, withheld) {
            return Err(refused);
        }
        if let Some(why) = self.program.refuses_host(host::is_root()).filter(|_| agent.runs_on_host()) {
            return Err(RuntimeError::Refused {
                program: self.program.title(),
                status: 403,
                message: format!("agent {} can't run on this machine itself: {why}", agent.id),
                hint: host::off(&agent.id),
            });
        }
        let found = locate::find(self.program).map_err(|reason| self.missing(reason))?;
        let pass = self.parts.gate.open(order, self.program, agent.runs_on_host())?;
        let course = Course { cli: self, order, agent, withheld, found, pass, folder: self.folder(order)? };
        let begun = memory::begun(order, agent, course.pass.relay.is_some());
        let renews = self.program.habits().renews_prompt;
        let known = self.known(&order.session)?.filter(|known| memory::goes_on(&known.begun, &begun, renews));
        if let (Some(known), Some(missed)) = (known, &order.missed) {
            let (ended, seen) = course.run(Conversation::Resumed(&known.name), missed, &begun, tell).await?;
            let why = verdict::lost(&ended, &seen, &course.pass.calls.now());
            let Some(why) = why else { return course.reply(ended, &seen) };
            let title = self.program.title();
            tell(Event::Trace(format!("[{}] {title} {why} and begins another", order.agent)));
        }
        let (ended, seen) =
            course.run(Conversation::New(Uuid::new_v4()), &order.recent, &begun, tell).await?;
        course.reply(ended, &seen)
    }
}

impl Runtime for Cli {
    fn name(&self) -> &'static str {
        self.program.name()
    }

    fn is_metered(&self, order: &Order) -> bool {
        let config = (self.parts.config)();
        let on_host = config.agent(&order.agent).is_some_and(|agent| agent.runs_on_host());
        !on_host || self.parts.gate.has_provider(&order.model)
    }

    fn wants_recent(&self) -> bool {
        true
    }

    fn knows(&self, session: &SessionKey, conversation: &str) -> Result<Option<TurnId>, RuntimeError> {
        Ok(self
            .known(session)?
            .filter(|known| known.begun.conversation == conversation)
            .map(|known| known.turn))
    }

    fn run<'a>(&'a self, order: &'a Order, tell: Tell<'a>) -> BoxFuture<'a, Result<Reply, RuntimeError>> {
        Box::pin(async {
            let reply = self.turn(order, tell).await;
            state::tidy(&self.parts.home, &order.agent);
            reply
        })
    }
}

/// One turn and what it works with.
pub(super) struct Course<'a> {
    pub(super) cli: &'a Cli,
    pub(super) order: &'a Order,
    agent: &'a Agent,
    withheld: Withheld,
    pub(super) found: Found,
    pass: Pass,
    folder: TurnFolder,
}

/// Where a program runs, as it sees it.
pub(super) struct Site {
    origin: String,
    pub(super) state: Option<String>,
    files: String,
    pub(super) workspace: String,
    /// The folder of its state as the host has it.
    pub(super) kept: Option<State>,
    /// The folder of its user, where it has a login by links to what is there.
    user: Option<User>,
}

impl Course<'_> {
    fn site(&self) -> Site {
        let state = State::of(&self.cli.parts.home, self.cli.program, &self.order.session);
        if !self.agent.runs_on_host() {
            return Site {
                origin: format!("http://127.0.0.1:{}", egress::PORT),
                state: Some(format!("{STATE_TARGET}/{}", state.name())),
                files: format!("{TURN_TARGET}/{}", folders::name_of(&self.order.session)),
                workspace: WORKSPACE_TARGET.to_owned(),
                kept: Some(state),
                user: None,
            };
        }
        // With its own login it keeps its conversations where it keeps its user's, if it can do that and pass over the
        // rest.
        let login = self.cli.program.login();
        let state = (self.pass.relay.is_some() || login.is_some()).then_some(state);
        let user = login.filter(|_| self.pass.relay.is_none()).and_then(|login| User::of(&login));
        Site {
            origin: self.pass.host_origin.clone(),
            state: state.as_ref().map(|state| state.path().display().to_string()),
            files: self.folder.path().display().to_string(),
            workspace: self.agent.workspace.display().to_string(),
            kept: state,
            user,
        }
    }

    /// Runs the program once in this conversation, with what was said `before` that it is to be told.
    async fn run(
        &self,
        conversation: Conversation<'_>,
        before: &str,
        begun: &Begun,
        tell: Tell<'_>,
    ) -> Result<(Ended, Seen), RuntimeError> {
        let (cli, order, site) = (self.cli, self.order, self.site());
        let unwritten = |why: String| cli.unwritten(&why);
        let replaced = match (&site.kept, conversation) {
            (Some(kept), Conversation::New(_)) => Some(kept.anew().map_err(unwritten)?),
            (Some(kept), Conversation::Resumed(_)) => {
                kept.ready().map_err(unwritten)?;
                None
            }
            (None, _) => None,
        };
        let text = prompt::compose(before, &prompt::said(&order.messages));
        let relay = self.pass.relay.as_ref();
        let mut turn = Turn {
            provider: order.model.provider(),
            place: if self.agent.runs_on_host() { Place::Host } else { Place::Sandbox },
            model: order.model.model(),
            api: relay.map(|relay| relay.api),
            context_window: relay.map_or(0, |relay| relay.context_window),
            max_tokens: relay.map_or(0, |relay| relay.max_tokens),
            effort: order.effort,
            system: &order.system,
            withheld: self.withheld,
            prompt: &text,
            conversation,
            origin: &site.origin,
            relay_token: relay.map(|relay| relay.token.as_str()),
            mcp_token: &self.pass.mcp_token,
            state: site.state.as_deref(),
            user_settings: site.user.as_ref().and_then(User::settings),
            files: &site.files,
            workspace: &site.workspace,
            learned: None,
        };
        let learned = match cli.program.learned(&turn) {
            Some(wanted) => match (self.learn(&wanted, &site).await, conversation) {
                (Ok(text), _) => Some(text),
                (Err(error), Conversation::Resumed(_)) => return Ok(self.unready(&chain(&error))),
                (Err(error), Conversation::New(_)) => return Err(error),
            },
            None => None,
        };
        turn.learned = learned.as_deref();
        let invocation = cli.program.invocation(&turn).map_err(|message| RuntimeError::Refused {
            program: cli.program.title(),
            status: 400,
            message,
            hint: "flock doctor".to_owned(),
        })?;
        if let Err(why) = self.write(&invocation, &site) {
            return match conversation {
                Conversation::Resumed(_) => Ok(self.unready(&why)),
                Conversation::New(_) => Err(unwritten(why)),
            };
        }
        let answered = self.pass.calls.now().answered;
        let mut memory = Memory {
            store: Arc::clone(&cli.parts.store),
            session: order.session.clone(),
            program: cli.program.name(),
            turn: order.turn,
            begun: begun.clone(),
            name: match conversation {
                Conversation::Resumed(name) => Some(name.to_owned()),
                Conversation::New(name) => cli.program.habits().takes_names.then(|| name.to_string()),
            },
            has_turn: false,
            replaced,
            writing: None,
        };
        let parser = cli.program.parser(conversation);
        let mut ear = Ear::new(parser, order.agent.as_str(), tell, Box::new(|note| memory.note(note)));
        let (doom, over) = (ear.doom.clone(), ear.over.subscribe());
        let mut heard = |piece: Piece<'_>| ear.hear(piece);
        let started = tokio::select! {
            started = self.start(&invocation, &mut heard) => Some(started),
            () = doom.cancelled() => None,
            // What it has told counts: it is ended as one that exits well.
            () = lingers(over, cli.grace) => Some(Ok(Ran::default())),
        };
        let (ran, stopped) = match started.transpose() {
            Ok(ran) => (ran, None),
            Err(error) => (None, Some(error)),
        };
        if let Some(text) = ran.as_ref().and_then(|ran| ran.left.told(cli.program.title())) {
            ear.remark(text);
        }
        // The turn may have run another conversation before, which could not be gone on with.
        ear.counted(self.pass.calls.now().usage);
        // Whatever ended it: what was heard is told, and the name of the conversation kept.
        let (ended, seen) = ear.end(ran.map(|ran| ran.code));
        let calls = self.pass.calls.now();
        if relay.is_some() {
            // flock's own count is the one that holds.
            tell(Event::Usage(calls.usage));
        }
        if matches!(ended, Ended::Well { .. }) || calls.answered > answered {
            memory.note(Note::Begun);
        }
        memory.settled().await.map_err(|error| cli.failed(chain(&error)))?;
        if let Some(error) = stopped {
            return Err(verdict::stopped(error, &seen, self.counted().as_ref()));
        }
        if ended == (Ended::Well { cut: false }) && !calls.listed_tools {
            let title = cli.program.title();
            let note = format!("[{}] note: {title} did not reach flock's tools in this turn", order.agent);
            tell(Event::Trace(note));
            tracing::warn!(agent = %order.agent, "{title} has not asked for flock's tools");
        }
        Ok((ended, seen))
    }

    /// What is in the way of a conversation that is to go on is not in the way of one that is begun anew.
    fn unready(&self, why: &str) -> (Ended, Seen) {
        tracing::warn!(agent = %self.order.agent, why, "a program's conversation can't be gone on with");
        (Ended::Unknown, Seen::default())
    }

    /// Writes the files of a run, in the turn's folder and in the program's.
    pub(super) fn write(&self, invocation: &Invocation, site: &Site) -> Result<(), String> {
        self.folder.write(&invocation.files)?;
        let Some(kept) = &site.kept else { return Ok(()) };
        kept.write(&invocation.state, invocation.kept)?;
        site.user.as_ref().map_or(Ok(()), |user| kept.link(user.folder(), invocation.links))
    }

    pub(super) async fn start(
        &self,
        invocation: &Invocation,
        heard: &mut (dyn FnMut(Piece<'_>) + Send),
    ) -> Result<Ran, RuntimeError> {
        let parts = &self.found.parts;
        let words = if self.agent.runs_on_host() { &parts.host } else { &parts.sandbox };
        let mut env = invocation.environment.clone();
        env.push(self.mcp_url());
        env.extend(withheld::environment(self.withheld));
        let run = Run {
            command: words.iter().chain(&invocation.arguments).cloned().collect(),
            env,
            input: Bytes::from(invocation.input.clone()),
        };
        if self.agent.runs_on_host() {
            let parts = &self.cli.parts;
            let home = parts.home.digest();
            let ended = host::attend(&run, &self.agent.workspace, &home, &parts.flock, heard).await;
            return ended.map_err(|error| self.cli.unbegun(format!("it can't be started: {error}")));
        }
        let ended = self.cli.parts.sandbox.attend(&self.order.agent, &run, heard).await;
        let code = ended.map_err(|error| self.unstarted(&error))?;
        Ok(Ran { code, ..Ran::default() })
    }

    /// Where flock's tools are: for `flock mcp`, which may stand between them and who has no HTTP.
    fn mcp_url(&self) -> (String, String) {
        (env::MCP_URL.name.to_owned(), format!("{}/mcp", self.site().origin))
    }

    fn unstarted(&self, error: &SandboxError) -> RuntimeError {
        let program = self.cli.program.title();
        let hint = error.hint().unwrap_or_else(|| "flock doctor".to_owned());
        match error {
            SandboxError::Unavailable { .. } | SandboxError::Denied { .. } => {
                RuntimeError::NotRunning { program, reason: chain(error), hint }
            }
            _ => RuntimeError::NotBegun { program, reason: chain(error), hint },
        }
    }

    fn reply(&self, ended: Ended, seen: &Seen) -> Result<Reply, RuntimeError> {
        verdict::of(self.cli.program.title(), ended, seen, self.counted().as_ref())
    }

    /// flock's own count of the turn's model calls; `None` where the program asks its models itself.
    fn counted(&self) -> Option<Count> {
        self.pass.relay.as_ref().map(|_| self.pass.calls.now())
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
