//! What a provider answers, in all formats.

use flock::config::model::Api;
use flock::provider::{Block, Delta, Message, Role, StopReason};
use serde_json::{Value, json};

use super::{ALL, Stage, ask_with, call, hello, plain_all, result, said, text};
use crate::support::model_server::{Answer, Reply};

#[tokio::test]
async fn a_text_is_streamed_and_counted() {
    for api in ALL {
        let stage = Stage::new(api);
        stage.server.reply(Reply::pieces(&["Hel", "lo ", "wörld"]));
        let (answer, deltas) = stage.ask(&hello()).await;
        let answer = answer.unwrap();
        assert_eq!(plain_all(&answer.content), [text("Hello wörld")], "{api:?}");
        assert_eq!(answer.stop, StopReason::End);
        assert_eq!((answer.usage.input, answer.usage.output), (10, 5));
        assert_eq!(deltas.len(), 3);
        assert_eq!(said(&deltas), "Hello wörld");
        assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    }
}

#[tokio::test]
async fn tool_calls_are_put_together() {
    for api in ALL {
        let stage = Stage::new(api);
        stage.server.reply(Reply::calls(&[
            ("call_1", "exec", r#"{"command":"true"}"#),
            ("call_2", "read", r#"{"path":"a b","x":[1,{"y":null}]}"#),
            ("call_3", "list", ""),
        ]));
        let answer = stage.ask(&hello()).await.0.unwrap();
        assert_eq!(answer.stop, StopReason::ToolUse);
        let expected = [
            call("call_1", "exec", json!({"command": "true"})),
            call("call_2", "read", json!({"path": "a b", "x": [1, {"y": null}]})),
            call("call_3", "list", json!({})),
        ];
        assert_eq!(plain_all(&answer.content), expected, "{api:?}");
    }
}

#[tokio::test]
async fn broken_arguments_are_kept_as_text_and_can_be_sent_back() {
    // Google's are an object.
    for api in ALL.into_iter().filter(|api| *api != Api::GoogleGenerativeAi) {
        let stage = Stage::new(api);
        stage.server.reply(Reply::calls(&[("call_1", "exec", r#"{"command": "ec"#)]));
        let answer = stage.ask(&hello()).await.0.unwrap();
        let expected = [call("call_1", "exec", json!(r#"{"command": "ec"#))];
        assert_eq!(plain_all(&answer.content), expected);
        let id = Message { role: Role::Assistant, content: answer.content.clone() };
        let id = id.tool_calls().next().unwrap().id.to_owned();
        let follow_up = ask_with(vec![
            Message::text(Role::User, "hello"),
            Message { role: Role::Assistant, content: answer.content },
            Message { role: Role::Tool, content: vec![result(&id, vec![text("not JSON")])] },
        ]);
        assert!(stage.ask(&follow_up).await.0.is_ok());
        assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
        let sent = stage.server.requests()[1].body.to_string();
        assert!(sent.contains("ec"), "the model sees what it wrote: {sent}");
    }
}

#[tokio::test]
async fn thinking_is_kept_apart_from_the_text() {
    for api in ALL {
        let stage = Stage::new(api);
        stage.server.reply(Reply::Answer(Answer {
            thinking: "hm".into(),
            pieces: vec!["yes".into()],
            ..Answer::default()
        }));
        let (answer, deltas) = stage.ask(&hello()).await;
        let content = answer.unwrap().content;
        let thinking = Block::Thinking { thinking: "hm".into(), signature: None, redacted: None };
        assert_eq!(plain_all(&content), [thinking, text("yes")], "{api:?}");
        let Block::Thinking { signature, .. } = &content[0] else { panic!("{content:?}") };
        match api {
            Api::AnthropicMessages => assert_eq!(signature.as_deref(), Some("c2lnbmVk")),
            Api::OpenAiResponses | Api::OpenAiCodexResponses => {
                let item: Value = serde_json::from_str(signature.as_deref().unwrap()).unwrap();
                assert_eq!(item["encrypted_content"], "gAAAplanted");
            }
            _ => assert_eq!(*signature, None),
        }
        assert_eq!(deltas, [Delta::Thinking("hm".into()), Delta::Text("yes".into())]);
    }
}

#[tokio::test]
async fn the_limit_of_an_answer_is_told() {
    for api in ALL {
        let stage = Stage::new(api);
        let finish = Some("length".to_owned());
        stage.server.reply(Reply::Answer(Answer { pieces: vec!["cut".into()], finish, ..Answer::default() }));
        assert_eq!(stage.ask(&hello()).await.0.unwrap().stop, StopReason::Length);
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let stage = Stage::new(Api::OpenAiCompletions);
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": "all at once"},
        "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    stage.server.reply(Reply::body(200, "application/json", whole.to_string()));
    let (answer, deltas) = stage.ask(&hello()).await;
    let answer = answer.unwrap();
    assert_eq!(answer.content, [text("all at once")]);
    assert_eq!((answer.usage.input, answer.usage.output), (3, 4));
    assert_eq!(said(&deltas), "all at once");

    let stage = Stage::new(Api::AnthropicMessages);
    let whole = json!({"type": "message", "content": [{"type": "text", "text": "all at once"},
        {"type": "tool_use", "id": "t", "name": "exec", "input": {"command": "ls"}}],
        "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4}});
    stage.server.reply(Reply::body(200, "application/json", whole.to_string()));
    let answer = stage.ask(&hello()).await.0.unwrap();
    assert_eq!(answer.content, [text("all at once"), call("t", "exec", json!({"command": "ls"}))]);
}

/// A Messages stream of these events.
fn messages(events: &[Value]) -> Reply {
    let stream = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"]));
    Reply::stream(vec![stream.collect::<String>().as_str().into()])
}

#[tokio::test]
async fn cache_counts_redacted_thinking_and_unknown_blocks_of_messages() {
    let stage = Stage::new(Api::AnthropicMessages);
    stage.server.reply(messages(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1,
            "cache_creation_input_tokens": 7, "cache_read_input_tokens": 11}}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "redacted_thinking", "data": "b3BhcXVl"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": "{\"q\":1}"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2,
            "content_block": {"type": "tool_use", "id": "t", "name": "exec", "input": {"command": "ls"}}}),
        json!({"type": "something_new", "x": [1]}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 13}}),
        json!({"type": "message_stop"}),
    ]));
    let answer = stage.ask(&hello()).await.0.unwrap();
    let redacted =
        Block::Thinking { thinking: String::new(), signature: None, redacted: Some("b3BhcXVl".into()) };
    assert_eq!(answer.content, [redacted, call("t", "exec", json!({"command": "ls"}))]);
    let usage = answer.usage;
    assert_eq!((usage.input, usage.output, usage.cache_write, usage.cache_read), (5, 13, 7, 11));
}

#[tokio::test]
async fn a_withheld_answer_is_a_refusal() {
    let stage = Stage::new(Api::AnthropicMessages);
    stage.server.reply(messages(&[
        json!({"type": "message_start", "message": {"usage": {}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]));
    assert_eq!(stage.ask(&hello()).await.0.unwrap().stop, StopReason::Refusal);

    let stage = Stage::new(Api::OpenAiCompletions);
    let finish = Some("content_filter".to_owned());
    stage.server.reply(Reply::Answer(Answer { finish, ..Answer::default() }));
    assert_eq!(stage.ask(&hello()).await.0.unwrap().stop, StopReason::Refusal);
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    for api in ALL {
        let stage = Stage::new(api);
        stage.server.reply(Reply::Answer(Answer::default()));
        let answer = stage.ask(&hello()).await.0.unwrap();
        assert_eq!((answer.content.len(), answer.stop), (0, StopReason::End));
    }
}
