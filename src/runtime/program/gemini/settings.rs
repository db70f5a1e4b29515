//! The settings of Gemini CLI for a turn.

use serde_json::{Value, json};

use crate::provider::google;
use crate::runtime::program::environment::{self, MCP_TOKEN, SERVER};
use crate::runtime::program::interface::TurnSpec;
use crate::tool::policy::DisabledTools;

/// Tools that are not offered: sub-agents, the web, and those that ask a person. A list of allowed tools instead would
/// exclude flock's as well.
const EXCLUDED_TOOLS: [&str; 11] = [
    "activate_skill",
    "ask_user",
    "cli_help",
    "codebase_investigator",
    "enter_plan_mode",
    "exit_plan_mode",
    "google_web_search",
    "invoke_agent",
    "save_memory",
    "update_topic",
    "web_fetch",
];

/// Tools that run commands, write and read. An agent may be denied each kind.
const COMMAND_TOOLS: [&str; 3] = ["run_shell_command", "list_background_processes", "read_background_output"];
const WRITE_TOOLS: [&str; 2] = ["replace", "write_file"];
const READ_TOOLS: [&str; 6] =
    ["glob", "grep_search", "list_directory", "read_file", "read_many_files", "search_file_content"];

/// Share of the context that it believes a model to have, after which it compresses its conversation.
const DEFAULT_COMPRESSION_THRESHOLD: f64 = 0.5;

/// Returns the settings of a turn. While the program is asked for its prompt, it gets no tools.
pub(super) fn of(turn: &TurnSpec<'_>, with_tools: bool) -> Value {
    let mut settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
        "general": {
            "enableAutoUpdate": false,
            "enableAutoUpdateNotification": false,
            "checkpointing": {"enabled": false},
            "maxAttempts": 2,
            "retryFetchErrors": false,
        },
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        // Without markers of a project's root it looks for GEMINI.md in no folder above.
        "context": {"includeDirectoryTree": false, "discoveryMaxDirs": 0, "memoryBoundaryMarkers": []},
        "skills": {"enabled": false},
        "hooksConfig": {"enabled": false},
        "advanced": {"ignoreLocalEnv": true},
        "model": {"skipNextSpeakerCheck": true},
        "ide": {"enabled": false},
        "admin": {"extensions": {"enabled": false}},
        "experimental": {"enableAgents": false},
        "tools": {"exclude": excluded_tools(turn.withheld)},
    });
    let mut generating = json!({});
    if turn.max_tokens > 0 {
        generating["maxOutputTokens"] = json!(turn.max_tokens);
    }
    // The effort becomes Google's own thinking configuration.
    if let Some(thinking) = turn.effort.and_then(|effort| google::thinking(turn.model, effort)) {
        generating["thinkingConfig"] = thinking;
    }
    if !turn.model.is_empty() {
        settings["modelConfigs"] = json!({"customOverrides": [{
            "match": {"model": turn.model},
            "modelConfig": {"generateContentConfig": generating},
        }]});
    }
    let believed = assumed_context_window(turn.model);
    if turn.context_window > 0 && turn.context_window < believed {
        #[expect(clippy::cast_precision_loss, reason = "windows are far below what a float holds")]
        let share = DEFAULT_COMPRESSION_THRESHOLD * turn.context_window as f64 / believed as f64;
        // The threshold is a share of the believed window, so that it compresses within the real one.
        settings["model"]["compressionThreshold"] = json!(share);
    }
    // While the program is asked for its prompt it needs no tools and has no token.
    if with_tools {
        settings["mcp"] = json!({"allowed": [SERVER]});
        settings["mcpServers"] = json!({SERVER: {
            "httpUrl": format!("{}/mcp", turn.origin),
            "headers": {"Authorization": format!("Bearer ${MCP_TOKEN}")},
            "trust": true,
            "timeout": environment::program_timeout_ms(),
        }});
    }
    settings
}

/// Returns the context window that it believes a model to have. No setting changes that.
fn assumed_context_window(model: &str) -> u64 {
    if model.starts_with("gemma-4-") { 256_000 } else { 1_048_576 }
}

/// Returns the tools that are not offered, and refused if its model calls them.
fn excluded_tools(withheld: DisabledTools) -> Vec<&'static str> {
    let kinds: [(&[&'static str], bool); 4] = [
        (&EXCLUDED_TOOLS, true),
        (&COMMAND_TOOLS, withheld.commands),
        (&WRITE_TOOLS, withheld.writing),
        (&READ_TOOLS, withheld.reading),
    ];
    let names = kinds.iter().filter(|(_, is_withheld)| *is_withheld).flat_map(|(names, _)| *names);
    names.copied().collect()
}
