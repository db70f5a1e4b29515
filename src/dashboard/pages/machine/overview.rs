//! The overview: the gateway, those that share its database, the second place and the newest backup, the container engines
//! with the sandboxes, the images, the package store, and the browsers.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use super::super::engine::{Engine, PlacedAgent, PlacedEngine, Probe};
use super::Tab;
use super::gateways::{GatewayView, SharedGateway};
use super::storage::{CopiesView, SecondPlace};
use crate::clean;
use crate::clock;
use crate::dashboard::format::{Moment, bytes, fill};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    version: String,
    pid: u64,
    started_at: i64,
    memory_bytes: Option<u64>,
    config: ConfigState,
    turns: Turns,
    /// `None` if the database is a file, or if they are not for this viewer.
    gateways: Option<Vec<SharedGateway>>,
    /// `None` if it is not for this viewer.
    database: Option<Database>,
    /// `None` without one, or if it is not for this viewer.
    storage: Option<SecondPlace>,
    /// `None` without one, or if it is not for this viewer.
    backup: Option<Backup>,
    docker: Engine,
    /// Empty if only the machine's own is there.
    #[serde(default)]
    engines: Vec<PlacedEngine>,
    containers: Option<Vec<Container>>,
    images: Option<Vec<Image>>,
    store: Option<Store>,
    skills: Option<Skills>,
    telemetry: Option<Telemetry>,
    #[serde(default)]
    unread: Vec<UnreadPart>,
}

/// A part of the status that could not be read.
#[derive(Deserialize)]
struct UnreadPart {
    part: String,
    problem: String,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct Database {
    /// The server. `None` if the database is a file of the home.
    address: Option<String>,
}

/// The newest backup of the home.
#[derive(Deserialize)]
struct Backup {
    at: i64,
    file: String,
}

/// The imported skills that are not what was agreed to.
#[derive(Deserialize)]
struct Skills {
    count: u64,
    changed: Vec<String>,
}

/// The collector of traces, and what became of the spans.
#[derive(Deserialize)]
struct Telemetry {
    endpoint: String,
    sent: u64,
    lost: BTreeMap<String, u64>,
    error: Option<TelemetryFailure>,
}

impl Telemetry {
    fn lost(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Returns the reason for which the collector takes nothing now.
    fn failure(&self) -> Option<&str> {
        self.error.as_ref().filter(|error| error.lasts).map(|error| error.message.as_str())
    }
}

#[derive(Deserialize)]
struct TelemetryFailure {
    message: String,
    lasts: bool,
}

#[derive(Deserialize)]
struct AgentList {
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
struct Agent {
    id: String,
    problem: Option<ModelProblem>,
}

#[derive(Deserialize)]
struct ModelProblem {
    message: String,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct ConfigState {
    problem: Option<String>,
}

#[derive(Deserialize)]
struct Turns {
    running: u64,
    waiting: u64,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    agent: Option<String>,
    status: String,
    runtime: Option<String>,
    probe: Option<Probe>,
}

#[derive(Deserialize)]
struct Image {
    image: String,
    present: Option<bool>,
}

#[derive(Deserialize)]
struct Store {
    container: String,
    state: String,
    volume: String,
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    id: String,
    person: String,
    browser: String,
    last_used_at: i64,
    current: bool,
    notifications: Option<Notifications>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notifications {
    result: Option<String>,
    failures: u32,
}

#[derive(Deserialize)]
struct Supervision {
    supervisor: Option<Supervisor>,
    units: Vec<Unit>,
    openclaw: Option<OpenClaw>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Supervisor {
    version: String,
    pid: i64,
    started_at: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unit {
    name: String,
    state: String,
    pid: Option<i64>,
    started_at: Option<i64>,
    restarts: u64,
    crashes: u64,
    reason: Option<String>,
    breaker_opened_at: Option<i64>,
}

#[derive(Deserialize)]
struct OpenClaw {
    version: String,
    commit: String,
    reference: String,
    previous: Option<String>,
}

#[derive(Template)]
#[template(path = "machine_overview.html")]
struct MachinePage {
    layout: Layout,
    tab: Tab,
    status: Status,
    started: Moment,
    memory: String,
    /// The copies in the second place. Empty as long as nothing is known of them.
    copies: Vec<CopiesView>,
    backed_up: Option<Moment>,
    /// Empty if the database is a file.
    gateways: Vec<GatewayView>,
    supervisor: Option<SupervisorView>,
    units: Vec<UnitView>,
    openclaw: Option<OpenClaw>,
    engines: Vec<EngineView>,
    containers: Vec<ContainerView>,
    browsers: Vec<BrowserView>,
    /// The agents whose model can't be asked.
    blocked: Vec<(String, ModelProblem)>,
}

struct SupervisorView {
    version: String,
    pid: i64,
    started: Moment,
}

struct UnitView {
    name: String,
    state: String,
    pid: Option<i64>,
    started: Option<Moment>,
    restarts: u64,
    crashes: u64,
    reason: Option<String>,
    /// Set if it crashed so often that it is not restarted any more.
    gave_up: Option<Moment>,
}

struct EngineView {
    name: String,
    address: String,
    state: &'static str,
    is_good: bool,
    /// The reason why it does not answer, and what helps.
    problem: Option<(String, Option<String>)>,
    /// The silence after which its agents are placed elsewhere, in words.
    lost_after: Option<String>,
    agents: Vec<String>,
    memory: String,
    labels: String,
    runtime: String,
}

impl EngineView {
    fn new(texts: &'static Texts, engine: PlacedEngine) -> Self {
        let (state, is_good) = match (engine.reachable, engine.draining) {
            (false, _) => (texts.engine_silent, false),
            (true, true) => (texts.engine_draining, true),
            (true, false) => (texts.engine_ready, true),
        };
        let used = bytes(engine.memory_used);
        Self {
            state,
            is_good,
            problem: engine.problem.map(|problem| (problem, engine.hint)),
            lost_after: engine
                .lost_after_minutes
                .map(|minutes| fill(texts.engine_lost_after, &[&minutes.to_string()])),
            agents: engine.agents.iter().map(PlacedAgent::text).collect(),
            memory: match engine.memory {
                Some(most) => fill(texts.used_of, &[&used, &bytes(most)]),
                None => fill(texts.used_without_limit, &[&used]),
            },
            labels: engine.labels.join(", "),
            runtime: engine.runtime.unwrap_or_default(),
            name: engine.name,
            address: engine.address,
        }
    }
}

struct ContainerView {
    name: String,
    agent: String,
    status: String,
    runtime: String,
    /// `None` if it was not probed.
    confined: Option<bool>,
    findings: Vec<String>,
    probed: Option<Moment>,
}

struct BrowserView {
    id: String,
    person: String,
    browser: String,
    last_used: Moment,
    is_current: bool,
    /// The words about its notifications; empty if it gets none.
    notifications: String,
    do_notifications_fail: bool,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let (status, supervision, sessions, agents) = tokio::join!(
        fetch::<Status>(api, "/api/status"),
        fetch::<Supervision>(api, "/api/supervisor"),
        fetch::<SessionList>(api, "/api/dashboard/sessions"),
        fetch::<AgentList>(api, "/api/agents"),
    );
    let (mut status, supervision, sessions, agents) = (status?, supervision?, sessions?, agents?);
    let blocked = agents.agents.into_iter().filter_map(|agent| Some((agent.id, agent.problem?)));
    let containers = status.containers.iter().flatten().map(|container| ContainerView {
        name: container.name.clone(),
        agent: container.agent.clone().unwrap_or_default(),
        status: container.status.clone(),
        runtime: container.runtime.clone().unwrap_or_default(),
        confined: container.probe.as_ref().map(|probe| probe.confined),
        findings: container.probe.iter().flat_map(|probe| &probe.findings).cloned().collect(),
        probed: container.probe.as_ref().map(|probe| Moment::new(probe.at)),
    });
    let units = supervision.units.into_iter().map(|unit| UnitView {
        started: unit.started_at.map(Moment::new),
        // Output of the process may be in it.
        reason: unit.reason.map(|reason| clean::inline(&reason).into_owned()),
        gave_up: unit.breaker_opened_at.map(Moment::new),
        name: unit.name,
        state: unit.state,
        pid: unit.pid,
        restarts: unit.restarts,
        crashes: unit.crashes,
    });
    let texts = viewer.texts();
    let now = clock::unix_ms();
    let gateways = status.gateways.take().unwrap_or_default().into_iter();
    let gateways = gateways.map(|gateway| GatewayView::new(texts, gateway, now));
    let engines =
        std::mem::take(&mut status.engines).into_iter().map(|engine| EngineView::new(texts, engine));
    let browsers = sessions.sessions.into_iter().map(|session| BrowserView {
        do_notifications_fail: session.notifications.as_ref().is_some_and(|told| told.failures > 0),
        notifications: match &session.notifications {
            Some(Notifications { result: Some(result), failures: 1.. }) => {
                fill(texts.notifications_fail, &[result])
            }
            Some(_) => texts.gets_notifications.to_owned(),
            None => String::new(),
        },
        id: session.id,
        person: session.person,
        browser: session.browser,
        last_used: Moment::new(session.last_used_at),
        is_current: session.current,
    });
    Page::of(&MachinePage {
        layout: Layout::new(viewer, Some(NavItem::Machine), viewer.texts().machine),
        tab: Tab::Overview,
        started: Moment::new(status.started_at * 1000),
        memory: status.memory_bytes.map(bytes).unwrap_or_default(),
        copies: status.storage.as_mut().map(|place| place.copies(texts)).unwrap_or_default(),
        backed_up: status.backup.as_ref().map(|backup| Moment::new(backup.at)),
        gateways: gateways.collect(),
        supervisor: supervision.supervisor.map(|found| SupervisorView {
            version: found.version,
            pid: found.pid,
            started: Moment::new(found.started_at * 1000),
        }),
        units: units.collect(),
        openclaw: supervision.openclaw,
        engines: engines.collect(),
        containers: containers.collect(),
        browsers: browsers.collect(),
        blocked: blocked.collect(),
        status,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dashboard::texts::Language;
    use crate::provider::BoxFuture;

    /// The routes of a machine whose status has more.
    struct Routes(serde_json::Value);

    impl Api for Routes {
        fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<serde_json::Value, ApiFailure>> {
            let answer = match path {
                "/api/status" => {
                    let mut status = json!({
                        "version": "0.2.0", "pid": 12, "startedAt": 1_795_300_481, "memoryBytes": null,
                        "config": {"problem": null}, "turns": {"running": 0, "waiting": 0}, "gateways": null,
                        "docker": {"reachable": true, "problem": null, "hint": null},
                    });
                    status.as_object_mut().unwrap().extend(self.0.as_object().unwrap().clone());
                    status
                }
                "/api/supervisor" => json!({"supervisor": null, "units": [], "openclaw": null}),
                "/api/dashboard/sessions" => json!({"sessions": []}),
                _ => json!({"agents": []}),
            };
            Box::pin(std::future::ready(Ok(answer)))
        }
    }

    async fn page_with(more: serde_json::Value) -> String {
        let viewer = Viewer {
            person: "ann".to_owned(),
            offers: Vec::new(),
            csrf: "token".to_owned(),
            last_event: String::new(),
            language: Language::English,
        };
        page(&viewer, &Routes(more)).await.unwrap().0
    }

    #[tokio::test]
    async fn the_gateways_of_a_database_on_a_server_are_a_table_and_those_of_a_file_are_nothing() {
        let gateway = |epoch: i64, name: &str, silent_ms: i64| {
            json!({"epoch": epoch, "name": name, "address": "127.0.0.1:18789", "version": "0.2.0",
                "startedAt": 1_795_300_481, "silentMs": silent_ms, "own": epoch == 7, "leases": {}, "agents": [],
                "turns": {"running": 1, "waiting": 2}})
        };
        let shown = page_with(json!({"gateways": [gateway(7, "box", 0), gateway(8, "ra<ck", 9_000)]})).await;
        for part in [
            "<h2 id=\"gateways-title\">Gateways of the database</h2>",
            "aria-labelledby=\"gateways-title\"",
            "<tr data-gateway=\"7\"><th scope=\"row\">box, this one</th>",
            "<td>running</td>",
            "<td>1 running, 2 waiting</td>",
            "<strong class=\"problem\">silent; last sign of life: <time datetime=\"",
        ] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
        assert!(!shown.contains("ra<ck"), "{shown}");
        let none = page_with(json!({})).await;
        assert!(!none.contains("data-gateway") && !none.contains("gateways-title"), "{none}");
    }

    #[tokio::test]
    async fn the_database_the_second_place_and_the_newest_backup_are_shown_to_those_who_see_them() {
        let failed =
            json!([{"vault": "no<tes", "since": 1, "message": "it is full", "hint": "flock storage check"}]);
        let copies = |waiting, failed| json!({"copiedAt": 1_795_300_481_000_i64, "waiting": waiting, "failed": failed});
        let shown = page_with(json!({
            "database": {"kind": "postgres", "address": "db:5432/team, schema flock"},
            "storage": {"place": "/mnt/n<as", "checkpoints": copies(json!(["ada", "bob"]), json!([])),
                "conversations": null, "vaults": copies(json!([]), failed)},
            "backup": {"at": 1_795_300_481_000_i64, "file": "/mnt/nas/home.flock"},
        }))
        .await;
        for part in [
            "<div id=\"database\"><dt>Database</dt><dd>PostgreSQL, <code>db:5432/team, schema flock</code></dd></div>",
            "<p data-copies=\"checkpoints\">Checkpoints: last copy <time datetime=\"",
            ", waiting: ada, bob</p>",
            "<p data-copies=\"vaults\">Vaults: last copy <time datetime=\"",
            ": it is full. Run this command: <code>flock storage check</code></p>",
            "<dt>Newest backup</dt><dd><time datetime=\"",
            "<code>/mnt/nas/home.flock</code>",
        ] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
        assert!(!shown.contains("data-copies=\"conversations\""), "{shown}");
        assert!(!shown.contains("n<as") && !shown.contains("no<tes"), "{shown}");
        let early = json!({"copiedAt": null, "waiting": [], "failed": []});
        let shown = page_with(json!({"database": {"kind": "sqlite"},
            "storage": {"place": "/mnt/nas", "checkpoints": early, "conversations": null, "vaults": null}}))
        .await;
        for part in ["<dd>a file of the home</dd>", "Checkpoints: nothing copied yet</p>"] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
        let none = page_with(json!({})).await;
        let ids = ["database", "storage", "backup"].map(|id| format!("id=\"{id}\""));
        assert!(ids.iter().all(|id| !none.contains(id)), "{none}");
    }

    #[tokio::test]
    async fn what_could_not_be_read_is_named() {
        let unread = |part: &str, hint: Option<&str>| json!({"part": part, "problem": "a<b", "hint": hint});
        let shown =
            page_with(json!({"unread": [unread("team", None), unread("races", Some("look at it"))]})).await;
        for part in [
            "<div id=\"unread\"><dt>Not known</dt>",
            "<p class=\"problem\" data-not-known=\"team\">team: a",
            "data-not-known=\"races\">races: a",
            "; look at it</p>",
        ] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
        assert!(!shown.contains("a<b"), "{shown}");
        assert!(!page_with(json!({"unread": []})).await.contains("id=\"unread\""));
    }

    fn view(change: impl FnOnce(&mut serde_json::Value)) -> EngineView {
        let mut engine = json!({
            "name": "second", "address": "unix:///run/second/docker.sock", "runtime": null, "labels": ["gpu", "large"],
            "memory": null, "memoryUsed": 3_u64 << 30, "draining": false,
            "lostAfterMinutes": null, "reachable": true, "problem": null, "hint": null,
            "agents": [{"id": "coder", "movesTo": null, "waits": null}],
        });
        change(&mut engine);
        EngineView::new(Language::English.texts(), serde_json::from_value(engine).unwrap())
    }

    #[test]
    fn an_engine_is_shown_with_its_state_its_agents_and_its_capacity() {
        let ready = view(|_| {});
        assert_eq!((ready.state, ready.is_good, ready.problem), ("ready", true, None));
        assert_eq!((ready.agents, ready.labels.as_str()), (vec!["coder".to_owned()], "gpu, large"));
        assert_eq!(ready.memory, "3.0 GiB, without a limit");
        assert_eq!(ready.lost_after, None);
        let lost = view(|engine| engine["lostAfterMinutes"] = json!(30)).lost_after;
        assert_eq!(lost.as_deref(), Some("after 30 minutes of silence, its agents are placed elsewhere"));
        let limited = view(|engine| engine["memory"] = json!(8_u64 << 30));
        assert_eq!(limited.memory, "3.0 GiB of 8.0 GiB");
        let drained = view(|engine| engine["draining"] = json!(true));
        assert_eq!((drained.state, drained.is_good), ("draining", true));
        let silent = view(|engine| {
            engine["draining"] = json!(true);
            engine["reachable"] = json!(false);
            engine["problem"] = json!("it hangs");
            engine["hint"] = json!("start it");
        });
        assert_eq!((silent.state, silent.is_good), ("does not answer", false));
        assert_eq!(silent.problem, Some(("it hangs".to_owned(), Some("start it".to_owned()))));
    }
}
