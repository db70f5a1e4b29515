//! The progress of a tool call and its log messages, for a caller that wants to know of them.

use std::fmt;
use std::sync::Arc;

use super::log::LogMessage;

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

/// News of a running call for its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum CallNews {
    Progress(CallProgress),
    Log(LogMessage),
}

/// Receives the reports and the log messages of one call. It must not block.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(CallNews) + Send + Sync>);

impl ProgressSink {
    /// Creates a sink that calls a function.
    #[must_use]
    pub fn new(receive: impl Fn(CallNews) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    /// Passes a report on.
    pub fn report(&self, progress: CallProgress) {
        (self.0)(CallNews::Progress(progress));
    }

    /// Passes a log message on.
    pub fn log(&self, message: LogMessage) {
        (self.0)(CallNews::Log(message));
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}
