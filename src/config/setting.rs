//! The settings of one agent that a person may change after the agent was added: the place of each in the document, and
//! the other settings that change with it.

use serde_json::{Map, Value, json};

use super::agents::{AGENT_LIST, GATEWAY_AGENTS, ON_HOST, SYSADMIN_TOOLS, entry, list, sandbox_path};
use super::parse::PLUGIN;
use super::starter::SANDBOX_TOOLS;
use super::{ConfigError, Role};
use crate::id::AgentId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    Role,
    Archetype,
    /// The runtime of its turns.
    Runtime,
    /// `true` if its agent program runs on this machine itself.
    OnHost,
    /// Its own model, not the default one.
    Model,
    Effort,
    Autonomy,
    /// Memory limit of its container.
    Memory,
    /// CPU limit of its container, in cores.
    Cpus,
    /// Size limit of its workspace.
    Disk,
    Network,
    /// Hosts that it may reach.
    Egress,
    /// Its limit of tokens per day.
    BudgetTokens,
    /// Its limit of dollars per day.
    BudgetUsd,
    /// The sandbox mode. It follows from the role and is only shown.
    Sandbox,
}

impl Setting {
    /// All settings, in the order in which they are shown.
    pub const ALL: [Self; 15] = [
        Self::Role,
        Self::Archetype,
        Self::Runtime,
        Self::OnHost,
        Self::Sandbox,
        Self::Model,
        Self::Effort,
        Self::Autonomy,
        Self::Memory,
        Self::Cpus,
        Self::Disk,
        Self::Network,
        Self::Egress,
        Self::BudgetTokens,
        Self::BudgetUsd,
    ];

    /// Returns the name for people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Archetype => "archetype",
            Self::Runtime => "runtime",
            Self::OnHost => ON_HOST,
            Self::Model => "model",
            Self::Effort => "effort",
            Self::Autonomy => "autonomy",
            Self::Memory => "memory",
            Self::Cpus => "cpus",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Egress => "egress",
            Self::BudgetTokens => "budget-tokens",
            Self::BudgetUsd => "budget-usd",
            Self::Sandbox => "sandbox",
        }
    }

    /// Returns `true` if the setting is fixed when the agent's container is created, so that a change needs a new one.
    #[must_use]
    pub(crate) const fn is_of_container(self) -> bool {
        matches!(
            self,
            Self::Runtime | Self::OnHost | Self::Sandbox | Self::Memory | Self::Cpus | Self::Network
        )
    }

    /// Returns the value that applies if the document has none. Null if another part of the configuration decides.
    fn usual(self) -> Value {
        match self {
            Self::Role => json!(Role::Worker.as_str()),
            Self::Runtime => json!("native"),
            Self::OnHost => json!(false),
            Self::Autonomy => json!("supervised"),
            Self::Network => json!("none"),
            Self::Sandbox => json!("all"),
            Self::Egress => json!([]),
            _ => Value::Null,
        }
    }
}

/// A setting and its new value. Null removes it from the document.
pub type SettingValue = (Setting, Value);

/// A setting whose value differs between two documents.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingChange {
    pub setting: Setting,
    /// Null if the document had no value.
    pub before: Value,
    /// Null if the document has no value.
    pub after: Value,
}

/// Returns the value of an agent's setting. Null if neither the document nor flock has one.
#[must_use]
pub fn get(document: &Value, id: &AgentId, setting: Setting) -> Value {
    let own = PLUGIN.iter().fold(document, |place, name| &place[*name]);
    let of = |entries: &Value| -> Value {
        let found = entries.as_array().and_then(|all| all.iter().find(|entry| entry["id"] == id.as_str()));
        found.cloned().unwrap_or_default()
    };
    let told = of(&own["gatewayAgents"]);
    let listed = of(&document["agents"]["list"]);
    let value = match setting {
        // A model may be written as a text or as an object with `primary`.
        Setting::Model if listed["model"].is_string() => listed["model"].clone(),
        Setting::Model => listed["model"]["primary"].clone(),
        Setting::Memory | Setting::Cpus => listed["sandbox"]["docker"][setting.name()].clone(),
        Setting::Sandbox => listed["sandbox"]["mode"].clone(),
        Setting::BudgetTokens => own["budgets"]["agent"][id.as_str()]["tokens"].clone(),
        Setting::BudgetUsd => own["budgets"]["agent"][id.as_str()]["usd"].clone(),
        // The parser reads hosts without a network setting as `proxy`, so the same is shown here.
        Setting::Network if told["network"].is_null() && !host_list(&told["egress"]).is_empty() => {
            json!("proxy")
        }
        setting => told[setting.name()].clone(),
    };
    if value.is_null() { setting.usual() } else { value }
}

fn host_list(egress: &Value) -> &[Value] {
    egress.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the settings of the agent that differ between two documents.
#[must_use]
pub fn changes(before: &Value, after: &Value, id: &AgentId) -> Vec<SettingChange> {
    let both =
        |setting| SettingChange { setting, before: get(before, id, setting), after: get(after, id, setting) };
    Setting::ALL.into_iter().map(both).filter(|change| !is_equal(&change.before, &change.after)).collect()
}

/// Returns `true` if two values mean the same: 2 and 2.0 are one number.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() < f64::EPSILON,
        _ => one == other,
    }
}

/// Changes settings of the agent, and the settings that cannot stay beside them. Another runtime loses the permission
/// to run on the host. An agent that becomes sysadmin has no sandbox and therefore no network. Without a network there
/// are no hosts.
///
/// # Errors
///
/// Returns [`ConfigError::Unknown`] if there is no such agent, and [`ConfigError::Refused`] if the document holds
/// something other than a list or an object on the way to a setting.
pub fn set(document: &mut Value, id: &AgentId, wanted: &[SettingValue]) -> Result<(), ConfigError> {
    let before = document.clone();
    for (setting, value) in wanted {
        put(document, id, *setting, value.clone())?;
    }
    // What the user set in the same command always wins over what would follow from another setting.
    let is_wanted = |setting| wanted.iter().any(|(other, _)| *other == setting);
    let differs = |document: &Value, setting| get(&before, id, setting) != get(document, id, setting);
    if differs(document, Setting::Runtime) && !is_wanted(Setting::OnHost) {
        put(document, id, Setting::OnHost, Value::Null)?;
    }
    if differs(document, Setting::Role) {
        apply_role(document, id)?;
    }
    if !host_list(&get(document, id, Setting::Egress)).is_empty() {
        if is_wanted(Setting::Egress) && !is_wanted(Setting::Network) {
            put(document, id, Setting::Network, json!("proxy"))?;
        } else if !is_wanted(Setting::Egress) && wanted.contains(&(Setting::Network, json!("none"))) {
            put(document, id, Setting::Egress, Value::Null)?;
        }
    }
    Ok(())
}

/// Adds and removes what depends on the role: the sandbox, and the tool that decides about requests.
fn apply_role(document: &mut Value, id: &AgentId) -> Result<(), ConfigError> {
    let is_sysadmin = get(document, id, Setting::Role) == Role::Sysadmin.as_str();
    if is_sysadmin {
        put(document, id, Setting::Network, Value::Null)?;
        put(document, id, Setting::Egress, Value::Null)?;
    }
    let listed = entry(list(document, &AGENT_LIST)?, id)?;
    let at = |path: &str| format!("agents.list[{id}].{path}");
    let sandbox = object_mut(listed, "sandbox", || at("sandbox"))?;
    sandbox.insert("mode".into(), json!(if is_sysadmin { "off" } else { "all" }));
    if !is_sysadmin {
        sandbox.entry("scope").or_insert(json!("agent"));
        let docker = object_mut(sandbox, "docker", || at("sandbox.docker"))?;
        let env = object_mut(docker, "env", || at("sandbox.docker.env"))?;
        env.entry("PATH").or_insert(json!(sandbox_path(id)));
    }
    let tools = object_mut(listed, "tools", || at("tools"))?;
    let tools = object_mut(tools, "sandbox", || at("tools.sandbox"))?;
    let tools = object_mut(tools, "tools", || at("tools.sandbox.tools"))?;
    let allow = tools.entry("allow").or_insert(json!(SANDBOX_TOOLS));
    if let Some(allow) = allow.as_array_mut() {
        // Removed first, so that the tool is never in the list twice.
        for tool in SYSADMIN_TOOLS {
            allow.retain(|allowed| allowed != tool);
            if is_sysadmin {
                allow.push(json!(tool));
            }
        }
    }
    Ok(())
}

fn put(document: &mut Value, id: &AgentId, setting: Setting, value: Value) -> Result<(), ConfigError> {
    match setting {
        Setting::BudgetTokens | Setting::BudgetUsd => return put_budget(document, id, setting, value),
        Setting::Model => {
            let listed = entry(listed(document, id)?, id)?;
            // Fallbacks stay when the main model goes.
            if value.is_null() {
                let keeps = listed.get_mut("model").and_then(Value::as_object_mut).is_some_and(|model| {
                    model.shift_remove("primary");
                    !model.is_empty()
                });
                if !keeps {
                    listed.shift_remove("model");
                }
            } else if let Some(model) = listed.get_mut("model").and_then(Value::as_object_mut) {
                model.insert("primary".into(), value);
            } else {
                listed.insert("model".into(), json!({"primary": value}));
            }
        }
        Setting::Memory | Setting::Cpus | Setting::Sandbox => {
            let at = || format!("agents.list[{id}].sandbox");
            let sandbox = object_mut(entry(listed(document, id)?, id)?, "sandbox", at)?;
            if setting == Setting::Sandbox {
                insert_or_remove(sandbox, "mode", value);
            } else {
                insert_or_remove(object_mut(sandbox, "docker", at)?, setting.name(), value);
            }
        }
        setting => {
            let told = entry(list(document, &GATEWAY_AGENTS)?, id)?;
            // A value that is the default anyway is not written. Only role and runtime are, because every agent has
            // them.
            let is_usual = value == setting.usual() && !matches!(setting, Setting::Role | Setting::Runtime);
            insert_or_remove(told, setting.name(), if is_usual { Value::Null } else { value });
        }
    }
    Ok(())
}

/// Changes one limit of an agent's budget. An agent's own budget replaces the `*` budget as a whole, so the first
/// change copies the other limit from there. It would otherwise be lost.
fn put_budget(document: &mut Value, id: &AgentId, setting: Setting, value: Value) -> Result<(), ConfigError> {
    let at = [&PLUGIN[..], &["budgets", "agent"]].concat();
    let own = document.pointer(&format!("/{}/{id}", at.join("/"))).is_some_and(Value::is_object);
    // Without a budget of its own there is nothing to remove.
    if value.is_null() && !own {
        return Ok(());
    }
    let refused = || ConfigError::Refused { at: at.join("."), message: "is not an object".to_owned() };
    let mut budgets = document.as_object_mut().ok_or_else(refused)?;
    for name in &at {
        budgets = object_mut(budgets, name, || at.join("."))?;
    }
    let all = budgets.get("*").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let own = budgets.entry(id.as_str()).or_insert(all);
    if let Some(own) = own.as_object_mut() {
        let name = if setting == Setting::BudgetUsd { "usd" } else { "tokens" };
        insert_or_remove(own, name, value);
        // An empty entry would still replace the `*` budget and limit nothing.
        if own.is_empty() {
            budgets.shift_remove(id.as_str());
        }
    }
    Ok(())
}

fn insert_or_remove(holder: &mut Map<String, Value>, name: &str, value: Value) {
    if value.is_null() {
        holder.shift_remove(name);
    } else {
        holder.insert(name.to_owned(), value);
    }
}

/// Returns `agents.list`, with an entry for the agent. OpenClaw's own configuration may lack one.
fn listed<'d>(document: &'d mut Value, id: &AgentId) -> Result<&'d mut Vec<Value>, ConfigError> {
    let all = list(document, &AGENT_LIST)?;
    if !all.iter().any(|listed| listed["id"] == id.as_str()) {
        all.push(json!({"id": id}));
    }
    Ok(all)
}

/// Returns the object with this name, which is created if missing. Something else at `at` is an error.
fn object_mut<'d>(
    holder: &'d mut Map<String, Value>,
    name: &str,
    at: impl Fn() -> String,
) -> Result<&'d mut Map<String, Value>, ConfigError> {
    let found = holder.entry(name).or_insert(Value::Null);
    if found.is_null() {
        *found = json!({});
    }
    let refused = || ConfigError::Refused { at: at(), message: "is not an object".to_owned() };
    found.as_object_mut().ok_or_else(refused)
}

#[cfg(test)]
#[path = "setting_tests.rs"]
mod tests;
