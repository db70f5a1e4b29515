//! The trace that the running work belongs to: a value of the task, so that no function between needs a parameter for it.

use std::sync::Arc;

use futures_util::future::Either;
use tokio::task::futures::TaskLocalFuture;

use super::context::{TRACEPARENT, TRACESTATE, TraceContext};
use super::open_span::OpenSpan;
use super::span::SpanKind;
use super::store::Telemetry;
use crate::config::OtlpSettings;

tokio::task_local! {
    static CURRENT: Current;
}

/// The telemetry that the running work is recorded by, and its span.
#[derive(Clone)]
pub(crate) struct Current {
    telemetry: Arc<Telemetry>,
    context: Option<TraceContext>,
    settings: Arc<OtlpSettings>,
}

impl Current {
    pub(super) fn new(
        telemetry: Arc<Telemetry>,
        context: Option<TraceContext>,
        settings: Arc<OtlpSettings>,
    ) -> Self {
        Self { telemetry, context, settings }
    }

    /// Returns the span of the running work: of flock, or of the caller that asked for it.
    #[must_use]
    pub(crate) const fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    #[must_use]
    pub(crate) const fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }

    #[must_use]
    pub(super) const fn settings(&self) -> &Arc<OtlpSettings> {
        &self.settings
    }

    /// Returns what the running work passes on to another program, as names and values of headers, or of `_meta` in MCP.
    /// Empty if nothing has begun.
    #[must_use]
    pub(crate) fn propagated(&self) -> Vec<(&'static str, String)> {
        let Some(context) = &self.context else { return Vec::new() };
        let state = context.tracestate().map(|state| (TRACESTATE, state.to_owned()));
        [(TRACEPARENT, context.traceparent())].into_iter().chain(state).collect()
    }

    /// Begins a span below this one.
    #[must_use]
    pub(crate) fn begin(&self, kind: SpanKind, name: impl FnOnce() -> String) -> OpenSpan {
        OpenSpan::new(self, kind, name())
    }
}

/// Returns what the running work belongs to, or `None` if telemetry is off.
#[must_use]
pub(crate) fn current() -> Option<Current> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Begins a span below the one of the running work. Returns `None` if telemetry is off.
#[must_use]
pub(crate) fn begin(kind: SpanKind, name: impl FnOnce() -> String) -> Option<OpenSpan> {
    CURRENT.try_with(|current| current.begin(kind, name)).ok()
}

/// Returns work that belongs to `current`. Without one, it belongs to what it did before.
///
/// The value does not reach tasks that the work spawns.
pub(crate) fn scoped<F: Future>(current: Option<Current>, work: F) -> Either<TaskLocalFuture<Current, F>, F> {
    match current {
        Some(current) => Either::Left(CURRENT.scope(current, work)),
        None => Either::Right(work),
    }
}

/// Returns what a model call passes on. Empty unless the owner asked for it, because a provider gains nothing from the ids
/// of another company's traces.
#[must_use]
pub(crate) fn propagated_to_models() -> Vec<(&'static str, String)> {
    let of = |current: &Current| {
        if current.settings.propagates_to_models { current.propagated() } else { Vec::new() }
    };
    CURRENT.try_with(of).unwrap_or_default()
}
