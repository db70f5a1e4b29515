//! The configuration that `init` writes for a new home.

use serde_json::{Value, json};

use crate::home::Home;
use crate::id::ModelRef;

/// Tools that a sandboxed agent may call, unless its own list says otherwise.
pub(crate) const SANDBOX_TOOLS: [&str; 13] = [
    "exec",
    "process",
    "read",
    "write",
    "edit",
    "apply_patch",
    "image",
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "session_status",
    "flock_*",
];

/// Returns a document without agents.
#[must_use]
pub fn document(home: &Home, model: Option<&ModelRef>, token: &str, port: u16) -> Value {
    let mut defaults = json!({
        // The package store is shared by all sandboxes, and read-only in each.
        "sandbox": {"docker": {"binds": [format!("flock-nix{}:/nix:ro", home.suffix())]}}
    });
    if let Some(model) = model {
        defaults["model"] = json!({"primary": model.as_str()});
    }
    json!({
        "gateway": {
            "mode": "local",
            "bind": "loopback",
            "auth": {"mode": "token", "token": token},
            "http": {"endpoints": {"chatCompletions": {"enabled": true}}},
        },
        "agents": {"defaults": defaults, "list": []},
        "tools": {"sandbox": {"tools": {"allow": SANDBOX_TOOLS}}},
        "plugins": {
            "entries": {
                "flock": {
                    "enabled": true,
                    "config": {
                        // Nothing uses these two yet. `ignored` checks that they have the only possible value.
                        "dataDir": home.data(),
                        "dbBackend": "sqlite",
                        "gatewayAgents": [],
                        "gateway": {"port": port},
                    },
                },
            },
        },
    })
}
