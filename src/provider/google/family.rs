//! The features of Google's models, derived from their names.

use serde::Serialize;

use super::super::Effort;

/// A group of models with the same features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Gemini 3 and later: signatures are required, tool results contain pictures, calls have ids.
    Third {
        /// `true` for a large (`-pro`) model, which always reasons.
        large: bool,
    },
    /// Gemini 2.5: reasons within a budget.
    Second {
        /// `true` for a large (`-pro`) model, which always reasons.
        large: bool,
    },
    /// Older, open and unknown models, with none of these features.
    Plain,
}

/// The `thinkingConfig` of a request.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
}

impl Family {
    pub(super) fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        // The same API serves open models with other names.
        let Some(version) = name.strip_prefix("gemini-") else { return Self::Plain };
        let large = name.contains("-pro");
        let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().ok();
        let major: Option<u32> = number(version);
        match major {
            Some(3..) => Self::Third { large },
            Some(2) if version.starts_with("2.5") => Self::Second { large },
            // "gemini-flash-latest" is an alias of the newest model.
            None if name.ends_with("-latest") => Self::Third { large },
            _ => Self::Plain,
        }
    }

    /// Returns `true` for Gemini 3 and later, which require a signature on the first call of each step.
    pub(super) const fn is_gemini_3(self) -> bool {
        matches!(self, Self::Third { .. })
    }

    /// Returns `true` if the model can be held to JSON. Gemini 2.5 cannot if the request has tools ("Function calling
    /// with a response mime type: 'application/json' is unsupported").
    pub(super) const fn takes_form(self, has_tools: bool) -> bool {
        match self {
            Self::Third { .. } => true,
            Self::Second { .. } => !has_tools,
            Self::Plain => false,
        }
    }

    /// Returns `true` if tools may be declared with JSON schemas.
    pub(super) const fn supports_json_schema(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// Returns the setting for this effort, or `None` if the model knows none.
    pub(super) fn thinking(self, effort: Effort) -> Option<ThinkingConfig> {
        // Without a request for them, the API does not return any thoughts.
        let include_thoughts = (effort != Effort::Off).then_some(true);
        let (level, budget) = match (self, effort) {
            (Self::Plain, _) => return None,
            // The large models have no lower level than this.
            (Self::Third { large: true }, Effort::Off | Effort::Low) => (Some("low"), None),
            (Self::Third { large: true }, Effort::Medium | Effort::High) => (Some("high"), None),
            (Self::Third { large: false }, Effort::Off) => (Some("minimal"), None),
            (Self::Third { large: false }, other) => (Some(other.as_str()), None),
            // 128 tokens is the smallest budget of the large model, and 0 turns reasoning off in the others.
            (Self::Second { large: true }, Effort::Off) => (None, Some(128)),
            (Self::Second { large: false }, Effort::Off) => (None, Some(0)),
            (Self::Second { .. }, Effort::Low) => (None, Some(2_048)),
            (Self::Second { .. }, Effort::Medium) => (None, Some(8_192)),
            (Self::Second { .. }, Effort::High) => (None, Some(24_576)),
        };
        Some(ThinkingConfig { include_thoughts, thinking_level: level, thinking_budget: budget })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_follows_from_the_model_name() {
        for (model, expected) in [
            ("gemini-3-pro-preview", Family::Third { large: true }),
            ("gemini-3.1-flash", Family::Third { large: false }),
            ("models/gemini-3-flash-preview", Family::Third { large: false }),
            ("gemini-flash-latest", Family::Third { large: false }),
            ("gemini-2.5-pro", Family::Second { large: true }),
            ("gemini-2.5-flash-lite", Family::Second { large: false }),
            ("gemini-2.0-flash", Family::Plain),
            ("gemini-1.5-pro-latest", Family::Plain),
            ("gemma-3-27b-it", Family::Plain),
            ("m", Family::Plain),
        ] {
            assert_eq!(Family::of(model), expected, "{model}");
        }
    }

    #[test]
    fn a_request_has_a_thinking_level_or_a_budget_but_never_both() {
        for model in ["gemini-3-pro", "gemini-3-flash", "gemini-2.5-pro", "gemini-2.5-flash"] {
            for effort in [Effort::Off, Effort::Low, Effort::Medium, Effort::High] {
                let told = Family::of(model).thinking(effort).unwrap();
                assert_ne!(told.thinking_level.is_some(), told.thinking_budget.is_some(), "{model}");
                assert_eq!(told.include_thoughts.is_some(), effort != Effort::Off);
            }
        }
        assert_eq!(Family::Plain.thinking(Effort::High), None);
    }
}
