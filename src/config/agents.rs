//! Adds, changes, renames and removes agents in the configuration document.

use serde_json::{Map, Value, json};

use super::parse::PLUGIN;
use super::starter::SANDBOX_TOOLS;
use super::{Autonomy, ConfigError, Effort, Network, Role};
use crate::home::Home;
use crate::id::{AgentId, ChannelId, ModelRef};

/// The directories of a sandbox's PATH after the agent's own profile.
pub(crate) const STANDARD_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Path of flock's own list of the agents.
pub(super) const GATEWAY_AGENTS: [&str; 5] = [PLUGIN[0], PLUGIN[1], PLUGIN[2], PLUGIN[3], "gatewayAgents"];
/// Path of OpenClaw's list of the agents.
pub(super) const AGENT_LIST: [&str; 2] = ["agents", "list"];

/// An agent that is to be added to the configuration.
#[derive(Clone, Debug)]
pub struct NewAgent {
    pub id: AgentId,
    pub role: Role,
    pub archetype: Option<String>,
    /// `native`, `openclaw`, or the name of an agent program.
    pub runtime: String,
    /// `true` if its agent program runs on this machine itself, outside any sandbox.
    pub on_host: bool,
    /// `None` uses the default model.
    pub model: Option<ModelRef>,
    /// `None` leaves it to the provider how much the model thinks.
    pub effort: Option<Effort>,
    /// `None` leaves the default, `supervised`.
    pub autonomy: Option<Autonomy>,
    /// Memory limit as a person writes it, e.g. `2g`.
    pub memory: Option<String>,
    /// CPU limit in cores.
    pub cpus: Option<f64>,
    /// `None` means `none`, unless [`NewAgent::egress`] names hosts.
    pub network: Option<Network>,
    /// Hosts that the agent may reach, as `HOST[:PORT]`.
    pub egress: Vec<String>,
    /// Labels that the engine of its sandbox must have.
    pub labels: Vec<String>,
}

impl NewAgent {
    /// Makes an agent that has the defaults of the configuration for everything but its role, and no network.
    #[must_use]
    pub fn new(id: AgentId, role: Role) -> Self {
        Self {
            id,
            role,
            archetype: None,
            runtime: "native".to_owned(),
            on_host: false,
            model: None,
            effort: None,
            autonomy: None,
            memory: None,
            cpus: None,
            network: None,
            egress: Vec::new(),
            labels: Vec::new(),
        }
    }
}

/// Adds the agent to `gatewayAgents` and `agents.list`.
///
/// # Errors
///
/// Returns [`ConfigError::Exists`] if the id is taken, and [`ConfigError::Refused`] if the document holds something
/// other than a list or an object on the way to these lists.
pub fn add(document: &mut Value, home: &Home, agent: &NewAgent) -> Result<(), ConfigError> {
    let id = agent.id.as_str();
    let gateway_agents = list(document, &GATEWAY_AGENTS)?;
    if gateway_agents.iter().any(|entry| entry["id"] == id) {
        return Err(ConfigError::Exists(agent.id.clone()));
    }
    gateway_agents.push(without_nulls(json!({
        "id": id,
        "role": agent.role,
        "archetype": agent.archetype,
        "runtime": agent.runtime,
        ON_HOST: agent.on_host.then_some(true),
        "effort": agent.effort,
        "autonomy": agent.autonomy,
        "network": agent.network,
        "egress": (!agent.egress.is_empty()).then_some(&agent.egress),
        "labels": (!agent.labels.is_empty()).then_some(&agent.labels),
    })));

    let listed = list(document, &AGENT_LIST)?;
    if let Some(known) = listed.iter_mut().find(|entry| entry["id"] == id) {
        // OpenClaw knew this agent before flock did. Its own settings stay. What the user asked for now replaces them.
        let whole = list_entry(home, agent);
        if let (Some(known), Some(model)) = (known.as_object_mut(), whole.get("model")) {
            known.insert("model".into(), model.clone());
        }
        merge_missing(known, &whole);
        for limit in ["memory", "cpus"] {
            let wanted = &whole["sandbox"]["docker"][limit];
            let docker = known.pointer_mut("/sandbox/docker").and_then(Value::as_object_mut);
            if let (false, Some(docker)) = (wanted.is_null(), docker) {
                docker.insert(limit.into(), wanted.clone());
            }
        }
        return Ok(());
    }
    listed.push(list_entry(home, agent));
    Ok(())
}

/// Adds to `known` what it lacks of `whole`. A value of another shape stays, and the check that follows reports it.
fn merge_missing(known: &mut Value, whole: &Value) {
    let (Some(known), Some(whole)) = (known.as_object_mut(), whole.as_object()) else { return };
    for (name, value) in whole {
        match known.get_mut(name) {
            None | Some(Value::Null) => {
                known.insert(name.clone(), value.clone());
            }
            Some(there) => merge_missing(there, value),
        }
    }
}

/// Returns `true` if the document has the agent.
pub(crate) fn lists(document: &Value, id: &AgentId) -> bool {
    let listed = document.pointer(&format!("/{}", GATEWAY_AGENTS.join("/"))).and_then(Value::as_array);
    listed.is_some_and(|listed| listed.iter().any(|entry| entry["id"] == id.as_str()))
}

/// Returns the PATH of an agent's sandbox, in which its own packages come first.
pub(super) fn sandbox_path(id: &AgentId) -> String {
    format!("/nix/var/nix/profiles/per-agent/{id}/bin:{STANDARD_PATH}")
}

/// Tools that only a sysadmin may call.
pub(super) const SYSADMIN_TOOLS: [&str; 1] = ["triage_decision"];

fn list_entry(home: &Home, agent: &NewAgent) -> Value {
    // A sysadmin works on the machine itself, so it has no sandbox. It decides about requests with the extra tool.
    let (extra, sandbox) = if agent.role == Role::Sysadmin {
        (&SYSADMIN_TOOLS[..], json!({"mode": "off"}))
    } else {
        let env = json!({"PATH": sandbox_path(&agent.id)});
        let docker = without_nulls(json!({"env": env, "memory": agent.memory, "cpus": agent.cpus}));
        (&[][..], json!({"mode": "all", "scope": "agent", "docker": docker}))
    };
    let allow: Vec<&str> = SANDBOX_TOOLS.iter().chain(extra).copied().collect();
    without_nulls(json!({
        "id": agent.id,
        "model": agent.model.as_ref().map(|model| json!({"primary": model})),
        "workspace": home.workspace(&agent.id),
        "tools": {"alsoAllow": ["group:plugins"], "sandbox": {"tools": {"allow": allow}}},
        "sandbox": sandbox,
    }))
}

/// Leaves out settings that were not given, so that a default that changes later applies to this agent too.
fn without_nulls(mut object: Value) -> Value {
    if let Some(entries) = object.as_object_mut() {
        entries.retain(|_, value| !value.is_null());
    }
    object
}

/// Removes the permission to run on the host from each agent whose runtime differs from the one in `before`. Returns
/// the ids of these agents.
pub(crate) fn revoke_host_access(before: &Value, document: &mut Value) -> Vec<String> {
    let pointer = format!("/{}", GATEWAY_AGENTS.join("/"));
    let told = |list: Option<&Value>, id: &Value| {
        let found = list?.as_array()?.iter().find(|entry| entry["id"] == *id)?;
        Some((found["runtime"].as_str().unwrap_or("native").to_owned(), found[ON_HOST] == true))
    };
    let (old, mut taken) = (before.pointer(&pointer), Vec::new());
    let entries = document.pointer_mut(&pointer).and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        let Some(id) = entry.get("id").cloned() else { continue };
        let runtime = entry.get("runtime").and_then(Value::as_str).unwrap_or("native");
        let was_other = told(old, &id).is_some_and(|(was, on_host)| on_host && was != runtime);
        if was_other && entry.get(ON_HOST) == Some(&Value::Bool(true)) {
            entry.shift_remove(ON_HOST);
            taken.push(id.as_str().unwrap_or_default().to_owned());
        }
    }
    taken
}

/// The key that lets an agent's program run on this machine itself.
pub(super) const ON_HOST: &str = "onHost";

/// Returns the entry of an agent in a list, or [`ConfigError::Unknown`].
pub(super) fn entry<'d>(
    list: &'d mut [Value],
    id: &AgentId,
) -> Result<&'d mut Map<String, Value>, ConfigError> {
    let found = list.iter_mut().find(|entry| entry["id"] == id.as_str()).and_then(Value::as_object_mut);
    found.ok_or_else(|| ConfigError::Unknown(id.clone()))
}

/// Removes the agent from both lists.
///
/// # Errors
///
/// Returns [`ConfigError::Unknown`] if it is in neither list.
pub fn remove(document: &mut Value, id: &AgentId) -> Result<(), ConfigError> {
    let mut found = false;
    for path in [&GATEWAY_AGENTS[..], &AGENT_LIST] {
        let entries = list(document, path)?;
        let before = entries.len();
        entries.retain(|entry| entry["id"] != id.as_str());
        found |= entries.len() != before;
    }
    super::projects::replace_agent(document, id, None);
    if found { Ok(()) } else { Err(ConfigError::Unknown(id.clone())) }
}

/// Gives an agent another id in both lists and wherever else the document names it: its workspace in the home, its
/// package profile on the PATH of its sandbox, its budget, and lists of ids.
///
/// # Errors
///
/// Returns [`ConfigError::Unknown`] if the agent is in neither list, and [`ConfigError::Exists`] if the new id is
/// already in one.
pub fn rename(document: &mut Value, home: &Home, old: &AgentId, new: &AgentId) -> Result<(), ConfigError> {
    let mut found = false;
    for path in [&GATEWAY_AGENTS[..], &AGENT_LIST] {
        let entries = list(document, path)?;
        // Both lists are checked, because OpenClaw may have an agent with the new id that flock does not know.
        if entries.iter().any(|entry| entry["id"] == new.as_str()) {
            return Err(ConfigError::Exists(new.clone()));
        }
        for entry in entries.iter_mut().filter(|entry| entry["id"] == old.as_str()) {
            entry["id"] = new.as_str().into();
            found = true;
            // A folder that a person chose outside the home keeps its name.
            if entry.get("workspace").is_some_and(|workspace| *workspace == json!(home.workspace(old))) {
                entry["workspace"] = json!(home.workspace(new));
            }
            if let Some(Value::String(path)) = entry.pointer_mut("/sandbox/docker/env/PATH") {
                *path = path.replace(&format!("/per-agent/{old}/"), &format!("/per-agent/{new}/"));
            }
        }
    }
    if !found {
        return Err(ConfigError::Unknown(old.clone()));
    }
    let budgets = format!("/{}/budgets/agent", PLUGIN.join("/"));
    if let Some(Value::Object(budgets)) = document.pointer_mut(&budgets)
        && let Some(own) = budgets.shift_remove(old.as_str())
    {
        budgets.insert(new.to_string(), own);
    }
    rename_in_lists(document, old, new);
    super::projects::replace_agent(document, old, Some(new));
    Ok(())
}

/// Adds an agent with the settings of another one, its role and limits included. Its workspace is in the home, also if
/// the other one's is not.
///
/// # Errors
///
/// Returns [`ConfigError::Exists`] if the id is taken, [`ConfigError::Unknown`] if there is no such agent, and
/// [`ConfigError::Refused`] if the document holds something else than lists.
pub(crate) fn fork(
    document: &mut Value,
    home: &Home,
    from: &AgentId,
    to: &AgentId,
) -> Result<(), ConfigError> {
    let mut found = false;
    for path in [&GATEWAY_AGENTS[..], &AGENT_LIST] {
        let entries = list(document, path)?;
        if entries.iter().any(|entry| entry["id"] == to.as_str()) {
            return Err(ConfigError::Exists(to.clone()));
        }
        let Some(mut entry) = entries.iter().find(|entry| entry["id"] == from.as_str()).cloned() else {
            continue;
        };
        found = true;
        entry["id"] = to.as_str().into();
        if path == AGENT_LIST {
            entry["workspace"] = json!(home.workspace(to));
            if let Some(entry) = entry.as_object_mut() {
                // OpenClaw has one default agent.
                entry.shift_remove("default");
            }
        }
        if let Some(Value::String(path)) = entry.pointer_mut("/sandbox/docker/env/PATH") {
            *path = path.replace(&format!("/per-agent/{from}/"), &format!("/per-agent/{to}/"));
        }
        entries.push(entry);
    }
    if !found {
        return Err(ConfigError::Unknown(from.clone()));
    }
    let budgets = format!("/{}/budgets/agent", PLUGIN.join("/"));
    if let Some(Value::Object(budgets)) = document.pointer_mut(&budgets)
        && let Some(own) = budgets.get(from.as_str()).cloned()
    {
        budgets.insert(to.to_string(), own);
    }
    super::projects::fork_agent(document, from, to);
    Ok(())
}

/// Gives a channel the budget of another one, if that has one of its own.
pub(crate) fn fork_channel_budget(document: &mut Value, from: &ChannelId, to: &ChannelId) {
    let budgets = format!("/{}/budgets/channel", PLUGIN.join("/"));
    let Some(Value::Object(budgets)) = document.pointer_mut(&budgets) else { return };
    // Channel ids are unique without regard to case.
    let own = budgets.iter().find(|(id, _)| id.eq_ignore_ascii_case(from.as_str()));
    if let Some(own) = own.map(|(_, own)| own.clone()) {
        budgets.insert(to.as_str().to_ascii_lowercase(), own);
    }
}

/// Removes the budget of a channel that is no longer used.
pub(crate) fn remove_channel_budget(document: &mut Value, id: &ChannelId) {
    let budgets = format!("/{}/budgets/channel", PLUGIN.join("/"));
    if let Some(Value::Object(budgets)) = document.pointer_mut(&budgets) {
        budgets.retain(|name, _| !name.eq_ignore_ascii_case(id.as_str()));
    }
}

/// Replaces the id in the lists of OpenClaw's configuration outside the agent's own entry: the agents that may be
/// started, the agents that may be sent messages, and the chats that are bound to an agent.
fn rename_in_lists(document: &mut Value, old: &AgentId, new: &AgentId) {
    let replace = |ids: Option<&mut Value>| {
        for id in ids.and_then(Value::as_array_mut).into_iter().flatten() {
            if *id == old.as_str() {
                *id = new.as_str().into();
            }
        }
    };
    replace(document.pointer_mut("/tools/agentToAgent/allow"));
    replace(document.pointer_mut("/agents/defaults/subagents/allowAgents"));
    let listed = document.pointer_mut("/agents/list").and_then(Value::as_array_mut);
    for entry in listed.into_iter().flatten() {
        replace(entry.pointer_mut("/subagents/allowAgents"));
    }
    let bindings = document.pointer_mut("/bindings").and_then(Value::as_array_mut);
    for binding in bindings.into_iter().flatten() {
        if binding["agentId"] == old.as_str() {
            binding["agentId"] = new.as_str().into();
        }
    }
}

/// Returns the list at a path. Missing objects and a missing list are created.
pub(super) fn list<'d>(document: &'d mut Value, path: &[&str]) -> Result<&'d mut Vec<Value>, ConfigError> {
    let refused = |message: &str| ConfigError::Refused { at: path.join("."), message: message.to_owned() };
    let mut at = document;
    for name in path {
        let object = at.as_object_mut().ok_or_else(|| refused("is not inside an object"))?;
        at = object.entry(*name).or_insert(Value::Null);
        if at.is_null() {
            *at = if path.last() == Some(name) { json!([]) } else { json!({}) };
        }
    }
    at.as_array_mut().ok_or_else(|| refused("is not a list"))
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
