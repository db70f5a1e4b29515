//! The loop of a turn: ask the model, run the tools it calls, until it has nothing more to call.
//!
//! Each step is committed before the next begins: the input before the model is asked, its answer before a
//! tool runs, each result before the model is asked again, the final answer before it is reported.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::call;
use super::engine::Engine;
use super::halt::Halt;
use super::history::replay;
use super::inbox::Inbox;
use super::provenance::Provenance;
use super::running::Running;
use super::transcript::{MessageRecord, history};
use super::turn::{Stop, TurnError, TurnEvent};
use super::window::{self, Images, Window};
use crate::provider::message::{ToolCall, joined_text};
use crate::provider::retry::{self, Retrying};
use crate::provider::{Block, Delta, Message, ProviderError, Request, Resolved, Response, Role, StopReason};
use crate::tool::{CallContext, Tool};

/// How long a tool has to end by itself once the turn was stopped.
const GRACE: Duration = Duration::from_secs(5);

/// Where events go. The stream of an answer and the news that it is asked for again come from two places.
pub(super) struct Events<'a>(Mutex<&'a mut (dyn FnMut(TurnEvent) + Send)>);

impl<'a> Events<'a> {
    pub(super) fn new(on_event: &'a mut (dyn FnMut(TurnEvent) + Send)) -> Self {
        Self(Mutex::new(on_event))
    }

    fn tell(&self, event: TurnEvent) {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(event);
    }
}

/// What a turn talks about, and with whom.
pub(super) struct Conversation {
    pub(super) input: Vec<Message>,
    /// A client's system text.
    pub(super) client: Vec<String>,
    pub(super) provenance: Option<Provenance>,
    pub(super) inbox: Option<Arc<dyn Inbox>>,
    pub(super) resolved: Resolved,
    /// What the model is asked, but for the messages.
    pub(super) asked: Request,
    /// Tokens for the messages.
    pub(super) room: u64,
}

/// The answer that ends a turn.
pub(super) struct Last {
    pub(super) message: Message,
    pub(super) response: Response,
    pub(super) stop: Stop,
}

/// What the steps of one turn share.
pub(super) struct Course<'a> {
    pub(super) engine: &'a Engine,
    pub(super) halt: &'a Halt,
    pub(super) events: &'a Events<'a>,
    pub(super) context: CallContext,
}

impl Course<'_> {
    /// Runs the steps up to the final answer, which is not committed yet.
    pub(super) async fn run(
        &self,
        conversation: Conversation,
        running: &mut Running,
    ) -> Result<Last, TurnError> {
        let Conversation { input, client, provenance, inbox, resolved, mut asked, room } = conversation;
        let past = past(running, room)?;
        let said = running.begin(&input, client, provenance.clone())?;
        self.events.tell(TurnEvent::Began);
        if let (Some(inbox), Some(provenance)) = (&inbox, &provenance) {
            inbox.committed(provenance).await;
        }
        let shown = |records: Vec<MessageRecord>| -> Vec<Message> {
            records.into_iter().map(|record| replay(record, &self.engine.zone)).collect()
        };
        let images = if resolved.images { Images::Shown } else { Images::Named };
        let past = past.into_iter().map(|turn| shown(turn.messages)).collect();
        let mut window = Window::new(room, images, past, shown(said));
        let mut asked_again = false;
        loop {
            if running.steps >= self.engine.parts.limits.steps {
                return Err(TurnError::Steps(self.engine.parts.limits.steps));
            }
            let mut response = self.ask_what_fits(&resolved, &mut asked, &mut window).await?;
            running.steps += 1;
            running.usage += response.usage;
            call::tidy(&mut response.content);
            let message = Message { role: Role::Assistant, content: std::mem::take(&mut response.content) };
            if message.tool_calls().next().is_some() {
                running.answered(message.clone(), &response)?;
                let results = self.call_tools(&message, response.stop, running).await?;
                window.push(message, results);
                continue;
            }
            let is_empty = joined_text(&message.content).trim().is_empty();
            if is_empty && !asked_again && response.stop != StopReason::Refusal {
                // Some models now and then end without a word, above all after a tool; asked once more
                // they speak.
                asked_again = true;
                continue;
            }
            return Ok(Last { stop: self.stop(response.stop, is_empty), message, response });
        }
    }

    fn stop(&self, stop: StopReason, is_empty: bool) -> Stop {
        let notice = |text: &str| self.events.tell(TurnEvent::Notice(text.to_owned()));
        match stop {
            StopReason::Length => {
                notice("the answer reached the model's limit and is cut");
                Stop::Length
            }
            StopReason::Refusal => {
                notice("the provider withheld the answer");
                Stop::Refusal
            }
            StopReason::End | StopReason::ToolUse => {
                if is_empty {
                    notice("the model gave an empty answer");
                }
                Stop::End
            }
        }
    }

    /// Asks, and asks again with less where the provider counts more tokens than were estimated: else a
    /// session that has once grown too long could never go on.
    async fn ask_what_fits(
        &self,
        resolved: &Resolved,
        asked: &mut Request,
        window: &mut Window,
    ) -> Result<Response, TurnError> {
        loop {
            asked.messages = window.take();
            let answered = self.ask(resolved, asked).await;
            window.put_back(std::mem::take(&mut asked.messages));
            match answered {
                Err(TurnError::Provider(error)) if is_too_long(&error) && window.narrow() => {
                    let text = "the conversation was too long for the model; its oldest part is left out";
                    self.events.tell(TurnEvent::Notice(text.to_owned()));
                }
                answered => return answered,
            }
        }
    }

    async fn ask(&self, resolved: &Resolved, request: &Request) -> Result<Response, TurnError> {
        let mut sink = |delta| {
            self.events.tell(match delta {
                Delta::Text(text) => TurnEvent::TextDelta(text),
                Delta::Thinking(text) => TurnEvent::ThinkingDelta(text),
            });
        };
        let mut on_retry = |retrying: Retrying<'_>| {
            self.events.tell(TurnEvent::Retrying {
                attempt: retrying.attempt + 1,
                after: retrying.wait,
                reason: retrying.reason.to_string(),
            });
        };
        let policy = &self.engine.parts.limits.retry;
        tokio::select! {
            biased;
            error = self.halt.wait() => Err(error),
            response = retry::call(policy, &*resolved.provider, request, &mut sink, &mut on_retry) => Ok(response?),
        }
    }

    /// Runs the calls of one answer in their order and commits each result.
    async fn call_tools(
        &self,
        message: &Message,
        stop: StopReason,
        running: &mut Running,
    ) -> Result<Vec<Block>, TurnError> {
        let mut results = Vec::new();
        for (place, asked) in message.tool_calls().enumerate() {
            self.halt.now()?;
            self.events.tell(TurnEvent::ToolStarted {
                call_id: asked.id.to_owned(),
                name: asked.name.to_owned(),
                arguments_preview: call::preview(asked.arguments),
            });
            let started = Instant::now();
            // The policy is asked with the configuration of this moment: what was taken from an agent in
            // the middle of a turn is gone.
            let config = self.engine.parts.config.current();
            let id = &self.context.agent;
            let agent = config.agent(id).ok_or_else(|| TurnError::UnknownAgent(id.clone()))?;
            let ((content, is_error), halted) =
                match call::check(agent, &self.engine.parts.registry, &asked, place, stop) {
                    Ok(tool) => self.run_tool(tool, &asked).await?,
                    Err(reason) => ((call::error(&reason), true), None),
                };
            let (call_id, name) = (asked.id.to_owned(), asked.name.to_owned());
            let result =
                Block::ToolResult { call_id: call_id.clone(), name: name.clone(), content, is_error };
            running.result(result.clone())?;
            self.events.tell(TurnEvent::ToolEnded { call_id, name, is_error, took: started.elapsed() });
            if let Some(error) = halted {
                return Err(error);
            }
            results.push(result);
        }
        Ok(results)
    }

    /// Runs one tool. Where the turn is stopped meanwhile, the tool gets a moment to end, so that what it
    /// did is known; the answer then comes with the reason of the stop.
    async fn run_tool(
        &self,
        tool: &dyn Tool,
        asked: &ToolCall<'_>,
    ) -> Result<(call::Answer, Option<TurnError>), TurnError> {
        let own = CallContext { cancel: self.halt.cancel.child_token(), ..self.context.clone() };
        let mut work = std::pin::pin!(call::run(tool, &own, asked.arguments));
        let stopped = tokio::select! {
            biased;
            ended = &mut work => {
                let failed = |source| TurnError::Tool { name: asked.name.to_owned(), source };
                return ended.map(|answer| (answer, None)).map_err(failed);
            }
            error = self.halt.wait() => error,
        };
        own.cancel.cancel();
        match timeout(GRACE, work).await {
            Ok(Ok(answer)) => Ok((answer, Some(stopped))),
            Ok(Err(_)) | Err(_) => Err(stopped),
        }
    }
}

/// Whether a provider says that it was sent too much. There is no code for it that all of them use.
fn is_too_long(error: &ProviderError) -> bool {
    const SIGNS: [&str; 7] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "prompt is too long",
        "input is too long",
        "too many tokens",
    ];
    let ProviderError::Rejected { message, .. } = error else { return false };
    let message = message.to_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// The newest turns that can fit. Where the file is damaged, it is mended.
fn past(running: &mut Running, room: u64) -> Result<Vec<history::PastTurn>, TurnError> {
    let cost = |record: &MessageRecord| window::cost(&record.message.content);
    let past = history::past(running.transcript.file(), room, cost).map_err(|source| {
        TurnError::Transcript { what: "read", path: running.transcript.path().to_owned(), source }
    })?;
    if past.broken > 0 {
        running.transcript.repair()?;
    }
    Ok(past.turns)
}
