//! Prompt caches: a provider keeps the beginning of a request for the next one, which must begin with the same
//! bytes.

use flock::provider::{Block, Effort, Message, Request, Role};
use serde_json::json;

use super::{ALL, Stage, ask_with, call, result, text};

/// What marks the place up to which a provider is to keep a request. It moves on with each, and is no part of
/// what is kept.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn session() -> Vec<Message> {
    let thought = |signature: &str| Block::Thinking {
        thinking: "hm".into(),
        signature: Some(signature.into()),
        redacted: None,
    };
    let item = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#;
    let picture = Block::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    let assistant = |content| Message { role: Role::Assistant, content };
    let tool = |content| Message { role: Role::Tool, content };
    vec![
        Message { role: Role::User, content: vec![text("look"), picture.clone()] },
        assistant(vec![thought("c2ln"), text("I run two."), call("c1", "exec", json!({"b": 1, "a": 2}))]),
        tool(vec![result("c1", vec![text("out"), picture])]),
        assistant(vec![
            thought(item),
            call("call_2|fc_2", "exec", json!({})),
            call("toolu.3", "exec", json!("x{")),
        ]),
        tool(vec![result("call_2|fc_2", vec![]), result("toolu.3", vec![text("é")])]),
        assistant(vec![text("done")]),
        Message::text(Role::User, "and now?"),
    ]
}

/// The bytes of the request that holds the first `count` messages, without what ends the lists.
async fn sent(stage: &Stage, model: &str, count: usize) -> String {
    let request = Request {
        model: model.into(),
        effort: Some(Effort::Low),
        cache_key: Some("00112233445566778899aabbccddeeff".into()),
        max_tokens: 20_000,
        ..ask_with(session().into_iter().take(count).collect())
    };
    stage.ask(&request).await.0.unwrap();
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    let bytes = stage.server.requests().pop().unwrap().bytes;
    let told = stage.resolve().provider.body(&request).unwrap();
    assert_eq!(String::from_utf8(told).unwrap(), String::from_utf8(bytes.clone()).unwrap(), "what was told");
    let text = String::from_utf8(bytes).unwrap().replace(MARK, "");
    text.trim_end_matches(['}', ']']).to_owned()
}

#[tokio::test]
async fn each_request_of_a_session_begins_with_the_one_before_it() {
    for api in ALL {
        for model in ["m", "claude-opus-4-6", "gpt-5.2", "gemini-3-pro-preview", "gemini-2.0-flash"] {
            let stage = Stage::new(api);
            let mut before = sent(&stage, model, 1).await;
            for count in [3, 5, 7] {
                let next = sent(&stage, model, count).await;
                assert!(next.starts_with(&before), "{api:?} {model}\n{before}\n{next}");
                assert_eq!(sent(&stage, model, count).await, next, "the same again");
                before = next;
            }
        }
    }
}
