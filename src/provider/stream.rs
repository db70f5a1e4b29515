//! Sends a request and reads its answer: the part that is the same for every wire format.

use super::ProviderError;
use super::decoder::{Decoder, EventError, Progress, explain};
use super::http::sse::EventStreamParser;
use super::http::{Body, Endpoint, HttpClients};

/// The log target of raw answers. It is open only if a person asks for raw output, see `ui::log`.
pub(crate) const RAW_TARGET: &str = module_path!();
/// Maximum bytes of an event in the log.
const MAX_LOGGED_BYTES: usize = 4096;
/// Sends the request and feeds the answer to `decoder` as it arrives. `Ok` means that the answer is complete.
///
/// # Errors
///
/// Returns [`ProviderError`] if the request fails, if the answer breaks off or cannot be read, or if it reports a
/// failure.
pub async fn run<D: Decoder + Send>(
    endpoint: &Endpoint,
    http: &HttpClients,
    request: Vec<u8>,
    decoder: &mut D,
) -> Result<(), ProviderError> {
    let mut body = endpoint.post(http, request).await?;
    let mut first = loop {
        // White space may come before the answer begins. It does not tell the form of the answer, so it is skipped.
        match body.chunk().await? {
            Some(chunk) if chunk.iter().all(u8::is_ascii_whitespace) => {}
            Some(chunk) => break chunk,
            None => return Err(endpoint.failed("it closed the connection without an answer")),
        }
    };
    // The first byte decides, not the content type: servers send either form under any name.
    match first.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {
            let document = body.whole(first).await?;
            return decoder.whole(&document).map_err(|error| explain(endpoint, error));
        }
        Some(b'<') => return Err(endpoint.garbled("it is a web page; check the base URL")),
        _ => {}
    }
    let mut stream = Stream {
        endpoint,
        events: EventStreamParser::default(),
        progress: None,
        longest: http.limits().answer,
    };
    loop {
        stream.feed(&first, decoder).map_err(|error| explain(endpoint, error))?;
        match stream.progress {
            Some(Progress::Done) => {
                body.finish();
                return Ok(());
            }
            // Only token counts may follow, so the long timeout ends here.
            Some(Progress::Stopped) => body.settle(),
            Some(Progress::Running) | None => {}
        }
        first = match next(&mut body, stream.progress).await? {
            Some(chunk) => chunk,
            None => break,
        };
    }
    stream.end(decoder).map_err(|error| explain(endpoint, error))?;
    match stream.progress {
        Some(Progress::Stopped | Progress::Done) => Ok(()),
        // Without a stop reason nobody knows how much of the answer is missing.
        Some(Progress::Running) => Err(endpoint.failed("it broke off in the middle of its answer")),
        None => Err(endpoint.garbled("there is no event in it")),
    }
}

/// Returns the next bytes. Once the model has stopped the answer is complete, and a failure of the connection only ends
/// it.
async fn next(
    body: &mut Body<'_>,
    progress: Option<Progress>,
) -> Result<Option<bytes::Bytes>, ProviderError> {
    match body.chunk().await {
        Err(_) if progress == Some(Progress::Stopped) => Ok(None),
        other => other,
    }
}

struct Stream<'a> {
    endpoint: &'a Endpoint,
    events: EventStreamParser,
    progress: Option<Progress>,
    longest: usize,
}

impl Stream<'_> {
    fn feed<D: Decoder>(&mut self, bytes: &[u8], decoder: &mut D) -> Result<(), EventError> {
        let Self { endpoint, progress, .. } = self;
        self.events.feed(bytes, |event| take(endpoint, progress, &event.data, decoder))?;
        // The limit counts the content of an answer. The JSON around it may take as much again.
        if self.events.pending() > self.longest.saturating_mul(2) {
            return Err(EventError::TooLong);
        }
        Ok(())
    }

    /// Reads the last event. If the stream broke off, that event may be incomplete; the caller then reports the break
    /// instead.
    fn end<D: Decoder>(&mut self, decoder: &mut D) -> Result<(), EventError> {
        let Self { endpoint, progress, .. } = self;
        match self.events.end(|event| take(endpoint, progress, &event.data, decoder)) {
            Err(EventError::Unreadable(_) | EventError::Garbage { .. }) if self.progress.is_some() => Ok(()),
            other => other,
        }
    }
}

/// Gives one event to the decoder and updates the progress.
pub(super) fn take<D: Decoder + ?Sized>(
    endpoint: &Endpoint,
    progress: &mut Option<Progress>,
    data: &[u8],
    decoder: &mut D,
) -> Result<(), EventError> {
    if *progress == Some(Progress::Done) || data.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    // `quoted` removes the key, which a server may repeat.
    tracing::trace!(target: RAW_TARGET, event = %endpoint.quoted(data, MAX_LOGGED_BYTES), "provider event");
    // After the model has stopped, neither a broken event nor a late one may undo that.
    let stopped = *progress == Some(Progress::Stopped);
    let next = match decoder.event(data) {
        Err(_) if stopped => Progress::Stopped,
        Ok(Progress::Running) if stopped => Progress::Stopped,
        other => other?,
    };
    *progress = Some(next);
    Ok(())
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
