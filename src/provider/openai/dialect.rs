//! Where those who speak chat completions differ.

use super::super::Effort;
use super::super::call::Style;
use super::effort;

/// How one of them wants to be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The limit's name: OpenAI's newer models refuse the old one, others don't know the new one.
    pub max_completion_tokens: bool,
    /// Whether the count of tokens must be asked for; Mistral sends it anyway and refuses to be asked.
    pub ask_usage: bool,
    /// Its ids of tool calls.
    pub ids: Style,
    /// How it is told how much to think.
    pub effort: Words,
    /// Where an answer's reasoning goes back.
    pub reasoning: Field,
    /// Whether it routes to others: it wants their reasoning back with its details, and marks of what to keep, and it
    /// says what it charges.
    pub routes: bool,
}

/// The field of an answer that its reasoning goes back in. What goes back at all is decided before a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// None: it refuses a field that it does not know.
    None,
    /// `reasoning`.
    Reasoning,
    /// `reasoning_content`, which most servers read or pass over.
    Content,
}

/// The words for how much to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// OpenAI's own, which go by the model.
    OpenAi,
    /// Also that it is not to think at all.
    WithNone,
    /// Low, medium and high.
    Three,
    /// None: it refuses to be told.
    Unknown,
}

impl Dialect {
    pub(super) fn of(provider: &str, host: &str) -> Self {
        let is = |name: &str| host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        let mistral = provider == "mistral" || is("mistral.ai");
        Self {
            max_completion_tokens: is("api.openai.com") || is("openai.azure.com"),
            ask_usage: !mistral,
            ids: if mistral { Style::Nine } else { Style::Short },
            reasoning: match () {
                () if matches!(provider, "openai" | "github-copilot" | "openrouter")
                    || provider.contains("azure")
                    || mistral
                    || is("api.openai.com")
                    || is("openai.azure.com")
                    || is("githubcopilot.com")
                    || is("openrouter.ai") =>
                {
                    Field::None
                }
                () if matches!(provider, "groq" | "cerebras" | "ollama")
                    || is("groq.com")
                    || is("cerebras.ai") =>
                {
                    Field::Reasoning
                }
                () => Field::Content,
            },
            routes: provider == "openrouter" || is("openrouter.ai"),
            effort: match () {
                () if mistral || is("x.ai") || is("deepseek.com") || is("groq.com") => Words::Unknown,
                () if is("api.openai.com") || is("openai.azure.com") => Words::OpenAi,
                () if matches!(provider, "ollama" | "openrouter") || is("openrouter.ai") => Words::WithNone,
                () => Words::Three,
            },
        }
    }

    /// The word for this effort; `None` where there is none.
    pub(super) fn word(self, model: &str, effort: Option<Effort>, tools: bool) -> Option<&'static str> {
        if self.effort == Words::OpenAi && tools && effort::reasons_or_takes_tools(model) {
            return Some("none");
        }
        match (self.effort, effort?) {
            (Words::OpenAi, effort) => effort::word(model, effort),
            (Words::WithNone, Effort::Off) => Some("none"),
            (Words::Three, Effort::Off) | (Words::Unknown, _) => None,
            (Words::WithNone | Words::Three, effort) => Some(effort.as_str()),
        }
    }

    /// Whether a model that wants its reasoning back can be given it here: a router passes it on.
    pub(super) fn takes_reasoning_content(self) -> bool {
        self.reasoning != Field::None || self.routes
    }

    /// Whether this model keeps prompts only up to a mark in the request.
    pub(super) fn marks(self, model: &str) -> bool {
        self.routes && model.starts_with("anthropic/")
    }

    /// The ids for this model: Mistral's models are strict behind a router too.
    pub(super) fn ids_for(self, model: &str) -> Style {
        let model = model.to_ascii_lowercase();
        let family = ["mistral", "mixtral", "codestral", "pixtral", "devstral", "ministral"];
        if family.iter().any(|name| model.contains(name)) { Style::Nine } else { self.ids }
    }
}

/// Whether a model wants its own reasoning back, and refuses calls without it. The name's last part counts, with what
/// stands behind a `:` in it and without.
#[must_use]
pub fn wants_thinking_back(model: &str) -> bool {
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
    fn dialects_go_by_host() {
        assert!(Dialect::of("openai", "api.openai.com").max_completion_tokens);
        assert!(Dialect::of("mine", "x.openai.azure.com").max_completion_tokens);
        assert!(!Dialect::of("openai", "127.0.0.1").max_completion_tokens);
        assert!(!Dialect::of("mine", "notapi.openai.com.example.org").max_completion_tokens);
        assert_eq!(Dialect::of("mine", "api.mistral.ai").ids, Style::Nine);
        assert_eq!(Dialect::of("x", "openrouter.ai").ids_for("mistralai/Devstral-2"), Style::Nine);
        assert_eq!(Dialect::of("x", "openrouter.ai").ids_for("qwen3"), Style::Short);
    }

    #[test]
    fn an_effort_is_told_where_it_is_understood() {
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
    fn reasoning_goes_back_in_a_field_that_is_known() {
        for (provider, host, expected) in [
            ("openai", "127.0.0.1", Field::None),
            ("mine", "x.openai.azure.com", Field::None),
            ("mistral", "api.mistral.ai", Field::None),
            ("openrouter", "openrouter.ai", Field::None),
            ("groq", "api.groq.com", Field::Reasoning),
            ("ollama", "127.0.0.1", Field::Reasoning),
            ("lab", "127.0.0.1", Field::Content),
            ("deepseek", "api.deepseek.com", Field::Content),
        ] {
            assert_eq!(Dialect::of(provider, host).reasoning, expected, "{provider} at {host}");
        }
    }

    #[test]
    fn thinking_goes_back_where_it_is_wanted() {
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
