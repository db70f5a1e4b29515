//! Sends a request and reads its answer: the part that is the same for every wire format.

use serde::de::DeserializeOwned;

use super::http::sse::EventStreamParser;
use super::http::{Body, Endpoint, HttpClients};
use super::response_builder::TooLong;
use super::{ProviderError, Usage};

/// The log target of raw answers. It is open only if a person asks for raw output, see `ui::log`.
pub(crate) const RAW_TARGET: &str = module_path!();
/// Maximum bytes of an event in the log.
const MAX_LOGGED_BYTES: usize = 4096;
/// Maximum bytes of an event in an error text.
const MAX_QUOTED_BYTES: usize = 200;

/// The progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More of the answer will arrive.
    Running,
    /// The model has stopped. Anything that follows only counts tokens.
    Stopped,
    /// Nothing else will arrive.
    Done,
}

/// The reason why an event cannot be used.
#[derive(Debug)]
pub(crate) enum EventError {
    /// The event is valid JSON but does not follow this wire format.
    Unreadable(String),
    /// The event is no JSON that can be read.
    Garbage {
        /// The parser's error.
        reason: String,
        /// The whole event. The key must be removed from it before it is cut, because half a key would no longer match.
        data: Vec<u8>,
    },
    /// The answer is larger than the limit.
    TooLong,
    /// The provider reports a failure.
    Failure {
        /// The HTTP status that the failure would have had.
        status: u16,
        /// The provider's error text.
        message: String,
    },
}

impl From<TooLong> for EventError {
    fn from(TooLong: TooLong) -> Self {
        Self::TooLong
    }
}

/// A decoder for the answers of one wire format.
pub trait Decoder {
    /// Reads the data of one event.
    ///
    /// # Errors
    ///
    /// Returns [`EventError`] if the event cannot be read, if the answer grows too long, or if the event reports a
    /// failure.
    fn event(&mut self, data: &[u8]) -> Result<Progress, EventError>;

    /// Reads an answer that came as one document, from a server that does not stream.
    ///
    /// # Errors
    ///
    /// Returns [`EventError`] if the document cannot be read, if the answer is too long, or if it reports a failure.
    fn whole(&mut self, document: &[u8]) -> Result<(), EventError>;

    /// Returns the tokens that the provider has counted so far.
    fn usage(&self) -> Usage;

    /// Returns the number of bytes of text, thinking and arguments so far.
    fn written(&self) -> usize;
}

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

/// Converts the error of an event into the error of the call.
pub(crate) fn explain(endpoint: &Endpoint, error: EventError) -> ProviderError {
    match error {
        EventError::Unreadable(reason) => endpoint.garbled(reason),
        EventError::Garbage { reason, data } => {
            endpoint.garbled(format!("{reason} in {}", endpoint.quoted(&data, MAX_QUOTED_BYTES)))
        }
        EventError::TooLong => endpoint.garbled("it is too long"),
        EventError::Failure { status, message } => endpoint.status(status, &message, None),
    }
}

/// Parses an event. Bytes that are not UTF-8 are replaced: some servers cut a character in two, and that must not cost
/// the whole answer.
///
/// # Errors
///
/// Returns [`EventError::Garbage`] if the event is no JSON of this type.
pub fn decode<T: DeserializeOwned>(data: &[u8]) -> Result<T, EventError> {
    // Almost all events are valid UTF-8, so the replacement is only tried after a failure.
    let error = match serde_json::from_slice(data) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if std::str::from_utf8(data).is_err()
        && let Ok(value) = serde_json::from_str(&String::from_utf8_lossy(data))
    {
        return Ok(value);
    }
    Err(EventError::Garbage { reason: error.to_string(), data: data.to_vec() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::provider::anthropic::decode::MessagesDecoder;
    use crate::provider::google::decode::GoogleDecoder;
    use crate::provider::openai::decode::CompletionDecoder;
    use crate::provider::responses::decode::ResponsesDecoder as Responses;
    use crate::provider::{Delta, Request};

    /// Generates documents from the words of the wire formats, in any order and of any type.
    fn document() -> impl Strategy<Value = Value> {
        let word = prop::sample::select(vec![
            "type",
            "index",
            "delta",
            "content_block",
            "message",
            "usage",
            "error",
            "choices",
            "content",
            "tool_calls",
            "function",
            "name",
            "id",
            "arguments",
            "finish_reason",
            "text",
            "thinking",
            "signature",
            "partial_json",
            "input",
            "stop_reason",
            "code",
            "reasoning",
            "input_tokens",
            "item",
            "output_index",
            "response",
            "output",
            "summary",
            "status",
            "candidates",
            "parts",
            "functionCall",
            "args",
            "thought",
            "thoughtSignature",
            "finishReason",
            "usageMetadata",
            "promptFeedback",
        ]);
        let kind = prop::sample::select(vec![
            "content_block_start",
            "content_block_delta",
            "message_start",
            "message_delta",
            "error",
            "tool_use",
            "thinking",
            "redacted_thinking",
            "text",
            "stop",
            "length",
            "message",
            "function_call",
            "reasoning",
            "response.output_item.added",
            "response.output_item.done",
            "response.output_text.delta",
            "response.function_call_arguments.delta",
            "response.completed",
            "response.failed",
            "STOP",
            "MALFORMED_FUNCTION_CALL",
            "{\"a\":",
            "",
            "é",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            kind.prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(word.clone(), inner, 0..6)
                    .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ]
        })
    }

    fn request() -> Request {
        Request { max_tokens: 1, ..Request::default() }
    }

    proptest! {
        #[test]
        fn any_events_give_an_answer_or_an_error(documents in prop::collection::vec(document(), 0..8)) {
            let mut sink = |_: Delta| {};
            feed(MessagesDecoder::new(&mut sink, 100), &documents).finish(&request());
            feed(CompletionDecoder::new(&mut sink, 100), &documents).finish(&request());
            feed(Responses::new(&mut sink, 100), &documents).finish(&request());
            feed(GoogleDecoder::new(&mut sink, 100), &documents).finish(&request());
        }
    }

    fn feed<D: Decoder>(mut decoder: D, documents: &[Value]) -> D {
        for document in documents {
            let text = document.to_string();
            let _ = decoder.event(text.as_bytes());
            let _ = decoder.whole(text.as_bytes());
        }
        decoder
    }

    /// A log writer that keeps everything it is given.
    #[derive(Clone, Default)]
    struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_logged_without_the_key() {
        let address = "http://127.0.0.1:9/".parse().unwrap();
        let key = crate::provider::key::ApiKey::new("sk-planted-and-long");
        let endpoint = Endpoint::new("x", address, key);
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        let mut stream = Stream {
            endpoint: &endpoint,
            events: EventStreamParser::default(),
            progress: None,
            longest: 9_000,
        };
        let long = format!("{}sk-planted-and-long", "x".repeat(MAX_LOGGED_BYTES - 12));
        tracing::subscriber::with_default(subscriber, || {
            let mut sink = |_: Delta| {};
            let mut decoder = MessagesDecoder::new(&mut sink, 100);
            for said in ["key sk-planted-and-long", &long] {
                let event = format!("data: {}\n\n", json!({"type": "ping", "said": said}));
                stream.feed(event.as_bytes(), &mut decoder).unwrap();
            }
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(log.matches("provider event").count() == 2 && log.contains("key [key]"), "{log}");
        // `ui::log` closes this target. Under another one a conversation would be logged.
        assert_eq!(log.matches(RAW_TARGET).count(), 2, "{log}");
        assert!(!log.contains("sk-pl"), "{log}");
    }

    #[test]
    fn an_event_that_nests_without_end_is_refused() {
        let mut sink = |_: Delta| {};
        let deep = format!("{{\"choices\": {}", "[".repeat(200_000));
        assert!(CompletionDecoder::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        let deep = format!("{{\"type\": \"x\", \"y\": {}", "[".repeat(200_000));
        assert!(MessagesDecoder::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        let deep = format!("{{\"type\": \"x\", \"item\": {}", "[".repeat(200_000));
        assert!(Responses::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        let deep = format!("{{\"candidates\": {}", "[".repeat(200_000));
        assert!(GoogleDecoder::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        assert!(decode::<Value>(&json!({"a": 1}).to_string().into_bytes()).is_ok());
    }
}
