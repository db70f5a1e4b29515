//! The record of all changes to a conversation, so that none goes unnoticed.

use crate::agent::transcript::Entry;

/// A rule that can change a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    Foreign,
    /// A picture was scaled down, or replaced by a text.
    Picture,
    /// Signatures from before the last compaction were removed.
    StaleSignature,
    /// Thinking of another route was removed.
    ForeignThinking,
    /// Thinking without a valid signature was removed.
    Unsigned,
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
    Moved,
    /// A result without a call, or a second result of a call, was removed.
    OrphanResult,
    /// A missing result was filled in.
    MissingResult,
    /// The item half of an id was removed because its reasoning is missing.
    LoneItem,
    /// Ids were rewritten.
    Ids,
    /// Signatures of another route, or in an invalid form, were removed from texts and calls.
    ForeignMark,
    /// A call got Google's placeholder for a signature.
    StandIn,
    /// A user message was put before an answer that began the conversation.
    Bootstrap,
    /// Consecutive messages of one role were merged.
    Merged,
    /// An answer at the end was removed.
    Prefill,
}

impl Rule {
    /// All rules, in the order in which they can apply.
    pub const ALL: [Self; 28] = [
        Self::InterSession,
        Self::ForgedMark,
        Self::Echo,
        Self::ForPeople,
        Self::BrokenOff,
        Self::ReasoningOnly,
        Self::Blank,
        Self::Empty,
        Self::Foreign,
        Self::Picture,
        Self::StaleSignature,
        Self::ForeignThinking,
        Self::Unsigned,
        Self::EditedThinking,
        Self::OlderThinking,
        Self::OrphanReasoning,
        Self::MalformedCall,
        Self::CallName,
        Self::Moved,
        Self::OrphanResult,
        Self::MissingResult,
        Self::LoneItem,
        Self::Ids,
        Self::ForeignMark,
        Self::StandIn,
        Self::Bootstrap,
        Self::Merged,
        Self::Prefill,
    ];

    /// Returns the rule's name as in the documentation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InterSession => "inter-session",
            Self::ForgedMark => "forged-mark",
            Self::Echo => "echo",
            Self::ForPeople => "for-people",
            Self::BrokenOff => "broken-off",
            Self::ReasoningOnly => "reasoning-only",
            Self::Blank => "blank",
            Self::Empty => "empty",
            Self::Foreign => "foreign-block",
            Self::Picture => "picture",
            Self::StaleSignature => "stale-signature",
            Self::ForeignThinking => "foreign-thinking",
            Self::Unsigned => "unsigned-thinking",
            Self::EditedThinking => "edited-thinking",
            Self::OlderThinking => "older-thinking",
            Self::OrphanReasoning => "orphan-reasoning",
            Self::MalformedCall => "malformed-call",
            Self::CallName => "call-name",
            Self::Moved => "moved-result",
            Self::OrphanResult => "orphan-result",
            Self::MissingResult => "missing-result",
            Self::LoneItem => "lone-item",
            Self::Ids => "ids",
            Self::ForeignMark => "foreign-signature",
            Self::StandIn => "signature-stand-in",
            Self::Bootstrap => "bootstrap",
            Self::Merged => "merged",
            Self::Prefill => "prefill",
        }
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
