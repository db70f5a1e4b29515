//! One session: its turns with every call, and the form for a message to the agent. How full the context is comes
//! after the page, because it takes longer.

pub(in crate::dashboard) mod context;
pub(in crate::dashboard) mod log;
mod turn;

use askama::Template;
use serde::Deserialize;

use self::turn::{ItemView, Turn, TurnView};
use super::freeze::Freeze;
use super::sessions::{self, ActiveTurn, AgentList};
use crate::agent::Command;
use crate::clean;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Offer, Page, Viewer, fetch, query};
use crate::id::{AgentId, SessionKey};

pub(super) use turn::state_text;

/// Number of turns that a page has at first, and that each further part adds.
const TURNS: usize = 20;

#[derive(Deserialize)]
struct Transcript {
    key: SessionKey,
    turns: Vec<Turn>,
    before: Option<String>,
}

#[derive(Deserialize)]
struct SessionList {
    turns: Vec<ActiveTurn>,
}

#[derive(Template)]
#[template(path = "session.html")]
struct SessionPage {
    layout: Layout,
    key: SessionKey,
    agent: AgentId,
    /// `true` if the person's messages belong here: in the session of a channel or of another agent they do not.
    can_write: bool,
    /// `true` if the viewer may stop the turns.
    can_stop: bool,
    turns: Vec<TurnView>,
    /// The address of the part with the turns before these.
    earlier: Option<String>,
    /// The address of the page about the context.
    context: String,
    is_running: bool,
    /// The freeze of its agent.
    frozen: Option<Freeze>,
    /// The messages that wait, the next one first.
    waiting: Vec<WaitingView>,
    /// The commands that a message can be, each with what it does.
    commands: Vec<(&'static str, &'static str)>,
}

/// A message that waits.
struct WaitingView {
    turn: String,
    by: Option<String>,
    text: String,
}

impl WaitingView {
    fn new(turn: ActiveTurn) -> Self {
        Self {
            turn: turn.turn,
            by: turn.by.map(|by| clean::summary(&by, 100)),
            text: clean::block(&turn.text.unwrap_or_default()).into_owned(),
        }
    }
}

/// Returns the page, or with `?before=` in its query an earlier part of the session.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, key: &str, query: &str) -> Result<Page, ApiFailure> {
    let base = format!("/api/sessions/{key}");
    let before = query::value(query, "before");
    let place = before.map(|turn| format!("&before={}", query::encoded(&turn))).unwrap_or_default();
    let transcript = format!("{base}/transcript?limit={TURNS}{place}");
    let (transcript, active, agents) = tokio::join!(
        fetch::<Transcript>(api, &transcript),
        fetch::<SessionList>(api, "/api/sessions"),
        fetch::<AgentList>(api, "/api/agents"),
    );
    let (transcript, active, agents) = (transcript?, active?, agents?);
    // As the routes spell it, whatever the case in the address.
    let key = transcript.key;
    let texts = viewer.texts();
    let agent = key.agent().clone();
    let address = sessions::address(&key);
    let own = active.turns.into_iter().filter(|turn| turn.session == key);
    let (waiting, running): (Vec<ActiveTurn>, Vec<ActiveTurn>) =
        own.partition(|turn| turn.state == "waiting");
    Page::of(&SessionPage {
        layout: Layout::new(viewer, Some(NavItem::Sessions), agent.as_str()),
        frozen: agents.agents.into_iter().find(|one| one.id == agent).and_then(|one| one.frozen),
        can_write: viewer.has(Offer::Talk) && key == sessions::own_key(&agent, &viewer.person),
        can_stop: viewer.has(Offer::Manage)
            || viewer.has(Offer::Talk) && key == sessions::own_key(&agent, &viewer.person),
        agent,
        turns: transcript.turns.into_iter().map(|turn| TurnView::new(texts, &key, turn)).collect(),
        earlier: transcript.before.map(|before| format!("{address}?before={before}")),
        context: format!("{address}/context"),
        is_running: !running.is_empty(),
        waiting: waiting.into_iter().map(WaitingView::new).collect(),
        commands: Command::WRITTEN.map(|command| (command.as_str(), command_text(texts, command))).to_vec(),
        key,
    })
}

/// Returns the words for what a command does.
const fn command_text(texts: &'static Texts, command: Command) -> &'static str {
    match command {
        Command::Compact => texts.command_compact,
        Command::Context => texts.command_context,
        Command::New | Command::Fresh => texts.command_new,
    }
}
