//! The wire formats that flock speaks, and explanations for those that it does not.

use crate::config::Api;

/// A wire format that flock speaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum WireFormat {
    Messages,
    Completions,
    Responses,
    Codex,
    Google,
    Converse,
}

/// A wire format that flock does not speak.
#[derive(Clone, Copy, Debug)]
pub(super) enum UnsupportedFormat {
    /// Requires a sign-in with Google's own program instead of a key.
    GeminiCli,
}

impl WireFormat {
    pub(super) const fn of(api: Api) -> Result<Self, UnsupportedFormat> {
        Ok(match api {
            Api::AnthropicMessages => Self::Messages,
            Api::OpenAiCompletions => Self::Completions,
            Api::OpenAiResponses => Self::Responses,
            Api::OpenAiCodexResponses => Self::Codex,
            Api::GoogleGenerativeAi => Self::Google,
            Api::GoogleGeminiCli => return Err(UnsupportedFormat::GeminiCli),
            Api::BedrockConverseStream => Self::Converse,
        })
    }
}

impl UnsupportedFormat {
    /// Returns the reason why it is not spoken, and the command that solves it.
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
