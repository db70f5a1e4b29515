//! A collector of OpenTelemetry that reads the real protobufs. It answers as a test says, and keeps what it took.

use std::collections::VecDeque;
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric, metric};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use super::served_router::ServedRouter;
use super::wait_until;

const LIMIT: Duration = Duration::from_secs(30);

/// The answer of the collector to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Takes it.
    Take,
    /// Takes it, but not so many of its spans.
    Reject(i64),
    /// Answers with a status and a `retry-after`.
    Status(u16, Option<&'static str>),
    /// Never answers.
    Hang,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub at: Instant,
    /// The body after its decompression.
    pub body: Vec<u8>,
}

#[derive(Default)]
struct Known {
    replies: Mutex<VecDeque<Reply>>,
    always: Mutex<Option<Reply>>,
    received: Mutex<Vec<Received>>,
    spans: Mutex<Vec<Span>>,
    resource: Mutex<Vec<KeyValue>>,
    metrics: Mutex<Vec<Metric>>,
}

/// A collector on a port of its own, which ends with the test.
pub struct Collector {
    served: ServedRouter,
    known: Arc<Known>,
}

impl Collector {
    pub fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into())
    }

    /// Starts one at an address that another one had.
    pub fn start_at(address: SocketAddr) -> Self {
        let known = Arc::new(Known::default());
        let router = Router::new().fallback(take).with_state(known.clone());
        Self { served: ServedRouter::start_at(address, router), known }
    }

    pub fn address(&self) -> SocketAddr {
        self.served.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.served.address)
    }

    /// Answers the next request in this way.
    pub fn reply(&self, reply: Reply) -> &Self {
        self.known.replies.lock().unwrap().push_back(reply);
        self
    }

    /// Answers every further request in this way, or takes them again.
    pub fn always(&self, reply: Option<Reply>) -> &Self {
        *self.known.always.lock().unwrap() = reply;
        self
    }

    pub fn received(&self) -> Vec<Received> {
        self.known.received.lock().unwrap().clone()
    }

    /// The spans that it took.
    pub fn spans(&self) -> Vec<Span> {
        self.known.spans.lock().unwrap().clone()
    }

    /// The description of the program in the last request.
    pub fn resource(&self, key: &str) -> Option<String> {
        text_of(&self.known.resource.lock().unwrap(), key)
    }

    /// Waits for a span whose name begins so.
    pub fn span(&self, name: &str) -> Span {
        self.spans_named(name, 1).remove(0)
    }

    /// Waits for so many spans whose names begin so.
    pub fn spans_named(&self, name: &str, count: usize) -> Vec<Span> {
        wait_until(&format!("{count} spans {name:?}"), LIMIT, || {
            let spans = self.spans();
            let found: Vec<Span> = spans.iter().filter(|span| span.name.starts_with(name)).cloned().collect();
            let names = || format!("{:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
            (found.len() >= count).then_some(found).ok_or_else(names)
        })
    }

    /// Waits for a point of a metric that has these labels.
    pub fn point(&self, metric: &str, labels: &[(&str, &str)]) -> HistogramDataPoint {
        wait_until(metric, LIMIT, || {
            let metrics = self.known.metrics.lock().unwrap().clone();
            let points = metrics.iter().rev().filter(|found| found.name == metric).flat_map(points);
            let mut fitting = points.filter(|point| {
                labels.iter().all(|(key, value)| text_of(&point.attributes, key).as_deref() == Some(value))
            });
            fitting.next().ok_or_else(|| format!("{metrics:?}"))
        })
    }
}

fn points(metric: &Metric) -> Vec<HistogramDataPoint> {
    match &metric.data {
        Some(metric::Data::Histogram(histogram)) => histogram.data_points.clone(),
        other => panic!("{other:?}"),
    }
}

async fn take(State(known): State<Arc<Known>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let body = match headers.get("content-encoding") {
        None => body.to_vec(),
        Some(encoding) => {
            assert_eq!(encoding, "gzip");
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut text).unwrap();
            text
        }
    };
    let path = uri.path().to_owned();
    known.received.lock().unwrap().push(Received {
        path: path.clone(),
        headers,
        at: Instant::now(),
        body: body.clone(),
    });
    let always = known.always.lock().unwrap().clone();
    let reply = always.or_else(|| known.replies.lock().unwrap().pop_front()).unwrap_or(Reply::Take);
    let mut rejected = 0;
    match reply {
        Reply::Take => {}
        Reply::Reject(count) => rejected = count,
        Reply::Status(status, wait) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), "not now").into_response();
            if let Some(wait) = wait {
                response.headers_mut().insert("retry-after", wait.parse().unwrap());
            }
            return response;
        }
        Reply::Hang => std::future::pending().await,
    }
    match path.as_str() {
        "/v1/traces" => {
            let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
            for of_program in request.resource_spans {
                *known.resource.lock().unwrap() = of_program.resource.unwrap().attributes;
                let spans = of_program.scope_spans.into_iter().flat_map(|scope| scope.spans);
                known.spans.lock().unwrap().extend(spans);
            }
            let partial = (rejected > 0).then(|| ExportTracePartialSuccess {
                rejected_spans: rejected,
                error_message: "too many".to_owned(),
            });
            ExportTraceServiceResponse { partial_success: partial }.encode_to_vec().into_response()
        }
        "/v1/metrics" => {
            let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
            let found = request.resource_metrics.into_iter().flat_map(|of_program| of_program.scope_metrics);
            known.metrics.lock().unwrap().extend(found.flat_map(|scope| scope.metrics));
            StatusCode::OK.into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The text of an attribute.
pub fn text_of(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        any_value::Value::BoolValue(flag) => Some(flag.to_string()),
        any_value::Value::DoubleValue(number) => Some(number.to_string()),
        any_value::Value::ArrayValue(list) => {
            let texts = list.values.iter().map(|value| match &value.value {
                Some(any_value::Value::StringValue(text)) => text.clone(),
                other => format!("{other:?}"),
            });
            Some(texts.collect::<Vec<_>>().join(","))
        }
        other => panic!("{other:?}"),
    }
}

/// The text of a span's attribute, which must be there.
pub fn attribute(span: &Span, key: &str) -> String {
    text_of(&span.attributes, key)
        .unwrap_or_else(|| panic!("{} has no {key}: {:?}", span.name, span.attributes))
}
