//! Requests to a collector.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{StatusCode, Url};

use crate::clean;
use crate::config::OtlpSettings;
use crate::error::chain;
use crate::home::Home;
use crate::provider::http::{HttpClients, HttpLimits, retry_after};
use crate::provider::key::{self, ApiKey};

/// Longest time for one request, from its connection to the end of the answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of an answer that are read.
const MAX_ANSWER: usize = 64 << 10;
/// Bytes from which a body is compressed.
const GZIP_FROM: usize = 1 << 10;

/// The outcome of a request to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It took the request. It may reject a number of the spans all the same.
    Taken { rejected: u64, message: String },
    /// It may take the same request later, after this time if it named one.
    Later { problem: String, after: Option<Duration> },
    /// It would refuse the same request again, with this status.
    Refused { problem: String, status: u16 },
}

/// The kind of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }
}

/// The client for one collector. Its connections are kept.
#[derive(Debug, Default)]
pub(crate) struct CollectorClient {
    http: HttpClients,
}

impl CollectorClient {
    #[must_use]
    pub(crate) fn new() -> Self {
        let limits = HttpLimits { connect: Duration::from_secs(5), ..HttpLimits::default() };
        Self { http: HttpClients::new(limits) }
    }

    /// Asks a collector if it takes spans from here, with a request that holds none.
    ///
    /// # Errors
    ///
    /// Returns the reason why it does not.
    pub(crate) async fn probe(&self, home: &Home, settings: &OtlpSettings) -> Result<(), String> {
        match self.send(home, settings, Signal::Traces, Vec::new()).await {
            // Some want a span in each request. They have read this one, and know who sends it.
            Delivery::Taken { .. } | Delivery::Refused { status: 400, .. } => Ok(()),
            Delivery::Later { problem, .. } | Delivery::Refused { problem, .. } => Err(problem),
        }
    }

    /// Sends the body of a request once.
    pub(super) async fn send(
        &self,
        home: &Home,
        settings: &OtlpSettings,
        signal: Signal,
        body: Vec<u8>,
    ) -> Delivery {
        // The headers are read for each request, so that a new key counts at once.
        let (mut headers, keys) = match headers(home, settings) {
            Ok(found) => found,
            Err(problem) => return Delivery::Later { problem, after: None },
        };
        let address = format!("{}{}", settings.endpoint, signal.path());
        let Ok(url) = address.parse::<Url>() else {
            return Delivery::Refused { problem: format!("{address:?} is no URL"), status: 0 };
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("flock/", env!("CARGO_PKG_VERSION"))));
        let body = match compressed(&body) {
            Some(compressed) => {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                compressed
            }
            None => body,
        };
        let delivery = tokio::time::timeout(TIMEOUT, self.exchange(url, headers, body, signal)).await;
        match delivery {
            Ok(delivery) => delivery.without(&keys),
            Err(_) => {
                let problem = format!("no answer within {} seconds", TIMEOUT.as_secs());
                Delivery::Later { problem, after: None }
            }
        }
    }

    async fn exchange(&self, url: Url, headers: HeaderMap, body: Vec<u8>, signal: Signal) -> Delivery {
        let client = match self.http.client(&url).await {
            Ok(client) => client,
            Err(problem) => return Delivery::Later { problem, after: None },
        };
        let mut answer = match client.post(url).headers(headers).body(body).send().await {
            Ok(answer) => answer,
            Err(error) => {
                // The address is in the configuration, and the chain of causes says what is wrong with it.
                return Delivery::Later { problem: chain(&error.without_url()), after: None };
            }
        };
        let (status, wait) = (answer.status(), retry_after(answer.headers(), SystemTime::now()));
        let mut text = Vec::new();
        // An answer that is too long or breaks off says no more than its status.
        while let Ok(Some(piece)) = answer.chunk().await {
            text.extend_from_slice(&piece);
            if text.len() > MAX_ANSWER {
                text.clear();
                break;
            }
        }
        read(status, wait, &text, signal)
    }
}

/// Decides what an answer means, as the protocol says.
fn read(status: StatusCode, wait: Option<Duration>, text: &[u8], signal: Signal) -> Delivery {
    if status.is_success() {
        let (rejected, message) = rejected(text, signal);
        return Delivery::Taken { rejected, message };
    }
    let told = String::from_utf8_lossy(text);
    let told = clean::summary(&told, 200);
    let problem = if told.is_empty() {
        format!("the collector answered {}", status.as_u16())
    } else {
        format!("the collector answered {}: {told}", status.as_u16())
    };
    match status.as_u16() {
        429 | 502 | 503 | 504 => Delivery::Later { problem, after: wait },
        status => Delivery::Refused { problem, status },
    }
}

/// Returns the number of spans or values that a collector rejects although it took the request, and why.
fn rejected(text: &[u8], signal: Signal) -> (u64, String) {
    let found = match signal {
        Signal::Traces => ExportTraceServiceResponse::decode(text)
            .ok()
            .and_then(|answer| answer.partial_success)
            .map(|partial| (partial.rejected_spans, partial.error_message)),
        Signal::Metrics => ExportMetricsServiceResponse::decode(text)
            .ok()
            .and_then(|answer| answer.partial_success)
            .map(|partial| (partial.rejected_data_points, partial.error_message)),
    };
    let (rejected, message) = found.unwrap_or_default();
    (u64::try_from(rejected).unwrap_or(0), clean::summary(&message, 200))
}

impl Delivery {
    /// Returns the same without the keys that the request carried: a collector may repeat them.
    fn without(self, keys: &[ApiKey]) -> Self {
        let clean = |text: String| keys.iter().fold(text, |text, key| key.scrub(&text));
        match self {
            Self::Taken { rejected, message } => Self::Taken { rejected, message: clean(message) },
            Self::Later { problem, after } => Self::Later { problem: clean(problem), after },
            Self::Refused { problem, status } => Self::Refused { problem: clean(problem), status },
        }
    }
}

/// Returns the headers of the configuration with their values, and the values by themselves.
fn headers(home: &Home, settings: &OtlpSettings) -> Result<(HeaderMap, Vec<ApiKey>), String> {
    let (mut headers, mut keys) = (HeaderMap::new(), Vec::new());
    for (name, reference) in &settings.headers {
        let key = key::named(home, reference).map_err(|problem| format!("the header {name}: {problem}"))?;
        let value =
            HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(key.expose()).ok());
        let (name, mut value) =
            value.ok_or_else(|| format!("the value of the header {name} is no header"))?;
        // Sensitive values are hidden in the debug output of the HTTP library.
        value.set_sensitive(true);
        headers.insert(name, value);
        keys.push(key);
    }
    Ok((headers, keys))
}

fn compressed(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < GZIP_FROM {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    #[test]
    fn answers_are_read_as_the_protocol_says() {
        let read = |status: u16, text: &[u8]| {
            read(StatusCode::from_u16(status).unwrap(), Some(Duration::from_secs(3)), text, Signal::Traces)
        };
        assert_eq!(read(200, b""), Delivery::Taken { rejected: 0, message: String::new() });
        let partial = ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess {
                rejected_spans: 3,
                error_message: "too\nold".into(),
            }),
        };
        let taken = Delivery::Taken { rejected: 3, message: "too old".into() };
        assert_eq!(read(200, &partial.encode_to_vec()), taken);
        for status in [429, 502, 503, 504] {
            let Delivery::Later { problem, after } = read(status, b"busy") else { panic!("{status}") };
            assert_eq!(after, Some(Duration::from_secs(3)));
            assert_eq!(problem, format!("the collector answered {status}: busy"));
        }
        for status in [301, 400, 401, 403, 404, 413, 500] {
            assert!(matches!(read(status, b""), Delivery::Refused { .. }), "{status}");
        }
    }
}
