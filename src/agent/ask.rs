//! One model call of a turn: what it may cost is set aside, the model is asked until it answers or gives up,
//! and what it took is settled, whatever happened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::context::Context;
use super::engine::Engine;
use super::estimate;
use super::failover::{Trouble, is_too_long};
use super::line::{Line, Told};
use super::oversight::{ModelCall, Oversight, Reservation};
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
}

impl<'o> Reserved<'o> {
    fn new(oversight: &'o dyn Oversight, reservation: Reservation) -> Self {
        let toll = Mutex::new(Toll { ended: Taken::Nothing, begun: None, shown: false });
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
        let taken = self.toll().ended;
        if let Some(reservation) = self.reservation.take() {
            self.oversight.settle(reservation, taken);
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
    reserved.ends(response.as_ref().map(|response| response.usage).map_err(Some));
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

    /// The conversation as this model takes it. Pictures may have to be made smaller for that, so no other turn waits.
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
            let answered = self.ask(line, asked, reserved).await;
            match answered {
                Err(TurnError::Provider(error))
                    if !asked_without && error.refuses_thinking() && has_state(asked) =>
                {
                    tracing::warn!(%error, "asking again without the thinking of earlier answers");
                    asked_without = true;
                    refusals.note(session, route, unix_ms());
                }
                Err(TurnError::Provider(error))
                    if !line.refused_pictures && error.refuses_pictures() && has_pictures(asked) =>
                {
                    tracing::warn!(%error, "asking again without pictures");
                    let notice = format!("{} is shown no pictures: {error}", line.told.label);
                    self.events.tell(TurnEvent::Notice(notice));
                    line.refused_pictures = true;
                }
                Err(TurnError::Provider(error)) if is_too_long(&error) => {
                    let before = context.cost();
                    context.narrow();
                    self.make_room(line, context, running, asked).await?;
                    if context.cost() >= before {
                        return Err(error.into());
                    }
                }
                answered => return answered,
            }
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
                reserved.ends(response.as_ref().map(|response| response.usage).map_err(Some));
                Ok(response?)
            }
        }
    }
}

/// Whom a conversation is made ready for that is sent with this request; `side` is the longest side of a picture.
pub(super) fn target(resolved: &Resolved, asked: &Request, told: &Told, side: u32) -> Target {
    Target {
        reasoning: resolved.reasoning,
        thinking: asked.effort.is_some_and(|effort| effort != Effort::Off),
        images: resolved.images,
        longest_side: side,
        tools: Some(told.tools.iter().map(|tool| tool.name.clone()).collect()),
        ..Target::new(resolved.route.clone())
    }
}

/// Whether a request has what only its provider can read: thinking, or what signs it.
fn has_state(request: &Request) -> bool {
    blocks(request).any(|block| {
        matches!(
            block,
            Block::Thinking { .. }
                | Block::Text { signature: Some(_), .. }
                | Block::ToolCall { signature: Some(_), .. }
        )
    })
}

fn has_pictures(request: &Request) -> bool {
    fn is_one(block: &Block) -> bool {
        match block {
            Block::Image { .. } => true,
            Block::ToolResult { content, .. } => content.iter().any(is_one),
            _ => false,
        }
    }
    blocks(request).any(is_one)
}

fn blocks(request: &Request) -> impl Iterator<Item = &Block> {
    request.messages.iter().flat_map(|message| &message.content)
}
