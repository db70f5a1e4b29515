//! A gateway in this process, on a port of its own, with a home of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flock::agent::transcript::TranscriptError;
use flock::agent::{self, Engine, TurnError, TurnEvent, TurnOutcome, TurnRequest, TurnStop};
use flock::config::{self, Live, Role, agents, starter};
use flock::gateway::driver::{EventCallback, TurnRunner};
use flock::gateway::error::ApiError;
use flock::gateway::events::EventBuffer;
use flock::gateway::middleware::Middleware;
use flock::gateway::projects::Projects;
use flock::gateway::relay::Relay;
use flock::gateway::{Gateway, GatewayParts, ServerLimits, StatusSource, mcp, server};
use flock::home::{Home, atomic};
use flock::id::AgentId;
use flock::provider::{BoxFuture, Catalog, ProviderError, Usage};
use flock::sandbox::{BackgroundJob, Command, CommandOutcome, JobReply, JobRequest, Sandbox, SandboxError};
use flock::store::Store;
use flock::supervise::gateway_client::{Answer, Call, Client};
use flock::swarm::oversight::TeamOversight;
use flock::swarm::triage::{Executor, FiledRequest, Triage, TriageApproval};
use flock::swarm::{self, Notifier, Swarm};
use flock::tool::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::database::HomeDatabase;
use crate::support::home::free_port;

pub const TOKEN: &str = "owner-token-of-the-test";
pub const LIMIT: Duration = Duration::from_secs(60);

/// A running gateway with the agents `coder` and `tester`.
pub struct House {
    pub home: Home,
    pub gateway: Arc<Gateway>,
    pub runner: Arc<Player>,
    pub sandbox: Arc<Ledger>,
    pub port: u16,
    server: tokio::task::JoinHandle<()>,
    /// Nobody runs the team's turns here.
    _rings: tokio::sync::mpsc::UnboundedReceiver<swarm::scheduler::SchedulerEvent>,
    pub database: HomeDatabase,
    _dir: tempfile::TempDir,
}

impl House {
    pub async fn new() -> Self {
        Self::with(ServerLimits::default()).await
    }

    pub async fn with(limits: ServerLimits) -> Self {
        Self::with_parts(limits, |_| {}).await
    }

    /// One on a port that no other test gets, not even once the gateway has stopped.
    pub async fn on_kept_port() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).await.unwrap();
        Self::behind(listener, ServerLimits::default(), |_| {})
    }

    /// One with some parts replaced.
    pub async fn with_parts(limits: ServerLimits, change: impl FnOnce(&mut GatewayParts)) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Self::behind(listener, limits, change)
    }

    fn behind(listener: TcpListener, limits: ServerLimits, change: impl FnOnce(&mut GatewayParts)) -> Self {
        let dir = tempfile::Builder::new().prefix("flock-test-").tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let database = HomeDatabase::of(&home);
        let port = listener.local_addr().unwrap().port();
        let mut document = starter::document(&home, Some(&"script/demo".parse().unwrap()), TOKEN, port);
        for id in ["coder", "tester"] {
            agents::add(&mut document, &home, &agent(id)).unwrap();
        }
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let runner = Arc::new(Player::default());
        let sandbox = Arc::new(Ledger::default());
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let events = Arc::new(EventBuffer::for_this_process(limits.events));
        let (ringer, rings) = tokio::sync::mpsc::unbounded_channel();
        let news = events.clone();
        let notifier = Notifier::new(ringer, Arc::new(move |name, data| news.publish(name, data)));
        let store = Arc::new(Store::open(&home).unwrap());
        let swarm =
            Arc::new(Swarm::new(swarm::SwarmParts { live: live.clone(), store: store.clone(), notifier }));
        let triage = Triage::new(swarm.clone(), Arc::new(Idle));
        let oversight = Arc::new(TeamOversight::new(swarm.clone(), Arc::new(TriageApproval(triage.clone()))));
        let catalog = Catalog::new(home.clone());
        let engine = Engine::new(agent::EngineParts {
            config: live.clone(),
            store: store.clone(),
            registry: Registry::default(),
            catalog: catalog.clone(),
            limits: agent::TurnLimits::default(),
            oversight: oversight.clone(),
        });
        let mut parts = GatewayParts {
            servers: mcp::servers(&live, &store),
            projects: Arc::new(Projects::new(swarm.clone())),
            relay: Arc::new(Relay::new(live.clone(), catalog, oversight, port)),
            engine: Arc::new(engine),
            triage,
            live,
            swarm,
            events,
            runner: runner.clone(),
            sandbox: sandbox.clone(),
            records: Arc::new(NoRecords),
            limits,
            port,
            group: None,
            instance: "instance-of-the-test".to_owned(),
            bridges: Arc::default(),
        };
        change(&mut parts);
        let gateway = Gateway::new(|_| parts);
        gateway.driver.recovered();
        let front = Arc::new(Middleware::new(gateway.clone()));
        let server = tokio::spawn(server::serve(listener, front, limits, gateway.stop.clone()));
        Self { home, gateway, runner, sandbox, port, server, _rings: rings, database, _dir: dir }
    }

    /// A client with the owner's token.
    pub fn owner(&self) -> Client {
        Client::new(self.port).with_token(TOKEN)
    }

    /// Changes the configuration as the command line does.
    pub fn edit(&self, change: impl FnOnce(&mut Value)) {
        config::edit(&self.home, |document| {
            change(document);
            Ok::<_, config::ConfigError>(())
        })
        .unwrap();
    }

    pub fn add(&self, id: &str) {
        self.edit(|document| agents::add(document, &self.home, &agent(id)).unwrap());
    }

    pub fn remove(&self, id: &str) {
        self.edit(|document| agents::remove(document, &id.parse().unwrap()).unwrap());
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Sends bytes as they are and reads until the gateway closes.
    pub async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }

    /// Asks `coder`, without a stream.
    pub async fn chat(&self, text: &str) -> Answer {
        self.post(&ask(text), &[]).await
    }

    pub async fn post(&self, body: &Value, headers: &[(&'static str, &str)]) -> Answer {
        let mut call = Call::post("/v1/chat/completions").json(body).unwrap();
        for (name, value) in headers {
            call = call.header(name, value);
        }
        self.owner().send(call, LIMIT).await.unwrap()
    }

    pub async fn stopped(self) {
        self.gateway.stop();
        self.gateway.driver.ended().await;
        tokio::time::timeout(LIMIT, self.server).await.unwrap().unwrap();
    }
}

/// Reads until the other end closes.
pub async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await.expect("the gateway must close").ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The status and the body of an answer, which is null if it is not JSON.
pub async fn json_of(answer: Answer) -> (u16, Value) {
    let status = answer.status();
    (status, answer.json(LIMIT).await.unwrap_or(Value::Null))
}

/// The status and the text of an answer.
pub async fn text(answer: Answer) -> (u16, String) {
    let status = answer.status();
    (status, String::from_utf8(answer.bytes(8 << 20, LIMIT).await.unwrap()).unwrap())
}

/// Sends a call; gives the status and the body of its answer.
pub async fn send(client: &Client, call: Call) -> (u16, Value) {
    json_of(client.send(call, LIMIT).await.unwrap()).await
}

/// A request to `coder`.
pub fn ask(text: &str) -> Value {
    json!({"model": "coder", "messages": [{"role": "user", "content": text}]})
}

/// As [`ask`], streamed.
pub fn ask_streamed(text: &str) -> Value {
    let mut body = ask(text);
    body["stream"] = true.into();
    body
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + LIMIT;
    while !condition() {
        assert!(tokio::time::Instant::now() < end, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn agent(id: &str) -> agents::NewAgent {
    agents::NewAgent::new(id.parse().unwrap(), Role::Worker)
}

/// Plays turns by their last message: `say a|b|c` streams pieces, `tool` calls a tool between two texts,
/// `fits JSON` says that, `form TEXT` says it when it is asked once more, `wait` goes on when released, `fail WORD` fails, `broke WORD` fails after its input was kept, `half` fails after the first text, `panic` panics.
#[derive(Default)]
pub struct Player {
    pub requests: Mutex<Vec<TurnRequest>>,
    pub running: AtomicUsize,
    pub most: AtomicUsize,
    pub cancelled: AtomicUsize,
    pub release: Notify,
    in_form: Mutex<String>,
    per_session: Mutex<HashMap<String, usize>>,
    pub overlapped: AtomicUsize,
}

impl Player {
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub fn last(&self) -> TurnRequest {
        self.requests.lock().unwrap().last().unwrap().clone()
    }

    async fn play(
        &self,
        request: TurnRequest,
        cancel: CancellationToken,
        tell: EventCallback<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let text = request.input.last().unwrap().joined_text();
        self.requests.lock().unwrap().push(request);
        let (verb, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match verb {
            "say" => {
                for piece in rest.split('|') {
                    tell(TurnEvent::TextDelta(piece.to_owned()));
                    tokio::task::yield_now().await;
                }
                Ok(outcome(&rest.replace('|', "")))
            }
            "tool" => {
                tell(TurnEvent::TextDelta("looking".to_owned()));
                tell(TurnEvent::ToolStarted {
                    call_id: "call-1".to_owned(),
                    name: "exec".to_owned(),
                    arguments_preview: "{\"command\":\"ls\"}".to_owned(),
                });
                tell(TurnEvent::ToolEnded {
                    call_id: "call-1".to_owned(),
                    name: "exec".to_owned(),
                    is_error: false,
                    took: Duration::from_millis(3),
                });
                tell(TurnEvent::TextDelta("found".to_owned()));
                Ok(outcome("found"))
            }
            "wait" | "wait-streaming" => {
                if verb == "wait-streaming" {
                    tell(TurnEvent::TextDelta("first".to_owned()));
                }
                tokio::select! {
                    () = self.release.notified() => Ok(outcome("released")),
                    () = cancel.cancelled() => {
                        self.cancelled.fetch_add(1, Ordering::SeqCst);
                        Err(TurnError::Cancelled)
                    }
                }
            }
            "flood" => {
                let piece = "x".repeat(64 << 10);
                while !cancel.is_cancelled() {
                    tell(TurnEvent::TextDelta(piece.clone()));
                    tokio::task::yield_now().await;
                }
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                Err(TurnError::Cancelled)
            }
            "half" => {
                tell(TurnEvent::TextDelta("half of".to_owned()));
                Err(TurnError::Provider(failed()))
            }
            "fits" => {
                let text = rest.split("\n\n").next().unwrap();
                tell(TurnEvent::TextDelta(text.to_owned()));
                Ok(outcome(text))
            }
            "form" => {
                *self.in_form.lock().unwrap() = rest.split("\n\n").next().unwrap().to_owned();
                tell(TurnEvent::TextDelta("Sure, here it is.".to_owned()));
                Ok(outcome("Sure, here it is."))
            }
            "Your" => {
                let text = self.in_form.lock().unwrap().clone();
                tell(TurnEvent::TextDelta(text.clone()));
                Ok(outcome(&text))
            }
            "fail" => Err(failure(rest)),
            "broke" => {
                tell(TurnEvent::Began);
                Err(failure(rest))
            }
            "panic" => panic!("as asked"),
            _ => Ok(outcome(&text)),
        }
    }
}

impl TurnRunner for Player {
    fn run<'a>(
        &'a self,
        request: TurnRequest,
        cancel: CancellationToken,
        on_event: EventCallback<'a>,
    ) -> BoxFuture<'a, Result<TurnOutcome, TurnError>> {
        Box::pin(async move {
            let session = request.session.to_string();
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            {
                let mut sessions = self.per_session.lock().unwrap();
                let count = sessions.entry(session.clone()).or_default();
                *count += 1;
                if *count > 1 {
                    self.overlapped.fetch_add(1, Ordering::SeqCst);
                }
            }
            let result = self.play(request, cancel, on_event).await;
            *self.per_session.lock().unwrap().get_mut(&session).unwrap() -= 1;
            self.running.fetch_sub(1, Ordering::SeqCst);
            result
        })
    }
}

fn outcome(text: &str) -> TurnOutcome {
    TurnOutcome {
        text: text.to_owned(),
        stop: TurnStop::End,
        calls: Vec::new(),
        usage: Usage { input: 10, output: 5, cache_read: 2, cache_write: 0, cost: None },
        model: "script/demo".parse().unwrap(),
        steps: 1,
    }
}

fn failed() -> ProviderError {
    let (provider, message) = ("acme".to_owned(), "it broke".to_owned());
    ProviderError::Failed { provider, message, retry_after: None, unsent: false }
}

fn failure(word: &str) -> TurnError {
    let provider = "acme".to_owned();
    let message = "as it said".to_owned();
    if word == "overflow" {
        let error = ProviderError::Rejected { provider, status: 400, message };
        return TurnError::Overflow { window: 8192, error };
    }
    TurnError::Provider(match word {
        "401" => ProviderError::Unauthorised { provider, status: 401, message },
        "400" => ProviderError::Rejected { provider, status: 400, message },
        "429" => ProviderError::Limited {
            provider,
            status: 429,
            message,
            retry_after: Some(Duration::from_secs(7)),
        },
        "500" => failed(),
        "timeout" => ProviderError::TimedOut { provider, after: Duration::from_secs(60) },
        "garbled" => ProviderError::Garbled { provider, message },
        "unconfigured" => ProviderError::NotConfigured {
            provider,
            model: "acme/one".to_owned(),
            reason: "it has no key".to_owned(),
            hint: "flock config set models.providers.acme.apiKey -".to_owned(),
        },
        _ => {
            return TranscriptError {
                what: "append to",
                path: "/secret/place.jsonl".into(),
                source: std::io::Error::other("disk full"),
            }
            .into();
        }
    })
}

struct NoRecords;

impl StatusSource for NoRecords {
    fn sessions(&self, _: Option<&AgentId>) -> BoxFuture<'_, Result<Vec<Value>, ApiError>> {
        Box::pin(async { Ok(vec![json!({"key": "agent:coder:flock:main:ann"})]) })
    }

    fn status(&self) -> BoxFuture<'_, Value> {
        Box::pin(async { json!({"containers": []}) })
    }

    fn usage(&self) -> BoxFuture<'_, Value> {
        Box::pin(async { json!({"at": 1, "sandboxes": [], "problem": null, "hint": null}) })
    }

    fn probe<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move { Ok(json!({"id": agent, "probe": {"confined": true}})) })
    }
}

/// Hands that do nothing and say so.
struct Idle;

impl Executor for Idle {
    fn carry_out<'a>(
        &'a self,
        _asked: &'a FiledRequest,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::ready(Ok("worked".to_owned())))
    }
}

/// Notes what is asked of the sandboxes.
#[derive(Default)]
pub struct Ledger {
    pub entries: Mutex<Vec<String>>,
}

impl Ledger {
    fn note(&self, entry: String) -> BoxFuture<'_, Result<(), SandboxError>> {
        self.entries.lock().unwrap().push(entry);
        Box::pin(async { Ok(()) })
    }
}

impl Sandbox for Ledger {
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.note(format!("ensure {agent}"))
    }

    fn run<'a>(
        &'a self,
        _: &'a AgentId,
        _: Command,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        unreachable!()
    }

    fn spawn<'a>(&'a self, _: &'a AgentId, _: Command) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>> {
        unreachable!()
    }

    fn jobs<'a>(&'a self, _: &'a AgentId, _: JobRequest) -> BoxFuture<'a, Result<JobReply, SandboxError>> {
        unreachable!()
    }

    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.note(format!("remove {agent}"))
    }

    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.note(format!("pause {agent}"))
    }

    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.note(format!("resume {agent}"))
    }
}
