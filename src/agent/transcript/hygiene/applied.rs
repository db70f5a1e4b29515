//! What was done to a conversation, so that nothing is changed unsaid.

use crate::agent::transcript::Entry;

/// A rule that can change a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A message of another session was marked as such.
    InterSession,
    /// A text that looks like that mark was made to look otherwise.
    ForgedMark,
    /// What flock puts beside a person's words was taken off an answer that repeated it.
    Echo,
    /// An answer that only people are shown was left out.
    ForPeople,
    /// An answer that broke off lost all but its text.
    BrokenOff,
    /// An answer of nothing but reasoning that reached its limit was left out.
    ReasoningOnly,
    /// Blank texts were left out.
    Blank,
    /// An empty answer was left out.
    Empty,
    /// What does not belong into a message of this role was left out.
    Foreign,
    /// A picture was made smaller, or named instead.
    Picture,
    /// Signatures from before the compaction were taken off.
    StaleSignature,
    /// Thinking of another route was left out.
    ForeignThinking,
    /// Thinking without a valid signature was left out.
    Unsigned,
    /// Thinking beside calls that had to be edited was left out.
    EditedThinking,
    /// Older thinking was left out.
    OlderThinking,
    /// Reasoning that nothing follows was left out.
    OrphanReasoning,
    /// A call that nobody can take was left out.
    MalformedCall,
    /// A name lost the white space around it.
    CallName,
    /// A result was put after its call.
    Moved,
    /// A result without a call, or a second one, was left out.
    OrphanResult,
    /// A missing result was filled in.
    MissingResult,
    /// The item half of an id was cut off, because its reasoning is not there.
    LoneItem,
    /// Ids were rewritten.
    Ids,
    /// Signatures of another route, or of a wrong form, were taken off texts and calls.
    ForeignMark,
    /// A call got Google's stand-in for a signature.
    StandIn,
    /// A message of the user was put before an answer that began the conversation.
    Bootstrap,
    /// Messages of one side became one.
    Merged,
    /// An answer at the end was left out.
    Prefill,
}

impl Rule {
    /// All of them, in the order in which they can come.
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

    /// Its name, as the documentation has it.
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

/// A rule that was applied, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Which.
    pub rule: Rule,
    /// The id of the message's record; empty where it has none.
    pub message: String,
}

/// What was done so far.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Applied>);

impl Notes {
    pub(super) fn add(&mut self, rule: Rule, entry: &Entry) {
        self.0.push(Applied { rule, message: entry.about.id.clone() });
    }

    pub(super) fn into_vec(self) -> Vec<Applied> {
        self.0
    }
}
