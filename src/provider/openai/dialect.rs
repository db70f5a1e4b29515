//! The differences between servers that speak chat completions.

use super::super::Effort;
use super::super::call::IdStyle;
use super::effort;

/// The variant of the wire format that a server expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// Name of the token limit: `max_completion_tokens` if `true`, else `max_tokens`. OpenAI's newer models refuse the
    /// old name, and other servers do not know the new one.
    pub max_completion_tokens: bool,
    /// `true` if token counts must be requested. Mistral always sends them and refuses the request for them.
    pub ask_usage: bool,
    /// Form of tool call ids.
    pub ids: IdStyle,
    /// Accepted words for the effort.
    pub effort: EffortWords,
    /// Field for sending reasoning back.
    pub reasoning: ReasoningField,
    /// `true` for a router to other providers. It expects their reasoning back with its details, supports cache marks,
    /// and reports what it charges.
    pub routes: bool,
}

/// The field in which the reasoning of an answer is sent back. Hygiene has already decided how much of it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningField {
    /// No field. The server refuses fields that it does not know.
    None,
    /// `reasoning`.
    Reasoning,
    /// `reasoning_content`, which most servers read or ignore.
    Content,
}

/// The accepted words for the effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EffortWords {
    /// OpenAI's own words, which depend on the model.
    OpenAi,
    /// Low, medium and high, and a word for no reasoning.
    WithNone,
    /// Low, medium and high.
    Three,
    /// No words. The server refuses the field.
    Unknown,
}

impl Dialect {
    pub(super) fn of(provider: &str, host: &str) -> Self {
        // The host must be the name itself or a subdomain: `evil-x.ai` is not `x.ai`.
        let is = |name: &str| host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        let mistral = provider == "mistral" || is("mistral.ai");
        let openai = is("api.openai.com") || is("openai.azure.com");
        let routes = provider == "openrouter" || is("openrouter.ai");
        // These servers refuse an unknown field. OpenRouter gets its own `reasoning_details` instead.
        let refuses_reasoning = mistral
            || openai
            || routes
            || is("githubcopilot.com")
            || matches!(provider, "openai" | "github-copilot")
            || provider.contains("azure");
        let names_it_reasoning =
            matches!(provider, "groq" | "cerebras" | "ollama") || is("groq.com") || is("cerebras.ai");
        // These servers refuse `reasoning_effort`.
        let refuses_effort = mistral || is("x.ai") || is("deepseek.com") || is("groq.com");
        Self {
            max_completion_tokens: openai,
            ask_usage: !mistral,
            ids: if mistral { IdStyle::Nine } else { IdStyle::Short },
            reasoning: match () {
                () if refuses_reasoning => ReasoningField::None,
                () if names_it_reasoning => ReasoningField::Reasoning,
                () => ReasoningField::Content,
            },
            routes,
            effort: match () {
                () if refuses_effort => EffortWords::Unknown,
                () if openai => EffortWords::OpenAi,
                () if routes || provider == "ollama" => EffortWords::WithNone,
                () => EffortWords::Three,
            },
        }
    }

    /// Returns the word for this effort, or `None` if the field is left out.
    pub(super) fn word(self, model: &str, effort: Option<Effort>, tools: bool) -> Option<&'static str> {
        // These models refuse tools while they reason, so reasoning is turned off for a request with tools.
        if self.effort == EffortWords::OpenAi && tools && effort::reasoning_excludes_tools(model) {
            return Some("none");
        }
        match (self.effort, effort?) {
            (EffortWords::OpenAi, effort) => effort::word(model, effort),
            (EffortWords::WithNone, Effort::Off) => Some("none"),
            // These have no word for no reasoning.
            (EffortWords::Three, Effort::Off) | (EffortWords::Unknown, _) => None,
            (EffortWords::WithNone | EffortWords::Three, effort) => Some(effort.as_str()),
        }
    }

    /// Returns `true` if a model that expects its reasoning back can get it from this server. A router passes it on.
    pub(super) fn accepts_reasoning(self) -> bool {
        self.reasoning != ReasoningField::None || self.routes
    }

    /// Returns `true` if this model caches prompts only up to a mark in the request.
    pub(super) fn marks(self, model: &str) -> bool {
        self.routes && model.starts_with("anthropic/")
    }

    /// Returns the form of call ids for this model. Mistral's models require theirs behind a router too.
    pub(super) fn id_style_for(self, model: &str) -> IdStyle {
        let model = model.to_ascii_lowercase();
        let family = ["mistral", "mixtral", "codestral", "pixtral", "devstral", "ministral"];
        if family.iter().any(|name| model.contains(name)) { IdStyle::Nine } else { self.ids }
    }
}

/// Returns `true` if a model expects its own reasoning back and refuses calls without it. The last part of the name
/// decides, with and without its suffix after `:`.
#[must_use]
pub(crate) fn wants_thinking_back(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let last = model.rsplit('/').next().unwrap_or(&model);
    let wants = |name: &str| {
        name.starts_with("kimi-k2-thinking")
            || name.starts_with("mimo-v2")
            || matches!(name, "kimi-for-coding" | "kimi-k2.5" | "kimi-k2.6" | "deepseek-reasoner")
    };
    wants(last) || last.split_once(':').is_some_and(|(before, after)| wants(before) || wants(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialect_follows_from_provider_and_host() {
        assert!(Dialect::of("openai", "api.openai.com").max_completion_tokens);
        assert!(Dialect::of("mine", "x.openai.azure.com").max_completion_tokens);
        assert!(!Dialect::of("openai", "127.0.0.1").max_completion_tokens);
        assert!(!Dialect::of("mine", "notapi.openai.com.example.org").max_completion_tokens);
        assert_eq!(Dialect::of("mine", "api.mistral.ai").ids, IdStyle::Nine);
        assert_eq!(Dialect::of("x", "openrouter.ai").id_style_for("mistralai/Devstral-2"), IdStyle::Nine);
        assert_eq!(Dialect::of("x", "openrouter.ai").id_style_for("qwen3"), IdStyle::Short);
    }

    #[test]
    fn the_effort_is_sent_only_where_the_server_accepts_it() {
        let word =
            |provider, host, model, effort| Dialect::of(provider, host).word(model, Some(effort), false);
        assert_eq!(word("openai", "api.openai.com", "gpt-5", Effort::Off), Some("minimal"));
        assert_eq!(word("openai", "api.openai.com", "gpt-4o", Effort::High), None);
        assert_eq!(word("openrouter", "openrouter.ai", "x/y", Effort::Off), Some("none"));
        assert_eq!(word("lab", "127.0.0.1", "qwen3", Effort::High), Some("high"));
        assert_eq!(word("lab", "127.0.0.1", "qwen3", Effort::Off), None);
        assert_eq!(word("mistral", "127.0.0.1", "mistral-large", Effort::High), None);
        let openai = Dialect::of("openai", "api.openai.com");
        assert_eq!(openai.word("gpt-5.6", None, true), Some("none"));
        assert_eq!(openai.word("gpt-5.6", None, false), None);
        assert_eq!(Dialect::of("lab", "127.0.0.1").word("gpt-5.6", None, true), None);
    }

    #[test]
    fn reasoning_is_sent_back_in_the_field_that_the_server_reads() {
        for (provider, host, expected) in [
            ("openai", "127.0.0.1", ReasoningField::None),
            ("mine", "x.openai.azure.com", ReasoningField::None),
            ("mistral", "api.mistral.ai", ReasoningField::None),
            ("openrouter", "openrouter.ai", ReasoningField::None),
            ("groq", "api.groq.com", ReasoningField::Reasoning),
            ("ollama", "127.0.0.1", ReasoningField::Reasoning),
            ("lab", "127.0.0.1", ReasoningField::Content),
            ("deepseek", "api.deepseek.com", ReasoningField::Content),
        ] {
            assert_eq!(Dialect::of(provider, host).reasoning, expected, "{provider} at {host}");
        }
    }

    #[test]
    fn models_that_require_their_prior_reasoning_are_recognised() {
        for model in [
            "kimi-k2.5",
            "moonshotai/kimi-k2-thinking:free",
            "mimo-v2-pro",
            "deepseek-reasoner",
            "x/a:kimi-k2.6",
        ] {
            assert!(wants_thinking_back(model), "{model}");
        }
        for model in ["gpt-5", "kimi-k2", "qwen3:8b"] {
            assert!(!wants_thinking_back(model), "{model}");
        }
    }
}
