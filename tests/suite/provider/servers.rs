//! Servers that speak chat completions in their own way.

use flock::config::model::Api;
use flock::provider::{Block, Message, Role, StopReason};
use serde_json::{Value, json};

use super::{Stage, call, hello, text};
use crate::support::model_server::{Chunk, Reply};

/// A stream of these chunks and an end.
fn chunks(chunks: &[Value]) -> Reply {
    let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    Reply::stream(vec![Chunk::Bytes(stream.into_bytes()), "data: [DONE]\n\n".into()])
}

fn delta(delta: impl Into<Value>) -> Value {
    let delta = delta.into();
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

async fn calls(reply: Reply) -> Vec<(String, String, Value)> {
    let stage = Stage::new(Api::OpenAiCompletions);
    stage.server.reply(reply);
    let answer = stage.ask(&hello()).await.0.unwrap();
    assert_eq!(answer.stop, StopReason::ToolUse);
    let message = Message { role: Role::Assistant, content: answer.content };
    message
        .tool_calls()
        .map(|call| (call.id.to_owned(), call.name.to_owned(), call.arguments.clone()))
        .collect()
}

#[tokio::test]
async fn whole_calls_all_with_the_same_index_and_no_id() {
    let one = |name: &str, path: &str| {
        delta(json!({"tool_calls": [{"index": 0, "function":
            {"name": name, "arguments": format!("{{\"path\":\"{path}\"}}")}}]}))
    };
    let calls = calls(chunks(&[one("read", "a"), one("read", "b"), finish("stop")])).await;
    assert_eq!(calls.len(), 2);
    assert_eq!((&calls[0].2, &calls[1].2), (&json!({"path": "a"}), &json!({"path": "b"})));
    assert!(!calls[0].0.is_empty() && calls[0].0 != calls[1].0, "ids are made up");
}

#[tokio::test]
async fn whole_calls_in_one_piece_without_an_index() {
    let calls = calls(chunks(&[
        delta(json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"p\":1}"}},
            {"id": "b", "type": "function", "function": {"name": "exec", "arguments": "{\"p\":2}"}},
        ]})),
        finish("tool_calls"),
    ]))
    .await;
    let expected = [("a", "read", json!({"p": 1})), ("b", "exec", json!({"p": 2}))];
    assert_eq!(calls, expected.map(|(id, name, arguments)| (id.to_owned(), name.to_owned(), arguments)));
}

#[tokio::test]
async fn whole_calls_without_id_and_index() {
    let calls = calls(chunks(&[
        delta(json!({"tool_calls": [
            {"function": {"name": "read", "arguments": "{\"p\":1}"}},
            {"function": {"name": "read", "arguments": "{\"p\":2}"}},
        ]})),
        finish("tool_calls"),
    ]))
    .await;
    assert_eq!(calls.iter().map(|call| &call.2).collect::<Vec<_>>(), [&json!({"p": 1}), &json!({"p": 2})]);
}

#[tokio::test]
async fn parallel_calls_whose_pieces_are_mixed() {
    let piece = |index: u64, arguments: &str| {
        delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    };
    let open = |index: u64, id: &str| {
        delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": "exec", "arguments": ""}}]}))
    };
    let calls = calls(chunks(&[
        open(0, "a"),
        open(1, "b"),
        piece(1, "{\"x\":"),
        piece(0, "{\"y\":"),
        piece(1, "1}"),
        piece(0, "2}"),
        finish("tool_calls"),
    ]))
    .await;
    assert_eq!((&calls[0].2, &calls[1].2), (&json!({"y": 2}), &json!({"x": 1})));
}

#[tokio::test]
async fn an_id_and_a_name_repeated_with_every_piece() {
    let piece = |arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "exec", "arguments": arguments}}]}),
        )
    };
    let calls = calls(chunks(&[piece(""), piece("{\"x\""), piece(":1}"), finish("tool_calls")])).await;
    assert_eq!(calls, [("a".to_owned(), "exec".to_owned(), json!({"x": 1}))]);
}

#[tokio::test]
async fn new_ids_under_the_same_index_are_new_calls() {
    let piece = |id: &str| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "exec", "arguments": "{}"}}]}),
        )
    };
    assert_eq!(calls(chunks(&[piece("a"), piece("b"), finish("tool_calls")])).await.len(), 2);
}

#[tokio::test]
async fn arguments_as_an_object() {
    let calls = calls(chunks(&[
        delta(json!({"tool_calls": [{"index": 0, "id": "", "function": {"name": "exec", "arguments": {"x": 1}}}]})),
        finish("tool_calls"),
    ]))
    .await;
    assert_eq!(calls[0].2, json!({"x": 1}));
}

#[tokio::test]
async fn nulls_everywhere_keep_alive_lines_and_counts_in_odd_places() {
    let stage = Stage::new(Api::OpenAiCompletions);
    let events = [
        json!({"id": null, "choices": [{"delta": {"role": "assistant", "content": null, "tool_calls": null,
            "reasoning_content": null, "reasoning": "hm"}, "finish_reason": null, "logprobs": null}],
            "usage": null, "error": null}),
        json!({"choices": [{"delta": {"content": "yes"}, "finish_reason": ""}]}),
        json!({"choices": null}),
        json!({"choices": [{"delta": null, "finish_reason": "stop"}], "x_groq": {"usage":
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}}}),
    ];
    let mut stream = vec![Chunk::from(": OPENROUTER PROCESSING\n\n")];
    stream.extend(events.iter().map(|event| Chunk::Bytes(format!("data:{event}\r\n\r\n").into_bytes())));
    stage.server.reply(Reply::stream(stream));
    let answer = stage.ask(&hello()).await.0.unwrap();
    let thinking = Block::Thinking { thinking: "hm".into(), signature: None, redacted: None };
    assert_eq!(answer.content, [thinking, text("yes")]);
    assert_eq!((answer.usage.input, answer.usage.cache_read, answer.usage.output), (5, 4, 2));
}

#[tokio::test]
async fn content_as_a_list_of_parts() {
    let stage = Stage::new(Api::OpenAiCompletions);
    stage.server.reply(chunks(&[
        delta(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]})),
        delta(json!({"content": [{"type": "text", "text": "yes"}]})),
        finish("stop"),
    ]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    assert_eq!(answer.content.len(), 2);
    assert_eq!(answer.content[1], text("yes"));
}

#[tokio::test]
async fn a_stop_for_tools_without_a_call_is_an_end() {
    let stage = Stage::new(Api::OpenAiCompletions);
    stage.server.reply(chunks(&[delta(json!({"content": "x"})), finish("tool_calls")]));
    assert_eq!(stage.ask(&hello()).await.0.unwrap().stop, StopReason::End);
}

#[tokio::test]
async fn an_id_that_the_conversation_has_already_is_replaced() {
    let stage = Stage::new(Api::OpenAiCompletions);
    stage.server.reply(Reply::call("functions.exec:0", "exec", &json!({})));
    let mut request = hello();
    let said = Message { role: Role::Assistant, content: vec![call("functions.exec:0", "exec", json!({}))] };
    let content = vec![super::result("functions.exec:0", vec![text("x")])];
    request.messages.extend([said.into(), Message { role: Role::Tool, content }.into()]);
    let answer = stage.ask(&request).await.0.unwrap();
    let message = Message { role: Role::Assistant, content: answer.content };
    assert_ne!(message.tool_calls().next().unwrap().id, "functions.exec:0");
}
