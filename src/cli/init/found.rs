//! What this machine offers a new home: keys in the environment, servers of models on loopback. Only 127.0.0.1 is
//! asked, and no key leaves the process.

use std::time::Duration;

use serde::Deserialize;

use crate::env;
use crate::id::ModelRef;
use crate::provider::catalog::KNOWN;
use crate::supervise::loopback::Client;

/// The model of a home where nothing else is said.
pub const USUAL: &str = "anthropic/claude-opus-4-5";

/// A model that could answer here.
#[derive(Debug)]
pub struct Found {
    /// The model.
    pub model: ModelRef,
    /// Where it was found.
    pub source: String,
    /// The key that was found for it.
    pub key: Option<Key>,
    /// Its provider's base URL, where flock does not know it by itself.
    pub base_url: Option<String>,
}

/// A key in the environment.
#[derive(Debug)]
pub struct Key {
    /// Whose it is.
    pub provider: &'static str,
    /// The variable that holds it.
    pub variable: &'static str,
    /// The key.
    pub value: String,
}

/// The models that were found, the likeliest first.
pub async fn models() -> Vec<Found> {
    let mut found: Vec<Found> = KNOWN.iter().filter_map(by_key).collect();
    for server in servers() {
        found.extend(ask(&server).await);
    }
    found
}

fn by_key(endpoint: &crate::provider::catalog::Endpoint) -> Option<Found> {
    let (variable, value) = endpoint.keys.iter().find_map(|variable| Some((*variable, variable.get()?)))?;
    Some(Found {
        model: suggestion(endpoint.id)?,
        source: format!("{} is set", variable.name),
        key: Some(Key { provider: endpoint.id, variable: variable.name, value }),
        base_url: None,
    })
}

/// A model of a provider to begin with.
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

/// A place on loopback where a server of models usually listens.
struct Server {
    title: &'static str,
    /// The provider's id; flock knows the address of `ollama` by itself.
    provider: &'static str,
    port: u16,
}

fn servers() -> Vec<Server> {
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

async fn ask(server: &Server) -> Vec<Found> {
    let client = Client::new(server.port);
    // Whatever listens there may be something else altogether: no answer in time is no server of models.
    let Ok(models) = client.get_json::<Models>("/v1/models", PATIENCE).await else { return Vec::new() };
    let own_address = server.provider == "ollama" && server.port == OLLAMA;
    models
        .data
        .iter()
        .filter_map(|model| format!("{}/{}", server.provider, model.id).parse().ok())
        .take(MOST)
        .map(|model| Found {
            model,
            source: format!("{} at {}", server.title, client.address()),
            key: None,
            base_url: (!own_address).then(|| format!("http://{}/v1", client.address())),
        })
        .collect()
}

const OLLAMA: u16 = 11434;
const PATIENCE: Duration = Duration::from_millis(500);
const MOST: usize = 8;
