//! The state of the container engine and of what this home has in it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::team;
use super::collect::{TIMEOUT, known};
use super::report::DockerReport;
use crate::config::Config;
use crate::error::{Explain as _, chain, to_mend};
use crate::gateway::engines::{self, KnownPlaces};
use crate::home::Home;
use crate::id::{AgentId, EngineName};
use crate::sandbox::engine::Engine;
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::{containers, names};

/// The most agents that one line names.
pub(super) const MOST_NAMED_AGENTS: usize = 8;

/// Returns the first of some agents, with the number of the others, as in `ada, bob and 3 more`.
pub(super) fn first_of<T: AsRef<str>>(agents: &[T]) -> String {
    let named: Vec<&str> = agents.iter().take(MOST_NAMED_AGENTS).map(AsRef::as_ref).collect();
    match agents.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Returns the state of the engine as the gateway reported it.
pub(crate) fn from_gateway(said: &Value) -> EngineReport {
    EngineReport {
        docker: DockerReport {
            reachable: said["docker"]["reachable"].as_bool().or(Some(true)),
            problem: said["docker"]["problem"].as_str().map(str::to_owned),
            hint: said["docker"]["hint"].as_str().map(str::to_owned),
        },
        containers: known(said, "containers"),
        images: known(said, "images"),
        store: known(said, "store"),
    }
}

/// Asks the engines themselves if no gateway runs. `None` if only the machine's own is there.
/// `placed` is the engine of each agent.
pub(crate) async fn others(
    home: &Home,
    config: Option<&Config>,
    placed: &BTreeMap<AgentId, EngineName>,
) -> Option<Value> {
    let config = config.filter(|config| !config.engines.is_empty())?;
    let asked = team::engines_with(home, config, placed.clone()).ask().await;
    let known = KnownPlaces { placed: placed.clone(), ..KnownPlaces::default() };
    Some(json!(engines::views(config, asked, &known)))
}

/// Returns a warning for each engine that does not answer, with the agents that can't work because of it. The machine's own
/// has a line of its own.
pub(crate) fn warnings(engines: Option<&Value>) -> Vec<String> {
    let engines = engines.and_then(Value::as_array).into_iter().flatten();
    let silent = engines.filter(|engine| engine["reachable"] == false && engine["name"] != "local");
    let warning = |engine: &Value| {
        let agents = engine["agents"].as_array().into_iter().flatten();
        let agents: Vec<&str> = agents.filter_map(|agent| agent["id"].as_str()).collect();
        let stuck = match agents.is_empty() {
            true => String::new(),
            false => format!("; these agents can run no command until it does: {}", first_of(&agents)),
        };
        let problem = format!("{}{stuck}", engine["problem"].as_str().unwrap_or_default());
        to_mend(&problem, engine["hint"].as_str())
    };
    silent.map(warning).collect()
}

/// Asks the engine itself if no gateway runs.
pub(crate) async fn ask(home: &Home, config: Option<&Config>) -> EngineReport {
    let engine = Engine::from_env();
    let listed = match tokio::time::timeout(TIMEOUT, containers::list(&engine, home)).await {
        Ok(listed) => listed,
        Err(_) => Err(engine.silent("list containers", TIMEOUT)),
    };
    let found = match listed {
        Ok(found) => found,
        Err(error) => {
            let docker =
                DockerReport { reachable: Some(false), problem: Some(chain(&error)), hint: error.hint() };
            return EngineReport { docker, ..EngineReport::default() };
        }
    };
    let mut images = Vec::new();
    for recipe in config.iter().flat_map(|_| Recipe::ALL) {
        let reference = config.map(|config| image::reference(home, config, recipe)).unwrap_or_default();
        let present = tokio::time::timeout(TIMEOUT, image::id(&engine, &reference)).await;
        let present = present.ok().and_then(Result::ok).map(|id| id.is_some());
        images.push(json!({"image": reference, "present": present}));
    }
    let store = names::store(home);
    let state = found.iter().find(|one| one.name == store).map_or("absent", |one| one.state.as_str());
    let store = json!({"container": store, "state": state, "volume": names::store_volume(home), "builds": crate::nix_store::confinement()});
    let describe = |one: &containers::Container| {
        json!({
            "name": one.name,
            "agent": one.agent,
            "state": one.state,
            "status": one.status,
            "createdAt": one.created_at,
            "runtime": one.runtime,
            // Only the gateway keeps the results of probes.
            "probe": null,
        })
    };
    EngineReport {
        docker: DockerReport { reachable: Some(true), ..DockerReport::default() },
        containers: Some(found.iter().map(describe).collect::<Vec<_>>().into()),
        images: Some(images.into()),
        store: Some(store),
    }
}

/// The state of the engine and of what this home has in it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct EngineReport {
    pub docker: DockerReport,
    /// The containers of this home, or `None` if neither the gateway nor the engine answered.
    pub containers: Option<Value>,
    pub images: Option<Value>,
    pub store: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_of_a_silent_engine_names_the_first_of_many_agents() {
        let warning = |count: usize| {
            let agents: Vec<Value> = (0..count).map(|number| json!({"id": format!("a{number}")})).collect();
            let engines = json!([
                {"name": "far", "reachable": false, "problem": "far is silent", "hint": null, "agents": agents},
                {"name": "near", "reachable": true, "agents": [{"id": "ada"}]},
            ]);
            warnings(Some(&engines))
        };
        let stuck = "far is silent; these agents can run no command until it does: ";
        assert_eq!(warning(0), ["far is silent"]);
        assert_eq!(warning(2), [format!("{stuck}a0, a1")]);
        assert_eq!(warning(8), [format!("{stuck}a0, a1, a2, a3, a4, a5, a6, a7")]);
        assert_eq!(warning(10), [format!("{stuck}a0, a1, a2, a3, a4, a5, a6, a7 and 2 more")]);
    }
}
