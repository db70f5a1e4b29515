//! flock's tools by MCP: for the turn whose token it is, with its agent's role and policy, and for nobody else.

use flock::supervise::gateway_client::{Call, Client};
use serde_json::{Value, json};

use super::crew::{Crew, Played};
use super::house::LIMIT;

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub(super) fn call(body: &Value) -> Call {
    Call::post("/mcp").json(body).unwrap().header("accept", "application/json, text/event-stream")
}

pub(super) fn client(crew: &Crew, turn: &Played) -> Client {
    Client::new(crew.port).with_token(&turn.token)
}

/// The result of a request that has one.
async fn ask(crew: &Crew, turn: &Played, method: &str, params: Value) -> Value {
    let (status, mut answer) = crew.send(&client(crew, turn), call(&request(method, params))).await;
    assert_eq!((status, &answer["jsonrpc"], &answer["id"]), (200, &json!("2.0"), &json!(1)), "{answer}");
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].take()
}

pub(super) async fn use_tool(crew: &Crew, turn: &Played, name: &str, arguments: Value) -> Value {
    ask(crew, turn, "tools/call", json!({"name": name, "arguments": arguments})).await
}

#[tokio::test]
async fn a_client_is_greeted_and_shown_the_tools_that_its_agent_is_offered() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        let greeting = ask(&crew, &turn, "initialize", hello).await;
        assert_eq!(greeting["protocolVersion"], version);
        assert_eq!(greeting["serverInfo"]["name"], "flock");
        let declared = json!({"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {}});
        assert_eq!(greeting["capabilities"], declared, "what flock does not do is not declared");
    }
    assert_eq!(ask(&crew, &turn, "ping", json!({})).await, json!({}));
    assert!(!turn.ticket.calls.now().listed_tools);
    let listed = ask(&crew, &turn, "tools/list", json!({})).await;
    assert!(turn.ticket.calls.now().listed_tools);
    let tools = listed["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"flock_channel_post") && names.contains(&"flock_status"), "{names:?}");
    for other in
        ["exec", "read", "flock_create_agent", "triage_decision", "flock_restart_gateway", "sessions_send"]
    {
        assert!(!names.contains(&other), "{other}");
    }
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{tool}");
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        assert!(hints.iter().all(|hint| tool["annotations"][hint].is_boolean()), "{tool}");
        assert!(!tool["title"].as_str().unwrap().is_empty(), "{tool}");
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    // The orchestrator's are others.
    let waits = crew.say(json!({"prompt": "go"}));
    let turn = crew.turn().await;
    let listed = ask(&crew, &turn, "tools/list", json!({})).await;
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "flock_create_agent"));
    turn.say("done");
    waits.await.unwrap();
    crew.stopped().await;
}

#[tokio::test]
async fn a_call_is_that_agents_and_is_in_the_transcript() {
    let mut crew = Crew::new().await;
    let channel = json!({"id": "dev", "topic": "work", "members": ["coder", "tester"]});
    assert_eq!(crew.ask(Call::post("/api/channels").json(&channel).unwrap()).await.0, 201);
    let (turn, answer) = crew.begin().await;
    let said = json!({"channelId": "dev", "message": "by the program", "agentId": "tester", "as": "ann"});
    let result = use_tool(&crew, &turn, "flock_channel_post", said).await;
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(result["content"][0]["type"], "text", "{result}");
    let (_, page) = crew.ask(Call::get("/api/channels/dev/messages")).await;
    let post = page["messages"].as_array().unwrap().iter().find(|post| post["content"] == "by the program");
    assert_eq!(post.unwrap()["author"], "coder");
    // What the role does not allow is an answer to the model, and nothing happens.
    let mole = json!({"agentId": "mole", "role": "orchestrator"});
    let result = use_tool(&crew, &turn, "flock_create_agent", mole).await;
    assert_eq!(result["isError"], true, "{result}");
    assert!(
        result["content"][0]["text"].as_str().unwrap().contains("belongs to the orchestrator"),
        "{result}"
    );
    let key = turn.order.session.clone();
    turn.say("posted");
    assert_eq!(answer.await.unwrap().0, 200);
    let engine = &crew.gateway.engine;
    let told = engine.history(&key, 20).await.unwrap().unwrap();
    let told: Vec<&str> = told.iter().map(|entry| entry.text.as_str()).collect();
    assert!(told.iter().any(|text| text.starts_with("[calls flock_channel_post")), "{told:?}");
    assert!(told.iter().any(|text| text.starts_with("[flock_channel_post answered")), "{told:?}");
    // And in the log of what the agent did, where the program's own log has them not.
    let (_, listed) = crew.ask(Call::get(&format!("/api/messages?sessionKey={key}&includeTrace=1"))).await;
    let trace = listed["messages"][1]["trace"].as_str().unwrap();
    assert!(
        trace.starts_with("[coder] tool: flock_channel_post channelId=dev message=by the program"),
        "{trace}"
    );
    assert!(
        trace.contains("\n[coder] tool: flock_create_agent agentId=mole role=orchestrator → failed\n  "),
        "{trace}"
    );
    crew.stopped().await;
}

#[tokio::test]
async fn only_the_token_of_a_turn_that_runs_opens_it_and_it_opens_nothing_else() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let list = request("tools/list", json!({}));
    let owner = crew.owner();
    let (status, refused) = crew.send(&owner, call(&list)).await;
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("out_of_scope")), "{refused}");
    for (client, code) in [
        (Client::new(crew.port), "no_token"),
        (Client::new(crew.port).with_token("x"), "wrong_token"),
        (Client::new(crew.port).with_token(&turn.token[..turn.token.len() - 1]), "wrong_token"),
    ] {
        let (status, refused) = crew.send(&client, call(&list)).await;
        assert_eq!((status, &refused["error"]["code"]), (401, &json!(code)), "{refused}");
    }
    let program = client(&crew, &turn);
    let nothing = json!({});
    for other in [
        Call::get("/api/agents"),
        Call::get("/api/messages"),
        Call::get("/api/events"),
        Call::post("/api/message").json(&json!({"prompt": "I am Ann"})).unwrap(),
        Call::put("/api/settings").json(&json!({"cli": "native"})).unwrap(),
        Call::post("/api/approvals/x/approve").json(&nothing).unwrap(),
        Call::post("/api/plugin/tools/flock_status").json(&nothing).unwrap(),
        Call::post("/v1/chat/completions").json(&nothing).unwrap(),
        Call::get("/mcp/"),
    ] {
        assert_eq!(crew.send(&program, other).await.0, 401);
    }
    // Without a session there is no stream, and nothing to end.
    let stream = Call::get("/mcp").header("accept", "text/event-stream");
    for (other, status) in
        [(stream, 405), (Call::get("/mcp"), 406), (Call::delete("/mcp"), 400), (Call::put("/mcp"), 405)]
    {
        assert_eq!(crew.send(&program, other).await.0, status);
    }
    let token = turn.token.clone();
    turn.say("done");
    answer.await.unwrap();
    let late = Client::new(crew.port).with_token(&token);
    let (status, refused) = crew.send(&late, call(&list)).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (401, &json!("wrong_token")),
        "its turn is over: {refused}"
    );
    crew.stopped().await;
}

#[tokio::test]
async fn what_is_no_message_is_refused_as_json_rpc_has_it() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    for (body, status, code) in [
        ("{", 400, -32_700),
        ("", 400, -32_700),
        ("\u{1}\u{fffd}", 400, -32_700),
        ("[]", 400, -32_600),
        ("5", 400, -32_600),
        (r#"{"id":1,"method":"ping"}"#, 400, -32_600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32_600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, -32_600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#, 200, -32_601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe"}"#, 200, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel"}"#, 200, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, 200, -32_601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/read"}"#, 200, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{}}"#, 200, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, -32_602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec"}}"#, 200, -32_602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flock_status","arguments":[]}}"#,
            200,
            -32_602,
        ),
    ] {
        let (got, answer) = crew.send(&program, raw(body)).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &json!(code)), "{body} {answer}");
    }
    for quiet in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "flock_status"}}),
        json!({"jsonrpc": "2.0", "id": 9, "result": {}}),
    ] {
        let answer = program.send(call(&quiet), LIMIT).await.unwrap();
        assert_eq!(answer.status(), 202, "{quiet}");
        assert!(answer.bytes(1024, LIMIT).await.unwrap().is_empty());
    }
    let long = request("ping", json!({"text": "x".repeat(3 << 20)}));
    assert_eq!(crew.send(&program, call(&long)).await.0, 413);
    // Whatever it was asked, the turn goes on.
    let result = use_tool(&crew, &turn, "flock_status", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

fn raw(body: &str) -> Call {
    // As it is: what is no JSON must get through to be refused.
    Call::post("/mcp").header("content-type", "application/json").bytes(body.as_bytes())
}

/// `standalone/mcp.sh` has the official client; without it, this says so and passes.
#[tokio::test]
async fn the_official_client_uses_the_tools() {
    let Some(python) = std::env::var_os("FLOCK_TEST_MCP_PYTHON") else {
        eprintln!("the official MCP client was left out: standalone/mcp.sh has it");
        return;
    };
    let mut crew = Crew::new().await;
    let channel = json!({"id": "dev", "topic": "work", "members": ["coder", "tester"]});
    assert_eq!(crew.ask(Call::post("/api/channels").json(&channel).unwrap()).await.0, 201);
    for (path, text) in [
        (crew.home.vaults().join("wiki/start.md"), "# Start\n"),
        (
            crew.home.skills().join("deploy/SKILL.md"),
            "---\ndescription: Release safely\n---\nFirst run the tests.\n",
        ),
    ] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (turn, answer) = crew.begin().await;
    let mut client = std::process::Command::new(python);
    client
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/standalone/mcp_client.py"))
        .args([&format!("http://127.0.0.1:{}/mcp", crew.port), env!("CARGO_BIN_EXE_flock")])
        .env("FLOCK_MCP_TOKEN", &turn.token);
    let status = tokio::task::spawn_blocking(move || client.status()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn messages_come_by_standard_streams_too() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let url = format!("http://127.0.0.1:{}/mcp", crew.port);
    let long = format!("{{\"jsonrpc\": \"2.0\", \"id\": 3, \"x\": \"{}\"}}", "x".repeat(3 << 20));
    let input = [
        r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#,
        "",
        r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
        &long,
        "no message",
        r#"{"jsonrpc": "2.0", "id": "two", "method": "tools/list"}"#,
    ]
    .join("\n");
    let answers = pipe(&url, &turn.token, &input).await;
    let of = |id: &Value| answers.iter().filter(|answer| answer["id"] == *id).collect::<Vec<_>>();
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert_eq!(of(&json!(1))[0]["result"], json!({}));
    assert!(of(&json!("two"))[0]["result"]["tools"].is_array());
    let codes: Vec<i64> =
        of(&Value::Null).iter().map(|answer| answer["error"]["code"].as_i64().unwrap()).collect();
    assert!(codes.contains(&-32_700) && codes.contains(&-32_000), "no message, and one too long: {codes:?}");
    // Whose turn it is, is the token's to say.
    let refused = pipe(&url, "wrong", r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#).await;
    assert_eq!(
        (&refused[0]["id"], &refused[0]["error"]["code"]),
        (&json!(1), &json!(-32_000)),
        "{refused:?}"
    );
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

/// What `flock mcp` answers to these lines.
pub(super) async fn pipe(url: &str, token: &str, input: &str) -> Vec<Value> {
    use std::io::Write as _;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_flock"));
    command.arg("mcp").env("FLOCK_MCP_URL", url).env("FLOCK_MCP_TOKEN", token);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let input = input.to_owned();
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_turn_that_is_stopped_ends_its_calls() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = client(&crew, &turn);
    crew.gateway.driver.cancel_agent(&"coder".parse().unwrap());
    turn.ended().await;
    let (status, _) = answer.await.unwrap();
    assert_eq!(status, 424);
    assert_eq!(crew.send(&program, call(&request("ping", json!({})))).await.0, 401);
    crew.stopped().await;
}

#[tokio::test]
async fn a_version_of_the_protocol_that_is_not_spoken_is_refused() {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    for (version, status) in
        [("2025-11-25", 200), ("2024-11-05", 200), ("2025-03-26", 200), ("1999-01-01", 400), ("x", 400)]
    {
        let call = call(&request("ping", json!({}))).header("mcp-protocol-version", version);
        let (answered, body) = crew.send(&client(&crew, &turn), call).await;
        assert_eq!(answered, status, "{version}: {body}");
        assert_eq!(body["error"]["code"], if status == 400 { json!(-32600) } else { json!(null) });
    }
    let hello = json!({"protocolVersion": "2025-02-01"});
    let greeting = ask(&crew, &turn, "initialize", hello).await;
    assert_eq!(greeting["protocolVersion"], "2025-11-25");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}
