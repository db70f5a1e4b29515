//! The machine: the gateway, the container engine with the sandboxes, the images, the package store, and the audit.

use askama::Template;
use serde::Deserialize;

use super::engine::{Engine, Probe};
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
struct Audit {
    rows: Vec<AuditRow>,
}

#[derive(Deserialize)]
struct AuditRow {
    id: i64,
    at: i64,
    actor: String,
    action: String,
    subject: String,
    level: String,
    detail: String,
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

#[derive(Template)]
#[template(path = "machine.html")]
struct MachinePage {
    layout: Layout,
    status: Status,
    started: Moment,
    memory: String,
    containers: Vec<ContainerView>,
    rows: Vec<AuditView>,
    browsers: Vec<BrowserView>,
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

struct AuditView {
    id: i64,
    at: Moment,
    actor: String,
    action: String,
    subject: String,
    level: String,
    detail: String,
}

struct BrowserView {
    id: String,
    person: String,
    browser: String,
    last_used: Moment,
    is_current: bool,
    /// What is said about its notifications; empty if it gets none.
    notifications: String,
    do_notifications_fail: bool,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let (status, audit, sessions) = tokio::join!(
        fetch::<Status>(api, "/api/status"),
        fetch::<Audit>(api, "/api/audit?limit=50"),
        fetch::<SessionList>(api, "/api/dashboard/sessions"),
    );
    let (status, audit, sessions) = (status?, audit?, sessions?);
    let containers = status.containers.iter().flatten().map(|container| ContainerView {
        name: container.name.clone(),
        agent: container.agent.clone().unwrap_or_default(),
        status: container.status.clone(),
        runtime: container.runtime.clone().unwrap_or_default(),
        confined: container.probe.as_ref().map(|probe| probe.confined),
        findings: container.probe.iter().flat_map(|probe| &probe.findings).cloned().collect(),
        probed: container.probe.as_ref().map(|probe| Moment::new(probe.at)),
    });
    // What agents wrote may hold anything, so what can't be seen is spelled out.
    let rows = audit.rows.iter().map(|row| AuditView {
        id: row.id,
        at: Moment::new(row.at),
        actor: clean::inline(&row.actor).into_owned(),
        action: row.action.clone(),
        subject: clean::inline(&row.subject).into_owned(),
        level: row.level.clone(),
        detail: clean::inline(&row.detail).into_owned(),
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
        started: Moment::new(status.started_at * 1000),
        memory: status.memory_bytes.map(bytes).unwrap_or_default(),
        containers: containers.collect(),
        rows: rows.collect(),
        browsers: browsers.collect(),
        status,
    })
}
