//! Runs the tool calls of one answer in order. Each result is committed and each call is reported to the oversight.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::deadline::Deadline;
use super::engine::Engine;
use super::oversight::ToolCallRecord;
use super::repetition::{Repetition, Verdict};
use super::tool_call::{self, CallDecision, CallResult};
use super::turn::{TurnError, TurnEvent};
use super::turn_loop::TurnLoop;
use super::turn_recorder::TurnRecorder;
use crate::provider::message::ToolCall;
use crate::provider::{Block, Message, StopReason};
use crate::tool::policy::Decision;
use crate::tool::{CallContext, Tool};

/// Time a tool has to end by itself after the turn was stopped.
const GRACE: Duration = Duration::from_secs(5);

/// The end of a tool call.
pub(super) struct CallEnd {
    /// The result for the model. `None` ends the turn and leaves the call without a result.
    pub(super) answer: Option<CallResult>,
    /// The error that ends the turn, if the call ends it.
    pub(super) halted: Option<TurnError>,
}

/// Decides about single tool calls and runs them, for one agent in one session.
pub(super) struct ToolCaller<'a> {
    pub(super) engine: &'a Engine,
    pub(super) halt: &'a Deadline,
    pub(super) context: &'a CallContext,
    /// Cancels the call alone, not the turn.
    pub(super) given_up: &'a CancellationToken,
}

impl From<CallResult> for CallEnd {
    fn from(answer: CallResult) -> Self {
        Self { answer: Some(answer), halted: None }
    }
}

impl TurnLoop<'_> {
    /// Runs the calls of one answer in order and commits each result.
    pub(super) async fn call_tools(
        &self,
        message: &Message,
        stop: StopReason,
        running: &mut TurnRecorder,
        repetition: &mut Repetition,
    ) -> Result<Vec<Block>, TurnError> {
        let mut results = Vec::new();
        for (place, asked) in message.tool_calls().enumerate() {
            // The brake and the deadline are looked at before each call, not once for the answer: one call may take
            // long.
            self.thawed().await?;
            self.halt.now()?;
            let (call_id, name) = (asked.id.to_owned(), asked.name.to_owned());
            self.events.tell(TurnEvent::ToolStarted {
                call_id: call_id.clone(),
                name: name.clone(),
                arguments_preview: tool_call::preview(asked.arguments),
            });
            let started = Instant::now();
            // In flock's own loop nobody gives up a single call: only a stop of the turn ends it.
            let given_up = CancellationToken::new();
            let hand = ToolCaller {
                engine: self.engine,
                halt: self.halt,
                context: &self.context,
                given_up: &given_up,
            };
            let ended = hand.call(&asked, place, stop, started).await?;
            let Some((mut content, is_error)) = ended.answer else {
                return Err(ended.halted.unwrap_or(TurnError::Cancelled));
            };
            let mut halted = ended.halted;
            // The warning becomes a part of the result, so that the model reads it with the next request.
            match repetition.note(&name, asked.arguments, &content) {
                Verdict::Fine => {}
                Verdict::Told(text) => content.push(Block::text(text)),
                Verdict::Ended(text, times) => {
                    content.push(Block::text(text));
                    halted.get_or_insert(TurnError::Looping { tool: name.clone(), times });
                }
            }
            let result = Block::ToolResult {
                call_id: call_id.clone(),
                name: name.clone(),
                content: content.into(),
                is_error,
            };
            // Committed before it is reported: nobody may hear of a result that a crash could still lose.
            running.result(result.clone())?;
            self.events.tell(TurnEvent::ToolEnded { call_id, name, is_error, took: started.elapsed() });
            if let Some(error) = halted {
                return Err(error);
            }
            results.push(result);
        }
        Ok(results)
    }
}

impl ToolCaller<'_> {
    /// Decides about one call, runs it if the policy allows it, and reports its end to the oversight.
    pub(super) async fn call(
        &self,
        asked: &ToolCall<'_>,
        place: usize,
        stop: StopReason,
        started: Instant,
    ) -> Result<CallEnd, TurnError> {
        // The policy is evaluated with the current configuration, so that a permission that was revoked in the middle
        // of a turn is gone.
        let config = self.engine.parts.config.current();
        let id = &self.context.agent;
        let agent = config.agent(id).ok_or_else(|| TurnError::UnknownAgent(id.clone()))?;
        let oversight = &*self.engine.parts.oversight;
        let (decision, ended) = match tool_call::check(agent, &self.engine.parts.registry, asked, place, stop)
        {
            CallDecision::Run(tool) => (Decision::Allow, self.run_tool(tool, asked).await),
            CallDecision::Ask(tool, reason) => {
                let told = oversight.ask(self.context, tool, asked.arguments, &reason).await;
                let answer = match told {
                    Ok(text) => (tool_call::text(&text), false),
                    Err(reason) => (tool_call::text(&reason), true),
                };
                (Decision::Ask(reason), answer.into())
            }
            CallDecision::Refuse(reason) => {
                let answer = (tool_call::text(&reason), true);
                (Decision::Deny(reason), answer.into())
            }
        };
        // The audit also gets refused calls and those whose outcome is unknown.
        let called = ToolCallRecord {
            call_id: asked.id.to_owned(),
            name: asked.name.to_owned(),
            decision,
            is_error: ended.answer.as_ref().is_none_or(|(_, is_error)| *is_error),
            took: started.elapsed(),
            preview: tool_call::preview(asked.arguments),
            arguments_sha256: tool_call::digest(asked.arguments),
            reported: None,
        };
        oversight.called(self.context, &called).await;
        Ok(ended)
    }

    /// Runs one tool.
    ///
    /// If the turn is stopped meanwhile, or nobody waits for the call any more, the tool gets [`GRACE`] to end by
    /// itself, so that its effects are known. A stop of the turn is returned beside the answer.
    async fn run_tool(&self, tool: &dyn Tool, asked: &ToolCall<'_>) -> CallEnd {
        // A child token: it is cancelled with the turn, and can be cancelled for this tool alone.
        let own = CallContext { cancel: self.halt.cancel.child_token(), ..self.context.clone() };
        let mut work = std::pin::pin!(tool_call::run(tool, &own, asked.arguments));
        let stopped = tokio::select! {
            // A tool that is ready counts as ended even if the turn is stopped in the same instant: its result is
            // known.
            biased;
            ended = &mut work => return match ended {
                Ok(answer) => answer.into(),
                Err(source) => {
                    let failed = TurnError::Tool { name: asked.name.to_owned(), source };
                    CallEnd { answer: None, halted: Some(failed) }
                }
            },
            error = self.halt.wait() => Some(error),
            () = self.given_up.cancelled() => None,
        };
        own.cancel.cancel();
        // Past the grace period the tool's future is dropped here, and the outcome of the call is unknown.
        let answer = match timeout(GRACE, work).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(_)) | Err(_) => None,
        };
        if stopped.is_some() {
            return CallEnd { answer, halted: stopped };
        }
        // The call was given up and the turn goes on, so the call needs a result all the same.
        match answer {
            Some((mut content, is_error)) => {
                content.push(Block::text("[flock: the call was cancelled before it had ended]"));
                (content, is_error).into()
            }
            None => (tool_call::text("the call was cancelled; its effect is unknown"), true).into(),
        }
    }
}
