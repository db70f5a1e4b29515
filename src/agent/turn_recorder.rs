//! A turn that has begun. Everything it does is committed through here, and its end is always recorded, even if its
//! future is dropped in the middle.

use std::sync::Arc;

use super::inbox::Delivery;
use super::prompt::without_marks;
use super::provenance::Provenance;
use super::reservation::CallReservation;
use super::trace_buffer::TraceBuffer;
use super::transcript::{
    CompactionRecord, MessageRecord, Record, Transcript, TurnPhase, TurnRecord, unknown_result,
};
use super::turn::TurnError;
use crate::clock;
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::id::TurnId;
use crate::provider::message::ToolCall;
use crate::provider::{Block, Message, Response, Role, Route, StopReason, Usage};
use crate::store::{CallSettlement, PendingCall, Store, TokenCounts, TurnCompletion, TurnState};

/// The most bytes of an error message that are stored.
const MAX_ERROR_BYTES: usize = 1_000;

/// A running turn.
pub(super) struct TurnRecorder {
    pub(super) store: Arc<Store>,
    pub(super) transcript: Transcript,
    pub(super) turn: TurnId,
    pub(super) route: Route,
    pub(super) steps: u32,
    pub(super) usage: Usage,
    /// The program that runs the turn, or `None` for flock's own loop.
    pub(super) runtime: Option<String>,
    /// The program's log, for people.
    pub(super) trace: TraceBuffer,
    /// Calls whose result is not committed yet, as id and name.
    open: Vec<(String, String)>,
    /// Calls that the client has to answer.
    pending: Vec<PendingCall>,
    /// The usage of the last model call, which is written together with the turn's end.
    settlement: Option<CallSettlement>,
    /// `true` once the transcript has the turn's beginning. Until then it has nothing about the turn.
    has_begun: bool,
    ended: bool,
}

impl TurnRecorder {
    /// Creates the turn. Its beginning must already be committed in the database.
    pub(super) fn new(store: Arc<Store>, transcript: Transcript, turn: TurnId, route: Route) -> Self {
        Self {
            store,
            transcript,
            turn,
            route,
            steps: 0,
            usage: Usage::default(),
            runtime: None,
            trace: TraceBuffer::default(),
            open: Vec::new(),
            pending: Vec::new(),
            settlement: None,
            has_begun: false,
            ended: false,
        }
    }

    /// Creates the records of the turn's input, after those of the results of calls that were pending. A client's system
    /// text and flock's own remarks are stored with the last message of a user.
    pub(super) fn said(
        &self,
        results: Vec<Block>,
        input: Vec<Message>,
        (context, guidance): (Vec<String>, Vec<String>),
        provenance: Option<Provenance>,
    ) -> Vec<MessageRecord> {
        let now = clock::unix_ms();
        let results = results.into_iter().map(|result| Message { role: Role::Tool, content: vec![result] });
        let mut said: Vec<MessageRecord> =
            results.chain(input).map(|message| MessageRecord::new(self.turn, now, message)).collect();
        if let Some(last) = said.iter_mut().rfind(|record| record.message.role == Role::User) {
            last.context = Some(context);
            last.guidance = guidance;
            // Text of others must not be able to imitate what flock puts beside a message.
            if provenance.is_some() {
                for block in &mut last.message.content {
                    if let Block::Text { text, .. } = block {
                        *text = without_marks(text);
                    }
                }
            }
            last.provenance = provenance;
        }
        said
    }

    /// Commits the turn's beginning and its input.
    pub(super) fn begin(&mut self, said: &[MessageRecord]) -> Result<(), TurnError> {
        let mut records = vec![Record::Turn(TurnRecord {
            model: Some(self.route.model.to_string()),
            runtime: self.runtime.clone(),
            ..self.mark(TurnPhase::Started)
        })];
        records.extend(said.iter().cloned().map(|message| Record::Message(Box::new(message))));
        // One append, so that the beginning and the input are committed together.
        self.transcript.append(&records)?;
        self.has_begun = true;
        Ok(())
    }

    /// Commits a message that was delivered in the middle of the turn.
    pub(super) fn delivered(&mut self, delivery: Delivery) -> Result<MessageRecord, TurnError> {
        let message = Message::text(Role::User, without_marks(&delivery.text));
        let mut record = MessageRecord::new(self.turn, clock::unix_ms(), message);
        // An empty context still shows the time beside the message, as beside the turn's input.
        record.context = Some(Vec::new());
        record.provenance = Some(delivery.provenance);
        self.transcript.append(&[Record::Message(Box::new(record.clone()))])?;
        Ok(record)
    }

    /// Commits an answer that calls tools.
    pub(super) fn answered(
        &mut self,
        message: Message,
        response: &Response,
    ) -> Result<MessageRecord, TurnError> {
        let open = message.tool_calls().map(|call| (call.id.to_owned(), call.name.to_owned())).collect();
        let record = self.answer_record(message, response.stop, Some(response.usage));
        self.transcript.append(&[Record::Message(Box::new(record.clone()))])?;
        // Recorded only after the append succeeded: a call that is not in the transcript must not get a result.
        self.open = open;
        Ok(record)
    }

    /// Commits a call that another program makes in this turn, with the text its model wrote before it. Its cost is
    /// known only when the turn has ended.
    pub(super) fn calls(&mut self, said: String, call: &ToolCall<'_>) -> Result<(), TurnError> {
        // A program's model may call a tool without a word before it.
        let text = (!said.trim().is_empty()).then(|| Block::text(said));
        let (id, name) = (call.id.to_owned(), call.name.to_owned());
        let arguments = call.arguments.clone();
        let call = Block::ToolCall { id: id.clone(), name: name.clone(), arguments, signature: None };
        let message = Message { role: Role::Assistant, content: text.into_iter().chain([call]).collect() };
        let record = self.answer_record(message, StopReason::ToolUse, None);
        self.transcript.append(&[Record::Message(Box::new(record))])?;
        self.open.push((id, name));
        Ok(())
    }

    /// Commits a compaction. To be called before it is applied.
    pub(super) fn compacted(&mut self, record: &CompactionRecord) -> Result<(), TurnError> {
        self.transcript.append(&[Record::Compaction(Box::new(record.clone()))])?;
        fault_point::reach(FaultPoint::Compacted);
        Ok(())
    }

    /// Commits the result of a call.
    pub(super) fn result(&mut self, result: Block) -> Result<(), TurnError> {
        let Block::ToolResult { call_id, .. } = &result else { return Ok(()) };
        let id = call_id.clone();
        let record = result_record(self.turn, clock::unix_ms(), result);
        self.transcript.append(&[record])?;
        self.open.retain(|(open, _)| *open != id);
        Ok(())
    }

    /// Settles the model call of the final answer. In the database, that is one change with the turn's end, which has to
    /// come next.
    pub(super) fn settle(&mut self, reserved: CallReservation) {
        self.settlement = reserved.settle_with_turn();
    }

    /// Commits the final answer together with the turn's end.
    pub(super) async fn done(
        mut self,
        message: Message,
        response: &Response,
    ) -> Result<(u32, Usage), TurnError> {
        let mut answer = self.answer_record(message, response.stop, Some(response.usage));
        answer.trace = self.trace.take();
        let answer = Record::Message(Box::new(answer));
        // One append for both: an answer without its end would look like an interrupted turn after a crash.
        let end = self.end_record(TurnPhase::Done, None);
        if let Err(error) = self.transcript.append(&[answer, Record::Turn(end)]) {
            return Err(self.failed(error.into()).await);
        }
        self.end_row(TurnState::Done, None).await;
        Ok((self.steps, self.usage))
    }

    /// Commits the turn's end after an answer whose calls were handed to the client. They stay without a result until
    /// the session's next turn.
    pub(super) async fn handed_out(mut self, calls: Vec<PendingCall>) -> Result<(u32, Usage), TurnError> {
        let end = TurnRecord { pending: calls.clone(), ..self.end_record(TurnPhase::Done, None) };
        if let Err(error) = self.transcript.append(&[Record::Turn(end)]) {
            return Err(self.failed(error.into()).await);
        }
        self.open.clear();
        self.pending = calls;
        self.end_row(TurnState::Done, None).await;
        Ok((self.steps, self.usage))
    }

    /// Ends the turn with an error and returns that error.
    pub(super) async fn failed(mut self, error: TurnError) -> TurnError {
        let (phase, state) = match error {
            TurnError::Cancelled => (TurnPhase::Cancelled, TurnState::Cancelled),
            _ => (TurnPhase::Failed, TurnState::Failed),
        };
        let reason = chain(&error);
        // An error message may be long, and only its beginning says what happened.
        let reason = (state == TurnState::Failed)
            .then(|| crate::tool::safe_text::start(&reason, MAX_ERROR_BYTES).to_owned());
        // The transcript is written before the database. After a crash in between, the next start reads the end there.
        self.close(phase, reason.clone());
        self.end_row(state, reason).await;
        error
    }

    /// Ends the turn in the database. If that fails, the transcript still has the turn's end, and the next start copies
    /// it from there.
    async fn end_row(&mut self, state: TurnState, error: Option<String>) {
        self.ended = true;
        if let Err(error) = self.store.turns().end(self.turn, self.turn_end(state, error)).await {
            tracing::error!(turn = %self.turn, error = %chain(&error), "failed to end a turn in the database");
        }
    }

    /// Gives the open calls a result and commits the turn's end. If the disk is full, the next start does it instead.
    fn close(&mut self, phase: TurnPhase, error: Option<String>) {
        // Without a beginning in the transcript the input was not delivered, so there is nothing to end.
        if !self.has_begun {
            return;
        }
        let now = clock::unix_ms();
        let mut records: Vec<Record> = std::mem::take(&mut self.open)
            .iter()
            .map(|(id, name)| result_record(self.turn, now, unknown_result(id, name)))
            .collect();
        let mut end = self.end_record(phase, error);
        end.trace = self.trace.take();
        records.push(Record::Turn(end));
        if let Err(error) = self.transcript.append(&records) {
            tracing::error!(turn = %self.turn, error = %chain(&error), "failed to write how a turn ended");
        }
    }

    fn answer_record(&self, message: Message, stop: StopReason, usage: Option<Usage>) -> MessageRecord {
        let mut record = MessageRecord::new(self.turn, clock::unix_ms(), message);
        record.usage = usage;
        record.model = Some(self.route.model.to_string());
        record.api = Some(self.route.api);
        record.stop = Some(stop);
        record
    }

    fn end_record(&self, phase: TurnPhase, error: Option<String>) -> TurnRecord {
        TurnRecord { steps: Some(self.steps), usage: Some(self.usage), error, ..self.mark(phase) }
    }

    fn mark(&self, state: TurnPhase) -> TurnRecord {
        TurnRecord::new(self.turn, state, clock::unix_ms())
    }

    fn turn_end(&self, state: TurnState, error: Option<String>) -> TurnCompletion {
        // A turn without a beginning in the transcript has answered no call.
        let pending = self.has_begun.then(|| self.pending.clone());
        let (steps, tokens) = (self.steps, tokens(self.usage));
        let (at, settlement) = (clock::unix_ms(), self.settlement);
        TurnCompletion { state, steps, tokens, error, at, pending, settlement }
    }
}

impl Drop for TurnRecorder {
    fn drop(&mut self) {
        if !self.ended {
            self.close(TurnPhase::Cancelled, None);
            // A destructor can't wait for the database, so the row is ended by its writer in the background.
            self.store.turns().queue_end(self.turn, self.turn_end(TurnState::Cancelled, None));
        }
    }
}

/// Returns the record of one tool result.
pub(super) fn result_record(turn: TurnId, at: i64, result: Block) -> Record {
    let message = Message { role: Role::Tool, content: vec![result] };
    Record::Message(Box::new(MessageRecord::new(turn, at, message)))
}

/// Converts usage into the database's form.
pub(super) const fn tokens(usage: Usage) -> TokenCounts {
    TokenCounts {
        input: usage.input,
        output: usage.output,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
    }
}
