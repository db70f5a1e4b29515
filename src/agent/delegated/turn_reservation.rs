//! The budget of a delegated turn: a reservation before it begins, settled when it ends, in whatever way it ends.
//!
//! The program makes any number of model calls and reports their usage in between, at the end, or never. The
//! reservation is therefore for one call with a prompt of usual size, and the last report counts.
//!
//! If each of its calls passes through flock's relay, the relay reserves them and the turn itself costs nothing: the
//! reservation only checks that there is room for a call now. If a call of the session's last turn had no room, the
//! check uses that call's size.

use crate::agent::estimate::{self, ImageEstimate};
use crate::agent::oversight::ModelCall;
use crate::agent::reservation::CallReservation;
use crate::agent::turn::{TurnError, TurnScope};
use crate::runtime::{Runtime, RuntimeRequest};

/// Estimated tokens of the program's own prompt and tools.
const PROMPT_TOKENS: u64 = 16_000;
/// Estimated tokens of an answer.
const ANSWER_TOKENS: u64 = 8_192;

/// Reserves the cost of a turn. A wait for budget does not count against the turn's time.
pub(super) async fn reserve(
    scope: &TurnScope<'_>,
    runtime: &dyn Runtime,
    order: &RuntimeRequest,
) -> Result<CallReservation, TurnError> {
    let router = &scope.engine.router;
    // If the last turn failed for lack of room, this one has to reserve at least as much as the call that failed.
    let short = router.shortfall(&order.session).unwrap_or_default();
    let said = order.messages.iter().map(|message| estimate::cost(&message.content, ImageEstimate::Named));
    let said = said.sum::<u64>() + estimate::text_cost(&order.system);
    let call = ModelCall {
        agent: order.agent.clone(),
        session: order.session.clone(),
        turn: order.turn,
        model: order.model.clone(),
        input_estimate: (PROMPT_TOKENS + said).max(short.0),
        max_output: ANSWER_TOKENS.max(short.1),
        step: 1,
        server: None,
    };
    let reserved = CallReservation::reserve(&scope.engine.parts.oversight, &call);
    let mut reservation = scope.deadline.uncounted(reserved).await??;
    reservation.observe_as_turn();
    // There is room now, so the failure is forgotten.
    router.set_shortfall(&order.session, None);
    // The program makes several calls, so flock's own estimate is a lower bound.
    reservation.estimate(|seen| seen.input = said);
    if runtime.is_metered(order) {
        // A metered program pays for each call through the relay. The reservation was only a check.
        reservation.release();
    }
    Ok(reservation)
}
