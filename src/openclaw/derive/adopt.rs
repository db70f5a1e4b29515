//! Which settings of a person's keep their meaning for OpenClaw. Everything else of the document is flock's to say, or
//! is not handed over: channels and bridges, for one, are flock's own.

use serde_json::{Map, Value};

use super::super::Refusal;
use crate::config::Config;

/// Of `agents.defaults`.
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
/// Of an entry of `agents.list`.
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
/// Of `models.providers.<name>`, beside what flock itself reads there.
pub(super) const PROVIDER: [&str; 3] = ["headers", "authHeader", "timeoutSeconds"];
/// Of `logging`; `level` is that of a file.
const LOGGING: [&str; 4] = ["consoleLevel", "consoleStyle", "redactSensitive", "redactPatterns"];
/// Of `tools`, and of an agent's own `tools`.
const TOOLS: [&str; 1] = ["loopDetection"];
/// Of `tools.exec`.
const EXEC: [&str; 5] = ["timeoutSec", "timeoutSeconds", "backgroundMs", "cleanupMs", "notifyOnExit"];

/// What flock reads and hands over in its own words.
const READ_ROOT: [&str; 7] = ["agents", "gateway", "models", "plugins", "tools", "logging", "session"];
const READ_DEFAULTS: [&str; 2] = ["model", "sandbox"];
const READ_AGENT: [&str; 6] = ["id", "model", "workspace", "tools", "sandbox", "default"];
const READ_GATEWAY: [&str; 6] = ["port", "mode", "bind", "auth", "http", "tailscale"];
const READ_TOOLS: [&str; 6] = ["allow", "alsoAllow", "deny", "profile", "sandbox", "exec"];
/// Written by programs, for themselves.
const NOTES: [&str; 3] = ["$schema", "meta", "wizard"];

/// The settings of a person's that open what is to stay closed.
pub(super) fn check(document: &Value, refusals: &mut Vec<Refusal>) {
    let mut refuse = |at: &str, why: &str| {
        refusals.push(Refusal {
            at: at.to_owned(),
            why: why.to_owned(),
            mend: format!("flock config unset {}", quoted(at)),
        });
    };
    let exposed = &document["gateway"]["tailscale"]["mode"];
    if exposed.as_str().is_some_and(|mode| mode != "off") {
        refuse("gateway.tailscale", "would open OpenClaw's gateway to other machines");
    }
    let outside = |tools: &Value| {
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

/// The place of a setting as it can be typed into any shell: some take brackets for a pattern.
pub fn quoted(at: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_/".contains(c);
    if at.chars().all(is_plain) { at.to_owned() } else { format!("'{}'", at.replace('\'', r"'\''")) }
}

/// The settings that are taken over as they are, without those of agents and providers.
pub(super) fn taken(document: &Value, config: &Config, dropped: &mut Vec<String>) -> Value {
    let mut whole = Map::new();
    let mut agents_part = Map::new();
    let defaults =
        pick(&document["agents"]["defaults"], &DEFAULTS, &READ_DEFAULTS, "agents.defaults", dropped);
    agents_part.insert("defaults".to_owned(), defaults);
    whole.insert("agents".to_owned(), Value::Object(agents_part));
    whole.insert("tools".to_owned(), of_tools(&document["tools"], "tools", dropped));
    whole.insert("logging".to_owned(), pick(&document["logging"], &LOGGING, &[], "logging", dropped));
    whole.insert("session".to_owned(), pick(&document["session"], &["reset"], &[], "session", dropped));
    pick(&document["gateway"], &[], &READ_GATEWAY, "gateway", dropped);
    let endpoints = &document["gateway"]["http"]["endpoints"];
    pick(endpoints, &[], &["chatCompletions"], "gateway.http.endpoints", dropped);
    pick(&document["plugins"], &[], &["entries", "enabled"], "plugins", dropped);
    pick(&document["plugins"]["entries"], &[], &["flock"], "plugins.entries", dropped);
    pick(&document["models"], &[], &["providers", "mode"], "models", dropped);
    pick(document, &[], &[&READ_ROOT[..], &NOTES].concat(), "", dropped);
    // An agent that only OpenClaw's list has is nobody's here.
    for entry in document["agents"]["list"].as_array().into_iter().flatten() {
        let id = entry["id"].as_str().unwrap_or_default();
        if !config.agents.iter().any(|agent| agent.id.as_str() == id) {
            dropped.push(format!("agents.list[{id}]"));
        }
    }
    Value::Object(whole)
}

/// What is taken over of an agent's entry in `agents.list`.
pub(super) fn of_agent(listing: &Value, at: &str, dropped: &mut Vec<String>) -> Value {
    pick(listing, &AGENT, &READ_AGENT, at, dropped)
}

/// What is taken over of `tools`, an agent's or the global one.
pub(super) fn of_tools(tools: &Value, at: &str, dropped: &mut Vec<String>) -> Value {
    let mut found = pick(tools, &TOOLS, &READ_TOOLS, at, dropped);
    let exec = pick(&tools["exec"], &EXEC, &["host"], &format!("{at}.exec"), dropped);
    if let Some(found) = found.as_object_mut().filter(|_| exec != Value::Object(Map::new())) {
        found.insert("exec".to_owned(), exec);
    }
    found
}

/// The entries of an object with one of these names. One that is neither among them nor read elsewhere is dropped.
pub(super) fn pick(
    value: &Value,
    names: &[&str],
    read: &[&str],
    at: &str,
    dropped: &mut Vec<String>,
) -> Value {
    let mut found = Map::new();
    for (name, entry) in value.as_object().into_iter().flatten() {
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
