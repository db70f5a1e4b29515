//! Derives the model providers for OpenClaw's agents. flock knows their addresses and wire formats and passes them on,
//! so that OpenClaw does not look for models itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::schema::ConfigSchema;
use super::super::{SettingRefusal, agents};
use super::passthrough;
use crate::config::{Agent, Api, Config, ModelCost};
use crate::error::{Explain as _, chain};
use crate::id::ModelRef;
use crate::provider::catalog::{self, ModelConnection};
use crate::provider::{price, wire_format};

/// A provider's API key, named by the environment variable that passes it to OpenClaw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderKey {
    pub provider: String,
    /// For example `FLOCK_PROVIDER_KEY_ANTHROPIC`.
    pub variable: String,
    /// `true` if the provider refuses requests without a key.
    pub needed: bool,
}

/// Returns `models.providers` and the keys that it refers to.
pub(super) fn providers(
    document: &Value,
    config: &Config,
    dialect: &ConfigSchema,
    refusals: &mut Vec<SettingRefusal>,
    dropped: &mut Vec<String>,
) -> (Value, Vec<ProviderKey>) {
    let mut used: Vec<(&Agent, &ModelRef)> = Vec::new();
    for agent in agents(config) {
        for model in agent.models() {
            // Each model is listed once. A refusal names the first agent that uses it.
            if !used.iter().any(|(_, known)| *known == model) {
                used.push((agent, model));
            }
        }
    }
    let mut found: BTreeMap<String, ProviderEntry> = BTreeMap::new();
    for (agent, model) in used {
        match described(agent, model, config, dialect) {
            Ok(described) => {
                let provider = found.entry(model.provider().to_owned()).or_default();
                provider.needs_key |= described.wire.needs_key;
                provider.is_aws = wire_format::of(described.wire.api).uses_aws;
                provider.base_url = base_url(&described.wire);
                provider.api = described.api;
                provider.models.push(entry(&described, document, model, config));
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    let mut taken = BTreeSet::new();
    let mut keys = Vec::new();
    let mut all = Map::new();
    for (name, provider) in found {
        let written = &document["models"]["providers"][&name];
        let at = format!("models.providers.{name}");
        // flock sets these keys itself below, so they are not reported as dropped.
        let read = ["baseUrl", "apiKey", "api", "models"];
        let mut whole = passthrough::pick(written, &passthrough::PROVIDER, &read, &at, dropped);
        drop_env_headers(&mut whole, &at, dropped);
        whole["baseUrl"] = provider.base_url.into();
        whole["api"] = provider.api.into();
        if provider.is_aws {
            // The AWS SDK signs with credentials from AWS's own environment variables, so the document has no key.
            whole["auth"] = "aws-sdk".into();
        } else {
            let variable = variable(&name, &mut taken);
            keys.push(ProviderKey { provider: name.clone(), variable, needed: provider.needs_key });
        }
        whole["models"] = provider.models.into();
        all.insert(name, whole);
    }
    (Value::Object(all), keys)
}

/// A provider, put together from the agents' models that it serves.
#[derive(Default)]
struct ProviderEntry {
    needs_key: bool,
    is_aws: bool,
    base_url: String,
    api: &'static str,
    models: Vec<Value>,
}

/// A model with its connection data and this version's name for its wire format.
struct ModelEndpoint {
    wire: ModelConnection,
    api: &'static str,
}

fn described(
    agent: &Agent,
    model: &ModelRef,
    config: &Config,
    dialect: &ConfigSchema,
) -> Result<ModelEndpoint, SettingRefusal> {
    let at = format!("agents.list[{}].model", agent.id);
    let wire = catalog::wire(model, config).map_err(|error| SettingRefusal {
        at: at.clone(),
        why: format!("can't be {model} on OpenClaw: {}", chain(&error)),
        mend: error.hint().unwrap_or_else(|| format!("flock config get {at}")),
    })?;
    let Some(api) = dialect.api(wire.api) else {
        let name = serde_json::to_value(wire.api).unwrap_or_default();
        return Err(SettingRefusal {
            at,
            why: format!("can't be {model} on OpenClaw: this version of it does not speak {name}"),
            mend: format!("flock config set models.providers.{}.api openai-completions", model.provider()),
        });
    };
    Ok(ModelEndpoint { wire, api })
}

/// Returns the base URL in the form that OpenClaw expects, which differs from flock's in the version suffix for two
/// formats.
fn base_url(wire: &ModelConnection) -> String {
    let url = wire.base_url.as_str();
    match wire.api {
        // OpenClaw adds the version to the address of this format by itself.
        Api::AnthropicMessages => url.strip_suffix("/v1").unwrap_or(url).to_owned(),
        Api::GoogleGenerativeAi if !url.ends_with("/v1beta") && !url.ends_with("/v1") => {
            format!("{url}/v1beta")
        }
        _ => url.to_owned(),
    }
}

fn entry(described: &ModelEndpoint, document: &Value, model: &ModelRef, config: &Config) -> Value {
    let ModelEndpoint { wire, api } = described;
    let cost = price::of(config, model).unwrap_or_default();
    let input = if wire.images { json!(["text", "image"]) } else { json!(["text"]) };
    let mut entry = json!({
        "id": model.model(),
        "name": model.model(),
        "api": api,
        "reasoning": wire.reasoning,
        "input": input,
        "cost": dollars(cost),
        "contextWindow": wire.context_window,
        "maxTokens": wire.max_tokens,
    });
    let listed = &document["models"]["providers"][model.provider()]["models"];
    let own = listed.as_array().into_iter().flatten().find(|own| own["id"] == model.model());
    // `compat` holds OpenClaw's own switches for the quirks of a provider. flock has no equivalent and passes it on.
    if let Some(compat) = own.map(|own| &own["compat"]).filter(|compat| compat.is_object()) {
        entry["compat"] = compat.clone();
    }
    entry
}

/// Converts a price to dollars per million tokens.
fn dollars(cost: ModelCost) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "prices are far below 2^53 millionths")]
    let dollars = |micros: u64| micros as f64 / 1e6;
    json!({
        "input": dollars(cost.input),
        "output": dollars(cost.output),
        "cacheRead": dollars(cost.cache_read),
        "cacheWrite": dollars(cost.cache_write),
    })
}

/// Removes headers that refer to an environment variable, because OpenClaw's process does not have that variable.
fn drop_env_headers(provider: &mut Value, at: &str, dropped: &mut Vec<String>) {
    let Some(headers) = provider.get_mut("headers").and_then(Value::as_object_mut) else { return };
    headers.retain(|name, value| {
        // Other values than texts can't be headers.
        let kept = value.as_str().is_some_and(|value| !value.contains("${"));
        if !kept {
            dropped.push(format!("{at}.headers.{name}"));
        }
        kept
    });
}

/// Returns a unique environment variable name for a provider's key. A `_` is appended if two providers map to the same
/// name, which happens when they differ only in characters that are not letters or digits.
fn variable(provider: &str, taken: &mut BTreeSet<String>) -> String {
    let plain: String = provider
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    let mut name = format!("FLOCK_PROVIDER_KEY_{plain}");
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}
