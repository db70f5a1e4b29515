//! The budget of a delegated turn: a reservation before it begins, settled when it ends, in whatever way it ends.
//!
//! The program makes any number of model calls and reports their usage in between, at the end, or never. The
//! reservation is therefore for one call with a prompt of usual size, and the last report counts.
//!
//! If each of its calls passes through flock's relay, the relay charges them and the turn itself costs nothing: the
//! reservation only checks that there is room for a call now. If a call of the session's last turn had no room, the
//! check uses that call's size.

use super::DelegatedTurn;
use crate::agent::estimate::{self, ImageEstimate};
use crate::agent::metering::CallUsage;
use crate::agent::oversight::{ModelCall, Oversight, Reservation, TokenEstimate};
use crate::agent::turn::TurnError;
use crate::agent::turn_recorder::TurnRecorder;
use crate::provider::Usage;
use crate::runtime::{RuntimeError, RuntimeRequest};

/// Estimated tokens of the program's own prompt and tools.
const PROMPT_TOKENS: u64 = 16_000;
/// Estimated tokens of an answer.
const ANSWER_TOKENS: u64 = 8_192;

/// A reservation for a turn. Dropping it settles it.
pub(super) struct TurnReservation<'o> {
    oversight: &'o dyn Oversight,
    reservation: Option<Reservation>,
    taken: CallUsage,
    /// The usage that the program reported while it ran.
    spent: Option<Usage>,
    /// flock's own estimate of the turn. The program makes several calls, so it is a lower bound.
    seen: TokenEstimate,
}

impl<'o> TurnReservation<'o> {
    /// Reserves the cost of a turn. A wait for budget does not count against the turn's time.
    pub(super) async fn reserve(
        course: &'o DelegatedTurn<'_>,
        order: &RuntimeRequest,
        running: &TurnRecorder,
    ) -> Result<Self, TurnError> {
        // If the last turn failed for lack of room, this one has to reserve at least as much as the call that failed.
        let short = course.engine.desk.shortfall(&order.session).unwrap_or_default();
        let said =
            order.messages.iter().map(|message| estimate::cost(&message.content, ImageEstimate::Named));
        let said = said.sum::<u64>() + estimate::text_cost(&order.system);
        let call = ModelCall {
            agent: course.context.agent.clone(),
            session: course.context.session.clone(),
            turn: course.context.turn,
            model: running.route.model.clone(),
            input_estimate: (PROMPT_TOKENS + said).max(short.0),
            max_output: ANSWER_TOKENS.max(short.1),
            step: 1,
        };
        let oversight = &*course.engine.parts.oversight;
        let reservation = course.halt.uncounted(oversight.reserve(&call)).await??;
        // There is room now, so the failure is forgotten.
        course.engine.desk.set_shortfall(&order.session, None);
        let (reservation, seen) = (Some(reservation), TokenEstimate { input: said, output: 0 });
        let charge = Self { oversight, reservation, taken: CallUsage::Nothing, spent: None, seen };
        Ok(if course.runtime.is_metered(order) { charge.given_back() } else { charge })
    }

    /// Settles the reservation at once, with no usage.
    fn given_back(mut self) -> Self {
        // A metered program pays for each call through the relay. The reservation was only a check.
        if let Some(reservation) = self.reservation.take() {
            self.oversight.settle(reservation, CallUsage::Nothing);
        }
        self
    }

    /// Records that the program was asked.
    pub(super) fn sent(&mut self) {
        self.taken = self.taken.or(CallUsage::Sent);
    }

    /// Records that a part of an answer has come.
    pub(super) fn begun(&mut self) {
        self.taken = self.taken.or(CallUsage::Begun);
    }

    /// Records the usage that the program reported so far. It counts however the turn ends.
    pub(super) const fn spent(&mut self, usage: Usage) {
        self.spent = Some(usage);
    }

    /// Records the program's end of the turn, with its usage if it reported one.
    pub(super) fn told(&mut self, usage: Option<Usage>, answer: &str) {
        self.seen.output = estimate::text_cost(answer);
        self.taken = usage.map_or(CallUsage::Begun, CallUsage::Told);
    }

    /// Records the failure of the turn.
    pub(super) fn failed(&mut self, error: &RuntimeError) {
        // A program that never began cost nothing, whatever was assumed when it was asked.
        if !error.may_have_begun() {
            self.taken = CallUsage::Nothing;
        }
    }
}

impl Drop for TurnReservation<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            // If the turn ended without a final report, the program's last interim report counts.
            let taken = match (self.taken, self.spent) {
                (CallUsage::Sent | CallUsage::Begun, Some(usage)) => CallUsage::Told(usage),
                (taken, _) => taken,
            };
            self.oversight.settle(reservation.with_estimate(self.seen), taken);
        }
    }
}
