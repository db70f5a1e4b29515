//! The settings of OpenCode for a turn.

use serde_json::{Value, json};

use crate::config::{Api, Effort};
use crate::runtime::program::environment::{self, MCP_TOKEN, RELAY_KEY, SERVER};
use crate::runtime::program::interface::{TurnSpec, relay_path};
use crate::tool::policy::DisabledTools;

/// Returns its settings, and its name for the model.
pub(super) fn of(turn: &TurnSpec<'_>, system: Option<&str>) -> Result<(Value, String), String> {
    let mut config = json!({
        "autoupdate": false,
        "share": "disabled",
        "snapshot": false,
        "permission": permissions(turn.withheld),
        "plugin": [],
        "lsp": false,
        "formatter": false,
        "instructions": system.as_slice(),
        "mcp": {SERVER: {
            "type": "remote",
            "url": format!("{}/mcp", turn.origin),
            "headers": {"Authorization": format!("Bearer {{env:{MCP_TOKEN}}}")},
            "oauth": false,
            "enabled": true,
            "timeout": environment::program_timeout_ms(),
        }},
    });
    // With its own login it knows its providers and models itself.
    let (Some(_), Some(api)) = (turn.relay_token, turn.api) else {
        let model = format!("{}/{}", turn.provider, turn.model);
        if !turn.model.is_empty() {
            config["model"] = json!(model);
            config["small_model"] = json!(model);
        }
        return Ok((config, model));
    };
    // Through the relay, flock's own provider is the only one that is enabled.
    let (npm, version) = sdk_package(api).ok_or("OpenCode can't ask this provider's api")?;
    let model = format!("{SERVER}/{}", turn.model);
    config["model"] = json!(model);
    config["small_model"] = json!(model);
    config["enabled_providers"] = json!([SERVER]);
    config["provider"] = json!({SERVER: {
        "npm": npm,
        "name": SERVER,
        "options": {
            "baseURL": format!("{}{}{version}", turn.origin, relay_path(api)),
            "apiKey": format!("{{env:{RELAY_KEY}}}"),
        },
        "models": {turn.model: {
            "name": turn.model,
            "limit": {"context": turn.context_window, "output": turn.max_tokens},
            "reasoning": turn.effort != Some(Effort::Off),
            "tool_call": true,
        }},
    }});
    Ok((config, model))
}

/// Returns the permissions of its tools. A denied tool is not offered, and refused if the model calls it.
fn permissions(withheld: DisabledTools) -> Value {
    // Sub-agents, web access, and questions to a person are not offered.
    let mut permissions = json!({
        "*": "allow",
        "task": "deny",
        "skill": "deny",
        "webfetch": "deny",
        "websearch": "deny",
        "codesearch": "deny",
        "question": "deny",
    });
    // Depending on the model it writes whole files or patches. One permission covers both.
    let kinds: [(&[&str], bool); 3] = [
        (&["bash"], withheld.commands),
        (&["edit"], withheld.patching),
        (&["read", "grep", "glob", "list"], withheld.reading),
    ];
    for name in kinds.iter().filter(|(_, is_withheld)| *is_withheld).flat_map(|(names, _)| *names) {
        permissions[name] = json!("deny");
    }
    permissions
}

/// Returns the SDK for a wire format, among those that the program contains, and the suffix that its base URL has after
/// the relay's.
pub(super) const fn sdk_package(api: Api) -> Option<(&'static str, &'static str)> {
    match api {
        Api::AnthropicMessages => Some(("@ai-sdk/anthropic", "/v1")),
        Api::GoogleGenerativeAi => Some(("@ai-sdk/google", "/v1beta")),
        Api::OpenAiResponses => Some(("@ai-sdk/openai", "")),
        Api::OpenAiCompletions => Some(("@ai-sdk/openai-compatible", "")),
        _ => None,
    }
}
