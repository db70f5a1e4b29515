//! A turn that another program runs. It begins, is charged, recorded and ended like any other turn, with a [`Runtime`]
//! in place of the loop of model calls.
//!
//! One task owns the turn. It receives the program's events and, through [`TurnRouter`], what the program's models ask of
//! flock. Each call of flock's tools is committed, decided, run and its result committed here; `parallel_calls` decides which
//! of them run in parallel. Each report of another call is written down.

mod call_tracker;
mod flock_calls;
mod outside_turn;
mod parallel_calls;
mod program_quota;
mod reported_calls;
mod streamed_text;
mod turn_reservation;
mod turn_router;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::call_tracker::{CallTracker, UnfinishedCall};
use self::parallel_calls::{CallEvent, ParallelCalls};
pub(super) use self::program_quota::ProgramQuota;
use self::streamed_text::{StreamedText, TextUpdate};
pub(super) use self::turn_router::TurnRouter;
use self::turn_router::{Inbound, TurnRegistration};
pub use self::turn_router::{IncomingCall, ProgramReport, ProgramSource, ToolCallResponse};
use super::estimate;
use super::history;
use super::oversight::ToolCallRecord;
use super::recent_exchanges::{self, EarlierExchanges};
use super::repetition::Repetition;
use super::reservation::CallReservation;
use super::result_limits;
use super::tool_call;
use super::tool_trace;
use super::transcript::{Transcript, TranscriptError};
use super::turn::{TurnError, TurnEvent, TurnOutcome, TurnRequest, TurnScope};
use super::turn_recorder::TurnRecorder;
use crate::config::Effort;
use crate::id::{SessionKey, hex};
use crate::provider::message::ToolCall;
use crate::provider::{Block, Message, Response, Role};
use crate::runtime::{
    PauseReason, Runtime, RuntimeError, RuntimeEvent, RuntimeReply, RuntimeRequest, ToolEvent,
};
use crate::store::Session;

/// Interval at which a turn checks if its agent was frozen. The program itself can't be stopped between two steps.
const FREEZE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Time to wait for reports of ended calls after the answer has arrived.
const END_REPORT_WAIT: Duration = Duration::from_secs(1);

/// The result of a call whose program does not report its end.
const NO_END_REPORT: &str = "its end was not reported";

/// A turn that has begun in the database, with what it needs.
pub(super) struct DelegatedTurn<'a, 's> {
    pub(super) scope: &'a TurnScope<'s>,
    pub(super) runtime: &'a Arc<dyn Runtime>,
    /// The program's prompt about the agent.
    pub(super) system: String,
    pub(super) session: &'a Session,
    /// The amount of thinking that the model should do.
    pub(super) effort: Option<Effort>,
    /// The admission of the turn by its agent's quotas.
    pub(super) quota: ProgramQuota,
}

/// A turn while its program runs.
struct RunningTurn<'r> {
    recorder: &'r mut TurnRecorder,
    reservation: CallReservation,
    answer: AnswerState,
}

/// The state of the answer so far.
#[derive(Default)]
struct AnswerState {
    /// The text since the last call.
    text: String,
    /// The part of the text that was sent to the client.
    shown: StreamedText,
    calls: CallTracker,
    repetition: Repetition,
    /// Names of the committed calls.
    names: HashSet<String>,
}

impl DelegatedTurn<'_, '_> {
    /// Runs the turn to its end.
    pub(super) async fn run(
        self,
        request: TurnRequest,
        mut recorder: TurnRecorder,
    ) -> Result<TurnOutcome, TurnError> {
        let (reply, text) = match self.work(request, &mut recorder).await {
            Ok(done) => done,
            Err(error) => {
                let error = self.quota.explain(self.scope.engine, error).await;
                return Err(recorder.failed(error).await);
            }
        };
        let nothing = text.trim().is_empty().then_some("the agent said nothing");
        self.quota.answered();
        let stop = self.scope.events.ended(reply.stop, nothing);
        let content: Vec<Block> = (!text.is_empty()).then(|| Block::text(text.clone())).into_iter().collect();
        let usage = reply.usage.unwrap_or_default();
        // The program's own model calls are not visible here, so the turn counts as one step.
        recorder.steps = 1;
        recorder.usage = usage;
        let model = recorder.route.model.clone();
        let message = Message { role: Role::Assistant, content };
        let response = Response { content: Vec::new(), stop: reply.stop, usage };
        let (steps, usage) = recorder.done(message, &response).await?;
        Ok(TurnOutcome { text, stop, calls: Vec::new(), usage, model, steps })
    }

    async fn work(
        &self,
        request: TurnRequest,
        recorder: &mut TurnRecorder,
    ) -> Result<(RuntimeReply, String), TurnError> {
        let TurnRequest { input, context, guidance, provenance, inbox, .. } = request;
        let said = recorder.said(Vec::new(), input, (context, guidance), provenance);
        // The program gets the same words as a model would, with the time and the remarks beside the input.
        let messages = said.iter().map(|record| history::replay(record, &self.scope.engine.zone)).collect();
        // Read before the new input is written to the transcript, so that it contains only earlier exchanges.
        let conversation = conversation(self.session);
        let EarlierExchanges { recent, missed } = self.before(&conversation, &recorder.transcript).await?;
        let order = RuntimeRequest {
            agent: self.scope.context.agent.clone(),
            session: self.scope.context.session.clone(),
            turn: self.scope.context.turn,
            model: recorder.route.model.clone(),
            effort: self.effort,
            conversation,
            system: self.system.clone(),
            messages,
            recent,
            missed,
        };
        // This comes before the input is committed: if the agent is frozen or has no budget, the input has not been
        // delivered and will be offered again.
        self.scope.deadline.thawed().await?;
        self.scope.deadline.now()?;
        let reservation = turn_reservation::reserve(self.scope, &**self.runtime, &order).await?;
        // From here on, the program's calls are routed to this turn.
        let source = ProgramSource { agent: order.agent.clone(), conversation: order.conversation.clone() };
        let (registration, inbound) = self.scope.engine.router.register(&source);
        recorder.begin(&said)?;
        self.scope.events.tell(TurnEvent::Began);
        if let (Some(inbox), Some(provenance)) =
            (&inbox, said.last().and_then(|record| record.provenance.as_ref()))
        {
            inbox.committed(provenance).await;
        }
        // The program has tools of its own, so it can't begin earlier.
        self.scope.may_change().await?;
        let mut turn = RunningTurn { recorder, reservation, answer: AnswerState::default() };
        let reply = match self.follow(&order, (registration, inbound), &mut turn).await {
            Ok(reply) => reply,
            Err(error) => {
                // The results of these calls are written with the turn's end, as calls whose outcome is unknown.
                for open in turn.answer.calls.close() {
                    self.tell_end(&reported_calls::called(self.runtime.name(), &open, None)).await;
                }
                return Err(error);
            }
        };
        // These calls ended with the answer, but their ends were not reported.
        for open in turn.answer.calls.close() {
            self.ended(open, None, &mut turn).await?;
        }
        let RunningTurn { recorder, reservation, mut answer } = turn;
        reservation.estimate(|seen| seen.output = estimate::text_cost(&answer.text));
        match reply.usage {
            Some(usage) => reservation.complete(usage),
            None => reservation.start_answer(),
        }
        recorder.settle(reservation);
        self.show(answer.shown.ended(&answer.text));
        Ok((reply, answer.text))
    }

    /// Returns the earlier exchanges for the program, if it wants them. Reading a long transcript takes time, so it
    /// runs on a blocking thread.
    async fn before(
        &self,
        conversation: &str,
        transcript: &Transcript,
    ) -> Result<EarlierExchanges, TurnError> {
        // Only programs that may have to begin a conversation anew want the earlier exchanges.
        if !self.runtime.wants_recent() {
            return Ok(EarlierExchanges::default());
        }
        let path = transcript.path().to_owned();
        let file = transcript.file().try_clone().map_err(TranscriptError::reading(&path))?;
        let (runtime, session) = (Arc::clone(self.runtime), self.scope.context.session.clone());
        let (agent, conversation, own) =
            (self.scope.context.agent.clone(), conversation.to_owned(), path.clone());
        let handle = Handle::current();
        let read = tokio::task::spawn_blocking(move || {
            let known = handle.block_on(runtime.knows(&session, &conversation))?;
            let read = recent_exchanges::before(&file, &agent, known);
            Ok::<_, TurnError>(read.map_err(TranscriptError::reading(&own))?)
        });
        read.await.map_err(|stopped| TranscriptError::reading(&path)(stopped.into()))?
    }

    /// Runs the program and handles its events and calls in the order they come.
    async fn follow(
        &self,
        order: &RuntimeRequest,
        (registration, inbound): (TurnRegistration<'_>, mpsc::Receiver<Inbound>),
        turn: &mut RunningTurn<'_>,
    ) -> Result<RuntimeReply, TurnError> {
        let mut calls = ParallelCalls::new(inbound);
        let followed = self.attend(order, (registration, &mut calls), turn).await;
        if followed.is_err() {
            // Each running call gets a moment to end, so that its effects are known.
            let mut left = calls.end();
            while let Some(done) = left.next().await {
                // The turn has already failed, so further errors change nothing.
                drop(self.called(done, turn));
            }
        }
        followed
    }

    async fn attend<'c>(
        &'c self,
        order: &RuntimeRequest,
        (registration, calls): (TurnRegistration<'_>, &mut ParallelCalls<'c>),
        turn: &mut RunningTurn<'_>,
    ) -> Result<RuntimeReply, TurnError> {
        // Unbounded: the callback is synchronous, so it can't wait for room in a channel.
        let (sender, mut events) = mpsc::unbounded_channel();
        let mut tell = move |event| drop(sender.send(event));
        let mut look = tokio::time::interval(FREEZE_CHECK_INTERVAL);
        let reply = {
            turn.reservation.start_attempt();
            let mut work = std::pin::pin!(self.runtime.run(order, &mut tell));
            loop {
                tokio::select! {
                    // Biased and in this order: a stop comes first, and events that came before the reply are handled
                    // before it.
                    biased;
                    error = self.scope.deadline.wait() => return Err(error),
                    Some(event) = events.recv() => self.on_event(event, turn).await?,
                    Some(event) = calls.next() => self.on_call_event(event, calls, turn).await?,
                    reply = &mut work => break reply,
                    _ = look.tick() => self.check_not_frozen()?,
                }
            }
        };
        // Events that came before the reply, such as the last report of a tool, belong to the turn.
        while let Ok(event) = events.try_recv() {
            self.on_event(event, turn).await?;
        }
        if reply.is_ok() {
            self.last_words(calls, turn).await?;
        }
        // New calls are refused from here on. Those that were accepted are still answered.
        calls.close();
        // Dropping the registration sends later calls of this conversation elsewhere.
        drop(registration);
        loop {
            tokio::select! {
                biased;
                error = self.scope.deadline.wait() => return Err(error),
                event = calls.next() => match event {
                    Some(event) => self.on_call_event(event, calls, turn).await?,
                    None => break,
                },
            }
        }
        reply.map_err(|error| {
            // A program that never began cost nothing, whatever was assumed when it was asked.
            if !error.may_have_begun() {
                turn.reservation.discard_attempt();
            }
            // The next turn of the session checks first if there is room for a call of this size.
            if let RuntimeError::Paused { call, .. } = &error {
                self.scope.engine.router.set_shortfall(&order.session, Some(*call));
            }
            error.into()
        })
    }

    /// Waits for reports of calls that ended: they may come a moment after the answer that used their results.
    async fn last_words<'c>(
        &'c self,
        calls: &mut ParallelCalls<'c>,
        turn: &mut RunningTurn<'_>,
    ) -> Result<(), TurnError> {
        let end = Instant::now() + END_REPORT_WAIT;
        let agent = &self.scope.context.agent;
        while turn.answer.calls.has_open() && self.scope.engine.router.reports_call_ends(agent) {
            match tokio::time::timeout_at(end, calls.next()).await {
                Ok(Some(event)) => self.on_call_event(event, calls, turn).await?,
                // This program does not report ends, so later turns of the agent do not wait for them.
                Ok(None) | Err(_) => self.scope.engine.router.set_end_reported(agent, false),
            }
        }
        Ok(())
    }

    /// Fails if the agent was frozen. Its program is then stopped, because its own tools would otherwise go on.
    fn check_not_frozen(&self) -> Result<(), TurnError> {
        use futures_util::FutureExt as _;
        let agent = &self.scope.context.agent;
        match self.scope.engine.parts.oversight.thawed(agent).now_or_never() {
            Some(()) => Ok(()),
            // The turn fails instead of waiting, because its program can't be held.
            None => Err(PauseReason::Frozen(agent.clone()).into()),
        }
    }

    async fn on_event(&self, event: RuntimeEvent, turn: &mut RunningTurn<'_>) -> Result<(), TurnError> {
        // A usage report does not mean that the answer has begun.
        if !matches!(event, RuntimeEvent::Usage(_)) {
            turn.reservation.start_answer();
        }
        match event {
            RuntimeEvent::Text(text) => {
                turn.answer.text.push_str(&text);
                self.show(turn.answer.shown.grown(&turn.answer.text));
            }
            RuntimeEvent::Replaced(text) => {
                turn.answer.text = text;
                self.show(turn.answer.shown.anew(&turn.answer.text));
            }
            // The call itself arrives through the [`TurnRouter`] and is announced then.
            RuntimeEvent::FlockTool => {
                // Only a model can call a tool. A text may be the program's own words about a used-up quota.
                self.quota.answered();
                // The text before a call is no part of the final answer.
                turn.answer.text.clear();
                turn.answer.shown.called();
            }
            RuntimeEvent::Thinking(text) => self.scope.events.tell(TurnEvent::ThinkingDelta(text)),
            RuntimeEvent::Tool(event) => {
                self.quota.answered();
                self.reported(event, turn).await?;
            }
            RuntimeEvent::Trace(told) => self.log(&told, turn),
            RuntimeEvent::Usage(usage) => {
                turn.reservation.report_interim(usage);
                // Set at once, so that a turn that fails later still shows what it cost.
                turn.recorder.usage = usage;
            }
        }
        Ok(())
    }

    /// Sends the client what is new in the answer's text.
    fn show(&self, next: TextUpdate) {
        match next {
            TextUpdate::Nothing => {}
            TextUpdate::More(text) => self.scope.events.tell(TurnEvent::TextDelta(text)),
            TextUpdate::Replaced => self.scope.events.tell(TurnEvent::TextReplaced),
        }
    }

    fn log(&self, told: &str, turn: &mut RunningTurn<'_>) {
        for line in turn.recorder.trace.push(told) {
            tracing::info!(agent = %self.scope.context.agent, "{line}");
        }
    }

    async fn on_call_event<'c>(
        &'c self,
        event: CallEvent,
        calls: &mut ParallelCalls<'c>,
        turn: &mut RunningTurn<'_>,
    ) -> Result<(), TurnError> {
        match event {
            CallEvent::Call(call) => self.call(call, calls, turn),
            CallEvent::Done(done) => self.called(*done, turn),
            CallEvent::Report(ProgramReport::Tool(event)) => self.reported(event, turn).await,
            // The answer's end says the same, and reports may still be on their way.
            CallEvent::Report(ProgramReport::Over) => Ok(()),
        }
    }

    /// Writes down a program's report of a call of its own.
    async fn reported(&self, event: ToolEvent, turn: &mut RunningTurn<'_>) -> Result<(), TurnError> {
        match event {
            ToolEvent::Began { call, tool, arguments } => self.began(&call, tool, arguments, turn),
            ToolEvent::Ended { call, tool, result, error, took } => {
                // The program reports ends, so waiting for them makes sense.
                self.scope.engine.router.set_end_reported(&self.scope.context.agent, true);
                let Ok(open) = turn.answer.calls.end(&call) else { return Ok(()) };
                let open = match open {
                    Some(open) => open,
                    None => {
                        let open =
                            reported_calls::unannounced_call(call.clone(), turn.answer.name(&call), tool);
                        self.commit(&open.as_call(), turn)?;
                        open
                    }
                };
                // A failed call's error is its result for the record.
                let text = error.clone().unwrap_or(result);
                self.ended(open, Some((error.is_some(), took, text)), turn).await
            }
        }
    }

    fn began(
        &self,
        id: &str,
        tool: String,
        arguments: serde_json::Value,
        turn: &mut RunningTurn<'_>,
    ) -> Result<(), TurnError> {
        if turn.answer.calls.is_open(id) {
            return Ok(());
        }
        let open = UnfinishedCall::new(id.to_owned(), turn.answer.name(id), tool, arguments);
        if turn.answer.calls.begin(open.clone()) { self.commit(&open.as_call(), turn) } else { Ok(()) }
    }

    /// Writes a call to the transcript and announces it. The text before it is no part of the final answer.
    fn commit(&self, call: &ToolCall<'_>, turn: &mut RunningTurn<'_>) -> Result<(), TurnError> {
        turn.recorder.calls(std::mem::take(&mut turn.answer.text), call)?;
        turn.answer.shown.called();
        self.scope.events.tell(tool_call::started(call));
        Ok(())
    }

    /// Writes down the end of a call as `(failed, running time, result)`, or `None` if the program did not report one.
    async fn ended(
        &self,
        open: UnfinishedCall,
        end: Option<(bool, Option<Duration>, String)>,
        turn: &mut RunningTurn<'_>,
    ) -> Result<(), TurnError> {
        let text = end.as_ref().map_or(NO_END_REPORT, |(_, _, text)| text.as_str());
        let called = reported_calls::called(
            self.runtime.name(),
            &open,
            end.as_ref().map(|(failed, took, _)| (*failed, *took)),
        );
        turn.recorder.result(Block::ToolResult {
            call_id: open.name,
            name: open.tool,
            content: result_limits::text(text).into(),
            is_error: called.is_error,
        })?;
        self.tell_end(&called).await;
        Ok(())
    }

    /// Records and announces the end of a call.
    async fn tell_end(&self, called: &ToolCallRecord) {
        tool_trace::reported(&self.scope.context, called);
        self.scope.engine.parts.oversight.called(&self.scope.context, called).await;
        self.scope.events.tell(reported_calls::ended(called));
    }
}

impl AnswerState {
    /// Returns a name for a call that is unique within this turn. Some model servers number the calls of each answer
    /// from the start, so ids repeat.
    fn name(&mut self, id: &str) -> String {
        // The program's own id is kept if it is free, so that the records can be compared with its log.
        let mut name = id.to_owned();
        let mut next = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{id}.{next}");
            next += 1;
        }
        name
    }
}

/// Returns the id by which a program knows a session's conversation: the session's key, and the time in Unix
/// milliseconds at which the conversation began.
///
/// The time makes a reset session, or a later agent's session of the same name, another conversation, whatever the
/// program has kept. OpenClaw writes keys in lower case, so a key with capitals also gets a digest.
#[must_use]
pub fn conversation(session: &Session) -> String {
    let key = session.key.as_str();
    let mut name = key.to_ascii_lowercase();
    if name != key {
        let digest = Sha256::digest(key.as_bytes());
        name = format!("{name}.{}", hex(&digest[..4]));
    }
    format!("{name}.{}", session.began_at)
}

/// Returns the session of a conversation id, if its key has no capitals.
pub(super) fn session_of(conversation: &str) -> Option<SessionKey> {
    let (key, began_at) = conversation.rsplit_once('.')?;
    // The suffix has to be a number: a key may contain dots itself.
    began_at.parse::<i64>().ok()?;
    key.parse().ok()
}

#[cfg(test)]
#[path = "delegated_tests.rs"]
mod tests;
