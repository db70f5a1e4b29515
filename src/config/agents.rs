//! Adding and removing agents in the document.

use serde_json::{Map, Value, json};

use super::parse::PLUGIN;
use super::starter::SANDBOX_TOOLS;
use super::{Autonomy, ConfigError, Effort, Network, Role};
use crate::home::Home;
use crate::id::{AgentId, ModelRef};

/// The directories of a sandbox's PATH after the agent's own profile.
pub const STANDARD_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An agent that is to be.
#[derive(Clone, Debug)]
pub struct NewAgent {
    /// Its id.
    pub id: AgentId,
    /// What it is in the team.
    pub role: Role,
    /// Its archetype.
    pub archetype: Option<String>,
    /// What runs its turns.
    pub runtime: String,
    /// Whether that is on this machine itself, in no sandbox.
    pub on_host: bool,
    /// Its model; the default one where absent.
    pub model: Option<ModelRef>,
    /// How much its model is to think; left to the provider where absent.
    pub effort: Option<Effort>,
    /// What it may do without asking.
    pub autonomy: Option<Autonomy>,
    /// As a person writes it, e.g. `2g`.
    pub memory: Option<String>,
    /// Cores.
    pub cpus: Option<f64>,
    /// What its sandbox reaches; nothing where absent.
    pub network: Option<Network>,
    /// The hosts it may reach, `HOST[:PORT]`.
    pub egress: Vec<String>,
}

impl NewAgent {
    /// An agent of which nothing is said but what it is: it has what the configuration gives everybody, and no
    /// network.
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
        }
    }
}

/// Adds the agent to `gatewayAgents` and `agents.list`.
///
/// # Errors
///
/// [`ConfigError::Exists`] if the id is taken, [`ConfigError::Refused`] where the document has something
/// else than a list in these places.
pub fn add(document: &mut Value, home: &Home, agent: &NewAgent) -> Result<(), ConfigError> {
    let id = agent.id.as_str();
    let gateway_agents = list(document, &[&PLUGIN[..], &["gatewayAgents"]].concat())?;
    if gateway_agents.iter().any(|entry| entry["id"] == id) {
        return Err(ConfigError::Exists(agent.id.clone()));
    }
    let mut entry = Map::new();
    entry.insert("id".into(), id.into());
    entry.insert("role".into(), agent.role.as_str().into());
    if let Some(archetype) = &agent.archetype {
        entry.insert("archetype".into(), archetype.as_str().into());
    }
    entry.insert("runtime".into(), agent.runtime.as_str().into());
    if agent.on_host {
        entry.insert(ON_HOST.into(), true.into());
    }
    if let Some(effort) = &agent.effort {
        entry.insert("effort".into(), effort.as_str().into());
    }
    if let Some(autonomy) = agent.autonomy {
        entry.insert("autonomy".into(), autonomy.as_str().into());
    }
    if let Some(network) = agent.network {
        entry.insert("network".into(), network.as_str().into());
    }
    if !agent.egress.is_empty() {
        entry.insert("egress".into(), json!(agent.egress));
    }
    gateway_agents.push(Value::Object(entry));

    let listed = list(document, &["agents", "list"])?;
    if let Some(known) = listed.iter_mut().find(|entry| entry["id"] == id) {
        // OpenClaw knew this agent before flock did: what it says of itself stays, what was asked for now wins.
        let whole = listing(home, agent);
        if let (Some(known), Some(model)) = (known.as_object_mut(), whole.get("model")) {
            known.insert("model".into(), model.clone());
        }
        fill(known, &whole);
        for limit in ["memory", "cpus"] {
            let wanted = &whole["sandbox"]["docker"][limit];
            let docker = known.pointer_mut("/sandbox/docker").and_then(Value::as_object_mut);
            if let (false, Some(docker)) = (wanted.is_null(), docker) {
                docker.insert(limit.into(), wanted.clone());
            }
        }
        return Ok(());
    }
    listed.push(listing(home, agent));
    Ok(())
}

/// Puts in what `known` lacks of `whole`. A value of another shape stays: the check that follows names it.
fn fill(known: &mut Value, whole: &Value) {
    let (Some(known), Some(whole)) = (known.as_object_mut(), whole.as_object()) else { return };
    for (name, value) in whole {
        match known.get_mut(name) {
            None | Some(Value::Null) => {
                known.insert(name.clone(), value.clone());
            }
            Some(there) => fill(there, value),
        }
    }
}

/// The PATH of an agent's sandbox: its own packages first.
pub(super) fn sandbox_path(id: &AgentId) -> String {
    format!("/nix/var/nix/profiles/per-agent/{id}/bin:{STANDARD_PATH}")
}

/// Tools that only a sysadmin has.
pub(super) const SYSADMIN_TOOLS: [&str; 1] = ["triage_decision"];

fn listing(home: &Home, agent: &NewAgent) -> Value {
    let mut entry = Map::new();
    entry.insert("id".into(), agent.id.as_str().into());
    if let Some(model) = &agent.model {
        entry.insert("model".into(), json!({"primary": model.as_str()}));
    }
    entry.insert("workspace".into(), json!(home.workspace(&agent.id)));
    if agent.role == Role::Sysadmin {
        let allow: Vec<&str> = SANDBOX_TOOLS.iter().copied().chain(SYSADMIN_TOOLS).collect();
        entry.insert(
            "tools".into(),
            json!({"alsoAllow": ["group:plugins"], "sandbox": {"tools": {"allow": allow}}}),
        );
        entry.insert("sandbox".into(), json!({"mode": "off"}));
    } else {
        entry.insert(
            "tools".into(),
            json!({"alsoAllow": ["group:plugins"], "sandbox": {"tools": {"allow": SANDBOX_TOOLS}}}),
        );
        let mut docker = json!({"env": {"PATH": sandbox_path(&agent.id)}});
        if let Some(memory) = &agent.memory {
            docker["memory"] = memory.as_str().into();
        }
        if let Some(cpus) = agent.cpus {
            docker["cpus"] = json!(cpus);
        }
        entry.insert("sandbox".into(), json!({"mode": "all", "scope": "agent", "docker": docker}));
    }
    Value::Object(entry)
}

/// Has an agent's turns run by `runtime`, and changes its model and how much that thinks where they are given. That
/// another program ran on the host is no choice for this one.
///
/// # Errors
///
/// [`ConfigError::Unknown`] if there is no such agent, [`ConfigError::Refused`] where the document has something
/// else than a list in these places.
pub fn set_runtime(
    document: &mut Value,
    id: &AgentId,
    runtime: &str,
    model: Option<&ModelRef>,
    effort: Option<Effort>,
) -> Result<(), ConfigError> {
    let told = entry(list(document, &[&PLUGIN[..], &["gatewayAgents"]].concat())?, id)?;
    if told.get("runtime").and_then(Value::as_str).unwrap_or("native") != runtime {
        told.shift_remove(ON_HOST);
    }
    told.insert("runtime".into(), runtime.into());
    if let Some(effort) = effort {
        told.insert("effort".into(), effort.as_str().into());
    }
    if let Some(model) = model {
        let all = list(document, &["agents", "list"])?;
        if !all.iter().any(|listed| listed["id"] == id.as_str()) {
            all.push(json!({"id": id}));
        }
        let listed = entry(all, id)?;
        match listed.get_mut("model").and_then(Value::as_object_mut) {
            Some(there) => drop(there.insert("primary".into(), model.as_str().into())),
            None => drop(listed.insert("model".into(), json!({"primary": model.as_str()}))),
        }
    }
    Ok(())
}

/// Leaves it to the provider again how much an agent's model thinks.
///
/// # Errors
///
/// As [`set_runtime`].
pub fn unset_effort(document: &mut Value, id: &AgentId) -> Result<(), ConfigError> {
    entry(list(document, &[&PLUGIN[..], &["gatewayAgents"]].concat())?, id)?.shift_remove("effort");
    Ok(())
}

/// Takes the choice of the host from each agent that another program runs now than in `before`. Gives these agents' ids.
pub fn keep_off_host(before: &Value, document: &mut Value) -> Vec<String> {
    let path = [&PLUGIN[..], &["gatewayAgents"]].concat();
    let pointer = format!("/{}", path.join("/"));
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

/// What says that an agent's program runs on this machine itself.
pub(super) const ON_HOST: &str = "onHost";

/// What a list says of an agent.
pub(super) fn entry<'d>(
    list: &'d mut [Value],
    id: &AgentId,
) -> Result<&'d mut Map<String, Value>, ConfigError> {
    let found = list.iter_mut().find(|entry| entry["id"] == id.as_str()).and_then(Value::as_object_mut);
    found.ok_or_else(|| ConfigError::Unknown(id.clone()))
}

/// Takes the agent out of both lists.
///
/// # Errors
///
/// [`ConfigError::Unknown`] if it is in neither.
pub fn remove(document: &mut Value, id: &AgentId) -> Result<(), ConfigError> {
    let mut found = false;
    for path in [&[&PLUGIN[..], &["gatewayAgents"]].concat()[..], &["agents", "list"]] {
        let entries = list(document, path)?;
        let before = entries.len();
        entries.retain(|entry| entry["id"] != id.as_str());
        found |= entries.len() != before;
    }
    if found { Ok(()) } else { Err(ConfigError::Unknown(id.clone())) }
}

/// Gives an agent another id in both lists, and in what names it elsewhere: its workspace in the home, its profile on the
/// PATH of its sandbox, its budget, and lists of ids.
///
/// # Errors
///
/// [`ConfigError::Unknown`] if it is in neither list, [`ConfigError::Exists`] if the new id is in one.
pub fn rename(document: &mut Value, home: &Home, old: &AgentId, new: &AgentId) -> Result<(), ConfigError> {
    let mut found = false;
    for path in [&[&PLUGIN[..], &["gatewayAgents"]].concat()[..], &["agents", "list"]] {
        let entries = list(document, path)?;
        if entries.iter().any(|entry| entry["id"] == new.as_str()) {
            return Err(ConfigError::Exists(new.clone()));
        }
        for entry in entries.iter_mut().filter(|entry| entry["id"] == old.as_str()) {
            entry["id"] = new.as_str().into();
            found = true;
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
    Ok(())
}

/// Replaces the id in what OpenClaw's configuration has of it beside its own entry: whom it may start, who may be sent
/// to, and which chats are its.
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

/// The list at a path; objects and the list itself are made where nothing is.
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
mod tests {
    use super::*;

    fn document(entries: Value) -> Value {
        json!({"plugins": {"entries": {"flock": {"config": {"gatewayAgents": entries}}}}})
    }

    #[test]
    fn another_id_is_everywhere_and_nothing_else_changes() {
        let home = Home::new("/h".into(), None);
        let (old, new) = ("coder".parse().unwrap(), "dev".parse().unwrap());
        let whole = |id: &str| {
            let path = format!("/nix/var/nix/profiles/per-agent/{id}/bin:/usr/bin");
            let mut document = document(json!([{"id": id, "role": "worker"}, {"id": "coder2"}]));
            document["plugins"]["entries"]["flock"]["config"]["budgets"] =
                json!({"agent": {"coder2": {"tokens": 2}, id: {"tokens": 1}}});
            document["agents"] = json!({"list": [
                {"id": id, "workspace": format!("/h/workspaces/{id}"), "sandbox": {"docker": {"env": {"PATH": path}}}},
                {"id": "coder2", "workspace": "/h/workspaces/coder2", "subagents": {"allowAgents": [id, "coder2"]}},
            ]});
            document["bindings"] = json!([{"agentId": id}, {"agentId": "coder2"}]);
            document
        };
        let mut renamed = whole("coder");
        rename(&mut renamed, &home, &old, &new).unwrap();
        assert_eq!(renamed, whole("dev"));
        assert!(matches!(rename(&mut renamed, &home, &old, &new), Err(ConfigError::Exists(_))));
        let other = "x".parse().unwrap();
        assert!(matches!(rename(&mut renamed, &home, &old, &other), Err(ConfigError::Unknown(_))));
        let taken = "coder2".parse().unwrap();
        assert!(matches!(rename(&mut renamed, &home, &new, &taken), Err(ConfigError::Exists(_))));
    }

    #[test]
    fn another_program_does_not_get_the_choice_of_the_host() {
        let before =
            document(json!([{"id": "a", "runtime": "claude", "onHost": true}, {"id": "b", "onHost": true}]));
        let id = "a".parse().unwrap();
        let mut same = before.clone();
        set_runtime(&mut same, &id, "claude", None, None).unwrap();
        assert_eq!(same, before);
        let mut other = before.clone();
        set_runtime(&mut other, &id, "codex", None, None).unwrap();
        let expected = json!([{"id": "a", "runtime": "codex"}, {"id": "b", "onHost": true}]);
        assert_eq!(other, document(expected));
        // Written by hand, and from no program to one.
        let mut edited = document(
            json!([{"id": "a", "runtime": "claude", "onHost": true}, {"id": "b", "runtime": "gemini", "onHost": true},
                {"id": "c", "runtime": "gemini", "onHost": true}]),
        );
        assert_eq!(keep_off_host(&before, &mut edited), ["b"]);
        let entries = &edited["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
        assert_eq!((&entries[0]["onHost"], entries[1].get("onHost")), (&json!(true), None));
        assert_eq!(entries[2]["onHost"], true, "a new agent is somebody's choice");
    }
}
