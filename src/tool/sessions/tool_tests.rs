use std::sync::Mutex;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::id::AgentId;
use crate::provider::{BoxFuture, Role, Usage};
use crate::tool::fake;
use crate::tool::sessions::{HistoryEntry, SessionInfo};

/// A fake that answers for every key and records its requests.
#[derive(Default)]
struct FakeSessions {
    asked: Mutex<Vec<String>>,
    fails: bool,
    /// Cancelled in the middle of each answer.
    stop: CancellationToken,
}

impl FakeSessions {
    fn ask<T>(&self, what: String, answer: T) -> BoxFuture<'_, Result<T, SessionServiceError>>
    where
        T: Send + 'static,
    {
        self.asked.lock().unwrap().push(what);
        let answer =
            if self.fails { Err(SessionServiceError::Failed("/root/db".into())) } else { Ok(answer) };
        Box::pin(async move {
            self.stop.cancel();
            tokio::task::yield_now().await;
            answer
        })
    }
}

fn info(key: &SessionKey) -> SessionInfo {
    SessionInfo {
        key: key.clone(),
        busy: true,
        turns: 3,
        created_at: 0,
        updated_at: 61_000,
        model: Some("script/x".to_owned()),
        usage: Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, cost: None },
        pending: Vec::new(),
    }
}

impl SessionService for FakeSessions {
    fn list<'a>(
        &'a self,
        agent: &'a AgentId,
    ) -> BoxFuture<'a, Result<Vec<SessionInfo>, SessionServiceError>> {
        let key = format!("agent:{agent}:flock:dm:x").parse().unwrap();
        self.ask(format!("list {agent}"), vec![info(&key)])
    }

    fn status<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionInfo, SessionServiceError>> {
        self.ask(format!("status {key}"), info(key))
    }

    fn history<'a>(
        &'a self,
        key: &'a SessionKey,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, SessionServiceError>> {
        let entry = HistoryEntry { role: Role::User, text: "hi".to_owned(), at: 0 };
        self.ask(format!("history {key} {limit}"), vec![entry])
    }

    fn send<'a>(
        &'a self,
        from: &'a SessionKey,
        to: &'a SessionKey,
        message: String,
    ) -> BoxFuture<'a, Result<(), SessionServiceError>> {
        self.ask(format!("send {from} {to} {message}"), ())
    }

    fn spawn<'a>(
        &'a self,
        parent: &'a SessionKey,
        child: SessionKey,
        task: String,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, SessionServiceError>> {
        let depth = spawn_key::depth(&child);
        self.ask(format!("spawn {parent} {depth} {task}"), "the answer".to_owned())
    }
}

async fn run_with(
    sessions: FakeSessions,
    session: &str,
    name: &str,
    arguments: Value,
) -> (Result<String, String>, Vec<String>) {
    let sessions = Arc::new(sessions);
    let tools = all(&(Arc::clone(&sessions) as Arc<dyn SessionService>));
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    // A stop in the middle must not hide the work that was done.
    let cancel = sessions.stop.clone();
    let context = CallContext { session: session.parse().unwrap(), cancel, ..fake::context() };
    let answer = match tool.call(&context, &arguments).await {
        Ok(output) => Ok(crate::provider::message::joined_text(&output.content)),
        Err(ToolError::ForModel(reason)) => Err(reason),
        Err(ToolError::Fatal(error)) => panic!("fatal: {error}"),
    };
    let asked = std::mem::take(&mut *sessions.asked.lock().unwrap());
    (answer, asked)
}

const HERE: &str = "agent:coder:flock:main:me";
const OWN: &str = "agent:coder:flock:dm:x";
const FOREIGN: &str = "agent:other:flock:dm:x";

async fn run(name: &str, arguments: Value) -> (Result<String, String>, Vec<String>) {
    run_with(FakeSessions::default(), HERE, name, arguments).await
}

#[tokio::test]
async fn an_agent_works_with_its_own_sessions() {
    for (name, arguments, asked, answer) in [
        (
            "sessions_list",
            json!({}),
            "list coder".to_owned(),
            format!("{OWN}: 3 turns, last used 1970-01-01T00:01:01Z, busy"),
        ),
        (
            "sessions_history",
            json!({"sessionKey": OWN}),
            format!("history {OWN} 20"),
            "[1970-01-01T00:00:00Z user] hi".to_owned(),
        ),
        (
            "sessions_history",
            json!({"sessionKey": OWN, "limit": 100_000}),
            format!("history {OWN} 200"),
            "[1970-01-01T00:00:00Z user] hi".to_owned(),
        ),
        (
            "sessions_send",
            json!({"sessionKey": OWN, "message": "remember"}),
            format!("send {HERE} {OWN} remember"),
            format!("sent to {OWN}, which will handle it"),
        ),
    ] {
        let (got, was_asked) = run(name, arguments).await;
        assert_eq!(was_asked, [asked]);
        assert_eq!(got.unwrap(), answer);
    }
    let (status, asked) = run("session_status", json!({})).await;
    assert_eq!(asked, [format!("status {HERE}")]);
    assert!(status.unwrap().contains("tokens: 1 in, 2 out, 3 read from cache, 4 written to cache"));
    let (answer, asked) = run("sessions_spawn", json!({"task": "count", "agentId": "coder"})).await;
    assert_eq!(asked, [format!("spawn {HERE} 1 count")]);
    assert!(answer.unwrap().ends_with(" answered:\nthe answer"));
}

#[tokio::test]
async fn other_agents_sessions_are_refused_before_anything_is_asked() {
    for (name, arguments, part) in [
        ("sessions_history", json!({"sessionKey": FOREIGN}), "another agent"),
        ("sessions_send", json!({"sessionKey": FOREIGN, "message": "x"}), "another agent"),
        ("session_status", json!({"sessionKey": FOREIGN}), "another agent"),
        ("session_status", json!({"sessionKey": "main"}), "not a session key"),
        ("session_status", json!({"sessionKey": "agent:../x:flock:dm:x"}), "not a session key"),
        ("session_status", json!({"sessionKey": "x".repeat(5000)}), "not a session key"),
        ("sessions_send", json!({"sessionKey": HERE, "message": "x"}), "this session"),
        ("sessions_send", json!({"sessionKey": OWN, "message": " "}), "empty"),
        ("sessions_send", json!({"sessionKey": OWN, "message": "x".repeat(70_000)}), "at most 65536"),
        ("sessions_send", json!({"sessionKey": OWN}), "`message` is missing"),
        ("sessions_spawn", json!({"task": "x", "agentId": "other"}), "only of yourself"),
        ("sessions_spawn", json!({"task": ""}), "empty"),
        ("sessions_spawn", json!({}), "`task` is missing"),
    ] {
        let (answer, asked) = run(name, arguments.clone()).await;
        let error = answer.unwrap_err();
        assert!(error.contains(part), "{name} {arguments}: {error}");
        assert!(asked.is_empty(), "{name} {arguments}");
    }
}

#[tokio::test]
async fn sessions_do_not_start_sessions_without_end() {
    let spawn = |session: &'static str| {
        run_with(FakeSessions::default(), session, "sessions_spawn", json!({"task": "x"}))
    };
    let (_, asked) = spawn("agent:coder:flock:request:spawn-1-abc").await;
    assert_eq!(asked, ["spawn agent:coder:flock:request:spawn-1-abc 2 x"]);
    let (answer, asked) = spawn("agent:coder:flock:request:spawn-2-abc").await;
    assert!(answer.unwrap_err().contains("limit"));
    assert!(asked.is_empty());
}

#[tokio::test]
async fn a_failure_does_not_tell_of_the_host() {
    let sessions = FakeSessions { fails: true, ..FakeSessions::default() };
    let (answer, _) = run_with(sessions, HERE, "sessions_list", json!({})).await;
    assert_eq!(answer.unwrap_err(), "the session could not be reached");
}
