//! Events that are not in the recordings, taken from the programs' documentation or made like others.

use serde_json::{Value, json};

use super::interface::{ConversationStart, ProgramExit, RunOutcome};
use super::listed;
use super::recorded_tests::{NEW, answer, line};

/// Parses events with a program's parser. Returns its reports, the answer, and the result for exit code 0.
fn read(name: &str, events: &[Value]) -> (Vec<String>, String, RunOutcome) {
    let mut parser = listed(name).unwrap().parser(NEW);
    let mut said = Vec::new();
    events.iter().for_each(|event| parser.line(event, &mut said));
    let lines = said.iter().map(line).collect();
    (lines, answer(&said), parser.end(&ProgramExit { code: 0, stderr: "" }))
}

fn unknown(name: &str, stderr: &str) -> bool {
    let mut parser = listed(name).unwrap().parser(ConversationStart::Resumed("x"));
    parser.end(&ProgramExit { code: 1, stderr }) == RunOutcome::Unknown
}

fn said(id: &str, text: &str) -> Value {
    json!({"type": "assistant", "message": {"id": id, "content": [{"type": "text", "text": text}]}})
}

fn piece(index: u64, delta: &Value) -> Value {
    json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": index, "delta": delta}})
}

#[test]
fn a_sub_agent_of_claude_code_is_not_the_agent() {
    let mut own = said("m", "Mine.");
    own["parent_tool_use_id"] = Value::Null;
    let mut other = said("n", "Not mine.");
    other["parent_tool_use_id"] = json!("toolu_1");
    let (lines, answer, ended) = read("claude", &[other, own]);
    assert_eq!(lines, ["text \"Mine.\""]);
    assert_eq!(answer, "Mine.");
    assert!(matches!(ended, RunOutcome::Broken { .. }));
}

#[test]
fn claude_code_usage_is_summed_over_results() {
    let result = |input: u64, cost: f64, stop: &str| {
        json!({"type": "result", "is_error": false, "num_turns": 1, "result": "x", "stop_reason": stop,
        "total_cost_usd": 9.0, "model_usage_since_last_result": {
            "a": {"inputTokens": input, "outputTokens": 2, "costUSD": cost},
            "b": {"inputTokens": 1, "outputTokens": 1, "cacheReadInputTokens": 5, "costUSD": 0.5},
        }})
    };
    let (lines, _, ended) = read("claude", &[result(10, 0.25, "end_turn"), result(20, 0.25, "max_tokens")]);
    assert_eq!(
        lines,
        [
            "usage in=11 out=3 read=5 write=0",
            "cost 0.750000",
            "usage in=32 out=6 read=10 write=0",
            "cost 1.500000"
        ]
    );
    assert_eq!(ended, RunOutcome::Well { cut: true });
}

#[test]
fn answer_blocks_are_separated_and_reported_once() {
    let start = json!({"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m"}}});
    let (lines, answer, _) = read(
        "claude",
        &[
            start.clone(),
            piece(0, &json!({"type": "text_delta", "text": "On"})),
            piece(0, &json!({"type": "text_delta", "text": "e."})),
            said("m", "One. And more."),
            piece(1, &json!({"type": "text_delta", "text": "Tow."})),
            said("m", "Two."),
            said("m", "Three."),
            start,
            piece(0, &json!({"type": "text_delta", "text": "Lost"})),
            said("other", "Four."),
        ],
    );
    assert_eq!(
        lines,
        [
            "text \"On\"",
            "text \"e.\"",
            "text \" And more.\"",
            "text \"\\n\\nTow.\"",
            "anew \"One. And more.\\n\\nTwo.\"",
            "text \"\\n\\nThree.\"",
            "text \"\\n\\nLost\"",
            "anew \"One. And more.\\n\\nTwo.\\n\\nThree.\"",
            "text \"\\n\\nFour.\"",
        ]
    );
    assert_eq!(answer, "One. And more.\n\nTwo.\n\nThree.\n\nFour.");
}

#[test]
fn codex_items_besides_commands_are_reported() {
    let done = |item: Value| json!({"type": "item.completed", "item": item});
    let (lines, answer, ended) = read(
        "codex",
        &[
            done(json!({"id": "0", "type": "agent_message", "text": "One."})),
            done(json!({"id": "1", "type": "agent_message", "text": "Two."})),
            done(
                json!({"id": "2", "type": "file_change", "status": "completed", "changes": [{"path": "a", "kind": "add"}]}),
            ),
            done(json!({"id": "3", "type": "file_change", "status": "failed", "changes": []})),
            done(json!({"id": "4", "type": "web_search", "query": "rust"})),
            json!({"type": "item.updated", "item": {"id": "5", "type": "todo_list", "items": []}}),
            json!({"type": "item.started", "item": {"id": "6", "type": "mcp_tool_call", "server": "x", "tool": "y", "arguments": {"a": 1}}}),
            done(
                json!({"id": "6", "type": "mcp_tool_call", "server": "x", "tool": "y", "status": "failed", "error": {"message": "no"}}),
            ),
            done(
                json!({"id": "7", "type": "mcp_tool_call", "server": "flock", "tool": "y", "status": "completed"}),
            ),
            done(json!({"id": "8", "type": "command_execution", "command": "rm x", "status": "declined"})),
            done(json!({"id": "9", "type": "agent_message", "text": "Three."})),
            json!({"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4, "cache_write_input_tokens": 2, "output_tokens": 3}}),
        ],
    );
    assert_eq!(
        lines,
        [
            "text \"One.\"",
            "text \"\\n\\nTwo.\"",
            "began 2 file_change {\"changes\":[{\"path\":\"a\",\"kind\":\"add\"}]}",
            "ended 2 file_change \"\"",
            "began 3 file_change {\"changes\":[]}",
            "ended 3 file_change \"\" error \"failed\"",
            "search rust",
            "began 6 x.y {\"a\":1}",
            "ended 6 x.y \"\" error \"no\"",
            "a call of flock's",
            "began 8 command_execution {\"command\":\"rm x\"}",
            "ended 8 command_execution \"\" error \"declined\"",
            "text \"Three.\"",
            "usage in=3 out=3 read=4 write=2",
        ]
    );
    assert_eq!((answer.as_str(), ended), ("Three.", RunOutcome::Well { cut: false }));
}

#[test]
fn the_status_of_a_failure_is_found() {
    let failed = |message: &str| {
        let event = json!({"type": "turn.failed", "error": {"message": message}});
        match read("codex", &[event]).2 {
            RunOutcome::Failed { status, .. } => status,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(failed("unexpected status 503 Service Unavailable: x"), Some(503));
    assert_eq!(failed("exceeded retry limit, last status: 429 Too Many Requests"), Some(429));
    assert_eq!(failed("unexpected status 99999999999 x"), None);
    assert_eq!(failed("no status"), None);

    for (message, code, expected) in [
        ("[API Error: {\"error\":{\"code\":404}}]", 148, Some(404)),
        ("[API Error: no words]", 173, Some(429)),
        ("[API Error: no words]", 1, None),
        ("[API Error: no words]", 42, None),
    ] {
        let mut parser = listed("gemini").unwrap().parser(NEW);
        let event = json!({"type": "result", "status": "error", "error": {"message": message}});
        parser.line(&event, &mut Vec::new());
        match parser.end(&ProgramExit { code, stderr: "" }) {
            RunOutcome::Failed { status, .. } => assert_eq!(status, expected, "{message} {code}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_missing_gemini_login_is_not_an_unknown_conversation() {
    for conversation in [NEW, ConversationStart::Resumed("x")] {
        let mut parser = listed("gemini").unwrap().parser(conversation);
        let stderr = "Please set an Auth method in your /flocks/own/.gemini/settings.json";
        match parser.end(&ProgramExit { code: 41, stderr }) {
            RunOutcome::Failed { status: Some(401), message } => {
                assert!(message.contains("log in") && !message.contains("/flocks/own"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_end_of_opencode_is_its_last_step() {
    let step = |reason: &str| json!({"type": "step_finish", "part": {"reason": reason, "cost": 0.25, "tokens": {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}}}});
    let start = json!({"type": "step_start"});
    let text = |text: &str| json!({"type": "text", "part": {"text": text}});
    let (lines, answer, ended) = read("opencode", &[start.clone(), text("a"), text("b"), step("length")]);
    assert_eq!(lines, ["text \"a\"", "text \"\\n\\nb\"", "usage in=1 out=5 read=4 write=5", "cost 0.250000"]);
    assert_eq!((answer.as_str(), ended), ("a\n\nb", RunOutcome::Well { cut: true }));
    let later = json!({"type": "session.idle"});
    assert_eq!(read("opencode", &[step("stop"), later]).2, RunOutcome::Well { cut: false });
    for events in [vec![step("stop"), start], vec![step("tool-calls")], vec![step("stop"), text("more")]] {
        assert!(matches!(read("opencode", &events).2, RunOutcome::Broken { .. }), "{events:?}");
    }
    let mut parser = listed("opencode").unwrap().parser(NEW);
    parser.line(&step("stop"), &mut Vec::new());
    assert!(matches!(parser.end(&ProgramExit { code: 143, stderr: "" }), RunOutcome::Broken { .. }));
}

#[test]
fn opencode_says_in_its_log_alone_that_it_waits_for_a_quota() {
    // As version 1.18.33 writes it. The first one would be waited for as long as the server says, without an event.
    let log = |error: &str| {
        format!(
            "timestamp=2026-11-27T19:28:25.342Z level=ERROR run=9f2d329b message=\"stream error\" providerID=opencode-go \
             modelID=glm-5 session.id=ses_de185125affe small=false agent=build mode=primary error.error={error}"
        )
    };
    for (line, expected) in [
        (
            log(r#""AI_APICallError: Weekly usage limit reached. Resets in 19hr 5min""#),
            Some("Weekly usage limit reached. Resets in 19hr 5min"),
        ),
        (log(r#""AI_APICallError: The \"usage limit\" has been reached""#), None),
        (
            log(r#""AI_APICallError: The usage limit has been reached""#),
            Some("The usage limit has been reached"),
        ),
        // A limit of a minute, for which it waits itself.
        (
            log(
                r#""AI_APICallError: This request would exceed your account's rate limit. Please try again later.""#,
            ),
            None,
        ),
        (log(r#""AI_APICallError: usage limit reached"#), None),
        (log("usage limit reached"), None),
        ("message=\"a file says\" text=\"AI_APICallError: usage limit reached\"".to_owned(), None),
    ] {
        let mut parser = listed("opencode").unwrap().parser(NEW);
        let mut said = Vec::new();
        parser.error_line(&line, &mut said);
        parser.error_line(&line, &mut said);
        let lines: Vec<String> = said.iter().map(super::recorded_tests::line).collect();
        assert_eq!(lines, Vec::from_iter(expected.map(|text| format!("doomed {text}"))), "{line}");
    }
}

#[test]
fn only_an_untouched_resumed_conversation_is_unknown() {
    for (name, words) in [
        ("claude", "No conversation found with session ID: x"),
        ("codex", "Error: thread/resume failed: no rollout found for thread id x"),
        ("gemini", "Error resuming session: Invalid session identifier \"x\"."),
        ("opencode", "\u{1b}[91mError: \u{1b}[0mSession not found"),
    ] {
        assert!(unknown(name, words), "{name}");
        assert!(!unknown(name, "something else"), "{name}");
        let mut parser = listed(name).unwrap().parser(NEW);
        let new = parser.end(&ProgramExit { code: 1, stderr: words });
        assert!(matches!(new, RunOutcome::Broken { .. }), "{name}: {new:?}");
    }
}
