//! One model call of a turn: reserve its cost, and ask the model until it answers or gives up.

use std::sync::Arc;

use tokio::time::Instant;

use super::context::ConversationContext;
use super::estimate;
use super::failover::ModelFailure;
use super::model_chain::{ModelChain, PromptSpec};
use super::overflow::{is_too_long, limit_in};
use super::oversight::ModelCall;
use super::reservation::CallReservation;
use super::transcript::hygiene::{HygieneError, Target, sanitise};
use super::turn::{TurnError, TurnEvent};
use super::turn_loop::TurnLoop;
use super::turn_recorder::TurnRecorder;
use crate::clock::unix_ms;
use crate::provider::retry::RetryNotice;
use crate::provider::{Block, Delta, Effort, Message, Request, ResolvedModel, Response};

/// The share of a turn's time, as a divisor: a call that was silent for at least this share when the time ran out
/// counts as a failure of its model.
const SILENT_SHARE: u32 = 10;

/// Conversations up to this many tokens are prepared on the current thread. That takes well under a millisecond; a
/// thread of its own would cost more, and hundreds of parallel turns would need one each.
const MAX_INLINE_TOKENS: u64 = 32_000;

impl TurnLoop<'_> {
    /// Reserves the cost of the next model call. A wait for budget does not count against the turn's time.
    pub(super) async fn reserve(
        &self,
        asked: &Request,
        context: &ConversationContext,
        running: &TurnRecorder,
    ) -> Result<CallReservation, TurnError> {
        let call = ModelCall {
            agent: self.context.agent.clone(),
            session: self.context.session.clone(),
            turn: self.context.turn,
            model: running.route.model.clone(),
            input_estimate: estimate::fixed_cost(asked) + context.cost(),
            max_output: u64::from(asked.max_tokens),
            step: running.steps + 1,
        };
        let reserved = CallReservation::reserve(&self.engine.parts.oversight, &call);
        Ok(self.halt.uncounted(reserved).await??)
    }

    /// Prepares the conversation for the model. A long conversation, or one with pictures that may need scaling, is
    /// prepared on a blocking thread, so that no other turn has to wait.
    async fn ready(
        &self,
        line: &ModelChain,
        asked: &Request,
        context: &ConversationContext,
        refused_until: Option<i64>,
    ) -> Result<Vec<Arc<Message>>, TurnError> {
        let side = self.engine.parts.config.current().image_side;
        let target = Target {
            refused_until,
            refused_pictures: line.refused_pictures,
            pictures: self.engine.pictures.clone(),
            ..target(&line.resolved, asked, &line.told, side)
        };
        let entries = context.entries();
        // Only the messages behind a cached prefix need preparation, so only they count.
        if context.uncached_cost() <= MAX_INLINE_TOKENS
            && !has_pictures(entries.iter().map(|entry| &*entry.message))
        {
            return Ok(sanitise(&entries, &target)?.messages);
        }
        let ready = tokio::task::spawn_blocking(move || sanitise(&entries, &target)).await;
        Ok(ready.map_err(|_| HygieneError::BrokeOff)??.messages)
    }

    /// Asks the model, and adapts the request if the provider rejects it for its size, thinking, pictures or answer
    /// format.
    ///
    /// Without this, a session that once grew too long for the provider could never go on, because flock only estimates
    /// the number of tokens.
    pub(super) async fn ask_adapting(
        &self,
        line: &mut ModelChain,
        asked: &mut Request,
        context: &mut ConversationContext,
        running: &mut TurnRecorder,
        reserved: &CallReservation,
    ) -> Result<Response, TurnError> {
        let (session, refusals) = (&self.context.session, &self.engine.refusals);
        let mut asked_without = false;
        loop {
            let route = &line.resolved.route;
            let refused = refusals.until(session, route);
            asked.messages = self.ready(line, asked, context, refused).await?;
            // A cached prefix is used only if the provider would encode the same bytes for this request.
            asked.prefix = context.prefix().map(|prefix| Arc::clone(&prefix.body));
            if let Some(prefix) = &asked.prefix
                && !prefix.fits(&*line.resolved.provider, asked)
            {
                self.engine.prefixes.forget(session);
                self.unfold(line, context, running)?;
                continue;
            }
            let answered = self.ask(line, asked, reserved).await;
            match answered {
                // A person has read the beginning: a second answer would read as a part of it.
                Err(TurnError::Provider(error)) if reserved.shown() => {
                    if error.refuses_thinking() && has_provider_state(asked) {
                        // Remembered all the same, because the next turn's request would be rejected for the same
                        // reason.
                        refusals.note(session, route, unix_ms());
                    }
                    return Err(error.into());
                }
                Err(TurnError::Provider(error))
                    if !asked_without && error.refuses_thinking() && has_provider_state(asked) =>
                {
                    tracing::warn!(%error, "asking again without the thinking of earlier answers");
                    // Asked at most once without thinking: a second rejection has another reason.
                    asked_without = true;
                    refusals.note(session, route, unix_ms());
                }
                Err(TurnError::Provider(error))
                    if !line.refused_pictures
                        && error.refuses_pictures()
                        && has_pictures(messages_of(asked)) =>
                {
                    tracing::warn!(%error, "asking again without pictures");
                    let notice = format!("{} is shown no pictures: {error}", line.told.label);
                    self.events.tell(TurnEvent::Notice(notice));
                    line.refused_pictures = true;
                }
                Err(TurnError::Provider(error)) if asked.format.is_some() && error.refuses_format() => {
                    // Dropping the format is safe: the caller checks the answer.
                    tracing::warn!(%error, "asking again without holding the model to the form of its answer");
                    asked.format = None;
                }
                // The provider counts more tokens than flock estimated. It is asked again only as long as the
                // conversation gets shorter, so this ends.
                Err(TurnError::Provider(error)) if is_too_long(&error) => {
                    let before = context.cost();
                    context.narrow();
                    self.make_room(line, context, running, asked).await?;
                    if context.cost() >= before {
                        let window = limit_in(&error).unwrap_or(line.resolved.context_window);
                        return Err(TurnError::Overflow { window, error });
                    }
                }
                answered => return answered,
            }
            // The next attempt needs another form of the conversation than a cached prefix can give.
            self.unfold(line, context, running)?;
        }
    }

    async fn ask(
        &self,
        line: &ModelChain,
        request: &Request,
        reserved: &CallReservation,
    ) -> Result<Response, TurnError> {
        let resolved = &line.resolved;
        let mut sink = |delta| match delta {
            Delta::Text(text) => self.events.tell(TurnEvent::TextDelta(text)),
            Delta::Thinking(text) => self.events.tell(TurnEvent::ThinkingDelta(text)),
            Delta::ToolCall => {}
        };
        let mut on_retry = |retrying: RetryNotice<'_>| {
            self.events.tell(TurnEvent::Retrying {
                attempt: retrying.attempt + 1,
                after: retrying.wait,
                reason: retrying.reason.to_string(),
            });
        };
        let policy = self.engine.parts.limits.retry;
        // With a fallback left, a model that stays silent is asked only once.
        let policy = if line.others.is_empty() { policy } else { policy.with_fallbacks() };
        let from = Instant::now();
        // Biased: a stop of the turn wins over a response that arrives at the same moment.
        tokio::select! {
            biased;
            error = self.halt.wait() => {
                if let TurnError::TimedOut(wall) = error
                    && reserved.is_silent()
                    && from.elapsed() >= wall / SILENT_SHARE
                {
                    // No other model can be asked in this turn. The cooldown makes the next turn ask another one first.
                    let model = &resolved.route.model;
                    self.engine.cooldowns.failed(model, ModelFailure::Down, unix_ms());
                }
                Err(error)
            }
            response = reserved.call(&policy, &*resolved.provider, request, &mut sink, &mut on_retry) => {
                Ok(response?)
            }
        }
    }
}

/// Returns the hygiene target for a conversation sent with this request. `side` is the longest side of a picture in
/// pixels.
pub(super) fn target(resolved: &ResolvedModel, asked: &Request, told: &PromptSpec, side: u32) -> Target {
    Target {
        reasoning: resolved.reasoning,
        thinking: asks_to_think(asked),
        images: resolved.images,
        longest_side: side,
        tools: Some(told.tools.iter().map(|tool| tool.name.clone()).collect()),
        ..Target::new(resolved.route.clone())
    }
}

/// Returns `true` if the request asks the model to think.
pub(super) fn asks_to_think(request: &Request) -> bool {
    request.effort.is_some_and(|effort| effort != Effort::Off)
}

/// Returns `true` if the request has content that only its provider can read: thinking or signatures.
fn has_provider_state(request: &Request) -> bool {
    messages_of(request).flat_map(|message| &message.content).any(|block| {
        matches!(
            block,
            Block::Thinking { .. }
                | Block::Text { signature: Some(_), .. }
                | Block::ToolCall { signature: Some(_), .. }
        )
    })
}

fn has_pictures<'a>(mut messages: impl Iterator<Item = &'a Message>) -> bool {
    fn is_one(block: &Block) -> bool {
        match block {
            Block::Image { .. } => true,
            Block::ToolResult { content, .. } => content.iter().any(is_one),
            _ => false,
        }
    }
    messages.any(|message| message.content.iter().any(is_one))
}

fn messages_of(request: &Request) -> impl Iterator<Item = &Message> {
    request.messages.iter().map(|message| &**message)
}
