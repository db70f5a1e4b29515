//! The list of receipts.

use askama::Template;
use serde::Deserialize;

use super::project;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::project::short;

#[derive(Deserialize)]
struct ReceiptList {
    receipts: Vec<Receipt>,
}

#[derive(Deserialize)]
struct Receipt {
    id: String,
    at: i64,
    project: String,
    branch: String,
    author: String,
    tree: String,
    result: String,
}

#[derive(Template)]
#[template(path = "receipts.html")]
struct ReceiptsPage {
    layout: Layout,
    receipts: Vec<ReceiptView>,
}

struct ReceiptView {
    address: String,
    short: String,
    at: Moment,
    project: String,
    project_address: String,
    branch: String,
    author: String,
    tree: String,
    result: String,
    result_text: &'static str,
}

/// Returns the page. `?project=` in its query shows only those of one project.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let project = query::value(query, "project").unwrap_or_default();
    let wanted =
        if project.is_empty() { String::new() } else { format!("&project={}", query::encoded(&project)) };
    let listed: ReceiptList = fetch(api, &format!("/api/receipts?limit=200{wanted}")).await?;
    let receipts = listed.receipts.into_iter().map(|receipt| ReceiptView {
        address: address(&receipt.id),
        short: short(&receipt.id).to_owned(),
        at: Moment::new(receipt.at),
        project_address: project::address(&receipt.project),
        project: receipt.project,
        branch: receipt.branch,
        author: receipt.author,
        tree: short(&receipt.tree).to_owned(),
        result_text: result_text(viewer.texts(), &receipt.result),
        result: receipt.result,
    });
    let layout = Layout::new(viewer, Some(NavItem::Projects), viewer.texts().receipts);
    Page::of(&ReceiptsPage { layout, receipts: receipts.collect() })
}

/// Returns the address of a receipt's page.
pub(super) fn address(id: &str) -> String {
    format!("/dashboard/receipts/{}", query::encoded(id))
}

/// Returns the words for a result.
pub(super) fn result_text(texts: &'static Texts, result: &str) -> &'static str {
    match result {
        "accepted" => texts.receipt_accepted,
        "needs-person" => texts.receipt_needs_person,
        "stale" => texts.receipt_stale,
        "refused" => texts.receipt_refused,
        _ => texts.receipt_invalid,
    }
}
