//! Plays a recorded session again: for each recorded answer, the request that the present code would send at that place
//! of the transcript, and the present decision about each of its calls.
//!
//! No model is asked and no tool is run: the recorded answers and results take their places. The conversation before each
//! answer is read from the transcript as a turn reads it, so the present prompt builder, hygiene, compaction and policy
//! decide about what was recorded.

pub(crate) mod comparison;
mod player;
pub(crate) mod recorded;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use player::replay;

/// The format of a saved replay.
pub(crate) const FORMAT: u32 = 1;

/// A session as the present code plays it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replay {
    pub format: u32,
    pub session: String,
    pub agent: String,
    /// Each different prompt, by its digest, as sections with their texts.
    pub prompts: BTreeMap<String, Vec<PromptSection>>,
    pub steps: Vec<ReplayStep>,
    /// The recorded compactions that flock made by itself.
    pub compactions: Vec<ReplayedCompaction>,
}

/// A recorded compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayedCompaction {
    /// Its number within the conversation.
    pub number: u32,
    /// The number of the answer behind it.
    pub before_step: usize,
    /// `true` if the present code would compact there, too.
    pub is_due: bool,
}

/// A section of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PromptSection {
    pub name: String,
    pub text: String,
}

/// A recorded answer, with the request that would be sent for it now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayStep {
    /// The number of the answer in the transcript, from 1.
    pub step: usize,
    /// The id of the answer's record.
    pub answer: String,
    /// The model that answered, or the agent's own if that one is not known any more.
    pub model: String,
    /// The digest of the prompt.
    pub prompt: String,
    /// The tools that are offered.
    pub tools: Vec<String>,
    /// The digest of the descriptions and parameters of those tools.
    pub tool_texts: String,
    /// The digest of each message after hygiene.
    pub messages: Vec<String>,
    /// The rules of hygiene that change something, each with the record.
    pub hygiene: Vec<(String, String)>,
    /// Estimated tokens before and after a compaction that would precede the request.
    pub compaction: Option<(u64, u64)>,
    /// The digest of the whole request.
    pub request: String,
    /// The calls of the answer.
    pub calls: Vec<ReplayedCall>,
    /// The reason for which no request could be made.
    pub problem: Option<String>,
}

/// A recorded call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayedCall {
    pub id: String,
    pub tool: String,
    /// The present decision.
    pub decision: CallVerdict,
    /// The reason for it, if the call would not simply run.
    pub reason: Option<String>,
    /// The recorded outcome. `None` if the transcript has no result of the call.
    pub recorded: Option<CallVerdict>,
}

/// The decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CallVerdict {
    Run,
    Ask,
    Refuse,
}

impl CallVerdict {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Ask => "ask a person",
            Self::Refuse => "refuse",
        }
    }
}
