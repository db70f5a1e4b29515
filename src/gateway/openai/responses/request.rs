//! Parses a client's request for a response into the input of a turn.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::RepeatedFields;
use crate::gateway::error::ApiError;
use crate::gateway::openai::client_tools::{self, ToolForm, ToolParams};
use crate::gateway::openai::request::{arguments, ends_with_input, image, is_given, result, with_format};
use crate::gateway::openai::{AnswerLimits, ChatInput, ResponseFormat};
use crate::provider::call::is_plain;
use crate::provider::{Block, Message, Role};

/// Most images in one request.
const MAX_IMAGES: usize = 20;
/// Most key-value pairs of `metadata`, and most bytes of a key and of a value.
const METADATA_LIMITS: (usize, usize, usize) = (16, 64, 512);
/// Values of `include` that are accepted: what they name is never there, or is there in any case.
const INCLUDABLE: [&str; 3] =
    ["reasoning.encrypted_content", "message.input_image.image_url", "file_search_call.results"];

/// Parameters that are accepted and have no effect: an agent's settings, or flock itself, decide what they ask for, and an
/// answer is complete and true without them.
const WITHOUT_EFFECT: [&str; 11] = [
    "context_management",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "stream_options",
    "temperature",
    "top_p",
    "truncation",
];

/// The body of `POST /v1/responses`.
#[derive(Debug, Deserialize)]
pub(crate) struct ResponseRequest {
    /// Name of the agent.
    pub(crate) model: String,
    input: Option<Value>,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    store: Option<bool>,
    stream: Option<bool>,
    text: Option<Value>,
    max_output_tokens: Option<u64>,
    metadata: Option<Map<String, Value>>,
    include: Option<Vec<String>>,
    user: Option<String>,
    tools: Option<Value>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    max_tool_calls: Option<Value>,
    background: Option<bool>,
    conversation: Option<Value>,
    prompt: Option<Value>,
    top_logprobs: Option<Value>,
    /// Everything else. `None` stands for `null`, which asks for nothing.
    #[serde(flatten)]
    others: BTreeMap<String, Option<IgnoredAny>>,
}

/// The input of a turn for a response.
#[derive(Debug)]
pub(crate) struct ResponseInput {
    pub(crate) chat: ChatInput,
    /// The parts that the response repeats.
    pub(crate) repeated: RepeatedFields,
}

impl ResponseRequest {
    /// Returns `true` if the answer is to be streamed.
    #[must_use]
    pub(crate) fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    /// Returns `true` if the response can be read again and continued. That is the default.
    #[must_use]
    pub(crate) fn stores(&self) -> bool {
        self.store != Some(false)
    }

    /// Returns the id of the response that this one continues.
    #[must_use]
    pub(crate) fn previous(&self) -> Option<&str> {
        self.previous_response_id.as_deref()
    }

    /// Returns the items of the input that only refer to items of stored responses, with their positions.
    pub(crate) fn references(&mut self) -> impl Iterator<Item = (usize, &mut Value)> {
        let items = self.input.as_mut().and_then(Value::as_array_mut).into_iter().flatten().enumerate();
        items.filter(|(_, item)| item["type"] == "item_reference")
    }

    /// Returns the input of a turn for this request.
    ///
    /// # Errors
    ///
    /// Returns 400 that names the parameter if the request asks for something that an agent does not do, or if its
    /// input has an unknown item or no message of a user at its end.
    pub(crate) fn into_input(self) -> Result<ResponseInput, ApiError> {
        self.refuse_unsupported()?;
        let wanted = self.text.as_ref().map(|text| &text["format"]).filter(|format| !format.is_null());
        let format = wanted.map(ResponseFormat::of_response).transpose()?.flatten();
        if self.max_output_tokens == Some(0) {
            return Err(invalid("max_output_tokens", "must be 1 or more"));
        }
        let params = ToolParams {
            tools: self.tools.as_ref(),
            choice: self.tool_choice.as_ref(),
            parallel: self.parallel_tool_calls,
        };
        let client = client_tools::read(ToolForm::Response, params)?;
        let tokens = self.max_output_tokens.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        let metadata = self.metadata.unwrap_or_default();
        check_metadata(&metadata)?;
        let mut chat = ChatInput {
            messages: Vec::new(),
            context: Vec::new(),
            format,
            bound: AnswerLimits { stops: Vec::new(), tokens },
            client,
        };
        chat.context.extend(self.instructions.clone().filter(|text| !text.trim().is_empty()));
        read_items(self.input.unwrap_or_default(), &mut chat)?;
        if !ends_with_input(&chat.messages) {
            return Err(ApiError::invalid(
                "no_user_message",
                "the last message of the input must be a user's and must not be empty, or the output of a call",
            )
            .with_param("input"));
        }
        with_format(&mut chat);
        let repeated = RepeatedFields {
            model: self.model,
            instructions: self.instructions,
            previous: self.previous_response_id,
            metadata,
            text: self.text,
            user: self.user,
            tools: self.tools.filter(|tools| !tools.is_null()),
            tool_choice: self.tool_choice.filter(|choice| !choice.is_null()),
            parallel_tool_calls: self.parallel_tool_calls,
            is_stored: self.store != Some(false),
        };
        Ok(ResponseInput { chat, repeated })
    }

    /// Refuses parameters that would change what the client gets and that an agent can't honour.
    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let unknown = self.include.iter().flatten().find(|name| !INCLUDABLE.contains(&name.as_str()));
        for (name, is_asked, why) in [
            (
                "max_tool_calls",
                is_given(&self.max_tool_calls),
                "the settings of flock limit an agent's steps",
            ),
            ("background", self.background == Some(true), "a response ends with its request"),
            ("conversation", is_given(&self.conversation), "use previous_response_id"),
            ("prompt", is_given(&self.prompt), "no prompts of OpenAI's are stored here"),
            ("top_logprobs", is_given(&self.top_logprobs), "no probabilities come with an agent's answer"),
            ("include", unknown.is_some(), "an agent's answer has nothing of the kind"),
        ] {
            if is_asked {
                let message = format!("{name} is not supported: {why}");
                return Err(ApiError::invalid("parameter_not_supported", message).with_param(name));
            }
        }
        // A client that asks for something flock has never heard of must not believe that it got it.
        let mut others = self.others.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name);
        if let Some(name) = others.find(|name| !WITHOUT_EFFECT.contains(&name.as_str())) {
            let name = crate::clean::summary(name, 64);
            let message = format!("{name} is not supported: flock knows no such parameter of a response");
            return Err(ApiError::invalid("parameter_not_supported", message).with_param(name));
        }
        // A session keeps its turns, so only the answer of a session that ends with it can leave nothing behind.
        if !self.stores() && self.previous_response_id.is_some() {
            let message = "store is false, but a response that continues another one is kept with it";
            return Err(ApiError::invalid("parameter_not_supported", message).with_param("store"));
        }
        Ok(())
    }
}

fn invalid(name: &'static str, what: &str) -> ApiError {
    ApiError::invalid("invalid_parameter", format!("{name} {what}")).with_param(name)
}

fn check_metadata(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    let (most, key_length, length) = METADATA_LIMITS;
    let fits = |(key, value): (&String, &Value)| {
        key.len() <= key_length && value.as_str().is_some_and(|value| value.len() <= length)
    };
    if metadata.len() > most || !metadata.iter().all(fits) {
        let what = format!("has at most {most} keys of {key_length} bytes with texts of {length} bytes");
        return Err(invalid("metadata", &what));
    }
    Ok(())
}

/// Reads the `input` parameter: a text of the user, or a list of items.
fn read_items(input: Value, chat: &mut ChatInput) -> Result<(), ApiError> {
    let items = match input {
        Value::String(text) => {
            if !text.is_empty() {
                chat.messages.push(Message::text(Role::User, text));
            }
            return Ok(());
        }
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        _ => return Err(invalid("input", "must be a text or a list of items")),
    };
    let mut images = 0;
    for (at, item) in items.into_iter().enumerate() {
        match item["type"].as_str() {
            None | Some("message") => read_message(&item, at, &mut images, chat)?,
            // A client that keeps the conversation itself sends back all items of earlier responses. These calls were
            // the agent's own, and the thinking is not for another turn.
            Some("mcp_call" | "reasoning") => {}
            Some("function_call") => add_call(&item, at, chat)?,
            Some("function_call_output") => {
                let call = item["call_id"].as_str().filter(|id| !id.is_empty());
                let call = call.ok_or_else(|| item_error(at, "is the output of a call without call_id"))?;
                let content = blocks(&item["output"], at, &mut images)?;
                chat.messages
                    .push(Message { role: Role::Tool, content: vec![result(call.to_owned(), content)] });
            }
            Some(other) => {
                let other = crate::clean::summary(other, 60);
                return Err(item_error(at, &format!("is of the type {other:?}, which is not supported")));
            }
        }
    }
    Ok(())
}

/// Adds a call of a client's tool to the answer that it belongs to.
fn add_call(item: &Value, at: usize, chat: &mut ChatInput) -> Result<(), ApiError> {
    let call = item["call_id"].as_str().filter(|id| !id.is_empty());
    let call = call.ok_or_else(|| item_error(at, "is a call without call_id"))?;
    let name = item["name"].as_str().filter(|name| is_plain(name));
    let name = name
        .ok_or_else(|| item_error(at, "is a call whose name is not 1 to 64 letters, digits, '_' and '-'"))?;
    let arguments = arguments(item["arguments"].as_str().unwrap_or_default().to_owned());
    let block = Block::call(call, name, arguments);
    match chat.messages.last_mut() {
        Some(last) if last.role == Role::Assistant => last.content.push(block),
        _ => chat.messages.push(Message { role: Role::Assistant, content: vec![block] }),
    }
    Ok(())
}

fn item_error(at: usize, what: &str) -> ApiError {
    ApiError::invalid("invalid_content", format!("input[{at}] {what}")).with_param("input")
}

fn read_message(item: &Value, at: usize, images: &mut usize, chat: &mut ChatInput) -> Result<(), ApiError> {
    let content = blocks(&item["content"], at, images)?;
    let role = match item["role"].as_str() {
        Some("system" | "developer") => {
            let text = crate::provider::message::joined_text(&content);
            if !text.trim().is_empty() {
                chat.context.push(text);
            }
            return Ok(());
        }
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(item_error(at, "has a role that is none of system, developer, user, assistant")),
    };
    if !content.is_empty() {
        chat.messages.push(Message { role, content });
    }
    Ok(())
}

fn blocks(content: &Value, at: usize, images: &mut usize) -> Result<Vec<Block>, ApiError> {
    let parts = match content {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) if text.is_empty() => return Ok(Vec::new()),
        Value::String(text) => return Ok(vec![Block::text(text.clone())]),
        Value::Array(parts) => parts,
        _ => return Err(item_error(at, "has a content that is neither a text nor a list")),
    };
    let mut blocks = Vec::with_capacity(parts.len());
    for (part_at, part) in parts.iter().enumerate() {
        let wrong = |what: &str| {
            let message = format!("input[{at}].content[{part_at}] {what}");
            ApiError::invalid("invalid_content", message).with_param("input")
        };
        match part["type"].as_str() {
            Some(kind @ ("input_text" | "output_text" | "text" | "refusal")) => {
                let field = if kind == "refusal" { "refusal" } else { "text" };
                let text = part[field].as_str().ok_or_else(|| wrong("does not hold what its type says"))?;
                if !text.is_empty() {
                    blocks.push(Block::text(text.to_owned()));
                }
            }
            Some("input_image") => {
                *images += 1;
                if *images > MAX_IMAGES {
                    let message = format!("a request may hold at most {MAX_IMAGES} images");
                    return Err(ApiError::invalid("too_many_images", message).with_param("input"));
                }
                let url = part["image_url"].as_str().ok_or_else(|| {
                    wrong("has no image_url: files that were sent before are not supported, send data:image/png;base64,…")
                })?;
                blocks.push(image(url).map_err(wrong)?);
            }
            _ => {
                return Err(wrong(
                    "has a type that is none of input_text, input_image, output_text, refusal",
                ));
            }
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(more: &Value) -> Result<ResponseInput, ApiError> {
        let mut body = json!({"model": "coder"});
        for (key, value) in more.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        serde_json::from_value::<ResponseRequest>(body).unwrap().into_input()
    }

    #[test]
    fn a_text_and_a_list_of_items_are_input() {
        let read = input(&json!({"input": "hi", "instructions": "be brief"})).unwrap();
        assert_eq!(read.chat.context, ["be brief"]);
        assert_eq!(read.chat.messages, [Message::text(Role::User, "hi")]);
        assert!(read.repeated.is_stored);
        let items = json!([
            {"role": "developer", "content": "be a pirate"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "what is this"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "mcp_call", "id": "mcp_1", "name": "exec", "arguments": "{}", "server_label": "flock"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "a picture", "annotations": []}]},
            {"role": "user", "content": "thanks"},
        ]);
        let read = input(&json!({"input": items, "store": false, "temperature": 0.2, "tools": [],
            "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"effort": "low"},
            "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}}))
        .unwrap();
        assert_eq!(read.chat.context, ["be a pirate"]);
        let roles: Vec<Role> = read.chat.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
        assert_eq!(read.chat.messages[0].content.len(), 2);
        assert!(!read.repeated.is_stored);
    }

    #[test]
    fn calls_and_their_outputs_are_part_of_the_conversation() {
        let items = json!([
            {"role": "user", "content": "how is it?"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{\"city\":\"Oslo\"}"},
            {"type": "function_call", "call_id": "c2", "name": "now", "arguments": ""},
            {"type": "function_call_output", "call_id": "c2", "output": "noon"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "mild"}]},
        ]);
        let tools = json!([{"type": "function", "name": "weather", "parameters": null, "strict": null}]);
        let read = input(&json!({"input": items, "tools": tools, "tool_choice": "required"})).unwrap();
        let roles: Vec<Role> = read.chat.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Tool]);
        assert_eq!(read.chat.messages[1].tool_calls().count(), 2);
        assert_eq!(read.chat.client.tools[0].spec.name, "weather");
        assert_eq!(read.repeated.tools, Some(tools));
    }

    #[test]
    fn what_changes_nothing_is_accepted_and_so_is_null() {
        let mut more = json!({"input": "hi", "unheard_of": null, "moderation": null, "background": false,
            "text": {"verbosity": "low"}, "user": "kim"});
        for name in WITHOUT_EFFECT {
            more[name] = json!({"any": ["value", 1]});
        }
        assert!(input(&more).is_ok());
    }

    #[test]
    fn what_can_not_be_honoured_is_refused_by_name() {
        let parts = |part: Value| json!({"input": [{"role": "user", "content": [part]}]});
        for (more, code, param) in [
            (json!({"tools": [{"type": "web_search"}]}), "parameter_not_supported", "tools"),
            (json!({"tool_choice": "required"}), "parameter_not_supported", "tool_choice"),
            (json!({"tool_choice": {"type": "function", "name": "x"}}), "invalid_parameter", "tool_choice"),
            (json!({"max_tool_calls": 3}), "parameter_not_supported", "max_tool_calls"),
            (json!({"background": true}), "parameter_not_supported", "background"),
            (json!({"conversation": "conv_1"}), "parameter_not_supported", "conversation"),
            (json!({"prompt": {"id": "pmpt_1"}}), "parameter_not_supported", "prompt"),
            (json!({"top_logprobs": 2}), "parameter_not_supported", "top_logprobs"),
            (json!({"include": ["message.output_text.logprobs"]}), "parameter_not_supported", "include"),
            (json!({"store": false, "previous_response_id": "resp_1"}), "parameter_not_supported", "store"),
            (json!({"moderation": {"mode": "block"}}), "parameter_not_supported", "moderation"),
            (json!({"max_tokens": 5}), "parameter_not_supported", "max_tokens"),
            (json!({"temprature": 0.1}), "parameter_not_supported", "temprature"),
            (json!({"max_output_tokens": 0}), "invalid_parameter", "max_output_tokens"),
            (json!({"metadata": {"a": "x".repeat(513)}}), "invalid_parameter", "metadata"),
            (json!({"metadata": {"a": 1}}), "invalid_parameter", "metadata"),
            (json!({"text": {"format": {"type": "grammar"}}}), "invalid_response_format", "text.format"),
            (json!({"input": null}), "no_user_message", "input"),
            (json!({"input": ""}), "no_user_message", "input"),
            (json!({"input": 3}), "invalid_parameter", "input"),
            (json!({"input": [{"role": "assistant", "content": "x"}]}), "no_user_message", "input"),
            (json!({"input": [{"role": "tool", "content": "x"}]}), "invalid_content", "input"),
            (json!({"input": [{"type": "item_reference", "id": "x"}]}), "invalid_content", "input"),
            (json!({"input": [{"type": "function_call_output", "output": "x"}]}), "invalid_content", "input"),
            (
                json!({"input": [{"type": "function_call", "call_id": "c", "name": "a b"}]}),
                "invalid_content",
                "input",
            ),
            (
                json!({"input": [{"type": "function_call", "call_id": "c", "name": "a"}]}),
                "no_user_message",
                "input",
            ),
            (parts(json!({"type": "input_file", "file_id": "f"})), "invalid_content", "input"),
            (parts(json!({"type": "input_image", "file_id": "f"})), "invalid_content", "input"),
            (
                parts(json!({"type": "input_image", "image_url": "http://169.254.169.254/"})),
                "invalid_content",
                "input",
            ),
            (parts(json!({"type": "input_text"})), "invalid_content", "input"),
        ] {
            let mut body = json!({"input": "x"});
            for (key, value) in more.as_object().unwrap() {
                body[key] = value.clone();
            }
            let error = input(&body).unwrap_err();
            assert_eq!((&*error.code, error.details.param.as_deref()), (code, Some(param)), "{more}");
            assert_eq!(error.status, 400);
        }
    }
}
