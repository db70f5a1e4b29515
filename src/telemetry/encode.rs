//! Writes spans and metrics as requests of OTLP, in protobuf. Pure.

use std::borrow::Cow;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value,
};
use opentelemetry_proto::tonic::metrics::v1::{
    self as wire_metrics, AggregationTemporality, HistogramDataPoint, Metric, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource as WireResource;
use opentelemetry_proto::tonic::trace::v1::{
    self as wire_trace, ResourceSpans, ScopeSpans, Status, span as wire_span, status,
};
use prost::Message as _;

use super::context::TraceContext;
use super::metrics::{Instrument, Metrics};
use super::redactor::Redactor;
use super::span::{Span, SpanKind, Value};

/// The conventions that the names follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Bits of a span's flags that say whether its parent is of another program.
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The program that sends.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// `service.name`.
    pub(crate) service: String,
    /// `service.instance.id`: the home's id.
    pub(crate) instance: String,
}

impl Resource {
    fn wire(&self) -> WireResource {
        let attributes = vec![
            text("service.name", &self.service),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &self.instance),
            text("telemetry.sdk.language", "rust"),
            text("telemetry.sdk.name", "flock"),
            text("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        WireResource { attributes, ..WireResource::default() }
    }
}

/// Returns the body of a request with these spans.
#[must_use]
pub(crate) fn traces_request(resource: &Resource, spans: Vec<Span>, redactor: &Redactor) -> Vec<u8> {
    let spans = spans.into_iter().map(|span| wire(span, redactor)).collect();
    let scope = ScopeSpans { scope: Some(scope()), spans, schema_url: SCHEMA.to_owned() };
    let of_flock = ResourceSpans {
        resource: Some(resource.wire()),
        scope_spans: vec![scope],
        schema_url: SCHEMA.to_owned(),
    };
    ExportTraceServiceRequest { resource_spans: vec![of_flock] }.encode_to_vec()
}

/// Returns the body of a request with these metrics, which count from `began` to `now` (Unix nanoseconds).
#[must_use]
pub(crate) fn metrics_request(resource: &Resource, metrics: &Metrics, (began, now): (u64, u64)) -> Vec<u8> {
    let mut found: Vec<Metric> = Vec::new();
    let mut last: Option<Instrument> = None;
    // The series are sorted by their instrument.
    for ((instrument, labels), histogram) in &metrics.series {
        let point = HistogramDataPoint {
            attributes: labels.iter().map(|(key, value)| text(key, value)).collect(),
            start_time_unix_nano: began,
            time_unix_nano: now,
            count: histogram.count,
            sum: Some(histogram.sum),
            bucket_counts: histogram.buckets.clone(),
            explicit_bounds: instrument.bounds().to_vec(),
            min: Some(histogram.least),
            max: Some(histogram.most),
            ..HistogramDataPoint::default()
        };
        if last != Some(*instrument) {
            last = Some(*instrument);
            found.push(Metric {
                name: instrument.name().to_owned(),
                description: instrument.description().to_owned(),
                unit: instrument.unit().to_owned(),
                data: Some(wire_metrics::metric::Data::Histogram(wire_metrics::Histogram {
                    data_points: Vec::new(),
                    aggregation_temporality: AggregationTemporality::Cumulative.into(),
                })),
                ..Metric::default()
            });
        }
        if let Some(wire_metrics::metric::Data::Histogram(histogram)) =
            found.last_mut().and_then(|metric| metric.data.as_mut())
        {
            histogram.data_points.push(point);
        }
    }
    let scope = ScopeMetrics { scope: Some(scope()), metrics: found, schema_url: SCHEMA.to_owned() };
    let of_flock = ResourceMetrics {
        resource: Some(resource.wire()),
        scope_metrics: vec![scope],
        schema_url: SCHEMA.to_owned(),
    };
    ExportMetricsServiceRequest { resource_metrics: vec![of_flock] }.encode_to_vec()
}

fn wire(span: Span, redactor: &Redactor) -> wire_trace::Span {
    let Span { context, parent, name, kind, began, ended, attributes, links, failure } = span;
    let mut attributes = pairs(attributes, redactor);
    let status = failure.map(|failure| {
        attributes.push(text("error.type", &failure.code));
        let message = failure.message.map(|message| redactor.clean(&message)).unwrap_or_default();
        Status { message, code: status::StatusCode::Error.into() }
    });
    let remote = parent.as_ref().map_or(0, |parent| if parent.is_remote() { IS_REMOTE } else { 0 });
    wire_trace::Span {
        trace_id: context.trace_id().to_vec(),
        span_id: context.span_id().to_vec(),
        trace_state: context.tracestate().unwrap_or_default().to_owned(),
        parent_span_id: parent.map(|parent| parent.span_id().to_vec()).unwrap_or_default(),
        flags: u32::from(context.flags()) | KNOWS_REMOTE | remote,
        name,
        kind: match kind {
            SpanKind::Internal => wire_span::SpanKind::Internal,
            SpanKind::Server => wire_span::SpanKind::Server,
            SpanKind::Client => wire_span::SpanKind::Client,
            SpanKind::Producer => wire_span::SpanKind::Producer,
            SpanKind::Consumer => wire_span::SpanKind::Consumer,
        }
        .into(),
        start_time_unix_nano: began,
        // A clock that was set back must not make a span end before it begins.
        end_time_unix_nano: ended.max(began),
        attributes,
        links: links.iter().map(link).collect(),
        status,
        ..wire_trace::Span::default()
    }
}

fn link(to: &TraceContext) -> wire_span::Link {
    wire_span::Link {
        trace_id: to.trace_id().to_vec(),
        span_id: to.span_id().to_vec(),
        trace_state: to.tracestate().unwrap_or_default().to_owned(),
        flags: u32::from(to.flags()),
        ..wire_span::Link::default()
    }
}

fn pairs(attributes: Vec<(&'static str, Value)>, redactor: &Redactor) -> Vec<KeyValue> {
    let pair = |(key, value): (&'static str, Value)| {
        let text = |text: Cow<'static, str>| any_value::Value::StringValue(text.into_owned());
        let value = match value {
            Value::Text(value) => text(value),
            Value::Content(value) => any_value::Value::StringValue(redactor.clean(&value)),
            Value::Number(number) => any_value::Value::IntValue(number),
            Value::Seconds(number) => any_value::Value::DoubleValue(number),
            Value::Flag(flag) => any_value::Value::BoolValue(flag),
            Value::Texts(values) => any_value::Value::ArrayValue(ArrayValue {
                values: values.into_iter().map(|value| AnyValue { value: Some(text(value)) }).collect(),
            }),
        };
        key_value(key, value)
    };
    attributes.into_iter().map(pair).collect()
}

fn text(key: &str, value: &str) -> KeyValue {
    key_value(key, any_value::Value::StringValue(value.to_owned()))
}

fn key_value(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "flock".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}
