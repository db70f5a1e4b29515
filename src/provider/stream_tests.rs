use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::provider::anthropic::decode::MessagesDecoder;
use crate::provider::decoder::decode;
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
    let mut stream =
        Stream { endpoint: &endpoint, events: EventStreamParser::default(), progress: None, longest: 9_000 };
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
