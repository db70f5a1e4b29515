//! The calls of flock's own tools within a delegated turn: each is committed when it begins, decided and run as in
//! flock's own loop, and its result committed when it ends.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::parallel_calls::{FinishedCall, ParallelCalls, QueuedCall};
use super::turn_router::{IncomingCall, ToolCallResponse};
use super::{DelegatedTurn, RunningTurn};
use crate::agent::derived_trace;
use crate::agent::tool_call::{self, ToolCaller};
use crate::agent::turn::{TurnError, TurnEvent, TurnScope};
use crate::provider::message::{ToolCall, joined_text};
use crate::provider::{Block, StopReason};

impl DelegatedTurn<'_, '_> {
    /// Begins a call of one of flock's tools.
    pub(super) fn call<'c>(
        &'c self,
        call: QueuedCall,
        calls: &mut ParallelCalls<'c>,
        turn: &mut RunningTurn<'_>,
    ) -> Result<(), TurnError> {
        // Checked for each call, because the program itself goes on while its agent is frozen.
        self.check_not_frozen()?;
        self.scope.deadline.now()?;
        let IncomingCall { id, tool, arguments, .. } = &call.asked;
        let name = turn.answer.name(id);
        // Committed before it runs, so that a crash leaves a call with an unknown outcome and no unrecorded effect.
        self.commit(&ToolCall { id: &name, name: tool, arguments }, turn)?;
        // A child token: all calls are cancelled if the turn ends first.
        let (tool, over) = (tool.clone(), calls.over().child_token());
        calls.begin(&tool, Box::pin(self.run_call(name, call, over)));
        Ok(())
    }

    /// Runs a call until it ends by itself, its client cancels it, or `given_up` is cancelled.
    async fn run_call(&self, name: String, call: QueuedCall, given_up: CancellationToken) -> FinishedCall {
        let started = Instant::now();
        let ended = {
            let IncomingCall { tool, arguments, cancel, progress, .. } = &call.asked;
            let asked = ToolCall { id: &name, name: tool, arguments };
            let TurnScope { engine, deadline, context, .. } = self.scope;
            let progress = progress.as_ref();
            let caller =
                ToolCaller { engine, deadline, context, given_up: &given_up, client: None, progress };
            let mut work = std::pin::pin!(caller.call(&asked, 0, StopReason::ToolUse, started));
            match cancel.run_until_cancelled(&mut work).await {
                // The client is gone, but the call is awaited all the same, so that its result is recorded.
                Some(ended) => ended,
                None => {
                    given_up.cancel();
                    work.await
                }
            }
        };
        FinishedCall { name, call, started, ended }
    }

    /// Writes down the result of a call and answers the program.
    pub(super) fn called(&self, done: FinishedCall, turn: &mut RunningTurn<'_>) -> Result<(), TurnError> {
        let FinishedCall { name: id, call: QueuedCall { asked, reply }, started, ended } = done;
        let ended = ended?;
        let Some(mut answer) = ended.answer else {
            return Err(ended.halted.unwrap_or(TurnError::Cancelled));
        };
        let repeated = tool_call::count_repetition(
            &mut turn.answer.repetition,
            &asked.tool,
            &asked.arguments,
            &mut answer.content,
        );
        let halted = ended.halted.or(repeated);
        turn.recorder.result(Block::ToolResult {
            call_id: id.clone(),
            name: asked.tool.clone(),
            content: answer.content.clone().into(),
            is_error: answer.is_error,
        })?;
        // OpenClaw's turns get their log from the transcript. Other programs' logs lack the calls that flock runs, so
        // these lines are added here.
        if self.runtime.wants_recent() {
            // The full result is in the transcript. The log only needs the failure.
            let failure = answer.is_error.then(|| joined_text(&answer.content));
            let agent = &self.scope.context.agent;
            for line in derived_trace::call(agent, &asked.tool, &asked.arguments, failure.as_deref()) {
                self.log(&line, turn);
            }
        }
        let (name, is_error) = (asked.tool, answer.is_error);
        self.scope.events.tell(TurnEvent::ToolEnded { call_id: id, name, is_error, took: started.elapsed() });
        // Nobody may be waiting any more; the result is in the transcript anyway.
        drop(reply.send(ToolCallResponse::ended(answer)));
        halted.map_or(Ok(()), Err)
    }
}
