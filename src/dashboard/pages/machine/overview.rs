//! The overview: the gateway, the container engine with the sandboxes, the images, the package store, and the browsers.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use super::super::engine::{Engine, Probe};
use super::Tab;
use crate::clean;
use crate::dashboard::format::{Moment, bytes, fill};
use crate::dashboard::layout::{Layout, NavItem};
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
    docker: Engine,
    containers: Option<Vec<Container>>,
    images: Option<Vec<Image>>,
    store: Option<Store>,
    skills: Option<Skills>,
    telemetry: Option<Telemetry>,
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
    supervisor: Option<SupervisorView>,
    units: Vec<UnitView>,
    openclaw: Option<OpenClaw>,
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
    let (status, supervision, sessions, agents) = (status?, supervision?, sessions?, agents?);
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
        supervisor: supervision.supervisor.map(|found| SupervisorView {
            version: found.version,
            pid: found.pid,
            started: Moment::new(found.started_at * 1000),
        }),
        units: units.collect(),
        openclaw: supervision.openclaw,
        containers: containers.collect(),
        browsers: browsers.collect(),
        blocked: blocked.collect(),
        status,
    })
}
