//! Models as the command line speaks of them: which ones this machine can use, and which agents have one
//! that can't answer yet.

use std::collections::HashSet;

use super::Context;
use crate::config::Config;
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::id::ModelRef;
use crate::provider::catalog::{Catalog, KNOWN};

/// A model that could answer here.
#[derive(Debug)]
pub struct Found {
    /// The model.
    pub model: ModelRef,
    /// Where it was found.
    pub source: String,
    /// Its provider, the variable of the key, and the key.
    pub key: Option<(&'static str, &'static str, String)>,
}

/// The models that were found on this machine, the likeliest first.
pub fn found(_context: &Context) -> Vec<Found> {
    let mut found = Vec::new();
    for endpoint in KNOWN {
        let Some((variable, key)) = endpoint.key.and_then(|var| Some((var.name, var.get()?))) else {
            continue;
        };
        let Some(model) = suggestion(endpoint.id) else { continue };
        found.push(Found {
            model,
            source: format!("{variable} is set"),
            key: Some((endpoint.id, variable, key)),
        });
    }
    found
}

/// The model of a home where nothing else is said.
pub const USUAL: &str = "anthropic/claude-opus-4-5";

/// Says of each model in use that can't be asked what is missing.
pub fn warn_of_unusable(home: &Home, config: &Config, context: &Context) {
    let catalog = Catalog::new(home.clone());
    let mut seen = HashSet::new();
    for model in config.agents.iter().filter_map(|agent| agent.model.as_ref()) {
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

fn suggestion(provider: &str) -> Option<ModelRef> {
    let model = match provider {
        "anthropic" => USUAL,
        "openai" => "openai/gpt-5",
        "openrouter" => "openrouter/anthropic/claude-opus-4-5",
        "mistral" => "mistral/mistral-large-latest",
        "groq" => "groq/llama-3.3-70b-versatile",
        "deepseek" => "deepseek/deepseek-chat",
        "xai" => "xai/grok-4",
        _ => return None,
    };
    model.parse().ok()
}
