//! Forwards requests that another program has written in a provider's own wire format.
//!
//! flock sets the provider's address, headers and key, forwards the answer as it arrives, and reads the token counts
//! from it on the way. Nothing else is changed in either direction, so that features which flock does not know work
//! too.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::http::sse::EventStreamParser;
use super::http::{Body, Endpoint, HttpClients, RequestError};
use super::key::ApiKey;
use super::redaction::{SecretFilter, find};
use super::stream::{Decoder, EventError, Progress, explain, take};
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
    ) -> Result<Answer, RequestError> {
        let Self { endpoint, http, decoder } = self;
        let mut url = endpoint.url().clone();
        // `query_pairs_mut` would add a `?` even without any pair.
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let endpoint = endpoint.at(url);
        let mut meter = UsageMeter {
            endpoint: endpoint.clone(),
            decoder,
            form: BodyFormat::Unknown,
            longest: http.limits().answer,
        };
        let secret = endpoint.key().and_then(ApiKey::secret).map(str::to_owned);
        let (status, mut headers, mut body) = endpoint.pass(&http, headers, body).await?;
        // A server may repeat the key in a header of its answer. Such a header is dropped.
        if let Some(secret) = &secret {
            let kept =
                headers.iter().filter(|(_, value)| find(value.as_bytes(), secret.as_bytes()).is_none());
            headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        }
        let Some(first) = body.chunk().await? else {
            return Err(meter.endpoint.failed("it closed the connection without an answer").into());
        };
        meter.feed(&first)?;
        let first = Some(first);
        Ok(Answer { status, headers, body, meter, first, veil: SecretFilter::new(secret.as_deref()) })
    }
}

/// An answer that is arriving. Dropping it cancels the request.
pub struct Answer {
    /// The HTTP status; always a success.
    pub status: StatusCode,
    /// The headers of the answer, without those that contain the key.
    pub headers: HeaderMap,
    body: Body<'static>,
    meter: UsageMeter,
    first: Option<Bytes>,
    veil: SecretFilter,
}

impl Answer {
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
                    let passed = self.veil.pass(piece);
                    if !passed.is_empty() {
                        return Ok(Some(passed));
                    }
                }
                // If nothing follows, the bytes that were held back are not the key.
                None => return Ok(self.veil.rest()),
            }
        }
    }

    /// Returns the bytes that arrived with the head, unless they are held back as a possible part of the key.
    pub fn first(&mut self) -> Option<Bytes> {
        let passed = self.veil.pass(self.first.take()?);
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
        self.meter.usage()
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

/// Reads the token counts from an answer while it is forwarded.
struct UsageMeter {
    endpoint: Endpoint,
    decoder: Box<dyn Decoder + Send>,
    form: BodyFormat,
    longest: usize,
}

/// The form in which an answer arrives.
enum BodyFormat {
    /// Nothing has arrived yet.
    Unknown,
    /// A stream of events.
    Events(EventStreamParser, Option<Progress>),
    /// One document; holds the part that has arrived.
    Document(Vec<u8>),
    /// One document, which was complete.
    Whole,
    /// An answer that cannot be read (`None`), or that reported a failure.
    Lost(Option<ProviderError>),
}

impl UsageMeter {
    /// Reads the next bytes. The only errors are a failure that the provider reports, and a web page in place of an
    /// answer.
    fn feed(&mut self, piece: &[u8]) -> Result<(), ProviderError> {
        // The first byte tells the form. The content type does not: servers send either form under any name.
        if matches!(self.form, BodyFormat::Unknown) {
            match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'{') => self.form = BodyFormat::Document(Vec::new()),
                // A list, such as Google's stream without `alt=sse`, is not read. It is forwarded all the same.
                Some(b'[') => self.form = BodyFormat::Lost(None),
                Some(b'<') => return Err(self.endpoint.garbled("it is a web page; check the base URL")),
                Some(_) => self.form = BodyFormat::Events(EventStreamParser::default(), None),
            }
        }
        // The limit counts the content of an answer. The JSON around it may take as much again.
        let (endpoint, decoder, longest) =
            (&self.endpoint, &mut *self.decoder, self.longest.saturating_mul(2));
        let read = match &mut self.form {
            BodyFormat::Events(events, progress) => {
                let read = events.feed(piece, |event| take(endpoint, progress, &event.data, decoder));
                if events.pending() > longest { Err(EventError::TooLong) } else { read }
            }
            BodyFormat::Document(all) if all.len() + piece.len() > longest => Err(EventError::TooLong),
            BodyFormat::Document(all) => {
                all.extend_from_slice(piece);
                Ok(())
            }
            BodyFormat::Unknown | BodyFormat::Whole | BodyFormat::Lost(_) => Ok(()),
        };
        match read {
            Ok(()) => Ok(()),
            Err(error @ EventError::Failure { .. }) => {
                let error = explain(&self.endpoint, error);
                self.form = BodyFormat::Lost(Some(error.clone()));
                Err(error)
            }
            // The program that asked may understand an answer that flock cannot read, so it is forwarded all the same.
            Err(error) => {
                let error = explain(&self.endpoint, error);
                tracing::warn!(%error, "what an answer takes can't be read from it");
                self.form = BodyFormat::Lost(None);
                Ok(())
            }
        }
    }

    /// Reads what is left after the last bytes.
    fn end(&mut self) {
        let (endpoint, decoder) = (&self.endpoint, &mut *self.decoder);
        match &mut self.form {
            BodyFormat::Document(all) => {
                self.form = match decoder.whole(all) {
                    Ok(()) => BodyFormat::Whole,
                    Err(error @ EventError::Failure { .. }) => {
                        BodyFormat::Lost(Some(explain(endpoint, error)))
                    }
                    Err(_) => BodyFormat::Lost(None),
                };
            }
            BodyFormat::Events(events, progress) => {
                // If the stream broke off, its last event may be incomplete. The missing end is reported, not this
                // event.
                drop(events.end(|event| take(endpoint, progress, &event.data, decoder)));
            }
            BodyFormat::Unknown | BodyFormat::Whole | BodyFormat::Lost(_) => {}
        }
    }

    const fn is_complete(&self) -> bool {
        matches!(
            &self.form,
            BodyFormat::Whole | BodyFormat::Events(_, Some(Progress::Stopped | Progress::Done))
        )
    }

    fn usage(&self) -> Option<Usage> {
        let usage = self.decoder.usage();
        // Servers that do not count, or were told not to, leave all counts at zero.
        (self.is_complete() && usage != Usage::default()).then_some(usage)
    }
}

/// Returns a sink that discards the pieces, for an answer of which only the tokens are counted.
pub(super) fn nowhere() -> Sink<'static> {
    // The closure has no size, so leaking it leaks no memory.
    Box::leak(Box::new(|_: Delta| {}))
}
