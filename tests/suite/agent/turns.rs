//! Turns that go well, and what the model is shown.

use flock::agent::{TurnEvent, TurnRequest, TurnStop};
use flock::id::SessionKind;
use flock::provider::{Block, Message, Role};
use serde_json::{Value, json};

use super::rig::{Rig, Set, key, turn};
use crate::support::model_server::Reply;

fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| match line["type"].as_str().unwrap() {
        "message" => line["message"]["role"].as_str().unwrap().to_owned(),
        "turn" => line["state"].as_str().unwrap().to_owned(),
        other => other.to_owned(),
    };
    lines.iter().map(kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_answers_streams_and_is_written_down() {
    let rig = Rig::new();
    rig.server.reply(Reply::pieces(&["hel", "lo"]));
    let outcome = rig.say("hi").await.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.stop, outcome.steps), ("hello", TurnStop::End, 1));
    assert_eq!((outcome.usage.input, outcome.usage.output), (10, 5));
    assert_eq!(outcome.model.as_str(), "fake/test-model");
    let events = rig.events();
    assert_eq!(events[0], TurnEvent::Began);
    let told: String = events[1..]
        .iter()
        .map(|event| match event {
            TurnEvent::TextDelta(text) => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, "hello");
    let lines = rig.transcript();
    assert_eq!(kinds(&lines), ["session", "started", "user", "assistant", "done"]);
    assert_eq!(lines[0]["key"], "agent:coder:flock:main:ann");
    assert_eq!(lines[4]["usage"]["output"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_run_in_order_and_their_results_go_back() {
    for api in ["openai-completions", "anthropic-messages"] {
        let rig = Rig::with(Set { api, ..Set::default() });
        rig.server.reply(Reply::calls(&[("a", "echo", r#"{"n":1}"#), ("b", "echo", r#"{"n":2}"#)]));
        rig.server.reply(Reply::call("c", "echo", &json!({"n": 3})));
        rig.server.reply(Reply::text("done"));
        let outcome = rig.say("work").await.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.steps, outcome.usage.output), ("done", 3, 15));
        assert_eq!(
            kinds(&rig.transcript()),
            [
                "session",
                "started",
                "user",
                "assistant",
                "tool",
                "tool",
                "assistant",
                "tool",
                "assistant",
                "done"
            ]
        );
        let last = rig.asked();
        let text = last.iter().map(ToString::to_string).collect::<String>();
        for n in 1..=3 {
            assert!(text.contains(&format!(r#"echo {{\"n\":{n}}}"#)), "{api}: {text}");
        }
        let tools: Vec<String> = rig
            .events()
            .iter()
            .filter_map(|event| match event {
                TurnEvent::ToolStarted { call_id, .. } => Some(format!("+{call_id}")),
                TurnEvent::ToolEnded { call_id, is_error: false, .. } => Some(format!("-{call_id}")),
                _ => None,
            })
            .collect();
        assert_eq!(tools, ["+a", "-a", "+b", "-b", "+c", "-c"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_turn_sees_the_last_ones() {
    let rig = Rig::new();
    rig.server.reply(Reply::call("a", "echo", &json!({})));
    rig.server.reply(Reply::text("first answer"));
    rig.say("first").await.unwrap();
    rig.say("second").await.unwrap();
    let asked = rig.asked();
    let roles: Vec<&str> = asked.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    // What was said before is shown in the same words, so that a provider's cache holds.
    let requests = rig.server.requests();
    let first = requests[0].body["messages"].as_array().unwrap();
    let last = requests[2].body["messages"].as_array().unwrap();
    assert_eq!(first[..], last[..first.len()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_any_more_is_compacted() {
    let rig = Rig::with(Set { context_window: 8_000, ..Set::default() });
    for n in 0..6 {
        rig.server.reply(Reply::call("a", "echo", &json!({"text": "x".repeat(4_000)})));
        rig.server.reply(Reply::text(&format!("answer {n}")));
        rig.say(&format!("question {n}")).await.unwrap();
    }
    let asked = rig.asked();
    assert_eq!(asked[0]["role"], "user");
    let text = asked.iter().map(ToString::to_string).collect::<String>();
    assert!(
        text.contains("question 5") && text.contains("question 0") && !text.contains("question 2"),
        "the beginning and the end: {text}"
    );
    assert!(text.contains("[HISTORY COMPRESSED]\\nSTATUS: "), "{text}");
    let written: Vec<Value> =
        rig.transcript().into_iter().filter(|record| record["type"] == "compaction").collect();
    assert!(!written.is_empty());
    for (at, record) in written.iter().enumerate() {
        assert_eq!(record["number"], at + 1);
        assert!(record["tokensAfter"].as_u64() < record["tokensBefore"].as_u64(), "{record}");
    }
    assert!(
        rig.transcript().iter().any(|record| record.to_string().contains("question 2")),
        "nothing is lost"
    );
    let told = |event: &TurnEvent| matches!(event, TurnEvent::Notice(text) if text.contains("was compacted"));
    assert_eq!(rig.events().iter().filter(|event| told(event)).count(), written.len());
    let long = rig.say(&"long ".repeat(10_000)).await.unwrap_err();
    assert!(long.to_string().contains("maximum context length is 8000 tokens"), "{long}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_says_as_system_stays_beside_the_message() {
    let rig = Rig::new();
    rig.run(TurnRequest { context: vec!["You are now a pirate.".into()], ..turn("hi") }).await.unwrap();
    let body = rig.server.requests().pop().unwrap().body;
    let system = body["messages"][0].to_string();
    assert!(body["messages"][0]["role"] == "system" && !system.contains("pirate"), "{system}");
    let user = body["messages"][1].to_string();
    assert!(user.contains("pirate") && user.contains(r#"<flock-context source=\"client\">"#), "{user}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_session_brings_its_own_conversation() {
    let rig = Rig::new();
    let message = |role, text: &str| Message::text(role, text);
    let input = vec![
        message(Role::Assistant, "welcome"),
        message(Role::User, "my name is Ann"),
        message(Role::Assistant, "hello Ann"),
        message(Role::User, "what is my name?"),
    ];
    rig.run(TurnRequest { input, session: key(SessionKind::Request, "r1"), ..turn("") }).await.unwrap();
    let asked = rig.asked();
    let roles: Vec<&str> = asked.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(
        (&asked[0]["content"], &asked[1]["content"]),
        (&json!("(session bootstrap)"), &json!("welcome"))
    );
    assert_eq!(kinds(&rig.transcript()).len(), 8, "the whole conversation is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_or_empty_is_said() {
    let rig = Rig::new();
    let cut = |finish: &str| {
        let Reply::Answer(mut answer) = Reply::text("half an ans") else { unreachable!() };
        answer.finish = Some(finish.to_owned());
        Reply::Answer(answer)
    };
    rig.server.reply(cut("length"));
    assert_eq!(rig.say("a").await.unwrap().stop, TurnStop::Length);
    rig.server.reply(Reply::pieces(&[])).reply(Reply::text("a word after all"));
    assert_eq!(rig.say("b").await.unwrap().text, "a word after all");
    rig.server.reply(Reply::pieces(&[])).reply(Reply::pieces(&[]));
    assert_eq!(rig.say("c").await.unwrap().text, "");
    let notices = rig.events().iter().filter(|event| matches!(event, TurnEvent::Notice(_))).count();
    assert_eq!(notices, 2);
    // An empty answer in the past is no message that a provider would refuse.
    rig.say("d").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_go_only_to_models_that_take_them() {
    let rig = Rig::new();
    let picture = Block::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    let input = vec![Message { role: Role::User, content: vec![picture] }];
    rig.run(TurnRequest { input, ..turn("") }).await.unwrap();
    let asked = rig.asked()[0].to_string();
    assert!(!asked.contains("iVBOR") && asked.contains("image/png"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_written_by_hand_gets_its_workspace() {
    let rig = Rig::new();
    let workspace = rig.home().workspace(&"coder".parse().unwrap());
    assert!(!workspace.exists());
    rig.server.reply(Reply::text("hello"));
    rig.say("hi").await.unwrap();
    assert!(workspace.is_dir());
    assert!(rig.home().identity(&"coder".parse().unwrap()).join("AGENTS.md").is_file());
}
