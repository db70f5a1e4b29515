//! What is special about Google's generateContent.

use flock::config::model::Api;
use flock::error::Explain as _;
use flock::provider::{Block, Message, ProviderError, Request, Response, Role, StopReason};
use serde_json::{Value, json};

use super::{KEY, Stage, ask_with, call, hello, plain_all, result, text};
use crate::support::model_server::{Answer, Chunk, Reply, google};

const API: Api = Api::GoogleGenerativeAi;

fn chunks(chunks: &[Value]) -> Reply {
    let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
    Reply::stream(vec![Chunk::Bytes(stream.into_bytes())])
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 5,
            "thoughtsTokenCount": 7, "totalTokenCount": 112}})
}

fn message(role: Role, content: Vec<Block>) -> Message {
    Message { role, content }
}

fn picture() -> Block {
    Block::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() }
}

/// Asks a model; the server has refused nothing.
async fn ask(stage: &Stage, model: &str, mut request: Request) -> Response {
    model.clone_into(&mut request.model);
    let answer = stage.ask(&request).await.0.unwrap();
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    answer
}

#[tokio::test]
async fn the_key_is_in_a_header_and_the_model_in_the_address() {
    let stage = Stage::new(API);
    ask(&stage, "gemini-3-pro-preview", hello()).await;
    let request = stage.server.requests().remove(0);
    assert_eq!(request.path, "/v1beta/models/gemini-3-pro-preview:streamGenerateContent");
    assert_eq!((request.header("x-goog-api-key"), request.header("authorization")), (KEY, ""));
    let body = request.body;
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "You are a test."}]}));
    assert_eq!(body["contents"], json!([{"role": "user", "parts": [{"text": "hello"}]}]));
    assert_eq!(body["generationConfig"], json!({"maxOutputTokens": 1000}));
    assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], "AUTO");
}

#[tokio::test]
async fn signatures_go_back_on_the_parts_they_came_with() {
    let stage = Stage::new(API);
    stage.server.reply(chunks(&[
        parts(json!([{"text": "hm", "thought": true, "thoughtSignature": "c2ln"}])),
        parts(json!([{"text": "I "}])),
        parts(json!([{"text": "run two."}])),
        parts(json!([{"text": "", "thoughtSignature": "dGV4dA=="}])),
        parts(json!([
            {"functionCall": {"id": "a1", "name": "exec", "args": {"command": "a"}}, "thoughtSignature": "Y2FsbA=="},
            {"functionCall": {"id": "b2", "name": "exec"}},
        ])),
        finish("STOP"),
    ]));
    let model = "gemini-3-flash-preview";
    let answer = ask(&stage, model, hello()).await;
    assert_eq!(answer.stop, StopReason::ToolUse);
    let usage = answer.usage;
    assert_eq!((usage.input, usage.cache_read, usage.output), (40, 60, 12));
    let signed = |signature: &str| Some(signature.to_owned());
    let expected = [
        Block::Thinking { thinking: "hm".into(), signature: signed("c2ln"), redacted: None },
        Block::Text { text: "I run two.".into(), signature: signed("dGV4dA==") },
        Block::ToolCall {
            id: "a1".into(),
            name: "exec".into(),
            arguments: json!({"command": "a"}),
            signature: signed("Y2FsbA=="),
        },
        call("b2", "exec", json!({})),
    ];
    assert_eq!(answer.content, expected);
    let follow_up = ask_with(vec![
        Message::text(Role::User, "hello"),
        message(Role::Assistant, answer.content),
        message(Role::Tool, vec![result("a1", vec![text("out"), picture()])]),
        message(Role::Tool, vec![result("b2", vec![])]),
        Message::text(Role::User, "and?"),
    ]);
    ask(&stage, model, follow_up).await;
    let contents = stage.server.requests()[1].body["contents"].clone();
    let expected = json!([
        {"text": "hm", "thought": true, "thoughtSignature": "c2ln"},
        {"text": "I run two.", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"id": "a1", "name": "exec", "args": {"command": "a"}}, "thoughtSignature": "Y2FsbA=="},
        {"functionCall": {"id": "b2", "name": "exec", "args": {}}},
    ]);
    assert_eq!(contents[1]["parts"], expected);
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let expected = json!([
        {"functionResponse": {"id": "a1", "name": "exec", "response": {"output": "out"}, "parts": [inline]}},
        {"functionResponse": {"id": "b2", "name": "exec", "response": {"output": "(no output)"}}},
        {"text": "and?"},
    ]);
    assert_eq!(contents[2]["parts"], expected);
}

#[tokio::test]
async fn older_models_get_pictures_after_results_and_no_ids() {
    let stage = Stage::new(API);
    let history = ask_with(vec![
        Message::text(Role::User, "look"),
        message(Role::Assistant, vec![call("c1", "exec", json!({})), call("c2", "exec", json!({}))]),
        message(Role::Tool, vec![result("c1", vec![picture()])]),
        message(Role::Tool, vec![result("c2", vec![text("x")])]),
    ]);
    ask(&stage, "gemini-2.5-flash", history).await;
    let parts = stage.server.requests()[0].body["contents"][2]["parts"].clone();
    assert!(parts[0]["functionResponse"].get("id").is_none());
    assert_eq!(parts[1]["functionResponse"]["response"]["output"], "x");
    assert_eq!(parts[2]["inlineData"]["mimeType"], "image/png");
}

#[tokio::test]
async fn tools_are_told_in_the_words_a_model_knows() {
    let stage = Stage::new(API);
    let mut request = hello();
    request.tools[0].parameters = json!({"type": "object", "additionalProperties": false, "$schema": "x",
        "properties": {"command": {"type": ["string", "null"], "format": "uri"}}, "required": ["command"]})
    .into();
    ask(&stage, "gemini-2.5-pro", request.clone()).await;
    ask(&stage, "gemini-2.0-flash", request.clone()).await;
    request.tools[0].parameters = json!({"type": "object", "properties": {}}).into();
    ask(&stage, "gemini-2.0-flash", request.clone()).await;
    let told = |at: usize| {
        stage.server.requests()[at].body["tools"][0]["functionDeclarations"][0].as_object().unwrap().clone()
    };
    assert_eq!(told(0)["parametersJsonSchema"]["additionalProperties"], false);
    let expected = json!({"type": "object", "properties": {"command": {"type": "string", "nullable": true}},
        "required": ["command"]});
    assert_eq!(told(1)["parameters"], expected);
    assert_eq!(told(2).keys().collect::<Vec<_>>(), ["name", "description"]);
}

#[tokio::test]
async fn each_reason_to_finish_has_its_meaning() {
    let stage = Stage::new(API);
    for (reason, expected) in [
        ("STOP", StopReason::End),
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("SOMETHING_NEW", StopReason::End),
    ] {
        stage.server.reply(chunks(&[parts(json!([{"text": "x"}])), finish(reason)]));
        assert_eq!(stage.ask(&hello()).await.0.unwrap().stop, expected, "{reason}");
    }
    // Asked again, the model mostly gets its own call right.
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"] {
        stage.server.reply(chunks(&[finish(reason)]));
        assert!(matches!(stage.fail().await, ProviderError::Failed { .. }), "{reason}");
    }
    stage.server.reply(chunks(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    assert_eq!((answer.stop, answer.content.len()), (StopReason::Refusal, 0));
}

#[tokio::test]
async fn failures_have_their_class() {
    let stage = Stage::new(API);
    let error = |code: u16, status: &str, details: Value| json!({"error": {"code": code, "status": status, "message": format!("no {KEY}"), "details": details}});
    let bad_key = error(400, "INVALID_ARGUMENT", json!([{"reason": "API_KEY_INVALID"}]));
    stage.server.reply(Reply::body(400, "application/json", bad_key.to_string()));
    let failure = stage.fail().await;
    assert!(matches!(failure, ProviderError::Unauthorised { .. }), "{failure:?}");
    assert_eq!(failure.hint().unwrap(), "flock config set models.providers.test.apiKey -");
    let limited = error(429, "RESOURCE_EXHAUSTED", json!([{"retryDelay": "3s"}]));
    stage.server.reply(Reply::body(429, "application/json", format!("[{limited}]")));
    let failure = stage.fail().await;
    let ProviderError::Limited { retry_after: Some(wait), .. } = failure else { panic!("{failure:?}") };
    assert_eq!(wait.as_secs(), 3);
    // In the middle of a stream.
    stage.server.reply(chunks(&[parts(json!([{"text": "x"}])), error(503, "UNAVAILABLE", json!([]))]));
    assert!(matches!(stage.fail().await, ProviderError::Failed { .. }));
    stage.server.reply(chunks(&[json!({"error": {"status": "INVALID_ARGUMENT", "message": "no"}})]));
    assert!(matches!(stage.fail().await, ProviderError::Rejected { status: 400, .. }));
}

#[tokio::test]
async fn calls_without_ids_get_some() {
    let stage = Stage::new(API);
    let one = json!({"functionCall": {"name": "exec", "args": {"x": 1}}});
    stage.server.reply(chunks(&[parts(json!([one, one])), finish("STOP")]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    let message = message(Role::Assistant, answer.content);
    let ids: Vec<&str> = message.tool_calls().map(|call| call.id).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && !ids[0].is_empty(), "{ids:?}");
}

#[tokio::test]
async fn what_a_third_model_called_can_be_sent_back() {
    let stage = Stage::new(API);
    let model = "gemini-3-pro-preview";
    stage.server.reply(Reply::Answer(Answer {
        calls: vec![("c1".into(), "exec".into(), "{}".into()), ("c2".into(), "exec".into(), "{}".into())],
        ..Answer::default()
    }));
    let answer = ask(&stage, model, hello()).await;
    let follow_up = ask_with(vec![
        Message::text(Role::User, "hello"),
        message(Role::Assistant, answer.content),
        message(Role::Tool, vec![result("c1", vec![text("a")])]),
        message(Role::Tool, vec![result("c2", vec![text("b")])]),
    ]);
    assert_eq!(plain_all(&ask(&stage, model, follow_up).await.content), [text("ok")]);
}

/// What the server of these tests holds against requests that the encoder never makes.
#[test]
fn the_server_refuses_what_the_real_one_refuses() {
    let mut headers = axum::http::HeaderMap::new();
    headers.insert("x-goog-api-key", "k".parse().unwrap());
    let at = |model: &str| format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
    let check = |uri: &str, body: &Value| google::check(&uri.parse().unwrap(), &headers, body);
    let said = |role: &str, parts: Value| json!({"role": role, "parts": parts});
    let ask = |contents: &[Value]| json!({"generationConfig": {"maxOutputTokens": 1}, "contents": contents});
    let user = said("user", json!([{"text": "a"}]));
    let call = json!({"functionCall": {"name": "x", "args": {}}});
    let output = json!({"functionResponse": {"name": "x", "response": {"output": "o"}}});
    let called = said("model", json!([call, call]));
    let answered = said("user", json!([output, output]));
    let step = [user.clone(), called.clone(), answered];
    check(&at("gemini-2.5-pro"), &ask(&step)).unwrap();
    let schema = |parameters: Value| {
        let mut body = ask(std::slice::from_ref(&user));
        body["tools"] =
            json!([{"functionDeclarations": [{"name": "x", "description": "", "parameters": parameters}]}]);
        body
    };
    let known = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    check(&at("m"), &schema(known)).unwrap();
    let unknown = json!({"type": "object", "properties": {"a": {"type": "string", "default": "b"}}});
    for (uri, body, word) in [
        (format!("{}&key=planted", at("m")), ask(std::slice::from_ref(&user)), "key"),
        (at("m"), ask(&[user.clone(), user.clone()]), "alternate"),
        (at("m"), ask(&[said("model", json!([{"text": "a"}]))]), "begin with user"),
        (
            at("m"),
            ask(&[user.clone(), called.clone(), said("user", json!([output]))]),
            "number of function response",
        ),
        (at("m"), ask(&[user.clone(), called]), "no response"),
        (at("gemini-3-pro"), ask(&step), "thought_signature"),
        (at("m"), schema(unknown), "Unknown name"),
        (at("m"), schema(json!({"type": "object", "properties": {}})), "non-empty"),
    ] {
        let error = check(&uri, &body).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}
