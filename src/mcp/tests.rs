//! MCP servers with a real server that does what hostile and broken ones do. Its program runs beside the test, without a
//! sandbox: the walls are tested with an engine.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::definition::ListedTool;
use super::servers::{DefinitionReview, GrantError, Grants, Hold, ServerCall, ServerPlace, Servers};
use super::{Launcher, McpError};
use crate::config::agents::{self, NewAgent};
use crate::config::{self, Agent, Autonomy, Live, McpServer, Role, starter};
use crate::home::{Home, atomic};
use crate::id::{AgentId, McpServerName, SessionKey, SessionKind, TurnId};
use crate::provider::message::joined_text;
use crate::provider::{Block, BoxFuture};
use crate::sandbox::OutputChunk;
use crate::store::{McpRevocation, Store};
use crate::sync::lock;
use crate::telemetry::{self, Telemetry, TraceContext};
use crate::tool::{
    CallContext, CallNews, CallProgress, LogLevel, ProgressSink, Registry, ToolError, ToolOutput,
};

#[path = "remote_tests.rs"]
mod remote_tests;

#[path = "sampling_tests.rs"]
mod sampling_tests;

#[path = "elicitation_tests.rs"]
mod elicitation_tests;

#[path = "rounds_tests.rs"]
mod rounds_tests;

/// Runs servers as processes of the test.
struct Beside;

impl Launcher for Beside {
    fn run<'a>(
        &'a self,
        server: &'a McpServer,
        input: &'a mut mpsc::Receiver<Bytes>,
        heard: &'a mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, McpError>> {
        Box::pin(async move {
            let mut child = Command::new(&server.command[0])
                .args(&server.command[1..])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let (mut stdin, mut stdout, mut stderr) =
                (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
            let (mut out, mut err) = (vec![0; 64 << 10], vec![0; 64 << 10]);
            let feed = async {
                while let Some(piece) = input.recv().await {
                    if stdin.write_all(&piece).await.is_err() {
                        break;
                    }
                }
                std::future::pending::<()>().await;
            };
            let read = async {
                loop {
                    tokio::select! {
                        read = stdout.read(&mut out) => match read.unwrap() {
                            0 => return,
                            count => heard(OutputChunk::Out(&out[..count])),
                        },
                        read = stderr.read(&mut err) => {
                            let count = read.unwrap();
                            heard(OutputChunk::Err(&err[..count]));
                        }
                    }
                }
            };
            tokio::select! {
                () = feed => {}
                () = read => {}
            }
            Ok(child.wait().await.unwrap().code().unwrap_or(-1))
        })
    }

    fn release<'a>(&'a self, _server: &'a McpServerName) -> BoxFuture<'a, Result<(), McpError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Notes which changes a person is asked about.
#[derive(Default)]
struct Review(Mutex<Vec<String>>);

impl DefinitionReview for Review {
    fn changed<'a>(
        &'a self,
        context: &'a CallContext,
        server: &'a McpServerName,
        tool: &'a str,
        sha256: &'a str,
    ) -> BoxFuture<'a, String> {
        lock(&self.0).push(format!("{} {server} {tool} {sha256}", context.agent));
        Box::pin(async { "r-1: a person was asked".to_owned() })
    }
}

/// A home with the server `fixture` and the agents `coder` and `reader`, which is readonly.
pub(super) struct Stage {
    pub(super) servers: Arc<Servers>,
    pub(super) live: Arc<Live>,
    pub(super) home: Home,
    pub(super) store: Arc<Store>,
    review: Arc<Review>,
    dir: tempfile::TempDir,
}

impl Stage {
    fn new(switches: &[&str]) -> Self {
        Self::with(switches, |_| {})
    }

    pub(super) fn with(switches: &[&str], change: impl FnOnce(&mut Value)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let mut document = starter::document(&home, Some(&"script/demo".parse().unwrap()), "token", 4000);
        for id in ["coder", "reader"] {
            agents::add(&mut document, &home, &NewAgent::new(id.parse().unwrap(), Role::Worker)).unwrap();
        }
        for entry in
            document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"].as_array_mut().unwrap()
        {
            if entry["id"] == "reader" {
                entry["autonomy"] = json!("readonly");
            }
        }
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mcp/server.py");
        let state = dir.path().join("state").display().to_string();
        let cancelled = dir.path().join("cancelled").display().to_string();
        let mut command = vec!["python3", program, "--state", &state, "--cancelled", &cancelled];
        command.extend(switches);
        let mut server = json!({"command": command, "callSeconds": 2});
        change(&mut server);
        document["plugins"]["entries"]["flock"]["config"]["mcpServers"] = json!({"fixture": server});
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let store = Arc::new(Store::open(&home).unwrap());
        let servers = Servers::new(live.clone(), store.clone(), Arc::new(Beside));
        let review = Arc::new(Review::default());
        servers.reviewed_by(review.clone());
        Self { servers, live, home, store, review, dir }
    }

    pub(super) async fn list(&self) -> Result<Arc<Vec<ListedTool>>, McpError> {
        Ok(self.servers.list(&name()).await?.1)
    }

    pub(super) async fn grant(
        &self,
        agent: &str,
        tools: &[&str],
        readonly_ok: bool,
    ) -> Result<(), GrantError> {
        let listed = self.list().await?;
        let shown: Vec<(String, String)> = tools
            .iter()
            .map(|tool| {
                let found = listed.iter().find(|listed| listed.name == *tool);
                let sha256 =
                    found.and_then(|found| found.definition.as_ref().ok()).map(|found| found.sha256.clone());
                ((*tool).to_owned(), sha256.unwrap_or_default())
            })
            .collect();
        let agent: AgentId = agent.parse().unwrap();
        self.servers.grant((&name(), &agent), (&shown, &[]), readonly_ok, "human:ann").await
    }

    fn agent(&self, id: &str) -> Agent {
        self.live.current().agent(&id.parse().unwrap()).unwrap().clone()
    }

    fn offered(&self, agent: &str) -> Vec<String> {
        let mut registry = Registry::default();
        registry.add_source(self.servers.clone());
        registry.offered(&self.agent(agent)).into_iter().map(|spec| spec.name).collect()
    }

    pub(super) async fn call_as(
        &self,
        context: &CallContext,
        tool: &str,
        arguments: Value,
    ) -> Result<Vec<Block>, String> {
        let answer = self.servers.call(context, &name(), tool, &arguments).await;
        match answer {
            Ok(output) => Ok(output.content),
            Err(ToolError::ForModel(text)) => Err(text),
            Err(error) => panic!("{}", crate::error::chain(&error)),
        }
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        Ok(joined_text(&self.call_as(&context("coder"), tool, arguments).await?))
    }
}

pub(super) fn name() -> McpServerName {
    "fixture".parse().unwrap()
}

pub(super) fn context(agent: &str) -> CallContext {
    let agent: AgentId = agent.parse().unwrap();
    let session = SessionKey::new(&agent, SessionKind::Main, "ann");
    CallContext { agent, session, turn: TurnId::new(), cancel: CancellationToken::new(), progress: None }
}

#[tokio::test]
async fn a_granted_tool_is_offered_and_called_and_no_other() {
    let stage = Stage::new(&["--greets", "--page", "3"]);
    assert!(stage.list().await.unwrap().len() > 10, "all pages are read");
    assert_eq!(stage.offered("coder"), Vec::<String>::new(), "nothing is granted by itself");
    let refused = stage.call("echo", json!({"text": "hi"})).await.unwrap_err();
    assert!(refused.contains("not granted"), "{refused}");
    stage.grant("coder", &["echo", "weather", "picture", "fails"], false).await.unwrap();
    assert_eq!(
        stage.offered("coder"),
        ["mcp_fixture_echo", "mcp_fixture_fails", "mcp_fixture_picture", "mcp_fixture_weather"]
    );
    assert_eq!(stage.offered("reader"), Vec::<String>::new());
    let said = stage.call("echo", json!({"text": "hi\u{1b}[31m"})).await.unwrap();
    assert!(said.starts_with("[result of the tool echo of the MCP server fixture: ") && said.contains("hi"));
    assert!(!said.contains('\u{1b}'), "{said:?}");
    assert!(stage.call("weather", json!({})).await.unwrap().contains("21.5"));
    let blocks = stage.call_as(&context("coder"), "picture", json!({})).await.unwrap();
    assert!(blocks.iter().any(|block| matches!(block, Block::Image { .. })), "{blocks:?}");
    assert!(stage.call("fails", json!({})).await.unwrap_err().contains("no such thing"));
    assert!(stage.call("env", json!({})).await.unwrap_err().contains("not granted"));
    assert!(stage.call("echo", json!("text")).await.unwrap_err().contains("an object"));
}

/// Two places for a server. While it is elsewhere, another gateway answers.
#[derive(Default)]
struct Place {
    is_elsewhere: AtomicBool,
    holds: Arc<AtomicUsize>,
}

/// Counts the guards that live.
struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ServerPlace for Place {
    fn is_shared(&self) -> bool {
        true
    }

    fn enter(&self, _server: &McpServerName) -> Option<Hold> {
        if self.is_elsewhere.load(Ordering::SeqCst) {
            return None;
        }
        self.holds.fetch_add(1, Ordering::SeqCst);
        Some(Box::new(Held(Arc::clone(&self.holds))))
    }

    fn call<'a>(
        &'a self,
        _context: &'a CallContext,
        call: ServerCall,
    ) -> BoxFuture<'a, Option<Result<ToolOutput, ToolError>>> {
        let is_elsewhere = self.is_elsewhere.load(Ordering::SeqCst);
        let text = format!("{} of {} for {}: {}", call.tool, call.server, call.agent, call.arguments);
        Box::pin(async move { is_elsewhere.then(|| Ok(ToolOutput::text(text))) })
    }
}

#[tokio::test]
async fn of_several_gateways_the_one_with_the_server_runs_it_and_makes_the_calls() {
    let stage = Stage::new(&[]);
    let place = Arc::new(Place::default());
    stage.servers.placed_by(place.clone());
    stage.grant("coder", &["echo"], false).await.unwrap();
    assert!(stage.call("echo", json!({"text": "hi"})).await.unwrap().contains("hi"));
    assert_eq!(place.holds.load(Ordering::SeqCst), 1, "it stays here while it runs");
    stage.servers.stop_all().await;
    assert_eq!(place.holds.load(Ordering::SeqCst), 0);
    place.is_elsewhere.store(true, Ordering::SeqCst);
    let said = stage.call("echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!(said, r#"echo of fixture for coder: {"text":"hi"}"#);
    assert!(!stage.servers.state(&name()).is_running);
    // A call that comes from another gateway is made here or not at all.
    let arguments = json!({"text": "hi"});
    let refused = stage.servers.call_here(&context("coder"), &name(), "echo", &arguments).await.unwrap_err();
    assert!(refused.to_string().contains("at another gateway"), "{refused}");
    assert!(matches!(stage.list().await, Err(McpError::Elsewhere(_))));
}

#[tokio::test]
async fn a_call_carries_the_trace_that_it_belongs_to() {
    let stage = Stage::new(&[]);
    stage.grant("coder", &["trace"], false).await.unwrap();
    let answer = |text: &str| text.rsplit_once("]").unwrap().1.to_owned();
    assert_eq!(answer(&stage.call("trace", json!({})).await.unwrap()), "|", "telemetry is off");
    config::edit(&stage.home, |document| {
        let otlp = json!({"otlp": {"endpoint": "http://127.0.0.1:9"}});
        document["plugins"]["entries"]["flock"]["config"]["telemetry"] = otlp;
        Ok::<(), config::ConfigError>(())
    })
    .unwrap();
    let telemetry = Telemetry::new(Arc::new(Live::open(stage.home.clone()).unwrap()));
    let caller = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some("a=1"));
    let work = stage.call("trace", json!({}));
    let said = telemetry::scoped(telemetry.enter(caller), work).await.unwrap();
    assert_eq!(answer(&said), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01|a=1");
}

#[tokio::test]
async fn a_readonly_agent_gets_only_what_the_owner_grants_for_it_whatever_the_server_says() {
    let stage = Stage::new(&[]);
    // The server claims that `echo` only reads.
    stage.grant("reader", &["echo"], false).await.unwrap();
    assert_eq!(stage.agent("reader").autonomy, Autonomy::Readonly);
    assert_eq!(stage.offered("reader"), Vec::<String>::new());
    let context = context("reader");
    let refused = stage.call_as(&context, "echo", json!({})).await.unwrap_err();
    assert!(refused.contains("readonly"), "{refused}");
    stage.grant("reader", &["echo"], true).await.unwrap();
    assert_eq!(stage.offered("reader"), ["mcp_fixture_echo"]);
    stage.call_as(&context, "echo", json!({"text": "x"})).await.unwrap();
}

#[tokio::test]
async fn a_deny_list_takes_a_granted_tool_away() {
    let stage = Stage::new(&[]);
    stage.grant("coder", &["echo", "weather"], false).await.unwrap();
    for (pattern, left) in [
        ("mcp_fixture_ec*", vec!["mcp_fixture_weather"]),
        ("mcp_fixture_*", vec![]),
        ("group:mcp", vec![]),
        ("*", vec![]),
    ] {
        let agent = Agent { deny: vec![pattern.to_owned()], ..stage.agent("coder") };
        let mut registry = Registry::default();
        registry.add_source(stage.servers.clone());
        let offered: Vec<String> = registry.offered(&agent).into_iter().map(|spec| spec.name).collect();
        assert_eq!(offered, left, "{pattern}");
    }
}

#[tokio::test]
async fn a_changed_definition_stops_the_tool_until_a_person_has_seen_it() {
    let stage = Stage::new(&[]);
    stage.grant("coder", &["echo", "weather", "change"], false).await.unwrap();
    stage.call("echo", json!({"text": "x"})).await.unwrap();
    stage.call("change", json!({})).await.unwrap();
    let refused = stage.call("echo", json!({"text": "x"})).await.unwrap_err();
    assert!(refused.contains("differently") && refused.contains("r-1"), "{refused}");
    let asked = lock(&stage.review.0).clone();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("coder fixture echo "), "{asked:?}");
    stage.call("weather", json!({})).await.expect("other tools go on");
    // Offered is what a person has seen, not what the server says now.
    let Grants { pins, .. } = stage.servers.granted().await.unwrap();
    let echo = pins.iter().find(|pin| pin.tool == "echo").unwrap();
    let (changed, sha256) = echo.changed.clone().unwrap();
    assert!(changed.contains(".env") && !echo.definition.contains(".env"));
    let tool = (&name(), "echo");
    assert!(!stage.servers.accept(tool, &echo.sha256, "human:ann").await.unwrap(), "bound to the new one");
    assert!(stage.servers.accept(tool, &sha256, "human:ann").await.unwrap());
    stage.call("echo", json!({"text": "x"})).await.unwrap();
}

#[tokio::test]
async fn a_change_without_the_promised_notice_is_noticed_too() {
    // It declares `listChanged`, as all versions with `initialize` can, and does not keep that.
    let stage = Stage::new(&["--tells-nothing"]);
    stage.grant("coder", &["echo", "change"], false).await.unwrap();
    stage.call("change", json!({})).await.unwrap();
    stage.call("echo", json!({"text": "x"})).await.expect("the last look is not old");
    stage.servers.age_tools(&name()).await;
    let refused = stage.call("echo", json!({"text": "x"})).await.unwrap_err();
    assert!(refused.contains("differently") && refused.contains("r-1"), "{refused}");
    assert_eq!(lock(&stage.review.0).len(), 1);
}

#[tokio::test]
async fn a_change_between_two_starts_is_noticed_and_new_tools_are_not_granted() {
    let stage = Stage::new(&["--changes-at-restart", "--new-tool-at-restart"]);
    stage.grant("coder", &["echo"], false).await.unwrap();
    stage.call("echo", json!({"text": "x"})).await.unwrap();
    stage.servers.stop_all().await;
    let refused = stage.call("echo", json!({"text": "x"})).await.unwrap_err();
    assert!(refused.contains("differently"), "{refused}");
    assert!(stage.list().await.unwrap().iter().any(|tool| tool.name == "fresh"));
    assert_eq!(stage.offered("coder"), ["mcp_fixture_echo"]);
    assert!(stage.call("fresh", json!({})).await.unwrap_err().contains("not granted"));
    // A grant is for what was shown.
    let shown = [("echo".to_owned(), "0".repeat(64))];
    let agent: AgentId = "coder".parse().unwrap();
    let stale = stage.servers.grant((&name(), &agent), (&shown, &[]), false, "human:ann").await.unwrap_err();
    assert!(matches!(stale, GrantError::Changed(_)), "{stale}");
}

#[tokio::test]
async fn hostile_definitions_can_not_be_granted() {
    let stage = Stage::new(&["--collide", "--odd-names", "--bomb", "--ansi"]);
    let listed = stage.list().await.unwrap();
    let problem =
        |name: &str| listed.iter().find(|tool| tool.name == name).unwrap().definition.clone().unwrap_err();
    for (tool, part) in [
        ("a.b", "another tool of this name"),
        ("a_b", "another tool of this name"),
        ("twice", "another tool of this name"),
        ("bomb", "nested"),
        ("large", "KiB"),
        ("bare", "no schema"),
    ] {
        assert!(problem(tool).contains(part), "{tool}: {}", problem(tool));
    }
    let refused = stage.grant("coder", &["twice"], false).await.unwrap_err();
    assert!(matches!(refused, GrantError::Unusable(..)), "{refused}");
    stage.grant("coder", &["ansi"], false).await.unwrap();
    let mut registry = Registry::default();
    registry.add_source(stage.servers.clone());
    let spec = registry.offered(&stage.agent("coder")).remove(0);
    assert!(spec.description.starts_with("[tool of the MCP server fixture; "), "{}", spec.description);
    assert!(!spec.description.contains(['\u{1b}', '\u{202e}']), "{:?}", spec.description);
}

#[tokio::test]
async fn a_server_with_too_many_tools_or_endless_pages_is_refused() {
    for switch in ["--million", "--endless-pages"] {
        let stage = Stage::new(&[switch]);
        let error = stage.list().await.unwrap_err();
        assert!(matches!(error, McpError::Excess { .. }), "{switch}: {error}");
    }
}

#[tokio::test]
async fn a_call_that_is_not_answered_ends_in_time_and_is_cancelled_at_the_server() {
    let stage = Stage::with(&[], |server| server["callSeconds"] = json!(1));
    stage.grant("coder", &["slow", "wrong-id", "echo"], false).await.unwrap();
    for tool in ["slow", "wrong-id"] {
        let began = Instant::now();
        let error = stage.call(tool, json!({})).await.unwrap_err();
        assert!(error.contains("did not answer within 1 s"), "{error}");
        assert_eq!(error.contains("it last reported \"1 of 9 copying"), tool == "slow", "{error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    let given_up = CallContext { cancel: CancellationToken::new(), ..context("coder") };
    let stop = given_up.cancel.clone();
    let (answer, ()) =
        tokio::join!(stage.call_as(&given_up, "slow", json!({})), async move { stop.cancel() });
    assert!(answer.unwrap_err().contains("cancelled"));
    stage.call("echo", json!({"text": "x"})).await.expect("the server goes on");
    let told = std::fs::read_to_string(stage.dir.path().join("cancelled")).unwrap();
    assert!(told.lines().count() >= 2, "{told}");
}

#[tokio::test]
async fn the_progress_of_a_call_reaches_its_caller_cleaned_and_cut() {
    let stage = Stage::with(&[], |server| server["callSeconds"] = json!(20));
    stage.grant("coder", &["slow", "works"], false).await.unwrap();
    let heard: Arc<Mutex<Vec<CallProgress>>> = Arc::default();
    let sink = Arc::clone(&heard);
    let sink = ProgressSink::new(move |news| match news {
        CallNews::Progress(progress) => lock(&sink).push(progress),
        CallNews::Log(message) => panic!("{message:?}"),
    });
    let caller = CallContext { progress: Some(sink), ..context("coder") };
    stage.call_as(&caller, "works", json!({})).await.unwrap();
    let reports = std::mem::take(&mut *lock(&heard));
    let done: Vec<f64> = reports.iter().map(|report| report.done).collect();
    assert_eq!(done, [1.0, 2.0, 3.0], "what does not grow is left out");
    assert_eq!(reports[0].total, Some(3.0));
    let message = reports[0].message.as_deref().unwrap();
    assert!(message.starts_with("part") && message.len() < 300 && !message.contains('\u{1b}'), "{message:?}");
    // A report reaches the caller while the call runs.
    let stop = caller.cancel.clone();
    let running = stage.call_as(&caller, "slow", json!({}));
    let hears = async {
        let deadline = Instant::now() + Duration::from_secs(15);
        while lock(&heard).is_empty() {
            assert!(Instant::now() < deadline, "nothing is heard");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let (answer, ()) = tokio::join!(running, hears);
    assert!(answer.unwrap_err().contains("cancelled"));
}

#[tokio::test]
async fn the_log_messages_of_a_call_reach_its_caller_cleaned_and_cut() {
    let stage = Stage::new(&[]);
    stage.grant("coder", &["logs", "slow"], false).await.unwrap();
    let heard: Arc<Mutex<Vec<CallNews>>> = Arc::default();
    let sink = Arc::clone(&heard);
    let sink = ProgressSink::new(move |news| lock(&sink).push(news));
    let caller = CallContext { progress: Some(sink), ..context("coder") };
    stage.call_as(&caller, "logs", json!({})).await.unwrap();
    let news = std::mem::take(&mut *lock(&heard));
    let logged = |news: &CallNews| match news {
        CallNews::Log(message) => message.clone(),
        CallNews::Progress(progress) => panic!("{progress:?}"),
    };
    let logs: Vec<_> = news.iter().map(logged).collect();
    let shown: Vec<_> = logs.iter().map(|log| (log.level, log.logger.as_str())).collect();
    let name = name();
    let loggers = [format!("mcp:{name}"), format!("mcp:{name}:index"), format!("mcp:{name}:flock")];
    assert_eq!(
        shown,
        [
            (LogLevel::Debug, loggers[0].as_str()),
            (LogLevel::Info, loggers[1].as_str()),
            (LogLevel::Error, loggers[2].as_str())
        ]
    );
    assert_eq!((&logs[0].data, &logs[2].data), (&json!("first"), &json!({"file": "a\\u{202e}", "line": 3})));
    let long = logs[1].data.as_str().unwrap();
    assert!(long.starts_with("part xxx") && long.ends_with(" […]") && long.len() < 4_100, "{long}");
    // While calls of two turns run, nobody knows whose call a message is about.
    let others: Arc<Mutex<Vec<CallNews>>> = Arc::default();
    let sink = Arc::clone(&others);
    let sink = ProgressSink::new(move |news| lock(&sink).push(news));
    let other = CallContext { progress: Some(sink), ..context("coder") };
    let stop = other.cancel.clone();
    let running = stage.call_as(&other, "slow", json!({}));
    let meanwhile = async {
        // The other call runs when it has reported.
        let deadline = Instant::now() + Duration::from_secs(15);
        while lock(&others).is_empty() {
            assert!(Instant::now() < deadline, "nothing is heard");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stage.call_as(&caller, "logs", json!({})).await.unwrap();
        stop.cancel();
    };
    let (answer, ()) = tokio::join!(running, meanwhile);
    assert!(answer.unwrap_err().contains("cancelled"));
    assert!(lock(&heard).is_empty());
    assert!(matches!(&lock(&others)[..], [CallNews::Progress(_)]));
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again_with_a_pause() {
    let stage = Stage::new(&[]);
    stage.grant("coder", &["dies", "echo"], false).await.unwrap();
    let error = stage.call("dies", json!({})).await.unwrap_err();
    assert!(error.contains("ended") && error.contains("code 3"), "{error}");
    stage.call("echo", json!({"text": "x"})).await.expect("the first failure is forgiven");
    stage.call("dies", json!({})).await.unwrap_err();
    let error = stage.call("echo", json!({"text": "x"})).await.unwrap_err();
    assert!(error.contains("tried again in"), "{error}");
    assert!(stage.servers.state(&name()).failure.is_some());
    let deadline = Instant::now() + Duration::from_secs(20);
    while stage.call("echo", json!({"text": "x"})).await.is_err() {
        assert!(Instant::now() < deadline, "it is never started again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let stage = Stage::new(&["--dies-at-start"]);
    let error = crate::error::chain(&stage.list().await.unwrap_err());
    assert!(error.contains("code 4") && error.contains("no module"), "{error}");
    assert!(!error.contains('\u{1b}'), "{error:?}");
    let stage = Stage::new(&["--version", "1999-01-01"]);
    let error = crate::error::chain(&stage.list().await.unwrap_err());
    assert!(error.contains("1999-01-01"), "{error}");
}

#[tokio::test]
async fn floods_end_the_server_and_nothing_else() {
    let stage = Stage::new(&["--floods-stderr"]);
    stage.grant("coder", &["echo", "huge", "line", "no-json"], false).await.unwrap();
    stage.call("echo", json!({"text": "x"})).await.expect("noise on stderr disturbs nothing");
    let huge = stage.call("huge", json!({})).await.unwrap();
    assert!(huge.len() < 70_000, "{}", huge.len());
    let error = stage.call("line", json!({})).await.unwrap_err();
    assert!(error.contains("a message of more than"), "{error}");
    let error = stage.call("no-json", json!({})).await.unwrap_err();
    assert!(error.contains("no messages") || error.contains("tried again"), "{error}");
}

#[tokio::test]
async fn a_servers_own_requests_are_refused() {
    let stage = Stage::with(&[], |server| server["callSeconds"] = json!(20));
    stage.grant("coder", &["asks"], false).await.unwrap();
    let said = stage.call("asks", json!({})).await.unwrap();
    for request in ["ask-0: -32601", "ask-1: -32601", "ask-2: -32601"] {
        assert!(said.contains(request), "{said}");
    }
}

#[tokio::test]
async fn a_result_that_does_not_fit_its_schema_is_no_result() {
    let stage = Stage::new(&["--wrong-output"]);
    stage.grant("coder", &["weather"], false).await.unwrap();
    let error = stage.call("weather", json!({})).await.unwrap_err();
    assert!(error.contains("does not fit the schema"), "{error}");
}

#[tokio::test]
async fn every_version_with_a_handshake_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let stage = Stage::new(&["--version", version]);
        let (state, _) = stage.servers.list(&name()).await.unwrap();
        assert_eq!(state.version.as_deref(), Some(version));
        assert_eq!(state.title.as_deref(), Some("fixture 1"));
    }
}

#[tokio::test]
async fn one_turn_can_make_only_so_many_calls() {
    let stage = Stage::with(&[], |server| server["callsPerTurn"] = json!(2));
    stage.grant("coder", &["echo"], false).await.unwrap();
    let turn = context("coder");
    for _ in 0..2 {
        stage.call_as(&turn, "echo", json!({"text": "x"})).await.unwrap();
    }
    let refused = stage.call_as(&turn, "echo", json!({"text": "x"})).await.unwrap_err();
    assert!(refused.contains("2 calls"), "{refused}");
    stage.call("echo", json!({"text": "x"})).await.expect("another turn");
}

#[tokio::test]
async fn a_grant_ends_at_once_and_so_does_a_server_that_is_removed() {
    let stage = Stage::new(&[]);
    stage.grant("coder", &["echo"], false).await.unwrap();
    let agent: AgentId = "coder".parse().unwrap();
    let revoked = stage.servers.revoke((&name(), &agent), McpRevocation::All, "human:ann").await.unwrap();
    assert_eq!((revoked, stage.offered("coder").len()), (1, 0));
    assert!(stage.call("echo", json!({})).await.unwrap_err().contains("not granted"));
    stage.grant("coder", &["echo"], false).await.unwrap();
    assert!(stage.servers.state(&name()).is_running);
    config::mcp_servers::remove(&stage.home, &name()).unwrap();
    stage.servers.forget(&name(), "human:ann").await.unwrap();
    assert!(!stage.servers.state(&name()).is_running);
    assert!(stage.call("echo", json!({})).await.unwrap_err().contains("no MCP server"));
    assert_eq!(stage.servers.granted().await.unwrap(), Grants::default());
}

#[tokio::test]
async fn changed_settings_take_effect_with_a_new_start() {
    let stage = Stage::new(&[]);
    stage.grant("coder", &["echo"], false).await.unwrap();
    config::edit(&stage.home, |document| {
        document["plugins"]["entries"]["flock"]["config"]["mcpServers"]["fixture"]["callSeconds"] = json!(9);
        Ok::<_, config::ConfigError>(())
    })
    .unwrap();
    stage.call("echo", json!({"text": "x"})).await.unwrap();
    let starts = std::fs::read_to_string(stage.dir.path().join("state")).unwrap();
    assert_eq!(starts, "2");
}
