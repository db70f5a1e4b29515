//! The interface to messages that arrive for a session while its turn runs.

use super::provenance::Provenance;
use crate::provider::BoxFuture;

/// Messages that have arrived for one session and were not shown to it yet.
///
/// The turn asks before each model call except the first, so that the model sees new messages between two steps and not
/// only after the last.
pub trait Inbox: Send + Sync {
    /// Takes the next messages to show before the next model call, or `None` if there are none that fit.
    ///
    /// Messages are always whole and cost at most `room` tokens together. The turn calls this until it returns `None`.
    /// It must not wait for messages to arrive. A turn may end before it has committed what it took: messages that were
    /// not reported to [`Self::committed`] have not been delivered.
    fn take(&self, room: u64) -> BoxFuture<'_, Option<Delivery>>;

    /// Reports that the input with this provenance is committed to the transcript and must not be delivered again.
    ///
    /// The turn's own input is reported too, if it has a provenance. Reporting the same input twice must do no harm.
    fn committed<'a>(&'a self, provenance: &'a Provenance) -> BoxFuture<'a, ()>;
}

/// Messages for a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The messages as the model reads them.
    pub text: String,
    pub provenance: Provenance,
}
