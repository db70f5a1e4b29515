//! The plugin and the two paths that its token opens: nobody is somebody else there, and nothing breaks OpenClaw.

use std::process::Command;

use flock::home::Home;
use flock::openclaw::plugin;
use flock::provider::ToolSpec;
use flock::supervise::gateway_client::Call;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::stage::{LIMIT, Stage};
use crate::support::home::finish;
use crate::support::openclaw::Era;

const MAIN: &str = "agent:coder:main";

#[tokio::test]
async fn the_plugins_token_calls_tools_and_does_nothing_else() {
    let mut stage = Stage::new(Era::New);
    stage.start_gateway();
    let plugin = stage.plugin();
    let nothing = json!({});
    for call in [
        Call::get("/api/agents"),
        Call::get("/api/channels"),
        Call::get("/api/audit"),
        Call::get("/api/events"),
        Call::get("/api/approvals"),
        Call::post("/api/approvals/x/approve").json(&json!({"sha256": "x"})).unwrap(),
        Call::post("/api/channels/dev/messages").json(&json!({"content": "I am Ann", "as": "ann"})).unwrap(),
        Call::post("/api/freeze").json(&nothing).unwrap(),
        Call::post("/v1/chat/completions").json(&nothing).unwrap(),
        Call::delete("/api/agents/coder"),
    ] {
        let (status, body) = stage.send(&plugin, call).await;
        assert_eq!((status, &body["error"]["code"]), (403, &"out_of_scope".into()), "{body}");
    }
    // Nor does any other token open the plugin's paths.
    let body = json!({"agentId": "coder", "sessionKey": MAIN, "toolCallId": "1", "params": {}});
    for path in ["/api/plugin/tools/flock_status", "/api/plugin/events"] {
        let (status, answer) = stage.send(&stage.owner(), Call::post(path).json(&body).unwrap()).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &"out_of_scope".into()), "{answer}");
        let stranger = flock::supervise::gateway_client::Client::new(stage.port).with_token("wrong");
        assert_eq!(stage.send(&stranger, Call::post(path).json(&body).unwrap()).await.0, 401);
    }
}

#[tokio::test]
async fn nobody_is_somebody_else_through_the_plugin() {
    let mut stage = Stage::new(Era::New);
    stage.start_gateway();
    for (agent, key, code) in [
        ("tester", "agent:tester:main", "not_an_agent_of_openclaw"),
        ("coder", "agent:orchestrator:main", "session_of_another_agent"),
        ("coder", "agent:coder:", "session_of_another_agent"),
        ("coder", "main", "session_of_another_agent"),
        ("coder", "agent:coder:a b", "session_of_another_agent"),
        ("nobody", "agent:nobody:main", "agent_not_found"),
        ("human", "agent:human:main", "agent_not_found"),
    ] {
        let (status, body) = stage.tool("flock_status", agent, key, json!({})).await;
        assert!((403..=404).contains(&status), "{body}");
        assert_eq!(body["error"]["code"], code, "{agent} {key}");
    }
    // A name in the parameters changes nothing: the channel says who posted.
    let owner = stage.owner();
    let channel = json!({"id": "dev", "topic": "work", "members": ["coder", "tester"]});
    stage.send(&owner, Call::post("/api/channels").json(&channel).unwrap()).await;
    let forged = json!({"channelId": "dev", "message": "trust me", "agentId": "tester", "author": "human:ann", "as": "ann"});
    let (status, body) = stage.tool("flock_channel_post", "coder", MAIN, forged).await;
    assert_eq!((status, &body["isError"]), (200, &false.into()), "{body}");
    let (_, page) = stage.send(&owner, Call::get("/api/channels/dev/messages")).await;
    let posts = page["messages"].as_array().unwrap();
    let post = posts.iter().find(|post| post["content"] == "trust me").unwrap();
    assert_eq!(post["author"], "coder", "{post}");
}

#[tokio::test]
async fn the_role_and_the_policy_hold_for_calls_from_openclaw() {
    let mut stage = Stage::new(Era::New);
    stage.start_gateway();
    let new = json!({"agentId": "mole", "role": "orchestrator"});
    let (status, body) = stage.tool("flock_create_agent", "coder", MAIN, new).await;
    assert_eq!((status, &body["isError"]), (200, &true.into()), "{body}");
    assert!(body["content"][0]["text"].as_str().unwrap().contains("belongs to the orchestrator"), "{body}");
    let rows = stage.audit().await;
    let row = rows.iter().find(|row| row["subject"] == "flock_create_agent").unwrap();
    assert!(row["detail"].as_str().unwrap().starts_with("denied"), "{row}");
    // Tools of the sandbox are OpenClaw's own; flock runs none of them for it.
    for tool in ["exec", "read", "sessions_send", "flock_nothing"] {
        let (status, body) = stage.tool(tool, "coder", MAIN, json!({"command": "id"})).await;
        assert_eq!((status, &body["error"]["code"]), (404, &"tool_not_found".into()), "{body}");
    }
    let (status, body) = stage.tool("flock_status", "coder", MAIN, json!("no object")).await;
    assert_eq!((status, &body["isError"]), (200, &true.into()), "{body}");
    let long = json!({"text": "x".repeat(3 << 20)});
    assert_eq!(stage.tool("flock_status", "coder", MAIN, long).await.0, 413);
}

#[tokio::test]
async fn reports_outside_a_turn_are_in_the_audit_once() {
    let mut stage = Stage::new(Era::New);
    stage.start_gateway();
    let report = |event: &str| {
        json!({"event": event, "agentId": "coder", "sessionKey": MAIN, "toolCallId": "r1", "tool": "exec",
            "params": {"command": "ls"}, "result": "a", "durationMs": 5})
    };
    for event in ["before_tool_call", "before_tool_call", "after_tool_call", "after_tool_call", "agent_end"] {
        let call = Call::post("/api/plugin/events").json(&report(event)).unwrap();
        let (status, body) = stage.send(&stage.plugin(), call).await;
        assert_eq!((status, &body["recorded"]), (200, &true.into()), "{body}");
    }
    let rows = stage.audit().await;
    let rows: Vec<&Value> = rows.iter().filter(|row| row["subject"] == "exec").collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0]["detail"].as_str().unwrap().starts_with("reported by openclaw, ok, 5 ms"), "{rows:?}");
    let mut ours = report("after_tool_call");
    ours["tool"] = "flock_status".into();
    let call = Call::post("/api/plugin/events").json(&ours).unwrap();
    assert_eq!(stage.send(&stage.plugin(), call).await.1["recorded"], false);
    let call = Call::post("/api/plugin/events").json(&json!({"event": "gateway_start"})).unwrap();
    assert_eq!(stage.send(&stage.plugin(), call).await.0, 400);
}

/// The plugin in a folder of its own with two tools, and what plays scenes with it.
struct Alone {
    _dir: tempfile::TempDir,
    home: Home,
}

impl Alone {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {}}).into(),
        };
        plugin::install(&home, &[tool("flock_status"), tool("flock_tasks")]).unwrap();
        std::fs::write(home.secrets().join(plugin::SECRET), "t0ken\n").unwrap();
        Self { _dir: dir, home }
    }

    /// The results of the scene's calls.
    fn play(&self, gateway: &str, scene: &Value) -> Vec<Value> {
        let settings = json!({
            "gateway": gateway,
            "tokenFile": self.home.secrets().join(plugin::SECRET),
            "tools": {"coder": ["flock_status", "flock_mcp_call"]},
        });
        let driver = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plugin.mjs");
        let mut node = Command::new("node");
        node.arg(driver).arg(plugin::folder(&self.home)).args([settings.to_string(), scene.to_string()]);
        node.env("HTTP_PROXY", "http://127.0.0.1:1").env("NODE_USE_ENV_PROXY", "1");
        let run = finish(&mut node).ok();
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Answers every request with this JSON, or never; what it was sent, by path.
async fn gateway(
    answer: Option<&'static str>,
) -> (String, tokio::sync::mpsc::UnboundedReceiver<(String, Value)>) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (sent, seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sent = sent.clone();
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let mut piece = [0; 4096];
                while let Ok(read) = stream.read(&mut piece).await {
                    if read == 0 {
                        return;
                    }
                    bytes.extend_from_slice(&piece[..read]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let Ok(body) = serde_json::from_str(body) else { continue };
                    assert!(head.contains("Bearer t0ken"), "{head}");
                    let path = head.split_whitespace().nth(1).unwrap().to_owned();
                    sent.send((path, body)).unwrap();
                    bytes.clear();
                    if let Some(answer) = answer {
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
                        stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    (url, seen)
}

fn context() -> Value {
    json!({"agentId": "coder", "sessionKey": MAIN})
}

#[tokio::test]
async fn the_plugin_forwards_a_call_with_the_identity_that_openclaw_gave() {
    let (url, mut seen) =
        gateway(Some(r#"{"content":[{"type":"text","text":"fine"}],"isError":false}"#)).await;
    let scene = json!([
        ["call", "flock_status", context(), {"agentId": "boss", "sessionKey": "agent:boss:main"}],
        ["call", "flock_tasks", context(), {}],
        ["call", "flock_status", {"agentId": "tester", "sessionKey": "agent:tester:main"}, {}],
        ["call", "flock_status", {"agentId": "coder"}, {}],
    ]);
    let results = tokio::task::spawn_blocking(move || Alone::new().play(&url, &scene)).await.unwrap();
    assert_eq!(results[0]["content"][0]["text"], "fine");
    assert_eq!((&results[1], &results[2]), (&Value::Null, &Value::Null), "not offered to this agent");
    assert!(results[3]["content"][0]["text"].as_str().unwrap().contains("did not say which agent"));
    let (path, body) = seen.recv().await.unwrap();
    assert_eq!(path, "/api/plugin/tools/flock_status");
    assert_eq!((&body["agentId"], &body["sessionKey"]), (&"coder".into(), &MAIN.into()));
    assert_eq!(body["params"]["agentId"], "boss", "only a parameter");
    assert!(seen.try_recv().is_err(), "one call of four");
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_is_called_by_its_own_name() {
    let (url, mut seen) =
        gateway(Some(r#"{"content":[{"type":"text","text":"found"}],"isError":false}"#)).await;
    let scene = json!([
        ["call", "flock_mcp_call", context(), {"tool": "flock_status", "arguments": {}}],
        ["call", "flock_mcp_call", context(), {"arguments": {}}],
        ["call", "flock_mcp_call", context(), {"tool": "mcp_notes_search", "arguments": {"text": "a"}}],
    ]);
    let results = tokio::task::spawn_blocking(move || Alone::new().play(&url, &scene)).await.unwrap();
    for refused in &results[..2] {
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("mcp_SERVER_TOOL"), "{refused}");
    }
    assert_eq!(results[2]["content"][0]["text"], "found");
    let (path, body) = seen.recv().await.unwrap();
    assert_eq!(path, "/api/plugin/tools/mcp_notes_search");
    assert_eq!(body["params"], json!({"text": "a"}));
    assert!(seen.try_recv().is_err(), "one call of three");
}

#[tokio::test]
async fn an_agent_on_openclaw_sees_and_calls_only_granted_tools_of_mcp_servers() {
    let mut stage = Stage::new(Era::New);
    stage.start_gateway();
    let text = |body: &Value| body["content"][0]["text"].as_str().unwrap().to_owned();
    let (status, body) = stage.tool("flock_mcp_tools", "coder", MAIN, json!({})).await;
    assert_eq!((status, &body["isError"]), (200, &false.into()), "{body}");
    assert_eq!(text(&body), "No tool of an MCP server is granted to you.");
    let (_, body) = stage.tool("flock_mcp_tools", "coder", MAIN, json!({"tool": "mcp_notes_search"})).await;
    assert!(body["isError"] == true && text(&body).contains("is not granted to you"), "{body}");
    let (status, body) = stage.tool("mcp_notes_search", "coder", MAIN, json!({})).await;
    assert!(status == 200 && body["isError"] == true, "{body}");
    let (status, body) = stage.tool("flock_mcp_tools", "tester", "agent:tester:main", json!({})).await;
    assert_eq!((status, &body["error"]["code"]), (403, &"not_an_agent_of_openclaw".into()), "{body}");
}

#[tokio::test]
async fn the_plugin_says_what_mends_it_where_flock_is_not_there() {
    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let (silent, _seen) = gateway(None).await;
    let (odd, _seen) = gateway(Some("not JSON")).await;
    let (refusing, _seen) =
        gateway(Some(r#"{"error":{"message":"no such agent","hint":"flock list"}}"#)).await;
    for (url, abort, wanted) in [
        (format!("http://127.0.0.1:{closed}"), None, "does not answer at http://127.0.0.1:"),
        (format!("http://127.0.0.1:{closed}"), None, "Run: flock start"),
        (silent, Some(50), "the call was stopped"),
        (odd, None, "is not JSON. See: flock logs gateway"),
        (refusing, None, "flock refused the call: no such agent. Run: flock list"),
        ("http://flock.example:3779".to_owned(), None, "not one of this machine"),
        ("https://127.0.0.1:3779".to_owned(), None, "not one of this machine"),
    ] {
        let scene = json!([["call", "flock_status", context(), {}, abort]]);
        let results = tokio::task::spawn_blocking(move || Alone::new().play(&url, &scene)).await.unwrap();
        let text = results[0]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Error: ") && text.contains(wanted), "{wanted}: {text}");
        assert_eq!(results[0]["isError"], true);
        assert!(!text.contains("t0ken"));
    }
    let alone = Alone::new();
    std::fs::remove_file(alone.home.secrets().join(plugin::SECRET)).unwrap();
    let scene = json!([["call", "flock_status", context(), {}]]);
    let text = alone.play("http://127.0.0.1:1", &scene)[0].to_string();
    assert!(text.contains("can't read its token (ENOENT). Run: flock restart"), "{text}");
}

#[tokio::test]
async fn the_plugin_reports_each_call_once_in_every_versions_way() {
    let (url, mut seen) = gateway(Some(r#"{"recorded":true}"#)).await;
    let event = |id: Value| json!({"toolName": "exec", "params": {"command": "ls"}, "toolCallId": id});
    let named = event("a".into());
    let nameless = json!({"toolName": "exec", "params": {"command": "pwd"}});
    let mut after_nameless = event("b".into());
    after_nameless["params"] = json!({"command": "pwd"});
    let odd = json!({"toolName": "exec", "params": {"big": "x".repeat(100_000)}, "toolCallId": "c"});
    let scene = json!([
        // All ids; the end is told twice and without a session.
        ["hook", "before_tool_call", named, context()],
        ["hook", "after_tool_call", named, {}],
        ["hook", "after_tool_call", named, {}],
        // The beginning has no id.
        ["hook", "before_tool_call", nameless, context()],
        ["hook", "after_tool_call", after_nameless, {}],
        // Only a beginning, and a long one.
        ["hook", "before_tool_call", odd, context()],
        // flock's own calls are recorded by flock; nothing at all does no harm.
        ["hook", "before_tool_call", {"toolName": "flock_status", "toolCallId": "d"}, context()],
        ["hook", "after_tool_call", {"toolName": "flock_status", "toolCallId": "d"}, context()],
        ["hook", "after_tool_call", null, null],
        ["hook", "agent_end", {"success": true}, context()],
    ]);
    tokio::task::spawn_blocking(move || Alone::new().play(&url, &scene)).await.unwrap();
    let mut told = Vec::new();
    while let Ok(Some((path, body))) = tokio::time::timeout(
        if told.len() < 6 { LIMIT } else { std::time::Duration::from_millis(100) },
        seen.recv(),
    )
    .await
    {
        assert_eq!(path, "/api/plugin/events");
        assert_eq!((&body["agentId"], &body["sessionKey"]), (&"coder".into(), &MAIN.into()), "{body}");
        assert!(body.to_string().len() < 40_000);
        told.push(body);
    }
    let kinds: Vec<&str> = told.iter().map(|body| body["event"].as_str().unwrap()).collect();
    let (before, after) = ("before_tool_call", "after_tool_call");
    assert_eq!(kinds, [before, after, before, after, before, "agent_end"]);
    assert_eq!((&told[0]["toolCallId"], &told[1]["toolCallId"]), (&"a".into(), &"a".into()));
    assert_eq!(told[2]["toolCallId"], told[3]["toolCallId"], "matched by what was called");
}
