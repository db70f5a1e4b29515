//! One receipt: what was checked on which tree, how it ended, and what the checks printed.

use askama::Template;
use serde::Deserialize;

use super::{project, receipts};
use crate::clean;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::project::short;
use crate::receipt::document::Run;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: String,
    result: String,
    reasons: Vec<String>,
    audit_row: i64,
    receipt: crate::receipt::Receipt,
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    head: String,
    tail: String,
    left_out: u64,
}

#[derive(Template)]
#[template(path = "receipt.html")]
struct ReceiptPage {
    layout: Layout,
    id: String,
    short: String,
    result: String,
    result_text: &'static str,
    reasons: Vec<String>,
    audit_row: i64,
    at: Moment,
    project: String,
    project_address: String,
    branch: String,
    author: String,
    tree: String,
    base: String,
    image: String,
    runs: Vec<RunView>,
    files: Vec<String>,
}

struct RunView {
    command: String,
    verdict: String,
    seconds: String,
    counts: Vec<String>,
    output: String,
    is_success: bool,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, id: &str) -> Result<Page, ApiFailure> {
    let shown: Shown = fetch(api, &format!("/api/receipts/{}?output=1", query::encoded(id))).await?;
    let (texts, receipt) = (viewer.texts(), shown.receipt);
    let mut outputs = shown.outputs.into_iter();
    let runs = receipt.runs.iter().map(|run| {
        let output = outputs.next().map(|output| printed(&output)).unwrap_or_default();
        run_view(run, output)
    });
    let noted = |file: &crate::receipt::document::CheckFile| {
        format!("{} {}", clean::inline(&file.path), clean::inline(&file.reason))
    };
    Page::of(&ReceiptPage {
        layout: Layout::new(
            viewer,
            Some(NavItem::Projects),
            format!("{} {}", texts.receipt_title, short(&shown.id)),
        ),
        runs: runs.collect(),
        short: short(&shown.id).to_owned(),
        id: shown.id,
        result_text: receipts::result_text(texts, &shown.result),
        result: shown.result,
        reasons: shown.reasons.iter().map(|reason| clean::inline(reason).into_owned()).collect(),
        audit_row: shown.audit_row,
        at: Moment::new(receipt.at),
        project_address: project::address(&receipt.project),
        project: receipt.project.clone(),
        branch: receipt.branch.clone(),
        author: receipt.author.clone(),
        tree: receipt.delivered.tree.clone(),
        base: receipt.base.tree.clone(),
        image: receipt.probe.image.clone(),
        files: receipt.check_files.iter().map(noted).collect(),
    })
}

fn run_view(run: &Run, output: String) -> RunView {
    let counted = |counts: &crate::receipt::test_count::TestCounts| {
        format!("{}: {} run, {} skipped", clean::inline(&counts.runner), counts.run(), counts.skipped)
    };
    RunView {
        command: clean::inline(&run.command).into_owned(),
        verdict: run.verdict(),
        seconds: format!("{}.{}", run.took_ms / 1_000, run.took_ms % 1_000 / 100),
        counts: run.counts.iter().map(counted).collect(),
        output,
        is_success: run.is_success(),
    }
}

/// Returns the kept output as text. What can't be seen is spelled out.
fn printed(output: &Output) -> String {
    let head = clean::block(&output.head);
    match output.left_out {
        0 => head.into_owned(),
        left_out => format!("{head}\n… {left_out} bytes …\n{}", clean::block(&output.tail)),
    }
}
