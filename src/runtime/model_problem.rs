//! The problem of an agent whose model can't be asked: no model, no provider, or no key. Nothing is sent to a provider.

use serde::Serialize;

use crate::config::{Agent, Config};
use crate::error::{Explain as _, chain};
use crate::id::ModelRef;
use crate::provider::Catalog;
use crate::runtime::program;

/// The reason for which a model can't be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ModelProblem {
    pub message: String,
    /// The command that mends it, or advice.
    pub hint: Option<String>,
}

/// Returns `true` if an agent needs no provider in this home: its program runs on the host and may have its own login.
#[must_use]
pub(crate) fn has_own_login(agent: &Agent) -> bool {
    agent.runs_on_host() && program::named(&agent.runtime).is_some()
}

/// Returns the reason for which an agent can't work: it has no model, or its first model can't be asked. A fallback
/// answers only for a model that was asked.
#[must_use]
pub(crate) fn of_agent(agent: &Agent, config: &Config, catalog: &Catalog) -> Option<ModelProblem> {
    if has_own_login(agent) {
        return None;
    }
    match &agent.model {
        Some(model) => of_model(model, config, catalog),
        None => Some(ModelProblem {
            message: "it has no model".to_owned(),
            hint: Some(format!("flock config set agents.list[{}].model.primary PROVIDER/MODEL", agent.id)),
        }),
    }
}

/// Returns the reason for which one of an agent's fallbacks can't be asked.
#[must_use]
pub(crate) fn of_fallbacks(agent: &Agent, config: &Config, catalog: &Catalog) -> Option<ModelProblem> {
    if has_own_login(agent) {
        return None;
    }
    agent.models().skip(1).find_map(|model| of_model(model, config, catalog))
}

fn of_model(model: &ModelRef, config: &Config, catalog: &Catalog) -> Option<ModelProblem> {
    let error = catalog.describe(model, config).err()?;
    Some(ModelProblem { message: chain(&error), hint: error.hint() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::parse;
    use crate::home::Home;

    fn config(home: &Home, agent: serde_json::Value) -> Config {
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "agents": {"list": [agent]},
            "plugins": {"entries": {"flock": {"config": {
                "gatewayAgents": [{"id": "coder", "role": "worker"}],
            }}}},
        });
        parse::config(&document, home).unwrap()
    }

    #[test]
    fn an_agent_without_a_key_or_a_model_has_a_problem_and_the_command_that_mends_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let catalog = Catalog::new(home.clone());
        let found = |agent: serde_json::Value| {
            let config = config(&home, agent);
            of_agent(&config.agents[0], &config, &catalog)
        };
        // No provider with this name is in any environment.
        let keyless = found(json!({"id": "coder", "model": {"primary": "nowhere/m"}})).unwrap();
        assert!(keyless.message.contains("nowhere"), "{keyless:?}");
        assert!(keyless.hint.unwrap().starts_with("flock config set models.providers.nowhere."));
        let none = found(json!({"id": "coder"})).unwrap();
        assert_eq!(none.message, "it has no model");
        assert_eq!(found(json!({"id": "coder", "model": {"primary": "script/demo"}})), None);
    }

    #[test]
    fn a_fallback_that_can_not_be_asked_does_not_stop_an_agent() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let catalog = Catalog::new(home.clone());
        let models = json!({"primary": "script/demo", "fallbacks": ["nowhere/m"]});
        let config = config(&home, json!({"id": "coder", "model": models}));
        assert_eq!(of_agent(&config.agents[0], &config, &catalog), None);
        assert!(of_fallbacks(&config.agents[0], &config, &catalog).is_some());
    }
}
