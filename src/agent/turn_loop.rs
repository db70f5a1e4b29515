//! The loop of a turn: ask the model and run the tools it calls, until it calls none.
//!
//! Each step is committed before the next begins: the input before the model is asked, its answer before a tool runs,
//! each result before the model is asked again, and the final answer before it is reported.

use std::sync::{Arc, Mutex, PoisonError};

use super::context::ConversationContext;
use super::context_load::LoadedContext;
use super::deadline::Deadline;
use super::engine::Engine;
use super::history_load;
use super::inbox::Inbox;
use super::model_chain::ModelChain;
use super::provenance::Provenance;
use super::repetition::Repetition;
use super::tool_call;
use super::turn::{TurnError, TurnEvent, TurnStop};
use super::turn_recorder::TurnRecorder;
use crate::provider::message::joined_text;
use crate::provider::{Message, Request, Response, Role, StopReason};
use crate::tool::CallContext;

/// The most deliveries before one model call, so that a flood of messages can't hold the turn.
const MAX_DELIVERIES: usize = 16;

/// The sink for a turn's events. A mutex guards it because both the answer's stream and the retry callback report here.
pub(super) struct EventSink<'a>(Mutex<&'a mut (dyn FnMut(TurnEvent) + Send)>);

impl<'a> EventSink<'a> {
    pub(super) fn new(on_event: &'a mut (dyn FnMut(TurnEvent) + Send)) -> Self {
        Self(Mutex::new(on_event))
    }

    pub(super) fn tell(&self, event: TurnEvent) {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(event);
    }

    /// Returns the turn's stop reason from that of its last answer, and sends a person the matching notice. `nothing`
    /// is the notice for an answer without text.
    pub(super) fn ended(&self, stop: StopReason, nothing: Option<&str>) -> TurnStop {
        let notice = |text: &str| self.tell(TurnEvent::Notice(text.to_owned()));
        match stop {
            StopReason::Length => {
                notice("the answer reached the model's limit and is cut");
                TurnStop::Length
            }
            StopReason::Refusal => {
                notice("the provider withheld the answer");
                TurnStop::Refusal
            }
            // No provider returns an answer that ended with one of the last two as complete.
            StopReason::End | StopReason::ToolUse | StopReason::Error | StopReason::Aborted => {
                nothing.into_iter().for_each(notice);
                TurnStop::End
            }
        }
    }
}

/// The inputs of a turn's loop.
pub(super) struct TurnInput {
    pub(super) input: Vec<Message>,
    /// A client's system text.
    pub(super) client: Vec<String>,
    /// flock's own remarks on the input.
    pub(super) guidance: Vec<String>,
    pub(super) provenance: Option<Provenance>,
    pub(super) inbox: Option<Arc<dyn Inbox>>,
    pub(super) line: ModelChain,
    /// The request without its messages.
    pub(super) asked: Request,
    /// Tokens available for the messages.
    pub(super) room: u64,
}

/// The answer that ends a turn.
pub(super) struct FinalAnswer {
    pub(super) message: Message,
    pub(super) response: Response,
    pub(super) stop: TurnStop,
}

/// The state that all steps of a turn share.
pub(super) struct TurnLoop<'a> {
    pub(super) engine: &'a Engine,
    pub(super) halt: &'a Deadline,
    pub(super) events: &'a EventSink<'a>,
    pub(super) context: CallContext,
}

impl TurnLoop<'_> {
    /// Runs the steps up to the final answer, which the caller commits.
    pub(super) async fn run(
        &self,
        conversation: TurnInput,
        running: &mut TurnRecorder,
    ) -> Result<FinalAnswer, TurnError> {
        let TurnInput { input, client, guidance, provenance, inbox, mut line, mut asked, room } =
            conversation;
        let said = running.said(input, (client, guidance), provenance);
        let LoadedContext { mut context, ends } = self.past(&line, &asked, room, running)?;
        // The input is added before it is committed, because room has to be made for it as well.
        context.ask(&said);
        // This comes before the input is committed: if the agent is frozen or has no budget, the input has not been
        // delivered and will be offered again.
        self.may_ask(running).await?;
        self.make_room(&mut line, &mut context, running, &mut asked).await?;
        let mut reserved = self.reserve(&asked, &context, running).await?;
        running.begin(&said)?;
        context.begun();
        self.events.tell(TurnEvent::Began);
        // Opening a damaged transcript mends it. A person is told if the damaged copy could not be removed.
        for backup in running.transcript.take_backups() {
            self.events.tell(TurnEvent::Notice(history_load::kept(&backup)));
        }
        if let Some(notice) = line.passed.take() {
            self.events.tell(TurnEvent::Notice(notice));
        }
        if let (Some(inbox), Some(provenance)) =
            (&inbox, said.last().and_then(|record| record.provenance.as_ref()))
        {
            inbox.committed(provenance).await;
        }
        // Repetitions are counted within one turn: a person may well ask for the same call again.
        let mut repetition = Repetition::default();
        let mut asked_again = false;
        loop {
            let mut response =
                self.ask_with_fallback(&mut line, &mut asked, &mut context, running, reserved).await?;
            running.steps += 1;
            running.usage += response.usage;
            tool_call::tidy(&mut response.content);
            let message = Message { role: Role::Assistant, content: std::mem::take(&mut response.content) };
            if message.tool_calls().next().is_some() {
                let answer = running.answered(message.clone(), &response)?;
                let results = self.call_tools(&message, response.stop, running, &mut repetition).await?;
                context.step(&answer, results);
            } else {
                let is_empty = joined_text(&message.content).trim().is_empty();
                // An empty refusal is the provider's decision, so the model is not asked again after one.
                if asked_again || !is_empty || response.stop == StopReason::Refusal {
                    let nothing = is_empty.then_some("the model gave an empty answer");
                    // The prefix ends before this turn's input. The next turn reads input and answer from the
                    // transcript.
                    self.cache_prefix(&line, &asked, &context, &ends, running).await;
                    return Ok(FinalAnswer {
                        stop: self.events.ended(response.stop, nothing),
                        message,
                        response,
                    });
                }
                // Some models now and then end without a word, most often after a tool result. Asked once more, they
                // answer.
                asked_again = true;
            }
            self.may_ask(running).await?;
            if let Some(inbox) = &inbox {
                self.deliver(&**inbox, running, &mut context).await?;
            }
            self.make_room(&mut line, &mut context, running, &mut asked).await?;
            reserved = self.reserve(&asked, &context, running).await?;
        }
    }

    /// Checks the step limit, then waits while the agent is frozen, then checks for a stop.
    async fn may_ask(&self, running: &TurnRecorder) -> Result<(), TurnError> {
        let limit = self.engine.parts.limits.steps;
        // The limit is checked first: a turn that has to end anyway should not wait for a frozen agent.
        if running.steps >= limit {
            return Err(TurnError::Steps(limit));
        }
        self.thawed().await?;
        self.halt.now()
    }

    /// Waits while the agent is frozen, and sends a notice to the client if it has to wait.
    pub(super) async fn thawed(&self) -> Result<(), TurnError> {
        if self.halt.is_frozen() {
            let agent = &self.context.agent;
            let text = format!("{agent} is frozen; it goes on after: flock thaw {agent}");
            self.events.tell(TurnEvent::Notice(text));
        }
        self.halt.thawed().await
    }

    /// Commits the messages that have arrived, for the model to read with the next request.
    async fn deliver(
        &self,
        inbox: &dyn Inbox,
        running: &mut TurnRecorder,
        context: &mut ConversationContext,
    ) -> Result<(), TurnError> {
        for _ in 0..MAX_DELIVERIES {
            // Only messages that fit are taken, so that a delivery can't force the model's own work out of the context.
            let Some(delivery) = inbox.take(context.free()).await else { break };
            let record = running.delivered(delivery)?;
            // Reported right after the commit: a delivery that is not reported would be offered again.
            if let Some(provenance) = &record.provenance {
                inbox.committed(provenance).await;
            }
            context.deliver(&record);
        }
        Ok(())
    }
}
