use serde_json::{Value, json};

use super::*;
use crate::sandbox::SandboxError;
use crate::tool::fake::{self, FakeSandbox};

async fn run(sandbox: FakeSandbox, arguments: Value) -> (Result<String, String>, Vec<Command>) {
    let sandbox = Arc::new(sandbox);
    let answer = fake::call(&*tool(&(Arc::clone(&sandbox) as Arc<dyn Sandbox>)), arguments).await;
    let ran = std::mem::take(&mut *sandbox.ran.lock().unwrap());
    (answer, ran)
}

fn successful_sandbox() -> FakeSandbox {
    FakeSandbox::ending(CommandExit::Exited(0), b"hello\n", b"", 6)
}

#[tokio::test]
async fn the_result_says_how_it_ended() {
    for (end, head, want) in [
        (CommandExit::Exited(0), &b"hello\n"[..], "exit code 0, 1.5 s\nhello\n"),
        (CommandExit::Exited(127), b"", "exit code 127, 1.5 s, no output"),
        (CommandExit::Signalled(9), b"x", "ended by signal 9 (SIGKILL), 1.5 s\nx"),
        (CommandExit::Signalled(250), b"x", "ended by signal 250, 1.5 s\nx"),
        (CommandExit::TimedOut, b"x", "timed out after 2 s and was killed with all its processes\nx"),
        (CommandExit::Cancelled, b"x", "stopped, and killed with all its processes\nx"),
        (CommandExit::Exited(0), b"a\xffb\x1b[31mred\x1b[0m", "exit code 0, 1.5 s\na\u{fffd}bred"),
    ] {
        let sandbox = FakeSandbox::ending(end, head, b"", head.len() as u64);
        assert_eq!(run(sandbox, json!({"command": "x"})).await.0.unwrap(), want);
    }
}

#[tokio::test]
async fn a_gigabyte_is_cut_and_the_cut_is_reported() {
    let half = vec![b'x'; OUTPUT_LIMIT / 2];
    let sandbox = FakeSandbox::ending(CommandExit::Exited(0), &half, &half, 1 << 30);
    let text = run(sandbox, json!({"command": "x"})).await.0.unwrap();
    assert!(text.len() < OUTPUT_LIMIT + 200, "{}", text.len());
    let cut = (1u64 << 30) - OUTPUT_LIMIT as u64;
    assert!(text.contains(&format!("\n[… {cut} bytes cut here …]\n")));
}

#[tokio::test]
async fn the_command_is_passed_on() {
    let (_, ran) = run(successful_sandbox(), json!({"command": "make"})).await;
    assert_eq!(ran[0].command, "make");
    assert_eq!(ran[0].workdir.as_deref(), None);
    assert_eq!(ran[0].timeout, Some(DEFAULT_TIMEOUT));
    assert_eq!(ran[0].keep, OUTPUT_LIMIT);
    let all = json!({"command": "make", "workdir": "a/./b", "env": {"A_1": "x y"}, "timeout": 3600});
    let (_, ran) = run(successful_sandbox(), all).await;
    assert_eq!(ran[0].workdir.as_deref(), Some("/workspace/a/b"));
    assert_eq!(ran[0].env, [("A_1".to_owned(), "x y".to_owned())]);
    assert_eq!(ran[0].timeout, Some(MAX_TIMEOUT));
}

#[tokio::test]
async fn background_returns_a_session() {
    let (answer, ran) = run(successful_sandbox(), json!({"command": "server", "background": true})).await;
    assert!(answer.unwrap().contains("sessionId 7"));
    assert_eq!(ran[0].timeout, None);
    let (_, ran) =
        run(successful_sandbox(), json!({"command": "server", "background": true, "timeout": 5})).await;
    assert_eq!(ran[0].timeout, Some(Duration::from_secs(5)));
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_start_does_not_lose_the_job() {
    let sandbox = Arc::new(successful_sandbox());
    let context = CallContext { cancel: sandbox.stop.clone(), ..fake::context() };
    let tool = tool(&(Arc::clone(&sandbox) as Arc<dyn Sandbox>));
    let start = json!({"command": "server", "background": true});
    let answer = fake::call_in(&context, &*tool, start.clone()).await;
    assert!(answer.as_ref().is_ok_and(|text| text.contains("sessionId 7")), "{answer:?}");
    // The turn is stopped before the call, so nothing is started.
    assert_eq!(fake::call_in(&context, &*tool, start).await.unwrap_err(), "stopped");
    assert_eq!(sandbox.ran.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_arguments_are_explained_and_not_run() {
    let long = "x".repeat(MAX_COMMAND + 1);
    let large = "x".repeat(MAX_ENV);
    for (arguments, part) in [
        (json!({}), "`command` is missing"),
        (json!({"command": " "}), "empty"),
        (json!({"command": 5}), "must be a string"),
        (json!({"command": "a\0b"}), "NUL"),
        (json!({"command": long}), "at most 131071"),
        (json!({"command": "x", "timeout": 0}), "1 to 3600"),
        (json!({"command": "x", "timeout": 3601}), "1 to 3600"),
        (json!({"command": "x", "timeout": "5"}), "whole number"),
        (json!({"command": "x", "background": "yes"}), "true or false"),
        (json!({"command": "x", "env": {"A=B": "c"}}), "a name has"),
        (json!({"command": "x", "env": {"1A": "c"}}), "a name has"),
        (json!({"command": "x", "env": {"": "c"}}), "a name has"),
        (json!({"command": "x", "env": {"A": "c\0"}}), "NUL"),
        (json!({"command": "x", "env": {"A": 1}}), "object of strings"),
        (json!({"command": "x", "env": {"A": large}}), "at most 65536"),
        (json!({"command": "x", "workdir": "/etc"}), "below /workspace"),
        (json!({"command": "x", "workdir": "/workspacex"}), "below /workspace"),
        (json!({"command": "x", "workdir": "../x"}), "below /workspace"),
        (json!({"command": "x", "workdir": "/workspace/a/../.."}), "below /workspace"),
        (json!({"command": "x", "workdir": "a\0"}), "below /workspace"),
        (json!("{\"command\": "), "not valid JSON"),
        (json!(["x"]), "JSON object"),
    ] {
        let (answer, ran) = run(successful_sandbox(), arguments.clone()).await;
        let error = answer.unwrap_err();
        assert!(error.contains(part), "{arguments}: {error}");
        assert!(ran.is_empty(), "{arguments}");
    }
}

#[tokio::test]
async fn a_failing_sandbox_is_explained_without_the_host() {
    let agent = || "coder".parse().unwrap();
    for (failure, part) in [
        (SandboxError::Off(agent()), "no sandbox"),
        (SandboxError::Unknown(agent()), "removed"),
        (
            SandboxError::NotStarted { reason: "no folder \u{7}x".to_owned() },
            "it was not started: no folder ␇x",
        ),
        (SandboxError::NoJob(3), "no background session 3"),
        (
            SandboxError::JobEnded { id: 3, command: "make".to_owned() },
            "background session 3 (make) has ended",
        ),
        (
            SandboxError::Lost { agent: agent(), reason: "bad \u{1b}[31mframe".to_owned() },
            "stopped answering (bad frame)",
        ),
        (SandboxError::NotConfined { agent: agent(), finding: "/etc".to_owned() }, "not confined"),
        (
            SandboxError::Denied { engine: None, endpoint: "unix:///run/docker.sock".to_owned() },
            "refuses access",
        ),
        (
            SandboxError::Unavailable {
                engine: None,
                endpoint: "unix:///run/docker.sock".to_owned(),
                source: "gone".into(),
            },
            "flock doctor",
        ),
        (
            SandboxError::Host { path: "/root/.flock".into(), source: std::io::Error::other("x") },
            "flock doctor",
        ),
    ] {
        let error = run(FakeSandbox::failing(failure), json!({"command": "x"})).await.0.unwrap_err();
        assert!(error.contains(part), "{error}");
        for secret in ["docker.sock", "/root", "/etc", "\u{1b}"] {
            assert!(!error.contains(secret), "{error}");
        }
    }
}
