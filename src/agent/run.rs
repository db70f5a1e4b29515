//! A turn from its request to its outcome: what is checked before anything is written, its beginning and its
//! end in the database and the transcript. The loop between is [`super::steps`].

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::cache_key;
use super::engine::Engine;
use super::estimate::{self, Images};
use super::halt::Halt;
use super::identity;
use super::prompt::{Calls, locale};
use super::running::{Running, tokens};
use super::steps::{Conversation, Course, Events};
use super::text_calls::TextCalling;
use super::transcript::{Header, Transcript, model};
use super::turn::{TurnError, TurnEvent, TurnOutcome, TurnRequest};
use crate::clock;
use crate::config::{Agent, Config};
use crate::error::chain;
use crate::home::Home;
use crate::id::{ModelRef, SessionKey, TurnId};
use crate::provider::message::joined_text;
use crate::provider::{Request, Resolved, ToolSpec, Usage};
use crate::sandbox::policy;
use crate::store::{Begin, Ended, NewSession, Session, SessionState, StoredPrompt, TurnState};
use crate::tool::CallContext;

/// What a turn has besides its request.
pub(super) struct Plan {
    pub(super) model: ModelRef,
    pub(super) resolved: Resolved,
    prompt: StoredPrompt,
    /// What the prompt tells of tools.
    told: Told,
    /// What the model is asked, but for the messages.
    pub(super) asked: Request,
    /// Tokens for the conversation, besides prompt, tools and answer.
    pub(super) room: u64,
}

/// What a prompt is made from besides the agent and its files, so that a turn can make it anew.
pub(super) struct Told {
    pub(super) label: String,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) calls: Calls,
}

/// Runs one turn to its end.
pub(super) async fn run(
    engine: &Engine,
    request: TurnRequest,
    cancel: CancellationToken,
    on_event: &mut (dyn FnMut(TurnEvent) + Send),
) -> Result<TurnOutcome, TurnError> {
    let halt = Halt::new(
        cancel,
        engine.parts.limits.wall,
        Arc::clone(&engine.parts.oversight),
        request.agent.clone(),
    );
    let config = engine.parts.config.current();
    let agent = check(&config, &request)?;
    let _claim = engine.claim(&request.session)?;
    halt.now()?;
    settle_in(engine.home(), agent);
    let plan = plan(engine, &config, agent, &request.session)?;
    check_length(&plan, &request)?;
    let session = begin(engine, &request, &plan).await?;
    let transcript = match open(engine, &session) {
        Ok(transcript) => transcript,
        Err(error) => return Err(give_up(engine, request.turn, error).await),
    };
    let mut running =
        Running::new(Arc::clone(&engine.parts.store), transcript, request.turn, plan.resolved.route.clone());
    let context = CallContext {
        agent: request.agent,
        session: request.session,
        turn: request.turn,
        cancel: halt.cancel.clone(),
    };
    let events = Events::new(on_event);
    let course = Course { engine, halt: &halt, events: &events, context, told: plan.told };
    let conversation = Conversation {
        input: request.input,
        client: request.context,
        provenance: request.provenance,
        inbox: request.inbox,
        resolved: plan.resolved,
        asked: plan.asked,
        room: plan.room,
    };
    let last = match course.run(conversation, &mut running).await {
        Ok(last) => last,
        Err(error) => return Err(running.failed(error).await),
    };
    let text = joined_text(&last.message.content);
    let model = running.route.model.clone();
    let (steps, usage) = running.done(last.message, &last.response).await?;
    Ok(TurnOutcome { text, stop: last.stop, usage, model, steps })
}

/// What the requests of this session are made of now, but for the conversation.
pub(super) fn plan(
    engine: &Engine,
    config: &Config,
    agent: &Agent,
    session: &SessionKey,
) -> Result<Plan, TurnError> {
    let model = agent.model.clone().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
    let mut resolved = engine.parts.catalog.resolve(&model, config)?;
    let mut tools = policy::offered(agent, engine.parts.registry.iter().map(|tool| tool.spec()));
    locale::describe(engine.home(), agent.language.as_deref(), &mut tools);
    let calls = if config.calls_tools(&model) { Calls::Native } else { Calls::Text };
    let known = engine.parts.store.session(session)?;
    let began = known.map_or_else(clock::unix_ms, |session| session.began_at);
    let prompt = engine.prompt(agent, &resolved.label, &tools, calls, began)?;
    let told = Told { label: resolved.label.clone(), tools, calls };
    let tools = if calls == Calls::Text {
        resolved.provider = Arc::new(TextCalling(resolved.provider));
        // The prompt has them.
        Vec::new()
    } else {
        told.tools.clone()
    };
    let max_tokens = answer_limit(&resolved);
    let asked = Request {
        model: model.model().to_owned(),
        system: prompt.text.to_string(),
        messages: Vec::new(),
        tools,
        max_tokens,
        effort: agent.effort,
        cache_key: cache_key::of(engine.home(), session),
    };
    let room = room(&resolved, &asked);
    Ok(Plan { model, resolved, prompt, told, asked, room })
}

/// That the input alone is not longer than what there is room for.
fn check_length(plan: &Plan, request: &TurnRequest) -> Result<(), TurnError> {
    let images = Images::of(&plan.resolved);
    let said = request.input.iter().map(|message| estimate::cost(&message.content, images)).sum::<u64>();
    let tokens = said + request.context.iter().map(|text| estimate::text_cost(text)).sum::<u64>();
    if tokens > plan.room {
        return Err(TurnError::TooLong { tokens, room: plan.room, model: plan.model.clone() });
    }
    Ok(())
}

async fn begin(engine: &Engine, request: &TurnRequest, plan: &Plan) -> Result<Session, TurnError> {
    let begin = Begin {
        session: NewSession { key: request.session.clone(), file: uuid::Uuid::now_v7().to_string() },
        turn: request.turn,
        model: plan.model.to_string(),
        prompt: plan.prompt.clone(),
        now: clock::unix_ms(),
    };
    let session = engine.parts.store.begin_turn(begin).await?;
    match session.state {
        SessionState::Open => Ok(session),
        SessionState::Closed => Err(TurnError::Closed(session.key)),
    }
}

fn open(engine: &Engine, session: &Session) -> Result<Transcript, TurnError> {
    let key = session.key.clone();
    let header =
        Header { version: model::VERSION, agent: key.agent().clone(), key, created: session.created_at };
    Transcript::open(&engine.transcript_path(session), &header, engine.parts.store.syncer().handle())
}

fn check<'c>(config: &'c Config, request: &TurnRequest) -> Result<&'c Agent, TurnError> {
    let agent = config.agent(&request.agent).ok_or_else(|| TurnError::UnknownAgent(request.agent.clone()))?;
    if request.session.agent() != &agent.id {
        return Err(TurnError::WrongAgent { agent: agent.id.clone(), session: request.session.clone() });
    }
    if agent.runtime != "native" {
        return Err(TurnError::WrongRuntime { agent: agent.id.clone(), runtime: agent.runtime.clone() });
    }
    if !request.has_input() {
        return Err(TurnError::NoInput);
    }
    Ok(agent)
}

/// An agent that a person wrote into the configuration by hand has no workspace until somebody makes it.
fn settle_in(home: &Home, agent: &Agent) {
    if agent.workspace.exists() {
        return;
    }
    let who = identity::Who {
        id: &agent.id,
        role: agent.role,
        archetype: agent.archetype.as_deref(),
        archetypes: &home.archetypes(),
    };
    if let Err(error) = identity::write(&agent.identity, &agent.workspace, &who) {
        // The turn can still talk; tools that need the folder say what is wrong.
        tracing::warn!(agent = %agent.id, error = chain(&error), "failed to make a workspace");
    }
}

fn answer_limit(resolved: &Resolved) -> u32 {
    let quarter = u32::try_from(resolved.context_window / 4).unwrap_or(u32::MAX);
    resolved.max_tokens.min(quarter).max(1)
}

/// What is left of the model's context. Estimates of tokens are rough, so a twentieth stays free.
fn room(resolved: &Resolved, request: &Request) -> u64 {
    let taken = estimate::fixed_cost(request) + u64::from(request.max_tokens);
    (resolved.context_window - resolved.context_window / 20).saturating_sub(taken)
}

/// Ends a turn that has no transcript to write to.
async fn give_up(engine: &Engine, turn: TurnId, error: TurnError) -> TurnError {
    let ended = Ended {
        state: TurnState::Failed,
        steps: 0,
        tokens: tokens(Usage::default()),
        error: Some(chain(&error)),
        at: clock::unix_ms(),
    };
    if let Err(second) = engine.parts.store.end_turn(turn, ended).await {
        tracing::error!(%turn, error = %chain(&second), "failed to end a turn");
    }
    error
}
