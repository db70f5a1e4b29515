use serde_json::json;

use super::*;
use crate::sandbox::{CommandExit, SandboxError};
use crate::tool::fake::{self, FakeSandbox, job};

async fn run(sandbox: FakeSandbox, arguments: Value) -> (Result<String, String>, Vec<JobRequest>) {
    let sandbox = Arc::new(sandbox);
    let answer = fake::call(&*tool(&(Arc::clone(&sandbox) as Arc<dyn Sandbox>)), arguments).await;
    let asked = std::mem::take(&mut *sandbox.asked.lock().unwrap());
    (answer, asked)
}

#[tokio::test]
async fn each_action_is_one_request() {
    for (arguments, request) in [
        (json!({"action": "list"}), JobRequest::List),
        (json!({"action": "poll", "sessionId": "7"}), JobRequest::Poll(7)),
        (json!({"action": "poll", "sessionId": 7}), JobRequest::Poll(7)),
        (json!({"action": "log", "sessionId": " 7 "}), JobRequest::Log(7)),
        (json!({"action": "kill", "sessionId": "7"}), JobRequest::Kill(7)),
        (
            json!({"action": "write", "sessionId": "7", "data": "yes\n"}),
            JobRequest::Write(7, b"yes\n".to_vec()),
        ),
    ] {
        let (answer, asked) = run(FakeSandbox::with_reply(vec![job(7, None)], b""), arguments).await;
        assert!(answer.is_ok());
        assert_eq!(asked, [request]);
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_does_not_hide_what_was_done() {
    let sandbox = Arc::new(FakeSandbox::with_reply(vec![job(7, None)], b""));
    let context = CallContext { cancel: sandbox.stop.clone(), ..fake::context() };
    let tool = tool(&(Arc::clone(&sandbox) as Arc<dyn Sandbox>));
    let write = json!({"action": "write", "sessionId": "7", "data": "yes\n"});
    let answer = fake::call_in(&context, &*tool, write.clone()).await;
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(fake::call_in(&context, &*tool, write).await.unwrap_err(), "stopped");
    assert_eq!(sandbox.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn answers_are_short_and_clear() {
    let one = |end| vec![job(7, end)];
    for (jobs, output, arguments, want) in [
        (vec![], &b""[..], json!({"action": "list"}), "there are no background sessions"),
        (
            vec![job(1, Some(CommandExit::Exited(2))), job(2, None)],
            b"",
            json!({"action": "list"}),
            "session 1: exit code 2, 3.0 s, 10 bytes of output: sleep 1…\n\
             session 2: running for 3 s, 10 bytes of output: sleep 2…",
        ),
        (
            one(None),
            b"out\x07",
            json!({"action": "poll", "sessionId": "7"}),
            "session 7: running for 3 s, 10 bytes of output\nout␇",
        ),
        (
            one(None),
            b"",
            json!({"action": "poll", "sessionId": "7"}),
            "session 7: running for 3 s, 10 bytes of output\nno new output",
        ),
        (
            one(Some(CommandExit::Signalled(15))),
            b"",
            json!({"action": "kill", "sessionId": "7"}),
            "session 7: ended by signal 15 (SIGTERM), 3.0 s, 10 bytes of output",
        ),
        (
            one(None),
            b"",
            json!({"action": "write", "sessionId": "7", "data": "abc"}),
            "3 bytes written to session 7",
        ),
    ] {
        assert_eq!(run(FakeSandbox::with_reply(jobs, output), arguments).await.0.unwrap(), want);
    }
    let many = run(
        FakeSandbox::with_reply((0..300).map(|id| job(id, None)).collect(), b""),
        json!({"action": "list"}),
    );
    let text = many.await.0.unwrap();
    assert!(text.starts_with("250 older ones are not shown\nsession 250:"), "{}", &text[..60]);
}

#[test]
fn a_command_that_is_not_shown_whole_is_marked() {
    let long = "x".repeat(MAX_COMMAND_SHOWN);
    let longer = format!("{long}; rm x");
    // Control characters become longer when they are made visible, so this is cut although it is short.
    let bells = "\u{7}".repeat(MAX_COMMAND_SHOWN - 1);
    for (command, want) in [
        ("sleep 1", "sleep 1".to_owned()),
        ("sleep 1\nrm x", "sleep 1…".to_owned()),
        ("sleep 1\rsession 2: exit code 0", "sleep 1…".to_owned()),
        ("\u{1b}]0;rm x\u{7}ls", "ls…".to_owned()),
        (long.as_str(), long.clone()),
        (longer.as_str(), format!("{long}…")),
        (bells.as_str(), format!("{}…", "␇".repeat(MAX_COMMAND_SHOWN / 3))),
    ] {
        assert_eq!(shown(command), want, "{command:?}");
    }
}

#[tokio::test]
async fn invalid_arguments_are_explained() {
    let long = "x".repeat(MAX_DATA + 1);
    for (arguments, part) in [
        (json!({}), "`action` is missing"),
        (json!({"action": "stop"}), "list, poll, log, write or kill"),
        (json!({"action": "poll"}), "`sessionId` is missing"),
        (json!({"action": "poll", "sessionId": "x"}), "the number that exec returned"),
        (json!({"action": "poll", "sessionId": -1}), "the number that exec returned"),
        (json!({"action": "poll", "sessionId": 4294967296u64}), "the number that exec returned"),
        (json!({"action": "write", "sessionId": 1}), "`data` is missing"),
        (json!({"action": "write", "sessionId": 1, "data": long}), "at most 262144"),
    ] {
        let (answer, asked) = run(FakeSandbox::with_reply(vec![], b""), arguments.clone()).await;
        let error = answer.unwrap_err();
        assert!(error.contains(part), "{arguments}: {error}");
        assert!(asked.is_empty());
    }
    let sandbox = FakeSandbox::default();
    *sandbox.reply.lock().unwrap() = Some(Err(SandboxError::NoJob(9)));
    let error = run(sandbox, json!({"action": "poll", "sessionId": 9})).await.0.unwrap_err();
    assert!(error.contains("no background session 9"), "{error}");
}
