//! Reads the token counts from an answer while it is forwarded.

use super::ProviderError;
use super::decoder::{Decoder, EventError, Progress, explain};
use super::http::Endpoint;
use super::http::sse::EventStreamParser;
use super::stream::take;

/// Reads the token counts from an answer while it is forwarded.
pub(super) struct UsageMeter {
    pub(super) endpoint: Endpoint,
    pub(super) decoder: Box<dyn Decoder + Send>,
    pub(super) form: BodyFormat,
    longest: usize,
}

/// The form in which an answer arrives.
pub(super) enum BodyFormat {
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
    /// Returns a meter for an answer of at most `longest` bytes.
    pub(super) fn new(endpoint: Endpoint, decoder: Box<dyn Decoder + Send>, longest: usize) -> Self {
        Self { endpoint, decoder, form: BodyFormat::Unknown, longest }
    }

    /// Reads the next bytes. The only errors are a failure that the provider reports, and a web page in place of an
    /// answer.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<(), ProviderError> {
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
        let Err(error) = read else { return Ok(()) };
        let is_failure = matches!(error, EventError::Failure { .. });
        let error = explain(&self.endpoint, error);
        if is_failure {
            self.form = BodyFormat::Lost(Some(error.clone()));
            return Err(error);
        }
        // The program that asked may understand an answer that flock cannot read, so it is forwarded all the same.
        tracing::warn!(%error, "what an answer takes can't be read from it");
        self.form = BodyFormat::Lost(None);
        Ok(())
    }

    /// Reads what is left after the last bytes.
    pub(super) fn end(&mut self) {
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

    pub(super) const fn is_complete(&self) -> bool {
        matches!(
            &self.form,
            BodyFormat::Whole | BodyFormat::Events(_, Some(Progress::Stopped | Progress::Done))
        )
    }
}
