//! OpenRouter and Mistral: chat completions with rules of their own.

use flock::config::model::{Api, ProviderSettings};
use flock::provider::{Block, Message, ProviderError, Request, Response, Role};
use serde_json::{Value, json};

use super::{KEY, Stage, ask_with, call, hello, result, text};
use crate::support::model_server::{Chunk, Reply};

/// A stage whose server is at the address of this provider.
fn stage(provider: &str) -> Stage {
    let mut stage = Stage::new(Api::OpenAiCompletions);
    let settings = ProviderSettings {
        base_url: Some(stage.server.openai_url()),
        api_key: Some(KEY.into()),
        api: None,
        models: vec![],
    };
    stage.config.providers.insert(provider.to_owned(), settings);
    stage
}

async fn ask(stage: &Stage, model: &str, request: Request) -> Result<Response, ProviderError> {
    let model = model.parse().unwrap();
    let resolved = stage.catalog.resolve(&model, &stage.config).unwrap();
    resolved.provider.call(&Request { model: model.model().to_owned(), ..request }, &mut |_| {}).await
}

fn chunks(chunks: &[Value]) -> Reply {
    let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    Reply::stream(vec![Chunk::Bytes(stream.into_bytes()), "data: [DONE]\n\n".into()])
}

fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

#[tokio::test]
async fn reasoning_details_of_a_router_are_kept_and_given_back() {
    let stage = stage("openrouter");
    let tool = json!([{"index": 0, "id": "call_1", "function": {"name": "exec", "arguments": "{}"}}]);
    stage.server.reply(chunks(&[
        delta(&json!({"reasoning": "h", "reasoning_details": [{"type": "reasoning.text", "text": "h", "index": 0}]})),
        delta(&json!({"reasoning": "m", "reasoning_details": [{"type": "reasoning.text", "text": "m", "index": 0}]})),
        delta(&json!({"tool_calls": tool, "reasoning_details":
            [{"type": "reasoning.encrypted", "data": "b3Bh", "id": "call_1", "index": 1, "format": "google-gemini-v1"}]})),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 7}, "cost": 0.01}}),
    ]));
    let model = "openrouter/google/gemini-3-pro-preview";
    let response = ask(&stage, model, hello()).await.unwrap();
    assert!(
        matches!(&response.content[0], Block::Thinking { thinking, signature: Some(_), .. } if thinking == "hm"),
        "{:?}",
        response.content
    );
    let usage = response.usage;
    assert_eq!((usage.input, usage.cache_read, usage.cache_write, usage.output), (8, 5, 7, 4));
    let follow_up = ask_with(vec![
        Message::text(Role::User, "hello"),
        Message { role: Role::Assistant, content: response.content },
        Message { role: Role::Tool, content: vec![result("call_1", vec![text("x")])] },
    ]);
    // Another provider is not given them.
    let mut elsewhere = self::stage("lab");
    elsewhere.config.providers.remove("test");
    ask(&elsewhere, "lab/m", follow_up.clone()).await.unwrap();
    assert!(!elsewhere.server.requests()[0].body.to_string().contains("reasoning_details"));
    ask(&stage, model, follow_up).await.unwrap();
    let body = stage.server.requests().pop().unwrap().body;
    let details = json!([
        {"type": "reasoning.text", "text": "hm", "index": 0},
        {"type": "reasoning.encrypted", "data": "b3Bh", "id": "call_1", "index": 1, "format": "google-gemini-v1"},
    ]);
    assert_eq!(body["messages"][2]["reasoning_details"], details);
    assert_eq!(stage.server.rejections(), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_router_charges_is_kept_and_what_others_say_of_money_is_not() {
    let told = |usage: Value| {
        chunks(&[
            delta(&json!({"content": "hi"})),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        ])
    };
    let tokens = json!({"prompt_tokens": 20, "completion_tokens": 4});
    let with = |more: Value| {
        let mut usage = tokens.clone();
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        usage
    };
    let own_key = json!({"cost": 0.001, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.02}});
    let plain = json!({"cost": 0.001, "is_byok": false, "cost_details": {"upstream_inference_cost": 0.001}});
    for (more, expected) in [
        (json!({"cost": 0.000_123_4}), Some(124)),
        (json!({"cost": 0.01}), Some(10_000)),
        (json!({"cost": 0}), Some(0)),
        (own_key, Some(21_000)),
        (plain, Some(1_000)),
        (json!({"cost": null}), None),
        (json!({"cost": -1}), None),
        (json!({"cost": 1e30}), None),
        (json!({}), None),
    ] {
        let stage = stage("openrouter");
        stage.server.reply(told(with(more.clone())));
        let usage = ask(&stage, "openrouter/somebody/new", hello()).await.unwrap().usage;
        assert_eq!((usage.input, usage.output, usage.cost), (20, 4, expected), "{more}");
        let body = stage.server.requests().pop().unwrap().body;
        assert_eq!(body["usage"], json!({"include": true}));
    }
    let stage = stage("lab");
    stage.server.reply(told(with(json!({"cost": 0.01}))));
    assert_eq!(ask(&stage, "lab/m", hello()).await.unwrap().usage.cost, None);
    assert!(stage.server.requests().pop().unwrap().body.get("usage").is_none());
}

#[tokio::test]
async fn the_fake_refuses_geminis_calls_without_their_reasoning() {
    let stage = stage("openrouter");
    let without = ask_with(vec![
        Message::text(Role::User, "hello"),
        Message { role: Role::Assistant, content: vec![call("call_1", "exec", json!({}))] },
        Message { role: Role::Tool, content: vec![result("call_1", vec![text("x")])] },
    ]);
    let refused = ask(&stage, "openrouter/google/gemini-3-pro-preview", without).await;
    assert!(matches!(refused, Err(ProviderError::Rejected { .. })), "{refused:?}");
}

#[tokio::test]
async fn claude_behind_a_router_is_told_how_far_to_keep_a_prompt() {
    let stage = stage("openrouter");
    ask(&stage, "openrouter/anthropic/claude-sonnet-4.5", hello()).await.unwrap();
    let body = stage.server.requests().pop().unwrap().body;
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["messages"][0]["content"][0]["cache_control"], mark);
    assert_eq!(body["messages"][1]["content"][0]["cache_control"], mark);
    ask(&stage, "openrouter/openai/gpt-5", hello()).await.unwrap();
    let body = stage.server.requests().pop().unwrap().body;
    assert!(!body.to_string().contains("cache_control"));
    assert!(body["messages"][0]["content"].is_string());
    assert_eq!(stage.server.rejections(), Vec::<String>::new());
}

#[tokio::test]
async fn an_error_within_a_stream_has_the_class_of_its_code() {
    for (code, class) in
        [(429, "Limited"), (402, "Rejected"), (401, "Unauthorised"), (502, "Failed"), (400, "Rejected")]
    {
        let stage = stage("openrouter");
        let error = json!({"code": code, "message": "what it says", "metadata": {"provider_name": "x"}});
        stage.server.reply(chunks(&[json!({"id": "gen-1", "error": error, "choices":
            [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]})]));
        let shown = format!("{:?}", ask(&stage, "openrouter/openai/gpt-5", hello()).await.unwrap_err());
        assert!(shown.starts_with(class) && shown.contains("what it says"), "{code}: {shown}");
    }
}

#[tokio::test]
async fn what_mistral_does_not_know_it_is_not_sent() {
    let stage = stage("mistral");
    let thought = Block::Thinking { thinking: "hm".into(), signature: Some("c2ln".into()), redacted: None };
    let request = Request {
        cache_key: Some("00112233445566778899aabbccddeeff".into()),
        effort: Some(flock::provider::Effort::High),
        ..ask_with(vec![
            Message::text(Role::User, "a"),
            Message { role: Role::Assistant, content: vec![thought, call("toolu_01-a", "exec", json!({}))] },
            Message { role: Role::Tool, content: vec![result("toolu_01-a", vec![])] },
            Message::text(Role::User, "b"),
        ])
    };
    for tools in [request.tools.clone(), Vec::new()] {
        for model in
            ["mistral/mistral-large-latest", "mistral/devstral-small-2507", "mistral/codestral-latest"]
        {
            let answer = ask(&stage, model, Request { tools: tools.clone(), ..request.clone() }).await;
            assert!(answer.is_ok(), "{model}: {answer:?}");
        }
    }
    assert_eq!(stage.server.rejections(), Vec::<String>::new());
}
