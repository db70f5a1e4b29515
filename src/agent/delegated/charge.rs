//! What a delegated turn costs: set aside before it is begun, settled when it has ended, however it did.
//!
//! The program makes as many model calls as it likes and says what they took in between, at the end, or never. So what is
//! set aside is for one call with a prompt of the usual size, and what was said last is what counts.
//!
//! Where each of its calls passes flock, which charges it, the turn itself costs nothing: it is only looked whether
//! there is room for a call now. Where a call of the session's last turn had no room, that is one like it.

use super::Course;
use crate::agent::estimate::{self, Images};
use crate::agent::oversight::{ModelCall, Oversight, Reservation, Seen};
use crate::agent::running::Running;
use crate::agent::taken::Taken;
use crate::agent::turn::TurnError;
use crate::provider::Usage;
use crate::runtime::{Order, RuntimeError};

/// Tokens that the program's own prompt and tools come to.
const PROMPT: u64 = 16_000;
/// Tokens of an answer.
const ANSWER: u64 = 8_192;

/// What was set aside; settled when this is dropped.
pub(super) struct Charge<'o> {
    oversight: &'o dyn Oversight,
    reservation: Option<Reservation>,
    taken: Taken,
    /// What the program said while it ran.
    spent: Option<Usage>,
    /// What was seen of the turn: the program makes several calls, so it is the least that they can have been.
    seen: Seen,
}

impl<'o> Charge<'o> {
    /// Sets aside what the turn may cost. Where the budget makes it wait, that does not count against its time.
    pub(super) async fn reserve(
        course: &'o Course<'_>,
        order: &Order,
        running: &Running,
    ) -> Result<Self, TurnError> {
        let short = course.engine.desk.had_no_room(&order.session).unwrap_or_default();
        let said = order.messages.iter().map(|message| estimate::cost(&message.content, Images::Named));
        let said = said.sum::<u64>() + estimate::text_cost(&order.system);
        let call = ModelCall {
            agent: course.context.agent.clone(),
            session: course.context.session.clone(),
            turn: course.context.turn,
            model: running.route.model.clone(),
            input_estimate: (PROMPT + said).max(short.0),
            max_output: ANSWER.max(short.1),
            step: 1,
        };
        let oversight = &*course.engine.parts.oversight;
        let reservation = course.halt.uncounted(oversight.reserve(&call)).await??;
        course.engine.desk.no_room(&order.session, None);
        let (reservation, seen) = (Some(reservation), Seen { input: said, output: 0 });
        let charge = Self { oversight, reservation, taken: Taken::Nothing, spent: None, seen };
        Ok(if course.runtime.is_metered(order) { charge.given_back() } else { charge })
    }

    /// The same with nothing set aside.
    fn given_back(mut self) -> Self {
        if let Some(reservation) = self.reservation.take() {
            self.oversight.settle(reservation, Taken::Nothing);
        }
        self
    }

    /// The program is asked.
    pub(super) fn sent(&mut self) {
        self.taken = self.taken.or(Taken::Sent);
    }

    /// Something of an answer has come.
    pub(super) fn begun(&mut self) {
        self.taken = self.taken.or(Taken::Begun);
    }

    /// The program says what it has taken so far: that counts however it ends.
    pub(super) const fn spent(&mut self, usage: Usage) {
        self.spent = Some(usage);
    }

    /// The program has ended the turn and said what it took, or not.
    pub(super) fn told(&mut self, usage: Option<Usage>, answer: &str) {
        self.seen.output = estimate::text_cost(answer);
        self.taken = usage.map_or(Taken::Begun, Taken::Told);
    }

    /// The turn failed like this.
    pub(super) fn failed(&mut self, error: &RuntimeError) {
        if !error.may_have_begun() {
            self.taken = Taken::Nothing;
        }
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let taken = match (self.taken, self.spent) {
                (Taken::Sent | Taken::Begun, Some(usage)) => Taken::Told(usage),
                (taken, _) => taken,
            };
            self.oversight.settle(reservation.with_seen(self.seen), taken);
        }
    }
}
