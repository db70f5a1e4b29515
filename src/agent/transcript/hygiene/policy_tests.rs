use super::*;
use crate::config::Api;
use crate::provider::Route;

fn route(model: &str, api: Api) -> Route {
    Route { model: model.parse().unwrap(), api }
}

fn of(model: &str, api: Api) -> HygienePolicy {
    HygienePolicy::of(&Target::new(route(model, api)))
}

fn thinking(model: &str, api: Api) -> HygienePolicy {
    HygienePolicy::of(&Target { thinking: true, ..Target::new(route(model, api)) })
}

#[test]
fn responses_fill_missing_results_with_aborted_and_keep_items() {
    for (model, api, row) in [
        ("openai/gpt-5", Api::OpenAiResponses, PolicyRow::Responses),
        ("openai/gpt-5-codex", Api::OpenAiCodexResponses, PolicyRow::CodexResponses),
        ("azure-openai/gpt-5", Api::OpenAiResponses, PolicyRow::AzureResponses),
    ] {
        let policy = of(model, api);
        assert_eq!(
            (policy.row, policy.ids, policy.missing, policy.thinking, policy.marks),
            (row, IdFormat::Pairs, MissingResultText::Aborted, Thinking::Items, SignatureRule::Own)
        );
        assert!(
            !policy.merge_answers
                && !policy.merge_users
                && !policy.bootstrap
                && policy.drop == DroppedThinking::Nothing
        );
    }
    assert!(of("gateway/claude-opus-4-5", Api::OpenAiResponses).merge_users);
}

#[test]
fn openai_and_azure_have_strict_ids_only() {
    for (model, row) in
        [("openai/gpt-4o", PolicyRow::OpenAi), ("my-azure/gpt-4o", PolicyRow::AzureCompletions)]
    {
        let policy = of(model, Api::OpenAiCompletions);
        assert_eq!(policy, HygienePolicy { row, ids: IdFormat::Strict, ..BASE_POLICY });
    }
}

#[test]
fn unknown_chat_completions_servers_count_as_strict() {
    for model in ["ollama/qwen3", "local/gemma-3", "groq/llama-4", "minimax/m2"] {
        let policy = of(model, Api::OpenAiCompletions);
        assert_eq!(
            (policy.row, policy.ids, policy.drop),
            (PolicyRow::Compatible, IdFormat::Strict, DroppedThinking::Prior),
            "{model}"
        );
        assert!(policy.merge_answers && policy.merge_users && policy.bootstrap);
    }
}

#[test]
fn models_that_need_their_reasoning_get_it_back() {
    for model in [
        "moonshot/kimi-k2-thinking",
        "x/org/kimi-k2.5:free",
        "x/mimo-v2-pro",
        "x/a:kimi-k2.6",
        "deepseek/deepseek-reasoner",
    ] {
        assert_eq!(of(model, Api::OpenAiCompletions).drop, DroppedThinking::Nothing, "{model}");
    }
    let entry = Target { reasoning: Some(true), ..Target::new(route("local/own", Api::OpenAiCompletions)) };
    assert_eq!(HygienePolicy::of(&entry).drop, DroppedThinking::Nothing);
}

#[test]
fn google_needs_strict_ids_alternating_turns_and_a_first_user_message() {
    for (model, api, row) in [
        ("google/gemini-2.5-pro", Api::GoogleGenerativeAi, PolicyRow::Google),
        ("gemini-cli/gemini-2.5-pro", Api::GoogleGeminiCli, PolicyRow::Google),
        ("google-antigravity/gemini-2.5-pro", Api::GoogleGeminiCli, PolicyRow::Antigravity),
    ] {
        let policy = of(model, api);
        assert_eq!((policy.row, policy.ids, policy.thinking), (row, IdFormat::Strict, Thinking::Own));
        assert_eq!(policy.marks, SignatureRule::Base64 { stand_in: false });
        assert!(policy.merge_answers && !policy.merge_users && policy.bootstrap);
    }
    for model in ["google/gemini-3-pro-preview", "google/gemini-3.5-flash"] {
        assert_eq!(of(model, Api::GoogleGenerativeAi).marks, SignatureRule::Base64 { stand_in: true });
    }
}

#[test]
fn antigravitys_claude_keeps_signed_thinking_only() {
    let policy = of("google-antigravity/claude-opus-4-5-thinking", Api::GoogleGeminiCli);
    assert_eq!((policy.row, policy.thinking), (PolicyRow::AntigravityClaude, Thinking::SignedBase64));
}

#[test]
fn anthropic_and_minimax_keep_their_ids_and_signed_thinking() {
    for (model, row) in [
        ("anthropic/claude-opus-4-5", PolicyRow::Anthropic),
        ("minimax-portal/MiniMax-M2", PolicyRow::MiniMax),
    ] {
        let policy = of(model, Api::AnthropicMessages);
        assert_eq!((policy.row, policy.ids, policy.thinking), (row, IdFormat::Native, Thinking::Signed));
        assert!(
            policy.merge_answers
                && policy.merge_users
                && !policy.no_prefill
                && policy.drop == DroppedThinking::Nothing
        );
        assert!(thinking(model, Api::AnthropicMessages).no_prefill);
    }
    assert_eq!(of("own/claude-look-alike-opus-4", Api::AnthropicMessages).ids, IdFormat::Strict);
    assert!(thinking("cloudflare-ai-gateway/claude-opus-4-5", Api::AnthropicMessages).no_prefill);
    for model in ["kimi-coding/k2p5", "kimi/kimi-for-coding"] {
        let policy = of(model, Api::AnthropicMessages);
        assert_eq!((policy.row, policy.drop), (PolicyRow::KimiMessages, DroppedThinking::All), "{model}");
    }
}

#[test]
fn old_claude_and_models_without_reasoning_lose_older_thinking() {
    let drop = |model| of(model, Api::AnthropicMessages).drop;
    for old in ["anthropic/claude-3-7-sonnet-latest", "anthropic/claude-3-opus", "anthropic/claude-2.1"] {
        assert_eq!(drop(old), DroppedThinking::Older, "{old}");
    }
    for new in [
        "anthropic/claude-opus-4-5",
        "anthropic/claude-sonnet-4-20250514",
        "anthropic/claude-opus-5",
        "anthropic/claude-12-x",
    ] {
        assert_eq!(drop(new), DroppedThinking::Nothing, "{new}");
    }
    let entry = Target {
        reasoning: Some(false),
        ..Target::new(route("anthropic/claude-opus-4-5", Api::AnthropicMessages))
    };
    assert_eq!(HygienePolicy::of(&entry).drop, DroppedThinking::All);
}

#[test]
fn bedrock_follows_anthropic_with_smaller_pictures() {
    let policy = of("amazon-bedrock/anthropic.claude-sonnet-4-5-v1:0", Api::BedrockConverseStream);
    assert_eq!(
        (policy.row, policy.ids, policy.thinking),
        (PolicyRow::Bedrock, IdFormat::Native, Thinking::Signed)
    );
    assert!(policy.merge_users && policy.picture_bytes < DEFAULT_PICTURE_BYTES);
}

#[test]
fn mistral_is_recognised_by_provider_and_by_model() {
    for model in ["mistral/any", "openrouter/mistralai/devstral-2", "ollama/mixtral:8x7b", "x/Codestral-25"] {
        let policy = of(model, Api::OpenAiCompletions);
        assert_eq!((policy.row, policy.ids), (PolicyRow::Mistral, IdFormat::Nine), "{model}");
    }
}

#[test]
fn routers_keep_the_rules_of_the_model_behind_them() {
    let gemini = of("openrouter/google/gemini-3-pro", Api::OpenAiCompletions);
    assert_eq!(
        (gemini.row, gemini.marks),
        (PolicyRow::RouterGemini, SignatureRule::Base64 { stand_in: true })
    );
    let claude = thinking("openrouter/anthropic/claude-opus-4.5", Api::OpenAiCompletions);
    assert_eq!((claude.row, claude.no_prefill), (PolicyRow::RouterClaude, true));
    assert!(!of("openrouter/anthropic/claude-opus-4.5", Api::OpenAiCompletions).no_prefill);
    for model in ["openrouter/openai/gpt-5", "opencode/claude-opus-4-5", "kilocode/x"] {
        let policy = HygienePolicy { row: PolicyRow::Router, thinking: Thinking::Own, ..BASE_POLICY };
        assert_eq!(of(model, Api::OpenAiCompletions), policy, "{model}");
    }
}

#[test]
fn other_routes_are_only_paired() {
    assert_eq!(of("github-copilot/gpt-5", Api::OpenAiCompletions), BASE_POLICY);
    assert_eq!(of("script/demo", Api::OpenAiCompletions), BASE_POLICY);
    let claude = of("github-copilot/claude-sonnet-4", Api::OpenAiCompletions);
    assert_eq!((claude.row, claude.drop), (PolicyRow::CopilotClaude, DroppedThinking::Older));
}
