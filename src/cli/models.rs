//! Warnings about models in use that can't answer yet.

use std::collections::HashSet;

use super::{Context, programs};
use crate::config::{Agent, Config};
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::id::ModelRef;
use crate::provider::catalog::{Catalog, known_models};

/// Warns of each model in use that can't be asked, with what is missing, and of each unknown name of a model.
pub(crate) fn warn_of_unusable(home: &Home, config: &Config, context: &Context) {
    let catalog = Catalog::new(home.clone());
    let mut seen = HashSet::new();
    // An agent program on the host may have its own login and needs no provider here.
    let asked = config.agents.iter().filter(|agent| !programs::has_own_login(agent));
    for model in asked.flat_map(Agent::models) {
        if !seen.insert(model) {
            continue;
        }
        if let Err(error) = catalog.describe(model, config) {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            context.printer.warn(&format!("{}{hint}", chain(&error)));
        } else if is_strange(model, config) {
            let provider = model.provider();
            context.printer.warn(&format!(
                "{model} is none of the models of {provider} that flock knows: check its name, or describe it in \
                 models.providers.{provider}.models"
            ));
        }
    }
    if config.agents.iter().any(|agent| agent.model.is_none()) {
        context.printer.warn(
            "some agents have no model; run flock config set agents.defaults.model.primary PROVIDER/MODEL",
        );
    }
}

fn is_strange(model: &ModelRef, config: &Config) -> bool {
    let own = config.providers.get(model.provider());
    // A provider with another base URL may serve other models, so its names are not checked.
    let is_own =
        own.is_some_and(|own| own.base_url.is_some() || own.models.iter().any(|one| one.id == model.model()));
    !is_own && known_models::is_strange(model)
}
