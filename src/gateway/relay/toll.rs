//! What a model call costs: set aside before it is made, settled when its answer has been passed on, however that ended.
//! The turn's own count is the same.

use std::sync::Arc;

use super::Ticket;
use crate::agent::{ModelCall, Oversight, Paused, Reservation, Seen, Taken};
use crate::provider::{ProviderError, Usage};

/// What was set aside for one call; settled when this is dropped.
pub(super) struct Toll {
    oversight: Arc<dyn Oversight>,
    reservation: Option<Reservation>,
    ticket: Arc<Ticket>,
    call: ModelCall,
    /// What was seen of it.
    seen: Seen,
    /// What the attempts took that have ended.
    ended: Taken,
    /// Whether the answer of the one that runs has begun; `None` where none runs.
    begun: Option<bool>,
}

impl Toll {
    /// Sets aside what this call may cost, whose text comes to `text` tokens. It may wait.
    pub(super) async fn reserve(
        oversight: &Arc<dyn Oversight>,
        ticket: &Arc<Ticket>,
        call: ModelCall,
        text: u64,
    ) -> Result<Self, Paused> {
        let reservation = oversight.reserve(&call).await?;
        let (oversight, ticket) = (Arc::clone(oversight), Arc::clone(ticket));
        Ok(Self {
            oversight,
            reservation: Some(reservation),
            ticket,
            call,
            seen: Seen { input: text, output: 0 },
            ended: Taken::Nothing,
            begun: None,
        })
    }

    /// The provider is asked.
    pub(super) const fn asks(&mut self) {
        self.begun = Some(false);
    }

    /// It has begun to answer.
    pub(super) const fn begins(&mut self) {
        self.begun = Some(true);
    }

    /// It did not answer, or broke off.
    pub(super) const fn failed(&mut self, error: Option<&ProviderError>) {
        if let Some(begun) = self.begun.take() {
            self.ended = self.ended.or(Taken::failed(error, begun));
        }
    }

    /// It has said what its answer took, of which `written` tokens were seen.
    pub(super) const fn told(&mut self, usage: Usage, written: u64) {
        self.seen.output = written;
        self.begun = None;
        self.ended = Taken::Told(usage);
    }
}

impl Drop for Toll {
    fn drop(&mut self) {
        // Given up in the middle, if it still runs.
        self.failed(None);
        let Some(reservation) = self.reservation.take() else { return };
        self.oversight.settle(reservation.with_seen(self.seen), self.ended);
        let taken = counted(self.ended, &self.call);
        self.ticket.calls.note(|count| count.usage += taken);
    }
}

/// What a call counts as where nobody knows it: as for the budget.
fn counted(taken: Taken, call: &ModelCall) -> Usage {
    match taken {
        Taken::Nothing => Usage::default(),
        Taken::Sent => Usage { input: call.input_estimate, ..Usage::default() },
        Taken::Begun => Usage { input: call.input_estimate, output: call.max_output, ..Usage::default() },
        Taken::Told(usage) => usage,
    }
}
