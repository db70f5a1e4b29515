//! The list of races.

use askama::Template;
use serde::Deserialize;

use super::project;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};

#[derive(Deserialize)]
struct RaceList {
    races: Vec<Race>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Race {
    race: i64,
    state: String,
    channel: String,
    project: String,
    task: String,
    copy_count: usize,
    winner: Option<u32>,
    created_at: i64,
}

#[derive(Template)]
#[template(path = "races.html")]
struct RacesPage {
    layout: Layout,
    races: Vec<RaceView>,
}

struct RaceView {
    number: i64,
    state: String,
    state_text: &'static str,
    channel: String,
    project: String,
    project_address: String,
    task: String,
    copies: usize,
    winner: String,
    at: Moment,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let listed: RaceList = fetch(api, "/api/races").await?;
    let texts = viewer.texts();
    let races = listed.races.into_iter().map(|race| RaceView {
        number: race.race,
        state_text: state_text(texts, &race.state),
        state: race.state,
        channel: race.channel,
        project_address: project::address(&race.project),
        project: race.project,
        task: race.task,
        copies: race.copy_count,
        winner: race.winner.map(|winner| winner.to_string()).unwrap_or_default(),
        at: Moment::new(race.created_at),
    });
    let layout = Layout::new(viewer, Some(NavItem::Projects), texts.races);
    Page::of(&RacesPage { layout, races: races.collect() })
}

/// Returns the words for a state.
pub(super) fn state_text(texts: &'static Texts, state: &str) -> &'static str {
    match state {
        "running" => texts.race_running,
        "person" => texts.race_person,
        "decided" => texts.race_decided,
        "over" => texts.race_over,
        _ => texts.race_stopped,
    }
}
