//! The configuration that OpenClaw is started on, made from the home's own for the schema of the installed version.
//!
//! It is an allow-list: what flock itself says, and of a person's settings those that are named in `adopt`, as far
//! as the version knows them. What a sandbox may not have is refused by the same rules as for flock's own
//! sandboxes. No secret is in it: OpenClaw puts in `${NAME}` from its environment.

mod adopt;
mod agent;
mod models;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::dialect::{Dialect, prune};
use super::plugin::ID;
use super::{OpenClawError, Refusal, agents};
use crate::config::{Config, Role};
use crate::home::Home;
use crate::id::AgentId;
use crate::sandbox::mount::Mounts;
use crate::sandbox::spec::User;

pub use adopt::quoted;
pub use models::Key;

/// The variable that OpenClaw has the token of its own gateway from.
pub const TOKEN_VARIABLE: &str = "FLOCK_OPENCLAW_TOKEN";
/// The hook that tells OpenClaw who an agent is.
pub const IDENTITY_HOOK: &str = "flock-identity";

/// What the machine knows beyond the configuration.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The port of OpenClaw's gateway.
    pub port: u16,
    /// The image of agents that have none of their own.
    pub image: String,
    /// Who the sandboxes of agents run as that only OpenClaw knows.
    pub user: User,
    /// Who those of flock's agents run as.
    pub users: BTreeMap<AgentId, User>,
    /// Processor cores there are.
    pub cores: u64,
    /// The engine's socket, which no bind may reach.
    pub engine_socket: Option<PathBuf>,
    /// Where on the host the volume of the package store is, for versions that mount no volumes.
    pub store: Option<PathBuf>,
    /// The folder of flock's plugin.
    pub plugin: PathBuf,
    /// The plugin's own configuration.
    pub plugin_settings: Value,
    /// The folder that has the hook's folder.
    pub hooks: PathBuf,
    /// What of the host was approved for the agents.
    pub mounts: BTreeMap<AgentId, Mounts>,
}

/// A derived configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The document.
    pub document: Value,
    /// The keys of providers that its process must have in its environment.
    pub keys: Vec<Key>,
    /// Settings of the person's that it does not have, by their places.
    pub dropped: Vec<String>,
}

/// Derives OpenClaw's configuration from a home's document and what flock reads in it. The same arguments give the
/// same document, but for links that workspaces and binds lead through.
///
/// # Errors
///
/// [`OpenClawError::Refused`] with everything that OpenClaw is not given.
pub fn derive(
    home: &Home,
    document: &Value,
    config: &Config,
    dialect: &Dialect,
    facts: &Facts,
) -> Result<Derived, OpenClawError> {
    let mut refusals = Vec::new();
    let mut dropped = Vec::new();
    if facts.port == config.port {
        refusals.push(Refusal {
            at: "gateway.port".to_owned(),
            why: format!("is {}, which is flock's own gateway's", facts.port),
            mend: "flock config set gateway.port PORT".to_owned(),
        });
    }
    adopt::check(document, &mut refusals);
    let mut taken = adopt::taken(document, config, &mut dropped);
    prune(&mut taken, dialect.known(), "", &mut |place| dropped.push(place));
    let (providers, keys) = models::providers(document, config, dialect, &mut refusals, &mut dropped);

    let mut entries = Map::new();
    let given = agent::Given { home, document, config, dialect, facts };
    for agent in agents(config) {
        match agent::entry(given, agent, &mut dropped) {
            Ok(entry) => {
                entries.insert(agent.id.to_string(), entry);
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    if !refusals.is_empty() {
        return Err(OpenClawError::Refused(refusals));
    }

    let mut whole = fixed(home, config, dialect, facts);
    merge(&mut whole, taken);
    if dialect.entries {
        whole["agents"]["entries"] = Value::Object(entries);
    } else {
        whole["agents"]["list"] = entries.into_iter().map(|(_, entry)| entry).collect();
    }
    // Else some versions ask others for prices and models, at each start and every few hours.
    let off = json!({"enabled": false});
    whole["models"] =
        json!({"mode": "replace", "pricing": off, "catalogRefresh": off, "providers": providers});
    let known = dialect.known();
    // What flock itself says beyond a version's schema is said by that version in no other way.
    prune(&mut whole, known, "", &mut |_| {});
    escape(&mut whole);
    // Only these two kinds of references are meant as such.
    whole["gateway"]["auth"]["token"] = format!("${{{TOKEN_VARIABLE}}}").into();
    for key in &keys {
        whole["models"]["providers"][&key.provider]["apiKey"] = format!("${{{}}}", key.variable).into();
    }
    dropped.sort();
    dropped.dedup();
    Ok(Derived { document: whole, keys, dropped })
}

/// What does not depend on a person's settings, for the schema of all versions.
fn fixed(home: &Home, config: &Config, dialect: &Dialect, facts: &Facts) -> Value {
    let first = agents(config)
        .find(|agent| agent.role == Role::Orchestrator)
        .or_else(|| agents(config).next())
        .map(|agent| agent.id.to_string());
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
                "sandbox": agent::sandbox_of_unknown(home, dialect, facts),
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

/// flock's hook runs; those that come with OpenClaw don't: one of them runs what a workspace says at each start.
fn hook_entries() -> Value {
    let mut entries = json!({IDENTITY_HOOK: {"enabled": true}});
    for bundled in ["boot-md", "bootstrap-extra-files", "command-logger", "session-memory", "soul-evil"] {
        entries[bundled] = json!({"enabled": false});
    }
    entries
}

/// Puts one document over another.
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

/// Writes `$${NAME}` for `${NAME}` in every text: a person's text is a text, and not a reference to the environment.
fn escape(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("${") => *text = escaped(text),
        Value::Array(items) => items.iter_mut().for_each(escape),
        Value::Object(object) => object.values_mut().for_each(escape),
        _ => {}
    }
}

fn escaped(text: &str) -> String {
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
