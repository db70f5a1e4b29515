//! The OpenAPI document of the HTTP API. Each resource has a file of its own with its paths and its schemas, and
//! `base.json` has what they share. The files are merged once.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The parts of the document with the names of their files, in the order in which they are merged.
pub const PARTS: &[(&str, &str)] = &[
    ("base.json", include_str!("base.json")),
    ("health.json", include_str!("health.json")),
    ("openapi.json", include_str!("openapi.json")),
    ("chat.json", include_str!("chat.json")),
    ("responses.json", include_str!("responses.json")),
    ("models.json", include_str!("models.json")),
    ("messages.json", include_str!("messages.json")),
    ("sessions.json", include_str!("sessions.json")),
    ("agents.json", include_str!("agents.json")),
    ("checkpoints.json", include_str!("checkpoints.json")),
    ("settings.json", include_str!("settings.json")),
    ("channels.json", include_str!("channels.json")),
    ("search.json", include_str!("search.json")),
    ("tasks.json", include_str!("tasks.json")),
    ("approvals.json", include_str!("approvals.json")),
    ("events.json", include_str!("events.json")),
    ("status.json", include_str!("status.json")),
    ("supervisor.json", include_str!("supervisor.json")),
    ("doctor.json", include_str!("doctor.json")),
    ("logs.json", include_str!("logs.json")),
    ("config.json", include_str!("config.json")),
    ("usage.json", include_str!("usage.json")),
    ("graph.json", include_str!("graph.json")),
    ("audit.json", include_str!("audit.json")),
    ("tokens.json", include_str!("tokens.json")),
    ("bridges.json", include_str!("bridges.json")),
    ("projects.json", include_str!("projects.json")),
    ("races.json", include_str!("races.json")),
    ("skills.json", include_str!("skills.json")),
    ("hooks.json", include_str!("hooks.json")),
    ("schedules.json", include_str!("schedules.json")),
    ("engines.json", include_str!("engines.json")),
    ("receipts.json", include_str!("receipts.json")),
    ("generations.json", include_str!("generations.json")),
    ("people.json", include_str!("people.json")),
    ("dashboard.json", include_str!("dashboard.json")),
    ("a2a.json", include_str!("a2a.json")),
    ("mcp.json", include_str!("mcp.json")),
    ("mcp_servers.json", include_str!("mcp_servers.json")),
    ("relay.json", include_str!("relay.json")),
    ("plugin.json", include_str!("plugin.json")),
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document = Value::Object(Map::new());
    for (_, text) in PARTS {
        // A test ensures that every part can be parsed.
        merge(&mut document, serde_json::from_str(text).unwrap_or_default());
    }
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    document
});

/// Returns the whole document.
#[must_use]
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// Adds a part to a value: the keys of objects and the elements of lists are joined.
fn merge(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                merge(whole.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(whole), Value::Array(part)) => whole.extend(part),
        (whole, part) => *whole = part,
    }
}
