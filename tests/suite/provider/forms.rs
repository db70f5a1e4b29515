//! The form of an answer's text: models that can be held to one by their provider are.

use flock::config::model::Api;
use flock::provider::{AnswerFormat, ProviderError, Request};
use serde_json::{Value, json};

use super::{Stage, hello};
use crate::support::model_server::check;

/// A form with what Anthropic refuses in one: a limit, a length, an object that is not closed.
pub fn form() -> AnswerFormat {
    let schema = json!({
        "type": "object", "required": ["n"],
        "properties": {"n": {"type": "integer", "minimum": 3}, "names": {"type": "array", "maxItems": 4,
            "items": {"type": "string", "minLength": 1}}},
    });
    AnswerFormat::JsonSchema { name: "number".into(), schema, strict: Some(true) }
}

fn wanting(model: &str, format: AnswerFormat, has_tools: bool) -> Request {
    let mut request = Request { model: model.into(), format: Some(format), ..hello() };
    if !has_tools {
        request.tools.clear();
    }
    request
}

async fn sent(api: Api, request: &Request) -> Value {
    let stage = Stage::new(api);
    stage.ask(request).await.0.unwrap();
    assert!(stage.server.rejections().is_empty(), "{:?}", stage.server.rejections());
    stage.server.requests().remove(0).body
}

#[tokio::test]
async fn claude_is_held_to_a_schema_in_the_words_that_it_takes() {
    let api = Api::AnthropicMessages;
    for model in ["claude-sonnet-4-5-20250929", "claude-haiku-4-5", "claude-opus-4-7", "claude-opus-5"] {
        let body = sent(api, &wanting(model, form(), true)).await;
        let format = &body["output_config"]["format"];
        assert_eq!(format["type"], "json_schema", "{model}: {body}");
        assert_eq!(format["schema"]["additionalProperties"], false);
        assert_eq!(format["schema"]["properties"]["n"], json!({"type": "integer"}));
        assert_eq!(format["schema"]["required"], json!(["n"]));
    }
    let open = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let open = AnswerFormat::JsonSchema { name: "open".into(), schema: open, strict: None };
    for (model, format) in [
        ("claude-sonnet-4-20250514", form()),
        ("MiniMax-M2", form()),
        ("claude-opus-4-7", AnswerFormat::JsonObject),
        ("claude-opus-4-7", open),
    ] {
        let body = sent(api, &wanting(model, format, true)).await;
        assert!(body["output_config"].get("format").is_none(), "{model}: {body}");
    }
}

#[tokio::test]
async fn gemini_is_held_to_a_schema_beside_tools_from_the_third_on() {
    let api = Api::GoogleGenerativeAi;
    for (model, has_tools, is_held) in [
        ("gemini-3-pro-preview", true, true),
        ("gemini-3-flash", false, true),
        ("gemini-2.5-pro", false, true),
        ("gemini-2.5-pro", true, false),
        ("gemini-2.0-flash", false, false),
        ("gemma-3-27b-it", false, false),
    ] {
        let config = &sent(api, &wanting(model, form(), has_tools)).await["generationConfig"];
        assert_eq!(config["responseMimeType"] == "application/json", is_held, "{model}: {config}");
        let minimum = &config["responseJsonSchema"]["properties"]["n"]["minimum"];
        assert_eq!(*minimum == 3, is_held, "{model}: {config}");
    }
    let config =
        &sent(api, &wanting("gemini-3-flash", AnswerFormat::JsonObject, true)).await["generationConfig"];
    assert_eq!(config["responseMimeType"], "application/json");
    assert!(config.get("responseJsonSchema").is_none(), "{config}");
}

#[test]
fn a_refusal_of_a_form_is_known_by_its_words() {
    for message in [
        "output_config.format.schema: For 'array' type, property 'maxItems' is not supported",
        "'claude-sonnet-4-20250514' does not support output format.",
        "Function calling with a response mime type: 'application/json' is unsupported",
        "The specified schema produces a constraint that has too many states for serving.",
        "This model doesn't support the outputConfig field. Remove outputConfig and try again.",
    ] {
        let error = ProviderError::from_status("test", 400, message, None);
        assert!(error.refuses_format(), "{message}");
    }
    let other = ProviderError::from_status("test", 400, "max_tokens: 9 is more than 8", None);
    assert!(!other.refuses_format());
}

/// What the servers of these tests hold against forms that no encoder makes.
#[test]
fn the_servers_refuse_schemas_that_no_model_is_held_to() {
    let closed =
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false});
    check::held_to(&closed).unwrap();
    for (schema, word) in [
        (json!({"type": "object", "properties": {}}), "additionalProperties"),
        (json!({"type": "integer", "minimum": 1}), "minimum"),
        (json!({"type": "array", "items": {"type": "string"}, "maxItems": 2}), "maxItems"),
    ] {
        let mut within = closed.clone();
        within["properties"]["a"] = schema;
        let error = check::held_to(&within).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}
