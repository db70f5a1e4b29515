//! The JSON structure of a Converse request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::effort::AdditionalFields;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    pub(super) inference_config: Inference,
    // The fields depend on the maker of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) additional_model_request_fields: Option<AdditionalFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<Part<'a>>,
    // The growing part comes last, so that all requests of a session begin with the same bytes.
    pub(super) messages: Vec<Turn<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputConfig<'a> {
    pub(super) text_format: TextFormat<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum TextFormat<'a> {
    JsonSchema { structure: Structure<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Structure<'a> {
    pub(super) json_schema: Schema<'a>,
}

/// A schema, which Converse takes as a JSON text.
#[derive(Serialize)]
pub(super) struct Schema<'a> {
    pub(super) name: &'a str,
    pub(super) schema: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'a> {
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Tool<'a> {
    #[serde(rename_all = "camelCase")]
    ToolSpec {
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        input_schema: JsonSchema<'a>,
    },
    CachePoint(CachePoint),
}

#[derive(Serialize)]
pub(super) struct JsonSchema<'a> {
    pub(super) json: Cow<'a, Value>,
}

#[derive(Serialize)]
pub(super) struct Turn<'a> {
    pub(super) role: &'static str,
    pub(super) content: Vec<Part<'a>>,
}

/// A part of a message. Each one is an object with a single key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Part<'a> {
    Text(Cow<'a, str>),
    Image(Image<'a>),
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Part<'a>>,
        // Only Claude and Nova accept a status.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    ReasoningContent(Reasoning<'a>),
    /// A mark: the content before it may be cached for the next request.
    CachePoint(CachePoint),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reasoning<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

#[derive(Serialize)]
pub(super) struct Image<'a> {
    pub(super) format: &'a str,
    pub(super) source: Source<'a>,
}

/// The bytes of a picture, in Base64.
#[derive(Serialize)]
pub(super) struct Source<'a> {
    pub(super) bytes: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum CachePoint {
    Default,
}
