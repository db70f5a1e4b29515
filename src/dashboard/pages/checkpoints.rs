//! The checkpoints of one agent.

use askama::Template;
use serde::Deserialize;

use super::sessions;
use crate::clean;
use crate::dashboard::format::{Moment, count};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::SessionKey;

#[derive(Deserialize)]
struct CheckpointList {
    checkpoints: Vec<Checkpoint>,
}

#[derive(Deserialize)]
struct Checkpoint {
    number: u64,
    at: i64,
    entries: u64,
    changed: Option<u64>,
    problem: Option<String>,
    reason: String,
    session: Option<SessionKey>,
    by: Option<String>,
    note: Option<String>,
    to: Option<u64>,
}

#[derive(Template)]
#[template(path = "checkpoints.html")]
struct CheckpointsPage {
    layout: Layout,
    agent: String,
    checkpoints: Vec<CheckpointView>,
}

struct CheckpointView {
    number: u64,
    at: Moment,
    /// The words for why it was made, and what they are about.
    reason: &'static str,
    about: String,
    /// The address of the session whose turn began.
    session: Option<String>,
    entries: String,
    changed: String,
    problem: Option<String>,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, agent: &str) -> Result<Page, ApiFailure> {
    let route = format!("/api/agents/{}/checkpoints", query::encoded(agent));
    let listed: CheckpointList = fetch(api, &route).await?;
    let texts = viewer.texts();
    let checkpoints = listed.checkpoints.into_iter().map(|found| CheckpointView {
        number: found.number,
        at: Moment::new(found.at),
        reason: match found.reason.as_str() {
            "turn" => texts.checkpoint_turn,
            "rewind" => texts.checkpoint_rewind,
            _ => texts.checkpoint_asked,
        },
        about: about(&found),
        session: found.session.as_ref().map(sessions::address),
        entries: count(found.entries),
        changed: found.changed.map(count).unwrap_or_default(),
        problem: found.problem.as_deref().map(|problem| clean::inline(problem).into_owned()),
    });
    let agent = clean::inline(agent).into_owned();
    let layout = Layout::new(viewer, Some(NavItem::Team), format!("{}: {agent}", texts.checkpoints));
    Page::of(&CheckpointsPage { layout, agent, checkpoints: checkpoints.collect() })
}

/// Returns the session, or the note and the person, or the checkpoint that a rewind went back to.
fn about(found: &Checkpoint) -> String {
    let back = found.to.map(|number| format!("→ {number}"));
    let session = found.session.as_ref().map(ToString::to_string);
    let parts = [&session, &back, &found.note, &found.by];
    let parts: Vec<_> = parts.into_iter().flatten().map(|part| clean::inline(part).into_owned()).collect();
    parts.join(" · ")
}
