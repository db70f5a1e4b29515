//! Detection of usable models on this machine: keys in the environment, and model servers on loopback.
//!
//! Only 127.0.0.1 is asked, and no key leaves the process.

use std::time::Duration;

use serde::Deserialize;

use crate::env;
use crate::id::ModelRef;
use crate::provider::catalog::KNOWN;
use crate::supervise::gateway_client::Client;

/// The model of a new home if nothing else is known.
pub(crate) const USUAL: &str = "anthropic/claude-opus-4-5";

/// A model that could answer on this machine.
#[derive(Debug)]
pub(crate) struct DetectedModel {
    pub model: ModelRef,
    /// The place where it was found, as a text for people.
    pub source: String,
    /// The key that belongs to it, if one was found.
    pub key: Option<DetectedKey>,
    /// The base URL of its provider, if flock does not know it.
    pub base_url: Option<String>,
}

/// A key from the environment.
#[derive(Debug)]
pub(crate) struct DetectedKey {
    /// The provider that the key belongs to.
    pub provider: &'static str,
    /// The environment variable that holds the key.
    pub variable: &'static str,
    pub value: String,
}

/// Returns the models that were found, the most likely one first.
pub(crate) async fn models() -> Vec<DetectedModel> {
    let mut found: Vec<DetectedModel> = KNOWN.iter().filter_map(by_key).collect();
    for server in servers() {
        found.extend(query_server(&server).await);
    }
    found
}

fn by_key(endpoint: &crate::provider::catalog::BuiltinProvider) -> Option<DetectedModel> {
    let (variable, value) = endpoint.keys.iter().find_map(|variable| Some((*variable, variable.get()?)))?;
    Some(DetectedModel {
        model: suggestion(endpoint.id)?,
        source: format!("{} is set", variable.name),
        key: Some(DetectedKey { provider: endpoint.id, variable: variable.name, value }),
        base_url: None,
    })
}

/// Returns a model to start with for a provider, or `None` if flock suggests none.
fn suggestion(provider: &str) -> Option<ModelRef> {
    let model = match provider {
        "anthropic" => USUAL,
        "openai" => "openai/gpt-5",
        "openrouter" => "openrouter/anthropic/claude-opus-4.5",
        "mistral" => "mistral/mistral-large-latest",
        "groq" => "groq/llama-3.3-70b-versatile",
        "deepseek" => "deepseek/deepseek-chat",
        "xai" => "xai/grok-4",
        "google" => "google/gemini-2.5-pro",
        _ => return None,
    };
    model.parse().ok()
}

/// A place on loopback where a model server usually listens.
struct Server {
    title: &'static str,
    /// The provider's id. Of these flock knows only the address of `ollama`.
    provider: &'static str,
    port: u16,
}

fn servers() -> Vec<Server> {
    // OLLAMA_HOST may be `host:port`. Only its port is used, since only loopback is asked.
    let ollama = env::OLLAMA_HOST.get().and_then(|host| host.rsplit(':').next()?.parse().ok());
    vec![
        Server { title: "Ollama", provider: "ollama", port: ollama.unwrap_or(OLLAMA) },
        Server { title: "LM Studio", provider: "lmstudio", port: 1234 },
        Server { title: "vLLM", provider: "vllm", port: 8000 },
        Server { title: "llama.cpp", provider: "llamacpp", port: 8080 },
    ]
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

async fn query_server(server: &Server) -> Vec<DetectedModel> {
    let client = Client::new(server.port);
    // Any other program may listen on that port. Without an answer in time it counts as no model server.
    let Ok(models) = client.get_json::<Models>("/v1/models", TIMEOUT).await else { return Vec::new() };
    let own_address = server.provider == "ollama" && server.port == OLLAMA;
    models
        .data
        .iter()
        .filter_map(|model| format!("{}/{}", server.provider, model.id).parse().ok())
        .take(MAX_MODELS)
        .map(|model| DetectedModel {
            model,
            source: format!("{} at {}", server.title, client.address()),
            key: None,
            base_url: (!own_address).then(|| format!("http://{}/v1", client.address())),
        })
        .collect()
}

const OLLAMA: u16 = 11434;
const TIMEOUT: Duration = Duration::from_millis(500);
const MAX_MODELS: usize = 8;
