//! What a conversation may hold on its way to a model: a table, chosen by the provider, the wire format and the
//! model, with what the model's entry in the configuration says. Everything else here only does what it says.

use super::target::Target;
use crate::config::Api;
use crate::provider::openai::wants_thinking_back;

/// What is done to a conversation for one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The row of the table, for people.
    pub row: Row,
    /// The ids of tool calls.
    pub ids: Ids,
    /// What stands for a result that is missing.
    pub missing: Missing,
    /// Which thinking can be given back.
    pub thinking: Thinking,
    /// How much of that is left out all the same.
    pub drop: Drop,
    /// What is done with the signatures on texts and calls.
    pub marks: Marks,
    /// Whether answers in a row become one.
    pub merge_answers: bool,
    /// Whether messages of the user in a row become one. Chat completions are written so to everybody.
    pub merge_users: bool,
    /// Whether a conversation has to begin with the user.
    pub bootstrap: bool,
    /// Whether the last message may not be an answer.
    pub no_prefill: bool,
    /// The most bytes of a picture in Base64.
    pub picture_bytes: usize,
}

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// OpenAI's Responses.
    Responses,
    /// Responses as Codex speaks them.
    CodexResponses,
    /// Responses at Azure.
    AzureResponses,
    /// OpenAI's own chat completions.
    OpenAi,
    /// Chat completions at Azure, whose ids are short.
    AzureCompletions,
    /// Chat completions of whoever speaks them, local servers above all.
    Compatible,
    /// Gemini by Google's API or Gemini CLI's.
    Google,
    /// Antigravity's models of Google.
    Antigravity,
    /// Antigravity's models of Anthropic.
    AntigravityClaude,
    /// Anthropic's Messages, at Anthropic or at whoever speaks them.
    Anthropic,
    /// MiniMax by Messages.
    MiniMax,
    /// Kimi's coding service by Messages.
    KimiMessages,
    /// Bedrock's Converse.
    Bedrock,
    /// Mistral's models, wherever they run.
    Mistral,
    /// A router's models of Google.
    RouterGemini,
    /// OpenRouter's models of Anthropic.
    RouterClaude,
    /// A router's other models.
    Router,
    /// Copilot's models of Anthropic.
    CopilotClaude,
    /// Everything else.
    Rest,
}

/// The ids of tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Those of this route stay, others become letters and digits.
    Own,
    /// Letters and digits, at most 40.
    Strict,
    /// As [`Ids::Strict`], but what the provider itself made stays.
    Native,
    /// Nine letters and digits.
    Nine,
    /// `call_…`, alone or with `|fc_…`.
    Pairs,
}

/// What stands for a result that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The word that Responses' own programs use.
    Aborted,
    /// A sentence in brackets.
    Sentence,
}

/// Which thinking can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// All: it goes back as a text, or the wire has no field for it.
    Any,
    /// This route's own.
    Own,
    /// This route's own where it is signed.
    Signed,
    /// This route's own where it is signed in Base64.
    SignedBase64,
    /// This route's own items, each with what followed it.
    Items,
}

/// How much thinking is left out, whatever it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// None.
    Nothing,
    /// All but the newest answer's.
    Older,
    /// All but that of the steps since the user's last message.
    Prior,
    /// All.
    All,
}

/// What is done with the signatures on texts and calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Nothing: this wire has none.
    Untouched,
    /// The ids of Responses' items go.
    NoItems,
    /// Only Base64 of this route's own stays. With `stand_in`, a call that lacks one gets the one that Google gives for
    /// calls of other models.
    Base64 {
        /// Whether the model refuses calls without one.
        stand_in: bool,
    },
    /// Only this route's own stay.
    Own,
}

/// Bytes of Base64 that a picture may have where nothing stricter is known: what Anthropic takes, the least of all.
const PICTURE: usize = 5 * 1024 * 1024;

/// Converse takes 3.75 MB of a picture, which is 5 MB in Base64, counted in thousands.
const BEDROCK_PICTURE: usize = 5_000_000;

const BASE: Policy = Policy {
    row: Row::Rest,
    ids: Ids::Own,
    missing: Missing::Sentence,
    thinking: Thinking::Any,
    drop: Drop::Nothing,
    marks: Marks::NoItems,
    merge_answers: false,
    merge_users: false,
    bootstrap: false,
    no_prefill: false,
    picture_bytes: PICTURE,
};

impl Policy {
    /// The row for this target.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        let provider = target.route.provider().to_ascii_lowercase();
        let model = target.route.model().to_ascii_lowercase();
        match target.route.api {
            Api::OpenAiResponses | Api::OpenAiCodexResponses => {
                responses(target.route.api, &provider, &model)
            }
            Api::GoogleGenerativeAi | Api::GoogleGeminiCli => google(&provider, &model),
            Api::AnthropicMessages => messages(target, &provider, &model),
            Api::BedrockConverseStream => {
                Self { row: Row::Bedrock, picture_bytes: BEDROCK_PICTURE, ..signed(target, &model, true) }
            }
            Api::OpenAiCompletions => completions(target, &provider, &model),
        }
    }

    /// Whether thinking is provider state here, which may not be edited.
    #[must_use]
    pub const fn signs_thinking(&self) -> bool {
        matches!(self.thinking, Thinking::Signed | Thinking::SignedBase64)
    }
}

fn responses(api: Api, provider: &str, model: &str) -> Policy {
    let row = match api {
        Api::OpenAiCodexResponses => Row::CodexResponses,
        _ if provider.contains("azure") => Row::AzureResponses,
        _ => Row::Responses,
    };
    Policy {
        row,
        ids: Ids::Pairs,
        missing: Missing::Aborted,
        thinking: Thinking::Items,
        marks: Marks::Own,
        // Whoever serves Claude this way passes the messages on as they are.
        merge_users: is_claude(model),
        ..BASE
    }
}

fn google(provider: &str, model: &str) -> Policy {
    let antigravity = provider.contains("antigravity");
    let claude = antigravity && is_claude(model);
    Policy {
        row: match (antigravity, claude) {
            (_, true) => Row::AntigravityClaude,
            (true, false) => Row::Antigravity,
            (false, false) => Row::Google,
        },
        ids: Ids::Strict,
        thinking: if claude { Thinking::SignedBase64 } else { Thinking::Own },
        marks: Marks::Base64 { stand_in: !claude && wants_signed_calls(model) },
        merge_answers: true,
        bootstrap: true,
        ..BASE
    }
}

fn messages(target: &Target, provider: &str, model: &str) -> Policy {
    if matches!(provider, "kimi" | "kimi-code" | "kimi-coding" | "kimi-for-coding") {
        // It signs thinking, but refuses what it signed.
        let policy = signed(target, model, false);
        return Policy { row: Row::KimiMessages, thinking: Thinking::Own, drop: Drop::All, ..policy };
    }
    let minimax = provider.starts_with("minimax");
    // Who only speaks like Anthropic need not take its ids.
    let native = minimax || matches!(provider, "anthropic" | "anthropic-vertex" | "amazon-bedrock");
    let row = if minimax { Row::MiniMax } else { Row::Anthropic };
    Policy { row, ..signed(target, model, native) }
}

/// Those who sign thinking and hold to the signature.
fn signed(target: &Target, model: &str, native: bool) -> Policy {
    Policy {
        ids: if native { Ids::Native } else { Ids::Strict },
        thinking: Thinking::Signed,
        drop: match target.reasoning {
            Some(false) => Drop::All,
            _ if is_old_claude(model) => Drop::Older,
            _ => Drop::Nothing,
        },
        marks: Marks::Untouched,
        merge_answers: true,
        merge_users: true,
        bootstrap: true,
        no_prefill: target.thinking,
        ..BASE
    }
}

fn completions(target: &Target, provider: &str, model: &str) -> Policy {
    let router = matches!(provider, "openrouter" | "opencode" | "kilocode");
    if provider == "mistral" || is_mistral(model) {
        let thinking = if router { Thinking::Own } else { Thinking::Any };
        let policy = Policy { row: Row::Mistral, ids: Ids::Nine, thinking, ..BASE };
        // Behind a server of one's own it is that server's template that refuses the rest.
        return if router || provider == "mistral" {
            Policy { bootstrap: true, ..policy }
        } else {
            Policy { row: Row::Mistral, ids: Ids::Nine, ..compatible(target, model) }
        };
    }
    if router {
        return of_router(target, provider, model);
    }
    if provider == "openai" {
        return Policy { row: Row::OpenAi, ids: Ids::Strict, ..BASE };
    }
    if provider.contains("azure") {
        return Policy { row: Row::AzureCompletions, ids: Ids::Strict, ..BASE };
    }
    if provider == "github-copilot" {
        return if is_claude(model) {
            Policy { row: Row::CopilotClaude, drop: Drop::Older, no_prefill: target.thinking, ..BASE }
        } else {
            BASE
        };
    }
    if target.route.model.is_script() {
        return BASE;
    }
    compatible(target, model)
}

/// A router gives reasoning sealed, and each seal is of the model behind it.
fn of_router(target: &Target, provider: &str, model: &str) -> Policy {
    let base = Policy { thinking: Thinking::Own, ..BASE };
    if model.contains("gemini") {
        let stand_in = wants_signed_calls(model);
        return Policy { row: Row::RouterGemini, marks: Marks::Base64 { stand_in }, ..base };
    }
    if provider == "openrouter" && (model.starts_with("anthropic/") || is_claude(model)) {
        return Policy { row: Row::RouterClaude, no_prefill: target.thinking, ..base };
    }
    Policy { row: Row::Router, ..base }
}

fn compatible(target: &Target, model: &str) -> Policy {
    let keeps = target.reasoning == Some(true) || wants_thinking_back(model);
    Policy {
        row: Row::Compatible,
        ids: Ids::Strict,
        drop: if keeps { Drop::Nothing } else { Drop::Prior },
        merge_answers: true,
        merge_users: true,
        bootstrap: true,
        ..BASE
    }
}

fn is_claude(model: &str) -> bool {
    model.contains("claude")
}

/// Claude before the lines that keep earlier thinking by themselves.
fn is_old_claude(model: &str) -> bool {
    is_claude(model)
        && !["opus-4", "sonnet-4", "haiku-4"].iter().any(|line| model.contains(line))
        && !has_major_from_five(model)
}

/// Whether a `claude-` is followed by a line's name or not, and a number of 5 or more.
fn has_major_from_five(model: &str) -> bool {
    model.split("claude-").skip(1).any(|rest| {
        let mut parts = rest.split(['-', '.', '@', ':', '/']);
        let number = parts.find(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        number.and_then(|part| part.parse::<u64>().ok()).is_some_and(|major| (5..100).contains(&major))
    })
}

/// Mistral's models by their name, behind whatever router or server.
pub(super) fn is_mistral(model: &str) -> bool {
    ["mistral", "mixtral", "codestral", "pixtral", "devstral", "ministral", "mistralai"]
        .iter()
        .any(|name| model.contains(name))
}

/// Gemini from 3 on refuses a call without its signature; without a number it is the newest.
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
