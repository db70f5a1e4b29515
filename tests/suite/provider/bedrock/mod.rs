//! Bedrock's Converse over real HTTP.

mod check;
mod frames;
pub mod server;
mod signature;

use flock::config::model::{Api, Config, ProviderSettings};
use flock::provider::{
    Block, Catalog, Delta, Effort, Message, ProviderError, Request, Response, Role, StopReason,
};
use frames::{event, exception};
use serde_json::{Value, json};
use server::{BedrockServer, answer};

use super::forms::form;
use super::{ask_with, call, config, hello, home, result, said, text};

pub const SECRET: &str = "se/cr+et-planted-0123456789";
pub const TOKEN: &str = "to/ken+planted-0123456789==";
const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const LLAMA: &str = "meta.llama3-3-70b-instruct-v1:0";

struct Stage {
    server: BedrockServer,
    config: Config,
    catalog: Catalog,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        Self::with_key(&format!("AKIDEXAMPLE:{SECRET}:{TOKEN}")).await
    }

    async fn with_key(key: &str) -> Self {
        let server = BedrockServer::start().await;
        let settings = ProviderSettings {
            base_url: Some(server.url()),
            api_key: Some(key.to_owned()),
            api: Some(Api::BedrockConverseStream),
            models: vec![],
        };
        let (folder, home) = home();
        Self { server, config: config([("test", settings)]), catalog: Catalog::new(home), _folder: folder }
    }

    async fn ask(&self, model: &str, request: Request) -> (Result<Response, ProviderError>, Vec<Delta>) {
        let resolved = self.catalog.resolve(&format!("test/{model}").parse().unwrap(), &self.config).unwrap();
        let request = Request { model: model.to_owned(), ..request };
        let mut deltas = Vec::new();
        let told = resolved.provider.body(&request).unwrap();
        let answer = resolved.provider.call(&request, &mut |delta| deltas.push(delta)).await;
        assert_eq!(self.server.last_bytes(), Some(told), "what was told is what was sent");
        (answer, deltas)
    }
}

fn delta(index: u64, delta: &Value) -> (&'static str, Value) {
    ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}))
}

#[tokio::test]
async fn a_signed_request_is_answered_and_counted() {
    let stage = Stage::new().await;
    let usage = json!({"inputTokens": 5, "outputTokens": 7, "totalTokens": 32, "cacheReadInputTokens": 11,
        "cacheWriteInputTokens": 9});
    let events = [delta(0, &json!({"text": "Hel"})), delta(0, &json!({"text": "lo wörld"}))];
    stage.server.reply(200, answer(&events, "end_turn", &usage));
    let (response, deltas) = stage.ask(CLAUDE, hello()).await;
    let response = response.unwrap();
    assert_eq!(response.content, [text("Hello wörld")]);
    assert_eq!((response.stop, said(&deltas).as_str()), (StopReason::End, "Hello wörld"));
    let usage = response.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (5, 7, 11, 9));
    let sent = stage.server.last();
    assert_eq!(sent.path, "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream");
    assert_eq!(sent.headers["x-amz-security-token"], TOKEN);
    assert_eq!(stage.server.rejections(), Vec::<String>::new());
}

#[tokio::test]
async fn a_models_arn_is_signed_as_it_is_sent() {
    let stage = Stage::new().await;
    let arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-haiku-4-5-v1:0";
    assert!(stage.ask(arn, hello()).await.0.is_ok(), "{:?}", stage.server.rejections());
}

#[tokio::test]
async fn a_wrong_secret_is_refused_and_nothing_of_the_keys_is_said() {
    let stage = Stage::with_key(&format!("AKIDEXAMPLE:another-secret-0123456789:{TOKEN}")).await;
    let error = stage.ask(CLAUDE, hello()).await.0.unwrap_err();
    assert!(matches!(error, ProviderError::Unauthorised { status: 403, .. }), "{error:?}");
    let stage = Stage::new().await;
    let message = format!("The Canonical String should have been x-amz-security-token:{TOKEN} {SECRET}");
    stage.server.reply(403, json!({"message": message}).to_string().into_bytes());
    let shown = format!("{:?}", stage.ask(CLAUDE, hello()).await.0.unwrap_err());
    assert!(!shown.contains(TOKEN) && !shown.contains(SECRET) && shown.contains("[key]"), "{shown}");
}

#[tokio::test]
async fn a_key_of_bedrocks_own_is_sent_as_it_is() {
    let stage = Stage::with_key("ABSKplanted-key-0123456789").await;
    stage.ask(CLAUDE, hello()).await.0.unwrap();
    assert!(!stage.server.last().headers.contains_key("x-amz-date"));
}

#[tokio::test]
async fn calls_and_signed_thinking_come_and_go_back() {
    let stage = Stage::new().await;
    let start = |index: u64, id: &str| {
        let tool = json!({"toolUse": {"toolUseId": id, "name": "exec"}});
        ("contentBlockStart", json!({"contentBlockIndex": index, "start": tool}))
    };
    let events = [
        delta(0, &json!({"reasoningContent": {"text": "h"}})),
        delta(0, &json!({"reasoningContent": {"text": "m"}})),
        delta(0, &json!({"reasoningContent": {"signature": "c2ln"}})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        delta(1, &json!({"reasoningContent": {"redactedContent": "b3BhcXVl"}})),
        delta(2, &json!({"text": "I look."})),
        start(3, "tooluse_1"),
        delta(3, &json!({"toolUse": {"input": "{\"command\":"}})),
        delta(3, &json!({"toolUse": {"input": "\"ls\"}"}})),
        start(4, "tooluse_2"),
        delta(4, &json!({"toolUse": {"input": ""}})),
    ];
    stage.server.reply(200, answer(&events, "tool_use", &json!({"inputTokens": 1, "outputTokens": 1})));
    let response = stage.ask(CLAUDE, hello()).await.0.unwrap();
    let thinking = Block::Thinking { thinking: "hm".into(), signature: Some("c2ln".into()), redacted: None };
    let redacted =
        Block::Thinking { thinking: String::new(), signature: None, redacted: Some("b3BhcXVl".into()) };
    let calls = [call("tooluse_1", "exec", json!({"command": "ls"})), call("tooluse_2", "exec", json!({}))];
    let [first, second] = calls;
    assert_eq!(response.content, [thinking, redacted, text("I look."), first, second]);
    assert_eq!(response.stop, StopReason::ToolUse);
    let follow_up = ask_with(vec![
        Message::text(Role::User, "hello"),
        Message { role: Role::Assistant, content: response.content },
        Message {
            role: Role::Tool,
            content: vec![result("tooluse_1", vec![text("a")]), result("tooluse_2", vec![text(" ")])],
        },
    ]);
    stage.ask(CLAUDE, follow_up).await.0.unwrap();
    let said = &stage.server.last().body["messages"][1]["content"];
    assert_eq!(said[0]["reasoningContent"]["reasoningText"], json!({"text": "hm", "signature": "c2ln"}));
    assert_eq!(said[1]["reasoningContent"]["redactedContent"], "b3BhcXVl");
    assert_eq!(stage.server.rejections(), Vec::<String>::new());
}

#[tokio::test]
async fn a_conversation_of_any_shape_is_one_that_converse_takes() {
    let image = || Block::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    let odd = Block::Image { media_type: "image/tiff".into(), data: "AAAA".into() };
    let failed = Block::ToolResult {
        call_id: "functions.exec:0|é".into(),
        name: "exec".into(),
        content: [image()].into(),
        is_error: true,
    };
    let foreign = Block::Thinking { thinking: "mine".into(), signature: None, redacted: None };
    let messages = vec![
        Message::text(Role::Assistant, "I begin."),
        Message::text(Role::User, " \n"),
        Message::text(Role::Assistant, "I go on."),
        Message { role: Role::User, content: vec![text(""), image(), odd] },
        Message::text(Role::User, "two in a row"),
        Message {
            role: Role::Assistant,
            content: vec![foreign, text(" "), call("functions.exec:0|é", "no such tool!", json!("broken"))],
        },
        Message { role: Role::Tool, content: vec![failed] },
        Message::text(Role::User, "and?"),
    ];
    for model in [CLAUDE, LLAMA, "amazon.nova-pro-v1:0"] {
        for tools in [ask_with(Vec::new()).tools, Vec::new()] {
            let stage = Stage::new().await;
            let request = Request { tools, system: " ".into(), ..ask_with(messages.clone()) };
            let answer = stage.ask(model, request).await.0;
            assert!(answer.is_ok(), "{model}: {answer:?}");
            let sent = stage.server.last().body;
            assert_eq!(sent["messages"].as_array().unwrap().len(), 5, "{sent:#}");
        }
    }
}

#[tokio::test]
async fn the_effort_is_passed_on_to_models_that_think() {
    for (model, effort, field) in [
        (CLAUDE, Effort::High, "thinking"),
        ("anthropic.claude-opus-4-6-v1", Effort::Low, "output_config"),
        ("amazon.nova-2-lite-v1:0", Effort::High, "reasoningConfig"),
        ("openai.gpt-oss-120b-1:0", Effort::Medium, "reasoning_effort"),
        (LLAMA, Effort::High, ""),
    ] {
        let stage = Stage::new().await;
        let answer =
            stage.ask(model, Request { effort: Some(effort), max_tokens: 20_000, ..hello() }).await.0;
        assert!(answer.is_ok(), "{model}: {:?}", stage.server.rejections());
        let fields = &stage.server.last().body["additionalModelRequestFields"];
        assert_eq!(fields.get(field).is_some(), !field.is_empty(), "{model}: {fields}");
        assert_eq!(fields.is_null(), field.is_empty(), "{model}: {fields}");
    }
}

#[tokio::test]
async fn models_that_can_be_held_to_a_schema_are() {
    for (model, is_held) in [
        (CLAUDE, true),
        ("openai.gpt-oss-120b-1:0", true),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", false),
        (LLAMA, false),
    ] {
        let stage = Stage::new().await;
        let answer = stage.ask(model, Request { format: Some(form()), ..hello() }).await.0;
        assert!(answer.is_ok(), "{model}: {:?}", stage.server.rejections());
        let definition = &stage.server.last().body["outputConfig"]["textFormat"]["structure"]["jsonSchema"];
        assert_eq!(definition["name"] == "number", is_held, "{model}: {definition}");
        let schema: Value = serde_json::from_str(definition["schema"].as_str().unwrap_or("null")).unwrap();
        assert_eq!(schema["additionalProperties"] == false, is_held, "{model}: {definition}");
    }
}

#[tokio::test]
async fn a_region_that_is_configured_is_the_one_that_is_signed_for() {
    let mut stage = Stage::new().await;
    stage.config.bedrock_region = Some("eu-central-1".into());
    stage.ask(CLAUDE, hello()).await.0.unwrap();
    let signed = stage.server.last().headers["authorization"].to_str().unwrap().to_owned();
    assert!(signed.contains("/eu-central-1/bedrock/aws4_request"), "{signed}");
}

#[tokio::test]
async fn only_models_that_keep_prompts_are_told_how_far() {
    for (model, expected) in [(CLAUDE, 2), (LLAMA, 0), ("anthropic.claude-3-5-sonnet-20240620-v1:0", 0)] {
        let stage = Stage::new().await;
        stage.ask(model, hello()).await.0.unwrap();
        let body = stage.server.last().body;
        assert_eq!(body.to_string().matches("cachePoint").count(), expected, "{model}: {body:#}");
    }
}

#[tokio::test]
async fn exceptions_have_the_class_of_their_status() {
    for (name, class) in [
        ("throttlingException", "Limited"),
        ("validationException", "Rejected"),
        ("accessDeniedException", "Unauthorised"),
        ("internalServerException", "Failed"),
        ("modelStreamErrorException", "Failed"),
        ("serviceUnavailableException", "Failed"),
        ("modelTimeoutException", "Failed"),
    ] {
        let stage = Stage::new().await;
        let mut bytes = event("messageStart", &json!({"role": "assistant"}));
        bytes.extend(exception(name, "what it says"));
        stage.server.reply(200, bytes);
        let error = stage.ask(CLAUDE, hello()).await.0.unwrap_err();
        let shown = format!("{error:?}");
        assert!(shown.starts_with(class) && shown.contains("what it says"), "{name}: {shown}");
    }
    for (status, class) in
        [(400, "Rejected"), (403, "Unauthorised"), (424, "Failed"), (429, "Limited"), (503, "Failed")]
    {
        let stage = Stage::new().await;
        stage.server.reply(status, json!({"message": "what it says"}).to_string().into_bytes());
        let shown = format!("{:?}", stage.ask(CLAUDE, hello()).await.0.unwrap_err());
        assert!(shown.starts_with(class) && shown.contains("what it says"), "{status}: {shown}");
    }
}

#[tokio::test]
async fn why_a_model_stopped_is_in_this_table() {
    for (reason, expected) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("tool_use", StopReason::End),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("guardrail_intervened", StopReason::Refusal),
        ("content_filtered", StopReason::Refusal),
        ("something_new", StopReason::End),
    ] {
        let stage = Stage::new().await;
        stage.server.reply(200, answer(&[delta(0, &json!({"text": "x"}))], reason, &json!({})));
        assert_eq!(stage.ask(CLAUDE, hello()).await.0.unwrap().stop, expected, "{reason}");
    }
    let stage = Stage::new().await;
    stage.server.reply(200, answer(&[], "malformed_tool_use", &json!({})));
    assert!(matches!(stage.ask(CLAUDE, hello()).await.0, Err(ProviderError::Failed { .. })));
}

#[tokio::test]
async fn a_stream_that_is_damaged_or_cut_is_no_answer() {
    let whole = answer(&[delta(0, &json!({"text": "half"}))], "end_turn", &json!({}));
    let stage = Stage::new().await;
    let mut bad = whole.clone();
    bad[40] ^= 1;
    stage.server.reply(200, bad);
    assert!(matches!(stage.ask(CLAUDE, hello()).await.0, Err(ProviderError::Garbled { .. })));
    let stop = event("messageStart", &json!({"role": "assistant", "p": "abc"})).len() + 20;
    stage.server.reply(200, whole[..stop].to_vec());
    assert!(matches!(stage.ask(CLAUDE, hello()).await.0, Err(ProviderError::Failed { .. })));
    for nothing in [Vec::new(), b"<html>".to_vec(), b"{\"message\": \"no stream\"}".to_vec()] {
        stage.server.reply(200, nothing);
        assert!(stage.ask(CLAUDE, hello()).await.0.is_err());
    }
    // What is lost after the model has stopped only counted tokens.
    stage.server.reply(200, whole[..whole.len() - 10].to_vec());
    assert_eq!(stage.ask(CLAUDE, hello()).await.0.unwrap().content, [text("half")]);
}
