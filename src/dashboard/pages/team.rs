//! The team: each agent with what it does now, its sandbox, and what it cost today.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use super::engine::{Engine, PlacedEngine, Probe};
use super::freeze::Freeze;
use super::sessions;
use crate::dashboard::format::{Moment, fill, money};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Offer, Page, Viewer, fetch, fetch_if};
use crate::id::{AgentId, SessionKey};

/// Width and height of the plot of an agent's cost, in its own units: one for each hour, and the highest bar.
const HOURS: usize = 24;
const PLOT_HEIGHT: u64 = 20;

#[derive(Deserialize)]
struct AgentList {
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    id: AgentId,
    role: String,
    runtime: String,
    model: Option<String>,
    scripted: bool,
    sandbox: String,
    frozen: Option<Freeze>,
    problem: Option<ModelProblem>,
    last_session: Option<SessionKey>,
    activity: Activity,
}

/// The reason for which an agent's model can't be asked.
#[derive(Deserialize)]
struct ModelProblem {
    message: String,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct Activity {
    state: String,
    since: Option<i64>,
    detail: Option<String>,
    session: Option<SessionKey>,
    request: Option<String>,
}

#[derive(Default, Deserialize)]
struct Status {
    containers: Option<Vec<Container>>,
    docker: Option<Engine>,
    /// Empty if only the machine's own is there.
    #[serde(default)]
    engines: Vec<PlacedEngine>,
}

#[derive(Deserialize)]
struct Container {
    agent: Option<String>,
    state: String,
    probe: Option<Probe>,
}

#[derive(Default, Deserialize)]
struct Hours {
    agents: Vec<AgentHours>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentHours {
    agent: String,
    cost_micros: Vec<u64>,
}

#[derive(Deserialize)]
struct Requests {
    requests: Vec<Request>,
}

#[derive(Deserialize)]
struct Request {
    state: String,
}

#[derive(Template)]
#[template(path = "team.html")]
struct TeamPage {
    layout: Layout,
    agents: Vec<AgentView>,
    /// The reasons why nothing is known about the sandboxes of an engine, each with the command that helps.
    engines: Vec<(String, Option<String>)>,
    /// `true` if all agents are frozen.
    all_frozen: bool,
}

/// An agent as the page shows it.
struct AgentView {
    id: AgentId,
    /// The address of the session that this person has with it.
    chat: String,
    role: String,
    runtime: String,
    model: String,
    /// The stable word of its state, for scripts and styles.
    state: String,
    state_text: &'static str,
    since: Option<Moment>,
    detail: String,
    /// The reason for which its model can't be asked, and the command that mends it.
    problem: Option<(String, Option<String>)>,
    /// The reason of its freeze.
    reason: Option<String>,
    session: Option<SessionKey>,
    /// The address of the session that was used last.
    last_session: Option<String>,
    request: Option<String>,
    sandbox: String,
    sandbox_is_good: bool,
    probed: Option<Moment>,
    cost: String,
    bars: Vec<Bar>,
    is_frozen: bool,
}

/// A bar of the plot of an agent's cost.
struct Bar {
    x: usize,
    y: u64,
    height: u64,
    title: String,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let surveys = viewer.has(Offer::Survey);
    let (listed, status, hours, requests) = tokio::join!(
        fetch::<AgentList>(api, "/api/agents"),
        fetch_if::<Status>(surveys, api, "/api/status"),
        fetch_if::<Hours>(surveys, api, "/api/usage/hours"),
        fetch::<Requests>(api, "/api/approvals"),
    );
    let (listed, status, hours, requests) = (listed?, status?, hours?, requests?);
    let texts = viewer.texts();
    let containers: BTreeMap<&str, &Container> = status
        .containers
        .iter()
        .flatten()
        .filter_map(|container| Some((container.agent.as_deref()?, container)))
        .collect();
    let silent: BTreeMap<&str, &str> = status
        .engines
        .iter()
        .filter(|engine| !engine.reachable)
        .flat_map(|engine| engine.agents.iter().map(|agent| (agent.id.as_str(), engine.name.as_str())))
        .collect();
    let agents: Vec<AgentView> = listed
        .agents
        .iter()
        .map(|agent| {
            let hours = hours.agents.iter().find(|hours| hours.agent == agent.id.as_str());
            let container = containers.get(agent.id.as_str()).copied();
            let place = Place { container, silent: silent.get(agent.id.as_str()).copied() };
            view(texts, &viewer.person, agent, place, hours)
        })
        .collect();
    let mut layout = Layout::new(viewer, Some(NavItem::Team), texts.team);
    layout.waiting = requests.requests.iter().filter(|request| request.state == "waiting").count();
    let own = status.docker.and_then(|docker| Some((docker.problem?, docker.hint)));
    let others = status.engines.into_iter().filter(|engine| !engine.is_local());
    let engines = own.into_iter().chain(others.filter_map(|engine| Some((engine.problem?, engine.hint))));
    let engines = engines.collect();
    let all_frozen = !agents.is_empty() && agents.iter().all(|agent| agent.is_frozen);
    Page::of(&TeamPage { layout, agents, engines, all_frozen })
}

/// The place of an agent's sandbox.
#[derive(Clone, Copy)]
struct Place<'a> {
    container: Option<&'a Container>,
    /// The engine, if it does not answer.
    silent: Option<&'a str>,
}

fn view(
    texts: &'static Texts,
    person: &str,
    agent: &Agent,
    place: Place<'_>,
    hours: Option<&AgentHours>,
) -> AgentView {
    let activity = &agent.activity;
    let (sandbox, sandbox_is_good) = sandbox(texts, agent, place);
    let costs = hours.map(|hours| hours.cost_micros.as_slice()).unwrap_or_default();
    AgentView {
        id: agent.id.clone(),
        chat: sessions::address(&sessions::own_key(&agent.id, person)),
        role: agent.role.clone(),
        runtime: agent.runtime.clone(),
        model: agent.model.clone().unwrap_or_else(|| "–".to_owned()),
        state: activity.state.clone(),
        state_text: state_text(texts, &activity.state),
        since: activity.since.map(Moment::new),
        detail: detail(texts, activity),
        problem: agent.problem.as_ref().map(|problem| (problem.message.clone(), problem.hint.clone())),
        reason: agent.frozen.as_ref().and_then(Freeze::shown_reason),
        session: activity.session.clone(),
        last_session: agent.last_session.as_ref().map(sessions::address),
        request: activity.request.clone(),
        sandbox,
        sandbox_is_good,
        probed: place
            .container
            .and_then(|container| container.probe.as_ref())
            .map(|probe| Moment::new(probe.at)),
        cost: if agent.scripted { texts.scripted.to_owned() } else { money(costs.iter().sum()) },
        bars: bars(costs),
        is_frozen: activity.state == "frozen",
    }
}

fn state_text(texts: &'static Texts, state: &str) -> &'static str {
    match state {
        "frozen" => texts.state_frozen,
        "asking" => texts.state_asking,
        "working" => texts.state_working,
        "queued" => texts.state_queued,
        "paused" => texts.state_paused,
        "parked" => texts.state_parked,
        "blocked" => texts.state_blocked,
        "asleep" => texts.state_asleep,
        _ => texts.state_idle,
    }
}

fn detail(texts: &Texts, activity: &Activity) -> String {
    let Some(detail) = activity.detail.as_deref() else { return String::new() };
    match activity.state.as_str() {
        "frozen" => fill(texts.frozen_by, &[detail]),
        "asking" => fill(texts.asks_for, &[detail]),
        "working" => fill(texts.using_tool, &[detail]),
        "parked" => fill(texts.quota_of, &[detail]),
        // The problem has a line of its own.
        "blocked" => String::new(),
        _ => detail.to_owned(),
    }
}

/// Describes a sandbox by what was probed, and returns `true` if nothing is wrong with it.
fn sandbox(texts: &Texts, agent: &Agent, place: Place<'_>) -> (String, bool) {
    if agent.sandbox == "off" {
        return (texts.no_sandbox.to_owned(), true);
    }
    if let Some(engine) = place.silent {
        return (fill(texts.engine_of_agent_silent, &[engine]), false);
    }
    let Some(container) = place.container else { return (texts.not_made.to_owned(), true) };
    match &container.probe {
        None => (format!("{}, {}", container.state, texts.not_probed), true),
        Some(probe) if probe.confined => (format!("{}, {}", container.state, texts.confined), true),
        Some(probe) => {
            let text = format!("{}, {} ({})", container.state, texts.not_confined, probe.findings.len());
            (text, false)
        }
    }
}

fn bars(costs: &[u64]) -> Vec<Bar> {
    let most = costs.iter().copied().max().unwrap_or_default().max(1);
    let shown = costs.iter().copied().enumerate().take(HOURS);
    shown
        .map(|(hour, cost)| {
            // What is not zero can be seen.
            let height = (cost * PLOT_HEIGHT / most).max(u64::from(cost > 0));
            Bar { x: hour, y: PLOT_HEIGHT - height, height, title: format!("{hour}:00 {}", money(cost)) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_of_a_silent_engine_is_no_new_one() {
        let agent: Agent = serde_json::from_value(serde_json::json!({
            "id": "coder", "role": "worker", "runtime": "native", "model": null, "scripted": false, "sandbox": "docker",
            "frozen": null, "problem": null, "lastSession": null,
            "activity": {"state": "idle", "since": null, "detail": null, "session": null, "request": null},
        }))
        .unwrap();
        let texts = crate::dashboard::texts::Language::English.texts();
        let place = |silent| Place { container: None, silent };
        assert_eq!(sandbox(texts, &agent, place(None)), (texts.not_made.to_owned(), true));
        let found = sandbox(texts, &agent, place(Some("second")));
        assert_eq!(found, ("its engine second does not answer".to_owned(), false));
        let off = Agent { sandbox: "off".to_owned(), ..agent };
        assert_eq!(sandbox(texts, &off, place(Some("second"))), (texts.no_sandbox.to_owned(), true));
    }

    #[test]
    fn the_highest_bar_fills_the_plot_and_the_lowest_can_be_seen() {
        let heights = |costs: &[u64]| bars(costs).iter().map(|bar| bar.height).collect::<Vec<_>>();
        assert_eq!(heights(&[0, 1, 1_000_000, 500_000]), [0, 1, 20, 10]);
        assert_eq!(heights(&[0, 0]), [0, 0]);
        assert!(heights(&[]).is_empty());
    }
}
