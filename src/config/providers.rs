//! The `models` block: custom providers and their models.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::budgets::micros;
use super::view::{Problem, View};

/// The wire format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Api {
    /// OpenAI-compatible chat completions.
    #[serde(rename = "openai-completions")]
    OpenAiCompletions,
    /// OpenAI's Responses API.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// The Responses API in the form that Codex uses.
    #[serde(rename = "openai-codex-responses")]
    OpenAiCodexResponses,
    /// Anthropic's Messages API.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
    /// Google's generateContent.
    #[serde(rename = "google-generative-ai")]
    GoogleGenerativeAi,
    /// Google's API in the form that Gemini CLI uses.
    #[serde(rename = "google-gemini-cli")]
    GoogleGeminiCli,
    /// Amazon Bedrock's Converse API, streamed.
    #[serde(rename = "bedrock-converse-stream")]
    BedrockConverseStream,
}

impl Api {
    /// Returns the name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiCompletions => "openai-completions",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiCodexResponses => "openai-codex-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::GoogleGenerativeAi => "google-generative-ai",
            Self::GoogleGeminiCli => "google-gemini-cli",
            Self::BedrockConverseStream => "bedrock-converse-stream",
        }
    }
}

/// A custom provider: `models.providers.<name>`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSettings {
    /// Base URL. It includes `/v1` for the OpenAI formats, and is the root for Anthropic and Google.
    pub base_url: Option<String>,
    /// The key, or a reference to it: `secret:<name>`, `env:<NAME>` or `${NAME}`.
    pub api_key: Option<String>,
    pub api: Option<Api>,
    pub models: Vec<ModelSettings>,
}

/// A model of a custom provider. `None` in a field leaves what flock knows of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// The provider's name for the model.
    pub id: String,
    /// Largest context in tokens.
    pub context_window: Option<u64>,
    /// Longest answer in tokens.
    pub max_tokens: Option<u64>,
    /// `true` if the model takes images.
    pub images: Option<bool>,
    /// `true` if the model reasons.
    pub reasoning: Option<bool>,
    /// `true` if the API takes tools. With `false` the tools are described to the model in text.
    pub tools: Option<bool>,
    pub cost: Option<ModelCost>,
}

/// Prices of a model, in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCost {
    /// Input that is not cached.
    pub input: u64,
    /// Output, including thinking.
    pub output: u64,
    /// Input read from the provider's cache.
    pub cache_read: u64,
    /// Input written to the provider's cache.
    pub cache_write: u64,
}

/// Reads the region of Amazon Bedrock. OpenClaw looks for Bedrock's models there, and flock asks them there too.
pub(super) fn bedrock_region(models: &View<'_>) -> Result<Option<String>, Problem> {
    let region = models.get("bedrockDiscovery")?.get("region")?;
    region.text_if(is_aws_region, "must be a region of AWS, as in eu-central-1")
}

/// Returns `true` if a text can be a region of AWS. The region becomes part of a host name.
pub(crate) fn is_aws_region(name: &str) -> bool {
    (4..=32).contains(&name.len())
        && name.contains('-')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Reads the custom providers.
pub(super) fn providers(models: &View<'_>) -> Result<BTreeMap<String, ProviderSettings>, Problem> {
    let mut found = BTreeMap::new();
    for (name, entry) in models.get("providers")?.entries()? {
        let mut models = Vec::new();
        for model in entry.get("models")?.items()? {
            let input = model.get("input")?.texts()?;
            models.push(ModelSettings {
                id: model.get("id")?.required_text()?.to_owned(),
                context_window: model.get("contextWindow")?.number()?,
                max_tokens: model.get("maxTokens")?.number()?,
                // No `input` list means that it is not known whether the model takes images.
                images: (!input.is_empty()).then(|| input.iter().any(|kind| kind == "image")),
                reasoning: model.get("reasoning")?.flag()?,
                tools: model.get("compat")?.get("supportsTools")?.flag()?,
                cost: cost(&model.get("cost")?)?,
            });
        }
        let is_web = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        let settings = ProviderSettings {
            base_url: entry.get("baseUrl")?.text_if(is_web, "must be an http or https address")?,
            api_key: entry.get("apiKey")?.text()?,
            api: entry.get("api")?.word("one of the APIs that docs/config.md lists")?,
            models,
        };
        found.insert(name, settings);
    }
    Ok(found)
}

fn cost(view: &View<'_>) -> Result<Option<ModelCost>, Problem> {
    if view.value.is_none() {
        return Ok(None);
    }
    let price = |name: &str| -> Result<u64, Problem> {
        let price = view.get(name)?.convert(micros, "must be dollars per million tokens, as in 2.5")?;
        Ok(price.unwrap_or(0))
    };
    Ok(Some(ModelCost {
        input: price("input")?,
        output: price("output")?,
        cache_read: price("cacheRead")?,
        cache_write: price("cacheWrite")?,
    }))
}
