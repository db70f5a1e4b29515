//! The JSON structure of a generateContent request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::family::ThinkingConfig;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig<'a>>,
    pub(super) generation_config: GenerationConfig<'a>,
    // The growing part comes last, so that all requests of a session begin with the same bytes.
    pub(super) contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
pub(super) struct Instruction<'a> {
    pub(super) parts: [Part<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tools<'a> {
    pub(super) function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionDeclaration<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters_json_schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'a> {
    pub(super) function_calling_config: CallingMode<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallingMode<'a> {
    pub(super) mode: &'static str,
    /// The only functions that may be called, if there are such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allowed_function_names: Option<[&'a str; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerationConfig<'a> {
    pub(super) max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_json_schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
pub(super) struct Content<'a> {
    pub(super) role: &'static str,
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(flatten)]
    pub(super) kind: PartKind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum PartKind<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thought: bool,
    },
    #[serde(rename_all = "camelCase")]
    Picture { inline_data: Picture<'a> },
    #[serde(rename_all = "camelCase")]
    Call { function_call: Call<'a> },
    #[serde(rename_all = "camelCase")]
    Output { function_response: Output<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Picture<'a> {
    pub(super) mime_type: &'a str,
    pub(super) data: &'a str,
}

#[derive(Serialize)]
pub(super) struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) args: Cow<'a, Value>,
}

#[derive(Serialize)]
pub(super) struct Output<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) response: FunctionResult<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FunctionResult<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

impl<'a> From<PartKind<'a>> for Part<'a> {
    fn from(kind: PartKind<'a>) -> Self {
        Self { kind, thought_signature: None }
    }
}

impl Part<'_> {
    pub(super) const fn is_output(&self) -> bool {
        matches!(self.kind, PartKind::Output { .. })
    }
}
