//! Every answer of a gateway has the form that the OpenAPI document describes.

pub mod document;
mod engines;
mod hooks;
mod projects;
mod schedules;
mod skills;
mod storage;

use std::time::Duration;

use flock::gateway::openapi;
use flock::supervise::gateway_client::{Answer, Call, Client, ServerSentEvent};
use serde_json::{Value, json};

use self::document::Document;
use super::crew::Crew;
use super::house::{House, LIMIT, ask, ask_streamed};
use crate::openclaw::stage::Stage;
use crate::support::home::TempHome;
use crate::support::matrix_server::{self, MatrixServer, ROOM};
use crate::support::openclaw::Era;
use crate::support::receipt::receipt;
use crate::team::approvals::{has_mount, later, wants};
use crate::team::stage::{Served, add};

const NOTHING: Value = Value::Null;
/// The smallest picture.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SESSION: &str = "agent:coder:flock:main:ann";

/// A gateway of its own process with the agent `coder`, a bridge, and requests that wait.
struct Scene {
    home: TempHome,
    owner: Client,
    document: Document,
    /// The id of a receipt.
    receipt: String,
    _matrix: MatrixServer,
}

impl Scene {
    fn new() -> (Self, Served) {
        let matrix = MatrixServer::start();
        let home = TempHome::new().init();
        let replies = json!([
            {"when": "look around", "steps": [{"calls": [{"name": "flock_status", "arguments": {}}]}, {"say": "seen"}]},
            {"when": "ask the client", "steps": [
                {"say": "I ask.", "calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]}, {"say": "mild"}]},
            {"when": "go slowly", "steps": [{"say": "word ".repeat(20_000), "pace_ms": 50}]},
            {"when": "be flaky", "steps": [{"error": {"status": 503, "message": "busy", "retry_after_ms": 1}}]},
            {"steps": [{"say": "hello"}]},
        ]);
        add(&home, "coder", &replies);
        let args = ["bridge", "add", "matrix", "--homeserver", matrix.url(), "--token-file", "-", "--json"];
        home.flock_with_input(args, matrix_server::TOKEN).ok();
        wants(&home, "r-approved", "true", later());
        wants(&home, "r-denied", "false", later());
        has_mount(&home, "r-granted", "coder", &home.outside());
        skills::plant(&home);
        let receipt = tokio::runtime::Handle::current().block_on(receipt(&home));
        let served = Served::start(&home);
        let owner = home.owner();
        let document = Document::new(openapi::document().clone());
        (Self { home, owner, document, receipt, _matrix: matrix }, served)
    }

    async fn get(&self, path: &str) -> Value {
        self.document.get(&self.owner, path).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.document.done(&self.owner, "POST", path, &body).await
    }

    async fn delete(&self, path: &str) -> Value {
        self.document.done(&self.owner, "DELETE", path, &NOTHING).await
    }

    /// Sends a request that fails with this status and code.
    async fn fails(&self, method: &str, path: &str, body: Value, status: u16, code: &str) {
        let found = self.document.fails(&self.owner, method, path, &body, status).await;
        assert_eq!(found, code, "{method} {path}");
    }

    /// Asks until the answer is as wanted.
    async fn until(&self, what: &str, path: &str, is_wanted: impl Fn(&Value) -> bool) {
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            let answer = self.get(path).await;
            if is_wanted(&answer) {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{what}: not in time: {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Reads a stream to its end.
async fn events(answer: Answer) -> Vec<ServerSentEvent> {
    let mut stream = answer.events();
    let mut all = Vec::new();
    while let Some(event) = stream.next(LIMIT * 3).await.unwrap() {
        all.push(event);
    }
    all
}

#[tokio::test]
async fn every_answer_fits_the_document() {
    // The commands and the database of the scene wait for threads of their own.
    let (scene, served) = tokio::task::spawn_blocking(Scene::new).await.unwrap();
    let document = &scene.document;
    assert_eq!(scene.get("/api/openapi.json").await, *openapi::document());
    let watched = document.open(&scene.owner, "GET", "/api/events", &NOTHING, &[]).await;
    let watched = tokio::spawn(events(watched));

    look_at_the_gateway(&scene).await;
    use_tokens(&scene).await;
    use_channels(&scene).await;
    use_sessions(&scene).await;
    use_models(&scene).await;
    use_responses(&scene).await;
    use_tasks(&scene).await;
    decide(&scene).await;
    use_agents(&scene).await;
    use_bridges(&scene).await;
    projects::use_projects(&scene).await;
    projects::use_races(&scene).await;
    schedules::use_schedules(&scene).await;
    engines::use_engines(&scene).await;
    hooks::use_hooks(&scene).await;
    skills::use_skills(&scene).await;
    use_up(&scene).await;
    use_the_dashboard(&scene).await;
    use_people(&scene).await;
    use_mcp_servers(&scene).await;
    storage::use_storage(&scene).await;
    use_the_machine(&scene).await;
    look_at_receipts_and_generations(&scene).await;
    for path in [
        "/api/audit?limit=100",
        "/api/usage?by=model",
        "/api/usage?since=2026-01-01",
        "/api/usage?by=model&format=csv",
        "/metrics?channels=1",
    ] {
        scene.get(path).await;
    }
    scene.fails("GET", "/api/usage?format=xml", NOTHING, 400, "invalid_query").await;
    let budgets = scene.get("/api/usage/budgets").await;
    assert!(budgets["budgets"].is_array(), "{budgets}");
    let hours = scene.get("/api/usage/hours").await;
    assert!(!hours["agents"].as_array().unwrap().is_empty(), "{hours}");
    let new = json!({"id": "newcomer", "model": "script/demo", "by": "ann"});
    assert_eq!(scene.post("/api/agents", new.clone()).await["role"], "worker");
    scene.fails("POST", "/api/agents", new, 409, "conflict").await;
    scene.fails("POST", "/api/agents", json!({"id": "other", "archetype": "none"}), 400, "usage").await;
    let agents = scene.get("/api/agents").await;
    assert!(agents["agents"].as_array().unwrap().iter().any(|agent| agent["id"] == "newcomer"), "{agents}");
    let graph = scene.get("/api/graph").await;
    assert!(!graph["turns"].as_array().unwrap().is_empty(), "{graph}");
    assert!(!graph["contacts"].as_array().unwrap().is_empty(), "{graph}");
    let later = scene.get(&format!("/api/graph?since={}", i64::MAX / 2)).await;
    assert_eq!(later["contacts"], json!([]), "nothing is newer: {later}");
    scene.fails("GET", "/api/graph?since=yesterday", NOTHING, 400, "invalid_query").await;
    let resumed = document.open(&scene.owner, "GET", "/api/events?lastEventId=0", &NOTHING, &[]).await;
    let resumed = tokio::spawn(events(resumed));

    tokio::task::spawn_blocking(|| served.stop()).await.unwrap();
    let (watched, resumed) = (watched.await.unwrap(), resumed.await.unwrap());
    assert_eq!(resumed[0].name, "reset", "the gateway has no such event");
    for event in watched.iter().chain(&resumed) {
        document.check_event("GET", "/api/events", &event.name, &event.data);
    }
    for name in [
        "turn.started",
        "turn.ended",
        "tool.ended",
        "task.changed",
        "approval.decided",
        "approval.revoked",
        "channel.created",
        "channel.message",
        "agent.added",
        "turn.retrying",
        "channel.changed",
        "agent.frozen",
        "config.changed",
        "gateway.stopping",
    ] {
        assert!(watched.iter().any(|event| event.name == name), "no event {name}: {watched:?}");
    }

    fail_turns(document).await;
    run_a_program(document).await;
    be_the_plugin(document).await;
    document.assert_kept();

    let used = document.used();
    eprintln!("operations that were used, with the statuses of their answers: {used:#?}");
    let missing: Vec<String> = document
        .operations("get")
        .into_iter()
        .filter(|id| !used.get(id).is_some_and(|statuses| statuses.contains(&200)))
        .collect();
    assert!(missing.is_empty(), "no answer of these was checked: {missing:?}");
    for method in ["post", "put", "delete"] {
        let unused: Vec<String> =
            document.operations(method).into_iter().filter(|id| !used.contains_key(id)).collect();
        assert!(unused.is_empty(), "these were not used: {unused:?}");
    }
    for status in [201, 202, 304, 400, 401, 403, 404, 409, 413, 422, 423, 424, 429, 502] {
        assert!(used.values().any(|statuses| statuses.contains(&status)), "no answer was {status}");
    }
}

async fn look_at_the_gateway(scene: &Scene) {
    let document = &scene.document;
    let stranger = Client::new(scene.home.port());
    document.get(&stranger, "/health").await;
    let challenge = "ab".repeat(32);
    let (status, health) =
        document.ask(&stranger, "GET", "/health", &NOTHING, &[("x-flock-challenge", &challenge)]).await;
    assert!(status == 200 && health["proof"].is_string(), "{health}");
    for path in ["/api/openapi.json", "/api/status", "/v1/models"] {
        let code = document.fails(&stranger, "GET", path, &NOTHING, 401).await;
        assert_eq!(code, "no_token", "{path}");
    }
    scene.get("/api/status").await;
    scene.get("/metrics").await;
    scene.fails("GET", "/metrics?channels=some", NOTHING, 400, "invalid_query").await;
}

async fn use_mcp_servers(scene: &Scene) {
    // No engine is needed for a server that is not started.
    scene.home.flock(["mcp", "add", "notes", "--", "notes"]).ok();
    assert_eq!(scene.get("/api/mcp/servers").await["servers"][0]["name"], "notes");
    assert_eq!(scene.get("/api/mcp/servers/notes").await["server"]["running"], false);
    scene.fails("GET", "/api/mcp/servers/other", NOTHING, 404, "mcp_server_not_found").await;
    scene.fails("POST", "/api/mcp/servers/other/test", NOTHING, 404, "mcp_server_not_found").await;
    let grant = "/api/mcp/servers/notes/grant";
    scene.fails("POST", grant, json!({"agent": "coder", "tools": []}), 400, "invalid_body").await;
    let tools = json!([{"name": "read", "sha256": "00"}]);
    scene.fails("POST", grant, json!({"agent": "nobody", "tools": tools}), 404, "agent_not_found").await;
    let sampling = json!({"agent": "coder", "capabilities": ["sampling"], "by": "ann"});
    assert_eq!(scene.post(grant, sampling.clone()).await["capabilities"], json!(["sampling"]));
    let shown = scene.get("/api/mcp/servers/notes").await;
    assert_eq!(shown["server"]["capabilities"][0]["today"]["calls"], 0, "{shown}");
    assert_eq!(scene.post("/api/mcp/servers/notes/revoke", sampling).await["revoked"], 1);
    let both = json!({"agent": "coder", "capabilities": ["sampling", "elicitation"], "by": "ann"});
    scene.post(grant, both).await;
    let revoked = scene.post("/api/mcp/servers/notes/revoke", json!({"agent": "coder"})).await;
    assert_eq!(revoked["revoked"], 2, "without a list, all of it");
    let revoked = scene.post("/api/mcp/servers/notes/revoke", json!({"agent": "coder", "by": "ann"})).await;
    assert_eq!(revoked["revoked"], 0);
    assert_eq!(scene.delete("/api/mcp/servers/notes?by=ann").await["removed"], "notes");
    assert_eq!(scene.get("/api/mcp/servers").await["servers"], json!([]));
}

async fn use_tokens(scene: &Scene) {
    let wanted =
        json!({"name": "ci", "agents": ["coder"], "rights": ["a2a"], "expiresAt": later(), "by": "ann"});
    let token = scene.post("/api/tokens", wanted.clone()).await["token"].as_str().unwrap().to_owned();
    scene.fails("POST", "/api/tokens", wanted, 409, "conflict").await;
    scene.fails("POST", "/api/tokens", json!({"name": "x"}), 400, "invalid_body").await;
    let client = Client::new(scene.home.port()).with_token(&token);
    // Each right opens the document.
    scene.document.get(&client, "/api/openapi.json").await;
    for path in ["/api/agents", "/api/tokens", "/v1/models", "/api/audit"] {
        let code = scene.document.fails(&client, "GET", path, &NOTHING, 403).await;
        assert_eq!(code, "out_of_scope", "{path}");
    }
    scene.document.get(&client, "/.well-known/agent-card.json").await;
    scene.delete("/api/tokens/ci?by=ann").await;
    scene.fails("DELETE", "/api/tokens/nobody", NOTHING, 404, "token_not_found").await;
    assert_eq!(scene.get("/api/tokens").await["tokens"][0]["name"], "ci");
}

async fn use_channels(scene: &Scene) {
    let (document, owner) = (&scene.document, &scene.owner);
    let new = json!({"id": "dev", "topic": "work", "members": ["coder", "human:ann"], "message": "welcome", "as": "ann"});
    scene.post("/api/channels", new.clone()).await;
    scene.fails("POST", "/api/channels", new, 409, "conflict").await;
    scene.fails("POST", "/api/channels", json!({"id": "dev", "topic": 5}), 400, "invalid_body").await;
    let post = json!({"content": "anybody there?", "as": "ann", "notify": false});
    let key = [("idempotency-key", "one")];
    for status in [201, 201] {
        let (found, posted) = document.ask(owner, "POST", "/api/channels/dev/messages", &post, &key).await;
        assert_eq!(found, status, "{posted}");
    }
    let other = json!({"content": "something else"});
    let (status, _) = document.ask(owner, "POST", "/api/channels/dev/messages", &other, &key).await;
    assert_eq!(status, 422);
    let long = json!({"content": "x".repeat((1 << 20) + 1)});
    scene.fails("POST", "/api/channels/dev/messages", long, 413, "message_too_large").await;
    for path in [
        "/api/channels?state=active&member=coder",
        "/api/channels/dev",
        "/api/channels/dev/messages?before=3&limit=1",
        "/api/channels/dev/messages?q=anybody",
    ] {
        scene.get(path).await;
    }
    use_files(scene).await;
    let found = scene.get("/api/search?q=anybody&limit=5").await;
    assert_eq!(found["messages"][0]["channelId"], "dev", "{found}");
    scene.fails("GET", "/api/search", NOTHING, 400, "invalid_query").await;
    use_memory_search(scene).await;
    scene.fails("GET", "/api/channels?state=new", NOTHING, 400, "invalid_query").await;
    scene.fails("GET", "/api/channels/nowhere", NOTHING, 404, "channel_not_found").await;
    document.done(owner, "PUT", "/api/channels/dev", &json!({"name": "Dev", "topic": null})).await;
    scene.post("/api/channels/dev/members", json!({"add": ["orchestrator"], "remove": ["human:ann"]})).await;
    for action in ["begin", "cancel", "force", "reopen"] {
        let channel = scene.post("/api/channels/dev/archive", json!({"action": action})).await;
        assert_eq!(channel["archive"].is_object(), action == "begin", "{channel}");
    }
}

/// A result of each kind of place.
async fn use_memory_search(scene: &Scene) {
    std::fs::write(scene.home.file("workspaces/coder/MEMORY.md"), "anybody has the key").unwrap();
    std::fs::write(scene.home.file("vaults/shared/notes.md"), "anybody may read this").unwrap();
    let found = scene.get("/api/search/memory?q=anybody&agent=coder&limit=50").await;
    let areas: Vec<&str> =
        found["results"].as_array().unwrap().iter().map(|found| found["in"].as_str().unwrap()).collect();
    for area in ["memory", "vaults", "channels"] {
        assert!(areas.contains(&area), "{found}");
    }
    assert!(scene.get("/api/status").await["searchIndex"]["messagesBehind"].is_u64());
    let found = scene.get("/api/search/memory?q=anybody&in=vaults,findings").await;
    assert_eq!(found["results"].as_array().unwrap().len(), 1, "{found}");
    scene.fails("GET", "/api/search/memory?q=x&in=secrets", NOTHING, 400, "invalid_query").await;
    scene.fails("GET", "/api/search/memory?q=%22", NOTHING, 400, "usage").await;
    scene.fails("GET", "/api/search/memory?q=x&agent=nobody", NOTHING, 404, "agent_not_found").await;
    let file = scene.get("/api/search/memory/file?agent=coder&path=MEMORY.md").await;
    assert_eq!((&file["in"], &file["text"]), (&json!("memory"), &json!("anybody has the key")), "{file}");
    let file = scene.get("/api/search/memory/file?vault=shared&path=notes.md").await;
    assert_eq!((&file["vault"], &file["isWhole"]), (&json!("shared"), &json!(true)), "{file}");
    for (query, status, code) in [
        ("path=MEMORY.md", 400, "invalid_query"),
        ("agent=coder&vault=shared&path=MEMORY.md", 400, "invalid_query"),
        ("agent=nobody&path=MEMORY.md", 404, "agent_not_found"),
        ("agent=coder&path=SOUL.md", 404, "file_not_found"),
        ("agent=coder&path=memory/../SOUL.md", 404, "file_not_found"),
        ("vault=shared&path=../../config.json", 404, "file_not_found"),
        ("vault=nowhere&path=notes.md", 404, "file_not_found"),
    ] {
        scene.fails("GET", &format!("/api/search/memory/file?{query}"), NOTHING, status, code).await;
    }
}

/// Pictures and files of a session, and a turn that can not be taken back any more.
async fn show_things(scene: &Scene) {
    let (document, owner) = (&scene.document, &scene.owner);
    let sent = document.done(owner, "PUT", "/api/files?name=notes.json", &json!([])).await;
    let url = format!("data:image/png;base64,{PNG}");
    let look = json!([{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": url}}]);
    let asked = json!({"model": "coder", "messages": [{"role": "user", "content": look}]});
    let headers = [("x-openclaw-session-key", SESSION), ("x-flock-files", sent["id"].as_str().unwrap())];
    let (status, answer) = document.ask(owner, "POST", "/v1/chat/completions", &asked, &headers).await;
    assert_eq!(status, 200, "{answer}");
    let (status, _) = document.ask(owner, "POST", "/v1/chat/completions", &asked, &headers).await;
    assert_eq!(status, 404, "the file was used");
    let transcript = scene.get(&format!("/api/sessions/{SESSION}/transcript?limit=1")).await;
    let (turn, items) =
        (&transcript["turns"][0]["turn"], transcript["turns"][0]["items"].as_array().unwrap());
    let picture = items.iter().find(|item| item["kind"] == "picture").unwrap();
    assert_eq!(picture["n"], 0, "{transcript}");
    let text = items[0]["text"].as_str().unwrap();
    assert!(text.starts_with("hello\n\n[attachment: inbox/chat/"), "{transcript}");
    let turn = format!("/api/sessions/{SESSION}/turns/{}", turn.as_str().unwrap());
    scene.get(&format!("{turn}/pictures/0")).await;
    scene.fails("GET", &format!("{turn}/pictures/1"), NOTHING, 404, "picture_not_found").await;
    scene.fails("DELETE", &turn, NOTHING, 404, "turn_not_found").await;
}

async fn use_files(scene: &Scene) {
    // The bytes of the file happen to be JSON.
    let sent = scene.document.done(&scene.owner, "PUT", "/api/files?name=plan.json", &json!({"a": 1})).await;
    assert_eq!((&sent["bytes"], &sent["mediaType"]), (&json!(7), &NOTHING), "{sent}");
    scene.fails("PUT", "/api/files", json!({}), 400, "invalid_query").await;
    let post = json!({"content": "", "files": [sent["id"]], "notify": false});
    let posted = scene.post("/api/channels/dev/messages", post.clone()).await;
    assert_eq!(posted["notes"], json!([]), "{posted}");
    scene.fails("POST", "/api/channels/dev/messages", post, 404, "file_not_found").await;
    let page = scene.get("/api/channels/dev/messages?limit=1").await;
    let file = &page["messages"][0]["files"][0];
    assert_eq!((&file["name"], &file["isThere"]), (&json!("plan.json"), &json!(true)), "{page}");
    let at = format!("/api/channels/dev/messages/{}/files", posted["seq"]);
    scene.get(&format!("{at}/0")).await;
    scene.fails("GET", &format!("{at}/1"), NOTHING, 404, "file_not_found").await;
    scene.fails("GET", "/api/channels/dev/messages/99/files/0", NOTHING, 404, "message_not_found").await;
}

async fn use_sessions(scene: &Scene) {
    let (document, owner) = (&scene.document, &scene.owner);
    let prompt = json!({"prompt": "look around", "agent": "coder", "sessionKey": SESSION, "forceNew": true});
    let key = [("idempotency-key", "two")];
    for _ in 0..2 {
        let (status, answer) = document.ask(owner, "POST", "/api/message", &prompt, &key).await;
        assert_eq!((status, &answer["sessionKey"]), (200, &json!(SESSION)), "{answer}");
    }
    scene.fails("POST", "/api/message", json!({"prompt": " "}), 400, "no_user_message").await;
    scene
        .fails("POST", "/api/message", json!({"prompt": "x", "agent": "nobody"}), 404, "agent_not_found")
        .await;
    scene.get(&format!("/api/messages?sessionKey={SESSION}&includeTrace=1")).await;
    let listed = scene.get("/api/messages?agent=coder&limit=1").await;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 1, "{listed}");
    let sessions = scene.get("/api/sessions").await;
    assert!(sessions["sessions"].as_array().unwrap().iter().any(|session| session["key"] == SESSION));
    scene.get("/api/sessions?agent=coder").await;
    scene.get(&format!("/api/sessions/{SESSION}")).await;
    scene
        .fails("GET", "/api/sessions/agent:coder:flock:main:nobody", NOTHING, 404, "session_not_found")
        .await;
    let transcript = scene.get(&format!("/api/sessions/{SESSION}/transcript")).await;
    let items = transcript["turns"][0]["items"].as_array().unwrap();
    for kind in ["message", "call"] {
        assert!(items.iter().any(|item| item["kind"] == kind), "no {kind}: {transcript}");
    }
    assert!(transcript["turns"][0]["trace"].is_null(), "{transcript}");
    let turn = transcript["turns"][0]["turn"].as_str().unwrap();
    let only = format!("/api/sessions/{SESSION}/transcript?until={turn}&limit=1&includeTrace=1");
    let only = scene.get(&only).await;
    assert_eq!(only["turns"][0]["turn"], turn);
    assert!(only["turns"][0]["trace"].is_array(), "{only}");
    let both = format!("/api/sessions/{SESSION}/transcript?until={turn}&before={turn}");
    scene.fails("GET", &both, NOTHING, 400, "invalid_query").await;
    let prompt = scene.get(&format!("/api/sessions/{SESSION}/prompt")).await;
    assert!(prompt["sections"][0]["text"].as_str().is_some_and(|text| !text.is_empty()), "{prompt}");
    let unknown = "/api/sessions/agent:coder:flock:main:nobody/prompt";
    scene.fails("GET", unknown, NOTHING, 404, "session_not_found").await;
    scene.fails("GET", "/api/sessions/x/transcript", NOTHING, 400, "invalid_session_key").await;
    let before = format!("/api/sessions/{SESSION}/transcript?before=x");
    scene.fails("GET", &before, NOTHING, 400, "invalid_query").await;
    let stopped = scene.post(&format!("/api/sessions/{SESSION}/stop"), NOTHING).await;
    assert_eq!(stopped["cancelled"], 0);
    show_things(scene).await;
    let long = json!({"prompt": "x ".repeat(200_000), "agent": "coder", "sessionKey": SESSION});
    scene.post("/api/message", long).await;
    let compacted = scene.post(&format!("/api/sessions/{SESSION}/compact"), NOTHING).await;
    assert!(compacted["compacted"].is_object(), "{compacted}");
    scene.get(&format!("/api/sessions/{SESSION}")).await;
    let page = scene.get(&format!("/api/sessions/{SESSION}/transcript?limit=1")).await;
    let before = page["before"].as_str().unwrap();
    scene.get(&format!("/api/sessions/{SESSION}/transcript?before={before}")).await;
    scene.post(&format!("/api/sessions/{SESSION}/reset"), NOTHING).await;
    let import = json!({"key": SESSION, "file": "x"});
    scene.fails("POST", "/api/sessions", import, 400, "no_transcript").await;
    // The command has imported one. A copy of it under another key is as good.
    let file = scene.home.outside().join("session.json");
    let file = file.to_str().unwrap();
    scene.home.flock(["session", "export", SESSION, file]).ok();
    scene.home.flock(["session", "import", file, "--session", "agent:coder:flock:main:ben"]).ok();
    let folder = scene.home.file("agents/coder/sessions");
    let texts = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let imported =
        texts.into_iter().find(|text| text.lines().next().unwrap().contains(":main:ben\"")).unwrap();
    let name = "0198c0de-0000-7000-8000-000000000001";
    std::fs::write(folder.join(format!("{name}.jsonl")), imported.replace(":main:ben\"", ":main:eve\""))
        .unwrap();
    let import = json!({"key": "agent:coder:flock:main:eve", "file": name});
    scene.post("/api/sessions", import.clone()).await;
    scene.fails("POST", "/api/sessions", import, 409, "session_exists").await;
}

async fn use_models(scene: &Scene) {
    let (document, owner) = (&scene.document, &scene.owner);
    scene.get("/v1/models").await;
    scene.get("/v1/models/flock/coder").await;
    scene.fails("GET", "/v1/models/nobody", NOTHING, 404, "model_not_found").await;
    scene.post("/v1/chat/completions", ask("hello")).await;
    let mut tools = ask("hello");
    tools["tools"] = json!([{"type": "function", "function": {"name": "read"}}]);
    scene.fails("POST", "/v1/chat/completions", tools, 400, "tool_name_taken").await;
    let mut streamed = ask_streamed("look around");
    streamed["stream_options"] = json!({"include_usage": true});
    let activity = [("x-flock-activity", "1")];
    let answer = document.open(owner, "POST", "/v1/chat/completions", &streamed, &activity).await;
    let parts = events(answer).await;
    assert!(parts.iter().any(|part| part.name == "tool.ended"), "{parts:?}");
    assert_eq!(parts.last().unwrap().data, "[DONE]");
    for part in &parts[..parts.len() - 1] {
        document.check_event("POST", "/v1/chat/completions", &part.name, &part.data);
    }
    let mut brings = ask("ask the client");
    brings["tools"] = json!([{"type": "function", "function": {"name": "weather"}}]);
    let handed = scene.post("/v1/chat/completions", brings.clone()).await;
    let call = &handed["choices"][0]["message"]["tool_calls"][0]["id"];
    let listed = scene.get("/api/sessions?agent=coder").await.to_string();
    assert!(listed.contains(call.as_str().unwrap()), "{listed}");
    brings["stream"] = json!(true);
    let parts = events(document.open(owner, "POST", "/v1/chat/completions", &brings, &[]).await).await;
    for part in &parts[..parts.len() - 1] {
        document.check_event("POST", "/v1/chat/completions", &part.name, &part.data);
    }
    let settings = json!({"agent": "coder", "cli": "native", "effort": "low"});
    document.done(owner, "PUT", "/api/settings", &settings).await;
    scene.fails("PUT", "/api/settings", json!({"cli": "emacs"}), 400, "unknown_runtime").await;
}

async fn use_responses(scene: &Scene) {
    let document = &scene.document;
    let first = scene.post("/v1/responses", json!({"model": "coder", "input": "hello"})).await;
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    assert_eq!(scene.get(&path).await, first);
    let asked = json!({"model": "coder", "input": "look around", "previous_response_id": first["id"], "stream": true});
    let answer = document.open(&scene.owner, "POST", "/v1/responses", &asked, &[]).await;
    let parts = events(answer).await;
    for part in &parts {
        document.check_event("POST", "/v1/responses", &part.name, &part.data);
    }
    assert!(parts.iter().any(|part| part.name == "response.mcp_call.completed"), "{parts:?}");
    assert_eq!(parts.last().unwrap().name, "response.completed");
    let mut brings = json!({"model": "coder", "input": "ask the client",
        "tools": [{"type": "function", "name": "weather"}]});
    scene.post("/v1/responses", brings.clone()).await;
    brings["stream"] = json!(true);
    let parts = events(document.open(&scene.owner, "POST", "/v1/responses", &brings, &[]).await).await;
    for part in &parts {
        document.check_event("POST", "/v1/responses", &part.name, &part.data);
    }
    assert!(parts.iter().any(|part| part.name == "response.function_call_arguments.done"), "{parts:?}");
    let tools = json!({"model": "coder", "input": "x", "tools": [{"type": "web_search"}]});
    scene.fails("POST", "/v1/responses", tools, 400, "parameter_not_supported").await;
    assert_eq!(scene.delete(&path).await["deleted"], true);
    scene.fails("GET", &path, NOTHING, 404, "response_not_found").await;
    scene.fails("DELETE", &path, NOTHING, 404, "response_not_found").await;
}

/// A call of A2A that begins a task.
fn message(method: &str, text: &str, waits: bool) -> Value {
    let message = json!({"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]});
    let params = json!({"message": message, "configuration": {"returnImmediately": !waits}});
    json!({"jsonrpc": "2.0", "id": text, "method": method, "params": params})
}

async fn use_tasks(scene: &Scene) {
    let (document, owner) = (&scene.document, &scene.owner);
    for path in [
        "/.well-known/agent-card.json",
        "/flock/.well-known/agent-card.json",
        "/flock/a2a/coder/.well-known/agent-card.json",
    ] {
        scene.get(path).await;
    }
    let any = [("if-none-match", "*")];
    let (status, _) = document.ask(owner, "GET", "/.well-known/agent-card.json", &NOTHING, &any).await;
    assert_eq!(status, 304);
    let answered = scene.post("/flock/a2a/coder", message("SendMessage", "hello", true)).await;
    let done = answered["result"]["task"]["id"].as_str().unwrap().to_owned();
    let begun = scene.post("/flock/a2a/coder/", message("SendMessage", "go slowly", false)).await;
    let slow = begun["result"]["task"]["id"].as_str().unwrap().to_owned();
    scene.post("/flock/a2a/coder", message("Nonsense", "x", true)).await;
    scene.fails("POST", "/flock/a2a/nobody", message("SendMessage", "x", true), 404, "agent_not_found").await;
    let call = message("SendStreamingMessage", "again", true);
    let answer = document.open(owner, "POST", "/flock/a2a/coder", &call, &[]).await;
    for event in events(answer).await {
        document.check_event("POST", "/flock/a2a/coder", &event.name, &event.data);
    }
    for (id, state) in [(&done, "completed"), (&slow, "working")] {
        scene.until(state, &format!("/api/tasks/{id}"), |task| task["state"] == state).await;
    }
    scene.get("/api/tasks?agent=coder&limit=10").await;
    assert!(!scene.get("/api/sessions").await["turns"].as_array().unwrap().is_empty());
    scene.post(&format!("/api/tasks/{slow}/cancel"), NOTHING).await;
    scene.fails("POST", &format!("/api/tasks/{slow}/cancel"), NOTHING, 409, "task_ended").await;
    scene.fails("GET", "/api/tasks/nothing", NOTHING, 404, "task_not_found").await;
    scene.fails("GET", "/api/tasks?state=done", NOTHING, 400, "invalid_filter").await;
}

async fn decide(scene: &Scene) {
    let listed = scene.get("/api/approvals?state=all").await;
    assert_eq!(listed["requests"].as_array().unwrap().len(), 3, "{listed}");
    let request = scene.get("/api/approvals/r-approved").await;
    scene.fails("GET", "/api/approvals/r-nothing", NOTHING, 404, "request_not_found").await;
    let wrong = json!({"sha256": "0".repeat(64)});
    scene.fails("POST", "/api/approvals/r-approved/approve", wrong, 409, "changed").await;
    let approval = json!({"sha256": request["request"]["sha256"], "by": "ann"});
    scene.post("/api/approvals/r-approved/approve", approval).await;
    let answer = json!({"sha256": request["request"]["sha256"], "values": {"a": 1}, "by": "ann"});
    scene.fails("POST", "/api/approvals/r-nothing/answer", answer.clone(), 404, "request_not_found").await;
    scene.fails("POST", "/api/approvals/r-denied/answer", answer, 409, "no_question").await;
    scene.post("/api/approvals/r-denied/deny", json!({"reason": "no", "by": "ann"})).await;
    scene.post("/api/approvals/r-granted/revoke", json!({"by": null})).await;
}

async fn use_agents(scene: &Scene) {
    scene.post("/api/agents/coder/checkpoints", json!({"note": "before", "by": "ann"})).await;
    let listed = scene.get("/api/agents/coder/checkpoints").await;
    let number = listed["checkpoints"][0]["number"].clone();
    scene.fails("POST", "/api/agents/nobody/checkpoints", json!({}), 404, "agent_not_found").await;
    let long = json!({"note": "x".repeat(301)});
    scene.fails("POST", "/api/agents/coder/checkpoints", long, 400, "note_too_long").await;
    scene.post("/api/agents/coder/rewind", json!({"checkpoint": number, "dryRun": true})).await;
    scene.fails("POST", "/api/agents/coder/rewind", json!({"checkpoint": 999}), 400, "usage").await;
    let both = json!({"checkpoint": 1, "undo": true});
    scene.fails("POST", "/api/agents/coder/rewind", both, 400, "invalid_request").await;
    scene.post("/api/agents/coder/fork", json!({"name": "copy", "checkpoint": number})).await;
    scene.fails("POST", "/api/agents/coder/fork", json!({"name": "copy"}), 409, "conflict").await;
    scene.fails("POST", "/api/agents/coder/fork", json!({"name": "A B"}), 400, "invalid_id").await;
    // A frozen agent has no turn that would be in the way.
    scene.post("/api/agents/copy/freeze?by=ann", NOTHING).await;
    scene.post("/api/channels", json!({"id": "calm", "topic": "x", "members": ["copy"], "as": "ann"})).await;
    scene.post("/api/channels/calm/fork", json!({"name": "calm2", "by": "ann"})).await;
    scene.fails("POST", "/api/channels/calm/fork", json!({"name": "calm2"}), 409, "conflict").await;
    scene.fails("POST", "/api/channels/none/fork", json!({"name": "calm3"}), 404, "channel_not_found").await;
    scene.post("/api/agents/coder/freeze?by=ann&reason=it%20loops", NOTHING).await;
    let agents = scene.get("/api/agents").await;
    assert!(agents["agents"].as_array().unwrap().iter().any(|agent| agent["frozen"].is_object()), "{agents}");
    scene.fails("POST", "/api/message", json!({"prompt": "x", "agent": "coder"}), 423, "agent_frozen").await;
    scene.fails("POST", "/v1/chat/completions", ask("x"), 423, "agent_frozen").await;
    for path in ["/api/agents/coder/thaw", "/api/freeze", "/api/thaw?by=ann", "/api/agents/sysadmin/prepare"]
    {
        scene.post(path, NOTHING).await;
    }
    scene.post("/api/quota/resume?by=ann&credential=lab&agent=coder", NOTHING).await;
    scene.fails("POST", "/api/quota/resume?agent=nobody", NOTHING, 404, "agent_not_found").await;
    scene.fails("POST", "/api/agents/nobody/freeze", NOTHING, 404, "agent_not_found").await;
    scene.fails("POST", "/api/agents/sysadmin/probe", NOTHING, 400, "no_sandbox").await;
    scene.fails("POST", "/api/agents/coder/prepare", NOTHING, 503, "docker_unavailable").await;
    scene.fails("DELETE", "/api/agents/coder", NOTHING, 409, "still_configured").await;
}

async fn use_bridges(scene: &Scene) {
    let link = json!({"channel": "dev", "external": ROOM, "isCross": true, "by": "ann"});
    let link = scene.post("/api/bridges/matrix/links", link).await;
    assert_eq!(link["external"], ROOM);
    scene
        .fails(
            "POST",
            "/api/bridges/matrix/links",
            json!({"channel": "nowhere", "external": ROOM}),
            404,
            "channel_not_found",
        )
        .await;
    let at = format!("external={}", ROOM.replace('!', "%21"));
    scene.post(&format!("/api/bridges/matrix/pause?{at}"), NOTHING).await;
    scene.post(&format!("/api/bridges/matrix/resume?{at}&by=ann"), NOTHING).await;
    scene.post("/api/bridges/matrix/heard", json!({"external": ROOM, "add": ["role:7"], "remove": []})).await;
    scene.post(&format!("/api/bridges/matrix/test?{at}"), NOTHING).await;
    scene.post("/api/channels/dev/messages", json!({"content": "for all platforms"})).await;
    scene
        .until("a message was sent", "/api/usage", |usage| usage["bridges"][0]["sent"].as_u64() > Some(0))
        .await;
    let bridges = scene.get("/api/bridges").await;
    assert!(bridges["bridges"][0]["links"][0]["queue"].is_object(), "{bridges}");
    assert_eq!(scene.get("/api/status").await["bridges"][0]["links"], 1);
    scene
        .post(
            "/api/people/accounts",
            json!({"name": "ben", "bridge": "matrix", "account": "@ben:h", "by": "ann"}),
        )
        .await;
    scene.get("/api/people").await;
    scene.post("/api/people/rename", json!({"from": "ben", "to": "benjamin"})).await;
    scene.post("/api/people/accounts", json!({"name": null, "bridge": "matrix", "account": "@ben:h"})).await;
    scene.fails("POST", "/api/people/rename", json!({"from": "ben", "to": "x"}), 409, "refused").await;
    scene.delete(&format!("/api/bridges/matrix/links?{at}&by=ann")).await;
    scene.fails("DELETE", &format!("/api/bridges/matrix/links?{at}"), NOTHING, 404, "bridge_not_found").await;
    scene.delete("/api/bridges/matrix?by=ann").await;
    scene.fails("DELETE", "/api/bridges/matrix", NOTHING, 404, "bridge_not_found").await;
}

/// Looks at the checks, the audit, the logs and the configuration, and changes the configuration.
async fn look_at_receipts_and_generations(scene: &Scene) {
    let listed = scene.get("/api/receipts?project=web&agent=coder&limit=5").await;
    assert_eq!(listed["receipts"][0]["id"], scene.receipt.as_str(), "{listed}");
    assert_eq!(scene.get("/api/receipts?project=none").await["receipts"], json!([]));
    let shown = scene.get(&format!("/api/receipts/{}?output=1", &scene.receipt[..12])).await;
    assert_eq!((&shown["result"], &shown["receipt"]["project"]), (&json!("accepted"), &json!("web")));
    assert!(shown["outputs"][0]["head"].as_str().unwrap().contains("3 passed"), "{shown}");
    scene.fails("GET", "/api/receipts/ffff", NOTHING, 404, "receipt_not_found").await;

    let generations = scene.get("/api/generations").await;
    let newest = &generations["generations"][0];
    assert!(newest["number"].as_u64() >= Some(1), "{generations}");
    let shown = scene.get(&format!("/api/generations/{}", newest["number"])).await;
    assert_eq!((&shown["why"], shown["state"]["config"].is_object()), (&newest["why"], true));
    scene.fails("GET", "/api/generations/99999", NOTHING, 404, "generation_not_found").await;
}

async fn use_the_machine(scene: &Scene) {
    let document = &scene.document;
    let found = scene.get("/api/doctor").await;
    let checks = found["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["name"] == "config" && check["state"] == "ok"), "{found}");
    let supervisor = scene.get("/api/supervisor").await;
    assert!(supervisor["units"].is_array() && supervisor["openclaw"].is_null(), "{supervisor}");
    let verified = scene.get("/api/audit/verify").await;
    assert!(verified["valid"] == true && verified["rows"].as_u64() > Some(0), "{verified}");
    // A gateway that a test serves has no supervisor, which would write its log.
    let log = scene.home.path().join("logs/gateway.log");
    std::fs::write(log, "2026-11-21T22:27:03Z  INFO flock: fine\n2026-11-21T22:27:04Z DEBUG flock: more\n")
        .unwrap();
    let usage = scene.get("/api/sandboxes/usage").await;
    assert!(usage["sandboxes"].is_array(), "{usage}");
    let log = scene.get("/api/logs?level=info&limit=5").await;
    assert_eq!(log["lines"].as_array().unwrap().len(), 1, "{log}");
    assert_eq!(scene.get("/api/logs?log=openclaw").await["lines"], json!([]));
    scene.fails("GET", "/api/logs?log=../x", NOTHING, 400, "invalid_query").await;

    let most = "plugins.entries.flock.config.maxAgents";
    let change = |path: &str, value: Value| json!({"path": path, "value": value, "by": "ann"});
    let unset = |path: &str| format!("/api/config/value?path={path}&by=ann");
    let time = "agents.defaults.timeoutSeconds";
    document.done(&scene.owner, "PUT", "/api/config/value", &change(time, json!(77))).await;
    document.done(&scene.owner, "DELETE", &unset(time), &NOTHING).await;
    scene.fails("DELETE", &unset(time), NOTHING, 404, "value_not_found").await;
    for (path, code) in [
        ("..", "invalid_path"),
        ("gateway.auth.token", "secret_value"),
        ("gateway", "secret_value"),
        ("plugins.entries.flock.config.nix.flake", "set_elsewhere"),
    ] {
        scene.fails("DELETE", &unset(path), NOTHING, 400, code).await;
    }
    document.done(&scene.owner, "PUT", "/api/config/value", &change(most, json!(33))).await;
    for (path, value, code) in [
        ("..", json!(1), "invalid_path"),
        (most, json!("many"), "usage"),
        ("plugins.entries.flock.config.maxAgent", json!(1), "usage"),
        ("gateway.auth.token", json!("t"), "secret_value"),
        ("models.providers.p", json!({"apiKey": "k"}), "secret_value"),
        ("plugins.entries.flock.config.nix.flake", json!("x"), "set_elsewhere"),
    ] {
        scene.fails("PUT", "/api/config/value", change(path, value), 400, code).await;
    }
    let config = scene.get("/api/config").await;
    assert!(config["problem"].is_null() && config["document"]["gateway"].is_object(), "{config}");
    assert!(!config.to_string().contains(&scene.home.token()));
    let backup = config["backups"][0]["name"].as_str().unwrap();
    let difference = scene.get(&format!("/api/config/backups/{backup}")).await;
    assert_eq!(difference["replaces"], config["sha256"]);
    let lines = difference["hunks"][0].as_array().unwrap();
    let mut removed = lines.iter().filter(|line| line["kind"] == "removed");
    let is_it = |line: &Value| line["text"].as_str().unwrap().contains("\"maxAgents\": 33");
    assert!(removed.any(is_it), "{difference}");
    scene.fails("GET", "/api/config/backups/..%2Fconfig.json", NOTHING, 404, "backup_not_found").await;
    let restore = |sha256: &str| json!({"backup": backup, "sha256": sha256, "by": "ann"});
    scene.fails("POST", "/api/config/restore", restore("0"), 409, "changed").await;
    let shown = difference["replaces"].as_str().unwrap();
    scene.post("/api/config/restore", restore(shown)).await;
    assert!(scene.home.config()["plugins"]["entries"]["flock"]["config"]["maxAgents"] != 33);
    scene.fails("POST", "/api/config/restore", restore(shown), 409, "changed").await;
    let rows = scene.get("/api/audit?action=config").await;
    let actions: Vec<&Value> = rows["rows"].as_array().unwrap().iter().map(|row| &row["action"]).collect();
    assert_eq!(actions, ["config.restore", "config.set", "config.unset", "config.set"], "{rows}");
}

/// A browser signs in, looks at pages, changes something, and signs out.
async fn use_people(scene: &Scene) {
    let new = json!({"name": "zoe", "role": "member", "agents": ["coder"], "channels": null, "dayTokens": 5000,
        "dayCostMicros": 1_000_000, "by": "ann"});
    scene.post("/api/people", new.clone()).await;
    scene.fails("POST", "/api/people", new, 409, "refused").await;
    scene.fails("POST", "/api/people", json!({"name": "Zoe", "role": "member"}), 400, "usage").await;
    scene.fails("POST", "/api/people", json!({"name": "x", "role": "boss"}), 400, "invalid_body").await;
    let unknown = json!({"name": "yan", "role": "member", "agents": ["nobody"]});
    scene.fails("POST", "/api/people", unknown, 404, "agent_not_found").await;
    let change = json!({"role": "viewer", "agents": null, "channels": null, "dayTokens": null});
    scene.document.done(&scene.owner, "PUT", "/api/people/zoe", &change).await;
    scene.fails("PUT", "/api/people/nobody", json!({"role": "viewer"}), 404, "person_not_found").await;
    scene.fails("PUT", "/api/people/zoe", json!({"x": 1}), 400, "invalid_body").await;
    scene.fails("PUT", "/api/people/zoe", json!({"oidc": {"subject": "1"}}), 400, "usage").await;
    scene.document.done(&scene.owner, "PUT", "/api/people/zoe", &json!({"oidc": null})).await;
    let made = scene.post("/api/people/zoe/tokens", json!({"expiresAt": later()})).await;
    scene.fails("POST", "/api/people/zoe/tokens", json!({"expiresAt": 1}), 400, "usage").await;
    scene.fails("POST", "/api/people/nobody/tokens", json!({}), 404, "person_not_found").await;
    let zoe = Client::new(scene.home.port()).with_token(made["token"].as_str().unwrap());
    for path in ["/api/openapi.json", "/api/agents", "/api/channels", "/api/status", "/api/search?q=welcome"]
    {
        scene.document.get(&zoe, path).await;
    }
    assert_eq!(scene.document.fails(&zoe, "POST", "/api/freeze", &NOTHING, 403).await, "out_of_scope");
    let shown = scene.get("/api/people/zoe").await;
    assert_eq!(shown["budget"]["scope"], "person", "{shown}");
    scene.fails("GET", "/api/people/nobody", NOTHING, 404, "person_not_found").await;
    assert!(scene.get("/api/tokens").await.to_string().contains("\"person\":\"zoe\""));
    let budgets = scene.get("/api/usage/budgets").await;
    assert!(budgets["budgets"].as_array().unwrap().iter().any(|budget| budget["name"] == "zoe"), "{budgets}");
    scene.get("/api/usage?by=person").await;
    scene.fails("POST", "/dashboard/sign-in", json!({}), 400, "invalid_body").await;
    scene.delete("/api/people/zoe?by=ann").await;
    scene.fails("DELETE", "/api/people/zoe", NOTHING, 404, "person_not_found").await;
    assert_eq!(scene.get("/api/people").await["people"][0]["name"], "zoe");
}

async fn use_the_dashboard(scene: &Scene) {
    let document = &scene.document;
    let browser = Client::new(scene.home.port());
    let made = scene.post("/api/dashboard/codes", json!({"by": "ann"})).await;
    scene.fails("POST", "/api/dashboard/codes", json!({"for": "ann"}), 400, "invalid_body").await;
    assert_eq!(document.ask(&browser, "GET", "/dashboard", &NOTHING, &[]).await.0, 401);
    let sign_in = format!("/dashboard?code={}", made["code"].as_str().unwrap());
    let answer = document.open(&browser, "GET", &sign_in, &NOTHING, &[]).await;
    assert_eq!(answer.status(), 200);
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(document.ask(&browser, "GET", &sign_in, &NOTHING, &[]).await.0, 401, "it is used up");
    let cookie = ("cookie", cookie.as_str());
    let receipt = format!("/dashboard/receipts/{}", scene.receipt);
    let answer = document.open(&browser, "GET", &receipt, &NOTHING, &[cookie]).await;
    let page = String::from_utf8(answer.bytes(16 << 20, LIMIT).await.unwrap()).unwrap();
    for part in ["Accepted", "pytest -q", "3 passed in 0.10s", "flock/coder/t1", &scene.receipt] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for (path, status) in [
        ("/dashboard/channels/dev", 200),
        ("/dashboard/machine", 200),
        ("/dashboard/machine/audit", 200),
        ("/dashboard/machine/checks", 200),
        ("/dashboard/machine/config", 200),
        ("/dashboard/machine/logs", 200),
        ("/dashboard/machine/generations", 200),
        ("/dashboard/agents/coder/checkpoints", 200),
        ("/dashboard/agents/nobody/checkpoints", 404),
        ("/dashboard/receipts", 200),
        ("/dashboard/receipts/ffff", 404),
        (&receipt, 200),
        ("/dashboard/channels/nowhere", 404),
        ("/dashboard/nothing", 404),
    ] {
        assert_eq!(document.ask(&browser, "GET", path, &NOTHING, &[cookie]).await.0, status, "{path}");
    }
    for name in ["style.css", "app.js", "worker.js", "manifest.webmanifest", "icon.svg", "icon-192.png"] {
        document.get(&browser, &format!("/dashboard/assets/0-{name}")).await;
    }
    let code = document.fails(&browser, "GET", "/dashboard/assets/0-nothing", &NOTHING, 404).await;
    assert_eq!(code, "not_found");
    let answer = document.open(&browser, "GET", "/dashboard", &NOTHING, &[cookie]).await;
    let page = String::from_utf8(answer.bytes(16 << 20, LIMIT).await.unwrap()).unwrap();
    let token = page.split_once("name=\"csrf-token\" content=\"").unwrap().1.split_once('"').unwrap().0;
    let (status, listed) =
        document.ask(&browser, "GET", "/api/dashboard/sessions", &NOTHING, &[cookie]).await;
    assert!(status == 200 && listed["sessions"][0]["current"] == true, "{listed}");
    let current = "/api/dashboard/sessions/current";
    let (status, refused) = document.ask(&browser, "DELETE", current, &NOTHING, &[cookie]).await;
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("csrf")), "{refused}");
    let signed = [cookie, ("x-flock-csrf", token)];
    use_notifications(scene, &browser, &signed).await;
    let (status, ended) = document.ask(&browser, "DELETE", current, &NOTHING, &signed).await;
    assert_eq!((status, &ended["ended"]), (200, &json!(1)), "{ended}");
    let (status, refused) = document.ask(&browser, "GET", "/api/agents", &NOTHING, &[cookie]).await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("signed_out")), "{refused}");
    scene.delete("/api/dashboard/sessions?by=ann").await;
    scene.fails("DELETE", "/api/dashboard/sessions/x", NOTHING, 404, "session_not_found").await;
}

/// A browser subscribes and unsubscribes.
async fn use_notifications(scene: &Scene, browser: &Client, signed: &[(&'static str, &str)]) {
    let path = "/api/dashboard/push";
    let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    let described = |endpoint: &str| json!({"endpoint": endpoint, "keys": {"p256dh": point, "auth": "BTBZMqHH6r4Tts7J_aSIgg"}});
    // Only a change needs the token of the page.
    let headers = |method: &str| if method == "GET" { &signed[..1] } else { signed };
    let ask = async |method: &str, body: &Value| {
        scene.document.ask(browser, method, path, body, headers(method)).await
    };
    assert_eq!(ask("GET", &NOTHING).await.0, 200);
    let (status, made) = ask("PUT", &described("https://push.invalid/x")).await;
    assert_eq!(status, 201, "{made}");
    let (_, listed) =
        scene.document.ask(browser, "GET", "/api/dashboard/sessions", &NOTHING, headers("GET")).await;
    assert_eq!(listed["sessions"][0]["notifications"]["service"], "push.invalid", "{listed}");
    let (status, refused) = ask("PUT", &described("https://127.0.0.1/x")).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid_subscription")), "{refused}");
    assert_eq!(ask("DELETE", &NOTHING).await.0, 200);
    scene.fails("GET", path, NOTHING, 403, "browser_only").await;
}

/// Uses up a budget and the patience with a provider, and adds an agent meanwhile.
async fn use_up(scene: &Scene) {
    let budget = "plugins.entries.flock.config.budgets";
    scene.home.flock(["config", "set", &format!("{budget}.agent.coder.tokens"), "1"]).ok();
    scene.fails("POST", "/api/message", json!({"prompt": "x", "agent": "coder"}), 402, "agent_paused").await;
    let agents = scene.get("/api/agents").await;
    assert!(agents["agents"].as_array().unwrap().iter().any(|agent| agent["paused"].is_object()), "{agents}");
    assert!(scene.get("/api/status").await["paused"]["coder"].is_object());
    scene.home.flock(["config", "unset", budget]).ok();
    scene.home.flock(["add", "tester", "--no-container"]).ok();
    scene
        .fails(
            "POST",
            "/api/message",
            json!({"prompt": "be flaky", "agent": "coder"}),
            424,
            "provider_failed",
        )
        .await;
    scene.get("/api/status").await;
}

/// Turns that fail, and an agent whose sandbox is made and removed, on a gateway that plays both.
async fn fail_turns(document: &Document) {
    let house = House::new().await;
    let owner = house.owner();
    let completions = "/v1/chat/completions";
    for (text, status, code) in [
        ("fail 500", 502, "provider_failed"),
        ("broke 500", 424, "provider_failed"),
        ("fail 429", 429, "provider_limited"),
        ("fail timeout", 504, "provider_timed_out"),
        ("fail other", 500, "internal"),
    ] {
        assert_eq!(document.fails(&owner, "POST", completions, &ask(text), status).await, code, "{text}");
    }
    let session = [("x-openclaw-session-key", "agent:tester:flock:main:ann")];
    let (status, _) = document.ask(&owner, "POST", completions, &ask("x"), &session).await;
    assert_eq!(status, 400);
    let mut picture = ask("x");
    picture["messages"][0]["content"] = json!([
        {"type": "text", "text": "say what is this"},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}},
    ]);
    document.done(&owner, "POST", completions, &picture).await;
    let mut formatted = ask(r#"fits {"a": 1}"#);
    formatted["response_format"] =
        json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {"required": ["a"]}}});
    document.done(&owner, "POST", completions, &formatted).await;
    document.done(&owner, "POST", "/api/agents/tester/prepare", &NOTHING).await;
    house.remove("tester");
    document.done(&owner, "DELETE", "/api/agents/tester", &NOTHING).await;
    house.stopped().await;
}

/// The paths that a program's turn opens.
async fn run_a_program(document: &Document) {
    let mut crew = Crew::new().await;
    let (turn, answer) = crew.begin().await;
    let program = Client::new(crew.port).with_token(&turn.token);
    let request =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    for (method, params) in [
        ("initialize", json!({"protocolVersion": "2025-11-25"})),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "flock_status", "arguments": {}})),
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": "flock://channel/none"})),
        ("prompts/list", json!({})),
        ("nonsense", json!({})),
    ] {
        document.done(&program, "POST", "/mcp", &request(method, params)).await;
    }
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(document.ask(&program, "POST", "/mcp", &notice, &[]).await.0, 202);
    assert_eq!(document.ask(&program, "POST", "/mcp", &json!([]), &[]).await.0, 400);
    document.done(&program, "POST", "/mcp", &json!([request("ping", json!({})), notice])).await;
    use_a_session(document, &crew, &program).await;
    assert_eq!(document.fails(&crew.owner(), "POST", "/mcp", &notice, 403).await, "out_of_scope");
    // Each wire format has errors of its own.
    for path in ["anthropic/v1/messages", "responses/v1/responses", "google/v1beta/models/x:generateContent"]
    {
        document.fails(&crew.owner(), "POST", &format!("/relay/{path}"), &json!({}), 403).await;
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

/// A session of MCP with its stream.
async fn use_a_session(document: &Document, crew: &Crew, program: &Client) {
    let channel = json!({"id": "watched", "topic": "work", "members": ["coder"]});
    assert_eq!(crew.ask(Call::post("/api/channels").json(&channel).unwrap()).await.0, 201);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let begun = document.open(program, "POST", "/mcp", &hello, &[]).await;
    let session = begun.header("mcp-session-id").unwrap().to_owned();
    let own = [("mcp-session-id", session.as_str())];
    let watch = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "flock://channel/watched"}});
    assert_eq!(document.ask(program, "POST", "/mcp", &watch, &own).await.1["result"], json!({}));
    let stream = [own[0], ("accept", "text/event-stream")];
    let mut events = document.open(program, "GET", "/mcp", &NOTHING, &stream).await.events();
    let post = json!({"content": "hello", "as": "ann"});
    let post = Call::post("/api/channels/watched/messages").json(&post).unwrap();
    assert!(crew.ask(post).await.0 < 300);
    let event = events.next(LIMIT).await.unwrap().unwrap();
    document.check_event("GET", "/mcp", &event.name, &event.data);
    assert_eq!(document.ask(program, "GET", "/mcp", &NOTHING, &own).await.0, 406);
    assert_eq!(document.ask(program, "GET", "/mcp", &NOTHING, &stream[1..]).await.0, 405);
    assert_eq!(document.ask(program, "DELETE", "/mcp", &NOTHING, &[]).await.0, 400);
    assert_eq!(document.ask(program, "DELETE", "/mcp", &NOTHING, &own).await.0, 204);
    for method in ["GET", "DELETE"] {
        assert_eq!(document.ask(program, method, "/mcp", &NOTHING, &stream).await.0, 404);
    }
    assert_eq!(document.ask(program, "POST", "/mcp", &watch, &own).await.0, 404);
}

/// The paths of flock's plugin in OpenClaw.
async fn be_the_plugin(document: &Document) {
    let mut stage = Stage::new(Era::New);
    stage.start_gateway();
    let plugin = stage.plugin();
    let call =
        json!({"agentId": "coder", "sessionKey": "agent:coder:main", "toolCallId": "c1", "params": {}});
    document.done(&plugin, "POST", "/api/plugin/tools/flock_status", &call).await;
    let code = document.fails(&plugin, "POST", "/api/plugin/tools/exec", &call, 404).await;
    assert_eq!(code, "tool_not_found");
    let report = json!({"event": "before_tool_call", "agentId": "coder", "sessionKey": "agent:coder:main", "toolCallId": "r1", "tool": "exec"});
    document.done(&plugin, "POST", "/api/plugin/events", &report).await;
    document.fails(&plugin, "GET", "/api/agents", &NOTHING, 403).await;
}
