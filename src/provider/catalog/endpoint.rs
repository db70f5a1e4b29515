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
    /// Tokens to let its models answer with, where the configuration does not say.
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
        max_tokens: 8_192,
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
