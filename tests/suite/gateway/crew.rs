//! A gateway with an engine and all of flock's tools, in this process. The turns of `coder` and `orchestrator` are
//! run by a program that the test plays; `tester` is flock's own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use flock::agent::{self, Engine};
use flock::config::setting::{self, Setting};
use flock::config::{Api, Live, Role, agents, starter};
use flock::gateway::events::EventBuffer;
use flock::gateway::middleware::Middleware;
use flock::gateway::projects::Projects;
use flock::gateway::relay::{Relay, Ticket};
use flock::gateway::{Gateway, GatewayParts, ServerLimits, StatusSource, mcp, server, tools};
use flock::home::{Home, atomic};
use flock::id::{AgentId, SessionKey, TurnId};
use flock::provider::{BoxFuture, Catalog, StopReason, ToolSpec};
use flock::runtime::{
    Runtime, RuntimeError, RuntimeEvent, RuntimeEventSink, RuntimeReply, RuntimeRequest, Runtimes,
};
use flock::sandbox::Sandbox;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::engine as docker;
use flock::store::Store;
use flock::supervise::gateway_client::{Call, Client};
use flock::swarm::oversight::TeamOversight;
use flock::swarm::triage::TriageApproval;
use flock::swarm::{self, Notifier, Swarm};
use flock::tool::{CallContext, CallProgress, LogLevel, LogMessage, Tool, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use super::house::{LIMIT, TOKEN};
use crate::support::database::HomeDatabase;

/// As the played program is called in an agent's `runtime`.
pub const PROGRAM: &str = "played";

pub struct Crew {
    pub home: Home,
    pub gateway: Arc<Gateway>,
    pub port: u16,
    /// The last turn that the played program's conversation has.
    pub knows: Arc<Mutex<Option<TurnId>>>,
    /// Where it was last asked for that.
    pub knew_on: Arc<Mutex<Option<ThreadId>>>,
    /// How many calls of [`HELD`] have begun, and how many have ended.
    pub held: (watch::Receiver<u32>, watch::Receiver<u32>),
    /// The most of them that ran at once.
    pub most_held: Arc<AtomicU32>,
    turns: mpsc::UnboundedReceiver<Played>,
    server: tokio::task::JoinHandle<()>,
    _rings: mpsc::UnboundedReceiver<swarm::scheduler::SchedulerEvent>,
    _database: HomeDatabase,
    _dir: tempfile::TempDir,
}

/// The tool that does nothing here until its call is ended; with `together`, until so many such calls have begun. With
/// `progress`, it reports so often first, and with `logs` it writes a log message of each of these levels.
pub const HELD: &str = "flock_workspace_tree";

struct Held {
    spec: ToolSpec,
    begun: watch::Sender<u32>,
    ended: watch::Sender<u32>,
    together: watch::Sender<u64>,
    most: Arc<AtomicU32>,
}

/// Counts a call's end, also where it is dropped.
struct Ends<'a>(&'a watch::Sender<u32>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

impl Tool for Held {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async {
            self.begun.send_modify(|count| *count += 1);
            let _ends = Ends(&self.ended);
            self.most.fetch_max(*self.begun.borrow() - *self.ended.borrow(), Ordering::SeqCst);
            if let (Some(sink), Some(count)) = (&context.progress, arguments["progress"].as_u64()) {
                for done in 1..=count {
                    let message = Some(format!("part {done}"));
                    sink.report(CallProgress { done: done as f64, total: Some(count as f64), message });
                }
            }
            for level in arguments["logs"].as_array().into_iter().flatten() {
                let (Some(sink), Some(level)) = (&context.progress, level.as_str().and_then(LogLevel::parse))
                else {
                    continue;
                };
                let data = json!(format!("a {} message", level.as_str()));
                sink.log(LogMessage { level, logger: "mcp:notes".to_owned(), data });
            }
            let Some(all) = arguments["together"].as_u64() else {
                context.cancel.cancelled().await;
                return Ok(ToolOutput::text("ended"));
            };
            self.together.send_modify(|count| *count += 1);
            let mut count = self.together.subscribe();
            tokio::select! {
                met = count.wait_for(|count| *count >= all) => drop(met),
                () = context.cancel.cancelled() => return Ok(ToolOutput::text("alone")),
            }
            Ok(ToolOutput::text("together"))
        })
    }
}

/// A turn that the program was given.
pub struct Played {
    pub order: RuntimeRequest,
    /// What opens MCP in it.
    pub token: String,
    /// What opens the relay, where its calls go through it.
    pub relay: Option<String>,
    pub ticket: Arc<Ticket>,
    tell: mpsc::UnboundedSender<RuntimeEvent>,
    end: oneshot::Sender<Result<RuntimeReply, RuntimeError>>,
}

impl Played {
    pub fn tell(&self, event: RuntimeEvent) {
        self.tell.send(event).unwrap();
    }

    /// Ends the turn with this text.
    pub fn say(self, text: &str) {
        self.tell(RuntimeEvent::Text(text.to_owned()));
        drop(self.tell);
        let usage = self.relay.map(|_| self.ticket.calls.now().usage);
        self.end.send(Ok(RuntimeReply { stop: StopReason::End, usage })).unwrap();
    }

    pub fn fail(self, error: RuntimeError) {
        self.end.send(Err(error)).unwrap();
    }

    /// Waits until the turn is ended from outside.
    pub async fn ended(mut self) {
        tokio::time::timeout(LIMIT, self.end.closed()).await.expect("the turn must end");
    }
}

/// Hands its turns to the test.
struct Program {
    relay: Arc<Relay>,
    /// How it asks its models, where it does so through the relay.
    api: Option<Api>,
    turns: mpsc::UnboundedSender<Played>,
    knows: Arc<Mutex<Option<TurnId>>>,
    knew_on: Arc<Mutex<Option<ThreadId>>>,
}

impl Runtime for Program {
    fn name(&self) -> &'static str {
        PROGRAM
    }

    fn is_metered(&self, _: &RuntimeRequest) -> bool {
        self.api.is_some()
    }

    fn wants_recent(&self) -> bool {
        true
    }

    fn knows<'a>(
        &'a self,
        _: &'a SessionKey,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<TurnId>, RuntimeError>> {
        Box::pin(async {
            *self.knew_on.lock().unwrap() = Some(std::thread::current().id());
            Ok(*self.knows.lock().unwrap())
        })
    }

    fn run<'a>(
        &'a self,
        order: &'a RuntimeRequest,
        tell: RuntimeEventSink<'a>,
    ) -> BoxFuture<'a, Result<RuntimeReply, RuntimeError>> {
        Box::pin(async move {
            let opened = self.relay.tickets().open(order, self.api);
            let (teller, mut told) = mpsc::unbounded_channel();
            let (end, ended) = oneshot::channel();
            let (token, relay, ticket) = (opened.mcp, opened.relay, opened.ticket);
            let _close = opened.close;
            self.turns
                .send(Played { order: order.clone(), token, relay, ticket, tell: teller, end })
                .unwrap();
            while let Some(event) = told.recv().await {
                tell(event);
            }
            ended.await.expect("the test ends its turns")
        })
    }
}

struct NoRecords;

impl StatusSource for NoRecords {
    fn sessions(
        &self,
        _: Option<&AgentId>,
    ) -> BoxFuture<'_, Result<Vec<Value>, flock::gateway::error::ApiError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn status(&self) -> BoxFuture<'_, Value> {
        Box::pin(async { json!({}) })
    }

    fn usage(&self) -> BoxFuture<'_, Value> {
        Box::pin(async { json!({}) })
    }

    fn probe<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<Value, flock::gateway::error::ApiError>> {
        Box::pin(async { Ok(json!({})) })
    }
}

impl Crew {
    pub async fn new() -> Self {
        Self::with(None, |_| {}).await
    }

    /// One whose played program asks its models this way, with this configuration.
    pub async fn with(api: Option<Api>, change: impl FnOnce(&mut Value)) -> Self {
        let dir = tempfile::Builder::new().prefix("flock-test-").tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let database = HomeDatabase::of(&home);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut document = starter::document(&home, Some(&"script/demo".parse().unwrap()), TOKEN, port);
        for (id, role) in
            [("coder", Role::Worker), ("tester", Role::Worker), ("orchestrator", Role::Orchestrator)]
        {
            let agent = agents::NewAgent::new(id.parse().unwrap(), role);
            agents::add(&mut document, &home, &agent).unwrap();
        }
        for id in ["coder", "orchestrator"] {
            setting::set(&mut document, &id.parse().unwrap(), &[(Setting::Runtime, json!(PROGRAM))]).unwrap();
        }
        change(&mut document);
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let store = Arc::new(Store::open(&home).unwrap());
        let limits = ServerLimits::default();
        let events = Arc::new(EventBuffer::for_this_process(limits.events));
        let (ringer, rings) = mpsc::unbounded_channel();
        let news = events.clone();
        let notifier = Notifier::new(ringer, Arc::new(move |name, data| news.publish(name, data)));
        let swarm =
            Arc::new(Swarm::new(swarm::SwarmParts { live: live.clone(), store: store.clone(), notifier }));
        let newest = live.clone();
        let sandboxes: Arc<dyn Sandbox> = Arc::new(DockerSandbox::new(
            home.clone(),
            Arc::new(move || newest.current()),
            Arc::new(docker::Engine::from_env()),
        ));
        let servers = mcp::servers(&live, &store);
        let triage = tools::triage(&live, &swarm, &sandboxes, &servers);
        let (begun, has_begun) = watch::channel(0);
        let (ended, has_ended) = watch::channel(0);
        let (together, most_held) = (watch::channel(0).0, Arc::new(AtomicU32::new(0)));
        let catalog = Catalog::new(home.clone());
        let oversight = Arc::new(TeamOversight::new(swarm.clone(), Arc::new(TriageApproval(triage.clone()))));
        let relay = Arc::new(Relay::new(live.clone(), catalog.clone(), oversight.clone(), port));
        let (ordered, turns) = mpsc::unbounded_channel();
        let (knows, knew_on) = (Arc::default(), Arc::default());
        let program = Program {
            relay: relay.clone(),
            api,
            turns: ordered,
            knows: Arc::clone(&knows),
            knew_on: Arc::clone(&knew_on),
        };
        let gateway = Gateway::new(|gateway| {
            let projects = Arc::new(Projects::new(swarm.clone()));
            let mut registry =
                tools::registry(&live, &triage, &sandboxes, &projects, &servers, gateway.clone());
            let spec = registry.get(HELD).unwrap().spec().clone();
            registry.add(Arc::new(Held { spec, begun, ended, together, most: most_held.clone() }));
            let engine = Engine::new(agent::EngineParts {
                config: live.clone(),
                store,
                registry,
                catalog,
                limits: agent::TurnLimits::default(),
                oversight,
            });
            let engine = Arc::new(engine.with_runtimes(Runtimes::new(vec![Arc::new(program)])));
            GatewayParts {
                bridges: Arc::default(),
                projects,
                live,
                swarm,
                events,
                runner: engine.clone(),
                sandbox: sandboxes,
                records: Arc::new(NoRecords),
                limits,
                port,
                group: None,
                instance: "instance-of-the-test".to_owned(),
                triage,
                engine,
                relay,
                servers,
            }
        });
        gateway.driver.recovered();
        let front = Arc::new(Middleware::new(gateway.clone()));
        let server = tokio::spawn(server::serve(listener, front, limits, gateway.stop.clone()));
        let held = (has_begun, has_ended);
        Self {
            home,
            gateway,
            port,
            knows,
            knew_on,
            held,
            most_held,
            turns,
            server,
            _rings: rings,
            _database: database,
            _dir: dir,
        }
    }

    /// A client with the owner's token.
    pub fn owner(&self) -> Client {
        Client::new(self.port).with_token(TOKEN)
    }

    pub async fn send(&self, client: &Client, call: Call) -> (u16, Value) {
        let answer = client.send(call, LIMIT).await.unwrap();
        let status = answer.status();
        let bytes = answer.bytes(16 << 20, LIMIT).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Asks as the owner.
    pub async fn ask(&self, call: Call) -> (u16, Value) {
        self.send(&self.owner(), call).await
    }

    /// Says something in the background; gives what the answer will be.
    pub fn say(&self, body: Value) -> tokio::task::JoinHandle<(u16, Value)> {
        let owner = self.owner();
        tokio::spawn(async move {
            let call = Call::post("/api/message").json(&body).unwrap();
            let answer = owner.send(call, LIMIT).await.unwrap();
            let status = answer.status();
            let bytes = answer.bytes(16 << 20, LIMIT).await.unwrap();
            (status, serde_json::from_slice(&bytes).unwrap())
        })
    }

    /// The next turn that the program is given.
    pub async fn turn(&mut self) -> Played {
        tokio::time::timeout(LIMIT, self.turns.recv()).await.expect("a turn must begin").unwrap()
    }

    /// A turn of `coder` that runs, and the answer that is waited for.
    pub async fn begin(&mut self) -> (Played, tokio::task::JoinHandle<(u16, Value)>) {
        let answer = self.say(json!({"agent": "coder", "prompt": "go"}));
        (self.turn().await, answer)
    }

    pub async fn stopped(self) {
        self.gateway.stop();
        self.gateway.driver.ended().await;
        tokio::time::timeout(LIMIT, self.server).await.unwrap().unwrap();
    }
}
