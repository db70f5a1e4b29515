//! The table of rules for each route, chosen by provider, API and model, and by the model's entry in the configuration.
//! The other modules of this folder only carry out what the table says.

use super::target::Target;
use crate::provider::openai::wants_thinking_back;
use crate::provider::wire_format::ConversationRules;

/// The rules for one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HygienePolicy {
    /// The row of the table, for people.
    pub row: PolicyRow,
    pub ids: IdFormat,
    /// The text for a missing result.
    pub missing: MissingResultText,
    /// The thinking that can be sent back.
    pub thinking: Thinking,
    /// The part of it that is removed all the same.
    pub drop: DroppedThinking,
    /// The treatment of signatures on texts and calls.
    pub marks: SignatureRule,
    /// `true` to merge consecutive answers.
    pub merge_answers: bool,
    /// `true` to merge consecutive user messages. The encoder for Chat Completions does so for every provider.
    pub merge_users: bool,
    /// `true` if a conversation has to begin with a user message.
    pub bootstrap: bool,
    /// `true` if the last message must not be an answer.
    pub no_prefill: bool,
    /// The most bytes of a picture in Base64.
    pub picture_bytes: usize,
}

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyRow {
    /// OpenAI's Responses API.
    Responses,
    /// The Responses API as Codex uses it.
    CodexResponses,
    /// The Responses API at Azure.
    AzureResponses,
    /// OpenAI's own Chat Completions.
    OpenAi,
    /// Chat Completions at Azure, where ids are short.
    AzureCompletions,
    /// Chat Completions of other providers, mainly local servers.
    Compatible,
    /// Gemini through Google's API or that of Gemini CLI.
    Google,
    /// Google's models through Antigravity.
    Antigravity,
    /// Anthropic's models through Antigravity.
    AntigravityClaude,
    /// The Messages API, at Anthropic or another provider.
    Anthropic,
    /// MiniMax through the Messages API.
    MiniMax,
    /// Kimi's coding service through the Messages API.
    KimiMessages,
    /// Bedrock's Converse API.
    Bedrock,
    /// Mistral's models, wherever they run.
    Mistral,
    /// Google's models through a router.
    RouterGemini,
    /// Anthropic's models through OpenRouter.
    RouterClaude,
    /// Other models through a router.
    Router,
    /// Anthropic's models through Copilot.
    CopilotClaude,
    /// All other routes.
    Rest,
}

/// The form of tool call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdFormat {
    /// Ids of this route stay; others become letters and digits.
    Own,
    /// Letters and digits, at most 40.
    Strict,
    /// Like [`IdFormat::Strict`], but ids that the provider itself made stay.
    Native,
    /// Nine letters and digits.
    Nine,
    /// `call_…`, alone or with `|fc_…`.
    Pairs,
}

/// The text for a missing result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingResultText {
    /// The word that OpenAI's own programs use with the Responses API.
    Aborted,
    /// A sentence in brackets.
    Sentence,
}

/// The thinking that can be sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// All thinking: it goes back as text, or the API has no field for it.
    Any,
    /// Thinking of this route.
    Own,
    /// Thinking of this route that is signed.
    Signed,
    /// Thinking of this route that is signed in Base64.
    SignedBase64,
    /// Reasoning items of this route, each with the output that followed it.
    Items,
}

/// The thinking that is removed even if it is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedThinking {
    /// None.
    Nothing,
    /// All except the newest answer's.
    Older,
    /// All except that of the steps since the last user message.
    Prior,
    /// All.
    All,
}

/// The treatment of signatures on texts and calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureRule {
    /// Unchanged, because this API has none.
    Untouched,
    /// Item ids of the Responses API are removed.
    NoItems,
    /// Only signatures of this route in Base64 stay. With `stand_in`, a call without one gets the placeholder that
    /// Google provides for calls of other models.
    Base64 {
        /// `true` if the model rejects calls without a signature.
        stand_in: bool,
    },
    /// Only signatures of this route stay.
    Own,
}

/// The most bytes of a picture in Base64 if no stricter limit is known. This is Anthropic's limit, the lowest of all.
const DEFAULT_PICTURE_BYTES: usize = 5 * 1024 * 1024;

/// Converse accepts pictures of 3.75 MB, which is 5 MB in Base64, in units of 1,000.
const BEDROCK_PICTURE_BYTES: usize = 5_000_000;

const BASE_POLICY: HygienePolicy = HygienePolicy {
    row: PolicyRow::Rest,
    ids: IdFormat::Own,
    missing: MissingResultText::Sentence,
    thinking: Thinking::Any,
    drop: DroppedThinking::Nothing,
    marks: SignatureRule::NoItems,
    merge_answers: false,
    merge_users: false,
    bootstrap: false,
    no_prefill: false,
    picture_bytes: DEFAULT_PICTURE_BYTES,
};

impl HygienePolicy {
    /// Returns the policy for this target.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        let provider = target.route.provider().to_ascii_lowercase();
        let model = target.route.model().to_ascii_lowercase();
        match target.route.format().conversation {
            ConversationRules::Responses if provider.contains("azure") => {
                responses_policy(PolicyRow::AzureResponses, &model)
            }
            ConversationRules::Responses => responses_policy(PolicyRow::Responses, &model),
            ConversationRules::CodexResponses => responses_policy(PolicyRow::CodexResponses, &model),
            ConversationRules::Google => google_policy(&provider, &model),
            ConversationRules::Messages => messages_policy(target, &provider, &model),
            ConversationRules::Converse => Self {
                row: PolicyRow::Bedrock,
                picture_bytes: BEDROCK_PICTURE_BYTES,
                ..signed_thinking_policy(target, &model, true)
            },
            ConversationRules::Completions => completions_policy(target, &provider, &model),
        }
    }

    /// Returns `true` if thinking is signed provider state on this route and must not be edited.
    #[must_use]
    pub const fn signs_thinking(&self) -> bool {
        matches!(self.thinking, Thinking::Signed | Thinking::SignedBase64)
    }
}

fn responses_policy(row: PolicyRow, model: &str) -> HygienePolicy {
    HygienePolicy {
        row,
        ids: IdFormat::Pairs,
        missing: MissingResultText::Aborted,
        thinking: Thinking::Items,
        marks: SignatureRule::Own,
        // Providers that serve Claude through this API pass the messages on unchanged.
        merge_users: is_claude(model),
        ..BASE_POLICY
    }
}

fn google_policy(provider: &str, model: &str) -> HygienePolicy {
    let antigravity = provider.contains("antigravity");
    let claude = antigravity && is_claude(model);
    HygienePolicy {
        row: match (antigravity, claude) {
            (_, true) => PolicyRow::AntigravityClaude,
            (true, false) => PolicyRow::Antigravity,
            (false, false) => PolicyRow::Google,
        },
        ids: IdFormat::Strict,
        thinking: if claude { Thinking::SignedBase64 } else { Thinking::Own },
        marks: SignatureRule::Base64 { stand_in: !claude && wants_signed_calls(model) },
        merge_answers: true,
        bootstrap: true,
        ..BASE_POLICY
    }
}

fn messages_policy(target: &Target, provider: &str, model: &str) -> HygienePolicy {
    if matches!(provider, "kimi" | "kimi-code" | "kimi-coding" | "kimi-for-coding") {
        // Kimi signs thinking, but rejects it when it comes back.
        let policy = signed_thinking_policy(target, model, false);
        return HygienePolicy {
            row: PolicyRow::KimiMessages,
            thinking: Thinking::Own,
            drop: DroppedThinking::All,
            ..policy
        };
    }
    let minimax = provider.starts_with("minimax");
    // A provider that is only compatible with Anthropic may reject Anthropic's ids.
    let native = minimax || matches!(provider, "anthropic" | "anthropic-vertex" | "amazon-bedrock");
    let row = if minimax { PolicyRow::MiniMax } else { PolicyRow::Anthropic };
    HygienePolicy { row, ..signed_thinking_policy(target, model, native) }
}

/// Returns the policy for providers that sign thinking and check the signature.
fn signed_thinking_policy(target: &Target, model: &str, native: bool) -> HygienePolicy {
    HygienePolicy {
        ids: if native { IdFormat::Native } else { IdFormat::Strict },
        thinking: Thinking::Signed,
        drop: match target.reasoning {
            Some(false) => DroppedThinking::All,
            _ if is_old_claude(model) => DroppedThinking::Older,
            _ => DroppedThinking::Nothing,
        },
        marks: SignatureRule::Untouched,
        merge_answers: true,
        merge_users: true,
        bootstrap: true,
        no_prefill: target.thinking,
        ..BASE_POLICY
    }
}

fn completions_policy(target: &Target, provider: &str, model: &str) -> HygienePolicy {
    let router = matches!(provider, "openrouter" | "opencode" | "kilocode");
    // Mistral comes first: its models need their ids also behind a router or a local server.
    if provider == "mistral" || is_mistral(model) {
        let base = if router || provider == "mistral" {
            let thinking = if router { Thinking::Own } else { Thinking::Any };
            HygienePolicy { thinking, bootstrap: true, ..BASE_POLICY }
        } else {
            // On a self-hosted server, the server's chat template rejects the rest.
            compatible_policy(target, model)
        };
        return HygienePolicy { row: PolicyRow::Mistral, ids: IdFormat::Nine, ..base };
    }
    if router {
        return router_policy(target, provider, model);
    }
    if provider == "openai" {
        return HygienePolicy { row: PolicyRow::OpenAi, ids: IdFormat::Strict, ..BASE_POLICY };
    }
    if provider.contains("azure") {
        return HygienePolicy { row: PolicyRow::AzureCompletions, ids: IdFormat::Strict, ..BASE_POLICY };
    }
    if provider == "github-copilot" {
        return if is_claude(model) {
            HygienePolicy {
                row: PolicyRow::CopilotClaude,
                drop: DroppedThinking::Older,
                no_prefill: target.thinking,
                ..BASE_POLICY
            }
        } else {
            BASE_POLICY
        };
    }
    if target.route.model.is_script() {
        return BASE_POLICY;
    }
    compatible_policy(target, model)
}

/// Returns the policy for a router. A router encrypts reasoning, and only the model behind it can read it again.
fn router_policy(target: &Target, provider: &str, model: &str) -> HygienePolicy {
    let base = HygienePolicy { thinking: Thinking::Own, ..BASE_POLICY };
    if model.contains("gemini") {
        let stand_in = wants_signed_calls(model);
        return HygienePolicy {
            row: PolicyRow::RouterGemini,
            marks: SignatureRule::Base64 { stand_in },
            ..base
        };
    }
    if provider == "openrouter" && (model.starts_with("anthropic/") || is_claude(model)) {
        return HygienePolicy { row: PolicyRow::RouterClaude, no_prefill: target.thinking, ..base };
    }
    HygienePolicy { row: PolicyRow::Router, ..base }
}

fn compatible_policy(target: &Target, model: &str) -> HygienePolicy {
    // Some models need their earlier reasoning back in later requests.
    let keeps = target.reasoning == Some(true) || wants_thinking_back(model);
    HygienePolicy {
        row: PolicyRow::Compatible,
        ids: IdFormat::Strict,
        drop: if keeps { DroppedThinking::Nothing } else { DroppedThinking::Prior },
        merge_answers: true,
        merge_users: true,
        bootstrap: true,
        ..BASE_POLICY
    }
}

fn is_claude(model: &str) -> bool {
    model.contains("claude")
}

/// Returns `true` for Claude models older than those that keep earlier thinking themselves.
fn is_old_claude(model: &str) -> bool {
    is_claude(model)
        && !["opus-4", "sonnet-4", "haiku-4"].iter().any(|line| model.contains(line))
        && !has_major_from_five(model)
}

/// Returns `true` if the first number after a `claude-`, with or without a name in between, is 5 or more.
fn has_major_from_five(model: &str) -> bool {
    model.split("claude-").skip(1).any(|rest| {
        let mut parts = rest.split(['-', '.', '@', ':', '/']);
        let number = parts.find(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        // A number of three digits or more is a date, not a version.
        number.and_then(|part| part.parse::<u64>().ok()).is_some_and(|major| (5..100).contains(&major))
    })
}

/// Returns `true` for Mistral's models by their names, behind any router or server.
pub(super) fn is_mistral(model: &str) -> bool {
    ["mistral", "mixtral", "codestral", "pixtral", "devstral", "ministral", "mistralai"]
        .iter()
        .any(|name| model.contains(name))
}

/// Returns `true` for Gemini 3 and newer, which reject a call without a signature. A name with `-latest` and no number
/// counts as the newest.
fn wants_signed_calls(model: &str) -> bool {
    model.split("gemini-").skip(1).any(|rest| {
        let major: String = rest.chars().take_while(char::is_ascii_digit).collect();
        match major.parse::<u64>() {
            Ok(major) => (3..100).contains(&major),
            Err(_) => rest.ends_with("-latest"),
        }
    })
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
