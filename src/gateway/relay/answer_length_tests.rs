use super::*;
use crate::config::Api;
use crate::provider::wire_format;

fn read(body: &str, api: Api) -> AnswerLength {
    let names = &wire_format::of(api).relay.unwrap().answer;
    AnswerLength::read(&entries(body.as_bytes()).unwrap(), body.as_ptr().addr(), names)
}

#[test]
fn the_answer_limit_is_read_as_a_provider_reads_it() {
    for (body, api, expected) in [
        ("{}", Api::AnthropicMessages, 7_000),
        (r#"{"max_tokens":100}"#, Api::AnthropicMessages, 100),
        (r#"{"max_tokens":1e2}"#, Api::AnthropicMessages, 100),
        (r#"{"max_tokens":100.5}"#, Api::AnthropicMessages, 101),
        (r#"{"max_tokens":1e5}"#, Api::AnthropicMessages, 7_000),
        (r#"{"max_tokens":1e999}"#, Api::AnthropicMessages, 7_000),
        (r#"{"max_tokens":90,"max_tokens":100}"#, Api::AnthropicMessages, 100),
        (r#"{"max_tokens":100,"max_completion_tokens":200,"n":3}"#, Api::OpenAiCompletions, 600),
        (r#"{"max_output_tokens":50}"#, Api::OpenAiResponses, 50),
        (r#"{"max_tokens":-1,"n":"x"}"#, Api::OpenAiCompletions, 7_000),
        (r#"{"max_tokens":"1e2","n":2e0}"#, Api::OpenAiCompletions, 14_000),
        (r#"{"generationConfig":{"maxOutputTokens":9,"candidateCount":2}}"#, Api::GoogleGenerativeAi, 18),
        (
            r#"{"generation_config":{"max_output_tokens":5e1},"generationConfig":{"maxOutputTokens":9,"max_output_tokens":8}}"#,
            Api::GoogleGenerativeAi,
            50,
        ),
        (
            r#"{"generationConfig":{"candidateCount":2},"generation_config":{"candidate_count":3}}"#,
            Api::GoogleGenerativeAi,
            21_000,
        ),
        (r#"{"generationConfig":7}"#, Api::GoogleGenerativeAi, 7_000),
        (r#"{"n":18446744073709551615,"max_tokens":2}"#, Api::OpenAiCompletions, u64::MAX),
    ] {
        assert_eq!(read(body, api).most(7_000), expected, "{body}");
    }
}

fn cut(body: &str, api: Api, most: u64) -> String {
    let mut edits = read(body, api).edits(most);
    edits.sort_by_key(|(at, _)| at.start);
    let mut text = body.to_owned();
    for (at, new) in edits.into_iter().rev() {
        text.replace_range(at, &new);
    }
    text
}

#[test]
fn limits_above_the_model_are_lowered_and_thinking_leaves_room_for_the_answer() {
    for (body, api, expected) in [
        (r#"{"max_tokens":2000,"x":9000}"#, Api::AnthropicMessages, r#"{"max_tokens":2000,"x":9000}"#),
        (r#"{"max_tokens": 2001 }"#, Api::AnthropicMessages, r#"{"max_tokens": 2000 }"#),
        (
            r#"{"max_tokens":1e5,"max_completion_tokens":5}"#,
            Api::OpenAiCompletions,
            r#"{"max_tokens":2000,"max_completion_tokens":5}"#,
        ),
        (
            r#"{"input":[],"max_output_tokens":1e999}"#,
            Api::OpenAiResponses,
            r#"{"input":[],"max_output_tokens":2000}"#,
        ),
        (
            r#"{"generationConfig":{"maxOutputTokens":9000},"generation_config":{"max_output_tokens":3000}}"#,
            Api::GoogleGenerativeAi,
            r#"{"generationConfig":{"maxOutputTokens":2000},"generation_config":{"max_output_tokens":2000}}"#,
        ),
        (
            r#"{"thinking":{"type":"enabled","budget_tokens":31999},"max_tokens":32000}"#,
            Api::AnthropicMessages,
            r#"{"thinking":{"type":"enabled","budget_tokens":1999},"max_tokens":2000}"#,
        ),
        (
            r#"{"thinking":{"budget_tokens":1500},"max_tokens":32000}"#,
            Api::AnthropicMessages,
            r#"{"thinking":{"budget_tokens":1500},"max_tokens":2000}"#,
        ),
        // A request that was wrong before stays wrong, and the provider tells the program so.
        (
            r#"{"thinking":{"budget_tokens":1500},"max_tokens":1000}"#,
            Api::AnthropicMessages,
            r#"{"thinking":{"budget_tokens":1500},"max_tokens":1000}"#,
        ),
    ] {
        assert_eq!(cut(body, api, 2_000), expected);
    }
    let thinks = r#"{"thinking": {"type":"enabled","budget_tokens":31999},"max_tokens":32000}"#;
    let expected = r#"{"thinking": {"type":"disabled"},"max_tokens":1000}"#;
    assert_eq!(cut(thinks, Api::AnthropicMessages, 1_000), expected);
}
