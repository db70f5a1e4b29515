//! The context of a session: how full it is, what the last compaction kept, and the prompt of the next turn.

use askama::Template;
use serde::Deserialize;

use crate::clean;
use crate::dashboard::format::{Moment, count};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::pages::sessions;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::SessionKey;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    key: SessionKey,
    model: String,
    window: u64,
    answer: u64,
    prompt: u64,
    tools: u64,
    room: u64,
    held_back: u64,
    conversation: u64,
    messages: u64,
    compaction: Option<Compaction>,
}

#[derive(Deserialize)]
struct Compaction {
    number: u64,
    at: i64,
    before: u64,
    after: u64,
    marker: String,
    summary: Option<String>,
}

#[derive(Deserialize)]
struct Prompt {
    tokens: u64,
    sections: Vec<Section>,
    tools: Tools,
}

#[derive(Deserialize)]
struct Section {
    name: String,
    tokens: u64,
    text: String,
}

#[derive(Deserialize)]
struct Tools {
    names: Vec<String>,
}

#[derive(Template)]
#[template(path = "context.html")]
struct ContextPage {
    layout: Layout,
    /// The session's key, as it was asked for.
    key: String,
    session: String,
    /// The address of this page.
    address: String,
    /// The reason why the size of the context is not known.
    problem: Option<String>,
    size: Option<Size>,
    compaction: Option<CompactionView>,
    prompt: Option<PromptView>,
}

struct Size {
    used: u64,
    room: u64,
    text: String,
    /// Names and numbers of everything that the next request has.
    parts: Vec<(&'static str, String)>,
}

struct CompactionView {
    number: u64,
    at: Moment,
    before: String,
    after: String,
    kept: String,
}

struct PromptView {
    tokens: String,
    sections: Vec<SectionView>,
    tools: Vec<String>,
}

struct SectionView {
    name: String,
    tokens: String,
    text: String,
}

/// Returns the page. With `?part=size` it has no prompt: a session's page takes the rest from it.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, key: &str, query: &str) -> Result<Page, ApiFailure> {
    let base = format!("/api/sessions/{key}");
    let report = fetch::<Report>(api, &base).await;
    let (report, problem) = match report {
        Ok(report) => (Some(report), None),
        // A session begins with its first message, so one that is only opened has no context yet.
        Err(failure) if failure.status == 404 => (None, Some(viewer.texts().no_turns.to_owned())),
        // An agent program keeps its context to itself.
        Err(failure) => (None, Some(failure.message)),
    };
    let is_whole = query::value(query, "part").is_none();
    let prompt = if is_whole && problem.is_none() {
        Some(fetch::<Prompt>(api, &format!("{base}/prompt")).await?)
    } else {
        None
    };
    let texts = viewer.texts();
    let session = report.as_ref().map(|report| sessions::address(&report.key));
    let session = session.unwrap_or_else(|| format!("/dashboard/sessions/{key}"));
    Page::of(&ContextPage {
        layout: Layout::new(viewer, Some(NavItem::Sessions), texts.context),
        key: report.as_ref().map_or_else(|| clean::inline(key).into_owned(), |report| report.key.to_string()),
        address: format!("{session}/context"),
        session,
        problem,
        size: report.as_ref().map(|report| Size {
            used: report.conversation,
            room: report.room.max(1),
            text: format!("{} / {}", count(report.conversation), count(report.room)),
            parts: vec![
                (texts.model, report.model.clone()),
                (texts.window, count(report.window)),
                (texts.kept_for_answer, count(report.answer)),
                (texts.system_prompt, count(report.prompt)),
                (texts.tool_definitions, count(report.tools)),
                (texts.held_back, count(report.held_back)),
                (texts.room, count(report.room)),
                (texts.conversation, count(report.conversation)),
                (texts.messages, count(report.messages)),
            ],
        }),
        compaction: report.and_then(|report| report.compaction).map(|last| CompactionView {
            number: last.number,
            at: Moment::new(last.at),
            before: count(last.before),
            after: count(last.after),
            kept: kept(&last),
        }),
        prompt: prompt.map(|prompt| PromptView {
            tokens: count(prompt.tokens),
            sections: prompt.sections.into_iter().map(section).collect(),
            tools: prompt.tools.names,
        }),
    })
}

fn kept(last: &Compaction) -> String {
    let text = match &last.summary {
        None => last.marker.clone(),
        Some(summary) => format!("{}\n\n{summary}", last.marker),
    };
    clean::block(&text).into_owned()
}

fn section(section: Section) -> SectionView {
    SectionView {
        name: section.name,
        tokens: count(section.tokens),
        text: clean::block(&section.text).into_owned(),
    }
}
