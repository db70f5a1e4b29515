//! The freeze of an agent, as its card and the pages of its sessions show it.

use serde::Deserialize;

use crate::clean;
use crate::dashboard::format::Moment;

#[derive(Deserialize)]
pub(super) struct Freeze {
    since: i64,
    pub by: String,
    reason: Option<String>,
}

impl Freeze {
    /// Returns the time at which it began.
    pub(super) fn began(&self) -> Moment {
        Moment::new(self.since)
    }

    /// Returns its reason on one line.
    pub(super) fn shown_reason(&self) -> Option<String> {
        self.reason.as_deref().map(|reason| clean::inline(reason).into_owned())
    }
}
