//! The list of sessions, and the ways into a chat with each agent.

use askama::Template;
use serde::Deserialize;

use super::freeze::Freeze;
use crate::dashboard::format::{Moment, count};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::{AgentId, SessionKey, SessionKind};

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<Session>,
    turns: Vec<ActiveTurn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    key: SessionKey,
    agent: String,
    kind: String,
    turns: u64,
    updated_at: i64,
}

/// A turn that runs or waits.
#[derive(Deserialize)]
pub(super) struct ActiveTurn {
    pub turn: String,
    pub session: SessionKey,
    pub state: String,
    /// The beginning of its message while it waits.
    pub text: Option<String>,
    pub by: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct AgentList {
    pub agents: Vec<Agent>,
}

#[derive(Deserialize)]
pub(super) struct Agent {
    pub id: AgentId,
    pub frozen: Option<Freeze>,
}

#[derive(Template)]
#[template(path = "sessions.html")]
struct SessionsPage {
    layout: Layout,
    chats: Vec<ChatView>,
    sessions: Vec<SessionView>,
}

struct ChatView {
    agent: AgentId,
    address: String,
}

struct SessionView {
    key: SessionKey,
    address: String,
    agent: String,
    kind: String,
    turns: String,
    updated: Moment,
    /// `running` or `waiting` if it has such a turn.
    activity: Option<String>,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let (listed, agents) =
        tokio::join!(fetch::<SessionList>(api, "/api/sessions"), fetch::<AgentList>(api, "/api/agents"));
    let (listed, agents) = (listed?, agents?);
    let chats = agents
        .agents
        .into_iter()
        .map(|agent| ChatView { address: address(&own_key(&agent.id, &viewer.person)), agent: agent.id });
    let turns = &listed.turns;
    let sessions = listed.sessions.into_iter().map(|session| SessionView {
        address: address(&session.key),
        activity: turns.iter().find(|turn| turn.session == session.key).map(|turn| turn.state.clone()),
        agent: session.agent,
        kind: session.kind,
        turns: count(session.turns),
        updated: Moment::new(session.updated_at),
        key: session.key,
    });
    Page::of(&SessionsPage {
        layout: Layout::new(viewer, Some(NavItem::Sessions), viewer.texts().sessions),
        chats: chats.collect(),
        sessions: sessions.collect(),
    })
}

/// Returns the address of a session's page.
pub(super) fn address(key: &SessionKey) -> String {
    format!("/dashboard/sessions/{}", query::encoded(key.as_str()))
}

/// Returns the address of the page about one turn of a session.
pub(super) fn turn_address(key: &SessionKey, turn: &str) -> String {
    format!("{}/turns/{}", address(key), query::encoded(turn))
}

/// Returns the key of the session that this person has with an agent, here and in `flock chat`.
pub(super) fn own_key(agent: &AgentId, person: &str) -> SessionKey {
    SessionKey::new(agent, SessionKind::Main, person)
}
