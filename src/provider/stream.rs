//! From a request's bytes to the whole answer: the part that is the same for every wire format.

use serde::de::DeserializeOwned;

use super::assembly::TooLong;
use super::http::sse::Events;
use super::http::{Body, Endpoint, Http};
use super::{ProviderError, Usage};

/// The most bytes of an event in a log, and in an error.
const LOGGED: usize = 4096;
const QUOTED: usize = 200;

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More is to come.
    Running,
    /// The model has stopped; what else comes only counts tokens.
    Stopped,
    /// Nothing else comes.
    Done,
}

/// What is wrong with an event.
#[derive(Debug)]
pub enum EventError {
    /// It is not what this wire format has.
    Unreadable(String),
    /// It can't be read at all.
    Garbage {
        /// Why not.
        reason: String,
        /// All of it, so that the key can be taken out before it is cut.
        data: Vec<u8>,
    },
    /// The answer holds more than it may.
    TooLong,
    /// The provider reports a failure, with the status it would have had.
    Failure {
        /// The status.
        status: u16,
        /// What it says.
        message: String,
    },
}

impl From<TooLong> for EventError {
    fn from(TooLong: TooLong) -> Self {
        Self::TooLong
    }
}

/// Takes the events of one wire format.
pub trait Decoder {
    /// Takes the data of an event.
    ///
    /// # Errors
    ///
    /// [`EventError`].
    fn event(&mut self, data: &[u8]) -> Result<Progress, EventError>;

    /// Takes an answer that came as one document, from a server that does not stream.
    ///
    /// # Errors
    ///
    /// [`EventError`].
    fn whole(&mut self, document: &[u8]) -> Result<(), EventError>;

    /// What the answer took, as far as it was told yet.
    fn usage(&self) -> Usage;

    /// Bytes of text, thinking and arguments that have come.
    fn written(&self) -> usize;
}

/// Asks, and feeds the answer to `decoder` as it comes. Returning without an error means that the answer is
/// complete.
///
/// # Errors
///
/// As [`ProviderError`] says.
pub async fn run<D: Decoder + Send>(
    endpoint: &Endpoint,
    http: &Http,
    request: Vec<u8>,
    decoder: &mut D,
) -> Result<(), ProviderError> {
    let mut body = endpoint.post(http, request).await?;
    let mut first = loop {
        match body.chunk().await? {
            Some(chunk) if chunk.iter().all(u8::is_ascii_whitespace) => {}
            Some(chunk) => break chunk,
            None => return Err(endpoint.failed("it closed the connection without an answer")),
        }
    };
    // What is in it says more than the content type: servers send either under any name.
    match first.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {
            let document = body.whole(first).await?;
            return decoder.whole(&document).map_err(|error| explain(endpoint, error));
        }
        Some(b'<') => return Err(endpoint.garbled("it is a web page; check the base URL")),
        _ => {}
    }
    let mut stream =
        Stream { endpoint, events: Events::default(), progress: None, longest: http.limits().answer };
    loop {
        stream.feed(&first, decoder).map_err(|error| explain(endpoint, error))?;
        match stream.progress {
            Some(Progress::Done) => {
                body.finish();
                return Ok(());
            }
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
        Some(Progress::Running) => Err(endpoint.failed("it broke off in the middle of its answer")),
        None => Err(endpoint.garbled("there is no event in it")),
    }
}

/// Once the model has stopped the answer is complete: what goes wrong then is no reason to lose it.
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
    events: Events,
    progress: Option<Progress>,
    longest: usize,
}

impl Stream<'_> {
    fn feed<D: Decoder>(&mut self, bytes: &[u8], decoder: &mut D) -> Result<(), EventError> {
        let Self { endpoint, progress, .. } = self;
        self.events.feed(bytes, |data| take(endpoint, progress, data, decoder))?;
        if self.events.pending() > self.longest.saturating_mul(2) {
            return Err(EventError::TooLong);
        }
        Ok(())
    }

    /// The last event of a stream that broke off may be half of one; that it broke off is then the error.
    fn end<D: Decoder>(&mut self, decoder: &mut D) -> Result<(), EventError> {
        let Self { endpoint, progress, .. } = self;
        match self.events.end(|data| take(endpoint, progress, data, decoder)) {
            Err(EventError::Unreadable(_) | EventError::Garbage { .. }) if self.progress.is_some() => Ok(()),
            other => other,
        }
    }
}

pub(super) fn take<D: Decoder + ?Sized>(
    endpoint: &Endpoint,
    progress: &mut Option<Progress>,
    data: &[u8],
    decoder: &mut D,
) -> Result<(), EventError> {
    if *progress == Some(Progress::Done) || data.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    tracing::trace!(event = %endpoint.quoted(data, LOGGED), "provider event");
    let stopped = *progress == Some(Progress::Stopped);
    let next = match decoder.event(data) {
        Err(_) if stopped => Progress::Stopped,
        Ok(Progress::Running) if stopped => Progress::Stopped,
        other => other?,
    };
    *progress = Some(next);
    Ok(())
}

/// The failure that a wrong event is.
pub fn explain(endpoint: &Endpoint, error: EventError) -> ProviderError {
    match error {
        EventError::Unreadable(reason) => endpoint.garbled(reason),
        EventError::Garbage { reason, data } => {
            endpoint.garbled(format!("{reason} in {}", endpoint.quoted(&data, QUOTED)))
        }
        EventError::TooLong => endpoint.garbled("it is too long"),
        EventError::Failure { status, message } => endpoint.status(status, &message, None),
    }
}

/// Reads an event. Bytes that are not UTF-8 are replaced: one bad letter from a server that cuts letters in
/// two must not cost the answer.
///
/// # Errors
///
/// [`EventError::Garbage`].
pub fn decode<T: DeserializeOwned>(data: &[u8]) -> Result<T, EventError> {
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
    use crate::provider::anthropic::decode::Messages;
    use crate::provider::google::decode::Chunks;
    use crate::provider::openai::decode::Completion;
    use crate::provider::responses::decode::Events as Responses;
    use crate::provider::{Delta, Request};

    /// Documents made of the words the formats have, in any order and of any type.
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
            feed(Messages::new(&mut sink, 100), &documents).finish(&request());
            feed(Completion::new(&mut sink, 100), &documents).finish(&request());
            feed(Responses::new(&mut sink, 100), &documents).finish(&request());
            feed(Chunks::new(&mut sink, 100), &documents).finish(&request());
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

    /// What is written to a log that takes everything.
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
        let mut stream =
            Stream { endpoint: &endpoint, events: Events::default(), progress: None, longest: 9_000 };
        let long = format!("{}sk-planted-and-long", "x".repeat(LOGGED - 12));
        tracing::subscriber::with_default(subscriber, || {
            let mut sink = |_: Delta| {};
            let mut decoder = Messages::new(&mut sink, 100);
            for said in ["key sk-planted-and-long", &long] {
                let event = format!("data: {}\n\n", json!({"type": "ping", "said": said}));
                stream.feed(event.as_bytes(), &mut decoder).unwrap();
            }
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(log.matches("provider event").count() == 2 && log.contains("key [key]"), "{log}");
        assert!(!log.contains("sk-pl"), "{log}");
    }

    #[test]
    fn an_event_that_nests_without_end_is_refused() {
        let mut sink = |_: Delta| {};
        let deep = format!("{{\"choices\": {}", "[".repeat(200_000));
        assert!(Completion::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        let deep = format!("{{\"type\": \"x\", \"y\": {}", "[".repeat(200_000));
        assert!(Messages::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        let deep = format!("{{\"type\": \"x\", \"item\": {}", "[".repeat(200_000));
        assert!(Responses::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        let deep = format!("{{\"candidates\": {}", "[".repeat(200_000));
        assert!(Chunks::new(&mut sink, 100).event(deep.as_bytes()).is_err());
        assert!(decode::<Value>(&json!({"a": 1}).to_string().into_bytes()).is_ok());
    }
}
