//! Spans and metrics about the work of flock, in the terms of OpenTelemetry.
//!
//! A [`Telemetry`] keeps what is recorded, within bounds, until `gateway::telemetry` sends it. The code that is observed
//! asks for [`current()`], which is set only while telemetry is on: so it costs nothing while it is off. Everything here
//! is memory. Nothing waits, and nothing leaves the machine from here.

mod causes;
mod context;
mod current;
mod encode;
pub(crate) mod gen_ai;
mod metrics;
mod open_span;
mod queue;
mod redactor;
mod span;
mod statistics;
mod store;

pub(crate) use causes::Cause;
pub use context::TraceContext;
pub(crate) use context::{TRACEPARENT, TRACESTATE};
pub(crate) use current::{Current, begin, current, propagated_to_models, scoped};
pub(crate) use encode::{Resource, metrics_request, traces_request};
pub(crate) use metrics::Instrument;
pub(crate) use open_span::OpenSpan;
pub(crate) use redactor::Redactor;
pub(crate) use span::{MAX_CONTENT, Span, SpanKind, Value, bounded, cut};
pub(crate) use statistics::Loss;
pub use store::Telemetry;
pub(crate) use store::TracedTurnGuard;
