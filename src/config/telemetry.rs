//! The `telemetry` block: where flock sends its spans and metrics, and what of them.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;

use super::secret;
use super::view::{Problem, View};
use crate::secret_text;

/// The collector of spans and metrics, and what it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpSettings {
    /// The base URL of the collector, without a slash at its end. `/v1/traces` and `/v1/metrics` are below it.
    pub endpoint: String,
    /// Headers of each request: a name, and a reference to the value such as `secret:otlp.authorization`.
    pub headers: Vec<(String, String)>,
    /// `true` if messages, arguments and results are sent too, without keys.
    pub contents: bool,
    /// `true` if model calls carry `traceparent`.
    pub propagates_to_models: bool,
    /// Time between two requests with metrics.
    pub metrics_interval: Duration,
    /// The name of the service.
    pub service: String,
}

/// Seconds between two requests with metrics, unless other ones are set.
const METRICS_SECONDS: u64 = 60;

/// Most headers.
const MAX_HEADERS: usize = 16;

/// Reads the settings of telemetry. `None` is off.
pub(super) fn otlp(view: &View<'_>) -> Result<Option<Arc<OtlpSettings>>, Problem> {
    view.only(&["otlp"])?;
    let view = view.get("otlp")?;
    view.only(&["endpoint", "headers", "contents", "propagateToModels", "metricsSeconds", "serviceName"])?;
    // Every key is looked up, also if telemetry is off: one that is never looked up counts as unknown.
    let at = view.get("endpoint")?;
    let endpoint =
        at.text_if(is_endpoint, "must be a URL without a password, as in \"http://127.0.0.1:4318\"")?;
    let headers_at = view.get("headers")?;
    let headers = headers(&headers_at)?;
    let contents = view.get("contents")?.flag()?.unwrap_or(false);
    let propagates_to_models = view.get("propagateToModels")?.flag()?.unwrap_or(false);
    let seconds = view.get("metricsSeconds")?.within(1..=3600, "a number of seconds")?;
    let service = view.get("serviceName")?.text_if(is_service, "must be a name of 1 to 64 characters")?;
    let Some(endpoint) = endpoint.map(|endpoint| endpoint.trim_end_matches('/').to_owned()) else {
        return Ok(None);
    };
    // A key would be readable on its way.
    if !headers.is_empty() && endpoint.starts_with("http://") && !is_near(&endpoint) {
        return Err(at.problem("must be https, because keys are sent there"));
    }
    Ok(Some(Arc::new(OtlpSettings {
        endpoint,
        headers,
        contents,
        propagates_to_models,
        metrics_interval: Duration::from_secs(seconds.unwrap_or(METRICS_SECONDS)),
        service: service.unwrap_or_else(|| "flock".to_owned()),
    })))
}

fn headers(view: &View<'_>) -> Result<Vec<(String, String)>, Problem> {
    let mut headers = Vec::new();
    for (name, value) in view.entries()? {
        if !is_header(&name) || headers.len() == MAX_HEADERS {
            return Err(
                value.problem("must be one of at most 16 headers, with a name of letters, digits and '-'")
            );
        }
        if is_own_header(&name) {
            return Err(value.problem("is a header that flock sets itself"));
        }
        let reference = value.required_text()?;
        if !secret::is_reference(reference) {
            let message = format!(
                "must be a reference such as \"secret:{}\": flock config set moves it",
                secret_name(&name)
            );
            return Err(value.problem(&message));
        }
        headers.push((name, reference.to_owned()));
    }
    Ok(headers)
}

/// Returns the name of the secret for a header's value, as in `….telemetry.otlp.headers.<name>`.
pub(super) fn header_secret(way: &[String]) -> Option<String> {
    let [.., "otlp", "headers", name] = way.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        return None;
    };
    is_header(name).then(|| secret_name(name))
}

fn secret_name(header: &str) -> String {
    format!("otlp.{}", header.to_ascii_lowercase())
}

pub(super) fn is_endpoint(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() && url.query().is_none()
    }) && !secret_text::is_key(text)
}

/// Returns `true` if a server is on this machine or in a local network.
pub(super) fn is_near(endpoint: &str) -> bool {
    let Ok(url) = endpoint.parse::<Uri>() else { return false };
    let Some(host) = url.host() else { return false };
    match host.trim_matches(['[', ']']).parse() {
        Ok(std::net::IpAddr::V4(address)) => {
            address.is_loopback() || address.is_private() || address.is_link_local()
        }
        Ok(std::net::IpAddr::V6(address)) => address.is_loopback() || address.is_unique_local(),
        // A name without a dot can only be resolved in the local network.
        Err(_) => !host.contains('.') || host.ends_with(".local") || host.ends_with(".internal"),
    }
}

fn is_header(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (1..=48).contains(&name.len()) && name.chars().all(allowed)
}

/// Returns `true` for a header that describes the request itself.
fn is_own_header(name: &str) -> bool {
    ["content-type", "content-encoding", "content-length", "host", "transfer-encoding", "connection"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

fn is_service(name: &str) -> bool {
    (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}
