//! The generations of the home: who changed what, when and why, and the command that goes back.

use askama::Template;
use serde::Deserialize;

use super::Tab;
use crate::clean;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};

#[derive(Deserialize)]
struct GenerationList {
    generations: Vec<Generation>,
    unreadable: Vec<Unreadable>,
}

#[derive(Deserialize)]
struct Generation {
    number: u64,
    at: i64,
    by: String,
    why: String,
    what: Vec<String>,
    lost: Vec<String>,
}

#[derive(Deserialize)]
struct Unreadable {
    number: u64,
    problem: String,
}

#[derive(Template)]
#[template(path = "machine_generations.html")]
struct GenerationsPage {
    layout: Layout,
    tab: Tab,
    generations: Vec<GenerationView>,
    unreadable: Vec<String>,
}

struct GenerationView {
    number: u64,
    at: Moment,
    by: String,
    why: String,
    what: Vec<String>,
    lost: Vec<String>,
    is_present: bool,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let listed: GenerationList = fetch(api, "/api/generations").await?;
    let shown = |texts: &[String]| -> Vec<String> {
        texts.iter().map(|text| clean::inline(text).into_owned()).collect()
    };
    let generations = listed.generations.iter().enumerate().map(|(at, found)| GenerationView {
        number: found.number,
        at: Moment::new(found.at),
        by: clean::inline(&found.by).into_owned(),
        why: clean::inline(&found.why).into_owned(),
        what: shown(&found.what),
        lost: shown(&found.lost),
        is_present: at == 0,
    });
    let unreadable = listed.unreadable.iter().map(|found| format!("{}: {}", found.number, found.problem));
    Page::of(&GenerationsPage {
        layout: Layout::new(viewer, Some(NavItem::Machine), viewer.texts().generations),
        tab: Tab::Generations,
        generations: generations.collect(),
        unreadable: unreadable.collect(),
    })
}
