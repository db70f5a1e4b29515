//! The state of the team at one moment, as the gateway's routes tell it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::clean::inline;
use crate::clock;
use crate::store::GATEWAY_LIFETIME_MS;
use crate::supervise::gateway_client::{Client, GatewayClientError};

/// Time that one route may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the routes and returns their answers as one value, which is also what `--json` prints.
///
/// # Errors
///
/// Returns the error of the first route that fails.
pub(super) async fn read(gateway: &Client) -> Result<Value, GatewayClientError> {
    let get = |path: &'static str| gateway.get_json::<Value>(path, TIMEOUT);
    let (agents, status, usage, requests) = tokio::try_join!(
        get("/api/agents"),
        get("/api/status"),
        get("/api/usage/hours"),
        get("/api/approvals")
    )?;
    Ok(json!({
        "agents": agents["agents"],
        "gateway": status,
        "usage": usage,
        "requests": requests["requests"],
    }))
}

/// The team at one moment. Its texts are cleaned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub version: String,
    pub uptime_ms: u64,
    pub memory_bytes: u64,
    pub running: u64,
    pub waiting: u64,
    /// Number of requests that wait for a person.
    pub requests: usize,
    /// The things that are not in order, each in one line.
    pub problems: Vec<String>,
    /// The container engines; empty if only the machine's own is there.
    pub engines: Vec<Part>,
    /// The gateways that share the database; empty if there is only one.
    pub gateways: Vec<Part>,
    /// The second place for checkpoints, conversations and vaults, and the copies there; empty without one.
    pub storage: Vec<Part>,
    /// The newest backup of the home.
    pub backup: Option<Part>,
    /// The server with the database; `None` if it is a file.
    pub database: Option<Part>,
    pub agents: Vec<Agent>,
}

/// A container engine, a gateway or the copies of one kind, in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its name, its state, its number of agents, and so on.
    pub text: String,
    pub is_good: bool,
}

impl Part {
    fn good(text: &str) -> Self {
        Self { text: inline(text).into_owned(), is_good: true }
    }
}

/// An agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Agent {
    pub id: String,
    pub role: String,
    pub state: String,
    /// In milliseconds since 1970.
    pub since: Option<i64>,
    pub detail: String,
    pub session: String,
    pub request: Option<String>,
    pub model: String,
    pub sandbox: Sandbox,
    /// The cost of each hour of today, in millionths of a dollar.
    pub hours: Vec<u64>,
}

impl Agent {
    /// Returns the cost of today, in millionths of a dollar.
    pub(super) fn cost(&self) -> u64 {
        self.hours.iter().sum()
    }
}

/// The sandbox of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sandbox {
    /// Its state and the result of its last probe.
    pub text: String,
    /// The time of that probe, in milliseconds since 1970.
    pub probed_at: Option<i64>,
    pub is_good: bool,
    /// The engine that it is in; empty if only the machine's own is there.
    pub engine: String,
}

#[derive(Deserialize)]
struct Answers {
    agents: Vec<AgentAnswer>,
    gateway: StatusAnswer,
    usage: UsageAnswer,
    requests: Vec<RequestAnswer>,
}

#[derive(Deserialize)]
struct AgentAnswer {
    id: String,
    role: String,
    model: Option<String>,
    sandbox: String,
    frozen: Option<FreezeAnswer>,
    /// An older gateway says nothing about it.
    problem: Option<ModelAnswer>,
    activity: ActivityAnswer,
}

#[derive(Deserialize)]
struct ModelAnswer {
    hint: Option<String>,
}

#[derive(Deserialize)]
struct FreezeAnswer {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ActivityAnswer {
    state: String,
    since: Option<i64>,
    detail: Option<String>,
    session: Option<String>,
    request: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusAnswer {
    version: String,
    uptime_ms: u64,
    memory_bytes: Option<u64>,
    config: Option<ProblemAnswer>,
    docker: Option<ProblemAnswer>,
    turns: TurnsAnswer,
    containers: Option<Vec<ContainerAnswer>>,
    /// Left out if only the machine's own is there.
    #[serde(default)]
    engines: Vec<EngineAnswer>,
    /// Nothing if the database is a file.
    #[serde(default)]
    gateways: Option<Vec<GatewayAnswer>>,
    /// Left out without a second place.
    #[serde(default)]
    storage: Option<StorageAnswer>,
    /// Left out without one.
    #[serde(default)]
    backup: Option<BackupAnswer>,
    /// An older gateway has none.
    #[serde(default)]
    database: Option<DatabaseAnswer>,
    #[serde(default)]
    bridges: Vec<BridgeAnswer>,
    /// An older gateway has none.
    #[serde(default)]
    projects: Option<Vec<ProjectAnswer>>,
    /// An older gateway has none.
    #[serde(default)]
    races: Option<Vec<RaceAnswer>>,
    /// An older gateway has none.
    #[serde(default)]
    mcp_servers: Option<Vec<McpServerAnswer>>,
    /// An older gateway has none.
    #[serde(default)]
    schedules: Option<FailingAnswer>,
    /// An older gateway has none.
    #[serde(default)]
    hooks: Option<FailingAnswer>,
    /// An older gateway has none.
    #[serde(default)]
    parked: Vec<ParkAnswer>,
    /// An older gateway has none.
    #[serde(default)]
    skills: Option<SkillsAnswer>,
    /// Nothing without people.
    #[serde(default)]
    people: Option<PeopleAnswer>,
    /// Nothing while telemetry is off.
    #[serde(default)]
    telemetry: Option<TelemetryAnswer>,
    team: Option<TeamAnswer>,
}

#[derive(Deserialize)]
struct ProblemAnswer {
    problem: Option<String>,
}

#[derive(Deserialize)]
struct TurnsAnswer {
    running: u64,
    waiting: u64,
}

#[derive(Deserialize)]
struct ContainerAnswer {
    agent: Option<String>,
    state: String,
    probe: Option<ProbeAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EngineAnswer {
    name: String,
    memory: Option<u64>,
    memory_used: u64,
    draining: bool,
    reachable: bool,
    problem: Option<String>,
    hint: Option<String>,
    agents: Vec<PlacedAgentAnswer>,
}

#[derive(Deserialize)]
struct PlacedAgentAnswer {
    id: String,
}

/// A gateway that shares the database.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GatewayAnswer {
    name: String,
    address: String,
    version: String,
    silent_ms: i64,
    own: bool,
    agents: Vec<String>,
    /// Nothing if it did not answer the gateway that was asked.
    turns: Option<TurnsAnswer>,
}

/// The second place for checkpoints, conversations and vaults.
#[derive(Deserialize)]
struct StorageAnswer {
    place: String,
    checkpoints: Option<CopiesAnswer>,
    conversations: Option<CopiesAnswer>,
    /// An older gateway has none.
    #[serde(default)]
    vaults: Option<CopiesAnswer>,
}

#[derive(Deserialize)]
struct BackupAnswer {
    at: i64,
    file: String,
}

#[derive(Deserialize)]
struct DatabaseAnswer {
    /// Nothing if it is a file of the home.
    address: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopiesAnswer {
    copied_at: Option<i64>,
    waiting: Vec<String>,
    failed: Vec<FailedCopyAnswer>,
}

#[derive(Deserialize)]
struct FailedCopyAnswer {
    /// The agent or the vault.
    #[serde(alias = "agent", alias = "vault")]
    subject: String,
}

#[derive(Deserialize)]
struct ProbeAnswer {
    at: i64,
    confined: bool,
    findings: Vec<Value>,
}

#[derive(Deserialize)]
struct ParkAnswer {
    credential: String,
    until: i64,
}

/// The imported skills that are not what was agreed to.
#[derive(Deserialize)]
struct SkillsAnswer {
    changed: Vec<String>,
}

#[derive(Deserialize)]
struct PeopleAnswer {
    budgets: Vec<BudgetAnswer>,
}

/// The budget of a person.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BudgetAnswer {
    name: String,
    tokens: Option<AmountAnswer>,
    cost_micros: Option<AmountAnswer>,
}

#[derive(Deserialize)]
struct AmountAnswer {
    limit: u64,
    used: u64,
    reserved: u64,
}

#[derive(Deserialize)]
struct TelemetryAnswer {
    error: Option<TelemetryFailure>,
}

#[derive(Deserialize)]
struct TelemetryFailure {
    message: String,
    lasts: bool,
}

#[derive(Deserialize)]
struct BridgeAnswer {
    name: String,
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProjectAnswer {
    name: String,
    wait_for_person: u64,
    problem: Option<String>,
}

#[derive(Deserialize)]
struct McpServerAnswer {
    name: String,
    failure: Option<String>,
}

/// The names of those that need a person.
#[derive(Deserialize)]
struct FailingAnswer {
    failing: Vec<String>,
}

#[derive(Deserialize)]
struct RaceAnswer {
    race: i64,
    state: String,
}

#[derive(Deserialize)]
struct TeamAnswer {
    #[serde(default)]
    breakers: Vec<BreakerAnswer>,
}

#[derive(Deserialize)]
struct BreakerAnswer {
    provider: String,
}

#[derive(Deserialize)]
struct UsageAnswer {
    agents: Vec<HoursAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HoursAnswer {
    agent: String,
    cost_micros: Vec<u64>,
}

#[derive(Deserialize)]
struct RequestAnswer {
    state: String,
}

impl Snapshot {
    /// Reads the value of [`read`].
    ///
    /// # Errors
    ///
    /// Returns an error if a route answered with something else.
    pub(super) fn parse(value: Value) -> Result<Self, serde_json::Error> {
        let answers: Answers = serde_json::from_value(value)?;
        let status = answers.gateway;
        let mut problems = Vec::new();
        let mut problem =
            |what: &str, text: String| problems.push(inline(&format!("{what}: {text}")).into_owned());
        if let Some(text) = status.config.and_then(|config| config.problem) {
            problem("configuration", text);
        }
        if let Some(text) = status.docker.and_then(|docker| docker.problem) {
            problem("container engine", text);
        }
        // The machine's own is the one above.
        for engine in status.engines.iter().filter(|engine| engine.name != "local") {
            if let Some(text) = &engine.problem {
                let hint = engine.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
                problem("engine", format!("{text}{hint}"));
            }
        }
        for breaker in status.team.into_iter().flat_map(|team| team.breakers) {
            problem("provider", format!("{} does not answer", breaker.provider));
        }
        for park in status.parked {
            problem("quota", format!("{} is used up until {}", park.credential, clock::local(park.until)));
        }
        for bridge in status.bridges.into_iter().filter(|bridge| bridge.state == "disconnected") {
            problem("bridge", format!("{} is not connected", bridge.name));
        }
        for project in status.projects.into_iter().flatten() {
            if let Some(text) = project.problem {
                problem("project", format!("{}: the merge train waits: {text}", project.name));
            }
            if project.wait_for_person > 0 {
                let text =
                    format!("{} submissions of {} wait for you", project.wait_for_person, project.name);
                problem("review", text);
            }
        }
        for race in status.races.into_iter().flatten().filter(|race| race.state == "person") {
            problem(
                "race",
                format!("race {} waits for your choice: flock race show {}", race.race, race.race),
            );
        }
        for server in status.mcp_servers.into_iter().flatten() {
            if let Some(text) = server.failure {
                problem("MCP server", format!("{}: {text}: flock mcp show {}", server.name, server.name));
            }
        }
        for name in status.schedules.into_iter().flat_map(|schedules| schedules.failing) {
            problem("schedule", format!("schedule {name} fails: flock schedule history {name}"));
        }
        for name in status.hooks.into_iter().flat_map(|hooks| hooks.failing) {
            problem("webhook", format!("webhook {name} is paused: flock hook show {name}"));
        }
        for name in status.skills.into_iter().flat_map(|skills| skills.changed) {
            problem("skill", format!("{name} is not what was agreed to: flock skill show {name}"));
        }
        for budget in status.people.into_iter().flat_map(|people| people.budgets) {
            let amounts = [&budget.tokens, &budget.cost_micros];
            let is_over = |amount: &AmountAnswer| amount.used.saturating_add(amount.reserved) >= amount.limit;
            if amounts.into_iter().flatten().any(is_over) {
                let name = &budget.name;
                problem("budget", format!("that of {name} for the day is used up: flock person show {name}"));
            }
        }
        if let Some(failure) = status.telemetry.and_then(|told| told.error).filter(|failure| failure.lasts) {
            problem("telemetry", format!("the collector takes nothing: {}: flock doctor", failure.message));
        }
        let address = status.database.and_then(|database| database.address);
        let containers = status.containers.unwrap_or_default();
        let gateways = status.gateways.filter(|gateways| gateways.len() > 1).unwrap_or_default();
        let agents = answers.agents.into_iter().map(|agent| {
            let container = containers.iter().find(|container| container.agent.as_ref() == Some(&agent.id));
            let hours = answers.usage.agents.iter().find(|hours| hours.agent == agent.id);
            let is_there = |engine: &&EngineAnswer| engine.agents.iter().any(|placed| placed.id == agent.id);
            let engine = status.engines.iter().find(is_there);
            let hours = hours.map(|hours| hours.cost_micros.clone()).unwrap_or_default();
            agent.into_agent(container, engine, hours)
        });
        Ok(Self {
            version: inline(&status.version).into_owned(),
            uptime_ms: status.uptime_ms,
            memory_bytes: status.memory_bytes.unwrap_or_default(),
            running: status.turns.running,
            waiting: status.turns.waiting,
            requests: answers.requests.iter().filter(|request| request.state == "waiting").count(),
            agents: agents.collect(),
            engines: status.engines.iter().map(EngineAnswer::shown).collect(),
            gateways: gateways.iter().map(|gateway| gateway.shown(&gateways)).collect(),
            storage: status.storage.map(|storage| storage.shown()).unwrap_or_default(),
            backup: status
                .backup
                .map(|made| Part::good(&format!("made {}: {}", clock::local(made.at), made.file))),
            database: address.map(|address| Part::good(&format!("PostgreSQL at {address}"))),
            problems,
        })
    }
}

impl EngineAnswer {
    /// Returns the engine in a few words, as in `second: draining, 2 agents, 4096 of 16384 MiB`.
    fn shown(&self) -> Part {
        let state = match (self.reachable, self.draining) {
            (false, _) => "does not answer",
            (true, true) => "draining",
            (true, false) => "ready",
        };
        let agents = agents_text(self.agents.len());
        let used = self.memory_used >> 20;
        let memory = match self.memory {
            Some(most) => format!("{used} of {} MiB", most >> 20),
            None => format!("{used} MiB"),
        };
        let text = inline(&format!("{}: {state}, {agents}, {memory}", self.name)).into_owned();
        Part { text, is_good: self.reachable }
    }
}

impl GatewayAnswer {
    /// Returns the gateway in a few words, as in `rack: running, 2 agents, version 0.3.0`. `all` are those of the database.
    fn shown(&self, all: &[Self]) -> Part {
        let (state, is_good) = match &self.turns {
            _ if self.silent_ms >= GATEWAY_LIFETIME_MS => {
                (format!("silent for {} s", self.silent_ms / 1000), false)
            }
            None => ("does not answer".to_owned(), false),
            Some(_) => ("running".to_owned(), true),
        };
        // Gateways of one machine have its name.
        let is_alone = all.iter().filter(|other| other.name == self.name).count() == 1;
        let place = if is_alone { String::new() } else { format!(" at {}", self.address) };
        let agents = agents_text(self.agents.len());
        let mut text = format!("{}{place}: {state}, {agents}", self.name);
        if self.own {
            text.push_str(", this one");
        } else if all.iter().any(|other| other.own && other.version != self.version) {
            text = format!("{text}, version {}", self.version);
        }
        Part { text: inline(&text).into_owned(), is_good }
    }
}

impl StorageAnswer {
    /// Returns the place and the copies there, as in `checkpoints copied 2026-02-28 09:30:00, failing: ada: flock doctor`.
    fn shown(&self) -> Vec<Part> {
        let mut parts = vec![Part::good(&self.place)];
        for (what, copies) in [
            ("checkpoints", &self.checkpoints),
            ("conversations", &self.conversations),
            ("vaults", &self.vaults),
        ] {
            let Some(copies) = copies else { continue };
            let mut text = match copies.copied_at {
                Some(at) => format!("{what} copied {}", clock::local(at)),
                None => format!("no {what} copied yet"),
            };
            if !copies.waiting.is_empty() {
                text = format!("{text}, waiting: {}", copies.waiting.join(", "));
            }
            if !copies.failed.is_empty() {
                let names: Vec<&str> = copies.failed.iter().map(|failed| failed.subject.as_str()).collect();
                text = format!("{text}, failing: {}: flock doctor", names.join(", "));
            }
            parts.push(Part { is_good: copies.failed.is_empty(), ..Part::good(&text) });
        }
        parts
    }
}

fn agents_text(number: usize) -> String {
    if number == 1 { "1 agent".to_owned() } else { format!("{number} agents") }
}

impl AgentAnswer {
    fn into_agent(
        self,
        container: Option<&ContainerAnswer>,
        engine: Option<&EngineAnswer>,
        hours: Vec<u64>,
    ) -> Agent {
        let clean = |text: &str| inline(text).into_owned();
        let activity = self.activity;
        let detail = clean(activity.detail.as_deref().unwrap_or_default());
        let detail = match activity.state.as_str() {
            _ if detail.is_empty() => detail,
            "frozen" => match self.frozen.and_then(|freeze| freeze.reason) {
                Some(reason) => format!("by {detail}: {}", clean(&reason)),
                None => format!("by {detail}"),
            },
            "blocked" => match self.problem.and_then(|problem| problem.hint) {
                Some(hint) => format!("{detail}: {}", clean(&hint)),
                None => detail,
            },
            "asking" => format!("asks for {detail}"),
            "working" => format!("uses {detail}"),
            "parked" => format!("waits for the quota of {detail}"),
            _ => detail,
        };
        Agent {
            id: clean(&self.id),
            role: clean(&self.role),
            state: clean(&activity.state),
            since: activity.since,
            detail,
            session: clean(activity.session.as_deref().unwrap_or_default()),
            request: activity.request.as_deref().map(clean),
            model: clean(self.model.as_deref().unwrap_or("-")),
            sandbox: Sandbox {
                engine: engine.map(|engine| clean(&engine.name)).unwrap_or_default(),
                ..sandbox(&self.sandbox, container, engine)
            },
            hours,
        }
    }
}

fn sandbox(mode: &str, container: Option<&ContainerAnswer>, engine: Option<&EngineAnswer>) -> Sandbox {
    let good = |text: &str| Sandbox { text: inline(text).into_owned(), is_good: true, ..Sandbox::default() };
    if mode == "off" {
        return good("none");
    }
    if let Some(engine) = engine.filter(|engine| !engine.reachable) {
        return Sandbox { is_good: false, ..good(&format!("engine {} does not answer", engine.name)) };
    }
    let Some(container) = container else { return good("not made") };
    let Some(probe) = &container.probe else { return good(&format!("{}, not probed", container.state)) };
    let verdict = if probe.confined {
        "confined".to_owned()
    } else {
        format!("NOT CONFINED ({})", probe.findings.len())
    };
    let text = inline(&format!("{}, {verdict}", container.state)).into_owned();
    Sandbox { text, probed_at: Some(probe.at), is_good: probe.confined, ..Sandbox::default() }
}
