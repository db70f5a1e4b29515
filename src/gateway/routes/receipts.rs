//! `/api/receipts`: the receipts of checked work, and one of them.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query, flag};
use crate::home::Home;
use crate::receipt::{Acceptance, Receipt, ReceiptError, decision, read_stored};
use crate::store::{ReceiptFilter, StoredOutput, StoredReceipt};

/// Number of receipts that are listed unless asked for another.
const LISTED: u32 = 50;
/// The most receipts that are listed.
const MAX_LISTED: u32 = 1_000;

/// The selection of receipts that a client wants.
#[derive(Debug, Deserialize)]
pub(crate) struct ListQuery {
    project: Option<String>,
    task: Option<String>,
    agent: Option<String>,
    limit: Option<u32>,
}

/// The parts of a receipt that a client wants.
#[derive(Debug, Deserialize)]
pub(crate) struct ShowQuery {
    /// `1` to get the kept output of the checks, too.
    #[serde(default)]
    output: String,
}

/// Returns receipts, newest first.
pub(crate) async fn list(State(team): State<TeamState>, Query(wanted): Query<ListQuery>) -> JsonResult {
    let filter =
        ReceiptFilter { project: wanted.project, task: wanted.task, author: wanted.agent, tree: None };
    let limit = wanted.limit.unwrap_or(LISTED).clamp(1, MAX_LISTED);
    let found = team.swarm.store().receipts().list(&filter, limit).await.map_err(ApiError::explained)?;
    let home = team.swarm.home();
    let receipts: Vec<Value> = found.iter().map(|stored| listed(home, stored)).collect();
    Ok(axum::Json(json!({"receipts": receipts})))
}

/// Returns one receipt by its id or the beginning of it.
pub(crate) async fn show(
    State(team): State<TeamState>,
    Path(id): Path<String>,
    Query(wanted): Query<ShowQuery>,
) -> JsonResult {
    let receipts = team.swarm.store().receipts();
    let mut found = receipts.find(&id).await.map_err(ApiError::explained)?;
    let (Some(stored), true) = (found.pop(), found.is_empty()) else {
        let text =
            format!("there is no receipt {}, or several begin with it", crate::clean::summary(&id, 80));
        return Err(ApiError::not_found("receipt_not_found", text));
    };
    let receipt = read_stored(team.swarm.home(), &stored).map_err(ApiError::explained)?;
    let decision = decision(&receipt).map_err(ApiError::explained)?;
    let mut value = shown(&stored, &decision);
    if flag("output", &wanted.output)? {
        let outputs = team.swarm.store().receipts().outputs(&stored.id).await.map_err(ApiError::explained)?;
        value["outputs"] = outputs.iter().map(output).collect();
    }
    Ok(axum::Json(value))
}

/// Returns the word for a stored receipt's result, `invalid` for one that was changed.
pub(crate) fn result(home: &Home, stored: &StoredReceipt) -> &'static str {
    let found: Result<Acceptance, ReceiptError> =
        read_stored(home, stored).and_then(|receipt: Receipt| decision(&receipt));
    found.map_or("invalid", |decision| decision.as_str())
}

/// Returns a receipt as it is listed.
pub(crate) fn listed(home: &Home, stored: &StoredReceipt) -> Value {
    json!({
        "id": stored.id,
        "at": stored.created_at,
        "project": stored.project,
        "task": stored.task,
        "branch": stored.branch,
        "author": stored.author,
        "tree": stored.tree,
        "result": result(home, stored),
        "auditRow": stored.audit_row,
    })
}

/// Returns a receipt with its document and its signature.
pub(crate) fn shown(stored: &StoredReceipt, decision: &Acceptance) -> Value {
    // The receipt itself is a JSON document whose bytes are hashed, so it is embedded as it is.
    let document: Value = serde_json::from_str(&stored.document).unwrap_or_default();
    json!({
        "id": stored.id,
        "result": decision.as_str(),
        "reasons": decision.reasons(),
        "auditRow": stored.audit_row,
        "receipt": document,
        "signature": stored.signature,
    })
}

/// Returns the kept output of a check as text. What is not UTF-8 is replaced.
fn output(kept: &StoredOutput) -> Value {
    let kept_bytes = (kept.head.len() + kept.tail.len()) as u64;
    json!({
        "head": String::from_utf8_lossy(&kept.head),
        "tail": String::from_utf8_lossy(&kept.tail),
        "leftOut": kept.total.saturating_sub(kept_bytes),
    })
}
