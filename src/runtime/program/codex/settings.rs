//! The settings of Codex for a turn.

use serde_json::{Value, json};

use crate::config::{Api, Effort};
use crate::runtime::program::environment::{self, MCP_TOKEN, RELAY_KEY, SERVER};
use crate::runtime::program::extract::{items, text};
use crate::runtime::program::interface::{TurnSpec, relay_path};

/// Returns its settings, with the values in TOML.
pub(super) fn of(
    turn: &TurnSpec<'_>,
    catalog: Option<&str>,
    models: Option<&[Value]>,
) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut set = |name: &str, value: Value| settings.push((name.to_owned(), to_toml(&value)));
    for (name, value) in [
        // Turns off AGENTS.md, skills, web access, and all messages to other servers than the model's.
        ("project_doc_max_bytes", json!(0)),
        ("skills.bundled.enabled", json!(false)),
        ("skills.include_instructions", json!(false)),
        ("web_search", json!("disabled")),
        ("check_for_update_on_startup", json!(false)),
        ("analytics.enabled", json!(false)),
        ("feedback.enabled", json!(false)),
        // Commands that it runs do not need these tokens.
        ("shell_environment_policy.exclude", json!([RELAY_KEY, MCP_TOKEN])),
    ] {
        set(name, value);
    }
    if !turn.system.is_empty() {
        set("developer_instructions", json!(turn.system));
    }
    if let Some(effort) = turn.effort {
        set("model_reasoning_effort", json!(level(effort, models)));
    }
    if let Some(catalog) = catalog {
        set("model_catalog_json", json!(catalog));
    }
    if turn.relay_token.is_some() {
        // The relay takes the place of the model's provider.
        set("model_provider", json!(SERVER));
        let base = format!("{}{}", turn.origin, relay_path(Api::OpenAiResponses));
        for (name, value) in [
            ("name", json!(SERVER)),
            ("base_url", json!(base)),
            ("env_key", json!(RELAY_KEY)),
            ("wire_api", json!("responses")),
            ("request_max_retries", json!(2)),
            ("stream_max_retries", json!(2)),
        ] {
            set(&format!("model_providers.{SERVER}.{name}"), value);
        }
    }
    for (name, value) in [
        ("url", json!(format!("{}/mcp", turn.origin))),
        ("bearer_token_env_var", json!(MCP_TOKEN)),
        // Without flock's tools the turn must fail.
        ("required", json!(true)),
        ("tool_timeout_sec", json!(environment::PATIENCE.as_secs())),
        ("default_tools_approval_mode", json!("approve")),
    ] {
        set(&format!("mcp_servers.{SERVER}.{name}"), value);
    }
    settings
}

/// Formats a value as TOML. Its basic strings are those of JSON, except for one character that JSON does not escape.
fn to_toml(value: &Value) -> String {
    value.to_string().replace('\u{7f}', "\\u007f")
}

/// Returns the word for the effort that the model accepts. Not every model can be told not to think.
fn level(effort: Effort, models: Option<&[Value]>) -> &'static str {
    let levels = models.and_then(<[Value]>::first).map(|model| items(model, "/supported_reasoning_levels"));
    let levels: Vec<&str> = levels.into_iter().flatten().filter_map(|level| text(level, "/effort")).collect();
    match effort {
        Effort::Off => ["none", "minimal"].into_iter().find(|level| levels.contains(level)).unwrap_or("low"),
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}
