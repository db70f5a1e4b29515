//! Translates an agent's tool policy into OpenClaw's tool lists.

use serde_json::{Value, json};

use crate::config::{Agent, Role, SandboxMode};
use crate::tool::catalog;
use crate::tool::policy::{self, Decision};

/// OpenClaw tools that work on the host or reach beyond it, even for an agent with a sandbox. One of them, `gateway`,
/// changes OpenClaw's own configuration.
pub(super) const HOST: [&str; 8] =
    ["gateway", "cron", "nodes", "browser", "canvas", "message", "web_search", "web_fetch"];

/// The tool lists of one agent.
pub(super) struct ToolLists {
    /// Tool names. `flock_*` stands for flock's own tools: the plugin offers each agent those of its role.
    pub allow: Vec<String>,
    /// Tool names or patterns.
    pub deny: Vec<String>,
}

/// Returns the tools that flock's policy gives an agent whose commands run in a sandbox or on the host.
pub(super) fn of(agent: &Agent, sandbox: SandboxMode, dropped: &mut Vec<String>) -> ToolLists {
    let agent = &Agent { sandbox, ..agent.clone() };
    let may = |tool: &str| !matches!(policy::decide(agent, tool, &json!({})), Decision::Deny(_));
    // OpenClaw can't enforce limits on a tool's arguments. A tool with such limits is denied entirely.
    let own = "plugins.entries.flock.config.policy";
    let limited = |tool: &str| policy::is_limited(agent, tool);
    if catalog::built_in().any(|tool| limited(tool.name) && may(tool.name)) {
        dropped.push(format!("{own} (tools that it limits are not given to {} at all)", agent.id));
    }
    let mut allow = Vec::new();
    let mut deny = Vec::new();
    for tool in catalog::built_in().map(|tool| tool.name) {
        let list = if may(tool) && !limited(tool) { &mut allow } else { &mut deny };
        list.push(tool.to_owned());
    }
    // `process` only manages background jobs, and only `exec` can start one.
    if !allow.iter().any(|tool| tool == "exec") {
        allow.retain(|tool| tool != "process");
    }
    if catalog::flocks_own().any(|tool| tool.name.starts_with("flock_") && may(tool.name)) {
        allow.push("flock_*".to_owned());
    }
    if agent.role == Role::Sysadmin && may("triage_decision") {
        allow.push("triage_decision".to_owned());
    }
    for pattern in &agent.allow {
        // The other names were handled above: built-in tools by the policy, flock's own by the plugin.
        let named = is_name(pattern) && pattern != "read_skill" && catalog::find(pattern).is_none();
        if named && HOST.contains(&pattern.as_str()) {
            dropped.push(format!("tools.sandbox.tools.allow: {pattern} (it works outside of the sandbox)"));
        } else if named && may(pattern) && !allow.contains(pattern) {
            allow.push(pattern.clone());
        }
    }
    // The loop above already expanded the deny patterns for the tools that flock knows. OpenClaw has more tools, so the
    // patterns are passed on too.
    let patterns = agent.deny.iter().filter(|text| !text.starts_with("group:") && !deny.contains(text));
    deny.extend(patterns.cloned().collect::<Vec<_>>());
    ToolLists { allow, deny }
}

/// Returns the value of `tools` for an agent whose commands run in a sandbox.
pub(super) fn sandboxed(tools: &ToolLists) -> Value {
    json!({
        "alsoAllow": ["group:plugins"],
        "deny": tools.deny,
        "sandbox": {"tools": {"allow": tools.allow}},
    })
}

/// Returns the value of `tools` for an agent whose commands run on the host.
pub(super) fn on_host(tools: &ToolLists) -> Value {
    json!({
        "allow": tools.allow,
        "deny": tools.deny,
        "exec": {"host": "gateway", "security": "full", "ask": "off"},
    })
}

fn is_name(pattern: &str) -> bool {
    !pattern.contains('*') && !pattern.starts_with("group:")
}
