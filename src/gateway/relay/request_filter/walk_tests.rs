//! Tests what is passed on and what is refused, in each wire format and in any spelling.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::config::Api;
use crate::gateway::relay::request_filter::{self, ContentSize, RejectedPart};
use crate::provider::wire_format;

const ALL: [Api; 4] =
    [Api::AnthropicMessages, Api::OpenAiResponses, Api::OpenAiCompletions, Api::GoogleGenerativeAi];

fn check(body: &[u8], api: Api) -> Result<ContentSize, RejectedPart> {
    request_filter::check(body, wire_format::of(api).relay.unwrap())
}

fn check_value(body: &Value, api: Api) -> Result<ContentSize, RejectedPart> {
    check(body.to_string().as_bytes(), api)
}

/// Returns a request as the programs send it, with everything that is harmless but looks suspicious.
fn harmless(api: Api) -> Value {
    // The schema and the arguments of a tool are data of the program.
    let schema = json!({"type": "object", "properties": {
        "url": {"type": "string", "format": "uri", "default": "https://a.example"},
        "file_id": {"type": "string"}, "tools": {"type": ["array", "null"]}, "container": {}, "fileData": {},
    }});
    let given = json!({"url": "https://a.example", "file_id": "f", "type": "url", "tools": ["web_search"],
        "container": "c", "fileData": {"fileUri": "gs://x"}, "store": true});
    match api {
        Api::AnthropicMessages => json!({
            "model": "claude", "max_tokens": 100, "stream": true, "temperature": 1, "stop_sequences": ["x"],
            "metadata": {"user_id": "{\"a\": 1}"}, "thinking": {"type": "adaptive"}, "service_tier": "auto",
            "output_config": {"effort": "high"}, "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
            "container": null, "mcp_servers": null,
            "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
            "tools": [
                {"name": "Fetch", "description": "of https://a.example", "input_schema": schema, "input_examples": [given]},
                {"type": "custom", "name": "b", "input_schema": schema},
                {"type": "bash_20250124", "name": "bash"},
                {"type": "text_editor_20250728", "name": "edit"},
            ],
            "tool_choice": {"type": "auto"},
            "messages": [
                {"role": "user", "content": "look at https://a.example, \"type\": \"web_search_20250305\""},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "t", "name": "Fetch", "input": given},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": [
                        {"type": "text", "text": "https://a.example"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    ]},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
                ]},
                {"role": "system", "content": [{"type": "tool_addition", "tool": {
                    "type": "tool_definition", "definition": {"name": "c", "input_schema": schema}}}]},
            ],
        }),
        Api::OpenAiResponses => json!({
            "model": "gpt", "instructions": "be brief", "stream": true, "store": false, "background": null,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "parallel_tool_calls": true,
            "client_metadata": {"conversation": "a", "url": "https://a.example"}, "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "schema": schema}}, "previous_response_id": null,
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "run"}]},
            "tools": [
                {"type": "function", "name": "run", "strict": false, "parameters": schema},
                {"type": "custom", "name": "exec", "format": {"type": "grammar", "definition": "x", "syntax": "lark"}},
                {"type": "namespace", "name": "mcp__flock", "tools": [{"type": "function", "name": "a", "parameters": schema}]},
                {"type": "local_shell"},
            ],
            "input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "https://a.example"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
                ]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA"},
                {"type": "function_call", "call_id": "1", "name": "run", "arguments": given.to_string()},
                {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "ok"}]},
                {"type": "local_shell_call", "call_id": "2", "action": {"type": "exec", "command": ["curl"], "env": given}},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": [
                    {"type": "url_citation", "url": "https://a.example"}, {"type": "file_citation", "file_id": "f"}]}]},
                {"type": "additional_tools", "tools": [{"type": "function", "name": "b", "parameters": schema}]},
            ],
        }),
        Api::OpenAiCompletions => json!({
            "model": "any", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 100,
            "reasoning_effort": "low", "tool_choice": "auto", "store": null, "plugins": null,
            "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
            "tools": [{"type": "function", "function": {"name": "run", "parameters": schema}}],
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [
                    {"type": "text", "text": "https://a.example"},
                    {"type": "image_url", "image_url": {"url": "DATA:image/png;base64,AAAA", "detail": "high"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
                ]},
                {"role": "assistant", "content": null, "audio": null, "reasoning_content": "hm", "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "run", "arguments": given.to_string()}}]},
                {"role": "tool", "tool_call_id": "1", "content": "ok"},
                {"role": "assistant", "content": "a", "annotations": [{"url_citation": {"url": "https://a.example"}}]},
            ],
        }),
        _ => json!({
            "system_instruction": {"parts": [{"text": "be brief"}]}, "cachedContent": null,
            "generationConfig": {"maxOutputTokens": 5, "responseJsonSchema": schema, "thinkingConfig": {}},
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}, "safetySettings": [],
            "tools": [{"functionDeclarations": [{"name": "run", "parametersJsonSchema": schema}]},
                {"function_declarations": [{"name": "b", "parameters": schema}]}],
            "contents": [
                {"role": "user", "parts": [{"text": "https://a.example"},
                    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
                {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "run", "args": given}, "thoughtSignature": "s"}]},
                {"role": "user", "parts": [{"functionResponse": {"id": "1", "name": "run", "response": given,
                    "parts": [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]}}]},
            ],
        }),
    }
}

/// Returns everything that reaches beyond the model in each wire format: in the outermost object, in tools, and in
/// contents.
fn forbidden_parts(api: Api) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
    let all = |value: Value| match value {
        Value::Array(all) => all,
        _ => unreachable!(),
    };
    let (top, tools, contents) = match api {
        Api::AnthropicMessages => (
            json!([
                {"mcp_servers": [{"type": "url", "url": "https://a.example", "name": "a"}]}, {"container": "c_1"},
                {"container": {"skills": []}}, {"service_tier": "priority"}, {"service_tier": ["auto"]}, {"speed": "fast"},
                {"inference_geo": "us"}, {"fallbacks": [{"model": "other"}]}, {"models": ["other"]},
                {"thread": {"type": "continue"}}, {"anthropic_beta": ["x"]}, {"user_profile_id": "u"}, {"of_tomorrow": 1},
            ]),
            json!([
                {"type": "web_search_20250305", "name": "web_search"}, {"type": "web_fetch_20260209"},
                {"type": "code_execution_20250825"}, {"type": "mcp_toolset", "mcp_server_name": "a"},
                {"type": "tool_search_tool_regex_20251119"}, {"type": "advisor_20260301"}, {"type": "bash"},
                {"type": "bash_code_execution_20250825"}, {"type": "bash_2025012x"}, {"type": 7}, {"type": ["custom"]},
                "web_search_20250305",
            ]),
            json!([
                {"type": "image", "source": {"type": "url", "url": "https://a.example/a.png"}},
                {"type": "document", "source": {"type": "file", "file_id": "f_1"}},
                {"type": "document", "source": {"file_id": "f_1"}},
                {"type": "document", "source": {"type": "content", "content": [{"source": {"url": "http://a.example"}}]}},
                {"type": "container_upload", "file_id": "f_1"}, {"type": "server_tool_use", "input": {}},
                {"type": "tool_addition", "tool": {"definition": {"type": "web_search_20250305"}}},
                {"type": "tool_addition", "tools": [{"type": "web_fetch_20250910"}]}, {"type": "web_search_20250305"},
                {"type": "tool_addition", "tools": {"type": "web_fetch_20250910"}},
            ]),
        ),
        Api::OpenAiResponses => (
            json!([
                {"previous_response_id": "resp_1"}, {"conversation": "conv_1"}, {"conversation": {"id": "conv_1"}},
                {"prompt": {"id": "pmpt_1"}}, {"background": true}, {"store": true}, {"store": "true"}, {"store": 1},
                {"service_tier": "flex"}, {"service_tier": "priority"}, {"of_tomorrow": {}},
                {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "mcp", "server_label": "a"}]}},
            ]),
            json!([
                {"type": "web_search"}, {"type": "web_search_preview_2025_03_11"}, {"type": "file_search", "vector_store_ids": ["v"]},
                {"type": "code_interpreter", "container": {"type": "auto"}}, {"type": "mcp", "server_url": "https://a.example"},
                {"type": "image_generation"}, {"type": "computer_use_preview"}, {"type": "tool_search"},
                {"type": "shell", "environment": {"type": "container_auto"}},
                {"type": "namespace", "name": "a", "tools": [{"type": "web_search"}]},
            ]),
            json!([
                {"type": "item_reference", "id": "msg_1"}, {"type": "input_image", "image_url": "https://a.example/a.png"},
                {"type": "input_image", "image_url": " data:image/png;base64,AA"}, {"type": "input_image", "file_id": "f"},
                {"type": "input_image", "image_url": ["https://a.example"]}, {"type": "input_file", "file_url": "http://a.example"},
                {"type": "input_file", "file_id": "f_1"}, {"type": "image_generation_call", "id": "ig_1"},
                {"type": "mcp_approval_response", "approve": true}, {"type": "additional_tools", "tools": [{"type": "web_search"}]},
            ]),
        ),
        Api::OpenAiCompletions => (
            json!([
                {"web_search_options": {}}, {"plugins": [{"id": "web"}]}, {"transforms": ["middle-out"]}, {"route": "fallback"},
                {"provider": {"order": ["a"]}}, {"models": ["other"]}, {"store": true}, {"service_tier": "priority"},
                {"search_parameters": {"mode": "on"}}, {"enable_search": true}, {"extra_body": {}}, {"of_tomorrow": 1},
                {"previous_response_id": "r"},
            ]),
            json!([
                {"type": "web_search"}, {"type": "openrouter:web_search"}, {"type": "builtin_function", "function": {"name": "$web_search"}},
                {"googleSearch": {}}, {"type": "function", "function": {"name": "a"}, "google_search": {}},
                {"type": "mcp", "server_url": "https://a.example"},
            ]),
            json!([
                {"type": "image_url", "image_url": {"url": "https://a.example/a.png"}},
                {"type": "image_url", "image_url": "https://a.example/a.png"}, {"type": "video_url", "video_url": {"url": "http://a"}},
                {"type": "file", "file": {"file_id": "f_1"}}, {"audio": {"id": "audio_1"}},
            ]),
        ),
        _ => (
            json!([
                {"cachedContent": "cachedContents/a"}, {"cached_content": "cachedContents/a"}, {"store": true},
                {"serviceTier": "flex"}, {"service_tier": "SERVICE_TIER_PRIORITY"}, {"generateContentRequest": {}},
                {"generationConfig": {"routingConfig": {"manualMode": {"modelName": "other"}}}}, {"of_tomorrow": 1},
            ]),
            json!([
                {"googleSearch": {}}, {"google_search": {}}, {"googleSearchRetrieval": {}}, {"urlContext": {}}, {"url_context": {}},
                {"codeExecution": {}}, {"code_execution": {}}, {"fileSearch": {}}, {"googleMaps": {}}, {"mcpServers": []},
                {"functionDeclarations": [], "urlContext": {}}, {"retrieval": {}}, [{"urlContext": {}}],
            ]),
            json!([
                {"fileData": {"fileUri": "gs://a"}}, {"file_data": {"file_uri": "https://a.example"}},
                {"inlineData": {"fileUri": "https://a.example"}}, {"functionResponse": {"parts": [{"fileData": {}}]}},
            ]),
        ),
    };
    (all(top), all(tools), all(contents))
}

/// Returns requests with one forbidden part each.
fn hostile(api: Api) -> Vec<Value> {
    let (top, tools, contents) = forbidden_parts(api);
    let mut bodies = Vec::new();
    for way in top {
        let mut body = harmless(api);
        body.as_object_mut().unwrap().extend(way.as_object().unwrap().clone());
        bodies.push(body);
    }
    for way in tools {
        let mut body = harmless(api);
        body["tools"].as_array_mut().unwrap().push(way);
        bodies.push(body);
    }
    let list = match api {
        Api::OpenAiResponses => "input",
        Api::GoogleGenerativeAi => "contents",
        _ => "messages",
    };
    for way in contents {
        for within in 0..3 {
            let mut body = harmless(api);
            let all = body[list].as_array_mut().unwrap();
            match (within, api) {
                (0, _) => all.push(way.clone()),
                (1, Api::GoogleGenerativeAi) => all[0]["parts"].as_array_mut().unwrap().push(way.clone()),
                (1, _) => all.push(json!({"role": "user", "content": [way]})),
                // A place that no wire format knows.
                _ => all.push(json!({"role": "user", "of_tomorrow": {"deep": [[way]]}})),
            }
            bodies.push(body);
        }
    }
    bodies
}

#[test]
fn what_the_programs_send_is_let_through() {
    for api in ALL {
        let seen = check_value(&harmless(api), api).unwrap();
        assert!(seen.pictures > 0, "{api:?}: {seen:?}");
    }
}

#[test]
fn every_way_out_is_refused_by_name() {
    for api in ALL {
        for body in hostile(api) {
            let refused = check_value(&body, api).expect_err(&body.to_string()).to_string();
            assert!(refused.contains('"'), "{refused}");
        }
    }
    let refused = |body: &str| check(body.as_bytes(), Api::OpenAiResponses).unwrap_err().to_string();
    for (body, name) in [
        (r#"{"previous_response_id": "r"}"#, "\"previous_response_id\""),
        (r#"{"tools": [{"type": "web_search"}]}"#, "\"web_search\""),
        (r#"{"store": true}"#, "\"store\""),
        (r#"{"input": [{"image_url": "http://a"}]}"#, "\"image_url\""),
        (r#"{"input": [{"type": "item_reference"}]}"#, "\"item_reference\""),
        (r#"{"input": [], "input": []}"#, "\"input\""),
    ] {
        assert!(refused(body).contains(name), "{}", refused(body));
    }
    let name = format!("{{\"{}\\u001b\": 1}}", "x".repeat(500));
    assert!(refused(&name).len() < 400, "what is named is bounded");
}

#[test]
fn a_key_that_comes_twice_hides_nothing() {
    for (api, body) in [
        (Api::AnthropicMessages, r#"{"tools": [], "tools": [{"type": "web_search_20250305"}]}"#),
        (Api::AnthropicMessages, r#"{"tools": [{"type": "web_search_20250305", "type": "custom"}]}"#),
        (Api::AnthropicMessages, r#"{"messages": [{"source": {"type": "url", "type": "base64"}}]}"#),
        (Api::AnthropicMessages, r#"{"messages": [{"source": {"url": "http://a", "url": "data:,"}}]}"#),
        (Api::OpenAiResponses, r#"{"store": false, "st\u006fre": false}"#),
        (Api::OpenAiResponses, r#"{"store": false, "Store": null}"#),
        (Api::OpenAiCompletions, r#"{"model": "a", "model": "b"}"#),
        (Api::GoogleGenerativeAi, r#"{"generationConfig": {}, "generation_config": {}}"#),
        (
            Api::GoogleGenerativeAi,
            r#"{"contents": [{"parts": [{"text": "a", "fileData": {}, "fileData": null}]}]}"#,
        ),
    ] {
        assert!(check(body.as_bytes(), api).is_err(), "{body}");
    }
}

#[test]
fn nesting_beyond_the_limit_is_refused() {
    for api in ALL {
        let name = match api {
            Api::OpenAiResponses => "input",
            Api::GoogleGenerativeAi => "contents",
            _ => "messages",
        };
        let deep = |depth: usize| format!("{{\"{name}\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(deep(100).as_bytes(), api).is_ok());
        assert_eq!(check(deep(1_000_000).as_bytes(), api), Err(RejectedPart::TooDeep));
    }
    // Data is not walked, so it may be nested to any depth.
    let schema = format!("{}{}", "{\"a\":".repeat(5_000), "1".to_owned() + &"}".repeat(5_000));
    let body = format!("{{\"tools\": [{{\"input_schema\": {schema}}}], \"container\": 1}}");
    assert_eq!(
        check(body.as_bytes(), Api::AnthropicMessages),
        Err(RejectedPart::Entry("container".to_owned()))
    );
}

#[test]
fn a_picture_is_one_only_in_its_place() {
    let data = "QUJD".repeat(1_000);
    for (api, content, pictures, documents) in [
        (
            Api::AnthropicMessages,
            json!({"source": {"type": "base64", "media_type": "image/png", "data": data}}),
            1,
            0,
        ),
        (
            Api::AnthropicMessages,
            json!({"source": {"data": data, "media_type": "image/png", "type": "base64"}}),
            1,
            0,
        ),
        (
            Api::AnthropicMessages,
            json!({"source": {"type": "base64", "media_type": "application/pdf", "data": data}}),
            0,
            4_000,
        ),
        (
            Api::AnthropicMessages,
            json!({"source": {"type": "text", "media_type": "image/png", "data": data}}),
            0,
            0,
        ),
        (Api::AnthropicMessages, json!({"type": "base64", "media_type": "image/png", "data": data}), 0, 0),
        (
            Api::AnthropicMessages,
            json!({"source": [{"type": "base64", "media_type": "image/png", "data": data}]}),
            0,
            0,
        ),
        (Api::AnthropicMessages, json!({"type": "text", "text": data}), 0, 0),
        (Api::OpenAiResponses, json!({"image_url": format!("data:image/png;base64,{data}")}), 1, 0),
        (Api::OpenAiResponses, json!({"file_data": data}), 0, 4_000),
        (Api::OpenAiResponses, json!({"image_url": format!("data:text/plain;base64,{data}")}), 0, 4_023),
        (
            Api::OpenAiCompletions,
            json!({"image_url": {"url": format!("data:image/png;base64,{data}")}}),
            1,
            0,
        ),
        (Api::OpenAiCompletions, json!({"text": {"url": format!("data:image/png;base64,{data}")}}), 0, 0),
        (Api::OpenAiCompletions, json!({"input_audio": {"data": data}}), 0, 4_000),
        (Api::GoogleGenerativeAi, json!({"inlineData": {"mimeType": "image/png", "data": data}}), 1, 0),
        (Api::GoogleGenerativeAi, json!({"inline_data": {"mime_type": "audio/mp3", "data": data}}), 0, 4_000),
        (Api::GoogleGenerativeAi, json!({"inlineData": {"data": data}}), 0, 0),
        (Api::GoogleGenerativeAi, json!({"text": data}), 0, 0),
    ] {
        let list = match api {
            Api::OpenAiResponses => "input",
            Api::GoogleGenerativeAi => "contents",
            _ => "messages",
        };
        let seen = check_value(&json!({list: [{"parts": [content]}]}), api).unwrap();
        assert_eq!((seen.pictures, seen.document_bytes), (pictures, documents), "{content}");
    }
    // With two types or two data entries nobody knows which one counts.
    for double in [
        r#"{"type":"base64","type":"text","media_type":"image/png","data":"QUJD"}"#,
        r#"{"type":"base64","media_type":"image/png","media_type":"text/plain","data":"QUJD"}"#,
        r#"{"type":"base64","media_type":"image/png","data":"QUJD","data":"x"}"#,
    ] {
        let body = format!("{{\"messages\":[{{\"source\":{double}}}]}}");
        assert_eq!(check(body.as_bytes(), Api::AnthropicMessages).unwrap().picture_bytes, 0, "{body}");
    }
}

/// Returns the same document in another form: entries in another order, letters as escapes, and additional spaces.
fn respell(value: &Value, seed: &mut u64) -> String {
    let mut next = |of: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % of
    };
    match value {
        Value::String(text) => {
            let mut written = String::from("\"");
            for unit in text.encode_utf16() {
                match u8::try_from(unit).map(char::from) {
                    Ok(letter) if letter.is_ascii_alphanumeric() && next(4) > 0 => written.push(letter),
                    _ => drop(write!(written, "\\u{unit:04x}")),
                }
            }
            written + "\""
        }
        Value::Array(all) => {
            let all: Vec<String> = all.iter().map(|one| respell(one, seed)).collect();
            format!("[{}]", all.join(" , "))
        }
        Value::Object(map) => {
            let mut all: Vec<(&String, &Value)> = map.iter().collect();
            let by = next(all.len().max(1) as u64) as usize;
            all.rotate_left(by);
            let all: Vec<String> = all
                .into_iter()
                .map(|(key, value)| {
                    let key = respell(&Value::from(key.as_str()), seed);
                    format!("{key} :\n{}", respell(value, seed))
                })
                .collect();
            format!("{{{}}}", all.join(","))
        }
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn no_other_spelling_opens_a_way_or_closes_one(mut seed in any::<u64>()) {
        for api in ALL {
            let body = respell(&harmless(api), &mut seed);
            prop_assert!(check(body.as_bytes(), api).is_ok(), "{body}");
            for hostile in hostile(api) {
                let body = respell(&hostile, &mut seed);
                prop_assert!(check(body.as_bytes(), api).is_err(), "{body}");
            }
        }
    }

    #[test]
    fn checking_any_bytes_ends(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for api in ALL {
            drop(check(&bytes, api));
        }
    }

    #[test]
    fn names_mean_the_same_in_every_case_and_with_or_without_marks(upper in any::<u32>(), mark in 0usize..6) {
        for name in ["file_id", "container_id", "image_url", "type"] {
            let mut other: String = name.chars().enumerate().map(|(at, letter)| {
                if upper >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
            }).collect();
            other.insert(mark.min(other.len()), '_');
            let value = if name == "type" { "item_reference" } else { "https://a.example" };
            let body = json!({"input": [{"content": [{other: value}]}]});
            prop_assert!(check_value(&body, Api::OpenAiResponses).is_err(), "{body}");
        }
    }
}

/// This is a measurement and not a test: `cargo test --release --lib -- --ignored --nocapture largest_request`.
#[test]
#[ignore = "a measurement"]
fn measure_the_check_of_the_largest_request() {
    let text = json!({"type": "text", "text": "word ".repeat(200)}).to_string();
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD".repeat(1 << 20)}});
    let small = "{\"a\":1}".to_owned();
    for (what, piece) in
        [("texts of 1 KB", text), ("pictures of 4 MB", picture.to_string()), ("{\"a\":1}", small)]
    {
        let count = (32 << 20) / (piece.len() + 1);
        let body = format!("{{\"messages\":[{}]}}", vec![piece.as_str(); count].join(","));
        let from = std::time::Instant::now();
        assert!(check(body.as_bytes(), Api::AnthropicMessages).is_ok());
        println!("{what}: {} MiB in {:?}", body.len() >> 20, from.elapsed());
    }
}
