//! Which tools an agent has in OpenClaw: what flock's own policy gives it, in OpenClaw's words.

use serde_json::{Value, json};

use crate::config::{Agent, Role, SandboxMode};
use crate::sandbox::policy::{self, Decision, FLOCK_TOOLS};

/// Tools of OpenClaw's that work on the host or reach beyond it, whatever sandbox the agent has; one of them changes
/// OpenClaw's own configuration.
pub(super) const HOST: [&str; 8] =
    ["gateway", "cron", "nodes", "browser", "canvas", "message", "web_search", "web_fetch"];

/// OpenClaw's own tools that flock has a word for.
const BUILT_IN: [&str; 12] = [
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
];

/// What an agent is given.
pub(super) struct Tools {
    /// By name; `flock_*` stands for flock's own, of which its plugin offers each agent those of its role.
    pub allow: Vec<String>,
    /// By name or pattern.
    pub deny: Vec<String>,
}

/// What flock's policy gives this agent, with its commands in a sandbox or on the host.
pub(super) fn of(agent: &Agent, sandbox: SandboxMode, dropped: &mut Vec<String>) -> Tools {
    let agent = &Agent { sandbox, ..agent.clone() };
    let may = |tool: &str| !matches!(policy::decide(agent, tool, &json!({})), Decision::Deny(_));
    // OpenClaw can't be told these limits: what they are about is not there then.
    let own = "plugins.entries.flock.config.policy";
    let limited = |tool: &str| policy::is_limited(agent, tool);
    if BUILT_IN.iter().any(|tool| limited(tool) && may(tool)) {
        dropped.push(format!("{own} (tools that it limits are not given to {} at all)", agent.id));
    }
    let mut allow = Vec::new();
    let mut deny = Vec::new();
    for tool in BUILT_IN {
        let list = if may(tool) && !limited(tool) { &mut allow } else { &mut deny };
        list.push(tool.to_owned());
    }
    // A job can only be looked after by who may start one.
    if !allow.iter().any(|tool| tool == "exec") {
        allow.retain(|tool| tool != "process");
    }
    if FLOCK_TOOLS.iter().any(|(tool, _)| tool.starts_with("flock_") && may(tool)) {
        allow.push("flock_*".to_owned());
    }
    if agent.role == Role::Sysadmin && may("triage_decision") {
        allow.push("triage_decision".to_owned());
    }
    for pattern in &agent.allow {
        let named = is_name(pattern) && !BUILT_IN.contains(&pattern.as_str()) && !is_flocks(pattern);
        if named && HOST.contains(&pattern.as_str()) {
            dropped.push(format!("tools.sandbox.tools.allow: {pattern} (it works outside of the sandbox)"));
        } else if named && may(pattern) && !allow.contains(pattern) {
            allow.push(pattern.clone());
        }
    }
    // What the patterns mean for tools that flock knows is said above; there are more.
    let patterns = agent.deny.iter().filter(|text| !text.starts_with("group:") && !deny.contains(text));
    deny.extend(patterns.cloned().collect::<Vec<_>>());
    Tools { allow, deny }
}

/// `tools` of an agent whose commands run in a sandbox.
pub(super) fn sandboxed(tools: &Tools) -> Value {
    json!({
        "alsoAllow": ["group:plugins"],
        "deny": tools.deny,
        "sandbox": {"tools": {"allow": tools.allow}},
    })
}

/// `tools` of one whose commands run on the host.
pub(super) fn on_host(tools: &Tools) -> Value {
    json!({
        "allow": tools.allow,
        "deny": tools.deny,
        "exec": {"host": "gateway", "security": "full", "ask": "off"},
    })
}

fn is_name(pattern: &str) -> bool {
    !pattern.contains('*') && !pattern.starts_with("group:")
}

fn is_flocks(tool: &str) -> bool {
    tool == "read_skill" || policy::is_flocks_own(tool)
}
