//! Sends an encrypted notification to a push service (RFC 8030).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};

use super::PushSettings;
use crate::error::chain;
use crate::sandbox::egress::public::PublicResolver;

/// Urgency of a notification: it decides how soon the push service wakes the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Normal,
    High,
}

impl Urgency {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

/// A notification on its way.
#[derive(Debug)]
pub(crate) struct PushMessage {
    pub url: Url,
    pub authorization: String,
    /// The encrypted body.
    pub body: Vec<u8>,
    /// Seconds for which the push service keeps it for a device that is off.
    pub ttl: u64,
    pub urgency: Urgency,
    /// A message that the device has not got yet is replaced by one with the same topic.
    pub topic: String,
}

/// The answer of a push service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PushAnswer {
    /// It takes the message to the browser.
    Accepted,
    /// The browser does not want messages any more.
    Gone,
    /// It is tried again, after this time if the service named one.
    Later { problem: String, after: Option<Duration> },
    /// Another attempt would be refused too.
    Refused { problem: String },
}

/// The client for all push services.
#[derive(Debug)]
pub(crate) struct PushClient {
    http: Client,
}

impl PushClient {
    /// Makes the client. This loads the root certificates, so it blocks.
    ///
    /// # Errors
    ///
    /// Returns the reason why TLS can't be used.
    pub(crate) fn new(settings: PushSettings) -> Result<Self, String> {
        // An error only means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .user_agent(concat!("flock/", env!("CARGO_PKG_VERSION")))
            // Another address would not have been checked.
            .redirect(Policy::none())
            // A proxy would resolve the name itself, so its addresses could not be checked.
            .no_proxy()
            .connect_timeout(Duration::from_secs(10))
            .timeout(settings.timeout);
        if !settings.allow_local {
            http = http.https_only(true).dns_resolver(Arc::new(PublicResolver::default()));
        }
        http.build().map(|http| Self { http }).map_err(|error| chain(&error))
    }

    /// Sends a notification.
    pub(crate) async fn send(&self, message: PushMessage) -> PushAnswer {
        let sent = self
            .http
            .post(message.url)
            .header(AUTHORIZATION, message.authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("ttl", message.ttl.to_string())
            .header("urgency", message.urgency.as_str())
            .header("topic", message.topic)
            .body(message.body)
            .send()
            .await;
        match sent {
            // The body of the answer comes from elsewhere and is not needed.
            Ok(answer) => read(answer.status(), answer.headers(), SystemTime::now()),
            // The address is secret.
            Err(error) => PushAnswer::Later { problem: chain(&error.without_url()), after: None },
        }
    }
}

/// Decides what an answer means.
fn read(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> PushAnswer {
    let problem = format!("the push service answered {}", status.as_u16());
    match status {
        _ if status.is_success() => PushAnswer::Accepted,
        StatusCode::NOT_FOUND | StatusCode::GONE => PushAnswer::Gone,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            PushAnswer::Later { problem, after: retry_after(headers, now) }
        }
        _ if status.is_server_error() => PushAnswer::Later { problem, after: retry_after(headers, now) },
        _ => PushAnswer::Refused { problem },
    }
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = SystemTime::from(jiff::fmt::rfc2822::parse(text).ok()?.timestamp());
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_what_becomes_of_the_subscription() {
        let now = SystemTime::UNIX_EPOCH;
        let of = |status: u16, retry: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(retry) = retry {
                headers.insert(RETRY_AFTER, retry.parse().unwrap());
            }
            read(StatusCode::from_u16(status).unwrap(), &headers, now)
        };
        assert_eq!(of(201, None), PushAnswer::Accepted);
        assert_eq!([404, 410].map(|status| of(status, None)), [PushAnswer::Gone, PushAnswer::Gone]);
        for (status, retry, wanted) in [
            (429, Some("7"), Some(7)),
            (503, Some("Thu, 01 Jan 1970 00:01:00 GMT"), Some(60)),
            (500, None, None),
            (500, Some("soon"), None),
        ] {
            let PushAnswer::Later { after, .. } = of(status, retry) else { panic!("{status}") };
            assert_eq!(after.map(|after| after.as_secs()), wanted, "{status} {retry:?}");
        }
        for status in [301, 400, 401, 403, 413] {
            assert!(matches!(of(status, None), PushAnswer::Refused { .. }), "{status}");
        }
    }
}
