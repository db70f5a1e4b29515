//! Which agents have a model that can't answer yet.

use std::collections::HashSet;

use super::Context;
use crate::config::{Agent, Config};
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::provider::catalog::Catalog;

/// Says of each model in use that can't be asked what is missing.
pub fn warn_of_unusable(home: &Home, config: &Config, context: &Context) {
    let catalog = Catalog::new(home.clone());
    let mut seen = HashSet::new();
    for model in config.agents.iter().flat_map(Agent::models) {
        if !seen.insert(model) {
            continue;
        }
        if let Err(error) = catalog.describe(model, config) {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            context.printer.warn(&format!("{}{hint}", chain(&error)));
        }
    }
    if config.agents.iter().any(|agent| agent.model.is_none()) {
        context.printer.warn(
            "some agents have no model; run flock config set agents.defaults.model.primary PROVIDER/MODEL",
        );
    }
}
