//! Converts calls that another program reports into flock's events and records.

use std::time::Duration;

use serde_json::Value;

use super::call_tracker::UnfinishedCall;
use crate::agent::oversight::{ProgramCallReport, ToolCallRecord};
use crate::agent::tool_call;
use crate::agent::turn::TurnEvent;
use crate::tool::policy::Decision;

/// Returns a call of which only the end was reported.
pub(super) fn unannounced_call(id: String, name: String, tool: String) -> UnfinishedCall {
    UnfinishedCall::new(id, name, tool, Value::Object(serde_json::Map::new()))
}

/// Returns the record of a reported call. `end` says if it failed and how long it ran, or is `None` if the program
/// reported no end.
pub(super) fn called(
    runtime: &str,
    open: &UnfinishedCall,
    end: Option<(bool, Option<Duration>)>,
) -> ToolCallRecord {
    let took = end.and_then(|(_, took)| took).unwrap_or_else(|| open.since.elapsed());
    ToolCallRecord {
        call_id: open.name.clone(),
        name: open.tool.clone(),
        // The program decided about the call itself, and ran it.
        decision: Decision::Allow,
        is_error: end.is_some_and(|(failed, _)| failed),
        took,
        preview: tool_call::preview(&open.arguments),
        arguments_sha256: tool_call::digest(&open.arguments),
        is_handed_out: false,
        reported: Some(ProgramCallReport { by: runtime.to_owned(), ended: end.is_some() }),
    }
}

/// Returns the event for the end of a call.
pub(super) fn ended(called: &ToolCallRecord) -> TurnEvent {
    TurnEvent::ToolEnded {
        call_id: called.call_id.clone(),
        name: called.name.clone(),
        is_error: called.is_error,
        took: called.took,
    }
}
