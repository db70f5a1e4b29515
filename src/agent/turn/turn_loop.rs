//! The loop of a turn: ask the model and run the tools it calls, until it calls none.
//!
//! Each step is committed before the next begins: the input before the model is asked, its answer before a tool runs,
//! each result before the model is asked again, and the final answer before it is reported.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::conversation::{self, LoadedContext, cache_prefix, make_room};
use super::model_call::{ask_with_fallback, reserve};
use super::state::{TurnScope, TurnState};
use super::{TurnError, TurnEvent, TurnRequest, TurnStop};
use crate::agent::call_result::CallResult;
use crate::agent::client_tools::{ClientCall, ClientSide, ClientTools, client_call_id};
use crate::agent::history_load;
use crate::agent::inbox::Inbox;
use crate::agent::model_chain::ModelChain;
use crate::agent::repetition::Repetition;
use crate::agent::reservation::CallReservation;
use crate::agent::tool_call::{self, ToolCaller};
use crate::agent::transcript::MessageRecord;
use crate::agent::turn_recorder::TurnRecorder;
use crate::provider::message::joined_text;
use crate::provider::{Block, Message, Request, Response, Role, StopReason};

/// The most deliveries before one model call, so that a flood of messages can't hold the turn.
const MAX_DELIVERIES: usize = 16;

/// The model of a turn, and the request to it before the conversation is added.
pub(in crate::agent) struct PlannedRequest {
    pub(in crate::agent) model_chain: ModelChain,
    pub(in crate::agent) model_request: Request,
    /// Tokens available for the messages.
    pub(in crate::agent) room: u64,
}

/// The answer that ends a turn.
pub(in crate::agent) struct FinalAnswer {
    pub(in crate::agent) message: Message,
    pub(in crate::agent) response: Response,
    pub(in crate::agent) stop: TurnStop,
    /// The calls that are handed to the client. The message is then committed already.
    pub(in crate::agent) calls: Vec<ClientCall>,
}

/// A running turn of flock's own loop.
pub(in crate::agent) struct TurnLoop<'a, 's> {
    scope: &'a TurnScope<'s>,
    state: TurnState<'a>,
    inbox: Option<Arc<dyn Inbox>>,
    /// The tools that the client brings.
    client: ClientTools,
    /// Byte offsets of the loaded conversation, as in [`LoadedContext`].
    ends: Vec<u64>,
    /// Repetitions are counted within one turn: a person may well ask for the same call again.
    repetition: Repetition,
}

impl<'a, 's> TurnLoop<'a, 's> {
    /// Runs the steps up to the final answer, which the caller commits.
    pub(in crate::agent) async fn run(
        scope: &'a TurnScope<'s>,
        request: TurnRequest,
        planned: PlannedRequest,
        recorder: &'a mut TurnRecorder,
    ) -> Result<FinalAnswer, TurnError> {
        let TurnRequest { input, context: beside, guidance, provenance, inbox, mut client, .. } = request;
        let PlannedRequest { model_chain, model_request, room } = planned;
        let LoadedContext { context, ends } =
            conversation::load(scope, &model_chain, &model_request, room, recorder)?;
        let results = client.answers(context.open_calls())?;
        let said = recorder.said(results, input, (beside, guidance), provenance);
        let state = TurnState { model_chain, model_request, context, recorder };
        let mut turn = Self { scope, state, inbox, client, ends, repetition: Repetition::default() };
        let reserved = turn.begin(&said).await?;
        turn.steps(reserved).await
    }

    /// Commits the input, once the first model call may be made.
    async fn begin(&mut self, said: &[MessageRecord]) -> Result<CallReservation, TurnError> {
        let Self { scope, state, inbox, .. } = self;
        // The input is added before it is committed, because room has to be made for it as well.
        state.context.ask(said);
        // This comes before the input is committed: if the agent is frozen or has no budget, the input has not been
        // delivered and will be offered again.
        may_ask(scope, state.recorder).await?;
        make_room(scope, state).await?;
        let reserved = reserve(scope, state).await?;
        state.recorder.begin(said)?;
        state.context.begun();
        scope.events.tell(TurnEvent::Began);
        // Opening a damaged transcript mends it. A person is told if the damaged copy could not be removed.
        for backup in state.recorder.transcript.take_backups() {
            scope.events.tell(TurnEvent::Notice(history_load::kept(&backup)));
        }
        if let Some(notice) = state.model_chain.passed.take() {
            scope.events.tell(TurnEvent::Notice(notice));
        }
        if let (Some(inbox), Some(provenance)) =
            (inbox, said.last().and_then(|record| record.provenance.as_ref()))
        {
            inbox.committed(provenance).await;
        }
        Ok(reserved)
    }

    /// Asks the model and runs the tools it calls, until it calls none.
    async fn steps(&mut self, mut reserved: CallReservation) -> Result<FinalAnswer, TurnError> {
        let scope = self.scope;
        let mut asked_again = false;
        loop {
            let (mut response, answered) = ask_with_fallback(scope, &mut self.state, reserved).await?;
            let recorder = &mut *self.state.recorder;
            recorder.steps += 1;
            recorder.usage += response.usage;
            tool_call::tidy(&mut response.content);
            let message = Message { role: Role::Assistant, content: std::mem::take(&mut response.content) };
            if message.tool_calls().next().is_some() {
                // Settled before the tools run, which may take long.
                drop(answered);
                let answer = recorder.answered(message.clone(), &response)?;
                let AnswerCalls { results, handed_out } = self.call_tools(&message, response.stop).await?;
                if !handed_out.is_empty() {
                    // The turn ends here. Nothing of it waits for the client.
                    let (stop, calls) = (TurnStop::ToolCalls, handed_out);
                    return Ok(FinalAnswer { message, response, stop, calls });
                }
                self.state.context.step(&answer, results);
            } else {
                let is_empty = joined_text(&message.content).trim().is_empty();
                // An empty refusal is the provider's decision, so the model is not asked again after one.
                if !self.client.choice.is_auto()
                    && matches!(response.stop, StopReason::End | StopReason::ToolUse)
                {
                    return Err(TurnError::NoCall);
                }
                if asked_again || !is_empty || response.stop == StopReason::Refusal {
                    recorder.settle(answered);
                    let nothing = is_empty.then_some("the model gave an empty answer");
                    // The prefix ends before this turn's input. The next turn reads input and answer from the
                    // transcript.
                    cache_prefix(scope, &self.state, &self.ends).await;
                    return Ok(FinalAnswer {
                        stop: scope.events.ended(response.stop, nothing),
                        message,
                        response,
                        calls: Vec::new(),
                    });
                }
                // Some models now and then end without a word, most often after a tool result. Asked once more, they
                // answer.
                asked_again = true;
                drop(answered);
            }
            may_ask(scope, self.state.recorder).await?;
            // A message that comes with the second attempt has two attempts of its own.
            asked_again &= !self.deliver().await?;
            make_room(scope, &mut self.state).await?;
            reserved = reserve(scope, &self.state).await?;
        }
    }

    /// Commits the messages that have arrived, for the model to read with the next request. Returns `true` if there were any.
    async fn deliver(&mut self) -> Result<bool, TurnError> {
        let Some(inbox) = &self.inbox else { return Ok(false) };
        let mut has_delivered = false;
        for _ in 0..MAX_DELIVERIES {
            // Only messages that fit are taken, so that a delivery can't force the model's own work out of the context.
            let Some(delivery) = inbox.take(self.state.context.free()).await else { break };
            let record = self.state.recorder.delivered(delivery)?;
            // Reported right after the commit: a delivery that is not reported would be offered again.
            if let Some(provenance) = &record.provenance {
                inbox.committed(provenance).await;
            }
            self.state.context.deliver(&record);
            has_delivered = true;
        }
        Ok(has_delivered)
    }

    /// Runs the calls of one answer in order and commits each result. Calls of the client's tools are left to the client.
    async fn call_tools(&mut self, message: &Message, stop: StopReason) -> Result<AnswerCalls, TurnError> {
        let Self { scope, state, repetition, client, .. } = self;
        scope.may_change().await?;
        let (mut results, mut handed_out) = (Vec::new(), Vec::new());
        for (place, model_request) in message.tool_calls().enumerate() {
            // The freeze and the deadline are looked at before each call, not once for the answer: one call may take
            // long.
            scope.thawed().await?;
            scope.deadline.now()?;
            let (call_id, name) = (model_request.id.to_owned(), model_request.name.to_owned());
            // The client hears of its own calls at the end of the turn, if it does.
            let is_clients = client.find(&name).is_some();
            if !is_clients {
                scope.events.tell(tool_call::started(&model_request));
            }
            let started = Instant::now();
            // In flock's own loop nobody gives up a single call: only a stop of the turn ends it.
            let given_up = CancellationToken::new();
            let caller = ToolCaller {
                engine: scope.engine,
                deadline: scope.deadline,
                context: &scope.context,
                given_up: &given_up,
                client: Some(ClientSide { tools: client, handed_out: handed_out.len() }),
                progress: None,
            };
            let ended = caller.call(&model_request, place, stop, started).await?;
            if ended.is_handed_out {
                let (id, arguments) =
                    (client_call_id(scope.context.turn, place), model_request.arguments.clone());
                handed_out.push(ClientCall { id, name, arguments });
                continue;
            }
            let Some(CallResult { mut content, is_error, .. }) = ended.answer else {
                return Err(ended.halted.unwrap_or(TurnError::Cancelled));
            };
            let repeated =
                tool_call::count_repetition(repetition, &name, model_request.arguments, &mut content);
            let halted = ended.halted.or(repeated);
            let result = Block::ToolResult {
                call_id: call_id.clone(),
                name: name.clone(),
                content: content.into(),
                is_error,
            };
            // Committed before it is reported: nobody may hear of a result that a crash could still lose.
            state.recorder.result(result.clone())?;
            if !is_clients {
                scope.events.tell(TurnEvent::ToolEnded { call_id, name, is_error, took: started.elapsed() });
            }
            if let Some(error) = halted {
                return Err(error);
            }
            results.push(result);
        }
        Ok(AnswerCalls { results, handed_out })
    }
}

/// The calls of one answer.
struct AnswerCalls {
    /// The results of those that were run or refused.
    results: Vec<Block>,
    /// Those that the client has to answer.
    handed_out: Vec<ClientCall>,
}

/// Checks the step limit, then waits while the agent is frozen, then checks for a stop.
async fn may_ask(scope: &TurnScope<'_>, recorder: &TurnRecorder) -> Result<(), TurnError> {
    let limit = scope.engine.parts.limits.steps;
    // The limit is checked first: a turn that has to end anyway should not wait for a frozen agent.
    if recorder.steps >= limit {
        return Err(TurnError::Steps(limit));
    }
    scope.thawed().await?;
    scope.deadline.now()
}
