//! What comes for a session while its turn runs.

use super::provenance::Provenance;
use crate::provider::BoxFuture;

/// What has come for one session and was not shown to it yet. The turn asks before each model call but the
/// first, so that what is new is seen between two steps and not only after the last.
pub trait Inbox: Send + Sync {
    /// What has come since, to be shown before the next model call: whole messages that cost at most `room`
    /// tokens together; `None` where there is nothing, or nothing that fits. Asked again until it gives
    /// `None`; must not wait for something to come. A turn may end before it has committed what it took: what was not reported to
    /// [`Self::committed`] has not been delivered.
    fn take(&self, room: u64) -> BoxFuture<'_, Option<Delivery>>;

    /// What has this provenance is committed in the transcript, and is not to be delivered again. The
    /// turn's own input is reported too, where it has one. To be told twice of the same is no harm.
    fn committed<'a>(&'a self, provenance: &'a Provenance) -> BoxFuture<'a, ()>;
}

/// Messages for a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// As the model reads them.
    pub text: String,
    /// Where they came from.
    pub provenance: Provenance,
}
