//! The cost of a model call: a reservation is made before the call and settled after its answer has been passed on,
//! however that ended. The same cost goes to the turn's own count.

use std::sync::Arc;

use super::Ticket;
use crate::agent::{CallUsage, ModelCall, Oversight, PauseReason, Reservation, TokenEstimate};
use crate::provider::{ProviderError, Usage};

/// The reservation for one call. Dropping it settles the cost.
pub(super) struct CallReservation {
    oversight: Arc<dyn Oversight>,
    reservation: Option<Reservation>,
    ticket: Arc<Ticket>,
    call: ModelCall,
    /// The tokens that were seen of the call.
    seen: TokenEstimate,
    /// The cost of the attempts that have ended.
    ended: CallUsage,
    /// `true` once the answer of the running attempt has begun. `None` if no attempt runs.
    begun: Option<bool>,
}

impl CallReservation {
    /// Reserves what this call may cost. Its text is estimated at `text` tokens. The reservation may have to wait.
    pub(super) async fn reserve(
        oversight: &Arc<dyn Oversight>,
        ticket: &Arc<Ticket>,
        call: ModelCall,
        text: u64,
    ) -> Result<Self, PauseReason> {
        let reservation = oversight.reserve(&call).await?;
        let (oversight, ticket) = (Arc::clone(oversight), Arc::clone(ticket));
        Ok(Self {
            oversight,
            reservation: Some(reservation),
            ticket,
            call,
            seen: TokenEstimate { input: text, output: 0 },
            ended: CallUsage::Nothing,
            begun: None,
        })
    }

    /// Records that the provider is being asked.
    pub(super) const fn asks(&mut self) {
        self.begun = Some(false);
    }

    /// Records that the provider has begun to answer.
    pub(super) const fn begins(&mut self) {
        self.begun = Some(true);
    }

    /// Records that the attempt failed or broke off.
    pub(super) const fn failed(&mut self, error: Option<&ProviderError>) {
        if let Some(begun) = self.begun.take() {
            self.ended = self.ended.or(CallUsage::failed(error, begun));
        }
    }

    /// Records the usage that the provider reported. `written` is the number of tokens that were seen of the answer.
    pub(super) const fn told(&mut self, usage: Usage, written: u64) {
        self.seen.output = written;
        self.begun = None;
        self.ended = CallUsage::Told(usage);
    }
}

impl Drop for CallReservation {
    fn drop(&mut self) {
        // An attempt that still runs was abandoned in the middle.
        self.failed(None);
        let Some(reservation) = self.reservation.take() else { return };
        self.oversight.settle(reservation.with_estimate(self.seen), self.ended);
        let taken = turn_usage(self.ended, &self.call);
        self.ticket.calls.note(|count| count.usage += taken);
    }
}

/// Returns the usage of a call for the turn's count. If nobody knows it, it is estimated in the same way as for the
/// budget.
fn turn_usage(taken: CallUsage, call: &ModelCall) -> Usage {
    match taken {
        CallUsage::Nothing => Usage::default(),
        CallUsage::Sent => Usage { input: call.input_estimate, ..Usage::default() },
        CallUsage::Begun => Usage { input: call.input_estimate, output: call.max_output, ..Usage::default() },
        CallUsage::Told(usage) => usage,
    }
}
