//! Forwards requests that another program has written in a provider's own wire format.
//!
//! flock sets the provider's address, headers and key, forwards the answer as it arrives, and reads the token counts
//! from it on the way. Nothing else is changed in either direction, so that features which flock does not know work
//! too.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::decoder::{Decoder, Progress};
use super::http::{Body, Endpoint, HttpClients, RequestError};
use super::key::ApiKey;
use super::redaction::SecretFilter;
use super::usage_meter::{BodyFormat, UsageMeter};
use super::{Delta, ProviderError, Sink, Usage};

/// The purpose of a forwarded request. It selects the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardKind {
    /// An answer. If the wire format has one address for both forms, the body decides between one piece and a stream.
    Answer,
    /// A streamed answer, for wire formats with a separate address for it.
    Stream,
    /// The number of tokens of a request.
    Count,
}

/// A prepared way to forward one request to its provider.
pub struct Forwarder {
    endpoint: Endpoint,
    http: Arc<HttpClients>,
    decoder: Box<dyn Decoder + Send>,
}

impl Forwarder {
    pub(super) fn new(endpoint: Endpoint, http: &Arc<HttpClients>, decoder: Box<dyn Decoder + Send>) -> Self {
        Self { endpoint, http: Arc::clone(http), decoder }
    }

    /// Sends a request with this query and these headers, and waits for the first bytes of its answer.
    ///
    /// # Errors
    ///
    /// Returns [`RequestError`] if the provider cannot be reached, answers with an error status, stays silent past the
    /// timeout, closes the connection without an answer, or if its answer begins with an error event.
    pub async fn send(
        self,
        query: &[(&str, &str)],
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ForwardedAnswer, RequestError> {
        let Self { endpoint, http, decoder } = self;
        let mut url = endpoint.url().clone();
        // `query_pairs_mut` would add a `?` even without any pair.
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let endpoint = endpoint.at(url);
        let mut meter = UsageMeter::new(endpoint.clone(), decoder, http.limits().answer);
        let secret = endpoint.key().and_then(ApiKey::secret).map(str::to_owned);
        let (status, mut headers, mut body) = endpoint.pass(&http, headers, body).await?;
        // A server may repeat the key in a header of its answer. Such a header is dropped.
        if let Some(secret) = &secret {
            let kept = headers
                .iter()
                .filter(|(_, value)| memmem::find(value.as_bytes(), secret.as_bytes()).is_none());
            headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        }
        let Some(first) = body.chunk().await? else {
            return Err(meter.endpoint.failed("it closed the connection without an answer").into());
        };
        meter.feed(&first)?;
        let first = Some(first);
        Ok(ForwardedAnswer {
            status,
            headers,
            body,
            meter,
            first,
            redaction: SecretFilter::new(secret.as_deref()),
        })
    }
}

/// An answer that is arriving. Dropping it cancels the request.
pub struct ForwardedAnswer {
    /// The HTTP status; always a success.
    pub status: StatusCode,
    /// The headers of the answer, without those that contain the key.
    pub headers: HeaderMap,
    body: Body<'static>,
    meter: UsageMeter,
    first: Option<Bytes>,
    redaction: SecretFilter,
}

impl ForwardedAnswer {
    /// Returns the next bytes, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns [`ProviderError`] if the provider is silent past the timeout, breaks off, or reports a failure. After a
    /// reported failure there may be more bytes, which contain the failure in the provider's own words.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ProviderError> {
        loop {
            let piece = match self.first.take() {
                Some(first) => Some(first),
                None => self.next().await?,
            };
            match piece {
                Some(piece) => {
                    let passed = self.redaction.pass(piece);
                    if !passed.is_empty() {
                        return Ok(Some(passed));
                    }
                }
                // If nothing follows, the bytes that were held back are not the key.
                None => return Ok(self.redaction.rest()),
            }
        }
    }

    /// Returns the bytes that arrived with the head, unless they are held back as a possible part of the key.
    pub fn first(&mut self) -> Option<Bytes> {
        let passed = self.redaction.pass(self.first.take()?);
        (!passed.is_empty()).then_some(passed)
    }

    async fn next(&mut self) -> Result<Option<Bytes>, ProviderError> {
        let is_complete = self.meter.is_complete();
        if is_complete {
            self.body.settle();
        }
        let piece = match self.body.chunk().await {
            // The answer is complete, so a later failure of the connection does not matter.
            Err(_) if is_complete => None,
            piece => piece?,
        };
        match &piece {
            // The meter remembers a broken event and reports it at the end. The program that reads the stream judges it
            // itself.
            Some(piece) => drop(self.meter.feed(piece)),
            None => self.meter.end(),
        }
        Ok(piece)
    }

    /// Returns the tokens of the answer. They are known once the answer is complete and its provider has counted.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let usage = self.meter.decoder.usage();
        // Servers that do not count, or were told not to, leave all counts at zero.
        (self.meter.is_complete() && usage != Usage::default()).then_some(usage)
    }

    /// Estimates the tokens of the text so far, at four bytes each. It is zero for an answer in a format that flock
    /// cannot read.
    #[must_use]
    pub fn written(&self) -> u64 {
        (self.meter.decoder.written() as u64).div_ceil(4)
    }

    /// Returns `true` if the whole answer has arrived, though token counts may still follow.
    #[must_use]
    pub(crate) fn is_complete(&self) -> bool {
        self.meter.is_complete()
    }

    /// Returns `true` if nothing else will arrive.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(&self.meter.form, BodyFormat::Events(_, Some(Progress::Done)) | BodyFormat::Whole)
    }

    /// Returns the failure that the provider reported within the answer, if there is one.
    #[must_use]
    pub const fn failure(&self) -> Option<&ProviderError> {
        match &self.meter.form {
            BodyFormat::Lost(error) => error.as_ref(),
            _ => None,
        }
    }

    /// Returns `true` if flock cannot read the answer's format and therefore does not know how it ended.
    #[must_use]
    pub(crate) const fn is_unread(&self) -> bool {
        matches!(&self.meter.form, BodyFormat::Lost(None))
    }
}

/// Returns a sink that discards the pieces, for an answer of which only the tokens are counted.
pub(super) fn nowhere() -> Sink<'static> {
    // The closure has no size, so leaking it leaks no memory.
    Box::leak(Box::new(|_: Delta| {}))
}
