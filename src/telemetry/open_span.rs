//! A span that has begun.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::context::TraceContext;
use super::current::Current;
use super::span::{Span, SpanFailure, SpanKind, Value, cut};
use super::store::Telemetry;
use crate::config::OtlpSettings;

/// Longest message of an error, in bytes.
const MAX_MESSAGE: usize = 2 << 10;

/// A span that has begun. Dropping it ends it as cancelled.
pub(crate) struct OpenSpan {
    telemetry: Arc<Telemetry>,
    settings: Arc<OtlpSettings>,
    span: Option<Span>,
    since: Instant,
    /// Unix nanoseconds at `since`.
    made: u64,
    /// Time by which the span began before `since`.
    before: Duration,
}

impl OpenSpan {
    /// Begins a span below `parent`, or the first one of a trace.
    pub(super) fn new(current: &Current, kind: SpanKind, name: String) -> Self {
        let parent = current.context().cloned();
        let context = parent.as_ref().map_or_else(TraceContext::root, TraceContext::child);
        let began = unix_ns();
        let span = Span {
            context,
            parent,
            name,
            kind,
            began,
            ended: began,
            attributes: Vec::with_capacity(12),
            links: Vec::new(),
            failure: None,
        };
        Self {
            telemetry: Arc::clone(current.telemetry()),
            settings: Arc::clone(current.settings()),
            span: Some(span),
            since: Instant::now(),
            made: began,
            before: Duration::ZERO,
        }
    }

    /// Adds an attribute.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((key, value.into()));
        }
    }

    /// Adds text of people, models or tools, if the owner asked for contents.
    pub(crate) fn content(&mut self, key: &'static str, value: impl FnOnce() -> Value) {
        if self.wants_contents() {
            self.set(key, value());
        }
    }

    /// Returns `true` if texts of people, models and tools are wanted.
    #[must_use]
    pub(crate) fn wants_contents(&self) -> bool {
        // The contents of a span that is not recorded need not be collected.
        self.settings.contents && self.span.as_ref().is_some_and(|span| span.context.is_sampled())
    }

    /// Names further spans that led to this one.
    pub(crate) fn link(&mut self, spans: impl IntoIterator<Item = TraceContext>) {
        if let Some(span) = &mut self.span {
            span.links.extend(spans);
        }
    }

    /// Sets the beginning to an earlier time, for work that is reported when it has ended.
    pub(crate) fn began_before(&mut self, ago: Duration) {
        self.before = ago;
        let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
        if let Some(span) = &mut self.span {
            span.began = self.made.saturating_sub(ago);
        }
    }

    /// Marks the span as failed, with a short word from a small set. The error in words is kept only with contents.
    pub(crate) fn fail(&mut self, code: impl Into<Cow<'static, str>>, message: impl FnOnce() -> String) {
        let wants_contents = self.wants_contents();
        if let Some(span) = &mut self.span {
            let message = wants_contents.then(|| cut(&message(), MAX_MESSAGE));
            span.failure = Some(SpanFailure { code: code.into(), message });
        }
    }

    /// Returns the code of the error, if the span has failed.
    #[must_use]
    pub(crate) fn failure(&self) -> Option<Cow<'static, str>> {
        self.span.as_ref().and_then(|span| span.failure.as_ref()).map(|failure| failure.code.clone())
    }

    /// Returns what the work of this span runs under.
    #[must_use]
    pub(crate) fn current(&self) -> Current {
        let context = self.span.as_ref().map(|span| span.context.clone());
        Current::new(Arc::clone(&self.telemetry), context, Arc::clone(&self.settings))
    }

    /// Sets the beginning to an earlier time in Unix nanoseconds.
    pub(crate) fn began_at(&mut self, at: u64) {
        self.began_before(Duration::from_nanos(self.made.saturating_sub(at)));
    }

    /// Takes back a failure, because a later attempt succeeded.
    pub(crate) fn succeed(&mut self) {
        if let Some(span) = &mut self.span {
            span.failure = None;
        }
    }

    /// Returns the time since the span began.
    #[must_use]
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed().saturating_add(self.before)
    }

    /// Ends the span.
    pub(crate) fn end(mut self) {
        self.finish();
    }

    /// Forgets the span. It is not recorded.
    pub(crate) fn discard(mut self) {
        self.span = None;
    }

    /// Returns the time now, counted from the span's beginning, so that a step of the machine's clock changes no
    /// duration.
    fn now(&self) -> u64 {
        let took = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.made.saturating_add(took)
    }

    fn finish(&mut self) {
        let ended = self.now();
        let Some(mut span) = self.span.take() else { return };
        span.ended = ended;
        self.telemetry.record(span);
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if self.span.is_some() {
            self.fail("cancelled", || "the work was given up".to_owned());
            self.finish();
        }
    }
}

/// Returns the present time in Unix nanoseconds.
pub(super) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
