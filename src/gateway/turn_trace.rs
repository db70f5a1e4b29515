//! The span and the metrics of a turn, and the span of what wakes an agent for it.

use std::time::Duration;

use super::driver::TurnOrigin;
use super::turn_error::turn_code;
use crate::agent::{TurnError, TurnOutcome, TurnRequest, TurnStop, content_json};
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::{Block, StopReason};
use crate::telemetry::{Cause, Current, Instrument, OpenSpan, SpanKind, Telemetry, TracedTurnGuard, gen_ai};
use std::borrow::Cow;
use std::sync::Arc;

/// A turn that runs and is observed.
pub(super) struct TurnTrace {
    span: OpenSpan,
    current: Current,
    agent: AgentId,
    turn: TurnId,
    /// Until the turn ends, requests of its agent program are known to belong to it.
    _registration: TracedTurnGuard,
}

impl TurnTrace {
    /// Begins the span of a turn below what it was accepted under.
    pub(super) fn begin(
        above: &Current,
        request: &TurnRequest,
        origin: TurnOrigin,
        waited: Duration,
    ) -> Self {
        let is_remote = above.context().is_some_and(crate::telemetry::TraceContext::is_remote);
        let kind = if is_remote { SpanKind::Server } else { SpanKind::Internal };
        let mut span = above.begin(kind, || gen_ai::turn_name(&request.agent));
        gen_ai::describe_turn(&mut span, &request.session, request.turn, origin.as_str());
        span.set("flock.turn.waited", waited);
        span.content(gen_ai::INPUT_MESSAGES, || content_json::messages(request.input.iter()));
        let current = span.current();
        let registration = above.telemetry().run_turn(request.turn, current.clone());
        let (agent, turn) = (request.agent.clone(), request.turn);
        Self { span, current, agent, turn, _registration: registration }
    }

    /// Returns what the work of the turn belongs to.
    pub(super) fn current(&self) -> Current {
        self.current.clone()
    }

    /// Ends the turn.
    pub(super) fn end(mut self, result: &Result<TurnOutcome, TurnError>) {
        let telemetry = self.current.telemetry();
        let asked = telemetry.model(self.turn);
        if let Some(model) = result.as_ref().ok().map(|outcome| &outcome.model).or(asked.as_ref()) {
            gen_ai::describe_model(&mut self.span, model);
        }
        match result {
            Ok(outcome) => {
                let usage = outcome.usage;
                let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
                let cached = (usage.cache_read, usage.cache_write);
                gen_ai::set_usage(&mut self.span, input, usage.output, cached);
                self.span.set("flock.turn.steps", outcome.steps);
                let stop = match outcome.stop {
                    TurnStop::End => StopReason::End,
                    TurnStop::Length => StopReason::Length,
                    TurnStop::Refusal => StopReason::Refusal,
                    TurnStop::ToolCalls => StopReason::ToolUse,
                };
                let said = || content_json::answer(&[Block::text(outcome.text.clone())], stop);
                self.span.content(gen_ai::OUTPUT_MESSAGES, said);
            }
            Err(error) => self.span.fail(turn_code(error), || error.to_string()),
        }
        let labels = vec![(gen_ai::AGENT_NAME, Cow::Owned(self.agent.to_string()))];
        let labels = gen_ai::with_error(labels, self.span.failure());
        let took = self.span.elapsed().as_secs_f64();
        telemetry.observe(Instrument::InvokeAgentDuration, labels, took);
        self.span.end();
    }
}

/// Records that an agent was woken by these causes, the oldest first, and returns what its turn belongs to.
///
/// The span begins with the oldest cause, and ends now: it is the time that the causes waited. It is below the newest
/// one, because that one woke the agent if older ones could wait. `None` if telemetry is off or no cause is known: then
/// the turn begins a trace of its own.
pub(super) fn wake(
    telemetry: &Arc<Telemetry>,
    session: &SessionKey,
    causes: impl IntoIterator<Item = Cause>,
) -> Option<Current> {
    // The map of causes is empty while telemetry is off.
    let mut causes = telemetry.causes(causes);
    let (newest, at) = causes.pop()?;
    let began = causes.first().map_or(at, |(_, at)| *at);
    let above = telemetry.enter(Some(newest))?;
    let mut span = above.begin(SpanKind::Consumer, || format!("wake {}", session.agent()));
    span.began_at(began);
    span.set(gen_ai::AGENT_NAME, session.agent().to_string());
    span.set(gen_ai::CONVERSATION, session.to_string());
    span.set("flock.wake.causes", u64::try_from(causes.len()).unwrap_or(u64::MAX).saturating_add(1));
    span.link(causes.into_iter().map(|(context, _)| context));
    let current = span.current();
    span.end();
    Some(current)
}
