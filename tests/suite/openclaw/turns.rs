//! Turns of agents that OpenClaw runs: through flock's gateway to it, and its tool calls back through the plugin.

use std::time::Duration;

use flock::supervise::gateway_client::Call;
use serde_json::{Value, json};

use super::stage::{LIMIT, Stage, said};
use crate::support::openclaw::Era;
use crate::support::wait_until;

fn blocks<'v>(transcript: &'v [Value], kind: &str) -> Vec<&'v Value> {
    let messages = transcript.iter().filter(|line| line["type"] == "message");
    messages
        .flat_map(|line| line["message"]["content"].as_array().unwrap())
        .filter(|block| block["type"] == kind)
        .collect()
}

/// The session of a request: its conversation's name without the moment at which it began.
fn session(request: &Value) -> &str {
    let (session, began) = request["key"].as_str().and_then(|key| key.rsplit_once('.')).unwrap_or_default();
    assert!(began.parse::<i64>().is_ok() || session.is_empty(), "{request}");
    session
}

#[tokio::test]
async fn an_agent_of_openclaw_answers_and_calls_flocks_tools() {
    for era in [Era::Old, Era::New] {
        let stage = Stage::running(era);
        let (status, body) = stage.chat("coder", "ann", "hello").await;
        assert_eq!((status, said(&body).starts_with("coder heard (1): hello")), (200, true), "{body}");
        let asked = stage.requests().remove(0);
        assert_eq!(session(&asked), "agent:coder:flock:main:ann");
        assert_eq!((&asked["agent"], &asked["stream"]), (&"coder".into(), &true.into()));
        // The session is known there; another one has a history of its own.
        assert!(said(&stage.chat("coder", "ann", "again").await.1).starts_with("coder heard (2)"));
        assert!(said(&stage.chat("coder", "bob", "hello").await.1).starts_with("coder heard (1)"));
        assert_eq!(stage.chat("tester", "ann", "hello").await.0, 200, "native agents go on");

        let (status, body) = stage.chat("coder", "ann", "/tool flock_status {}").await;
        assert_eq!(status, 200, "{body}");
        let shown = said(&body).to_owned();
        assert!(!shown.starts_with("Error") && shown.contains("coder"), "{shown}");
        let rows = stage.audit().await;
        let row = rows.iter().find(|row| row["subject"] == "flock_status").unwrap();
        assert_eq!(row["actor"], "coder");
        assert!(row["detail"].as_str().unwrap().starts_with("allowed, ok"), "{row}");
        assert_eq!(row["session"], "agent:coder:flock:main:ann");
        let transcript = stage.transcript("coder");
        let (calls, results) = (blocks(&transcript, "toolCall"), blocks(&transcript, "toolResult"));
        assert_eq!((calls.len(), results.len()), (1, 1));
        assert_eq!((&calls[0]["name"], &calls[0]["id"]), (&"flock_status".into(), &results[0]["callId"]));

        // Its own tools are reported, with their end where the version tells it.
        let (status, body) = stage.chat("coder", "ann", "/tool exec {\"command\":\"ls\"}").await;
        assert_eq!(status, 200, "{body}");
        let transcript = stage.transcript("coder");
        let call = blocks(&transcript, "toolCall").pop().unwrap().clone();
        assert_eq!((&call["name"], &call["arguments"]["command"]), (&"exec".into(), &"ls".into()));
        let result = blocks(&transcript, "toolResult").pop().unwrap().to_string();
        let rows = stage.audit().await;
        let rows: Vec<&Value> = rows.iter().filter(|row| row["subject"] == "exec").collect();
        assert_eq!(rows.len(), 1, "once: {rows:?}");
        let (text, detail) = match era {
            Era::Old => ("its end was not reported", "reported by openclaw, end not reported"),
            Era::New => ("did nothing", "reported by openclaw, ok"),
        };
        assert!(result.contains(text), "{result}");
        assert!(rows[0]["detail"].as_str().unwrap().starts_with(detail), "{rows:?}");
    }
}

#[tokio::test]
async fn an_agent_of_openclaw_is_a_member_of_channels_like_any_other() {
    let stage = Stage::running(Era::New);
    let owner = stage.owner();
    let body = json!({"id": "dev", "topic": "work", "members": ["coder"]});
    assert_eq!(stage.send(&owner, Call::post("/api/channels").json(&body).unwrap()).await.0, 201);
    let post = json!({"content": "what do you say?"});
    stage.send(&owner, Call::post("/api/channels/dev/messages").json(&post).unwrap()).await;
    let end = tokio::time::Instant::now() + LIMIT;
    let answer = loop {
        let (_, page) = stage.send(&owner, Call::get("/api/channels/dev/messages")).await;
        let posts = page["messages"].as_array().cloned().unwrap_or_default();
        if let Some(post) = posts.into_iter().find(|post| post["author"] == "coder") {
            break post;
        }
        assert!(tokio::time::Instant::now() < end, "no answer: {page}\n{}", stage.log("gateway.log"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let text = answer["content"].as_str().unwrap();
    assert!(text.contains("[Channel: #dev]") && text.contains("what do you say?"), "{text}");
    let asked = stage.requests().remove(0);
    assert_eq!(session(&asked), "agent:coder:flock:channel:dev");
}

#[tokio::test]
async fn where_openclaw_is_missing_or_down_the_error_says_what_mends_it() {
    let mut stage = Stage::new(Era::New);
    stage.start_gateway();
    let (status, body) = stage.chat("coder", "ann", "hello").await;
    assert_eq!((status, &body["error"]["code"]), (503, &"runtime_not_running".into()), "{body}");
    assert_eq!(body["error"]["hint"], "flock start");
    std::fs::remove_file(stage.home.file("openclaw")).unwrap();
    let (status, body) = stage.chat("coder", "ann", "hello").await;
    assert_eq!((status, &body["error"]["code"]), (424, &"runtime_not_installed".into()), "{body}");
    assert_eq!(body["error"]["hint"], "flock init --gateway openclaw");
}

#[tokio::test]
async fn a_failure_in_openclaw_is_the_turns_failure() {
    let stage = Stage::running(Era::New);
    let (status, body) = stage.chat("coder", "ann", "/fail").await;
    assert_eq!((status, &body["error"]["code"]), (424, &"runtime_failed".into()), "{body}");
    assert_eq!(body["error"]["hint"], "flock logs openclaw");
    // The session goes on.
    assert_eq!(stage.chat("coder", "ann", "hello").await.0, 200);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_turn_in_openclaw_too() {
    let stage = Stage::running(Era::New);
    let chat = stage.chat("coder", "ann", "/wait 600000");
    let _elapsed = tokio::time::timeout(Duration::from_secs(1), chat).await.expect_err("it waits");
    let end = tokio::time::Instant::now() + LIMIT;
    while !stage.requests().iter().any(|line| line["path"] == "cancelled") {
        assert!(tokio::time::Instant::now() < end, "{:?}\n{}", stage.requests(), stage.log("gateway.log"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A call that comes from it afterwards is not run.
    let key = stage.requests().remove(0)["key"].as_str().unwrap().to_owned();
    let (status, body) = stage.tool("flock_status", "coder", &key, json!({})).await;
    assert_eq!((status, &body["isError"]), (200, &true.into()), "{body}");
    assert!(body["content"][0]["text"].as_str().unwrap().contains("flock has ended the turn"), "{body}");
}

// What is asked meanwhile is sent by a task of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_kill_broke_off_is_marked_interrupted() {
    let mut stage = Stage::running(Era::New);
    let waiting = stage.chat("coder", "ann", "/wait 600000");
    let _elapsed = tokio::time::timeout(Duration::from_secs(1), waiting).await.expect_err("it waits");
    // The client of this turn stays: it is the gateway that dies.
    let body =
        json!({"model": "coder", "stream": true, "messages": [{"role": "user", "content": "/wait 600000"}]});
    let call = Call::post("/v1/chat/completions").json(&body).unwrap();
    let call = call.header("x-openclaw-session-key", "agent:coder:flock:main:bob");
    let answer = tokio::spawn({
        let owner = stage.owner();
        async move { owner.send(call, LIMIT).await.map(drop) }
    });
    wait_until("the turn is under way", LIMIT, || {
        let asked = stage.requests().iter().any(|line| session(line) == "agent:coder:flock:main:bob");
        asked.then_some(()).ok_or_else(|| stage.log("gateway.log"))
    });
    stage.gateway = None;
    drop(answer.await);
    stage.start_gateway();
    wait_until("it is marked", LIMIT, || {
        let log = stage.log("gateway.log");
        log.contains("marked interrupted").then_some(()).ok_or(log)
    });
    let transcript = stage.transcript("coder");
    assert!(transcript.iter().any(|line| line["type"] == "turn" && line["state"] == "interrupted"));
    assert_eq!(stage.chat("coder", "bob", "hello").await.0, 200, "the session goes on");
}
