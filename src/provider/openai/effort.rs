//! Which of OpenAI's models reason, and in which words they are told how much. Of a model that nobody knows,
//! as one of a person's own server is, the words that all take are used.

use super::super::Effort;

/// Whether a model reasons before it answers. One that does not refuses whatever speaks of reasoning.
#[must_use]
pub(in crate::provider) fn reasons(model: &str) -> bool {
    let name = own_name(model);
    let older = ["gpt-4", "gpt-3", "chatgpt", "davinci", "babbage"];
    !older.iter().any(|older| name.starts_with(older)) && !name.contains("-chat")
}

/// The word for this much; `None` where the model has no word for it.
#[must_use]
pub(in crate::provider) fn word(model: &str, effort: Effort) -> Option<&'static str> {
    let name = own_name(model);
    if !reasons(model) {
        return None;
    }
    Some(match effort {
        Effort::Off if name.starts_with("gpt-5") => off(name)?,
        Effort::Off => return None,
        // It knows this one only.
        _ if name.starts_with("gpt-5-pro") => "high",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    })
}

/// Whether a model takes no tools by chat completions while it reasons, which it does unless it is told not to.
/// Responses have no such limit.
#[must_use]
pub(super) fn reasons_or_takes_tools(model: &str) -> bool {
    let Some(version) = own_name(model).strip_prefix("gpt-5.") else { return false };
    let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<u32>().is_ok_and(|minor| minor >= 2)
}

/// The first models of the fifth kind can't be told to leave it, and those for programming and the large
/// ones can't be told to nearly leave it.
fn off(name: &str) -> Option<&'static str> {
    let always = name.contains("-codex") || name.contains("-pro");
    match name.as_bytes().get("gpt-5".len()) {
        _ if always => None,
        Some(b'.') => Some("none"),
        _ => Some("minimal"),
    }
}

/// A model's name without the maker that a router puts before it.
fn own_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_reason_is_not_told_to() {
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
    fn off_is_said_as_each_model_takes_it() {
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
            assert_eq!(reasons_or_takes_tools(model), expected, "{model}");
        }
    }
}
