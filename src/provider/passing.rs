//! Requests that another program has written in a provider's own wire format: flock puts its address, its headers and
//! its key to them, passes the answer on as it comes, and reads from it meanwhile what it took.
//!
//! Nothing else is changed in either direction, so that what flock does not know yet works too.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::http::sse::Events;
use super::http::{Body, Endpoint, Http, Refused};
use super::key::ApiKey;
use super::stream::{Decoder, EventError, Progress, explain, take};
use super::veil::{Veil, find};
use super::{Delta, ProviderError, Sink, Usage};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// An answer; the body says whether in one piece, where the wire has one address for both.
    Answer,
    /// An answer in pieces, where the wire has an address of its own for that.
    Stream,
    /// The number of tokens of a request.
    Count,
}

/// The way of one request to its provider.
pub struct Passage {
    endpoint: Endpoint,
    http: Arc<Http>,
    decoder: Box<dyn Decoder + Send>,
}

impl Passage {
    pub(super) fn new(endpoint: Endpoint, http: &Arc<Http>, decoder: Box<dyn Decoder + Send>) -> Self {
        Self { endpoint, http: Arc::clone(http), decoder }
    }

    /// Sends a request with these parts of its address and these headers, and waits for the beginning of its answer.
    ///
    /// # Errors
    ///
    /// As [`super::Provider::call`], and for an answer that begins with an error.
    pub async fn send(
        self,
        query: &[(&str, &str)],
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, Refused> {
        let Self { endpoint, http, decoder } = self;
        let mut url = endpoint.url().clone();
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let endpoint = endpoint.at(url);
        let mut meter =
            Meter { endpoint: endpoint.clone(), decoder, form: Form::Unknown, longest: http.limits().answer };
        let secret = endpoint.key().and_then(ApiKey::secret).map(str::to_owned);
        let (status, mut headers, mut body) = endpoint.pass(&http, headers, body).await?;
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
        Ok(Answer { status, headers, body, meter, first, veil: Veil::new(secret.as_deref()) })
    }
}

/// An answer on its way. Dropping it ends the request.
pub struct Answer {
    /// Its status; a success.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: Body<'static>,
    meter: Meter,
    first: Option<Bytes>,
    veil: Veil,
}

impl Answer {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    ///
    /// The provider is silent for too long, breaks off, or reports that it failed. After the last of these there may
    /// be more bytes, which say it in its own words.
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
                None => return Ok(self.veil.rest()),
            }
        }
    }

    /// The bytes that came with its head, where there are some to pass on yet.
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
            // What goes wrong after the end is no reason to lose it.
            Err(_) if is_complete => None,
            piece => piece?,
        };
        match &piece {
            // What a broken event means is seen at the end; it is the reader's to judge.
            Some(piece) => drop(self.meter.feed(piece)),
            None => self.meter.end(),
        }
        Ok(piece)
    }

    /// What it took: known when the answer is complete, and its provider has said so.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.meter.usage()
    }

    /// Tokens of what has come of its text, estimated. An answer in a form that flock does not read has none.
    #[must_use]
    pub fn written(&self) -> u64 {
        (self.meter.decoder.written() as u64).div_ceil(4)
    }

    /// Whether it has all come, or as good as.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.meter.is_complete()
    }

    /// Whether nothing else comes.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(&self.meter.form, Form::Events(_, Some(Progress::Done)) | Form::Whole)
    }

    /// The failure that it reports, if it does.
    #[must_use]
    pub const fn failure(&self) -> Option<&ProviderError> {
        match &self.meter.form {
            Form::Lost(error) => error.as_ref(),
            _ => None,
        }
    }

    /// Whether it comes in a form that flock does not read: nobody knows how it ended.
    #[must_use]
    pub const fn is_unread(&self) -> bool {
        matches!(&self.meter.form, Form::Lost(None))
    }
}

/// Reads along what an answer takes.
struct Meter {
    endpoint: Endpoint,
    decoder: Box<dyn Decoder + Send>,
    form: Form,
    longest: usize,
}

/// How an answer comes.
enum Form {
    /// Nothing of it has come.
    Unknown,
    /// In events.
    Events(Events, Option<Progress>),
    /// As one document, of which this much has come.
    Document(Vec<u8>),
    /// It was one document, and it was complete.
    Whole,
    /// It can't be read; or it failed, and so.
    Lost(Option<ProviderError>),
}

impl Meter {
    /// An error is one that the provider reports, or that no program could read.
    fn feed(&mut self, piece: &[u8]) -> Result<(), ProviderError> {
        if matches!(self.form, Form::Unknown) {
            match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'{') => self.form = Form::Document(Vec::new()),
                Some(b'[') => self.form = Form::Lost(None),
                Some(b'<') => return Err(self.endpoint.garbled("it is a web page; check the base URL")),
                Some(_) => self.form = Form::Events(Events::default(), None),
            }
        }
        let (endpoint, decoder, longest) =
            (&self.endpoint, &mut *self.decoder, self.longest.saturating_mul(2));
        let read = match &mut self.form {
            Form::Events(events, progress) => {
                let read = events.feed(piece, |data| take(endpoint, progress, data, decoder));
                if events.pending() > longest { Err(EventError::TooLong) } else { read }
            }
            Form::Document(all) if all.len() + piece.len() > longest => Err(EventError::TooLong),
            Form::Document(all) => {
                all.extend_from_slice(piece);
                Ok(())
            }
            Form::Unknown | Form::Whole | Form::Lost(_) => Ok(()),
        };
        match read {
            Ok(()) => Ok(()),
            Err(error @ EventError::Failure { .. }) => {
                let error = explain(&self.endpoint, error);
                self.form = Form::Lost(Some(error.clone()));
                Err(error)
            }
            // An answer that flock can't read may be one that the program can.
            Err(error) => {
                let error = explain(&self.endpoint, error);
                tracing::warn!(%error, "what an answer takes can't be read from it");
                self.form = Form::Lost(None);
                Ok(())
            }
        }
    }

    /// Nothing more comes.
    fn end(&mut self) {
        let (endpoint, decoder) = (&self.endpoint, &mut *self.decoder);
        match &mut self.form {
            Form::Document(all) => {
                self.form = match decoder.whole(all) {
                    Ok(()) => Form::Whole,
                    Err(error @ EventError::Failure { .. }) => Form::Lost(Some(explain(endpoint, error))),
                    Err(_) => Form::Lost(None),
                };
            }
            Form::Events(events, progress) => {
                // The last event of a stream that broke off may be half of one.
                drop(events.end(|data| take(endpoint, progress, data, decoder)));
            }
            Form::Unknown | Form::Whole | Form::Lost(_) => {}
        }
    }

    const fn is_complete(&self) -> bool {
        matches!(&self.form, Form::Whole | Form::Events(_, Some(Progress::Stopped | Progress::Done)))
    }

    fn usage(&self) -> Option<Usage> {
        let usage = self.decoder.usage();
        // Servers that do not count, or are told not to, leave all of it at nothing.
        (self.is_complete() && usage != Usage::default()).then_some(usage)
    }
}

/// Where the pieces of an answer go that is only counted.
pub(super) fn nowhere() -> Sink<'static> {
    // A closure without a size: no memory is taken, so none is lost.
    Box::leak(Box::new(|_: Delta| {}))
}
