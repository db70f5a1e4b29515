//! The requests that agent programs send through `gateway::relay`, in one wire format: their paths, their limits, and
//! the tables of what is passed on.
//!
//! The names come from the documentation of the APIs and from the requests of the programs. Any other name is refused,
//! because nobody knows what it would do at the provider.

use serde_json::Value;

use super::passthrough::ForwardKind;
use crate::config::Api;

/// The requests of one wire format.
#[derive(Debug)]
pub struct RelayFormat {
    pub api: Api,
    /// The path of the relay for this format, relative to the origin. Programs append what follows the provider's own
    /// base URL: `/v1/messages`, `/responses`, `/v1beta/models/…`, `/chat/completions`.
    pub path: &'static str,
    /// Returns the purpose of a request from the rest of its path, or `None` if the path is not passed on. The model
    /// that a path names is ignored.
    pub kind: fn(&str) -> Option<ForwardKind>,
    /// The query parameter that is passed on.
    pub query: Option<(&'static str, &'static str)>,
    /// Request headers of the API and its client libraries. A name that ends in `-` is a prefix.
    pub request_headers: &'static [&'static str],
    /// Response headers that are passed on. A name that ends in `-` is a prefix.
    pub response_headers: &'static [&'static str],
    /// Returns an error in the format of the API, from its HTTP status, Anthropic's and OpenAI's word for that status,
    /// and a message.
    pub error: fn(u16, &str, &str) -> Value,
    /// Returns the most tokens that a picture can take for a model of this name.
    ///
    /// The number does not depend on the size in bytes, because a large picture may be small in bytes. Models scale
    /// pictures down to their own size.
    pub picture_tokens: fn(&str) -> u64,
    /// The prefix of a model's name in a body, for a format that names the model in the path. The body then has the
    /// name only if the program put it there.
    pub model_prefix: Option<&'static str>,
    /// The entries that limit the answer.
    pub answer: AnswerEntries,
    /// Allowed entries of the outermost object.
    pub top: RuleTable,
    /// `true` if names count as equal in any spelling: Google accepts `cachedContent` and `cached_content`.
    pub is_loose: bool,
    /// Entries within contents that are data or tools, by their exact names.
    pub within: RuleTable,
    /// Folded names of entries within contents that reach beyond the model: to stored data or to other places.
    pub out: &'static [&'static [&'static str]],
    /// Types of contents that reach beyond the model.
    pub out_types: &'static [&'static str],
    /// Types of tools that the program runs itself.
    pub tools: &'static [&'static str],
    /// Types of such tools that are followed by the date of a version: `bash_20250124`.
    pub dated_tools: &'static [&'static str],
    /// The only allowed entries of a tool, folded, for formats in which the type of a tool does not say everything.
    pub tool_entries: Option<&'static [&'static str]>,
}

/// Names of entries, by the rule for their values.
pub type RuleTable = &'static [(Rule, &'static [&'static str])];

/// The names of the entries that limit the answer.
#[derive(Debug)]
pub struct AnswerEntries {
    /// Outermost entries that contain the others. Empty if the others are outermost entries themselves.
    pub parents: &'static [&'static str],
    pub max_tokens: &'static [&'static str],
    /// Number of answers.
    pub count: &'static [&'static str],
    /// `true` if `thinking` has a budget that must be below the limit of the answer.
    pub has_thinking_budget: bool,
}

impl AnswerEntries {
    /// The names that most servers accept.
    pub(crate) const USUAL: Self = Self {
        parents: &[],
        max_tokens: &["max_tokens", "max_completion_tokens", "max_output_tokens"],
        count: &["n"],
        has_thinking_budget: false,
    };
}

/// The rule for the value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Any value, which is searched for anything that reaches beyond the model.
    Content,
    /// Any value. It is data to the provider, whatever its entries are called.
    Data,
    /// A list of tools that the program runs itself.
    Tools,
    /// One of these tools.
    Tool,
    /// One of these words, `false` or `null`. Any other value stores something or changes the price.
    Only(&'static [&'static str]),
}

impl Rule {
    /// Rule for an option that must stay off.
    pub(crate) const OFF: Self = Self::Only(&[]);
    /// Rule for the usual price.
    pub(crate) const USUAL_TIER: Self = Self::Only(&["auto", "default", "standard_only", "standard"]);
}

/// Names within contents that reach beyond the model in both of OpenAI's APIs.
pub(super) const OPENAI_FORBIDDEN: &[&str] = &[
    "fileid",
    "fileids",
    "vectorstoreid",
    "vectorstoreids",
    "container",
    "containerid",
    "previousresponseid",
    "conversation",
    "serverurl",
    "connectorid",
];
