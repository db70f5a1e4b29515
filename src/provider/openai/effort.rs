//! Knowledge about OpenAI's models: which of them reason, and which words they accept for the effort. An unknown model,
//! such as one on a private server, gets the words that all models accept.

use super::super::Effort;

/// Returns `true` if a model reasons before it answers. A model that does not reason refuses all fields about
/// reasoning.
#[must_use]
pub(in crate::provider) fn reasons(model: &str) -> bool {
    let name = base_name(model);
    let older = ["gpt-4", "gpt-3", "chatgpt", "davinci", "babbage"];
    // The `-chat` variants of newer models do not reason.
    !older.iter().any(|older| name.starts_with(older)) && !name.contains("-chat")
}

/// Returns the word for this effort, or `None` if the model has none.
#[must_use]
pub(in crate::provider) fn word(model: &str, effort: Effort) -> Option<&'static str> {
    let name = base_name(model);
    if !reasons(model) {
        return None;
    }
    Some(match effort {
        Effort::Off if name.starts_with("gpt-5") => off_word(name)?,
        Effort::Off => return None,
        // This model accepts only this word.
        _ if name.starts_with("gpt-5-pro") => "high",
        other => other.as_str(),
    })
}

/// Returns `true` if a model refuses tools in chat completions while it reasons, which it does by default. The
/// Responses API has no such limit.
#[must_use]
pub(super) fn reasoning_excludes_tools(model: &str) -> bool {
    let Some(version) = base_name(model).strip_prefix("gpt-5.") else { return false };
    let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<u32>().is_ok_and(|minor| minor >= 2)
}

/// Returns the word for no reasoning in the GPT-5 series. The first models accept only "minimal". The models for
/// programming and the large ones accept neither word.
fn off_word(name: &str) -> Option<&'static str> {
    let always = name.contains("-codex") || name.contains("-pro");
    match name.as_bytes().get("gpt-5".len()) {
        _ if always => None,
        Some(b'.') => Some("none"),
        _ => Some("minimal"),
    }
}

/// Returns a model's name without the maker that a router puts before it.
fn base_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_do_not_reason_get_no_effort_word() {
        for model in ["gpt-4.1-mini", "gpt-4o-2024-08-06", "openai/gpt-3.5-turbo", "gpt-5-chat-latest"] {
            assert!(!reasons(model), "{model}");
            assert_eq!(word(model, Effort::High), None, "{model}");
        }
        for model in ["gpt-5", "gpt-5.2-codex", "o3", "openai/gpt-oss-120b", "my-deployment"] {
            assert!(reasons(model), "{model}");
            assert_eq!(word(model, Effort::Low), Some("low"), "{model}");
        }
    }

    #[test]
    fn each_model_gets_its_own_word_for_no_reasoning() {
        for (model, expected) in [
            ("gpt-5.2", Some("none")),
            ("gpt-5-mini", Some("minimal")),
            ("gpt-5-codex", None),
            ("gpt-5-pro", None),
            ("o3", None),
            ("my-deployment", None),
        ] {
            assert_eq!(word(model, Effort::Off), expected, "{model}");
        }
        assert_eq!(word("gpt-5-pro", Effort::Low), Some("high"));
        for (model, expected) in
            [("gpt-5.6-terra", true), ("gpt-5.2", true), ("gpt-5.1", false), ("gpt-5", false)]
        {
            assert_eq!(reasoning_excludes_tools(model), expected, "{model}");
        }
    }
}
