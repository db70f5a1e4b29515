//! Derives OpenClaw's configuration from the home's own, for the schema of the installed version.
//!
//! The derived document is an allow-list: it holds flock's own settings, and those settings of the user that `passthrough`
//! names and the version knows. Sandboxes are held to the same rules as flock's own. The document holds no secret:
//! OpenClaw replaces `${NAME}` from its environment.

mod agent;
mod models;
mod passthrough;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::plugin::ID;
use super::schema::{ConfigSchema, prune};
use super::{OpenClawError, SettingRefusal, agents};
use crate::config::{Agent, Config, Role};
use crate::home::Home;
use crate::id::AgentId;
use crate::sandbox::mount::Mounts;
use crate::sandbox::spec::SandboxUser;

pub(crate) use models::ProviderKey;
pub(crate) use passthrough::quoted;

/// The environment variable with the token of OpenClaw's own gateway.
pub(crate) const TOKEN_VARIABLE: &str = "FLOCK_OPENCLAW_TOKEN";
/// The name of the hook that tells OpenClaw who an agent is.
pub(crate) const IDENTITY_HOOK: &str = "flock-identity";

/// Facts about the machine that the configuration does not contain.
#[derive(Clone, Debug)]
pub(crate) struct MachineFacts {
    pub port: u16,
    /// The container image of agents that configure none.
    pub image: String,
    /// The user that runs the sandboxes of agents that only OpenClaw knows.
    pub user: SandboxUser,
    /// The users that run the sandboxes of flock's agents.
    pub users: BTreeMap<AgentId, SandboxUser>,
    pub cores: u64,
    /// The container engine's socket, which no bind may reach.
    pub engine_socket: Option<PathBuf>,
    /// Host path of the package store's volume, for versions that can't mount volumes. `None` if there is no engine.
    pub store: Option<PathBuf>,
    /// The folder of flock's OpenClaw plugin.
    pub plugin: PathBuf,
    /// The value of the plugin's own configuration.
    pub plugin_settings: Value,
    /// The folder that contains the hook's folder.
    pub hooks: PathBuf,
    /// The host paths that were approved for each agent.
    pub mounts: BTreeMap<AgentId, Mounts>,
}

/// A derived configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DerivedConfig {
    pub document: Value,
    /// The provider keys that OpenClaw's process needs in its environment.
    pub keys: Vec<ProviderKey>,
    /// Places of the user's settings that were left out, sorted.
    pub dropped: Vec<String>,
}

/// Derives OpenClaw's configuration from a home's document and the settings that flock read from it. The result depends
/// only on the arguments, except where symbolic links in workspaces and binds are resolved.
///
/// # Errors
///
/// Returns [`OpenClawError::Refused`] with every setting that OpenClaw must not be given.
pub(crate) fn derive(
    home: &Home,
    document: &Value,
    config: &Config,
    dialect: &ConfigSchema,
    facts: &MachineFacts,
) -> Result<DerivedConfig, OpenClawError> {
    let mut refusals = Vec::new();
    let mut dropped = Vec::new();
    if facts.port == config.port {
        refusals.push(SettingRefusal {
            at: "gateway.port".to_owned(),
            why: format!("is {}, which is flock's own gateway's", facts.port),
            mend: "flock config set gateway.port PORT".to_owned(),
        });
    }
    passthrough::check(document, &mut refusals);
    let mut taken = passthrough::taken(document, config, &mut dropped);
    prune(&mut taken, dialect.known(), "", &mut |place| dropped.push(place));
    let (providers, keys) = models::providers(document, config, dialect, &mut refusals, &mut dropped);

    let mut entries = Map::new();
    let given = agent::AgentInputs { home, document, config, dialect, facts };
    for agent in agents(config) {
        match agent::entry(given, agent, &mut dropped) {
            Ok(entry) => {
                entries.insert(agent.id.to_string(), entry);
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    // All refusals are collected first, so that the user sees every problem at once.
    if !refusals.is_empty() {
        return Err(OpenClawError::Refused(refusals));
    }

    let mut whole = fixed_settings(home, config, dialect, facts);
    // flock's settings first, then the user's: `passthrough` passes only settings that may override them.
    merge(&mut whole, taken);
    if dialect.entries {
        whole["agents"]["entries"] = Value::Object(entries);
    } else {
        whole["agents"]["list"] = entries.into_iter().map(|(_, entry)| entry).collect();
    }
    // Without this, some versions fetch prices and model lists from the network at each start and every few hours.
    let off = json!({"enabled": false});
    whole["models"] =
        json!({"mode": "replace", "pricing": off, "catalogRefresh": off, "providers": providers});
    let known = dialect.known();
    // flock's own settings cover all versions. A key that this version does not know has no other name in it and can be
    // removed silently.
    prune(&mut whole, known, "", &mut |_| {});
    escape(&mut whole);
    // These two kinds of references are added after escaping, because only they are meant to be replaced.
    whole["gateway"]["auth"]["token"] = format!("${{{TOKEN_VARIABLE}}}").into();
    for key in &keys {
        whole["models"]["providers"][&key.provider]["apiKey"] = format!("${{{}}}", key.variable).into();
    }
    dropped.sort();
    dropped.dedup();
    Ok(DerivedConfig { document: whole, keys, dropped })
}

/// Returns the settings that do not depend on the user, written for the schemas of all versions.
fn fixed_settings(home: &Home, config: &Config, dialect: &ConfigSchema, facts: &MachineFacts) -> Value {
    let first = default_agent(config).map(|agent| agent.id.to_string());
    json!({
        "gateway": {
            "mode": "local",
            "port": facts.port,
            "bind": "loopback",
            "auth": {"mode": "token"},
            "http": {"endpoints": {"chatCompletions": {"enabled": true}}},
            "controlUi": {"enabled": false},
            "reload": {"mode": "hybrid"},
        },
        "agents": {
            "ownership": "explicit",
            "defaults": {
                "skipBootstrap": true,
                "systemAgent": {"agentId": first},
                // Nothing runs unless there is something to do.
                "heartbeat": {"every": "0m"},
                // Some versions make an agent of any id they are asked for: it has this.
                "sandbox": agent::default_sandbox(home, dialect, facts),
            },
        },
        "tools": {
            "profile": "full",
            "toolSearch": false,
            "alsoAllow": ["group:plugins"],
            "deny": tools::HOST,
            "exec": {"host": "sandbox"},
            "elevated": {"enabled": false},
            "agentToAgent": {"enabled": false},
            "sandbox": {"tools": {"allow": ["session_status"]}},
        },
        // A conversation lasts until flock ends it; by itself OpenClaw begins a new one each day.
        "session": {"reset": {"mode": "idle", "idleMinutes": 5_256_000}},
        "hooks": {"internal": {
            "enabled": true,
            "load": {"extraDirs": [facts.hooks]},
            "entries": hook_entries(),
        }},
        "plugins": {
            "enabled": true,
            "allow": [ID],
            "load": {"paths": [facts.plugin]},
            "slots": {"memory": "none"},
            "entries": {ID: {
                "enabled": true,
                "config": facts.plugin_settings,
                "hooks": {"allowConversationAccess": true},
            }},
        },
        // What it writes to its output is in flock's log, which has a cap; a file of its own has none in older versions.
        "logging": {
            "file": home.openclaw_state().join("openclaw.log"),
            "level": "silent",
            "consoleLevel": "info",
        },
        "discovery": {"mdns": {"mode": "off"}},
        "update": {"checkOnStart": false, "auto": {"enabled": false}},
        "telemetry": {"enabled": false},
        "browser": {"enabled": false},
        "canvasHost": {"enabled": false},
        "cron": {"enabled": false},
    })
}

/// Returns the agent that OpenClaw takes where none is named: the first orchestrator, or the first of all.
fn default_agent(config: &Config) -> Option<&Agent> {
    agents(config).find(|agent| agent.role == Role::Orchestrator).or_else(|| agents(config).next())
}

/// Enables flock's hook and disables those that come with OpenClaw. One of them, `boot-md`, runs what a workspace says
/// at each start.
fn hook_entries() -> Value {
    let mut entries = json!({IDENTITY_HOOK: {"enabled": true}});
    for bundled in ["boot-md", "bootstrap-extra-files", "command-logger", "session-memory", "soul-evil"] {
        entries[bundled] = json!({"enabled": false});
    }
    entries
}

/// Merges `over` into `under`. Objects are merged key by key, any other value is replaced.
fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                match under.get_mut(&name) {
                    Some(there) => merge(there, value),
                    None => {
                        under.insert(name, value);
                    }
                }
            }
        }
        (under, over) => *under = over,
    }
}

/// Replaces `${NAME}` with `$${NAME}` in every string. A user's text is plain text and never a reference to the
/// environment.
fn escape(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("${") => *text = escape_text(text),
        Value::Array(items) => items.iter_mut().for_each(escape),
        Value::Object(object) => object.values_mut().for_each(escape),
        _ => {}
    }
}

fn escape_text(text: &str) -> String {
    let is_reference = |rest: &str| {
        let name = rest.split_once('}').map_or("", |(name, _)| name);
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit())
    };
    let mut parts = text.split("${");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        whole.push_str(if is_reference(part) { "$${" } else { "${" });
        whole.push_str(part);
    }
    whole
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
