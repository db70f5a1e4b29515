//! The JSON structure of a Responses request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::super::AnswerFormat;
use super::super::data_url::DataUrl;
use super::super::serialization::as_json_text;
use super::item::ReasoningItem;

#[derive(Serialize)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) stream: bool,
    // Nothing is stored at the provider, so each request contains the whole conversation.
    pub(super) store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<ReasoningOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<TextOptions<'a>>,
    // The growing part comes last, so that all requests of a session begin with the same bytes.
    pub(super) input: Vec<Item<'a>>,
}

#[derive(Serialize)]
pub(super) struct TextOptions<'a> {
    // The type serialises in the form of this API.
    pub(super) format: &'a AnswerFormat,
}

#[derive(Serialize)]
pub(super) struct ReasoningOptions {
    pub(super) effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: &'a Value,
    /// The API's default is `true`, which refuses schemas with optional fields.
    pub(super) strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Item<'a> {
    Own(TypedItem<'a>),
    Reasoning(ReasoningItem<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum TypedItem<'a> {
    Message {
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<Cow<'a, str>>,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        #[serde(serialize_with = "as_json_text")]
        arguments: Cow<'a, Value>,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    InputText {
        text: Cow<'a, str>,
    },
    InputImage {
        image_url: DataUrl<'a>,
        detail: &'static str,
    },
    OutputText {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<[(); 0]>,
    },
}
