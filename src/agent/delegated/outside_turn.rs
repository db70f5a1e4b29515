//! Tool calls and reports that come while flock runs no turn of the conversation: a person talks with the agent in the
//! program, or the agent has started something itself. The same policy, oversight and audit apply, but there is no
//! transcript to write to.

use std::time::Duration;

use tokio::time::Instant;

use super::call_tracker::UnfinishedCall;
use super::reported_calls;
use super::turn_router::{Inbound, IncomingCall, ProgramReport, ProgramSource, ToolCallResponse};
use crate::agent::deadline::Deadline;
use crate::agent::engine::Engine;
use crate::agent::result_limits;
use crate::agent::tool_call::{self, ToolCaller};
use crate::agent::turn::TurnEvent;
use crate::id::{SessionKey, SessionKind, TurnId};
use crate::provider::StopReason;
use crate::provider::message::ToolCall;
use crate::runtime::ToolEvent;
use crate::tool::CallContext;
use tokio_util::sync::CancellationToken;

/// Time limit of a call without a turn.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Receives the events outside turns, with their context.
pub type EventObserver<'a> = &'a (dyn Fn(&CallContext, TurnEvent) + Send + Sync);

impl Engine {
    /// Calls a tool for the agent and conversation that a program names: within the turn that runs there, or on its
    /// own. Every error becomes an answer that the model reads.
    pub(crate) async fn call_tool_for(
        &self,
        source: &ProgramSource,
        asked: IncomingCall,
        witness: EventObserver<'_>,
    ) -> ToolCallResponse {
        if let Some(turn) = self.router.turn(source) {
            let (reply, answer) = tokio::sync::oneshot::channel();
            // The turn may end before it answers, in which case the channel closes.
            if turn.send(Inbound::Call(asked, reply)).await.is_ok()
                && let Ok(answer) = answer.await
            {
                return answer;
            }
            return ToolCallResponse::lost(
                "not completed: the turn was ended; the effect of the call is unknown",
            );
        }
        // Only flock begins such conversations, so the turn of this call has just ended.
        if is_flock_conversation(source) {
            return ToolCallResponse::lost("not run: flock has ended the turn that this call belongs to");
        }
        self.call_outside(source, &asked, witness).await
    }

    /// Handles a program's report of its own calls.
    pub(crate) async fn handle_report(
        &self,
        runtime: &str,
        source: &ProgramSource,
        told: ProgramReport,
        witness: EventObserver<'_>,
    ) {
        if let Some(turn) = self.router.turn(source)
            && turn.send(Inbound::Report(told.clone())).await.is_ok()
        {
            return;
        }
        let context = context(source, CancellationToken::new());
        let called = match told {
            ProgramReport::Over => {
                // Calls that never reported an end are closed when the program's agent ends.
                let left = self.router.outside(source, super::call_tracker::CallTracker::close);
                left.into_iter().map(|open| reported_calls::called(runtime, &open, None)).collect()
            }
            ProgramReport::Tool(ToolEvent::Began { call, tool, arguments }) => {
                let open = UnfinishedCall::new(call.clone(), call, tool, arguments);
                let started = tool_call::started(&open.as_call());
                if self.router.outside(source, |ledger| ledger.begin(open)) {
                    witness(&context, started);
                }
                return;
            }
            ProgramReport::Tool(ToolEvent::Ended { call, tool, error, took, .. }) => {
                let Ok(open) = self.router.outside(source, |ledger| ledger.end(&call)) else { return };
                let open = open.unwrap_or_else(|| reported_calls::unannounced_call(call.clone(), call, tool));
                vec![reported_calls::called(runtime, &open, Some((error.is_some(), took)))]
            }
        };
        for called in called {
            self.parts.oversight.called(&context, &called).await;
            witness(&context, reported_calls::ended(&called));
        }
    }

    async fn call_outside(
        &self,
        source: &ProgramSource,
        asked: &IncomingCall,
        witness: EventObserver<'_>,
    ) -> ToolCallResponse {
        let context = context(source, asked.cancel.clone());
        let oversight = std::sync::Arc::clone(&self.parts.oversight);
        // A time limit of its own, because there is no turn whose deadline could apply.
        let deadline = Deadline::new(asked.cancel.clone(), CALL_TIMEOUT, oversight, source.agent.clone());
        let progress = asked.progress.as_ref();
        let asked = ToolCall { id: &asked.id, name: &asked.tool, arguments: &asked.arguments };
        witness(&context, tool_call::started(&asked));
        let started = Instant::now();
        let work = async {
            deadline.thawed().await?;
            // Cancelling such a call cancels `deadline`, so nothing else needs to cancel it.
            let given_up = CancellationToken::new();
            ToolCaller {
                engine: self,
                deadline: &deadline,
                context: &context,
                given_up: &given_up,
                client: None,
                progress,
            }
            .call(&asked, 0, StopReason::ToolUse, started)
            .await
        };
        let answered = match tokio::time::timeout(CALL_TIMEOUT, work).await {
            Ok(Ok(ended)) => match ended.answer {
                Some(answer) => ToolCallResponse::ended(answer),
                None => ToolCallResponse::lost("the call did not end; its effect is unknown"),
            },
            Ok(Err(error)) => ToolCallResponse {
                content: result_limits::text(&format!("not run: {error}")),
                attachments: Vec::new(),
                is_error: true,
                is_lost: true,
            },
            Err(_) => ToolCallResponse::lost("not run: the agent is frozen by a person"),
        };
        witness(
            &context,
            TurnEvent::ToolEnded {
                call_id: asked.id.to_owned(),
                name: asked.name.to_owned(),
                is_error: answered.is_error,
                took: started.elapsed(),
            },
        );
        answered
    }
}

/// Returns `true` if only flock begins such conversations.
fn is_flock_conversation(source: &ProgramSource) -> bool {
    source.conversation.starts_with(&format!("agent:{}:flock:", source.agent))
}

/// Returns the context of a call without a turn. Its session is the one that flock has with the agent in that program.
fn context(source: &ProgramSource, cancel: CancellationToken) -> CallContext {
    let session = super::session_of(&source.conversation);
    let session = session.filter(|session| session.agent() == &source.agent);
    CallContext {
        agent: source.agent.clone(),
        // A call of an unknown conversation is recorded under the agent's main session.
        session: session.unwrap_or_else(|| SessionKey::new(&source.agent, SessionKind::Main, "openclaw")),
        turn: TurnId::new(),
        cancel,
        progress: None,
    }
}
