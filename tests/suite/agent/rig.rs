//! An engine in a home of its own, a model server, and tools that do what a test wants.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flock::agent::{
    Engine, EngineParts, NoOversight, Oversight, TurnError, TurnEvent, TurnLimits, TurnOutcome, TurnRequest,
};
use flock::config::{Live, Role, agents, starter};
use flock::home::Home;
use flock::id::{AgentId, SessionKey, SessionKind, TurnId};
use flock::provider::retry::Policy;
use flock::provider::{BoxFuture, Catalog, Message, Role as Speaker, ToolSpec};
use flock::store::Store;
use flock::tool::{CallContext, Registry, Tool, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::database::HomeDatabase;
use crate::support::model_server::ModelServer;

pub struct Rig {
    dir: tempfile::TempDir,
    pub server: ModelServer,
    pub engine: Arc<Engine>,
    pub events: Arc<Mutex<Vec<TurnEvent>>>,
    pub cancel: CancellationToken,
    pub database: Arc<HomeDatabase>,
}

/// What differs from test to test.
pub struct Set {
    pub api: &'static str,
    pub context_window: u64,
    pub limits: TurnLimits,
    /// How long a model may be silent.
    pub silence: flock::provider::http::HttpLimits,
    pub registry: Registry,
    pub oversight: Arc<dyn Oversight>,
}

impl Default for Set {
    fn default() -> Self {
        let retry = Policy { first_wait: Duration::from_millis(1), ..Policy::default() };
        Self {
            api: "openai-completions",
            context_window: 100_000,
            limits: TurnLimits { retry, ..TurnLimits::default() },
            silence: flock::provider::http::HttpLimits::default(),
            registry: registry(Vec::new()),
            oversight: Arc::new(NoOversight),
        }
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(Set::default())
    }

    pub fn with(set: Set) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = home_at(dir.path());
        let server = ModelServer::start();
        home.make_folders().unwrap();
        let database = Arc::new(HomeDatabase::of(&home));
        let url = match set.api {
            "anthropic-messages" | "google-generative-ai" => server.base_url(),
            "openai-codex-responses" => format!("{}/backend-api", server.base_url()),
            _ => server.openai_url(),
        };
        let mut document =
            starter::document(&home, Some(&"fake/test-model".parse().unwrap()), "token", 4_001);
        document["models"] = json!({"providers": {"fake": {
            "baseUrl": url, "apiKey": "k", "api": set.api,
            "models": [{"id": "test-model", "contextWindow": set.context_window, "maxTokens": 1000, "input": ["text"]}],
        }}});
        document["tools"] = json!({"deny": ["forbidden"], "sandbox": {"tools": {"allow": ["*"]}}});
        for (id, role) in [("coder", Role::Worker), ("other", Role::Worker), ("sysadmin", Role::Sysadmin)] {
            let agent = agents::NewAgent::new(id.parse().unwrap(), role);
            agents::add(&mut document, &home, &agent).unwrap();
        }
        for agent in document["agents"]["list"].as_array_mut().unwrap() {
            agent["tools"]["sandbox"] = Value::Null;
            agent["tools"].as_object_mut().unwrap().remove("sandbox");
        }
        std::fs::write(home.config(), document.to_string()).unwrap();
        let engine = Arc::new(patient(&home, set.limits, set.registry, set.oversight, set.silence));
        Self { dir, server, engine, events: Arc::default(), cancel: CancellationToken::new(), database }
    }

    pub fn home(&self) -> Home {
        home_at(self.dir.path())
    }

    pub fn config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.home().config()).unwrap()).unwrap()
    }

    pub fn write_config(&self, document: &Value) {
        let new = self.home().config().with_extension("new");
        std::fs::write(&new, document.to_string()).unwrap();
        std::fs::rename(new, self.home().config()).unwrap();
    }

    /// Says something in the session `main:ann`.
    pub async fn say(&self, text: &str) -> Result<TurnOutcome, TurnError> {
        self.run(turn(text)).await
    }

    pub async fn run(&self, request: TurnRequest) -> Result<TurnOutcome, TurnError> {
        let events = Arc::clone(&self.events);
        let mut on_event = move |event| events.lock().unwrap().push(event);
        Box::pin(self.engine.run(request, self.cancel.clone(), &mut on_event)).await
    }

    pub fn events(&self) -> Vec<TurnEvent> {
        self.events.lock().unwrap().clone()
    }

    /// The messages of the last request, without the system prompt.
    pub fn asked(&self) -> Vec<Value> {
        let body = self.server.requests().pop().unwrap().body;
        let messages = body["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["role"] != "system").cloned().collect()
    }

    pub fn transcript_path(&self) -> PathBuf {
        let folder = self.home().sessions(&"coder".parse().unwrap());
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.pop().unwrap()
    }

    pub fn transcript(&self) -> Vec<Value> {
        lines(&self.transcript_path())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.server.rejections(), Vec::<String>::new());
        }
    }
}

pub fn home_at(dir: &Path) -> Home {
    Home::new(dir.join("home"), None)
}

pub fn open(home: &Home, limits: TurnLimits, registry: Registry) -> Engine {
    watched(home, limits, registry, Arc::new(NoOversight))
}

pub fn watched(home: &Home, limits: TurnLimits, registry: Registry, oversight: Arc<dyn Oversight>) -> Engine {
    patient(home, limits, registry, oversight, flock::provider::http::HttpLimits::default())
}

fn patient(
    home: &Home,
    limits: TurnLimits,
    registry: Registry,
    oversight: Arc<dyn Oversight>,
    silence: flock::provider::http::HttpLimits,
) -> Engine {
    Engine::new(EngineParts {
        config: Arc::new(Live::open(home.clone()).unwrap()),
        store: Arc::new(Store::open(home).unwrap()),
        registry,
        catalog: Catalog::with_limits(home.clone(), silence),
        limits,
        oversight,
    })
}

pub fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn key(kind: SessionKind, peer: &str) -> SessionKey {
    SessionKey::new(&coder(), kind, peer)
}

pub fn main_key() -> SessionKey {
    key(SessionKind::Main, "ann")
}

fn coder() -> AgentId {
    "coder".parse().unwrap()
}

pub fn turn(text: &str) -> TurnRequest {
    TurnRequest {
        agent: coder(),
        session: main_key(),
        turn: TurnId::new(),
        input: vec![Message::text(Speaker::User, text)],
        context: Vec::new(),
        guidance: Vec::new(),
        provenance: None,
        command: None,
        inbox: None,
        client: flock::agent::ClientTools::default(),
        format: None,
    }
}

/// Copies a home into a folder as a death of the process at this moment would leave it. Returns the copy's database.
pub fn copy(from: &HomeDatabase, to: &Path) -> HomeDatabase {
    let home = home_at(to);
    copy_folder(from.home().root(), home.root());
    from.copied_to(&home)
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_folder(&entry.path(), &target),
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), target).unwrap()),
            _ => {}
        }
    }
}

type Work = Box<
    dyn for<'a> Fn(&'a CallContext, &'a Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>> + Send + Sync,
>;

/// The death of a rig's process, for which a copy of its home stands that is made at that moment.
pub struct Death {
    folder: tempfile::TempDir,
    rig: Mutex<Option<Arc<HomeDatabase>>>,
    copy: Mutex<Option<HomeDatabase>>,
}

impl Death {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { folder: tempfile::tempdir().unwrap(), rig: Mutex::default(), copy: Mutex::default() })
    }

    /// Says who will die.
    pub fn of(&self, rig: &Rig) {
        *self.rig.lock().unwrap() = Some(Arc::clone(&rig.database));
    }

    /// Is this moment.
    pub fn strike(&self) {
        let copy = copy(self.rig.lock().unwrap().as_ref().unwrap(), self.folder.path());
        *self.copy.lock().unwrap() = Some(copy);
    }

    /// Executes a statement in the database that is left.
    pub fn execute(&self, statement: &str) -> u64 {
        self.copy.lock().unwrap().as_ref().unwrap().execute(statement)
    }

    /// The home that is left.
    pub fn home(&self) -> Home {
        home_at(self.folder.path())
    }
}

/// A tool of a test's own.
pub struct Fake {
    spec: ToolSpec,
    work: Work,
}

impl Fake {
    pub fn new(
        name: &str,
        work: impl for<'a> Fn(&'a CallContext, &'a Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "A test's own.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}).into(),
        };
        Self { spec, work: Box::new(work) }
    }
}

impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        (self.work)(context, arguments)
    }
}

/// `echo` gives its arguments back, `broken` panics, `fatal` can't go on, `forbidden` is denied by the
/// policy; and those given.
pub fn registry(more: Vec<Fake>) -> Registry {
    let mut registry = Registry::default();
    let echo = Fake::new("echo", |_, arguments| {
        Box::pin(async move { Ok(ToolOutput::text(format!("echo {arguments}"))) })
    });
    let broken = Fake::new("broken", |_, _| Box::pin(async { panic!("a defect of a tool") }));
    let fatal =
        Fake::new("fatal", |_, _| Box::pin(async { Err(ToolError::Fatal("the sandbox is on fire".into())) }));
    let forbidden = Fake::new("forbidden", |_, _| Box::pin(async { panic!("the policy was not asked") }));
    for tool in [echo, broken, fatal, forbidden].into_iter().chain(more) {
        registry.add(Arc::new(tool));
    }
    registry
}
