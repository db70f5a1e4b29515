//! Differences between the model families behind Converse.

use super::super::anthropic::thinking;

/// Features of a model beyond text and tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// `true` if a tool result can have the status of a failure and contain pictures. Other models refuse both.
    pub(super) rich_results: bool,
    /// `true` if the model caches prompts up to marks in the request.
    pub(super) caches: bool,
    /// `true` if the model accepts its signed reasoning back.
    pub(super) thinks: bool,
    /// `true` if the model can be held to a JSON schema (the user guide, "Structured outputs").
    pub(super) takes_form: bool,
}

impl Family {
    /// Returns the features for a model id: `anthropic.claude-…`, with a region before it, or an ARN that ends in it.
    pub(super) fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let claude = name.find("claude").map(|at| &name[at..]);
        // The first Claude models cannot cache prompts and refuse the mark.
        let early = [
            "claude-v",
            "claude-instant",
            "claude-3-haiku",
            "claude-3-opus",
            "claude-3-sonnet",
            "claude-3-5-sonnet",
        ];
        let caches = claude.is_some_and(|claude| !early.iter().any(|name| claude.starts_with(name)));
        let takes_form =
            thinking::takes_form(name) || ["gpt-oss", "qwen3"].iter().any(|line| name.contains(line));
        let rich_results = claude.is_some() || name.contains("nova");
        Self { rich_results, caches, thinks: claude.is_some(), takes_form }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_features_follow_from_the_model_id() {
        let all = Family { rich_results: true, caches: true, thinks: true, takes_form: true };
        for model in [
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "global.anthropic.claude-opus-4-6-v1",
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-4-5-20251001-v1:0",
        ] {
            assert_eq!(Family::of(model), all, "{model}");
        }
        let third = Family { takes_form: false, ..all };
        assert_eq!(Family::of("us.anthropic.claude-3-7-sonnet-20250219-v1:0"), third);
        assert_eq!(Family::of("anthropic.claude-opus-4-20250514-v1:0"), third);
        assert_eq!(
            Family::of("anthropic.claude-3-5-sonnet-20240620-v1:0"),
            Family { caches: false, ..third }
        );
        assert!(Family::of("openai.gpt-oss-120b-1:0").takes_form);
        assert!(Family::of("amazon.nova-pro-v1:0").rich_results);
        let none = Family { rich_results: false, caches: false, thinks: false, takes_form: false };
        assert_eq!(Family::of("meta.llama3-3-70b-instruct-v1:0"), none);
    }
}
