//! Input that no decent editor sends: nothing of it breaks the connection, and nothing but the protocol is on stdout.

use serde_json::{Value, json};

use super::editor::{Raw, is_working};
use crate::support::home::TempHome;
use crate::team::stage::{Served, add};

fn house() -> (TempHome, Served) {
    let home = TempHome::new().init();
    let replies = json!([
        {"when": "for ever", "steps": [{"say": "it begins and ", "pace_ms": 5000}, {"say": "never"}]},
        {"steps": [{"say": "I heard: {{last_message}}"}]},
    ]);
    add(&home, "coder", &replies);
    let served = Served::start(&home);
    (home, served)
}

const CODER: [&str; 2] = ["--agent", "coder"];

fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

#[test]
fn broken_lines_unknown_methods_and_the_wrong_order_are_errors_and_the_connection_goes_on() {
    let (home, _served) = house();
    let mut raw = Raw::start(&home, &CODER);
    raw.ask(10, "session/new", &json!({"cwd": "/tmp", "mcpServers": []}));
    let early = raw.answer(10);
    assert!(early["error"]["data"].as_str().unwrap().contains("initialization must complete"), "{early}");
    let session = raw.open();
    for line in [
        "{",
        "null",
        "\u{0}\u{1}\u{2}",
        "[]",
        "\"x\"",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":7}",
    ] {
        raw.send(line);
    }
    // A line that is longer than any message may be.
    raw.send(&"x".repeat(13 << 20));
    let long = raw.until(|message| message.to_string().contains("longer than"));
    assert_eq!(long["error"]["code"], -32_700, "{long}");
    for (number, method) in
        ["session/nothing", "_flock/secret", "fs/read_text_file", "", "session/"].iter().enumerate()
    {
        let id = 20 + number as u64;
        raw.ask(id, method, &json!({}));
        assert_eq!(raw.answer(id)["error"]["code"], -32_601, "{method}");
    }
    for (id, params) in [(30, json!({})), (31, json!([1, 2])), (32, json!({"sessionId": 5, "prompt": "x"}))] {
        raw.ask(id, "session/prompt", &params);
        assert!(raw.answer(id)["error"]["code"].is_number());
    }
    raw.ask(33, "session/prompt", &prompt("agent:coder:flock:main:other", "hello"));
    assert!(raw.answer(33)["error"]["message"].as_str().unwrap().contains("is not open"));
    raw.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {}}).to_string());
    raw.send(&json!({"jsonrpc": "2.0", "method": "no/such", "params": {}}).to_string());
    raw.ask(34, "session/prompt", &prompt(&session, "hello"));
    assert_eq!(raw.answer(34)["result"]["stopReason"], "end_turn");
    let (code, _) = raw.end();
    assert_eq!(code, 0);
}

#[test]
fn the_end_of_stdin_in_a_turn_answers_the_prompt_and_ends_the_program() {
    let (home, _served) = house();
    let mut raw = Raw::start(&home, &CODER);
    let session = raw.open();
    raw.ask(3, "session/prompt", &prompt(&session, "go on for ever"));
    raw.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    let (code, rest) = raw.end();
    assert_eq!(code, 0);
    let answer = rest.iter().find(|message| message["id"] == 3).unwrap();
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{rest:#?}");
    assert!(!is_working(&home));
}

#[test]
fn requests_that_were_sent_before_the_end_of_stdin_are_answered() {
    let (home, _served) = house();
    let mut raw = Raw::start(&home, &CODER);
    raw.ask(1, "initialize", &json!({"protocolVersion": 7}));
    assert_eq!(raw.answer(1)["result"]["protocolVersion"], 1, "the newest that flock speaks");
    raw.ask(2, "session/new", &json!({"cwd": "/tmp", "mcpServers": []}));
    raw.ask(3, "session/list", &json!({}));
    let (code, rest) = raw.end();
    assert_eq!(code, 0);
    let answer = |id: u64| rest.iter().find(|message| message["id"] == id).unwrap();
    assert!(answer(2)["result"]["sessionId"].is_string(), "{rest:#?}");
    assert!(answer(3)["result"]["sessions"].is_array(), "{rest:#?}");
}

#[test]
fn many_sessions_and_prompts_at_once_are_bounded_and_answered() {
    let (home, _served) = house();
    let mut raw = Raw::start(&home, &CODER);
    raw.open();
    for id in 0..80 {
        raw.ask(100 + id, "session/new", &json!({"cwd": "/tmp", "mcpServers": []}));
    }
    let answers: Vec<Value> = {
        let mut found = std::collections::BTreeMap::new();
        while found.len() < 80 {
            let answer = raw.until(|message| message["id"].as_u64().is_some_and(|id| id >= 100));
            found.insert(answer["id"].as_u64().unwrap(), answer);
        }
        found.into_values().collect()
    };
    let opened = answers.iter().filter(|answer| answer["result"]["sessionId"].is_string()).count();
    assert_eq!(opened, 63, "64 with the first one");
    let refused = answers.iter().find(|answer| answer["error"].is_object()).unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("close one"), "{refused}");
    assert_eq!(raw.end().0, 0);
}
