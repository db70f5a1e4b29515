//! The progress of a tool call, for a caller that wants to know of it.

use std::fmt;
use std::sync::Arc;

/// A report of a running call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    /// The part that is done. It grows from report to report.
    pub done: f64,
    /// The whole, if it is known.
    pub total: Option<f64>,
    /// The present step, cleaned and cut.
    pub message: Option<String>,
}

/// Receives the reports of one call. It must not block.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(CallProgress) + Send + Sync>);

impl ProgressSink {
    /// Creates a sink that calls a function.
    #[must_use]
    pub fn new(receive: impl Fn(CallProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    /// Passes a report on.
    pub fn report(&self, progress: CallProgress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}
