//! The providers flock knows by id: where they answer, in which format, and which variable holds a key.

use crate::config::Api;
use crate::env::{self, Var};

/// A provider with a public address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endpoint {
    /// Its id, the first part of a model's name.
    pub id: &'static str,
    /// Its wire format.
    pub api: Api,
    /// Where it answers; the configuration can say otherwise.
    pub base_url: &'static str,
    /// The variable its key is found in; `None` where it needs no key.
    pub key: Option<Var>,
    /// Tokens its models take, where the configuration does not say.
    pub context_window: u64,
    /// Tokens to let its models answer with, where neither the configuration nor the model's name says.
    pub max_tokens: u32,
    /// Whether its models take images, where the configuration does not say.
    pub images: bool,
}

const fn openai_like(id: &'static str, base_url: &'static str, key: Option<Var>) -> Endpoint {
    Endpoint {
        id,
        api: Api::OpenAiCompletions,
        base_url,
        key,
        context_window: 128_000,
        max_tokens: 8_192,
        images: false,
    }
}

/// All of them.
pub const KNOWN: &[Endpoint] = &[
    Endpoint {
        id: "anthropic",
        api: Api::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        key: Some(env::ANTHROPIC_API_KEY),
        context_window: 200_000,
        max_tokens: 32_000,
        images: true,
    },
    Endpoint {
        max_tokens: 16_384,
        images: true,
        ..openai_like("openai", "https://api.openai.com/v1", Some(env::OPENAI_API_KEY))
    },
    openai_like("openrouter", "https://openrouter.ai/api/v1", Some(env::OPENROUTER_API_KEY)),
    openai_like("mistral", "https://api.mistral.ai/v1", Some(env::MISTRAL_API_KEY)),
    openai_like("groq", "https://api.groq.com/openai/v1", Some(env::GROQ_API_KEY)),
    Endpoint {
        context_window: 64_000,
        ..openai_like("deepseek", "https://api.deepseek.com/v1", Some(env::DEEPSEEK_API_KEY))
    },
    openai_like("xai", "https://api.x.ai/v1", Some(env::XAI_API_KEY)),
    Endpoint {
        api: Api::GoogleGenerativeAi,
        context_window: 1_000_000,
        images: true,
        ..openai_like("google", "https://generativelanguage.googleapis.com", Some(env::GEMINI_API_KEY))
    },
    Endpoint {
        context_window: 32_768,
        max_tokens: 4_096,
        ..openai_like("ollama", "http://127.0.0.1:11434/v1", None)
    },
];

/// The provider with this id.
#[must_use]
pub fn known(id: &str) -> Option<&'static Endpoint> {
    KNOWN.iter().find(|endpoint| endpoint.id == id)
}

impl Endpoint {
    /// Tokens to let this model answer with, where the configuration does not say. A provider refuses a
    /// request for more than its model can give, and older models gave less.
    #[must_use]
    pub fn max_tokens_of(&self, model: &str) -> u32 {
        let older =
            [("claude-3-7", 32_000), ("claude-3-5", 8_192), ("claude-3", 4_096), ("gpt-4-turbo", 4_096)];
        older.iter().find(|(name, _)| model.starts_with(name)).map_or(self.max_tokens, |(_, tokens)| *tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_can_be_asked() {
        for endpoint in KNOWN {
            let url: reqwest::Url = endpoint.base_url.parse().unwrap();
            assert_eq!(url.scheme() == "https", endpoint.key.is_some(), "{}", endpoint.id);
            assert!(u64::from(endpoint.max_tokens) < endpoint.context_window);
            assert_eq!(KNOWN.iter().filter(|other| other.id == endpoint.id).count(), 1);
        }
    }

    #[test]
    fn older_models_answer_with_less() {
        let anthropic = known("anthropic").unwrap();
        assert_eq!(anthropic.max_tokens_of("claude-opus-4-5"), 32_000);
        assert_eq!(anthropic.max_tokens_of("claude-3-5-haiku-latest"), 8_192);
        assert_eq!(anthropic.max_tokens_of("claude-3-haiku-20240307"), 4_096);
    }
}
