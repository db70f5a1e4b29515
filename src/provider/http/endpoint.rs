//! An address to send requests to, and the errors of requests to it.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use jiff::Zoned;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};

use super::super::ProviderError;
use super::super::key::ApiKey;
use super::super::quota;
use super::{Body, HttpClients, RequestError, client, error_response};
use crate::clean::is_unseen;
use crate::telemetry;

/// An address to send requests to, with the headers that all of them share.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    provider: String,
    url: Url,
    headers: HeaderMap,
    key: Option<ApiKey>,
}

impl Endpoint {
    /// Returns the endpoint at `url`. `key` is removed from everything that the provider says.
    #[must_use]
    pub fn new(provider: &str, url: Url, key: Option<ApiKey>) -> Self {
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        Self { provider: provider.to_owned(), url, headers, key }
    }

    /// Adds a header to every request. A value that is no valid header value is skipped; the catalog has checked the
    /// key.
    pub fn header(&mut self, name: &'static str, value: &str) {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            // Sensitive values are hidden in the debug output of the HTTP library.
            value.set_sensitive(true);
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }

    /// Sends the endpoint's key, if it has one, as a bearer token.
    pub(in crate::provider) fn bearer(&mut self) {
        if let Some(key) = self.key.clone() {
            self.header("authorization", &format!("Bearer {}", key.expose()));
        }
    }

    /// Returns the same endpoint with another address, for wire formats with the model's name in the address.
    #[must_use]
    pub fn at(&self, url: Url) -> Self {
        Self { url, ..self.clone() }
    }

    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a request and returns its answer from the first byte on.
    ///
    /// # Errors
    ///
    /// Returns [`ProviderError`] if the provider cannot be reached, is silent past the timeout, or answers with an
    /// error status.
    pub async fn post<'a>(&'a self, http: &HttpClients, request: Vec<u8>) -> Result<Body<'a>, ProviderError> {
        let response = self.send(http, self.headers.clone(), request).await?;
        if response.status().is_success() {
            return Ok(Body::new(Cow::Borrowed(self), response, http.limits()));
        }
        Err(error_response::read(self, response).await.error)
    }

    /// Sends a request that another program has written, and returns the head of the answer too. The program's headers
    /// are sent, but the endpoint's headers override them.
    ///
    /// # Errors
    ///
    /// Returns [`RequestError`] for the same reasons as [`Endpoint::post`].
    pub async fn pass(
        self,
        http: &HttpClients,
        mut headers: HeaderMap,
        request: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Body<'static>), RequestError> {
        // The endpoint's headers come last, so that the program cannot replace the key.
        headers.extend(self.headers.clone());
        let mut response = self.send(http, headers, request).await?;
        if !response.status().is_success() {
            return Err(error_response::read(&self, response).await);
        }
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        Ok((status, headers, Body::new(Cow::Owned(self), response, http.limits())))
    }

    async fn send(
        &self,
        http: &HttpClients,
        mut headers: HeaderMap,
        request: impl Into<reqwest::Body>,
    ) -> Result<reqwest::Response, ProviderError> {
        let limits = http.limits();
        let client = http.client(&self.url).await.map_err(|reason| self.failure(&reason, true))?;
        for (name, value) in telemetry::propagated_to_models() {
            // What a caller sent as `tracestate` was checked when it was read.
            headers.extend(HeaderValue::from_str(&value).map(|value| (HeaderName::from_static(name), value)));
        }
        // The whole request has no time limit, because an answer may stream for long. Only silence is limited.
        let sent = client.post(self.url.clone()).headers(headers).body(request).send();
        let after =
            if client::is_local_network(&self.url) { limits.near_first_byte } else { limits.first_byte };
        tokio::time::timeout(after, sent)
            .await
            .map_err(|_| self.timed_out(after))?
            .map_err(|error| self.broken(&error))
    }

    /// Returns the error for an error event or a failure in words, without the key.
    #[must_use]
    pub fn status(&self, status: u16, message: &str, retry_after: Option<Duration>) -> ProviderError {
        // Some providers name the time in words alone.
        let said = || (status == 429).then(|| quota::text::wait(message, &Zoned::now())).flatten();
        let retry_after = retry_after.or_else(said);
        ProviderError::from_status(&self.provider, status, self.clean(message), retry_after)
    }

    /// Returns the error for a provider that failed in this way.
    #[must_use]
    pub fn failed(&self, message: impl AsRef<str>) -> ProviderError {
        self.failure(message.as_ref(), false)
    }

    fn failure(&self, message: &str, unsent: bool) -> ProviderError {
        let (provider, message) = (self.provider.clone(), self.clean(message));
        ProviderError::Failed { provider, message, retry_after: None, unsent }
    }

    /// Returns the error for a provider that sent nothing for this time.
    pub(super) fn timed_out(&self, after: Duration) -> ProviderError {
        ProviderError::TimedOut { provider: self.provider.clone(), after }
    }

    /// Returns the error for an answer that does not follow the provider's format.
    #[must_use]
    pub fn garbled(&self, message: impl AsRef<str>) -> ProviderError {
        ProviderError::Garbled { provider: self.provider.clone(), message: self.clean(message.as_ref()) }
    }

    /// Returns the key for this endpoint.
    pub(in crate::provider) const fn key(&self) -> Option<&ApiKey> {
        self.key.as_ref()
    }

    pub(super) fn broken(&self, error: &reqwest::Error) -> ProviderError {
        let host = self.url.host_str().unwrap_or_default();
        let at = self.url.port_or_known_default().map_or(host.to_owned(), |port| format!("{host}:{port}"));
        let cause = root_cause(error);
        // Only a failed connect proves that nothing of the request was sent.
        if error.is_connect() {
            self.failure(&format!("can't connect to {at}: {cause}"), true)
        } else {
            self.failed(format!("the connection to {at} broke: {cause}"))
        }
    }

    /// Returns the beginning of a provider's data, at most `longest` bytes, quoted for an error or a log. The key is
    /// removed before the cut, so that no part of it remains at the end.
    pub(in crate::provider) fn quoted(&self, data: &[u8], longest: usize) -> String {
        let text = self.scrub(&String::from_utf8_lossy(data));
        format!("{:?}", &text[..text.floor_char_boundary(longest)])
    }

    /// Returns a text without the key.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.scrub(text))
    }

    /// Returns a provider's text in a form for a log line or an error: without the key, bounded, printable.
    pub(super) fn clean(&self, text: &str) -> String {
        // In bytes, without the mark of a cut.
        const LONGEST: usize = 600;
        let text = self.scrub(text);
        // White space and characters that nobody sees become single spaces, so that the text fits on one line, cannot
        // control a terminal and does not read as another one.
        let is_gap = |c: char| c.is_whitespace() || is_unseen(c);
        let mut clean = String::with_capacity(text.len().min(LONGEST));
        for word in text.split(is_gap).filter(|word| !word.is_empty()) {
            if !clean.is_empty() {
                clean.push(' ');
            }
            let room = LONGEST.saturating_sub(clean.len());
            if word.len() > room {
                clean.push_str(&word[..word.floor_char_boundary(room)]);
                clean.push('…');
                break;
            }
            clean.push_str(word);
        }
        clean
    }
}

/// Returns the innermost cause of an error. The outer ones only repeat that a request failed, with its address.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if std::ptr::addr_eq(cause, std::ptr::from_ref(error)) {
        return "no cause is known".to_owned();
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(key: &str) -> Endpoint {
        Endpoint::new("x", "http://127.0.0.1:9/".parse().unwrap(), ApiKey::new(key))
    }

    #[test]
    fn a_providers_error_text_is_sanitized() {
        let endpoint = endpoint("sk-planted-and-long");
        assert_eq!(endpoint.clean("bad key\x1b[31m\n\n sk-planted-and-long "), "bad key [31m [key]");
        assert_eq!(endpoint.clean("deni\u{202e}ed\u{200b}"), "deni ed");
        let cut = endpoint.clean(&format!("first {}", "x".repeat(5_000)));
        assert!(cut.starts_with("first xxx") && cut.ends_with("x…"), "{cut}");
        for text in ["ä".repeat(5_000), "word ".repeat(5_000), String::new()] {
            assert!(endpoint.clean(&text).len() <= 604, "{}", endpoint.clean(&text).len());
        }
    }

    #[test]
    fn a_key_is_removed_before_a_text_is_cut() {
        let endpoint = endpoint("sk-planted-and-long");
        let sent = format!("{}sk-planted-and-long", "x".repeat(190));
        let quoted = endpoint.quoted(sent.as_bytes(), 200);
        assert!(quoted.ends_with("x[key]\"") && !quoted.contains("sk-"), "{quoted}");
        let error = crate::provider::decoder::decode::<u64>(sent.as_bytes()).unwrap_err();
        let error = crate::provider::decoder::explain(&endpoint, error).to_string();
        assert!(!error.contains("sk-pl") && error.contains("xxx"), "{error}");
    }

    #[test]
    fn a_header_with_a_key_is_not_shown() {
        let mut endpoint = endpoint("sk-planted");
        endpoint.header("authorization", "Bearer sk-planted");
        assert!(!format!("{endpoint:?}").contains("planted"));
    }
}
