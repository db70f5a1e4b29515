//! One race: its copies with what each has delivered, and the decision.

use askama::Template;
use serde::Deserialize;

use super::{project, races, receipts};
use crate::dashboard::format::{Moment, count, fill, money};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::project::short;

#[derive(Deserialize)]
struct Shown {
    race: Race,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Race {
    race: i64,
    state: String,
    channel: String,
    project: String,
    task: String,
    by: String,
    tokens: Option<u64>,
    cost_micros: Option<u64>,
    ends_at: Option<i64>,
    winner: Option<u32>,
    why: String,
    created_at: i64,
    dropped_at: Option<i64>,
    used: Used,
    copies: Vec<Copy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Used {
    tokens: u64,
    cost_micros: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Copy {
    number: u32,
    channel: String,
    state: String,
    submission: Option<Submission>,
    tokens: u64,
    cost_micros: u64,
    why: Option<String>,
}

#[derive(Deserialize)]
struct Submission {
    number: i64,
    agent: String,
    title: String,
    receipt: Option<String>,
    reasons: Vec<String>,
    choosable: bool,
    tests: Option<u64>,
    added: Option<usize>,
    removed: Option<usize>,
}

#[derive(Template)]
#[template(path = "race.html")]
struct RacePage {
    layout: Layout,
    number: i64,
    state: String,
    state_text: &'static str,
    channel: String,
    project: String,
    project_address: String,
    task: String,
    by: String,
    at: Moment,
    until: Option<Moment>,
    used: String,
    limits: String,
    why: String,
    copies: Vec<CopyView>,
    is_running: bool,
    can_drop: bool,
}

struct CopyView {
    number: u32,
    channel: String,
    channel_address: String,
    state: String,
    state_text: &'static str,
    work: Option<WorkView>,
    used: String,
    why: String,
    can_keep: bool,
}

struct WorkView {
    number: i64,
    agent: String,
    title: String,
    /// The address of its receipt, and the part of the id that is shown.
    receipt: Option<(String, String)>,
    reasons: Vec<String>,
    tests: String,
    change: String,
}

/// Returns the page of a race.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, number: &str) -> Result<Page, ApiFailure> {
    let Shown { race } = fetch(api, &format!("/api/races/{}", query::encoded(number))).await?;
    let texts = viewer.texts();
    let is_open =
        matches!(race.state.as_str(), "person" | "decided" | "stopped") && race.dropped_at.is_none();
    let limits =
        [race.tokens.map(|most| fill(texts.count_of_tokens, &[&count(most)])), race.cost_micros.map(money)]
            .into_iter()
            .flatten();
    let layout = Layout::new(viewer, Some(NavItem::Projects), format!("{} {}", texts.race, race.race));
    Page::of(&RacePage {
        layout,
        number: race.race,
        state_text: races::state_text(texts, &race.state),
        is_running: matches!(race.state.as_str(), "running" | "person"),
        can_drop: race.state != "running" && race.state != "person" && race.dropped_at.is_none(),
        state: race.state,
        channel: race.channel,
        project_address: project::address(&race.project),
        project: race.project,
        task: race.task,
        by: race.by,
        at: Moment::new(race.created_at),
        until: race.ends_at.map(Moment::new),
        used: used(texts, race.used.tokens, race.used.cost_micros),
        limits: limits.collect::<Vec<_>>().join(", "),
        why: race.why,
        copies: race.copies.into_iter().map(|copy| view(texts, copy, is_open, race.winner)).collect(),
    })
}

fn used(texts: &'static Texts, tokens: u64, cost: u64) -> String {
    format!("{}, {}", fill(texts.count_of_tokens, &[&count(tokens)]), money(cost))
}

fn view(texts: &'static Texts, copy: Copy, is_open: bool, winner: Option<u32>) -> CopyView {
    let is_choosable = copy.submission.as_ref().is_some_and(|found| found.choosable);
    CopyView {
        number: copy.number,
        channel_address: format!("/dashboard/channels/{}", query::encoded(&copy.channel)),
        channel: copy.channel,
        state_text: match copy.state.as_str() {
            "won" => texts.copy_won,
            "lost" => texts.copy_lost,
            "proven" => texts.copy_proven,
            "over" => texts.copy_over,
            "working" => texts.copy_working,
            _ => texts.copy_quiet,
        },
        state: copy.state,
        can_keep: is_open && is_choosable && winner != Some(copy.number),
        work: copy.submission.map(|found| WorkView {
            number: found.number,
            agent: found.agent,
            title: found.title,
            receipt: found.receipt.map(|id| (receipts::address(&id), short(&id).to_owned())),
            reasons: found.reasons,
            tests: found.tests.map(count).unwrap_or_default(),
            change: match (found.added, found.removed) {
                (Some(added), Some(removed)) => format!("+{added} \u{2212}{removed}"),
                _ => String::new(),
            },
        }),
        used: used(texts, copy.tokens, copy.cost_micros),
        why: copy.why.unwrap_or_default(),
    }
}
