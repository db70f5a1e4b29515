//! The fate of the spans: the figures of `flock status`, `flock doctor` and `/metrics`.

use serde::Serialize;

/// The reason why spans were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Too many waited.
    Full,
    /// The collector did not take them in time, or refused the request.
    Undelivered,
    /// The collector took the request and said that it rejects some of them.
    Rejected,
}

/// Numbers of lost spans since the start of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LostSpans {
    pub(crate) full: u64,
    pub(crate) undelivered: u64,
    pub(crate) rejected: u64,
}

/// A request that the collector did not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportError {
    /// The reason, for people.
    pub(crate) message: String,
    /// Unix milliseconds.
    pub(crate) at: i64,
    /// `true` if nothing was sent since.
    pub(crate) lasts: bool,
}

/// The fate of the spans since the start of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportStatistics {
    /// Spans that wait.
    pub(crate) waiting: usize,
    /// Spans that the collector took.
    pub(crate) sent: u64,
    pub(crate) lost: LostSpans,
    /// Requests with metrics that the collector took.
    pub(crate) metrics_sent: u64,
    /// Unix milliseconds at which the collector last took something.
    pub(crate) sent_at: Option<i64>,
    pub(crate) error: Option<ExportError>,
}

impl ExportStatistics {
    /// Counts spans that were lost.
    pub(super) fn lose(&mut self, why: Loss, spans: u64) {
        let count = match why {
            Loss::Full => &mut self.lost.full,
            Loss::Undelivered => &mut self.lost.undelivered,
            Loss::Rejected => &mut self.lost.rejected,
        };
        *count = count.saturating_add(spans);
    }

    /// Notes that the collector took a request.
    pub(super) fn note_sent(&mut self, at: i64) {
        self.sent_at = Some(at);
        if let Some(error) = &mut self.error {
            error.lasts = false;
        }
    }
}
