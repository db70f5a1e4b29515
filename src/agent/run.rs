//! The loop of a turn: ask the model, run the tools it calls, until it has nothing more to call.
//!
//! Each step is committed before the next begins: the input before the model is asked, its answer before a
//! tool runs, each result before the model is asked again, the final answer before it is reported.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::call;
use super::engine::Engine;
use super::history::replay;
use super::running::Running;
use super::transcript::{Header, MessageRecord, Transcript, history, model};
use super::turn::{Stop, TurnError, TurnEvent, TurnOutcome, TurnRequest};
use super::window::{self, Images, Window};
use crate::clock;
use crate::config::{Agent, Config};
use crate::id::{ModelRef, TurnId};
use crate::provider::message::joined_text;
use crate::provider::retry::{self, Retrying};
use crate::provider::{Block, Delta, Message, Request, Resolved, Response, Role, StopReason};
use crate::sandbox::policy;
use crate::store::{Begin, NewSession, SessionState};
use crate::tool::CallContext;

/// How long a tool has to end by itself once the turn was stopped.
const GRACE: Duration = Duration::from_secs(5);

/// Where events go. The stream of an answer and the news that it is asked for again come from two places.
struct Events<'a>(Mutex<&'a mut (dyn FnMut(TurnEvent) + Send)>);

impl Events<'_> {
    fn tell(&self, event: TurnEvent) {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(event);
    }
}

/// What ends a turn from outside.
struct Halt {
    cancel: CancellationToken,
    deadline: Instant,
    wall: Duration,
}

impl Halt {
    async fn wait(&self) -> TurnError {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => TurnError::Cancelled,
            () = sleep_until(self.deadline) => TurnError::TimedOut(self.wall),
        }
    }

    fn now(&self) -> Result<(), TurnError> {
        if self.cancel.is_cancelled() {
            Err(TurnError::Cancelled)
        } else if Instant::now() >= self.deadline {
            Err(TurnError::TimedOut(self.wall))
        } else {
            Ok(())
        }
    }
}

/// What a turn has besides its request.
struct Plan {
    model: ModelRef,
    resolved: Resolved,
    request: Request,
    /// Tokens for the conversation, besides prompt, tools and answer.
    room: u64,
}

/// Runs one turn to its end.
pub(super) async fn run(
    engine: &Engine,
    request: TurnRequest,
    cancel: CancellationToken,
    on_event: &mut (dyn FnMut(TurnEvent) + Send),
) -> Result<TurnOutcome, TurnError> {
    let wall = engine.parts.limits.wall;
    let halt = Halt { cancel, deadline: Instant::now() + wall, wall };
    let events = Events(Mutex::new(on_event));
    let config = engine.parts.config.current();
    let agent = check(&config, &request)?;
    let _claim = engine.claim(&request.session)?;
    halt.now()?;

    let known = engine.parts.store.session(&request.session)?;
    let now = clock::unix_ms();
    let began = known.map_or(now, |session| session.created_at);
    let model = agent.model.clone().ok_or_else(|| TurnError::NoModel(agent.id.clone()))?;
    let resolved = engine.parts.catalog.resolve(&model, &config)?;
    let tools = policy::offered(agent, engine.parts.registry.iter().map(|tool| tool.spec()));
    let prompt = engine.prompt(agent, &resolved.label, &tools, began);
    let max_tokens = answer_limit(&resolved);
    let request_to_be = Request {
        model: model.model().to_owned(),
        system: prompt.text.to_string(),
        messages: Vec::new(),
        tools,
        max_tokens,
    };
    let room = room(&resolved, &request_to_be);
    let plan = Plan { model, resolved, request: request_to_be, room };
    fits(&request, &plan)?;

    let session = engine
        .parts
        .store
        .begin_turn(Begin {
            session: NewSession { key: request.session.clone(), file: uuid::Uuid::now_v7().to_string() },
            turn: request.turn,
            model: plan.model.to_string(),
            prompt,
            now,
        })
        .await?;
    if session.state == SessionState::Closed {
        return Err(TurnError::Closed(session.key));
    }
    let path = engine.transcript_path(&session);
    let header = Header {
        version: model::VERSION,
        agent: session.key.agent().clone(),
        key: session.key,
        created: session.created_at,
    };
    let transcript = match Transcript::open(&path, &header, engine.parts.store.syncer().handle()) {
        Ok(transcript) => transcript,
        Err(error) => return Err(give_up(engine, request.turn, error).await),
    };
    let mut running = Running::new(Arc::clone(&engine.parts.store), transcript, request.turn, plan.model.clone());
    let last = match steps(engine, request, plan, &mut running, &halt, &events).await {
        Ok(last) => last,
        Err(error) => return Err(running.failed(error).await),
    };
    let text = joined_text(&last.message.content);
    let model = running.model.clone();
    let (steps, usage) = running.done(last.message, &last.response).await?;
    Ok(TurnOutcome { text, stop: last.stop, usage, model, steps })
}

/// The answer that ends a turn.
struct Last {
    message: Message,
    response: Response,
    stop: Stop,
}

async fn steps(
    engine: &Engine,
    request: TurnRequest,
    plan: Plan,
    running: &mut Running,
    halt: &Halt,
    events: &Events<'_>,
) -> Result<Last, TurnError> {
    let Plan { resolved, request: mut asked, room, .. } = plan;
    let past = past(running, room)?;
    let said = running.begin(&request.input, request.context)?;
    let shown = |records: Vec<MessageRecord>| -> Vec<Message> {
        records.into_iter().map(|record| replay(record, &engine.zone)).collect()
    };
    let images = if resolved.images { Images::Shown } else { Images::Named };
    let past = past.into_iter().map(|turn| shown(turn.messages)).collect();
    let mut window = Window::new(room, images, past, shown(said));
    let context = CallContext {
        agent: request.agent,
        session: request.session,
        turn: request.turn,
        cancel: halt.cancel.clone(),
    };
    let mut asked_again = false;
    loop {
        if running.steps >= engine.parts.limits.steps {
            return Err(TurnError::Steps(engine.parts.limits.steps));
        }
        asked.messages = window.messages();
        let mut response = ask(engine, &resolved, &asked, halt, events).await?;
        running.steps += 1;
        running.usage += response.usage;
        call::tidy(&mut response.content);
        let message = Message { role: Role::Assistant, content: std::mem::take(&mut response.content) };
        if message.tool_calls().next().is_none() {
            let is_empty = joined_text(&message.content).trim().is_empty();
            if is_empty && !asked_again && response.stop != StopReason::Refusal {
                // Some models now and then end without a word, above all after a tool; asked once more
                // they speak.
                asked_again = true;
                continue;
            }
            if is_empty {
                events.tell(TurnEvent::Notice("the model gave an empty answer".to_owned()));
            }
            return Ok(Last { stop: stop(response.stop, events), message, response });
        }
        running.answered(message.clone(), &response)?;
        let results = call_tools(engine, &context, &message, response.stop, running, halt, events).await?;
        window.push(message, results);
    }
}

fn stop(stop: StopReason, events: &Events<'_>) -> Stop {
    match stop {
        StopReason::End | StopReason::ToolUse => Stop::End,
        StopReason::Length => {
            events.tell(TurnEvent::Notice("the answer reached the model's limit and is cut".to_owned()));
            Stop::Length
        }
        StopReason::Refusal => Stop::Refusal,
    }
}

async fn ask(
    engine: &Engine,
    resolved: &Resolved,
    request: &Request,
    halt: &Halt,
    events: &Events<'_>,
) -> Result<Response, TurnError> {
    let mut sink = |delta| {
        events.tell(match delta {
            Delta::Text(text) => TurnEvent::TextDelta(text),
            Delta::Thinking(text) => TurnEvent::ThinkingDelta(text),
        });
    };
    let mut on_retry = |retrying: Retrying<'_>| {
        events.tell(TurnEvent::Retrying {
            attempt: retrying.attempt + 1,
            after: retrying.wait,
            reason: retrying.reason.to_string(),
        });
    };
    let policy = &engine.parts.limits.retry;
    tokio::select! {
        biased;
        error = halt.wait() => Err(error),
        response = retry::call(policy, &*resolved.provider, request, &mut sink, &mut on_retry) => Ok(response?),
    }
}

/// Runs the calls of one answer in their order and commits each result.
async fn call_tools(
    engine: &Engine,
    context: &CallContext,
    message: &Message,
    stop: StopReason,
    running: &mut Running,
    halt: &Halt,
    events: &Events<'_>,
) -> Result<Vec<Block>, TurnError> {
    let mut results = Vec::new();
    for (place, asked) in message.tool_calls().enumerate() {
        halt.now()?;
        events.tell(TurnEvent::ToolStarted {
            call_id: asked.id.to_owned(),
            name: asked.name.to_owned(),
            arguments_preview: call::preview(asked.arguments),
        });
        let started = Instant::now();
        // The policy is asked with the configuration of this moment: what was taken from an agent in the
        // middle of a turn is gone.
        let config = engine.parts.config.current();
        let agent = config.agent(&context.agent).ok_or_else(|| TurnError::UnknownAgent(context.agent.clone()))?;
        let (answer, halted) = match call::check(agent, &engine.parts.registry, &asked, place, stop) {
            Err(reason) => ((call::error(&reason), true), None),
            Ok(tool) => {
                let own = CallContext { cancel: halt.cancel.child_token(), ..context.clone() };
                let mut work = std::pin::pin!(call::run(tool, &own, asked.arguments));
                let (ended, halted) = tokio::select! {
                    biased;
                    ended = &mut work => (Some(ended), None),
                    error = halt.wait() => {
                        own.cancel.cancel();
                        (timeout(GRACE, work).await.ok(), Some(error))
                    }
                };
                match (ended, halted) {
                    (Some(Ok(answer)), halted) => (answer, halted),
                    (None, Some(error)) | (Some(Err(_)), Some(error)) => return Err(error),
                    (Some(Err(source)), None) => {
                        return Err(TurnError::Tool { name: asked.name.to_owned(), source });
                    }
                    (None, None) => return Err(TurnError::Cancelled),
                }
            }
        };
        let (content, is_error) = answer;
        let (call_id, name) = (asked.id.to_owned(), asked.name.to_owned());
        let result = Block::ToolResult { call_id: call_id.clone(), name: name.clone(), content, is_error };
        running.result(result.clone())?;
        events.tell(TurnEvent::ToolEnded { call_id, name, is_error, took: started.elapsed() });
        if let Some(error) = halted {
            return Err(error);
        }
        results.push(result);
    }
    Ok(results)
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

fn answer_limit(resolved: &Resolved) -> u32 {
    let quarter = u32::try_from(resolved.context_window / 4).unwrap_or(u32::MAX);
    resolved.max_tokens.min(quarter).max(1)
}

/// What is left of the model's context. Estimates of tokens are rough, so a twentieth stays free.
fn room(resolved: &Resolved, request: &Request) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        window::text_cost(&tool.name) + window::text_cost(&tool.description) + window::text_cost(&tool.parameters.to_string())
    });
    let taken = window::text_cost(&request.system) + tools.sum::<u64>() + u64::from(request.max_tokens);
    (resolved.context_window - resolved.context_window / 20).saturating_sub(taken)
}

fn fits(request: &TurnRequest, plan: &Plan) -> Result<(), TurnError> {
    let said = request.input.iter().map(|message| window::cost(&message.content)).sum::<u64>();
    let tokens = said + request.context.iter().map(|text| window::text_cost(text)).sum::<u64>();
    if tokens > plan.room {
        return Err(TurnError::TooLong { tokens, room: plan.room, model: plan.model.clone() });
    }
    Ok(())
}

/// The newest turns that can fit, and a mended file where it was damaged.
fn past(running: &mut Running, room: u64) -> Result<Vec<history::PastTurn>, TurnError> {
    let past = history::past(running.transcript.file(), room, |record| window::cost(&record.message.content)).map_err(
        |source| TurnError::Transcript { what: "read", path: running.transcript.path().to_owned(), source },
    )?;
    if past.broken > 0 {
        running.transcript.repair()?;
    }
    Ok(past.turns)
}

/// Ends a turn that has no transcript to write to.
async fn give_up(engine: &Engine, turn: TurnId, error: TurnError) -> TurnError {
    let ended = crate::store::Ended {
        state: crate::store::TurnState::Failed,
        steps: 0,
        tokens: crate::store::Tokens::default(),
        error: Some(crate::error::chain(&error)),
        at: clock::unix_ms(),
    };
    if let Err(second) = engine.parts.store.end_turn(turn, ended).await {
        tracing::error!(%turn, error = %crate::error::chain(&second), "failed to end a turn");
    }
    error
}
