//! A script's file, as it is written.

use serde::Deserialize;
use serde_json::Value;

use super::super::{StopReason, Usage};

/// A written conversation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// What the script is for; nobody reads it but people.
    #[serde(default)]
    pub about: String,
    /// What it can answer; the first one that fits a message is played.
    pub replies: Vec<Reply>,
}

impl Document {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// What is wrong and on which line.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }
}

/// The answer to a message: one step for each time the model is asked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// A part of the person's last message, upper and lower case being the same; without it, any message.
    #[serde(default)]
    pub when: Option<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One answer of the pretended model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Milliseconds before anything comes.
    pub delay_ms: u64,
    /// Milliseconds before each piece of the text.
    pub pace_ms: u64,
    /// Its thinking.
    pub think: String,
    /// Its text.
    pub say: String,
    /// The tools it calls.
    pub calls: Vec<Call>,
    /// Fails with this, after what it said.
    pub error: Option<Failure>,
    /// Why it ends; by itself `toolUse` with calls, else `end`.
    pub stop: Option<StopReason>,
    /// What it pretends to have used.
    pub usage: Usage,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments; a string plays broken JSON.
    #[serde(default)]
    pub arguments: Value,
}

/// A provider's failure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// An HTTP status; without one the connection breaks off.
    #[serde(default)]
    pub status: Option<u16>,
    /// What the provider says.
    #[serde(default)]
    pub message: String,
    /// When it wants to be asked again.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}
