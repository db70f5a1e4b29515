//! The parts of a home that are files: folders, instance id, configuration, workspaces, format number.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};

use serde_json::{Value, json};

use super::super::Failure;
use crate::agent::identity;
use crate::config::agents::NewAgent;
use crate::config::model::DEFAULT_PORT;
use crate::config::starter;
use crate::config::{self, ConfigError, Role, agents};
use crate::generation;
use crate::home::lock::Lock;
use crate::home::{Home, atomic, instance, version};
use crate::id::ModelRef;

/// The wishes of the person, from options or answers.
#[derive(Debug, Default)]
pub(crate) struct InitSettings {
    pub model: Option<ModelRef>,
    /// The base URL of that model's provider.
    pub base_url: Option<String>,
    /// The owner's token for the HTTP API.
    pub token: Option<String>,
    pub port: Option<u16>,
}

/// Creates the missing parts and applies the wishes. Returns messages for the person.
///
/// # Errors
///
/// Returns the error of the step that failed.
pub(crate) fn complete(home: &Home, wanted: &InitSettings) -> Result<Vec<String>, Failure> {
    home.make_folders()?;
    instance::settle(home)?;
    let shared = home.vaults().join("shared");
    match fs_err::create_dir(&shared) {
        // Another `init` may be making this home at the same time. A file of a person in this place is left alone.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Failure::with_cause("failed to make the vault that agents share", &error));
        }
        _ => {}
    }
    let mut notes = Vec::new();
    if !home.config().exists() {
        // Without a given port the choice is made once and written down, so that later starts use the same one.
        let port = wanted.port.unwrap_or_else(|| free_port(&mut notes));
        let token = wanted.token.clone().unwrap_or_else(random_token);
        let mut document = starter::document(home, wanted.model.as_ref(), &token, port);
        for agent in default_agents() {
            agents::add(&mut document, home, &agent)?;
        }
        // Of two `init` at the same time only the first writes the file. The second one completes it below.
        let _lock = Lock::acquire(&home.config_lock(), std::time::Duration::from_secs(30))?;
        atomic::write_new(&home.config(), &config::edit::render(&document), 0o600)?;
    }
    // This also completes a configuration that a person wrote or took over from OpenClaw.
    config::complete(home, |document| merge_settings(document, home, wanted))?;
    for agent in config::read(home)?.agents {
        let who = identity::AgentIdentity {
            id: &agent.id,
            role: agent.role,
            archetype: agent.archetype.as_deref(),
            archetypes: &home.archetypes(),
        };
        identity::write(&agent.identity, &agent.workspace, &who)?;
    }
    // The format number is written last: a home that has one was made completely.
    version::stamp(home)?;
    generation::look(home, |_| {})?;
    Ok(notes)
}

/// Adds the settings that flock needs and those that were asked for. Everything else stays unchanged.
fn merge_settings(document: &mut Value, home: &Home, wanted: &InitSettings) -> Result<(), ConfigError> {
    let token = wanted.token.clone().unwrap_or_else(random_token);
    // The example's port only fills a gap. A port that is configured already stays.
    let example = starter::document(home, None, &token, wanted.port.unwrap_or(DEFAULT_PORT));
    if !document.is_object() {
        return Ok(());
    }
    merge(document, &example);
    // A path that is still missing has a value of the wrong type above it. The check after this names it.
    let place = |document: &mut Value, path: &str, value: Value| {
        if let Some(there) = document.pointer_mut(path) {
            *there = value;
        }
    };
    if let Some(token) = &wanted.token {
        place(document, "/gateway/auth/token", json!(token));
    }
    if let Some(port) = wanted.port {
        place(document, "/plugins/entries/flock/config/gateway/port", json!(port));
    }
    if let Some(model) = &wanted.model
        && let Some(defaults) = document.pointer_mut("/agents/defaults").and_then(Value::as_object_mut)
    {
        defaults.insert("model".to_owned(), json!({"primary": model.as_str()}));
    }
    if let (Some(model), Some(url)) = (&wanted.model, &wanted.base_url) {
        let provider = json!({"models": {"providers": {model.provider(): {"baseUrl": url}}}});
        merge(document, &provider);
    }
    // Without this mount the agents of a configuration from OpenClaw would have no packages.
    let store = format!("flock-nix{}:/nix:ro", home.suffix());
    let binds = document.pointer_mut("/agents/defaults/sandbox/docker/binds");
    if let Some(binds) = binds.and_then(Value::as_array_mut)
        && !binds.iter().any(|bind| bind.as_str().is_some_and(|bind| bind.contains(":/nix:")))
    {
        binds.push(store.into());
    }
    for agent in default_agents() {
        match agents::add(document, home, &agent) {
            // An agent list of the wrong type is named by the check after this.
            Ok(()) | Err(ConfigError::Exists(_) | ConfigError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Adds missing keys. A value of the wrong type stays, because the check after this names it.
fn merge(document: &mut Value, example: &Value) {
    let (Some(found), Some(example)) = (document.as_object_mut(), example.as_object()) else { return };
    for (name, value) in example {
        match found.get_mut(name) {
            None | Some(Value::Null) => {
                found.insert(name.clone(), value.clone());
            }
            Some(there) => merge(there, value),
        }
    }
}

fn default_agents() -> Vec<NewAgent> {
    let agents = [("orchestrator", Role::Orchestrator), ("sysadmin", Role::Sysadmin)];
    agents.into_iter().filter_map(|(id, role)| Some(NewAgent::new(id.parse().ok()?, role))).collect()
}

fn random_token() -> String {
    crate::id::hex(&rand::random::<[u8; 32]>())
}

/// Returns the default port, or the next free one.
fn free_port(notes: &mut Vec<String>) -> u16 {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    match (DEFAULT_PORT..DEFAULT_PORT + 100).find(free) {
        Some(port) if port != DEFAULT_PORT => {
            notes.push(format!("port {DEFAULT_PORT} is in use; the gateway gets {port}"));
            port
        }
        _ => DEFAULT_PORT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(dir: &tempfile::TempDir) -> Home {
        Home::new(dir.path().join("home"), None)
    }

    #[test]
    fn completing_a_home_again_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        complete(&home, &InitSettings::default()).unwrap();
        let first = std::fs::read(home.config()).unwrap();
        complete(&home, &InitSettings::default()).unwrap();
        assert_eq!(std::fs::read(home.config()).unwrap(), first);
    }

    #[test]
    fn a_config_of_openclaw_is_completed_and_keeps_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir);
        std::fs::create_dir_all(home.root()).unwrap();
        let theirs = json!({
            "zeta": {"b": 1, "a": [1, 2]},
            "agents": {"list": [{"id": "main", "model": "x/y"}, {"id": "orchestrator", "mine": true}]},
            "gateway": {"auth": {"token": "12345678"}, "port": 18789},
        });
        std::fs::write(home.config(), theirs.to_string()).unwrap();
        complete(&home, &InitSettings::default()).unwrap();
        let document: Value = serde_json::from_slice(&std::fs::read(home.config()).unwrap()).unwrap();
        assert_eq!(document["zeta"], theirs["zeta"]);
        assert_eq!(document["agents"]["list"][0]["id"], "main");
        assert_eq!(document["agents"]["list"][1]["mine"], true);
        assert_eq!(document["gateway"]["auth"]["token"], "12345678");
        assert_eq!(document["gateway"]["port"], 18789);
        assert_eq!(document.as_object().unwrap().keys().next().unwrap(), "zeta");
        let config = config::read(&home).unwrap();
        assert_eq!(config.agents.len(), 2);
        assert_eq!(config.port, DEFAULT_PORT);
    }
}
