//! Calls of flock's tools by MCP that run at the same time: side by side, each ended alone or with its turn.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::Ordering;

use flock::supervise::gateway_client::{Call, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::crew::{Crew, HELD, Played};
use super::house::LIMIT;
use super::mcp::{call, client, use_tool};

/// The most calls of a turn that run at once.
const AT_ONCE: u32 = 16;

fn asked(id: &Value, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn held(id: &Value) -> Value {
    // Each is another one, so that no turn is ended for calling the same again and again.
    asked(id, HELD, json!({"n": id}))
}

/// One that runs until so many have begun.
fn meets(id: &Value, together: u64) -> Value {
    asked(id, HELD, json!({"n": id, "together": together}))
}

fn cancelled(id: &Value) -> Value {
    let params = json!({"requestId": id, "reason": "the user does not want it"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// Sends it on a connection of its own, which is closed where the task is aborted.
fn send(program: &Client, message: Value) -> JoinHandle<(u16, Value)> {
    let program = program.clone();
    tokio::spawn(async move {
        let answer = program.send(call(&message), LIMIT).await.unwrap();
        let status = answer.status();
        let body = answer.bytes(1 << 20, LIMIT).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    })
}

async fn reaches(count: &mut watch::Receiver<u32>, expected: u32) {
    let wait = count.wait_for(|count| *count == expected);
    drop(tokio::time::timeout(LIMIT, wait).await.expect("in time").unwrap());
}

/// The text of a call's answer.
fn text(answer: &(u16, Value)) -> &str {
    answer.1["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer:?}"))
}

/// The calls and results in the transcript of `coder`, in their order.
fn written(crew: &Crew) -> Vec<Value> {
    let folder = crew.home.sessions(&"coder".parse().unwrap());
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let records = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let blocks =
        records.flat_map(|record| record["message"]["content"].as_array().cloned().unwrap_or_default());
    blocks.filter(|block| matches!(block["type"].as_str(), Some("toolCall" | "toolResult"))).collect()
}

/// What the transcript has as the result of the call with this id.
fn result_of(written: &[Value], id: &str) -> Option<String> {
    let found = written.iter().find(|block| block["callId"] == id)?;
    Some(found["content"].to_string())
}

#[tokio::test]
async fn calls_of_one_turn_run_side_by_side() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    // Each waits until all have begun: they fill all places.
    let all = u64::from(AT_ONCE);
    let calls: Vec<_> = (0..all).map(|id| send(&program, meets(&json!(id), all))).collect();
    for call in calls {
        assert_eq!(text(&call.await.unwrap()), "together");
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn no_more_run_at_once_than_there_are_places_and_a_place_is_free_at_once() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let program = client(&crew, &turn);
    let mut running: Vec<_> = (0..AT_ONCE).map(|id| send(&program, held(&json!(id)))).collect();
    reaches(&mut begun, AT_ONCE).await;
    let more = send(&program, meets(&json!("more"), 1));
    // What is no call is answered meanwhile.
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(send(&program, ping).await.unwrap().0, 200);
    assert_eq!(*begun.borrow(), AT_ONCE);
    running.remove(0).abort();
    assert_eq!(text(&more.await.unwrap()), "together");
    assert_eq!(crew.most_held.load(Ordering::SeqCst), AT_ONCE);
    // The end of the turn ends the others.
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    reaches(&mut ended, AT_ONCE + 1).await;
    crew.stopped().await;
}

#[tokio::test]
async fn a_call_whose_connection_is_closed_ends_alone_and_the_transcript_says_so() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let program = client(&crew, &turn);
    let calls: Vec<_> = (1..=3).map(|id| send(&program, held(&json!(id)))).collect();
    reaches(&mut begun, 3).await;
    calls[1].abort();
    reaches(&mut ended, 1).await;
    // It is written down before the next call begins.
    let result = use_tool(&crew, &turn, "flock_status", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    let written = self::written(&crew);
    assert!(result_of(&written, "mcp.2").unwrap().contains("cancelled"), "{written:?}");
    assert_eq!([result_of(&written, "mcp.1"), result_of(&written, "mcp.3")], [None, None], "{written:?}");
    assert_eq!(*ended.borrow(), 1);
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    reaches(&mut ended, 3).await;
    for call in calls {
        call.abort();
    }
    crew.stopped().await;
}

#[tokio::test]
async fn what_is_posted_at_once_has_one_order_and_every_call_its_result() {
    let mut crew = Crew::new().await;
    let channel = json!({"id": "dev", "topic": "work", "members": ["coder", "tester"]});
    assert_eq!(crew.ask(Call::post("/api/channels").json(&channel).unwrap()).await.0, 201);
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let calls: Vec<_> = (0..40)
        .map(|id| match id % 4 {
            0 => meets(&json!(id), 1),
            1 => asked(&json!(id), "flock_channel_read", json!({"channelId": "dev"})),
            _ => asked(
                &json!(id),
                "flock_channel_post",
                json!({"channelId": "dev", "message": format!("message {id}")}),
            ),
        })
        .map(|message| send(&program, message))
        .collect();
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(answer.1["result"]["isError"], false, "{answer:?}");
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    let written = written(&crew);
    let (mut open, mut posts, mut posting) = (HashMap::new(), Vec::new(), None);
    for block in &written {
        let is_post = block["name"] == "flock_channel_post";
        if block["type"] == "toolCall" {
            assert_eq!(posting, None, "nothing begins beside a post: {written:?}");
            if is_post {
                assert!(open.is_empty(), "a post begins beside nothing: {written:?}");
                posts.push(block["arguments"]["message"].as_str().unwrap());
                posting = block["id"].as_str();
            }
            let id = block["id"].as_str().unwrap();
            assert_eq!(open.insert(id, ()), None, "{written:?}");
        } else {
            let id = block["callId"].as_str().unwrap();
            assert_eq!(open.remove(id), Some(()), "a result without its call: {written:?}");
            posting.take_if(|post| *post == id);
        }
    }
    assert!(open.is_empty() && posts.len() == 20, "{written:?}");
    let (_, page) = crew.ask(Call::get("/api/channels/dev/messages?limit=100")).await;
    let said = page["messages"].as_array().unwrap().iter().filter(|post| post["author"] == "coder");
    let said: Vec<&str> = said.map(|post| post["content"].as_str().unwrap()).collect();
    assert_eq!(said, posts);
    crew.stopped().await;
}

#[tokio::test]
async fn calls_that_are_made_at_once_count_as_calls_in_a_row() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let same = |id| asked(&json!(id), "flock_channel_list", json!({}));
    let calls: Vec<_> = (0..30).map(|id| send(&program, same(id))).collect();
    turn.ended().await;
    let (status, failed) = answer.await.unwrap();
    assert_ne!(status, 200, "{failed}");
    assert!(failed.to_string().contains("10 times in a row"), "{failed}");
    let written = written(&crew);
    let tenth = written.iter().position(|block| block["content"].to_string().contains("10 times in a row"));
    let after = &written[tenth.unwrap_or_else(|| panic!("{written:?}"))..];
    assert!(after.iter().all(|block| block["type"] == "toolResult"), "none begins after it: {after:?}");
    for call in calls {
        call.abort();
    }
    crew.stopped().await;
}

#[tokio::test]
async fn a_hundred_calls_that_are_opened_and_closed_leave_nothing() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let program = client(&crew, &turn);
    for _ in 0..2 {
        let before = *begun.borrow();
        let calls: Vec<_> = (0..100).map(|id| send(&program, held(&json!(id)))).collect();
        let all = begun.wait_for(|count| *count >= before + AT_ONCE);
        drop(tokio::time::timeout(LIMIT, all).await.expect("in time").unwrap());
        for call in calls {
            call.abort();
        }
    }
    // All places are free: these fill them and meet.
    let all = u64::from(AT_ONCE);
    let calls: Vec<_> = (0..all).map(|id| send(&program, meets(&json!(id), all))).collect();
    for call in calls {
        assert_eq!(text(&call.await.unwrap()), "together");
    }
    let count = *begun.borrow();
    reaches(&mut ended, count).await;
    assert_eq!(crew.most_held.load(Ordering::SeqCst), AT_ONCE);
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    assert_eq!(*begun.borrow(), count, "none of those that were closed has begun since");
    crew.stopped().await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_and_has_no_answer() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let program = client(&crew, &turn);
    // They run side by side, and `1` is not `"1"`.
    let number = send(&program, held(&json!(7)));
    reaches(&mut begun, 1).await;
    let text = send(&program, held(&json!("7")));
    reaches(&mut begun, 2).await;
    for wrong in [json!(99), Value::Null, json!({})] {
        assert_eq!(program.send(call(&cancelled(&wrong)), LIMIT).await.unwrap().status(), 202);
    }
    assert_eq!(*ended.borrow(), 0);
    for (at, id, asked) in [(1, json!("7"), text), (2, json!(7), number)] {
        assert_eq!(program.send(call(&cancelled(&id)), LIMIT).await.unwrap().status(), 202);
        reaches(&mut ended, at).await;
        assert_eq!(asked.await.unwrap(), (202, Value::Null));
    }
    // The turn goes on.
    let result = use_tool(&crew, &turn, "flock_status", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

/// `flock mcp` for a turn.
fn piped(crew: &Crew, turn: &Played) -> (Child, ChildStdin) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flock"));
    command.arg("mcp").env("FLOCK_MCP_URL", format!("http://127.0.0.1:{}/mcp", crew.port));
    command.env("FLOCK_MCP_TOKEN", &turn.token);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    (child, input)
}

async fn output(child: Child) -> Output {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    tokio::time::timeout(LIMIT, output).await.expect("it ends").unwrap()
}

#[tokio::test]
async fn calls_by_standard_streams_are_cancelled_where_all_places_are_taken() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let (mut child, mut input) = piped(&crew, &turn);
    for id in 0..20 {
        writeln!(input, "{}", held(&json!(id))).unwrap();
    }
    reaches(&mut begun, AT_ONCE).await;
    for id in 0..20 {
        writeln!(input, "{}", cancelled(&json!(id))).unwrap();
    }
    // One that is cancelled before it can have come to the gateway does not run.
    writeln!(input, "{}\n{}", held(&json!("late")), cancelled(&json!("late"))).unwrap();
    writeln!(input, "{}", meets(&json!("after"), 1)).unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let first = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        (line, answers)
    });
    let (line, mut answers) = tokio::time::timeout(LIMIT, first).await.expect("an answer").unwrap();
    let only: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&only["id"], &only["result"]["content"][0]["text"]), (&json!("after"), &json!("together")));
    drop(input);
    let output = output(child).await;
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut answers, &mut rest).unwrap();
    assert!(output.status.success() && rest.is_empty(), "{output:?} {rest}");
    let count = *begun.borrow();
    reaches(&mut ended, count).await;
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn the_end_of_standard_input_ends_all_calls() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let (child, mut input) = piped(&crew, &turn);
    for id in 0..4 {
        writeln!(input, "{}", held(&json!(id))).unwrap();
    }
    reaches(&mut begun, 4).await;
    drop(input);
    let output = output(child).await;
    reaches(&mut ended, 4).await;
    assert!(output.status.success(), "{output:?}");
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |answer: &Value| {
        answer["error"]["message"].as_str().is_some_and(|text| text.contains("standard input"))
    };
    assert!(answers.len() == 4 && answers.iter().all(said), "{answers:?}");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

/// A call that reports three times, and wants to hear of it.
fn progressing(id: &Value, token: &Value) -> Value {
    let mut message = asked(id, HELD, json!({"n": id, "together": 1, "progress": 3}));
    if !token.is_null() {
        message["params"]["_meta"] = json!({"progressToken": token});
    }
    message
}

fn assert_progress(messages: &[Value], token: &Value, id: &Value) {
    assert_eq!(messages.len(), 4, "{messages:?}");
    for (at, message) in (1..=3).zip(messages) {
        let part = format!("part {at}");
        let params =
            json!({"progressToken": token, "progress": f64::from(at), "total": 3.0, "message": part});
        assert_eq!((&message["method"], &message["params"]), (&json!("notifications/progress"), &params));
    }
    assert_eq!((&messages[3]["id"], &messages[3]["result"]["isError"]), (id, &json!(false)), "{messages:?}");
}

#[tokio::test]
async fn a_program_hears_of_the_progress_of_a_call_before_its_answer() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let sent = program.send(call(&progressing(&json!(1), &json!("t"))), LIMIT).await.unwrap();
    assert_eq!((sent.status(), sent.header("content-type")), (200, Some("text/event-stream")));
    let mut events = sent.events();
    let mut messages = Vec::new();
    while let Some(event) = events.next(LIMIT).await.unwrap() {
        messages.push(serde_json::from_str::<Value>(&event.data).unwrap());
    }
    assert_progress(&messages, &json!("t"), &json!(1));
    // Who does not ask for it gets JSON.
    let sent = program.send(call(&progressing(&json!(2), &Value::Null)), LIMIT).await.unwrap();
    assert_eq!(sent.header("content-type"), Some("application/json"));
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn progress_comes_by_standard_streams_too() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (child, mut input) = piped(&crew, &turn);
    writeln!(input, "{}", progressing(&json!("a"), &json!(5))).unwrap();
    let (mut child, mut lines) = (child, Vec::new());
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let read = tokio::task::spawn_blocking(move || {
        for _ in 0..4 {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            lines.push(serde_json::from_str::<Value>(&line).unwrap());
        }
        lines
    });
    let lines = tokio::time::timeout(LIMIT, read).await.expect("the answer").unwrap();
    assert_progress(&lines, &json!(5), &json!("a"));
    drop(input);
    assert!(output(child).await.status.success());
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn a_call_whose_stream_is_closed_or_that_is_cancelled_ends() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let program = client(&crew, &turn);
    let endless = |id: u64| {
        let mut message = held(&json!(id));
        message["params"]["_meta"] = json!({"progressToken": id});
        message["params"]["arguments"]["progress"] = json!(1);
        message
    };
    let mut closed = program.send(call(&endless(1)), LIMIT).await.unwrap().events();
    assert!(closed.next(LIMIT).await.unwrap().unwrap().data.contains("part 1"));
    let mut other = program.send(call(&endless(2)), LIMIT).await.unwrap().events();
    assert!(other.next(LIMIT).await.unwrap().unwrap().data.contains("part 1"));
    reaches(&mut begun, 2).await;
    drop(closed);
    reaches(&mut ended, 1).await;
    assert_eq!(program.send(call(&cancelled(&json!(2))), LIMIT).await.unwrap().status(), 202);
    reaches(&mut ended, 2).await;
    assert_eq!(other.next(LIMIT).await.unwrap(), None, "a cancelled call has no answer");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}
