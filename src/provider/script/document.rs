//! The format of a script file.

use serde::Deserialize;
use serde_json::Value;

use super::super::{StopReason, Usage};

/// A written conversation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptDocument {
    /// Purpose of the script, for people who read the file.
    #[serde(default)]
    pub about: String,
    /// Possible replies. The first one that matches a message is played.
    pub replies: Vec<ScriptedReply>,
}

impl ScriptDocument {
    /// Parses a script.
    ///
    /// # Errors
    ///
    /// Returns a text with the error and its line.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }
}

/// The reply to a message: one step for each time the model is asked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedReply {
    /// Text that the person's last message must contain, ignoring case. Without it, any message matches.
    pub when: Option<String>,
    pub steps: Vec<ScriptedStep>,
}

/// One answer of the simulated model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedStep {
    /// Milliseconds before the answer starts.
    pub delay_ms: u64,
    /// Milliseconds before each piece of the text.
    pub pace_ms: u64,
    /// Text of the reasoning.
    pub think: String,
    /// Text of the answer.
    pub say: String,
    pub calls: Vec<ScriptedCall>,
    /// Failure after the text, if there is one.
    pub error: Option<ScriptedFailure>,
    /// Stop reason. The default is `toolUse` with calls, else `end`.
    pub stop: Option<StopReason>,
    /// Simulated token counts.
    pub usage: Usage,
}

/// A tool call in a script.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments. A string simulates broken JSON.
    #[serde(default)]
    pub arguments: Value,
}

/// A simulated failure of the provider.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptedFailure {
    /// HTTP status. Without one the connection breaks off.
    pub status: Option<u16>,
    /// The provider's error text.
    #[serde(default)]
    pub message: String,
    /// Milliseconds after which the provider accepts the next request.
    pub retry_after_ms: Option<u64>,
}
