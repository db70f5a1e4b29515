//! The overview: the gateway, the container engine with the sandboxes, the images, the package store, and the browsers.

use askama::Template;
use serde::Deserialize;

use super::super::engine::{Engine, Probe};
use super::Tab;
use crate::dashboard::format::{Moment, bytes};
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
}

#[derive(Template)]
#[template(path = "machine_overview.html")]
struct MachinePage {
    layout: Layout,
    tab: Tab,
    status: Status,
    started: Moment,
    memory: String,
    containers: Vec<ContainerView>,
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

struct BrowserView {
    id: String,
    person: String,
    browser: String,
    last_used: Moment,
    is_current: bool,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let (status, sessions) = tokio::join!(
        fetch::<Status>(api, "/api/status"),
        fetch::<SessionList>(api, "/api/dashboard/sessions"),
    );
    let (status, sessions) = (status?, sessions?);
    let containers = status.containers.iter().flatten().map(|container| ContainerView {
        name: container.name.clone(),
        agent: container.agent.clone().unwrap_or_default(),
        status: container.status.clone(),
        runtime: container.runtime.clone().unwrap_or_default(),
        confined: container.probe.as_ref().map(|probe| probe.confined),
        findings: container.probe.iter().flat_map(|probe| &probe.findings).cloned().collect(),
        probed: container.probe.as_ref().map(|probe| Moment::new(probe.at)),
    });
    let browsers = sessions.sessions.into_iter().map(|session| BrowserView {
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
        containers: containers.collect(),
        browsers: browsers.collect(),
        status,
    })
}
