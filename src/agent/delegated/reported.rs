//! Calls that another program reports, in the forms that flock tells and keeps.

use std::time::Duration;

use serde_json::Value;

use super::ledger::Open;
use crate::agent::call;
use crate::agent::oversight::{CalledTool, Reported};
use crate::agent::turn::TurnEvent;
use crate::sandbox::policy::Decision;

/// A call begins.
pub(super) fn started(id: &str, tool: &str, arguments: &Value) -> TurnEvent {
    TurnEvent::ToolStarted {
        call_id: id.to_owned(),
        name: tool.to_owned(),
        arguments_preview: call::preview(arguments),
    }
}

/// A call of which only the end was told.
pub(super) fn unannounced(id: String, name: String, tool: String) -> Open {
    Open::new(id, name, tool, Value::Object(serde_json::Map::new()))
}

/// A call that has ended as the program said (whether with an error, and how long it took), or of which it said no
/// end.
pub(super) fn called(runtime: &str, open: &Open, end: Option<(bool, Option<Duration>)>) -> CalledTool {
    let took = end.and_then(|(_, took)| took).unwrap_or_else(|| open.since.elapsed());
    CalledTool {
        call_id: open.name.clone(),
        name: open.tool.clone(),
        // It was the program's own to decide, and it ran.
        decision: Decision::Allow,
        is_error: end.is_some_and(|(failed, _)| failed),
        took,
        preview: call::preview(&open.arguments),
        arguments_sha256: call::digest(&open.arguments),
        reported: Some(Reported { by: runtime.to_owned(), ended: end.is_some() }),
    }
}

/// It has ended.
pub(super) fn ended(called: &CalledTool) -> TurnEvent {
    TurnEvent::ToolEnded {
        call_id: called.call_id.clone(),
        name: called.name.clone(),
        is_error: called.is_error,
        took: called.took,
    }
}
