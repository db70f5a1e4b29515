//! Converts calls that another program reports into flock's events and records.

use std::time::Duration;

use serde_json::Value;

use super::ledger::Open;
use crate::agent::call;
use crate::agent::oversight::{CalledTool, Reported};
use crate::agent::turn::TurnEvent;
use crate::sandbox::policy::Decision;

/// Returns the event for the beginning of a call.
pub(super) fn started(id: &str, tool: &str, arguments: &Value) -> TurnEvent {
    TurnEvent::ToolStarted {
        call_id: id.to_owned(),
        name: tool.to_owned(),
        arguments_preview: call::preview(arguments),
    }
}

/// Returns a call of which only the end was reported.
pub(super) fn unannounced(id: String, name: String, tool: String) -> Open {
    Open::new(id, name, tool, Value::Object(serde_json::Map::new()))
}

/// Returns the record of a reported call. `end` says if it failed and how long it ran, or is `None` if the program
/// reported no end.
pub(super) fn called(runtime: &str, open: &Open, end: Option<(bool, Option<Duration>)>) -> CalledTool {
    let took = end.and_then(|(_, took)| took).unwrap_or_else(|| open.since.elapsed());
    CalledTool {
        call_id: open.name.clone(),
        name: open.tool.clone(),
        // The program decided about the call itself, and ran it.
        decision: Decision::Allow,
        is_error: end.is_some_and(|(failed, _)| failed),
        took,
        preview: call::preview(&open.arguments),
        arguments_sha256: call::digest(&open.arguments),
        reported: Some(Reported { by: runtime.to_owned(), ended: end.is_some() }),
    }
}

/// Returns the event for the end of a call.
pub(super) fn ended(called: &CalledTool) -> TurnEvent {
    TurnEvent::ToolEnded {
        call_id: called.call_id.clone(),
        name: called.name.clone(),
        is_error: called.is_error,
        took: called.took,
    }
}
