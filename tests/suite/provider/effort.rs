//! How much to think, as each API is told.

use flock::config::model::Api;
use flock::provider::{Block, Effort, Message, Request, Role};
use serde_json::{Value, json};

use super::{ALL, Stage, ask_with, call, hello, result};

async fn told(api: Api, model: &str, effort: Option<Effort>) -> Value {
    let stage = Stage::new(api);
    let request = Request { model: model.into(), effort, max_tokens: 20_000, ..hello() };
    stage.ask(&request).await.0.unwrap();
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    stage.server.requests().remove(0).body
}

#[tokio::test]
async fn nothing_is_said_where_nothing_is_configured() {
    for api in ALL {
        let body = told(api, "m", None).await;
        for word in ["thinking", "output_config", "reasoning", "reasoning_effort"] {
            assert!(body.get(word).is_none(), "{api:?} {word}");
        }
        assert!(body["generationConfig"].get("thinkingConfig").is_none());
    }
}

#[tokio::test]
async fn every_api_is_told_in_its_own_words() {
    let high = Some(Effort::High);
    let body = told(Api::AnthropicMessages, "claude-opus-4-6", high).await;
    assert_eq!(
        (&body["thinking"], &body["output_config"]),
        (&json!({"type": "adaptive"}), &json!({"effort": "high"}))
    );
    let body = told(Api::AnthropicMessages, "claude-sonnet-4-5", Some(Effort::Medium)).await;
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 8192}));
    let body = told(Api::OpenAiCompletions, "qwen3", high).await;
    assert_eq!(body["reasoning_effort"], "high");
    for api in [Api::OpenAiResponses, Api::OpenAiCodexResponses] {
        let body = told(api, "gpt-5.2", Some(Effort::Low)).await;
        assert_eq!(body["reasoning"], json!({"effort": "low", "summary": "auto"}));
        let body = told(api, "gpt-5.2", Some(Effort::Off)).await;
        assert_eq!(body["reasoning"], json!({"effort": "none"}));
    }
    let thinking = |body: Value| body["generationConfig"]["thinkingConfig"].clone();
    let body = told(Api::GoogleGenerativeAi, "gemini-3-flash-preview", Some(Effort::Medium)).await;
    assert_eq!(thinking(body), json!({"includeThoughts": true, "thinkingLevel": "medium"}));
    let body = told(Api::GoogleGenerativeAi, "gemini-2.5-flash", Some(Effort::Off)).await;
    assert_eq!(thinking(body), json!({"thinkingBudget": 0}));
}

#[tokio::test]
async fn a_chain_of_calls_that_began_without_a_thought_goes_on_without_a_budget() {
    let stage = Stage::new(Api::AnthropicMessages);
    let thought = Block::Thinking { thinking: "hm".into(), signature: Some("c2ln".into()), redacted: None };
    let ask = async |first: Vec<Block>| {
        let mut request = ask_with(vec![
            Message::text(Role::User, "a"),
            Message { role: Role::Assistant, content: first },
            Message { role: Role::Tool, content: vec![result("c1", vec![])] },
            Message { role: Role::Assistant, content: vec![call("c2", "exec", json!({}))] },
            Message { role: Role::Tool, content: vec![result("c2", vec![])] },
        ]);
        (request.model, request.effort, request.max_tokens) =
            ("claude-opus-4-5".into(), Some(Effort::High), 20_000);
        stage.ask(&request).await.0.unwrap();
        assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
        stage.server.requests().pop().unwrap().body.get("thinking").is_some()
    };
    assert!(!ask(vec![call("c1", "exec", json!({}))]).await);
    assert!(ask(vec![thought, call("c1", "exec", json!({}))]).await);
}
