//! The record of all changes to a conversation, so that none goes unnoticed.

use clap::ValueEnum;

use crate::agent::transcript::Entry;

/// A rule that can change a message. The derive gives each rule the name of its variant in kebab case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Rule {
    /// A message of another session was marked as one.
    InterSession,
    /// A text that looks like such a mark was changed.
    ForgedMark,
    /// flock's context was removed from an answer that repeated it.
    Echo,
    /// An answer that only people are shown was removed.
    ForPeople,
    /// An answer that broke off lost everything except its text.
    BrokenOff,
    /// An answer that reached its limit while reasoning was removed.
    ReasoningOnly,
    /// Blank texts were removed.
    Blank,
    /// An empty answer was removed.
    Empty,
    /// A block that does not fit the message's role was removed.
    ForeignBlock,
    /// A picture was scaled down, or replaced by a text.
    Picture,
    /// Signatures from before the last compaction were removed.
    StaleSignature,
    /// Thinking of another route was removed.
    ForeignThinking,
    /// Thinking without a valid signature was removed.
    UnsignedThinking,
    /// Thinking beside calls that had to be edited was removed.
    EditedThinking,
    /// Older thinking was removed.
    OlderThinking,
    /// Reasoning that nothing follows was removed.
    OrphanReasoning,
    /// A malformed call was removed.
    MalformedCall,
    /// Whitespace around a call's name was removed.
    CallName,
    /// A result was moved behind its call.
    MovedResult,
    /// A result without a call, or a second result of a call, was removed.
    OrphanResult,
    /// A missing result was filled in.
    MissingResult,
    /// The item half of an id was removed because its reasoning is missing.
    LoneItem,
    /// Ids were rewritten.
    Ids,
    /// Signatures of another route, or in an invalid form, were removed from texts and calls.
    ForeignSignature,
    /// A call got Google's placeholder for a signature.
    SignatureStandIn,
    /// A user message was put before an answer that began the conversation.
    Bootstrap,
    /// Consecutive messages of one role were merged.
    Merged,
    /// An answer at the end was removed.
    Prefill,
}

impl Rule {
    /// Returns the name that people and the documentation use, such as `moved-result`.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A rule that was applied to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedRule {
    pub rule: Rule,
    /// Id of the message's record. Empty if there is none.
    pub message: String,
}

/// The rules applied so far.
#[derive(Debug, Default)]
pub(super) struct RuleLog(Vec<AppliedRule>);

impl RuleLog {
    pub(super) fn add(&mut self, rule: Rule, entry: &Entry) {
        self.0.push(AppliedRule { rule, message: entry.about.id.clone() });
    }

    pub(super) fn into_vec(self) -> Vec<AppliedRule> {
        self.0
    }
}
