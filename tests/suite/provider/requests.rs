//! What a provider is sent: whatever a conversation holds, the real APIs must take it.

use flock::config::model::Api;
use flock::provider::{Block, Message, Role};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ALL, BOTH, KEY, Stage, ask_with, call, hello, result, text};
use crate::support::model_server::{Answer, Reply};

const PIXEL: &str = "iVBORw0KGgo=";

fn picture() -> Block {
    Block::Image { media_type: "image/png".into(), data: PIXEL.into() }
}

async fn sent(api: Api, messages: Vec<Message>) -> Value {
    let stage = Stage::new(api);
    let answer = stage.ask(&ask_with(messages)).await.0;
    assert!(answer.is_ok(), "{answer:?}");
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    stage.server.requests().remove(0).body
}

fn message(role: Role, content: Vec<Block>) -> Message {
    Message { role, content }
}

#[tokio::test]
async fn the_headers_of_each_format() {
    let stage = Stage::new(Api::AnthropicMessages);
    stage.ask(&hello()).await.0.unwrap();
    let request = stage.server.requests().remove(0);
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.header("x-api-key"), KEY);
    assert_eq!(request.header("anthropic-version"), "2023-06-01");
    assert_eq!(request.header("accept-encoding"), "", "a compressed stream is held back");

    let stage = Stage::new(Api::OpenAiCompletions);
    stage.ask(&hello()).await.0.unwrap();
    let request = stage.server.requests().remove(0);
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(request.body["stream_options"]["include_usage"], true);
    assert_eq!(request.body["max_tokens"], 1000);
    assert_eq!(request.body["messages"][0], json!({"role": "system", "content": "You are a test."}));
    assert_eq!(request.body["messages"][1], json!({"role": "user", "content": "hello"}));
}

#[tokio::test]
async fn a_turn_with_tools_and_pictures_is_taken() {
    for api in BOTH {
        let body = sent(
            api,
            vec![
                message(Role::User, vec![text("look"), picture()]),
                message(
                    Role::Assistant,
                    vec![
                        text("I run two."),
                        call("c1", "exec", json!({"command": "a"})),
                        call("c2", "exec", json!({"command": "b"})),
                    ],
                ),
                message(Role::Tool, vec![result("c1", vec![text("out"), picture()])]),
                message(Role::Tool, vec![result("c2", vec![])]),
                message(Role::User, vec![text("and?")]),
            ],
        )
        .await;
        let messages = body["messages"].as_array().unwrap();
        if api == Api::AnthropicMessages {
            assert_eq!(messages.len(), 3, "results and what follows are one turn");
            let kinds: Vec<&str> = messages[2]["content"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|b| b["type"].as_str())
                .collect();
            assert_eq!(kinds, ["tool_result", "tool_result", "text"]);
            assert_eq!(messages[2]["content"][0]["content"][1]["type"], "image");
            assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
            assert_eq!(messages[2]["content"][2]["cache_control"]["type"], "ephemeral");
        } else {
            let roles: Vec<&str> = messages.iter().filter_map(|m| m["role"].as_str()).collect();
            assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
            assert_eq!(messages[3]["content"], "out");
            let url = &messages[5]["content"][1]["image_url"]["url"];
            assert_eq!(url, &format!("data:image/png;base64,{PIXEL}"));
        }
    }
}

#[tokio::test]
async fn pictures_of_a_last_result_still_reach_the_model() {
    let body = sent(
        Api::OpenAiCompletions,
        vec![
            message(Role::User, vec![text("look")]),
            message(Role::Assistant, vec![call("c1", "image", json!({}))]),
            message(Role::Tool, vec![result("c1", vec![picture()])]),
        ],
    )
    .await;
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["role"], "user");
    assert_eq!(last["content"][1]["type"], "image_url");
}

#[tokio::test]
async fn signed_thinking_goes_back_as_it_came_and_other_thinking_does_not() {
    let thinking = |signature: Option<&str>| Block::Thinking {
        thinking: "hm".into(),
        signature: signature.map(str::to_owned),
        redacted: None,
    };
    let redacted = Block::Thinking { thinking: String::new(), signature: None, redacted: Some("xx".into()) };
    let history = vec![
        message(Role::User, vec![text("a")]),
        message(Role::Assistant, vec![thinking(Some("sig")), redacted, thinking(None), text("b")]),
        message(Role::User, vec![text("c")]),
    ];
    let body = sent(Api::AnthropicMessages, history.clone()).await;
    let expected = json!([
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "text", "text": "b"},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
    let body = sent(Api::OpenAiCompletions, history).await;
    // Which reasoning goes to a server of chat completions is decided before: what is given here is written.
    let expected = json!({"role": "assistant", "content": "b", "reasoning_content": "hmhm"});
    assert_eq!(body["messages"][2], expected);
}

#[tokio::test]
async fn a_history_of_another_provider_is_taken() {
    for api in ALL {
        let long = "x".repeat(439);
        sent(
            api,
            vec![
                message(Role::User, vec![text("a"), text("  \n")]),
                message(
                    Role::Assistant,
                    vec![
                        text(""),
                        call("functions.exec:0", "exec", json!({})),
                        call(&long, "no such <|tool|>", json!("broken {")),
                        call("c|fc_1", "exec", Value::Null),
                    ],
                ),
                message(
                    Role::Tool,
                    vec![
                        result("functions.exec:0", vec![text(" ")]),
                        result(&long, vec![text("x")]),
                        result(
                            "c|fc_1",
                            vec![Block::Image { media_type: "image/x".into(), data: "A".into() }],
                        ),
                    ],
                ),
                message(Role::Assistant, vec![text(" ")]),
                message(Role::User, vec![text("b")]),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn mistral_gets_ids_of_nine_letters_no_unknown_options_and_an_answer_after_results() {
    let mut stage = Stage::new(Api::OpenAiCompletions);
    let settings = stage.config.providers.remove("test").unwrap();
    stage.config.providers.insert("mistral".into(), settings);
    let mut request = ask_with(vec![
        message(Role::User, vec![text("a")]),
        message(Role::Assistant, vec![call("call_abc", "exec", json!({}))]),
        message(Role::Tool, vec![result("call_abc", vec![text("x"), picture()])]),
        message(Role::User, vec![text("and what came meanwhile")]),
    ]);
    request.model = "mistral-large".into();
    let model = "mistral/mistral-large".parse().unwrap();
    let resolved = stage.catalog.resolve(&model, &stage.config).unwrap();
    resolved.provider.call(&request, &mut |_| {}).await.unwrap();
    let body = stage.server.requests().remove(0).body;
    let id = body["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
    assert_eq!(body["messages"][3]["tool_call_id"], id);
    assert!(body.get("stream_options").is_none());
    assert_eq!(body["messages"][4]["role"], "assistant");
    assert_eq!(body["messages"][5]["content"][2]["text"], "and what came meanwhile");
}

#[tokio::test]
async fn connections_are_used_again() {
    for api in ALL {
        let stage = Stage::new(api);
        let resolved = stage.resolve();
        for _ in 0..20 {
            resolved.provider.call(&hello(), &mut |_| {}).await.unwrap();
        }
        let connections = stage.server.connections();
        assert!(connections <= 3, "{connections} connections for 20 requests of {api:?}");
    }
}

/// Conversations as a turn makes them: a person, then answers, calls with one result each.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let words = prop_oneof!["[a-z ]{0,8}", "\\PC{0,8}"];
    let arguments = prop_oneof![
        Just(json!({})),
        Just(json!({"a": [1, "ü"]})),
        Just(json!("{\"broken\"")),
        Just(Value::Null),
        Just(json!([1])),
    ];
    let id = prop_oneof!["[a-zA-Z0-9_.:|é-]{1,70}", "call_[0-9]{1,4}"];
    let calls = prop::collection::vec((id, words.clone(), arguments, words.clone()), 0..4);
    let step = (words.clone(), calls);
    let turn = (words, prop::collection::vec(step, 1..4));
    prop::collection::vec(turn, 1..4).prop_map(|turns| {
        let mut messages = Vec::new();
        let mut number = 0;
        for (asked, steps) in turns {
            messages.push(message(Role::User, vec![text(&format!("> {asked}"))]));
            for (said, calls) in steps {
                let mut content = vec![text(&said)];
                let mut results = Vec::new();
                for (id, name, arguments, output) in calls {
                    number += 1;
                    let id = format!("{number}{id}");
                    content.push(call(&id, &name, arguments));
                    results.push(message(Role::Tool, vec![result(&id, vec![text(&output)])]));
                }
                messages.push(message(Role::Assistant, content));
                messages.extend(results);
            }
        }
        messages
    })
}

#[test]
fn any_conversation_of_whole_turns_is_taken() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stages = ALL.map(Stage::new);
    proptest!(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }, |(messages in conversation())| {
        let mut request = ask_with(messages);
        // The loop of a turn never ends on the model's side; a request does neither.
        request.messages.push(Message::text(Role::User, "go on").into());
        for stage in &stages {
            let answer = runtime.block_on(stage.ask(&request)).0;
            prop_assert!(answer.is_ok(), "{:?} {:?}", answer, stage.server.rejections());
        }
    });
}

#[tokio::test]
async fn what_was_answered_can_be_sent_back() {
    for api in ALL {
        let stage = Stage::new(api);
        stage.server.reply(Reply::Answer(Answer {
            thinking: "hm".into(),
            pieces: vec!["I call.".into()],
            calls: vec![("c1".into(), "exec".into(), "{}".into())],
            ..Answer::default()
        }));
        let answer = stage.ask(&hello()).await.0.unwrap();
        let follow_up = ask_with(vec![
            Message::text(Role::User, "hello"),
            message(Role::Assistant, answer.content.clone()),
            message(Role::Tool, vec![result(call_id(&answer.content), vec![text("done")])]),
        ]);
        assert!(stage.ask(&follow_up).await.0.is_ok(), "{:?}", stage.server.rejections());
        assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    }
}

/// The id of the only call in an answer.
fn call_id(content: &[Block]) -> &str {
    let id = |block: &'_ Block| matches!(block, Block::ToolCall { .. });
    match content.iter().find(|block| id(block)) {
        Some(Block::ToolCall { id, .. }) => id,
        _ => panic!("{content:?}"),
    }
}
