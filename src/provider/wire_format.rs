//! The descriptors of the wire formats. Everything that depends on the format alone is in its descriptor.
//!
//! To add a format, add its name to [`Api`], a folder with its `FORMAT`, and its line in the table below.

use std::sync::Arc;

use reqwest::Url;

use super::Provider;
use super::http::HttpClients;
use super::key::ApiKey;
use super::relay_format::RelayFormat;
use crate::config::Api;

/// The descriptor of a wire format.
pub struct WireFormat {
    pub(super) client: Result<NewClient, UnsupportedFormat>,
    /// `true` if requests are signed with AWS keys, and the public address depends on the AWS region.
    pub uses_aws: bool,
    /// The rules for a conversation in this format.
    pub conversation: ConversationRules,
    /// The format of requests that agent programs send through the relay. `None` if such requests cannot be forwarded.
    pub relay: Option<&'static RelayFormat>,
}

/// Creates a client for a provider's id, its address, its key and an AWS region.
pub(super) type NewClient =
    fn(Arc<HttpClients>, &str, &Url, Option<&ApiKey>, Option<&str>) -> Arc<dyn Provider>;

/// The explanation for a wire format that flock does not speak.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsupportedFormat {
    pub(super) reason: &'static str,
    /// The format in which the same models can be asked.
    pub(super) instead: Api,
}

/// The rules for a conversation. `agent::transcript::hygiene` applies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationRules {
    Completions,
    Responses,
    CodexResponses,
    Messages,
    Google,
    Converse,
}

macro_rules! formats {
    ($($api:ident => $format:path,)*) => {
        /// All wire formats.
        pub(crate) static FORMATS: &[&WireFormat] = &[$(&$format),*];

        /// Returns the descriptor of a wire format.
        #[must_use]
        pub fn of(api: Api) -> &'static WireFormat {
            match api {
                $(Api::$api => &$format,)*
            }
        }
    };
}

formats! {
    AnthropicMessages => super::anthropic::FORMAT,
    OpenAiResponses => super::responses::FORMAT,
    OpenAiCodexResponses => super::responses::CODEX,
    GoogleGenerativeAi => super::google::FORMAT,
    GoogleGeminiCli => super::google::GEMINI_CLI,
    OpenAiCompletions => super::openai::FORMAT,
    BedrockConverseStream => super::bedrock::FORMAT,
}
