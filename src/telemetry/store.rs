//! The telemetry of one gateway: what was recorded and waits to be sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::causes::{Cause, Causes, NotedCause};
use super::context::TraceContext;
use super::current::Current;
use super::metrics::{Instrument, Labels, Metrics};
use super::open_span::unix_ns;
use super::queue::SpanQueue;
use super::span::Span;
use super::statistics::{ExportError, ExportStatistics, Loss};
use crate::clock::unix_ms;
use crate::config::{Live, OtlpSettings};
use crate::id::{ModelRef, TurnId};
use crate::sync::lock;

/// The records that wait to be sent. Recording takes a short lock and never waits.
pub struct Telemetry {
    live: Arc<Live>,
    queue: Mutex<SpanQueue>,
    metrics: Mutex<MeasuredMetrics>,
    causes: Mutex<Causes>,
    turns: Mutex<HashMap<TurnId, TracedTurn>>,
    statistics: Mutex<ExportStatistics>,
    recorded: Notify,
    /// Unix nanoseconds at which the metrics begin.
    began: u64,
}

#[derive(Default)]
struct MeasuredMetrics {
    metrics: Metrics,
    /// `true` if a value was added since the last look.
    is_new: bool,
}

/// A turn that runs.
struct TracedTurn {
    current: Current,
    /// The model that was asked last.
    model: Option<ModelRef>,
}

impl Telemetry {
    /// Makes the telemetry of a home. It records nothing unless the configuration says where to send it.
    #[must_use]
    pub fn new(live: Arc<Live>) -> Arc<Self> {
        Arc::new(Self {
            live,
            queue: Mutex::default(),
            metrics: Mutex::default(),
            causes: Mutex::default(),
            turns: Mutex::default(),
            statistics: Mutex::default(),
            recorded: Notify::new(),
            began: unix_ns(),
        })
    }

    /// Returns where and what to send, or `None` if telemetry is off.
    #[must_use]
    pub(crate) fn settings(&self) -> Option<Arc<OtlpSettings>> {
        self.live.current().otlp.clone()
    }

    /// Returns what work begins under: below `parent`, or as the first span of a trace. `None` if telemetry is off.
    #[must_use]
    pub(crate) fn enter(self: &Arc<Self>, parent: Option<TraceContext>) -> Option<Current> {
        let settings = self.settings()?;
        Some(Current::new(Arc::clone(self), parent, settings))
    }

    /// Takes a span that has ended.
    pub(super) fn record(&self, span: Span) {
        // Its caller decided that this trace is not recorded.
        if !span.context.is_sampled() {
            return;
        }
        if !lock(&self.queue).push(span) {
            self.lose(Loss::Full, 1);
        }
        self.recorded.notify_one();
    }

    /// Adds a value to a metric.
    pub(crate) fn observe(&self, instrument: Instrument, labels: Labels, value: f64) {
        let mut measured = lock(&self.metrics);
        measured.metrics.observe(instrument, labels, value);
        measured.is_new = true;
        drop(measured);
        self.recorded.notify_one();
    }

    /// Notes that the work of `current` led to something for which a turn begins later.
    pub(crate) fn note_cause(&self, cause: Cause, context: TraceContext) {
        lock(&self.causes).note(cause, (context, unix_ns()));
    }

    /// Returns the spans of these causes that are known, in their order.
    #[must_use]
    pub(crate) fn causes(&self, of: impl IntoIterator<Item = Cause>) -> Vec<NotedCause> {
        let causes = lock(&self.causes);
        of.into_iter().filter_map(|cause| causes.find(&cause)).collect()
    }

    /// Registers a turn as running until the guard is dropped.
    #[must_use]
    pub(crate) fn run_turn(self: &Arc<Self>, turn: TurnId, current: Current) -> TracedTurnGuard {
        lock(&self.turns).insert(turn, TracedTurn { current, model: None });
        TracedTurnGuard { telemetry: Arc::clone(self), turn }
    }

    /// Returns what the work of a running turn belongs to. Requests of an agent program come back by other connections.
    #[must_use]
    pub(crate) fn turn(&self, turn: TurnId) -> Option<Current> {
        lock(&self.turns).get(&turn).map(|turn| turn.current.clone())
    }

    /// Notes the model that a turn asks.
    pub(crate) fn note_model(&self, turn: TurnId, model: &ModelRef) {
        if let Some(turn) = lock(&self.turns).get_mut(&turn) {
            turn.model = Some(model.clone());
        }
    }

    /// Returns the model that a turn asked last.
    #[must_use]
    pub(crate) fn model(&self, turn: TurnId) -> Option<ModelRef> {
        lock(&self.turns).get(&turn).and_then(|turn| turn.model.clone())
    }

    /// Waits until something was recorded.
    pub(crate) async fn recorded(&self) {
        self.recorded.notified().await;
    }

    /// Takes spans that wait, oldest first, at most this many and this many bytes.
    #[must_use]
    pub(crate) fn take(&self, most: usize, bytes: usize) -> Vec<Span> {
        lock(&self.queue).take(most, bytes)
    }

    /// Returns the number of spans that wait.
    #[must_use]
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.queue).len()
    }

    /// Returns all metrics with the times that they cover in Unix nanoseconds, if one has changed since the last call.
    #[must_use]
    pub(crate) fn changed_metrics(&self) -> Option<(Metrics, (u64, u64))> {
        let mut measured = lock(&self.metrics);
        std::mem::take(&mut measured.is_new).then(|| (measured.metrics.clone(), (self.began, unix_ns())))
    }

    /// Returns `true` if a metric has changed since they were last taken.
    #[must_use]
    pub(crate) fn has_new_metrics(&self) -> bool {
        lock(&self.metrics).is_new
    }

    /// Marks the metrics as changed, because they could not be sent.
    pub(crate) fn keep_metrics(&self) {
        lock(&self.metrics).is_new = true;
    }

    /// Forgets what waits, because telemetry was switched off.
    pub(crate) fn forget(&self) {
        lock(&self.queue).clear();
        lock(&self.metrics).is_new = false;
    }

    /// Counts spans that were lost.
    pub(crate) fn lose(&self, why: Loss, spans: u64) {
        lock(&self.statistics).lose(why, spans);
    }

    /// Counts spans that the collector took.
    pub(crate) fn note_sent(&self, spans: u64) {
        let mut statistics = lock(&self.statistics);
        statistics.sent = statistics.sent.saturating_add(spans);
        statistics.note_sent(unix_ms());
    }

    /// Counts a request with metrics that the collector took.
    pub(crate) fn note_metrics_sent(&self) {
        let mut statistics = lock(&self.statistics);
        statistics.metrics_sent = statistics.metrics_sent.saturating_add(1);
        statistics.note_sent(unix_ms());
    }

    /// Notes that the collector did not take a request. Returns `true` if it took the one before.
    pub(crate) fn note_error(&self, message: String) -> bool {
        let mut statistics = lock(&self.statistics);
        let is_first = statistics.error.as_ref().is_none_or(|error| !error.lasts);
        statistics.error = Some(ExportError { message, at: unix_ms(), lasts: true });
        is_first
    }

    /// Returns what became of the spans.
    #[must_use]
    pub(crate) fn statistics(&self) -> ExportStatistics {
        let waiting = self.waiting();
        ExportStatistics { waiting, ..lock(&self.statistics).clone() }
    }
}

/// A turn that is registered as running.
pub(crate) struct TracedTurnGuard {
    telemetry: Arc<Telemetry>,
    turn: TurnId,
}

impl Drop for TracedTurnGuard {
    fn drop(&mut self) {
        lock(&self.telemetry.turns).remove(&self.turn);
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
