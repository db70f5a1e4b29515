//! One model call of a turn: reserve its cost, and ask the model until it answers or gives up. If a model fails before
//! any of its answer was shown, the next model is asked within the same turn, with a reservation of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::conversation::{make_room, unfold};
use super::state::{TurnScope, TurnState};
use super::{TurnError, TurnEvent};
use crate::agent::estimate;
use crate::agent::failover::{self, FailoverDecision, ModelFailure};
use crate::agent::model_chain::{ModelChain, fallback_notice, target};
use crate::agent::overflow::{is_too_long, limit_in};
use crate::agent::oversight::ModelCall;
use crate::agent::quota::{CallPermit, QuotaRefusal};
use crate::agent::reservation::CallReservation;
use crate::agent::transcript::hygiene::{HygieneError, Target, pictures_in, sanitise};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::provider::retry::RetryNotice;
use crate::provider::{Block, Delta, Message, ProviderError, Request, ResolvedModel, Response, quota};
use crate::sync::lock;

/// The share of a turn's time, as a divisor: a call that was silent for at least this share when the time ran out
/// counts as a failure of its model.
const SILENT_SHARE: u32 = 10;

/// Conversations up to this many tokens are prepared on the current thread. That takes well under a millisecond; a
/// thread of its own would cost more, and hundreds of parallel turns would need one each.
const MAX_INLINE_TOKENS: u64 = 32_000;

/// Reserves the cost of the next model call. A wait for budget does not count against the turn's time.
pub(super) async fn reserve(
    scope: &TurnScope<'_>,
    state: &TurnState<'_>,
) -> Result<CallReservation, TurnError> {
    let call = ModelCall {
        agent: scope.context.agent.clone(),
        session: scope.context.session.clone(),
        turn: scope.context.turn,
        model: state.recorder.route.model.clone(),
        input_estimate: estimate::fixed_cost(&state.model_request) + state.context.cost(),
        max_output: u64::from(state.model_request.max_tokens),
        step: state.recorder.steps + 1,
        server: None,
    };
    let reserved = CallReservation::reserve(&scope.engine.parts.oversight, &call);
    Ok(scope.deadline.uncounted(reserved).await??)
}

/// Asks the turn's model, and if it fails the models behind it. Returns the answer with the reservation of its call.
pub(super) async fn ask_with_fallback(
    scope: &TurnScope<'_>,
    state: &mut TurnState<'_>,
    mut reserved: CallReservation,
) -> Result<(Response, CallReservation), TurnError> {
    loop {
        let error = match ask_adapting(scope, state, &reserved).await {
            Ok(response) => {
                // An answer ends the model's cooldown at once, however often it failed before.
                scope.engine.cooldowns.answered(&state.model_chain.resolved.route.model);
                return Ok((response, reserved));
            }
            Err(error) => error,
        };
        let shown = reserved.shown();
        // The failed call's reservation is settled before the next one is made, so that the budget counts each
        // alone.
        drop(reserved);
        let Some(trouble) = failover::trouble(&error) else { return Err(error) };
        let failed = state.model_chain.resolved.route.model.clone();
        // The quota's own time says how long the model is avoided.
        if !matches!(error, TurnError::Parked(_)) {
            scope.engine.cooldowns.failed(&failed, trouble, unix_ms());
        }
        // A cached prefix is encoded for one model's API and is of no use to the next one.
        unfold(state)?;
        let decision =
            state.model_chain.others.failed(Some(trouble), state.model_chain.resolved.context_window, shown);
        if decision == FailoverDecision::GiveUp || !advance_to_fitting(scope, state).await? {
            return Err(error);
        }
        // The failed call may have taken long: the agent may have been frozen or the deadline passed meanwhile.
        scope.deadline.thawed().await?;
        scope.deadline.now()?;
        reserved = reserve(scope, state).await?;
        // The notice comes after the reservation, so that it is sent only if the model is really asked.
        scope.events.tell(TurnEvent::Notice(fallback_notice(
            &state.model_chain.resolved.label,
            &failed,
            &chain(&error),
        )));
    }
}

/// Reports an error that says that a quota is used up, and returns the error with which the turn waits for it. Other
/// errors are returned as they are.
async fn note_quota(
    scope: &TurnScope<'_>,
    resolved: &ResolvedModel,
    error: ProviderError,
    probe: Option<u64>,
) -> TurnError {
    let signal = match probe {
        Some(_) => quota::signal_of_probe(&error),
        None => quota::signal(&error, scope.engine.parts.config.current().quota_patience),
    };
    let (Some(signal), Some(credential)) = (signal, &resolved.credential) else { return error.into() };
    let model = &resolved.route.model;
    let refused = QuotaRefusal {
        agent: scope.context.agent.clone(),
        credential: credential.clone(),
        model: model.clone(),
        signal,
        reason: error.to_string(),
        probe,
    };
    let oversight = &scope.engine.parts.oversight;
    oversight.quota_refused(refused).await;
    oversight.parked(credential, model).map_or(error.into(), TurnError::Parked)
}

/// Switches to the next model that the conversation fits into after room was made in it. Returns `false` if none is
/// left.
async fn advance_to_fitting(scope: &TurnScope<'_>, state: &mut TurnState<'_>) -> Result<bool, TurnError> {
    while state.model_chain.step(scope.engine, &mut state.model_request, &mut state.context) {
        state.recorder.route = state.model_chain.resolved.route.clone();
        make_room(scope, state).await?;
        if state.context.cost() <= state.context.room() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Prepares the conversation for the model. A long conversation, or one with pictures that may need scaling, is
/// prepared on a blocking thread, so that no other turn has to wait.
async fn ready(
    scope: &TurnScope<'_>,
    state: &TurnState<'_>,
    refused_until: Option<i64>,
) -> Result<Vec<Arc<Message>>, TurnError> {
    let TurnState { model_chain, model_request, context, .. } = state;
    let side = scope.engine.parts.config.current().image_side;
    let target = Target {
        refused_until,
        refused_pictures: model_chain.refused_pictures,
        pictures: scope.engine.pictures.clone(),
        ..target(&model_chain.resolved, model_request, &model_chain.prompt_spec, side)
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
async fn ask_adapting(
    scope: &TurnScope<'_>,
    state: &mut TurnState<'_>,
    reserved: &CallReservation,
) -> Result<Response, TurnError> {
    let (session, refusals) = (&scope.context.session, &scope.engine.refusals);
    let mut asked_without = false;
    loop {
        let refused = refusals.until(session, &state.model_chain.resolved.route);
        state.model_request.messages = ready(scope, state, refused).await?;
        let TurnState { model_chain, model_request, context, .. } = state;
        let route = &model_chain.resolved.route;
        // A cached prefix is used only if the provider would encode the same bytes for this request.
        model_request.prefix = context.prefix().map(|prefix| Arc::clone(&prefix.body));
        if let Some(prefix) = &model_request.prefix
            && !prefix.fits(&*model_chain.resolved.provider, model_request)
        {
            scope.engine.prefixes.forget(session);
            unfold(state)?;
            continue;
        }
        let answered = ask(scope, model_chain, model_request, reserved).await;
        match answered {
            // A person has read the beginning: a second answer would read as a part of it.
            Err(TurnError::Provider(error)) if reserved.shown() => {
                if error.refuses_thinking() && has_provider_state(model_request) {
                    // Remembered all the same, because the next turn's request would be rejected for the same
                    // reason.
                    refusals.note(session, route, unix_ms());
                }
                return Err(error.into());
            }
            Err(TurnError::Provider(error))
                if !asked_without && error.refuses_thinking() && has_provider_state(model_request) =>
            {
                tracing::warn!(%error, "asking again without the thinking of earlier answers");
                // Asked at most once without thinking: a second rejection has another reason.
                asked_without = true;
                refusals.note(session, route, unix_ms());
            }
            Err(TurnError::Provider(error))
                if !model_chain.refused_pictures
                    && error.refuses_pictures()
                    && has_pictures(messages_of(model_request)) =>
            {
                tracing::warn!(%error, "asking again without pictures");
                let notice = format!("{} is shown no pictures: {error}", model_chain.prompt_spec.label);
                scope.events.tell(TurnEvent::Notice(notice));
                model_chain.refused_pictures = true;
            }
            Err(TurnError::Provider(error)) if model_request.format.is_some() && error.refuses_format() => {
                // Dropping the format is safe: the caller checks the answer.
                tracing::warn!(%error, "asking again without holding the model to the form of its answer");
                model_request.format = None;
            }
            // The provider counts more tokens than flock estimated. It is asked again only as long as the
            // conversation gets shorter, so this ends.
            Err(TurnError::Provider(error)) if is_too_long(&error) => {
                let before = context.cost();
                context.narrow();
                make_room(scope, state).await?;
                if state.context.cost() >= before {
                    let window = limit_in(&error).unwrap_or(state.model_chain.resolved.context_window);
                    return Err(TurnError::Overflow { window, error });
                }
            }
            answered => return answered,
        }
        // The next attempt needs another form of the conversation than a cached prefix can give.
        unfold(state)?;
    }
}

async fn ask(
    scope: &TurnScope<'_>,
    model_chain: &ModelChain,
    request: &Request,
    reserved: &CallReservation,
) -> Result<Response, TurnError> {
    let resolved = &model_chain.resolved;
    let permit = match &resolved.credential {
        Some(credential) => scope.engine.parts.oversight.admit_call(credential, &resolved.route.model)?,
        None => CallPermit::free(),
    };
    let probe = permit.number();
    let permit = Mutex::new(permit);
    let mut sink = |delta| {
        // The first word shows that the quota is there again. The rest of the answer may take minutes.
        lock(&permit).answered();
        match delta {
            Delta::Text(text) => scope.events.tell(TurnEvent::TextDelta(text)),
            Delta::Thinking(text) => scope.events.tell(TurnEvent::ThinkingDelta(text)),
            Delta::ToolCall => {}
        }
    };
    let mut on_retry = |retrying: RetryNotice<'_>| {
        scope.events.tell(TurnEvent::Retrying {
            attempt: retrying.attempt + 1,
            after: retrying.wait,
            reason: retrying.reason.to_string(),
        });
    };
    // The others wait for what a probe tells, so it does not wait itself.
    let patience = match probe {
        Some(_) => Duration::ZERO,
        None => scope.engine.parts.config.current().quota_patience,
    };
    let policy = scope.engine.parts.limits.retry.with_patience(patience);
    // With a fallback left, a model that stays silent is asked only once.
    let policy = if model_chain.others.is_empty() { policy } else { policy.with_fallbacks() };
    let from = Instant::now();
    // Biased: a stop of the turn wins over a response that arrives at the same moment.
    let answered = tokio::select! {
        biased;
        error = scope.deadline.wait() => {
            if let TurnError::TimedOut(wall) = error
                && reserved.is_silent()
                && from.elapsed() >= wall / SILENT_SHARE
            {
                // No other model can be asked in this turn. The cooldown makes the next turn ask another one first.
                let model = &resolved.route.model;
                scope.engine.cooldowns.failed(model, ModelFailure::Down, unix_ms());
            }
            Err(error)
        }
        response = reserved.call(&policy, &*resolved.provider, request, &mut sink, &mut on_retry) => {
            Ok(response)
        }
    }?;
    match answered {
        Ok(response) => {
            lock(&permit).answered();
            Ok(response)
        }
        // The permit is held until the refusal is known, so that no second probe is made meanwhile.
        Err(error) => Err(note_quota(scope, resolved, error, probe).await),
    }
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
    messages.any(|message| message.content.iter().any(|block| pictures_in(block) > 0))
}

fn messages_of(request: &Request) -> impl Iterator<Item = &Message> {
    request.messages.iter().map(|message| &**message)
}
