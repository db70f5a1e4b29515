//! The effects of changed settings: a row in the audit log, the identity files, OpenClaw's configuration, and the
//! container.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::{Context, Failure, openclaw, person, team};
use super::{Plan, values};
use crate::agent::identity;
use crate::config::setting::{Setting, SettingChange};
use crate::config::{self, Agent, Config, SandboxMode};
use crate::error::chain;
use crate::home::Home;
use crate::openclaw::{RUNTIME, port};
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::engines::AgentPlace;
use crate::sandbox::names;
use crate::store::Level;

/// Returns the port for OpenClaw if the agent runs on it and no port is configured yet.
pub(crate) fn openclaw_port(home: &Home, now: &Agent) -> Result<Option<u16>, Failure> {
    if now.runtime != RUNTIME {
        return Ok(None);
    }
    Ok(port::choose(&config::read(home)?))
}

/// Carries out all effects after the configuration was written.
///
/// The result names the files that a person has to look at, and what happened to the container.
pub(crate) async fn all(
    home: &Home,
    config: &Config,
    plan: &Plan,
    context: &Context,
) -> Result<Value, Failure> {
    record(home, plan).await?;
    let kept = follow(home, plan)?;
    for file in &kept {
        context.printer.warn(&format!(
            "{} was edited, so it stays as it is; to get flock's text, remove the file and flock writes it anew: rm \
             {}",
            file.display(),
            file.display()
        ));
    }
    plan.warn(home, config, context);
    // The old runtime counts too: OpenClaw's configuration must lose an agent that leaves it.
    if openclaw::is_wanted(home, config) && [&plan.old, &plan.now].iter().any(|one| one.runtime == RUNTIME) {
        Box::pin(openclaw::put(home, context)).await.map_err(|failure| partial_failure(plan, failure))?;
    }
    let sandbox = update_container(home, config, plan, context)
        .await
        .map_err(|failure| partial_failure(plan, failure))?;
    Ok(json!({"kept": kept, "sandbox": sandbox}))
}

async fn record(home: &Home, plan: &Plan) -> Result<(), Failure> {
    let shown = |change: &SettingChange| {
        let (before, after) = (&change.before, &change.after);
        let [before, after] = [before, after].map(|value| values::text(change.setting, value));
        format!("{}: {before} -> {after}", change.setting.name())
    };
    let changes: Vec<String> = plan.changes.iter().map(shown).collect();
    person::record(home, "agent.edit", plan.now.id.as_str(), Level::Yellow, changes.join("; ")).await
}

/// Rewrites the agent's identity files for its new role and archetype. Returns the files that a person has edited,
/// which stay.
fn follow(home: &Home, plan: &Plan) -> Result<Vec<PathBuf>, Failure> {
    if !plan.has(&[Setting::Role, Setting::Archetype]) {
        return Ok(Vec::new());
    }
    let archetypes = home.archetypes();
    let [before, now] = [&plan.old, &plan.now].map(|agent| identity::AgentIdentity {
        id: &agent.id,
        role: agent.role,
        archetype: agent.archetype.as_deref(),
        archetypes: &archetypes,
    });
    Ok(identity::follow(&plan.now.identity, &before, &now)?)
}

/// Adapts the agent's container if a setting of it changed, and returns what happened to it.
async fn update_container(
    home: &Home,
    config: &Config,
    plan: &Plan,
    context: &Context,
) -> Result<Option<&'static str>, Failure> {
    let Agent { id, sandbox, runtime, .. } = &plan.now;
    // OpenClaw makes the containers of its agents itself.
    if runtime == RUNTIME || !plan.changes.iter().any(|change| change.setting.is_of_container()) {
        return Ok(None);
    }
    let engine = match team::engines(home, config).place_of_id(id).await? {
        AgentPlace::Engine(found) => found.engine,
        // Its next command compares its pod with the settings.
        AgentPlace::Cluster(_) => return Ok(Some("later")),
    };
    if engine.version().await.is_err() {
        let text = format!("no engine answers: the container of {id} is changed at its next command");
        context.printer.warn(&text);
        return Ok(Some("later"));
    }
    // Without a container nothing is made now. The next command makes it with the new settings.
    let Some(old) = container_id(&engine, home, plan).await? else { return Ok(None) };
    let later = match team::frozen(home) {
        Ok(frozen) if frozen.holds(id) => {
            Some(format!("{id} is frozen: its container is changed at its first command after the thaw"))
        }
        Ok(_) => None,
        Err(error) => Some(format!(
            "the container of {id} is changed at its next command, because it is not known if it is frozen: {}",
            chain(&error)
        )),
    };
    if let Some(text) = later {
        context.printer.warn(&text);
        return Ok(Some("later"));
    }
    let progress = context.printer.progress(&format!("changing the sandbox of {id}"));
    // A running gateway owns the containers, so it has to change this one.
    match team::gateway(home, config).await? {
        Some(gateway) => team::prepare(&gateway, id).await?,
        None if *sandbox == SandboxMode::Off => team::remove_sandbox(home, config, id).await?,
        None => team::make(home, config, id).await?,
    }
    // The container's id tells if it was made anew.
    let (told, text) = match container_id(&engine, home, plan).await? {
        None => ("removed", format!("sandbox of {id} removed")),
        Some(new) if new != old => ("remade", format!("sandbox of {id} made anew and found confined")),
        Some(_) => (
            "kept",
            format!(
                "sandbox of {id} stays for now; if the change needs a new one, flock makes it when nothing runs in \
                 this one"
            ),
        ),
    };
    progress.done(&text);
    Ok(Some(told))
}

/// Returns the id of the agent's container, if it has one.
async fn container_id(engine: &Engine, home: &Home, plan: &Plan) -> Result<Option<String>, Failure> {
    let name = names::sandbox(home, &plan.now.id);
    let client = engine.client()?;
    let what = format!("inspect {name}");
    let found = engine.find(&what, engine::QUICK, client.inspect_container(&name, None)).await?;
    Ok(found.and_then(|found| found.id))
}

fn partial_failure(plan: &Plan, failure: Failure) -> Failure {
    let text = format!("agent {} was changed, but not every change could be put into effect", plan.now.id);
    failure.within(text).or_hint("flock doctor")
}
