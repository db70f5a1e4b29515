//! What is special about OpenAI's Responses, and about Codex's.

use flock::config::model::Api;
use flock::provider::{Block, Message, ProviderError, Role, StopReason};
use serde_json::{Value, json};

use super::{KEY, Stage, ask_with, call, hello, plain_all, result, text};
use crate::support::model_server::{Answer, Chunk, Reply, responses};

const API: Api = Api::OpenAiResponses;

fn events(events: &[Value]) -> Reply {
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Reply::stream(vec![Chunk::Bytes(stream.into_bytes())])
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 7}}})
}

fn assistant(content: Vec<Block>) -> Message {
    Message { role: Role::Assistant, content }
}

fn tool(content: Vec<Block>) -> Message {
    Message { role: Role::Tool, content }
}

/// An answer with reasoning, a text and a call, and the request that goes on from it.
async fn two_steps(stage: &Stage) -> (Vec<Block>, Value) {
    stage.server.reply(Reply::Answer(Answer {
        thinking: "hm".into(),
        pieces: vec!["I look.".into()],
        calls: vec![("call_1".into(), "exec".into(), r#"{"command":"ls"}"#.into())],
        ..Answer::default()
    }));
    let answer = stage.ask(&hello()).await.0.unwrap().content;
    let picture = Block::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    let follow_up = ask_with(vec![
        Message::text(Role::User, "hello"),
        assistant(answer.clone()),
        tool(vec![result("call_1|fc_call_1", vec![text("a file"), picture])]),
    ]);
    stage.ask(&follow_up).await.0.unwrap();
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    (answer, stage.server.requests().remove(1).body)
}

#[tokio::test]
async fn nothing_is_stored_there_and_every_request_holds_all() {
    let stage = Stage::new(API);
    let (answer, body) = two_steps(&stage).await;
    assert!(matches!(&answer[2], Block::ToolCall { id, .. } if id == "call_1|fc_call_1"));
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["instructions"], "You are a test.");
    assert_eq!(body["max_output_tokens"], 1000);
    let mut reasoning = responses::reasoning("hm");
    reasoning.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let expected = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        reasoning,
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
        {"type": "function_call", "id": "fc_call_1", "call_id": "call_1", "name": "exec",
            "arguments": "{\"command\":\"ls\"}"},
        {"type": "function_call_output", "call_id": "call_1", "output": [
            {"type": "input_text", "text": "a file"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
        ]},
    ]);
    assert_eq!(body["input"], expected);
    let request = stage.server.requests().remove(0);
    assert_eq!(request.path, "/v1/responses");
    assert_eq!(request.header("authorization"), format!("Bearer {KEY}"));
}

#[tokio::test]
async fn codex_gets_no_ids_and_no_limit() {
    let stage = Stage::new(Api::OpenAiCodexResponses);
    let (_, body) = two_steps(&stage).await;
    let items = body["input"].as_array().unwrap();
    assert!(items.iter().all(|item| item.get("id").is_none()), "{items:?}");
    assert_eq!(items[1]["encrypted_content"], "gAAAplanted");
    let request = stage.server.requests().remove(0);
    assert_eq!(request.path, "/backend-api/codex/responses");
    assert_eq!((request.header("originator"), request.header("session_id")), ("flock", ""));
    let mut keyed = hello();
    keyed.cache_key = Some("0123".into());
    stage.ask(&keyed).await.0.unwrap();
    let request = stage.server.requests().remove(2);
    assert_eq!((request.header("session_id"), &request.body["prompt_cache_key"]), ("0123", &json!("0123")));
}

#[tokio::test]
async fn reasoning_without_a_summary_is_kept() {
    let stage = Stage::new(API);
    let item = json!({"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "gBBB"});
    stage.server.reply(events(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": {"type": "message", "id": "msg_9",
            "phase": "final_answer", "content": [{"type": "output_text", "text": "done"}]}}),
        completed(),
    ]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    let usage = answer.usage;
    assert_eq!((usage.input, usage.cache_read, usage.output), (40, 60, 7));
    let Block::Thinking { thinking, signature: Some(signature), .. } = &answer.content[0] else { panic!() };
    assert_eq!((thinking.as_str(), signature), ("", &item.to_string().replace(": ", ":")));
    let follow_up =
        vec![Message::text(Role::User, "a"), assistant(answer.content), Message::text(Role::User, "b")];
    stage.ask(&ask_with(follow_up)).await.0.unwrap();
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    let items = stage.server.requests()[1].body["input"].clone();
    assert_eq!(items[1], item);
    assert_eq!((&items[2]["id"], &items[2]["phase"]), (&json!("msg_9"), &json!("final_answer")));
}

#[tokio::test]
async fn paragraphs_of_a_summary_are_kept_apart() {
    let stage = Stage::new(API);
    let delta = |number: u64, text: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": number, "delta": text});
    let part = |number: u64| json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": number});
    stage.server.reply(events(&[part(0), delta(0, "a"), part(1), delta(1, "b"), completed()]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    let thinking = Block::Thinking { thinking: "a\n\nb".into(), signature: None, redacted: None };
    assert_eq!(answer.content, [thinking]);
}

#[tokio::test]
async fn parallel_calls_whose_pieces_are_mixed_and_the_whole_counts() {
    let stage = Stage::new(API);
    let added = |index: u64| {
        json!({"type": "response.output_item.added", "output_index": index, "item": {"type": "function_call",
            "id": format!("fc_{index}"), "call_id": format!("call_{index}"), "name": "exec", "arguments": ""}})
    };
    let delta = |index: u64, delta: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta});
    stage.server.reply(events(&[
        added(0),
        added(1),
        delta(1, "{\"x\":"),
        delta(0, "{\"y\":"),
        delta(1, "1}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"y\":2}"}),
        json!({"type": "response.web_search_call.completed", "output_index": 2, "delta": {"new": true}}),
        completed(),
    ]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    assert_eq!(answer.stop, StopReason::ToolUse);
    let expected = [call("call_0", "exec", json!({"y": 2})), call("call_1", "exec", json!({"x": 1}))];
    assert_eq!(plain_all(&answer.content), expected);
}

#[tokio::test]
async fn an_answer_that_comes_only_at_its_end_is_understood() {
    let output =
        json!([{"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "all"}]}]);
    let whole = json!({"object": "response", "status": "completed", "output": output, "error": null});
    let stage = Stage::new(API);
    stage.server.reply(Reply::body(200, "application/json", whole.to_string()));
    assert_eq!(plain_all(&stage.ask(&hello()).await.0.unwrap().content), [text("all")]);
    stage.server.reply(events(&[json!({"type": "response.completed", "response": whole})]));
    assert_eq!(plain_all(&stage.ask(&hello()).await.0.unwrap().content), [text("all")]);
}

#[tokio::test]
async fn a_refusal_in_words_is_one() {
    let stage = Stage::new(API);
    stage.server.reply(events(&[
        json!({"type": "response.refusal.delta", "output_index": 0, "delta": "I can't."}),
        completed(),
    ]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    assert_eq!((answer.stop, plain_all(&answer.content)), (StopReason::Refusal, vec![text("I can't.")]));
}

#[tokio::test]
async fn failures_in_the_stream_have_their_class() {
    let stage = Stage::new(API);
    let failed = |code: &str| {
        let error = json!({"code": code, "message": format!("no {KEY}")});
        events(&[json!({"type": "response.failed", "response": {"status": "failed", "error": error}})])
    };
    for (code, status) in [("rate_limit_exceeded", 429), ("server_is_overloaded", 529)] {
        stage.server.reply(failed(code));
        let error = stage.fail().await;
        assert!(matches!(error, ProviderError::Limited { status: s, .. } if s == status), "{error:?}");
    }
    for code in ["context_length_exceeded", "insufficient_quota", "invalid_prompt"] {
        stage.server.reply(failed(code));
        let error = stage.fail().await;
        assert!(matches!(error, ProviderError::Rejected { .. }), "{code} {error:?}");
    }
    stage.server.reply(failed("server_error"));
    assert!(matches!(stage.fail().await, ProviderError::Failed { .. }));
    stage.server.reply(events(&[json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"})]));
    assert!(matches!(stage.fail().await, ProviderError::Limited { .. }));
}

#[tokio::test]
async fn a_model_that_does_not_reason_is_not_asked_for_reasoning() {
    let stage = Stage::new(API);
    let mut request = hello();
    request.model = "gpt-4.1".into();
    request.effort = Some(flock::provider::Effort::High);
    stage.ask(&request).await.0.unwrap();
    let body = stage.server.requests().remove(0).body;
    assert!(body.get("include").is_none() && body.get("reasoning").is_none(), "{body}");
}

/// What the server of these tests holds against requests that the encoder never makes.
#[test]
fn the_server_refuses_what_the_real_one_refuses() {
    let headers = axum::http::HeaderMap::new();
    let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"});
    let call = json!({"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "o"});
    let named =
        json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "x", "arguments": "{}"});
    let check = |items: &[&Value]| {
        responses::public(&headers, &json!({"model": "m", "stream": true, "store": false, "input": items}))
    };
    check(&[&user, &reasoning, &named, &output]).unwrap();
    check(&[&user, &call, &output]).unwrap();
    for (items, word) in [
        (vec![&user, &reasoning, &user], "required following item"),
        (vec![&user, &reasoning], "required following item"),
        (vec![&user, &output], "No tool call found"),
        (vec![&user, &call], "No tool output found"),
        (vec![&user, &named, &output], "required 'reasoning' item"),
        (vec![&user, &json!({"type": "thinking"})], "Invalid value"),
    ] {
        let error = check(&items).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}
