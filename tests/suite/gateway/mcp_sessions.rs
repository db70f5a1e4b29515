//! Sessions of MCP: what belongs to them, the stream of what flock sends by itself, log messages, and batches.

use std::path::Path;

use flock::supervise::gateway_client::{Call, Client, ServerSentEvents};
use serde_json::{Value, json};

use super::crew::{Crew, HELD, Played};
use super::house::LIMIT;
use super::mcp::{call, client, pipe};

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Begins a session in this version of the protocol; gives its id.
async fn begin(program: &Client, version: &str) -> String {
    let hello = request("initialize", json!({"protocolVersion": version, "capabilities": {}}));
    let answer = program.send(call(&hello), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.header("mcp-session-id").expect("a session").to_owned()
}

fn within(session: &str, call: Call) -> Call {
    call.header("mcp-session-id", session)
}

/// The answer to a request of a session.
async fn send(crew: &Crew, program: &Client, session: &str, method: &str, params: Value) -> Value {
    let (status, answer) = crew.send(program, within(session, call(&request(method, params)))).await;
    assert_eq!(status, 200, "{method}: {answer}");
    answer
}

async fn subscribe(crew: &Crew, program: &Client, session: &str, uri: &str) {
    let answer = send(crew, program, session, "resources/subscribe", json!({"uri": uri})).await;
    assert_eq!(answer["result"], json!({}), "{uri}: {answer}");
}

/// Opens the stream of a session.
async fn listen(program: &Client, session: &str) -> ServerSentEvents {
    let call = within(session, Call::get("/mcp").header("accept", "text/event-stream"));
    let answer = program.send(call, LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.header("content-type").unwrap().starts_with("text/event-stream"));
    answer.events()
}

/// The resource that a stream says has changed.
async fn updated(events: &mut ServerSentEvents) -> String {
    let event = events.next(LIMIT).await.unwrap().expect("the stream goes on");
    let message: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(message["method"], "notifications/resources/updated", "{message}");
    assert!(message.get("id").is_none(), "{message}");
    message["params"]["uri"].as_str().unwrap().to_owned()
}

async fn post(crew: &Crew, channel: &str, text: &str) {
    let post = json!({"content": text, "as": "ann"});
    let path = format!("/api/channels/{channel}/messages");
    let (status, answer) = crew.ask(Call::post(&path).json(&post).unwrap()).await;
    assert!(status < 300, "{status} {answer}");
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A team whose agents read only their channels.
async fn team() -> Crew {
    let crew = Crew::with(None, |document| {
        document["plugins"]["entries"]["flock"]["config"]["channels"] = json!({"read": "members"});
    })
    .await;
    for (id, members) in
        [("dev", json!(["coder", "tester"])), ("open", json!(["coder"])), ("private", json!(["tester"]))]
    {
        let channel = json!({"id": id, "topic": "work", "members": members});
        assert_eq!(crew.ask(Call::post("/api/channels").json(&channel).unwrap()).await.0, 201);
    }
    write(&crew.home.vaults().join("wiki/start.md"), "# Start\n");
    write(&crew.home.vaults().join("wiki/picture.png"), "\u{0}PNG");
    write(&finding(&crew), "found");
    crew
}

fn finding(crew: &Crew) -> std::path::PathBuf {
    crew.home.workspace(&"coder".parse().unwrap()).join("deliverables/findings/main/finding_1.md")
}

#[tokio::test]
async fn a_session_belongs_to_the_turn_that_began_it_and_ends_when_the_program_says_so() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let waits = crew.say(json!({"prompt": "go"}));
    let other = crew.turn().await;
    let (program, stranger) = (client(&crew, &turn), client(&crew, &other));
    let session = begin(&program, "2025-11-25").await;
    assert!(session.len() >= 32 && session.bytes().all(|byte| byte.is_ascii_graphic()), "{session}");
    let another = begin(&program, "2025-11-25").await;
    assert_ne!(session, another);
    let ping = || call(&request("ping", json!({})));
    assert_eq!(crew.send(&program, within(&session, ping())).await.0, 200);
    // Who names none is served as before.
    assert_eq!(crew.send(&program, ping()).await.0, 200);
    for (client, id) in [(&stranger, session.as_str()), (&program, ""), (&program, "x")] {
        let stream = Call::get("/mcp").header("accept", "text/event-stream");
        for call in [ping(), call(&request("initialize", json!({}))), stream, Call::delete("/mcp")] {
            let (status, body) = crew.send(client, within(id, call)).await;
            assert_eq!((status, &body["error"]["code"]), (404, &json!(-32001)), "{id:?} {body}");
        }
    }
    assert_eq!(crew.send(&program, within(&session, ping())).await.0, 200, "a stranger ends no session");
    let mut events = listen(&program, &session).await;
    let ended = program.send(within(&session, Call::delete("/mcp")), LIMIT).await.unwrap();
    assert_eq!(ended.status(), 204);
    assert_eq!(events.next(LIMIT).await.unwrap(), None, "its stream ends");
    assert_eq!(crew.send(&program, within(&session, ping())).await.0, 404);
    assert_eq!(crew.send(&program, within(&another, ping())).await.0, 200);
    // The number is bounded, and a program that goes on with an old one is told to begin another.
    for _ in 0..16 {
        begin(&program, "2025-11-25").await;
    }
    assert_eq!(crew.send(&program, within(&another, ping())).await.0, 404);
    other.say("done");
    waits.await.unwrap();
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn a_stream_is_only_for_who_can_read_it() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let session = begin(&program, "2025-06-18").await;
    let get = |accept: &str| Call::get("/mcp").header("accept", accept);
    for (call, status) in [
        (within(&session, Call::get("/mcp")), 406),
        (within(&session, get("application/json")), 406),
        (within(&session, get("text/event-stream").header("mcp-protocol-version", "1999-01-01")), 400),
        (within(&session, Call::delete("/mcp").header("mcp-protocol-version", "1999-01-01")), 400),
    ] {
        assert_eq!(crew.send(&program, call).await.0, status);
    }
    let refused = program.send(get("text/event-stream"), LIMIT).await.unwrap();
    assert_eq!((refused.status(), refused.header("allow")), (405, Some("POST")), "there is no session");
    let owner = crew.owner();
    for call in [within(&session, get("text/event-stream")), within(&session, Call::delete("/mcp"))] {
        let (status, body) = crew.send(&owner, call).await;
        assert_eq!((status, &body["error"]["code"]), (403, &json!("out_of_scope")), "{body}");
    }
    // A second one takes the place of the first.
    let mut first = listen(&program, &session).await;
    let mut second = listen(&program, &session).await;
    assert_eq!(first.next(LIMIT).await.unwrap(), None);
    // The stream ends with the turn.
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    assert_eq!(second.next(LIMIT).await.unwrap(), None);
    assert_eq!(crew.send(&program, within(&session, get("text/event-stream"))).await.0, 401);
    crew.stopped().await;
}

#[tokio::test]
async fn a_message_in_a_watched_channel_is_told_over_the_stream_of_the_session() {
    let mut crew = team().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let (session, other) = (begin(&program, "2025-11-25").await, begin(&program, "2025-11-25").await);
    let (dev, open) = ("flock://channel/dev", "flock://channel/open");
    subscribe(&crew, &program, &session, dev).await;
    subscribe(&crew, &program, &session, dev).await;
    subscribe(&crew, &program, &other, open).await;
    // What happens before the stream is open is told when it opens, and once.
    post(&crew, "dev", "one").await;
    post(&crew, "dev", "two").await;
    let (mut events, mut others) = (listen(&program, &session).await, listen(&program, &other).await);
    assert_eq!(updated(&mut events).await, dev);
    post(&crew, "open", "for the other session").await;
    assert_eq!(updated(&mut others).await, open);
    post(&crew, "dev", "three").await;
    assert_eq!(updated(&mut events).await, dev, "and nothing before it");
    // A channel that is watched from now on, and one that is not any more.
    subscribe(&crew, &program, &session, open).await;
    let ended = send(&crew, &program, &session, "resources/unsubscribe", json!({"uri": dev})).await;
    assert_eq!(ended["result"], json!({}));
    let again = send(&crew, &program, &session, "resources/unsubscribe", json!({"uri": dev})).await;
    assert_eq!(again["result"], json!({}), "there is nothing to end");
    post(&crew, "dev", "not told").await;
    post(&crew, "open", "told").await;
    assert_eq!(updated(&mut events).await, open);
    // An agent that may not read a channel any more is not told of it.
    subscribe(&crew, &program, &session, dev).await;
    let change = json!({"remove": ["coder"]});
    let (status, body) = crew.ask(Call::post("/api/channels/dev/members").json(&change).unwrap()).await;
    assert_eq!(status, 200, "{body}");
    post(&crew, "dev", "hidden").await;
    post(&crew, "open", "told").await;
    assert_eq!(updated(&mut events).await, open);
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    assert_eq!(events.next(LIMIT).await.unwrap(), None);
    crew.stopped().await;
}

#[tokio::test]
async fn a_watched_file_is_told_of_whoever_changes_it() {
    let mut crew = team().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let session = begin(&program, "2025-11-25").await;
    let (page, found) = ("flock://vault/wiki/start.md", "flock://findings/main/finding_1.md");
    subscribe(&crew, &program, &session, page).await;
    let mut events = listen(&program, &session).await;
    write(&crew.home.vaults().join("wiki/start.md"), "# Start\nby a person\n");
    assert_eq!(updated(&mut events).await, page);
    // The stream is open already when this one is added.
    subscribe(&crew, &program, &session, found).await;
    write(&finding(&crew), "found again by the program");
    assert_eq!(updated(&mut events).await, found);
    std::fs::remove_file(finding(&crew)).unwrap();
    assert_eq!(updated(&mut events).await, found, "it is gone");
    let wrote = json!({"workspace": "wiki", "path": "start.md", "content": "by a tool"});
    let wrote = json!({"name": "flock_workspace_write", "arguments": wrote});
    let wrote = send(&crew, &program, &session, "tools/call", wrote).await;
    assert_eq!(wrote["result"]["isError"], false, "{wrote}");
    assert_eq!(updated(&mut events).await, page);
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

/// The code and the text of a subscription's error.
async fn refused(crew: &Crew, program: &Client, session: &str, uri: Value) -> (i64, String) {
    let answer = send(crew, program, session, "resources/subscribe", json!({"uri": uri})).await;
    let error = &answer["error"];
    let code = error["code"].as_i64().unwrap_or_else(|| panic!("{uri}: {answer}"));
    (code, error["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn only_what_the_agent_may_read_is_watched_and_only_so_much() {
    let mut crew = team().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let session = begin(&program, "2025-11-25").await;
    for (uri, code) in [
        ("flock://channel/private", -32002),
        ("flock://channel/nowhere", -32002),
        ("flock://vault/wiki/none.md", -32002),
        ("flock://vault/wiki/picture.png", -32002),
        ("flock://vault/none/start.md", -32002),
        ("flock://findings/main/none.md", -32002),
        ("flock://findings/main", -32002),
        ("test://watched-resource", -32002),
        ("flock://channel/dev?after=1", -32602),
        ("flock://vault/wiki/%2e%2e/x", -32602),
        ("flock://vault/wiki", -32602),
        ("flock://memory/MEMORY.md", -32602),
    ] {
        let (found, text) = refused(&crew, &program, &session, json!(uri)).await;
        assert_eq!(found, code, "{uri}: {text}");
        assert!(!text.contains(crew.home.root().to_str().unwrap()), "no path of the host: {text}");
    }
    let part = refused(&crew, &program, &session, json!("flock://channel/dev?after=1")).await.1;
    assert!(part.contains("subscribe to flock://channel/dev"), "{part}");
    assert_eq!(refused(&crew, &program, &session, json!(5)).await.0, -32602);
    // Outside of a session there is nobody to tell.
    let outside = call(&request("resources/subscribe", json!({"uri": "flock://channel/dev"})));
    let (_, answered) = crew.send(&program, outside).await;
    assert_eq!(answered["error"]["code"], -32600, "{answered}");
    for n in 0..64 {
        write(&crew.home.vaults().join(format!("wiki/{n}.md")), "x");
        subscribe(&crew, &program, &session, &format!("flock://vault/wiki/{n}.md")).await;
    }
    let (code, text) = refused(&crew, &program, &session, json!("flock://channel/dev")).await;
    assert!(code == -32602 && text.contains("at most 64"), "{code} {text}");
    let (_, rows) = crew.ask(Call::get("/api/audit?limit=100&action=mcp.subscribe")).await;
    let rows = rows["rows"].as_array().unwrap();
    let of = |word: &str| rows.iter().filter(|row| row["detail"] == word).count();
    assert_eq!((of("refused: flock://channel/private"), of("subscribed: flock://vault/wiki/7.md")), (1, 1));
    assert_eq!(
        (of("refused: flock://channel/dev"), of("subscribed: flock://channel/dev")),
        (1, 0),
        "one too many"
    );
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn what_the_policy_denies_is_not_watched() {
    let mut crew = Crew::with(None, |document| {
        document["tools"]["deny"] = json!(["flock_channel_read", "read", "image"]);
    })
    .await;
    let channel = json!({"id": "dev", "topic": "work", "members": ["coder"]});
    assert_eq!(crew.ask(Call::post("/api/channels").json(&channel).unwrap()).await.0, 201);
    write(&finding(&crew), "found");
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let session = begin(&program, "2025-11-25").await;
    for uri in ["flock://channel/dev", "flock://findings/main/finding_1.md"] {
        let (code, text) = refused(&crew, &program, &session, json!(uri)).await;
        assert!(code == -32002 && text.contains("denied"), "{uri}: {code} {text}");
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

/// A call that writes a log message of each of these levels.
fn logging(levels: &[&str]) -> Value {
    request("tools/call", json!({"name": HELD, "arguments": {"n": levels, "together": 1, "logs": levels}}))
}

/// The levels of the log messages of a call, which comes with its answer at the end.
async fn logged(program: &Client, session: Option<&str>, levels: &[&str]) -> Vec<String> {
    let message = call(&logging(levels));
    let message = session.map_or_else(|| message.clone(), |id| within(id, message.clone()));
    let answer = program.send(message, LIMIT).await.unwrap();
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let mut events = answer.events();
    let mut messages: Vec<Value> = Vec::new();
    while let Some(event) = events.next(LIMIT).await.unwrap() {
        messages.push(serde_json::from_str(&event.data).unwrap());
    }
    let last = messages.pop().unwrap();
    assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(1), &json!(false)), "{last}");
    let level = |message: &Value| {
        let params = &message["params"];
        assert_eq!(message["method"], "notifications/message", "{message}");
        assert_eq!(params["logger"], "mcp:notes", "{message}");
        let level = params["level"].as_str().unwrap().to_owned();
        assert_eq!(params["data"], format!("a {level} message"), "{message}");
        level
    };
    messages.iter().map(level).collect()
}

#[tokio::test]
async fn log_messages_of_a_call_come_before_its_answer_from_the_sessions_level_on() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let session = begin(&program, "2025-11-25").await;
    assert_eq!(logged(&program, Some(&session), &["debug", "info", "error"]).await, ["info", "error"]);
    for (level, expected) in [
        ("debug", &["debug", "notice", "emergency"][..]),
        ("warning", &["emergency"][..]),
        ("emergency", &["emergency"][..]),
    ] {
        let set = send(&crew, &program, &session, "logging/setLevel", json!({"level": level})).await;
        assert_eq!(set["result"], json!({}), "{set}");
        assert_eq!(
            logged(&program, Some(&session), &["debug", "notice", "emergency"]).await,
            expected,
            "{level}"
        );
    }
    // Another session, and who has none, have levels of their own.
    let other = begin(&program, "2025-11-25").await;
    assert_eq!(logged(&program, Some(&other), &["debug", "info"]).await, ["info"]);
    let (_, set) = crew.send(&program, call(&request("logging/setLevel", json!({"level": "debug"})))).await;
    assert_eq!(set["result"], json!({}), "{set}");
    assert_eq!(logged(&program, None, &["debug", "info"]).await, ["debug", "info"]);
    assert_eq!(logged(&program, Some(&other), &["debug", "info"]).await, ["info"]);
    for level in [json!("warn"), json!("INFO"), json!(3), Value::Null, json!("")] {
        let set = send(&crew, &program, &session, "logging/setLevel", json!({"level": level})).await;
        assert_eq!(set["error"]["code"], -32602, "{set}");
    }
    // If nothing is to be told, or nobody takes a stream, the answer is JSON.
    let quiet = within(&session, call(&logging(&["debug"])));
    let quiet = program.send(quiet, LIMIT).await.unwrap();
    assert_eq!(quiet.header("content-type"), Some("application/json"));
    let plain =
        Call::post("/mcp").json(&logging(&["emergency"])).unwrap().header("accept", "application/json");
    let plain = program.send(plain, LIMIT).await.unwrap();
    assert_eq!(plain.header("content-type"), Some("application/json"));
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn a_batch_is_answered_in_order_in_the_version_that_has_batches() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    let ask = |id: Value, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method});
    let tool = |id: u64, tool: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": {"n": id, "together": 1}, "_meta": {"progressToken": id}}})
    };
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let batch = json!([
        tool(1, HELD),
        notice,
        ask(json!("two"), "ping"),
        5,
        ask(json!(3), "initialize"),
        tool(4, "flock_status"),
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        ask(json!(5), "none"),
    ]);
    let session = begin(&program, "2025-03-26").await;
    let old = |call: Call| call.header("mcp-protocol-version", "2025-03-26");
    // A session of the version, the header, or neither, as the clients of that version are.
    for call in [within(&session, call(&batch)), old(call(&batch)), call(&batch)] {
        let (status, answers) = crew.send(&program, call).await;
        let answers = answers.as_array().unwrap_or_else(|| panic!("{status} {answers}"));
        let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [&json!(1), &json!("two"), &Value::Null, &json!(3), &json!(4), &json!(5)]);
        assert_eq!(answers[0]["result"]["content"][0]["text"], "together", "{answers:?}");
        assert_eq!(answers[4]["result"]["isError"], false, "{answers:?}");
        let codes: Vec<&Value> = [2, 3, 5].map(|at: usize| &answers[at]["error"]["code"]).into();
        assert_eq!(codes, [&json!(-32600), &json!(-32600), &json!(-32601)]);
    }
    let newer = begin(&program, "2025-06-18").await;
    for (call, status) in [
        (old(call(&json!([notice, notice]))), 202),
        (old(call(&json!([]))), 400),
        (old(call(&Value::Array(vec![notice.clone(); 51]))), 400),
        (within(&newer, call(&batch)), 400),
        (call(&batch).header("mcp-protocol-version", "2025-06-18"), 400),
        (within(&session, call(&batch)).header("mcp-protocol-version", "2025-11-25"), 400),
        (old(within(&newer, call(&batch))), 200),
    ] {
        let (found, body) = crew.send(&program, call).await;
        assert_eq!(found, status, "{body}");
        if status == 400 {
            assert_eq!(body["error"]["code"], -32600, "{body}");
        }
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn a_batch_whose_connection_is_closed_ends_its_calls() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let (mut begun, mut ended) = crew.held.clone();
    let program = client(&crew, &turn);
    let held = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": HELD, "arguments": {"n": id}}});
    let batch = call(&json!([held(1), held(2), held(3)]));
    let sent = tokio::spawn(async move { program.send(batch, LIMIT).await.map(|answer| answer.status()) });
    drop(tokio::time::timeout(LIMIT, begun.wait_for(|count| *count == 3)).await.expect("in time").unwrap());
    sent.abort();
    drop(tokio::time::timeout(LIMIT, ended.wait_for(|count| *count == 3)).await.expect("in time").unwrap());
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

/// `flock mcp` for a turn, with lines in and out.
struct Piped {
    child: tokio::process::Child,
    input: tokio::process::ChildStdin,
    output: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStdout>>,
}

impl Piped {
    fn start(crew: &Crew, turn: &Played) -> Self {
        use tokio::io::AsyncBufReadExt as _;
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_flock"));
        command.arg("mcp").env("FLOCK_MCP_URL", format!("http://127.0.0.1:{}/mcp", crew.port));
        command.env("FLOCK_MCP_TOKEN", &turn.token).kill_on_drop(true);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    async fn say(&mut self, message: &Value) {
        use tokio::io::AsyncWriteExt as _;
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(LIMIT, self.output.next_line()).await.expect("in time").unwrap();
        serde_json::from_str(&line.expect("a line")).unwrap()
    }
}

#[tokio::test]
async fn what_flock_sends_by_itself_comes_by_standard_streams_too() {
    let mut crew = team().await;
    let (turn, answer) = crew.begin().await;
    let mut piped = Piped::start(&crew, &turn);
    piped.say(&request("initialize", json!({"protocolVersion": "2025-11-25"}))).await;
    piped.say(&request("resources/subscribe", json!({"uri": "flock://channel/dev"}))).await;
    assert_eq!(piped.hear().await["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(piped.hear().await["result"], json!({}));
    post(&crew, "dev", "hello").await;
    let told = piped.hear().await;
    assert_eq!(
        (&told["method"], &told["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("flock://channel/dev"))
    );
    piped.say(&request("logging/setLevel", json!({"level": "error"}))).await;
    assert_eq!(piped.hear().await["result"], json!({}));
    piped.say(&logging(&["info", "error"])).await;
    assert_eq!(piped.hear().await["params"]["level"], "error");
    assert_eq!(piped.hear().await["result"]["isError"], false);
    // The version that was agreed on has no batches.
    piped.say(&json!([request("ping", json!({}))])).await;
    assert_eq!(piped.hear().await["error"]["code"], -32600);
    let Piped { mut child, input, .. } = piped;
    drop(input);
    let status = tokio::time::timeout(LIMIT, child.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    let url = format!("http://127.0.0.1:{}/mcp", crew.port);
    let answers = pipe(&url, &turn.token, &json!([request("ping", json!({}))]).to_string()).await;
    assert_eq!(answers, [json!([{"jsonrpc": "2.0", "id": 1, "result": {}}])]);
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}
