//! Parses a client's request into the input of a turn.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::client_tools::{self, ToolForm, ToolParams};
use super::{AnswerLimits, ResponseFormat};
use crate::agent::ClientTools;
use crate::gateway::error::ApiError;
use crate::picture;
use crate::provider::call::is_plain;
use crate::provider::{Block, Message, Role};

/// The body of `POST /v1/chat/completions`.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    /// Name of the agent.
    pub model: String,
    messages: Vec<ChatMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    tools: Option<Value>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    functions: Option<Value>,
    response_format: Option<Value>,
    stop: Option<StopParam>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    modalities: Option<Vec<String>>,
    logprobs: Option<bool>,
    top_logprobs: Option<Value>,
    logit_bias: Option<Value>,
    audio: Option<Value>,
    web_search_options: Option<Value>,
}

// OpenAI's API accepts one text or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StopParam {
    One(String),
    Some(Vec<String>),
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    content: Option<Content>,
    tool_calls: Option<Vec<WireCall>>,
    tool_call_id: Option<String>,
}

/// A call of a client's tool in an answer that the client sends back.
#[derive(Debug, Deserialize)]
struct WireCall {
    id: Option<String>,
    function: Option<WireFunction>,
}

#[derive(Debug, Deserialize)]
struct WireFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    image_url: Option<ImageUrl>,
}

// Both forms are accepted: the object of OpenAI's API, and a plain text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ImageUrl {
    Object { url: String },
    Text(String),
}

/// The input of a turn.
#[derive(Debug, Default)]
pub(crate) struct ChatInput {
    /// The conversation. Its last message is a user's, or the result of a call.
    pub messages: Vec<Message>,
    /// The client's system texts.
    pub context: Vec<String>,
    /// The format that the answer must have.
    pub format: Option<ResponseFormat>,
    /// The limits of the answer.
    pub bound: AnswerLimits,
    /// The client's own tools.
    pub client: ClientTools,
}

impl ChatRequest {
    /// Returns `true` if the answer is to be streamed.
    #[must_use]
    pub(crate) fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    /// Returns `true` if a streamed answer ends with its usage.
    #[must_use]
    pub(crate) fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }

    /// Returns the input of a turn for this request.
    ///
    /// # Errors
    ///
    /// Returns 400 if the request asks for something that an agent does not do, such as several answers, if a tool can't
    /// be the client's, if a message has an unknown role or content, or if the last message is neither a user's nor a
    /// result.
    pub(crate) fn into_input(self) -> Result<ChatInput, ApiError> {
        self.refuse_unsupported()?;
        // `null` and the type `text` both stand for no format.
        let format = self.response_format.as_ref().filter(|format| !format.is_null());
        let format = format.map(ResponseFormat::of_chat).transpose()?.flatten();
        let bound = self.bound()?;
        let params = ToolParams {
            tools: self.tools.as_ref(),
            choice: self.tool_choice.as_ref(),
            parallel: self.parallel_tool_calls,
        };
        let client = client_tools::read(ToolForm::Chat, params)?;
        if self.n.is_some_and(|n| n != 1) {
            return Err(ApiError::invalid("n_not_supported", "an agent gives one answer: n must be 1")
                .with_param("n"));
        }
        let mut input = ChatInput {
            messages: Vec::with_capacity(self.messages.len()),
            context: Vec::new(),
            format,
            bound,
            client,
        };
        let mut images = 0;
        for (at, message) in self.messages.into_iter().enumerate() {
            let mut content = blocks(message.content, at, &mut images)?;
            let role = match message.role.as_str() {
                // System texts go beside the conversation, because the agent has its own system prompt.
                "system" | "developer" => {
                    let text = crate::provider::message::joined_text(&content);
                    if !text.trim().is_empty() {
                        input.context.push(text);
                    }
                    continue;
                }
                "user" => Role::User,
                "assistant" => {
                    for call in message.tool_calls.into_iter().flatten() {
                        content.push(called(call, at)?);
                    }
                    Role::Assistant
                }
                "tool" => {
                    let Some(call_id) = message.tool_call_id.filter(|id| !id.is_empty()) else {
                        let message = format!("messages[{at}] is a tool's message without tool_call_id");
                        return Err(ApiError::invalid("tool_call_missing", message).with_param("messages"));
                    };
                    content = vec![result(call_id, content)];
                    Role::Tool
                }
                _ => {
                    return Err(ApiError::invalid(
                        "invalid_role",
                        format!("messages[{at}].role is none of system, developer, user, assistant, tool"),
                    ));
                }
            };
            if !content.is_empty() {
                input.messages.push(Message { role, content });
            }
        }
        if !ends_with_input(&input.messages) {
            return Err(ApiError::invalid(
                "no_user_message",
                "the last message must be a user's and must not be empty, or the result of a call",
            ));
        }
        with_format(&mut input);
        Ok(input)
    }

    /// Refuses parameters that have no meaning for an agent but would change what the client gets. The error names the
    /// parameter.
    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let speaks = self.modalities.iter().flatten().any(|kind| kind != "text");
        for (name, is_asked, why) in [
            ("logprobs", self.logprobs == Some(true), "no probabilities come with an agent's answer"),
            ("top_logprobs", is_given(&self.top_logprobs), "no probabilities come with an agent's answer"),
            (
                "logit_bias",
                is_given(&self.logit_bias),
                "an agent's model is asked as the agent's settings say",
            ),
            ("audio", is_given(&self.audio), "an agent answers with text"),
            ("modalities", speaks, "an agent answers with text"),
            ("functions", is_given(&self.functions), "use tools"),
            ("web_search_options", is_given(&self.web_search_options), "an agent has tools of its own"),
        ] {
            if is_asked {
                let message = format!("{name} is not supported: {why}");
                return Err(ApiError::invalid("parameter_not_supported", message).with_param(name));
            }
        }
        Ok(())
    }

    /// Returns the limits of the answer.
    fn bound(&self) -> Result<AnswerLimits, ApiError> {
        let invalid = |name: &'static str, what: &str| {
            ApiError::invalid("invalid_parameter", format!("{name} {what}")).with_param(name)
        };
        let stops = match &self.stop {
            None => Vec::new(),
            Some(StopParam::One(stop)) => vec![stop.clone()],
            Some(StopParam::Some(stops)) => stops.clone(),
        };
        if stops.len() > MAX_STOPS || stops.iter().any(|stop| stop.is_empty() || stop.len() > MAX_STOP) {
            let what = format!("is at most {MAX_STOPS} texts of 1 to {MAX_STOP} bytes");
            return Err(invalid("stop", &what));
        }
        let mut tokens = None;
        for (name, most) in
            [("max_tokens", self.max_tokens), ("max_completion_tokens", self.max_completion_tokens)]
        {
            if most == Some(0) {
                return Err(invalid(name, "must be 1 or more"));
            }
            // If both are given, the newer name wins.
            tokens = most.or(tokens);
        }
        Ok(AnswerLimits { stops, tokens: tokens.map(|most| usize::try_from(most).unwrap_or(usize::MAX)) })
    }
}

/// Returns `true` if a conversation ends with something to answer.
pub(super) fn ends_with_input(messages: &[Message]) -> bool {
    messages.last().is_some_and(|last| last.role != Role::Assistant)
}

fn called(call: WireCall, at: usize) -> Result<Block, ApiError> {
    let wrong = |what: &str| {
        ApiError::invalid("invalid_content", format!("messages[{at}].tool_calls {what}"))
            .with_param("messages")
    };
    let Some(function) = call.function else { return Err(wrong("has a call that is of no function")) };
    let id = call.id.filter(|id| !id.is_empty()).ok_or_else(|| wrong("has a call without an id"))?;
    if !is_plain(&function.name) {
        return Err(wrong("has a call whose name is not 1 to 64 letters, digits, '_' and '-'"));
    }
    Ok(Block::call(id, function.name, arguments(function.arguments)))
}

/// Reads the arguments of a call that a client sends back.
pub(super) fn arguments(text: String) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    // Arguments that are no JSON stay as the model wrote them.
    serde_json::from_str(&text).map_or(Value::String(text), crate::provider::shallow)
}

/// Returns the result of a call. Its name is that of the call, which is looked for later.
pub(super) fn result(call_id: String, content: Vec<Block>) -> Block {
    Block::ToolResult { call_id, name: String::new(), content: content.into(), is_error: false }
}

/// Adds the instruction about the answer's format to the last message, so that the model reads it right before it answers.
pub(super) fn with_format(input: &mut ChatInput) {
    if let Some(format) = &input.format
        && let Some(last) = input.messages.last_mut().filter(|last| last.role == Role::User)
    {
        last.content.push(Block::text(format!("\n\n{}", format.instruction())));
    }
}

/// Returns `true` if a parameter asks for something. Client libraries also send parameters with an empty value.
pub(super) fn is_given(value: &Option<Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::Number(number)) => number.as_u64() != Some(0),
        Some(_) => true,
    }
}

/// Most stop texts of a request, and most bytes of one.
const MAX_STOPS: usize = 4;
const MAX_STOP: usize = 1 << 10;

/// Most images in one request.
const MAX_IMAGES: usize = 20;

fn blocks(content: Option<Content>, at: usize, images: &mut usize) -> Result<Vec<Block>, ApiError> {
    let parts = match content {
        None => return Ok(Vec::new()),
        Some(Content::Text(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(Content::Text(text)) => return Ok(vec![Block::text(text)]),
        Some(Content::Parts(parts)) => parts,
    };
    let mut blocks = Vec::with_capacity(parts.len());
    for (part_at, part) in parts.into_iter().enumerate() {
        let invalid = |what: &str| {
            ApiError::invalid("invalid_content", format!("messages[{at}].content[{part_at}] {what}"))
        };
        match (part.kind.as_str(), part.text, part.image_url) {
            ("text", Some(text), _) if text.is_empty() => {}
            ("text", Some(text), _) => blocks.push(Block::text(text)),
            ("image_url", _, Some(ImageUrl::Object { url } | ImageUrl::Text(url))) => {
                *images += 1;
                if *images > MAX_IMAGES {
                    return Err(ApiError::invalid(
                        "too_many_images",
                        format!("a request may hold at most {MAX_IMAGES} images"),
                    ));
                }
                blocks.push(image(&url).map_err(invalid)?);
            }
            ("text" | "image_url", ..) => return Err(invalid("does not hold what its type says")),
            _ => return Err(invalid("has a type that is neither text nor image_url")),
        }
    }
    Ok(blocks)
}

/// Reads a picture that a client sent as a data URL.
pub(super) fn image(url: &str) -> Result<Block, &'static str> {
    // The gateway never fetches a URL for a client, because it could reach addresses that the client can't.
    let Some(rest) = url.strip_prefix("data:") else {
        return Err("is no data URL: the gateway fetches nothing, send data:image/png;base64,…");
    };
    let Some((media_type, data)) = rest.split_once(";base64,") else {
        return Err("is not base64");
    };
    let media_type = media_type.to_ascii_lowercase();
    if !picture::MEDIA_TYPES.contains(&media_type.as_str()) {
        return Err("is none of image/png, image/jpeg, image/gif, image/webp");
    }
    // The data is decoded only to check it. It is passed on in its encoded form.
    match STANDARD.decode(data) {
        Ok(bytes) if !bytes.is_empty() => Ok(Block::Image { media_type, data: data.to_owned() }),
        _ => Err("is not base64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(messages: &Value, more: &Value) -> Result<ChatInput, ApiError> {
        let mut body = json!({"model": "coder", "messages": messages});
        for (key, value) in more.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        serde_json::from_value::<ChatRequest>(body).unwrap().into_input()
    }

    #[test]
    fn system_text_is_context_and_the_rest_the_conversation() {
        let messages = json!([
            {"role": "system", "content": "be a pirate"},
            {"role": "user", "content": [{"type": "text", "text": "what is this"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]},
            {"role": "assistant", "content": "a picture"},
            {"role": "user", "content": "thanks"},
        ]);
        let input = input(&messages, &json!({"tools": [], "n": 1, "temperature": 0.2})).unwrap();
        assert_eq!(input.context, ["be a pirate"]);
        assert_eq!(input.messages.len(), 3);
        assert_eq!(
            input.messages[0].content[1],
            Block::Image { media_type: "image/png".into(), data: "aGk=".into() }
        );
    }

    #[test]
    fn calls_and_results_are_part_of_the_conversation() {
        let function = json!({"name": "weather", "arguments": "{\"city\":\"Oslo\"}"});
        let messages = json!([
            {"role": "user", "content": "how is it?"},
            {"role": "assistant", "content": null,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "mild"}]},
        ]);
        let tools = json!([{"type": "function", "function": {"name": "weather"}}]);
        let input =
            input(&messages, &json!({"tools": tools, "response_format": {"type": "json_object"}})).unwrap();
        assert_eq!(input.messages[1].content, [Block::call("c1", "weather", json!({"city": "Oslo"}))]);
        assert_eq!(input.messages[2].content, [result("c1".into(), vec![Block::text("mild")])]);
        assert_eq!(input.client.tools.len(), 1);
        assert_eq!(arguments("{broken".into()), json!("{broken"));
        assert_eq!(arguments(String::new()), json!({}));
    }

    #[test]
    fn empty_parameters_are_accepted_and_limits_are_read() {
        let user = json!([{"role": "user", "content": "x"}]);
        let nothing = json!({"logprobs": false, "top_logprobs": 0, "logit_bias": {}, "modalities": ["text"],
            "audio": null, "response_format": {"type": "text"}, "stop": null, "max_tokens": null});
        let read = input(&user, &nothing).unwrap();
        assert!(read.format.is_none());
        assert_eq!(read.bound, AnswerLimits::default());
        let limits = json!({"stop": "END", "max_tokens": 5, "max_completion_tokens": 7});
        let read = input(&user, &limits).unwrap();
        assert_eq!(read.bound, AnswerLimits { stops: vec!["END".into()], tokens: Some(7) });
        let read = input(&user, &json!({"response_format": {"type": "json_object"}})).unwrap();
        assert!(read.messages[0].joined_text().contains("JSON object"));
    }

    #[test]
    fn unsupported_parameters_are_refused() {
        let user = json!([{"role": "user", "content": "x"}]);
        let part = |part: Value| json!([{"role": "user", "content": [part]}]);
        let url = |url: &str| part(json!({"type": "image_url", "image_url": {"url": url}}));
        let none = json!({});
        for (messages, more, code) in [
            (&user, &json!({"tools": [{"type": "function"}]}), "invalid_parameter"),
            (&user, &json!({"functions": [{}]}), "parameter_not_supported"),
            (&user, &json!({"n": 2}), "n_not_supported"),
            (&user, &json!({"logprobs": true}), "parameter_not_supported"),
            (&user, &json!({"top_logprobs": 2}), "parameter_not_supported"),
            (&user, &json!({"logit_bias": {"50256": -100}}), "parameter_not_supported"),
            (&user, &json!({"audio": {"voice": "alloy"}}), "parameter_not_supported"),
            (&user, &json!({"modalities": ["text", "audio"]}), "parameter_not_supported"),
            (&user, &json!({"web_search_options": {"user_location": {}}}), "parameter_not_supported"),
            (&user, &json!({"response_format": {"type": "xml"}}), "invalid_response_format"),
            (&user, &json!({"stop": ["a", "b", "c", "d", "e"]}), "invalid_parameter"),
            (&user, &json!({"stop": ""}), "invalid_parameter"),
            (&user, &json!({"max_tokens": 0}), "invalid_parameter"),
            (&json!([]), &none, "no_user_message"),
            (&json!([{"role": "user", "content": ""}]), &none, "no_user_message"),
            (&json!([{"role": "user"}]), &none, "no_user_message"),
            (&json!([{"role": "assistant", "content": "x"}]), &none, "no_user_message"),
            (&json!([{"role": "tool", "content": "x"}]), &none, "tool_call_missing"),
            (&json!([{"role": "function", "content": "x"}]), &none, "invalid_role"),
            (
                &json!([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "1"}]}]),
                &none,
                "invalid_content",
            ),
            (
                &json!([{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "a b"}}]}]),
                &none,
                "invalid_content",
            ),
            (
                &json!([{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "a"}}]}]),
                &none,
                "no_user_message",
            ),
            (&json!([{"role": "root", "content": "x"}]), &none, "invalid_role"),
            (&part(json!({"type": "input_audio"})), &none, "invalid_content"),
            (&part(json!({"type": "text"})), &none, "invalid_content"),
            (&url("http://169.254.169.254/"), &none, "invalid_content"),
            (&url("data:text/html;base64,aGk="), &none, "invalid_content"),
            (&url("data:image/png;base64,%%%"), &none, "invalid_content"),
        ] {
            let error = input(messages, more).unwrap_err();
            assert_eq!(error.code, code, "{messages} {more}");
            assert_eq!(error.status, 400);
        }
    }
}
