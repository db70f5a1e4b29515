//! Runs a turn from request to outcome: the checks before anything is written, and the beginning and end in the
//! database and the transcript. The loop in between is [`TurnLoop`].

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cache_key;
use super::client_tools;
use super::deadline::Deadline;
use super::delegated::{DelegatedTurn, ProgramQuota};
use super::engine::Engine;
use super::estimate::{self, ImageEstimate};
use super::failover::{self, ModelQueue};
use super::identity;
use super::model_chain::{ModelChain, PreparedModel, fallback_notice, ready};
use super::session_command;
use super::turn::{
    EventSink, FinalAnswer, PlannedRequest, TurnError, TurnEvent, TurnLoop, TurnOutcome, TurnRequest,
    TurnScope, TurnStop,
};
use super::turn_recorder::{TurnRecorder, tokens};
use crate::clock;
use crate::config::{Agent, Api, Config};
use crate::error::chain;
use crate::home::Home;
use crate::id::{ModelRef, SessionKey, TurnId};
use crate::provider::message::joined_text;
use crate::provider::{Request, Route, Usage};
use crate::runtime::NATIVE;
use crate::store::{NewSession, NewTurn, Session, SessionState, StoredPrompt, TurnCompletion, TurnState};
use crate::tool::CallContext;

/// The parts of a turn besides its request.
struct TurnPlan {
    model: ModelRef,
    prompt: StoredPrompt,
    request: PlannedRequest,
}

impl Engine {
    /// Runs one turn to its end.
    ///
    /// Cancelling `cancel` ends it with [`TurnError::Cancelled`]. Dropping the future stops it too, without a result.
    /// In both cases the transcript stays complete.
    ///
    /// # Errors
    ///
    /// Returns the error that ended the turn. Everything that the turn did before it is committed.
    pub async fn run(
        &self,
        request: TurnRequest,
        cancel: CancellationToken,
        on_event: &mut (dyn FnMut(TurnEvent) + Send),
    ) -> Result<TurnOutcome, TurnError> {
        // One configuration for the whole plan, so that a change in the middle can't mix two.
        let config = self.parts.config.current();
        let wall = self.parts.limits.wall_time_for(&config);
        let deadline = Deadline::new(cancel, wall, Arc::clone(&self.parts.oversight), request.agent.clone());
        let agent = check_request(self, &config, &request)?;
        // A command needs no claim here: each one claims the session itself for what it changes.
        if let Some(command) = request.command {
            let model = agent.model.clone().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
            deadline.now()?;
            let text =
                session_command::run(self, &request.session, command, request.provenance, &deadline).await?;
            on_event(TurnEvent::TextDelta(text.clone()));
            let (stop, usage) = (TurnStop::End, Usage::default());
            return Ok(TurnOutcome { text, stop, calls: Vec::new(), usage, model, steps: 0 });
        }
        // Held until the turn ends: two turns of one session would write into each other's records.
        let _claim = self.claim(&request.session)?;
        deadline.now()?;
        create_workspace(self.home(), agent);
        let watched = match self.watch.get() {
            Some(watch) => {
                let begin = watch.begin(&request.agent, &request.session, request.turn);
                Some(deadline.uncounted(begin).await?)
            }
            None => None,
        };
        let context = CallContext {
            agent: request.agent.clone(),
            session: request.session.clone(),
            turn: request.turn,
            cancel: deadline.cancel.clone(),
            progress: None,
        };
        let events = &EventSink::new(on_event);
        let scope = TurnScope { engine: self, deadline: &deadline, events, context, watched };
        if agent.runtime == NATIVE {
            run_native(&scope, &config, agent, request).await
        } else {
            run_delegated(&scope, &config, agent, request).await
        }
    }
}

/// Runs a turn in flock's own loop.
async fn run_native(
    scope: &TurnScope<'_>,
    config: &Arc<Config>,
    agent: &Agent,
    request: TurnRequest,
) -> Result<TurnOutcome, TurnError> {
    let TurnPlan { model, prompt, request: planned } = plan(scope.engine, config, agent, &request).await?;
    let route = planned.model_chain.resolved.route.clone();
    let (_, mut recorder) = begin(scope.engine, &request, &model, prompt, route).await?;
    let last = match TurnLoop::run(scope, request, planned, &mut recorder).await {
        Ok(last) => last,
        Err(error) => return Err(recorder.failed(error).await),
    };
    let FinalAnswer { message, response, stop, calls } = last;
    let text = joined_text(&message.content);
    let model = recorder.route.model.clone();
    let (steps, usage) = match stop {
        TurnStop::ToolCalls => recorder.handed_out(client_tools::pending(&calls)).await?,
        _ => recorder.done(message, &response).await?,
    };
    Ok(TurnOutcome { text, stop, calls, usage, model, steps })
}

/// Lets the program that the agent names run the turn.
async fn run_delegated(
    scope: &TurnScope<'_>,
    config: &Config,
    agent: &Agent,
    request: TurnRequest,
) -> Result<TurnOutcome, TurnError> {
    let engine = scope.engine;
    // Such a program has its own loop, in which a call of a client can't be left open.
    if request.client.is_used() {
        return Err(wrong_runtime_error(agent));
    }
    let runtime = &engine.runtimes.get(&agent.runtime).ok_or_else(|| wrong_runtime_error(agent))?;
    // The program calls the models itself, so flock resolves none and tries no fallbacks.
    let model = agent.model.clone().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
    // A frozen agent must not be the probe that others wait for.
    scope.deadline.thawed().await?;
    let quota = ProgramQuota::admit(engine, agent, config)?;
    let began = conversation_start(engine, &request.session).await?;
    let prompt = engine.brief(agent, model.as_str(), &engine.own_tools(agent), began)?;
    let system = prompt.text.to_string();
    // The API between flock and the program. No provider's thinking or signature comes over it.
    let route = Route { model: model.clone(), api: Api::OpenAiCompletions };
    let (session, mut recorder) = begin(engine, &request, &model, prompt, route).await?;
    recorder.runtime = Some(runtime.name().to_owned());
    DelegatedTurn { scope, runtime, system, session: &session, effort: agent.effort, quota }
        .run(request, recorder)
        .await
}

/// Returns the plan for the first model that can be asked and has room for the input.
async fn plan(
    engine: &Engine,
    config: &Arc<Config>,
    agent: &Agent,
    request: &TurnRequest,
) -> Result<TurnPlan, TurnError> {
    let primary = agent.model.as_ref().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
    let began = conversation_start(engine, &request.session).await?;
    // Models that failed recently come last, so a turn does not wait for them first.
    let mut models = ModelQueue::new(engine.cooldowns.order(agent.models(), clock::unix_ms()));
    let mut failed: Option<(ModelRef, TurnError)> = None;
    while let Some(model) = models.pop() {
        match plan_with(engine, config, agent, request, model.clone(), began) {
            Ok(mut plan) => {
                // A person should know if another model answers than the one they configured.
                let model_chain = &mut plan.request.model_chain;
                if model_chain.resolved.route.model != *primary {
                    let why = failed.filter(|(model, _)| model == primary).map(|(_, error)| chain(&error));
                    let why = why.unwrap_or_else(|| "it failed a short while ago".to_owned());
                    model_chain.passed = Some(fallback_notice(&model_chain.resolved.label, primary, &why));
                }
                model_chain.others = models;
                return Ok(plan);
            }
            // A quota comes back by itself, so the turn waits for it, whatever is wrong with the other models.
            Err(TurnError::Parked(later)) => match &mut failed {
                Some((_, TurnError::Parked(sooner))) if sooner.until <= later.until => {}
                _ => failed = Some((model, later.into())),
            },
            // If every model fails, the first error is reported: that model is the one a person wants fixed.
            Err(error) if failover::trouble(&error).is_some() => {
                failed.get_or_insert((model, error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(failed.map_or_else(|| TurnError::NoModel(agent.id.clone()), |(_, error)| error))
}

/// Returns the Unix milliseconds at which the conversation of a session began, which its prompt depends on. A new session
/// begins now.
async fn conversation_start(engine: &Engine, session: &SessionKey) -> Result<i64, TurnError> {
    let known = engine.parts.store.sessions().began_at(session).await?;
    Ok(known.unwrap_or_else(clock::unix_ms))
}

/// Returns the plan for one model, in a session whose conversation began at `began`. The input alone must fit into the
/// model's context.
fn plan_with(
    engine: &Engine,
    config: &Arc<Config>,
    agent: &Agent,
    request: &TurnRequest,
    model: ModelRef,
    began: i64,
) -> Result<TurnPlan, TurnError> {
    let key = cache_key::of(engine.home(), &request.session);
    let prepared = ready(engine, config, agent, &model, began, key)?;
    let PreparedModel { resolved, prompt, prompt_spec, model_request, room } =
        prepared.with_client_tools(engine, agent, &request.client, began)?;
    if let Some(credential) = &resolved.credential
        && let Some(parked) = engine.parts.oversight.parked(credential, &model)
    {
        return Err(parked.into());
    }
    let images = ImageEstimate::of(&resolved);
    let results = request.client.results.iter().map(|result| &result.content);
    let contents = request.input.iter().map(|message| &message.content).chain(results);
    let said = contents.map(|content| estimate::cost(content, images)).sum::<u64>();
    let tokens = said + request.context.iter().map(|text| estimate::text_cost(text)).sum::<u64>();
    // An input that alone exceeds the room can't be helped by any compaction.
    if tokens > room {
        return Err(TurnError::TooLong { tokens, window: resolved.context_window, room, model });
    }
    let model_chain = ModelChain {
        resolved,
        prompt_spec,
        others: ModelQueue::default(),
        refused_pictures: false,
        passed: None,
        config: Arc::clone(config),
        agent: agent.clone(),
        client: request.client.clone(),
        began,
    };
    let model_request = Request { format: request.format.clone(), ..model_request };
    Ok(TurnPlan { model, prompt, request: PlannedRequest { model_chain, model_request, room } })
}

/// Begins the turn in the database, and opens its transcript. From here on every failure has to end it there as well.
async fn begin(
    engine: &Engine,
    request: &TurnRequest,
    model: &ModelRef,
    prompt: StoredPrompt,
    route: Route,
) -> Result<(Session, TurnRecorder), TurnError> {
    let store = &engine.parts.store;
    let begin = NewTurn {
        session: NewSession { key: request.session.clone(), file: uuid::Uuid::now_v7().to_string() },
        turn: request.turn,
        model: model.to_string(),
        prompt,
        now: clock::unix_ms(),
    };
    // One transaction creates the turn, and the session if it is new.
    let session = store.turns().begin(begin).await?;
    if session.state == SessionState::Closed {
        return Err(TurnError::Closed(session.key));
    }
    match engine.open_transcript(&session) {
        Ok(transcript) => {
            let recorder = TurnRecorder::new(Arc::clone(store), transcript, request.turn, route);
            Ok((session, recorder))
        }
        Err(error) => Err(end_without_transcript(engine, request.turn, error.into()).await),
    }
}

fn check_request<'c>(
    engine: &Engine,
    config: &'c Config,
    request: &TurnRequest,
) -> Result<&'c Agent, TurnError> {
    let agent = config.agent(&request.agent).ok_or_else(|| TurnError::UnknownAgent(request.agent.clone()))?;
    if request.session.agent() != &agent.id {
        return Err(TurnError::WrongAgent { agent: agent.id.clone(), session: request.session.clone() });
    }
    if agent.runtime != NATIVE && engine.runtimes.get(&agent.runtime).is_none() {
        return Err(wrong_runtime_error(agent));
    }
    if !request.has_input() {
        return Err(TurnError::NoInput);
    }
    Ok(agent)
}

fn wrong_runtime_error(agent: &Agent) -> TurnError {
    TurnError::WrongRuntime { agent: agent.id.clone(), runtime: agent.runtime.clone() }
}

/// Creates the workspace of an agent that a person added to the configuration by hand.
fn create_workspace(home: &Home, agent: &Agent) {
    if agent.workspace.exists() {
        return;
    }
    let who = identity::AgentIdentity {
        id: &agent.id,
        role: agent.role,
        archetype: agent.archetype.as_deref(),
        archetypes: &home.archetypes(),
    };
    if let Err(error) = identity::write(&agent.identity, &agent.workspace, &who) {
        // The turn can still talk; tools that need the workspace report what is wrong.
        tracing::warn!(agent = %agent.id, error = chain(&error), "failed to make a workspace");
    }
}

/// Ends a turn that has no transcript to write to.
async fn end_without_transcript(engine: &Engine, turn: TurnId, error: TurnError) -> TurnError {
    let ended = TurnCompletion {
        state: TurnState::Failed,
        steps: 0,
        tokens: tokens(Usage::default()),
        error: Some(chain(&error)),
        at: clock::unix_ms(),
        pending: None,
        settlement: None,
    };
    if let Err(second) = engine.parts.store.turns().end(turn, ended).await {
        tracing::error!(%turn, error = %chain(&second), "failed to end a turn");
    }
    error
}
