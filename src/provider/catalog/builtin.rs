//! The built-in providers: their addresses, wire formats and environment variables for keys.

use std::borrow::Cow;

use super::super::bedrock;
use super::super::openai::effort;
use super::super::wire_format;
use crate::config::Api;
use crate::env::{self, Var};

/// A built-in provider with a public address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuiltinProvider {
    /// The provider's id, which is the first part of a model's name.
    pub id: &'static str,
    /// The wire format.
    pub api: Api,
    /// The public address. The configuration can override it.
    pub base_url: &'static str,
    /// Environment variables that may hold the key, in order of preference. Empty if no key is needed.
    pub keys: &'static [Var],
    /// Context window in tokens, unless the configuration or the model list has one.
    pub context_window: u64,
    /// Maximum tokens of an answer, unless the configuration or the model list has a limit.
    pub max_tokens: u32,
    /// `true` if the models accept pictures, unless the configuration or the model list says otherwise.
    pub images: bool,
}

const fn openai_compatible(
    id: &'static str,
    base_url: &'static str,
    keys: &'static [Var],
) -> BuiltinProvider {
    BuiltinProvider {
        id,
        api: Api::OpenAiCompletions,
        base_url,
        keys,
        context_window: 128_000,
        max_tokens: 8_192,
        images: false,
    }
}

/// All built-in providers.
pub(crate) const KNOWN: &[BuiltinProvider] = &[
    BuiltinProvider {
        id: "anthropic",
        api: Api::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        keys: &[env::ANTHROPIC_API_KEY],
        context_window: 200_000,
        max_tokens: 32_000,
        images: true,
    },
    BuiltinProvider {
        max_tokens: 16_384,
        images: true,
        ..openai_compatible("openai", "https://api.openai.com/v1", &[env::OPENAI_API_KEY])
    },
    openai_compatible("openrouter", "https://openrouter.ai/api/v1", &[env::OPENROUTER_API_KEY]),
    openai_compatible("mistral", "https://api.mistral.ai/v1", &[env::MISTRAL_API_KEY]),
    BuiltinProvider {
        api: Api::AnthropicMessages,
        context_window: 204_800,
        // Asked in Anthropic's format, with some rules of its own (see `anthropic::thinking`).
        ..openai_compatible("minimax", "https://api.minimax.io/anthropic", &[env::MINIMAX_API_KEY])
    },
    BuiltinProvider {
        api: Api::BedrockConverseStream,
        context_window: 200_000,
        images: true,
        ..openai_compatible(
            "amazon-bedrock",
            // `public_address` replaces the region.
            "https://bedrock-runtime.us-east-1.amazonaws.com",
            &[env::AWS_BEARER_TOKEN_BEDROCK],
        )
    },
    openai_compatible("groq", "https://api.groq.com/openai/v1", &[env::GROQ_API_KEY]),
    BuiltinProvider {
        context_window: 64_000,
        ..openai_compatible("deepseek", "https://api.deepseek.com/v1", &[env::DEEPSEEK_API_KEY])
    },
    openai_compatible("xai", "https://api.x.ai/v1", &[env::XAI_API_KEY]),
    BuiltinProvider {
        api: Api::GoogleGenerativeAi,
        context_window: 1_048_576,
        max_tokens: 32_768,
        images: true,
        ..openai_compatible(
            "google",
            "https://generativelanguage.googleapis.com",
            &[env::GEMINI_API_KEY, env::GOOGLE_API_KEY],
        )
    },
    BuiltinProvider {
        context_window: 32_768,
        max_tokens: 4_096,
        // Runs on this machine and needs no key.
        ..openai_compatible("ollama", "http://127.0.0.1:11434/v1", &[])
    },
];

/// Returns the built-in provider with this id.
#[must_use]
pub fn known(id: &str) -> Option<&'static BuiltinProvider> {
    KNOWN.iter().find(|endpoint| endpoint.id == id)
}

impl BuiltinProvider {
    /// Returns the public address. For Bedrock it is the one in this region, or in the environment's region.
    #[must_use]
    pub(crate) fn public_address(&self, region: Option<&str>) -> Cow<'static, str> {
        if wire_format::of(self.api).uses_aws {
            bedrock::public_address(region).into()
        } else {
            self.base_url.into()
        }
    }

    /// Returns the wire format for this model at this address, for use if the configuration has none.
    ///
    /// OpenAI's reasoning models use the Responses API at OpenAI's own address. With the Completions API they lose
    /// their reasoning between calls, the newer ones refuse tools, and some models are missing.
    #[must_use]
    pub(crate) fn api_for(&self, model: &str, base_url: &reqwest::Url) -> Api {
        // A server at another address need not have the Responses API.
        let own = self.id == "openai" && base_url.host_str() == Some("api.openai.com");
        if own && effort::reasons(model) { Api::OpenAiResponses } else { self.api }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_providers_have_valid_and_unique_endpoints() {
        for endpoint in KNOWN {
            let url: reqwest::Url = endpoint.base_url.parse().unwrap();
            assert_eq!(url.scheme() == "https", !endpoint.keys.is_empty(), "{}", endpoint.id);
            assert!(u64::from(endpoint.max_tokens) < endpoint.context_window);
            assert_eq!(KNOWN.iter().filter(|other| other.id == endpoint.id).count(), 1);
        }
    }

    #[test]
    fn openai_reasoning_models_use_responses_at_the_official_address() {
        let openai = known("openai").unwrap();
        let own: reqwest::Url = openai.base_url.parse().unwrap();
        let other: reqwest::Url = "http://127.0.0.1:8000/v1".parse().unwrap();
        assert_eq!(openai.api_for("gpt-5.2", &own), Api::OpenAiResponses);
        assert_eq!(openai.api_for("gpt-4o", &own), Api::OpenAiCompletions);
        assert_eq!(openai.api_for("gpt-5.2", &other), Api::OpenAiCompletions);
        let google = known("google").unwrap();
        assert_eq!(google.api_for("gemini-3-pro", &other), Api::GoogleGenerativeAi);
    }
}
