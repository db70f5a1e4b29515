//! The list of a user's settings that are passed on to OpenClaw unchanged. flock sets the rest itself or drops it:
//! channels and bridges, for example, are handled by flock.

use serde_json::{Map, Value, json};

use super::super::SettingRefusal;
use crate::config::Config;

/// Allowed keys of `agents.defaults`.
const DEFAULTS: [&str; 24] = [
    "bootstrapMaxChars",
    "bootstrapTotalMaxChars",
    "userTimezone",
    "timeFormat",
    "envelopeTimezone",
    "envelopeTimestamp",
    "envelopeElapsed",
    "contextTokens",
    "contextPruning",
    "contextLimits",
    "compaction",
    "thinkingDefault",
    "verboseDefault",
    "reasoningDefault",
    "blockStreamingDefault",
    "blockStreamingBreak",
    "blockStreamingChunk",
    "blockStreamingCoalesce",
    "humanDelay",
    "timeoutSeconds",
    "mediaMaxMb",
    "imageMaxDimensionPx",
    "maxConcurrent",
    "subagents",
];
/// Allowed keys of an entry of `agents.list`.
pub(super) const AGENT: [&str; 11] = [
    "name",
    "description",
    "identity",
    "humanDelay",
    "thinkingDefault",
    "verboseDefault",
    "reasoningDefault",
    "params",
    "skills",
    "contextLimits",
    "bootstrapMaxChars",
];
/// Allowed keys of `models.providers.<name>`, besides those that flock itself reads there.
pub(super) const PROVIDER: [&str; 3] = ["headers", "authHeader", "timeoutSeconds"];
/// Allowed keys of `logging`. `level` is missing because it applies to a log file.
const LOGGING: [&str; 4] = ["consoleLevel", "consoleStyle", "redactSensitive", "redactPatterns"];
/// Allowed keys of `tools`, global or of one agent.
const TOOLS: [&str; 1] = ["loopDetection"];
/// Allowed keys of `tools.exec`.
const EXEC: [&str; 5] = ["timeoutSec", "timeoutSeconds", "backgroundMs", "cleanupMs", "notifyOnExit"];

/// Keys that flock interprets and passes on in its own form. They are not reported as dropped.
const READ_ROOT: [&str; 7] = ["agents", "gateway", "models", "plugins", "tools", "logging", "session"];
const READ_DEFAULTS: [&str; 2] = ["model", "sandbox"];
const READ_AGENT: [&str; 6] = ["id", "model", "workspace", "tools", "sandbox", "default"];
const READ_GATEWAY: [&str; 6] = ["port", "mode", "bind", "auth", "http", "tailscale"];
const READ_TOOLS: [&str; 6] = ["allow", "alsoAllow", "deny", "profile", "sandbox", "exec"];
/// Keys that programs write for themselves. They are ignored without a report.
const IGNORED_KEYS: [&str; 3] = ["$schema", "meta", "wizard"];

/// Collects the user's settings that would open what has to stay closed.
pub(super) fn check(document: &Value, refusals: &mut Vec<SettingRefusal>) {
    let mut refuse = |at: &str, why: &str| {
        refusals.push(SettingRefusal {
            at: at.to_owned(),
            why: why.to_owned(),
            mend: format!("flock config unset {}", quoted(at)),
        });
    };
    let exposed = &document["gateway"]["tailscale"]["mode"];
    // Any mode but `off` makes the gateway reachable for other machines.
    if exposed.as_str().is_some_and(|mode| mode != "off") {
        refuse("gateway.tailscale", "would open OpenClaw's gateway to other machines");
    }
    let outside = |tools: &Value| {
        // `auto` is harmless: the user's value is not passed on, and the derived document always says `sandbox`.
        tools["exec"]["host"].as_str().is_some_and(|host| !matches!(host, "sandbox" | "auto"))
    };
    if outside(&document["tools"]) {
        refuse("tools.exec.host", "would run commands of agents outside of their sandboxes");
    }
    for entry in document["agents"]["list"].as_array().into_iter().flatten() {
        if outside(&entry["tools"]) {
            let id = entry["id"].as_str().unwrap_or_default();
            let at = format!("agents.list[{id}].tools.exec.host");
            refuse(&at, "would run commands of agents outside of their sandboxes");
        }
    }
}

/// Quotes the place of a setting for any shell. Some shells treat brackets as a pattern.
pub(crate) fn quoted(at: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_/".contains(c);
    if at.chars().all(is_plain) { at.to_owned() } else { format!("'{}'", at.replace('\'', r"'\''")) }
}

/// Returns the settings that are passed on unchanged, except those of agents and providers. The others are added to
/// `dropped`.
pub(super) fn taken(document: &Value, config: &Config, dropped: &mut Vec<String>) -> Value {
    let defaults =
        pick(&document["agents"]["defaults"], &DEFAULTS, &READ_DEFAULTS, "agents.defaults", dropped);
    let whole = json!({
        "agents": {"defaults": defaults},
        "tools": tools_settings(&document["tools"], "tools", dropped),
        "logging": pick(&document["logging"], &LOGGING, &[], "logging", dropped),
        "session": pick(&document["session"], &["reset"], &[], "session", dropped),
    });
    pick(&document["gateway"], &[], &READ_GATEWAY, "gateway", dropped);
    let endpoints = &document["gateway"]["http"]["endpoints"];
    pick(endpoints, &[], &["chatCompletions"], "gateway.http.endpoints", dropped);
    pick(&document["plugins"], &[], &["entries", "enabled"], "plugins", dropped);
    pick(&document["plugins"]["entries"], &[], &["flock"], "plugins.entries", dropped);
    pick(&document["models"], &[], &["providers", "mode"], "models", dropped);
    pick(document, &[], &[&READ_ROOT[..], &IGNORED_KEYS].concat(), "", dropped);
    // An agent that is only in OpenClaw's list is unknown to flock and gets no entry.
    for entry in document["agents"]["list"].as_array().into_iter().flatten() {
        let id = entry["id"].as_str().unwrap_or_default();
        if !config.agents.iter().any(|agent| agent.id.as_str() == id) {
            dropped.push(format!("agents.list[{id}]"));
        }
    }
    whole
}

/// Returns the settings of an agent's entry in `agents.list` that are passed on.
pub(super) fn of_agent(listing: &Value, at: &str, dropped: &mut Vec<String>) -> Value {
    pick(listing, &AGENT, &READ_AGENT, at, dropped)
}

/// Returns the settings of `tools`, global or of one agent, that are passed on.
pub(super) fn tools_settings(tools: &Value, at: &str, dropped: &mut Vec<String>) -> Value {
    // `allow` and `deny` are read by flock's policy, which then sets OpenClaw's lists.
    let mut found = pick(tools, &TOOLS, &READ_TOOLS, at, dropped);
    let exec = pick(&tools["exec"], &EXEC, &["host"], &format!("{at}.exec"), dropped);
    if let Some(found) = found.as_object_mut().filter(|_| exec != Value::Object(Map::new())) {
        found.insert("exec".to_owned(), exec);
    }
    found
}

/// Returns the entries of an object that are in `names`. An entry that is neither in `names` nor in `read` is added to
/// `dropped`.
pub(super) fn pick(
    value: &Value,
    names: &[&str],
    read: &[&str],
    at: &str,
    dropped: &mut Vec<String>,
) -> Value {
    let mut found = Map::new();
    for (name, entry) in value.as_object().into_iter().flatten() {
        // A null value means the same as a missing key.
        if entry.is_null() {
            continue;
        }
        if names.contains(&name.as_str()) {
            found.insert(name.clone(), entry.clone());
        } else if !read.contains(&name.as_str()) {
            dropped.push(if at.is_empty() { name.clone() } else { format!("{at}.{name}") });
        }
    }
    Value::Object(found)
}
