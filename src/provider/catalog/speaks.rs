//! The wire formats that are spoken, and what is said of those that are not.

use crate::config::Api;

/// A wire format that is spoken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Speaks {
    Messages,
    Completions,
    Responses,
    Codex,
    Google,
    Converse,
}

/// One that is not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unspoken {
    /// It takes a sign-in with Google's own program, not a key.
    GeminiCli,
}

impl Speaks {
    pub(super) const fn of(api: Api) -> Result<Self, Unspoken> {
        Ok(match api {
            Api::AnthropicMessages => Self::Messages,
            Api::OpenAiCompletions => Self::Completions,
            Api::OpenAiResponses => Self::Responses,
            Api::OpenAiCodexResponses => Self::Codex,
            Api::GoogleGenerativeAi => Self::Google,
            Api::GoogleGeminiCli => return Err(Unspoken::GeminiCli),
            Api::BedrockConverseStream => Self::Converse,
        })
    }
}

impl Unspoken {
    /// Why it is not spoken, and the command that mends it.
    pub(super) fn explain(self, provider: &str) -> (String, String) {
        match self {
            Self::GeminiCli => (
                "google-gemini-cli is not spoken: it takes a sign-in with Google, which flock does not do. \
                 With a key of the Gemini API its models answer as google-generative-ai"
                    .to_owned(),
                format!("flock config set models.providers.{provider}.api google-generative-ai"),
            ),
        }
    }
}
