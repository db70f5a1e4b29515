//! One turn of a session with the log of its work.

use askama::Template;
use serde::Deserialize;

use super::turn::{ItemView, Turn, TurnView};
use crate::clean;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::pages::sessions;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::{AgentId, SessionKey};

#[derive(Deserialize)]
struct Transcript {
    key: SessionKey,
    turns: Vec<Turn>,
}

#[derive(Template)]
#[template(path = "turn_log.html")]
struct LogPage {
    layout: Layout,
    agent: AgentId,
    key: SessionKey,
    session: String,
    turn: TurnView,
    lines: Vec<String>,
}

/// Returns the page of a turn, or 404 if the session has no such turn.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, key: &str, turn: &str) -> Result<Page, ApiFailure> {
    let until = query::encoded(turn);
    let route = format!("/api/sessions/{key}/transcript?until={until}&limit=1&includeTrace=1");
    let Transcript { key, mut turns } = fetch(api, &route).await?;
    let mut turn = turns.pop().ok_or_else(|| ApiFailure::not_found(viewer))?;
    let lines = turn.trace.take().unwrap_or_default();
    let agent = key.agent().clone();
    Page::of(&LogPage {
        layout: Layout::new(
            viewer,
            Some(NavItem::Sessions),
            format!("{agent} · {}", viewer.texts().log_of_turn),
        ),
        session: sessions::address(&key),
        turn: TurnView::new(viewer.texts(), &key, turn),
        lines: lines.iter().map(|line| clean::block(line).into_owned()).collect(),
        agent,
        key,
    })
}
