//! One model call of a turn: what it may cost is set aside, the model is asked until it answers or gives up,
//! and what it took is settled, whatever happened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::context::Context;
use super::engine::Engine;
use super::estimate;
use super::failover::Trouble;
use super::line::{Line, Told};
use super::overflow::{is_too_long, limit_in};
use super::oversight::{ModelCall, Oversight, Reservation, Seen};
use super::running::Running;
use super::steps::Course;
use super::taken::Taken;
use super::transcript::hygiene::{HygieneError, Target, sanitise};
use super::turn::{TurnError, TurnEvent};
use crate::clock::unix_ms;
use crate::provider::retry::{self, Retrying};
use crate::provider::{Block, Delta, Effort, Message, ProviderError, Request, Resolved, Response, Usage};

/// The part of a turn's time from which on a call that brought nothing until the time was up counts as a failure.
const SILENT_PART: u32 = 10;

/// Tokens of a conversation that is made ready in well under a millisecond: a thread for it would cost more, and hundreds
/// of turns at once would have one each.
const LIGHT: u64 = 32_000;

/// What was set aside for a model call; settled when this is dropped.
pub(super) struct Reserved<'o> {
    oversight: &'o dyn Oversight,
    reservation: Option<Reservation>,
    toll: Mutex<Toll>,
}

/// What a call took so far: its answer arrives in one place, and that it is asked again in another.
struct Toll {
    /// The attempts that have ended.
    ended: Taken,
    /// Whether the answer of the one that runs has begun; `None` where none runs.
    begun: Option<bool>,
    /// Whether something of an answer was shown.
    shown: bool,
    /// What was seen of the call that was answered.
    seen: Seen,
}

impl<'o> Reserved<'o> {
    fn new(oversight: &'o dyn Oversight, reservation: Reservation) -> Self {
        let toll =
            Mutex::new(Toll { ended: Taken::Nothing, begun: None, shown: false, seen: Seen::default() });
        Self { oversight, reservation: Some(reservation), toll }
    }

    fn toll(&self) -> MutexGuard<'_, Toll> {
        self.toll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asks(&self) {
        self.toll().begun = Some(false);
    }

    fn begins(&self, delta: &Delta) {
        let mut toll = self.toll();
        toll.begun = Some(true);
        toll.shown |= *delta != Delta::ToolCall;
    }

    /// Whether the call that runs has brought nothing yet.
    fn is_silent(&self) -> bool {
        self.toll().begun == Some(false)
    }

    /// Whether something of an answer was shown.
    pub(super) fn shown(&self) -> bool {
        self.toll().shown
    }

    /// The call has ended, as `answered` says; `request` is what was asked.
    fn answered(&self, request: &Request, answered: &Result<Response, ProviderError>) {
        if let Ok(response) = answered {
            let seen = Seen { input: estimate::asked(request), output: estimate::written(&response.content) };
            self.toll().seen = seen;
        }
        self.ends(answered.as_ref().map(|response| response.usage).map_err(Some));
    }

    fn ends(&self, how: Result<Usage, Option<&ProviderError>>) {
        let mut toll = self.toll();
        let Some(begun) = toll.begun.take() else { return };
        let taken = how.map_or_else(|error| Taken::failed(error, begun), Taken::Told);
        toll.ended = toll.ended.or(taken);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        // Given up in the middle, if it still runs.
        self.ends(Err(None));
        let (taken, seen) = {
            let toll = self.toll();
            (toll.ended, toll.seen)
        };
        if let Some(reservation) = self.reservation.take() {
            self.oversight.settle(reservation.with_seen(seen), taken);
        }
    }
}

/// Asks once beside the calls of a turn, with what that costs set aside and settled; `None` where there is no
/// budget for it.
pub(super) async fn aside(
    engine: &Engine,
    resolved: &Resolved,
    call: &ModelCall,
    request: &Request,
) -> Option<Result<Response, ProviderError>> {
    let oversight = &*engine.parts.oversight;
    let reservation = oversight.reserve(call).await.ok()?;
    let reserved = Reserved::new(oversight, reservation);
    let mut sink = |delta: Delta| reserved.begins(&delta);
    let mut on_retry = |retrying: Retrying<'_>| {
        reserved.ends(Err(Some(retrying.reason)));
        reserved.asks();
    };
    reserved.asks();
    let policy = &engine.parts.limits.retry;
    let response = retry::call(policy, &*resolved.provider, request, &mut sink, &mut on_retry).await;
    reserved.answered(request, &response);
    Some(response)
}

impl Course<'_> {
    /// Sets aside what the next model call may cost. Where the budget makes the turn wait, that does not
    /// count against its time.
    pub(super) async fn reserve(
        &self,
        asked: &Request,
        context: &Context,
        running: &Running,
    ) -> Result<Reserved<'_>, TurnError> {
        let call = ModelCall {
            agent: self.context.agent.clone(),
            session: self.context.session.clone(),
            turn: self.context.turn,
            model: running.route.model.clone(),
            input_estimate: estimate::fixed_cost(asked) + context.cost(),
            max_output: u64::from(asked.max_tokens),
            step: running.steps + 1,
        };
        let oversight = &*self.engine.parts.oversight;
        let reservation = self.halt.uncounted(oversight.reserve(&call)).await??;
        Ok(Reserved::new(oversight, reservation))
    }

    /// The conversation as this model takes it. A long one, and pictures that may have to be made smaller, get a thread of
    /// their own, so that no other turn waits.
    async fn ready(
        &self,
        line: &Line,
        asked: &Request,
        context: &Context,
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
        if context.cost_behind() <= LIGHT && !has_pictures(entries.iter().map(|entry| &*entry.message)) {
            return Ok(sanitise(&entries, &target)?.messages);
        }
        let ready = tokio::task::spawn_blocking(move || sanitise(&entries, &target)).await;
        Ok(ready.map_err(|_| HygieneError::BrokeOff)??.messages)
    }

    /// Asks, and asks again with less where the provider counts more tokens than were estimated: else a
    /// session that has once grown too long could never go on.
    pub(super) async fn ask_what_fits(
        &self,
        line: &mut Line,
        asked: &mut Request,
        context: &mut Context,
        running: &mut Running,
        reserved: &Reserved<'_>,
    ) -> Result<Response, TurnError> {
        let (session, refusals) = (&self.context.session, &self.engine.refusals);
        let mut asked_without = false;
        loop {
            let route = &line.resolved.route;
            let refused = refusals.until(session, route);
            asked.messages = self.ready(line, asked, context, refused).await?;
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
                // A person has read the beginning: a second answer would be read as part of it.
                Err(TurnError::Provider(error)) if reserved.shown() => {
                    if error.refuses_thinking() && has_state(asked) {
                        // The next turn's request would be refused for the same.
                        refusals.note(session, route, unix_ms());
                    }
                    return Err(error.into());
                }
                Err(TurnError::Provider(error))
                    if !asked_without && error.refuses_thinking() && has_state(asked) =>
                {
                    tracing::warn!(%error, "asking again without the thinking of earlier answers");
                    asked_without = true;
                    refusals.note(session, route, unix_ms());
                }
                Err(TurnError::Provider(error))
                    if !line.refused_pictures && error.refuses_pictures() && has_pictures(said(asked)) =>
                {
                    tracing::warn!(%error, "asking again without pictures");
                    let notice = format!("{} is shown no pictures: {error}", line.told.label);
                    self.events.tell(TurnEvent::Notice(notice));
                    line.refused_pictures = true;
                }
                Err(TurnError::Provider(error)) if asked.format.is_some() && error.refuses_format() => {
                    // The answer is checked by whoever asked for it.
                    tracing::warn!(%error, "asking again without holding the model to the form of its answer");
                    asked.format = None;
                }
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
            // Something else is wanted of the conversation now than of the request before.
            self.unfold(line, context, running)?;
        }
    }

    async fn ask(
        &self,
        line: &Line,
        request: &Request,
        reserved: &Reserved<'_>,
    ) -> Result<Response, TurnError> {
        let resolved = &line.resolved;
        let mut sink = |delta| {
            reserved.begins(&delta);
            match delta {
                Delta::Text(text) => self.events.tell(TurnEvent::TextDelta(text)),
                Delta::Thinking(text) => self.events.tell(TurnEvent::ThinkingDelta(text)),
                Delta::ToolCall => {}
            }
        };
        let mut on_retry = |retrying: Retrying<'_>| {
            reserved.ends(Err(Some(retrying.reason)));
            reserved.asks();
            self.events.tell(TurnEvent::Retrying {
                attempt: retrying.attempt + 1,
                after: retrying.wait,
                reason: retrying.reason.to_string(),
            });
        };
        let policy = self.engine.parts.limits.retry;
        let policy = if line.others.is_empty() { policy } else { policy.beside_others() };
        let from = Instant::now();
        reserved.asks();
        tokio::select! {
            biased;
            error = self.halt.wait() => {
                if let TurnError::TimedOut(wall) = error
                    && reserved.is_silent()
                    && from.elapsed() >= wall / SILENT_PART
                {
                    // Nobody else could be asked in this turn; in the next one somebody else is asked first.
                    let model = &resolved.route.model;
                    self.engine.cooldowns.failed(model, Trouble::Down, unix_ms());
                }
                Err(error)
            }
            response = retry::call(&policy, &*resolved.provider, request, &mut sink, &mut on_retry) => {
                reserved.answered(request, &response);
                Ok(response?)
            }
        }
    }
}

/// Whom a conversation is made ready for that is sent with this request; `side` is the longest side of a picture.
pub(super) fn target(resolved: &Resolved, asked: &Request, told: &Told, side: u32) -> Target {
    Target {
        reasoning: resolved.reasoning,
        thinking: asks_to_think(asked),
        images: resolved.images,
        longest_side: side,
        tools: Some(told.tools.iter().map(|tool| tool.name.clone()).collect()),
        ..Target::new(resolved.route.clone())
    }
}

/// Whether a request asks its model to think.
pub(super) fn asks_to_think(request: &Request) -> bool {
    request.effort.is_some_and(|effort| effort != Effort::Off)
}

/// Whether a request has what only its provider can read: thinking, or what signs it.
fn has_state(request: &Request) -> bool {
    said(request).flat_map(|message| &message.content).any(|block| {
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

fn said(request: &Request) -> impl Iterator<Item = &Message> {
    request.messages.iter().map(|message| &**message)
}
