//! The page of what begins work by itself: schedules and webhooks.

use askama::Template;
use serde::Deserialize;

use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};

#[derive(Deserialize)]
struct ScheduleList {
    schedules: Vec<Schedule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Schedule {
    name: String,
    agent: Option<String>,
    channel: Option<String>,
    when: String,
    text: String,
    state: String,
    why: String,
    next_at: Option<i64>,
    last: Option<Slot>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slot {
    outcome: String,
    handled_at: i64,
}

#[derive(Deserialize)]
struct HookList {
    hooks: Vec<Hook>,
}

#[derive(Deserialize)]
struct Hook {
    name: String,
    channel: String,
    kind: String,
    path: String,
    state: String,
    why: Option<String>,
    refused: Option<Refused>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Refused {
    count: u64,
    last_at: i64,
    last_why: String,
}

#[derive(Template)]
#[template(path = "automation.html")]
struct AutomationPage {
    layout: Layout,
    schedules: Vec<ScheduleView>,
    hooks: Vec<HookView>,
}

struct ScheduleView {
    name: String,
    to: String,
    when: String,
    text: String,
    state: StateView,
    next: Option<Moment>,
    last: Option<(&'static str, Moment)>,
}

struct HookView {
    name: String,
    channel: String,
    kind: String,
    path: String,
    state: StateView,
    refused: Option<(u64, String, Moment)>,
}

/// The state of a schedule or a webhook, with the change that a person can make.
struct StateView {
    state: String,
    text: &'static str,
    why: String,
    is_active: bool,
    is_paused: bool,
}

impl StateView {
    fn new(texts: &'static Texts, state: String, why: String) -> Self {
        let text = match state.as_str() {
            "active" => texts.state_active,
            "paused" => texts.automation_paused,
            _ => texts.automation_done,
        };
        Self { text, why, is_active: state == "active", is_paused: state == "paused", state }
    }
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let scheduled: ScheduleList = fetch(api, "/api/schedules").await?;
    let hooked: HookList = fetch(api, "/api/hooks").await?;
    let texts = viewer.texts();
    let schedules = scheduled.schedules.into_iter().map(|one| ScheduleView {
        to: match (one.channel, one.agent) {
            (Some(channel), _) => format!("#{channel}"),
            (None, agent) => format!("@{}", agent.unwrap_or_default()),
        },
        name: one.name,
        when: one.when,
        text: one.text,
        state: StateView::new(texts, one.state, one.why),
        next: one.next_at.map(Moment::new),
        last: one.last.map(|last| (outcome_text(texts, &last.outcome), Moment::new(last.handled_at))),
    });
    let hooks = hooked.hooks.into_iter().map(|one| HookView {
        name: one.name,
        channel: one.channel,
        kind: one.kind,
        path: one.path,
        state: StateView::new(texts, one.state, one.why.unwrap_or_default()),
        refused: one.refused.map(|refused| (refused.count, refused.last_why, Moment::new(refused.last_at))),
    });
    let layout = Layout::new(viewer, Some(NavItem::Channels), texts.automation);
    Page::of(&AutomationPage { layout, schedules: schedules.collect(), hooks: hooks.collect() })
}

fn outcome_text(texts: &'static Texts, outcome: &str) -> &'static str {
    match outcome {
        "ran" => texts.slot_ran,
        "missed" => texts.slot_missed,
        _ => texts.slot_skipped,
    }
}
