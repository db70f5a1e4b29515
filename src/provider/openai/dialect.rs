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
    /// Whether it routes to others: it wants their reasoning back with its details, and marks of what to keep, and it
    /// says what it charges.
    pub routes: bool,
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

/// Whether a model wants its own thinking back beside its tool calls, and refuses a history without it.
pub(super) fn wants_thinking_back(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).split(':').next().unwrap_or(model);
    name.starts_with("kimi-k2-thinking")
        || name.starts_with("mimo-v2")
        || matches!(name, "kimi-for-coding" | "kimi-k2.5" | "kimi-k2.6" | "deepseek-reasoner")
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
    fn thinking_goes_back_where_it_is_wanted() {
        for model in ["kimi-k2.5", "moonshotai/kimi-k2-thinking:free", "mimo-v2-pro", "deepseek-reasoner"] {
            assert!(wants_thinking_back(model), "{model}");
        }
        for model in ["gpt-5", "kimi-k2", "qwen3:8b"] {
            assert!(!wants_thinking_back(model), "{model}");
        }
    }
}
