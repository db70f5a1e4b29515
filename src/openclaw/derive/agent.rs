//! Derives an agent's entry for OpenClaw: its model, workspace, sandbox and tools.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::schema::{ConfigSchema, inside, prune};
use super::super::{SettingRefusal, container_prefix};
use super::{MachineFacts, merge, passthrough, tools};
use crate::config::agents::STANDARD_PATH;
use crate::config::{Agent, Config, Network, Role, SandboxMode};
use crate::home::Home;
use crate::sandbox::spec;
use crate::sandbox::{binds, names};

/// The inputs that are shared by all agents.
#[derive(Clone, Copy)]
pub(super) struct AgentInputs<'g> {
    pub home: &'g Home,
    pub document: &'g Value,
    pub config: &'g Config,
    pub dialect: &'g ConfigSchema,
    pub facts: &'g MachineFacts,
}

/// Builds the entry of one agent. It has no `id` in versions that use the id as the entry's key.
pub(super) fn entry(
    given: AgentInputs<'_>,
    agent: &Agent,
    dropped: &mut Vec<String>,
) -> Result<Value, SettingRefusal> {
    let AgentInputs { home, document, config, dialect, facts } = given;
    let id = agent.id.as_str();
    let at = format!("agents.list[{id}]");
    let listed = document["agents"]["list"].as_array().into_iter().flatten();
    let listing = listed.into_iter().find(|entry| entry["id"] == id).unwrap_or(&Value::Null);
    let mut own = passthrough::of_agent(listing, &at, dropped);
    let mut own_tools = passthrough::tools_settings(&listing["tools"], &format!("{at}.tools"), dropped);

    let mut whole = Map::new();
    if !dialect.entries {
        whole.insert("id".to_owned(), id.into());
    }
    // Versions with `agents.entries` have `ownership` instead of `default` and refuse a document with both.
    if !dialect.entries && super::default_agent(config).is_some_and(|first| first.id == agent.id) {
        whole.insert("default".to_owned(), true.into());
    }
    whole.insert("name".to_owned(), id.into());
    whole.insert("workspace".to_owned(), json!(agent.workspace));
    whole.insert("model".to_owned(), model(agent)?);
    let mut whole = Value::Object(whole);
    if let Some(effort) = agent.effort {
        own["thinkingDefault"] = effort.as_str().into();
    }
    // Pruned before the merge, so that only the user's settings are reported as dropped and never flock's own.
    known(&mut own, dialect, &at, dropped);
    merge(&mut whole, own);

    let unsandboxed = agent.role == Role::Sysadmin && config.openclaw.unsandboxed_sysadmin;
    let mode = if unsandboxed { SandboxMode::Off } else { SandboxMode::All };
    let tools = tools::of(agent, mode, dropped);
    let policy = if unsandboxed { tools::on_host(&tools) } else { tools::sandboxed(&tools) };
    merge(&mut own_tools, policy);
    whole["tools"] = own_tools;
    whole["sandbox"] = if unsandboxed {
        json!({"mode": "off"})
    } else {
        sandbox(home, agent, dialect, facts).map_err(|why| SettingRefusal {
            at: format!("{at}.sandbox"),
            why: format!("may not have {why}"),
            mend: format!("flock config get {}", passthrough::quoted(&at)),
        })?
    };
    Ok(whole)
}

/// Removes the user's settings that this version's schema does not know.
fn known(own: &mut Value, dialect: &ConfigSchema, at: &str, dropped: &mut Vec<String>) {
    let agents = &dialect.known()["agents"];
    let known = if dialect.entries { inside(&agents["entries"], "") } else { agents.get("list") };
    if let Some(known) = known {
        prune(own, known, at, &mut |place| dropped.push(place));
    }
}

fn model(agent: &Agent) -> Result<Value, SettingRefusal> {
    let mut models = agent.models().map(ToString::to_string);
    let Some(primary) = models.next() else {
        return Err(SettingRefusal {
            at: format!("agents.list[{}].model", agent.id),
            why: "is missing, and there is no default model".to_owned(),
            mend: "flock config set agents.defaults.model.primary PROVIDER/MODEL".to_owned(),
        });
    };
    let fallbacks: Vec<String> = models.collect();
    Ok(json!({"primary": primary, "fallbacks": fallbacks}))
}

/// Builds the sandbox settings of an agent, or returns why they are refused. The rules are those of flock's own
/// sandboxes.
fn sandbox(
    home: &Home,
    agent: &Agent,
    dialect: &ConfigSchema,
    facts: &MachineFacts,
) -> Result<Value, String> {
    let socket = facts.engine_socket.as_deref();
    spec::check_settings(home, agent, socket)?;
    // flock's own sandboxes reach allowed hosts through the gateway's proxy, which a container of OpenClaw can't reach.
    if agent.network != Network::None {
        let network = agent.network.as_str();
        return Err(format!("the network {network:?}: what OpenClaw runs has no way to the gateway's proxy"));
    }
    if let Some(runtime) = &agent.docker.runtime {
        return Err(format!("the runtime {runtime:?}: OpenClaw has no setting for it"));
    }
    // Resolved first, so that a symbolic link can't lead the workspace to a forbidden place.
    let workspace = fs_err::canonicalize(&agent.workspace).unwrap_or_else(|_| agent.workspace.clone());
    spec::check_workspace(home, agent, &workspace, socket).map_err(|error| error.to_string())?;
    let mut binds: Vec<String> = store(home, dialect, facts).into_iter().collect();
    if let Some(mounts) = facts.mounts.get(&agent.id) {
        let approved = mounts.decide(home, socket, binds::resolve)?;
        binds.extend(approved.iter().map(|(source, target)| format!("{}:{target}:ro", source.display())));
    }
    // OpenClaw splits a bind at its colons and has no way to escape one.
    if let Some(odd) = binds.iter().find(|bind| bind.split(':').count() != 3) {
        return Err(format!("the bind {odd:?}: OpenClaw takes no path with a colon in it"));
    }
    let (memory, tmp, cpu_millis) = spec::limits(agent, facts.cores);
    let mut env =
        json!({"PATH": format!("/nix/var/nix/profiles/per-agent/{}/bin:{STANDARD_PATH}", agent.id)});
    for (name, value) in &agent.docker.env {
        env[name] = value.as_str().into();
    }
    let image = agent.docker.image.as_ref().unwrap_or(&facts.image);
    let mut docker = docker(home, facts, image, &binds, (memory, tmp, cpu_millis), &env);
    if let Some(user) = facts.users.get(&agent.id) {
        docker["user"] = format!("{}:{}", user.uid, user.gid).into();
    }
    Ok(wrap_sandbox(&docker))
}

/// Builds the sandbox settings for an agent id that only OpenClaw knows. Such a sandbox sees no folder of the host
/// except its own, and has low limits.
pub(super) fn default_sandbox(home: &Home, dialect: &ConfigSchema, facts: &MachineFacts) -> Value {
    let binds: Vec<String> = store(home, dialect, facts).into_iter().collect();
    let limits = (256 << 20, 64 << 20, 500);
    let env = json!({"PATH": STANDARD_PATH});
    wrap_sandbox(&docker(home, facts, &facts.image, &binds, limits, &env))
}

fn wrap_sandbox(docker: &Value) -> Value {
    json!({"mode": "all", "backend": "docker", "scope": "agent", "workspaceAccess": "rw", "docker": docker})
}

/// Builds the container settings of flock's own sandboxes, as far as OpenClaw has settings for them.
fn docker(
    home: &Home,
    facts: &MachineFacts,
    image: &str,
    binds: &[String],
    (memory, tmp, cpu_millis): (u64, u64, u64),
    env: &Value,
) -> Value {
    let limit = |value: i64| json!({"soft": value, "hard": value});
    #[expect(clippy::cast_precision_loss, reason = "at most 1024 cores")]
    let cpus = cpu_millis as f64 / 1000.0;
    // `memorySwap` has the value of `memory`, so that a container has no swap.
    let mut docker = json!({
        "image": image,
        "containerPrefix": container_prefix(home),
        "readOnlyRoot": true,
        "tmpfs": [format!("/tmp:rw,exec,nosuid,nodev,size={tmp},mode=1777")],
        "network": "none",
        "user": format!("{}:{}", facts.user.uid, facts.user.gid),
        "capDrop": ["ALL"],
        "env": env,
        "pidsLimit": spec::PIDS,
        "memory": memory.to_string(),
        "memorySwap": memory.to_string(),
        "cpus": cpus,
        "ulimits": {"nofile": limit(spec::OPEN_FILES), "core": limit(0)},
        "binds": binds,
    });
    if binds.iter().any(|bind| bind.starts_with('/')) {
        // OpenClaw would refuse any bind from outside of the workspace. Each bind here was already checked by flock's
        // own rules.
        docker["dangerouslyAllowExternalBindSources"] = true.into();
    }
    docker
}

/// Returns the bind of the package store in the form that this version accepts.
fn store(home: &Home, dialect: &ConfigSchema, facts: &MachineFacts) -> Option<String> {
    let source = if dialect.volumes {
        names::store_volume(home)
    } else {
        facts.store.as_deref().map(Path::to_string_lossy)?.into_owned()
    };
    Some(format!("{source}:{}:ro", binds::STORE_TARGET))
}
