//! What a client asks, and what a turn gets of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::gateway::error::ApiError;
use crate::provider::{Block, Message, Role};

/// The body of `POST /v1/chat/completions`.
#[derive(Debug, Deserialize)]
pub struct ChatRequest {
    /// Which agent.
    pub model: String,
    messages: Vec<ChatMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    tools: Option<Value>,
    functions: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    content: Option<Content>,
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

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ImageUrl {
    Object { url: String },
    Text(String),
}

/// What a turn gets.
#[derive(Debug, PartialEq)]
pub struct Input {
    /// The conversation; the last message is a user's.
    pub messages: Vec<Message>,
    /// The client's system texts.
    pub context: Vec<String>,
}

impl ChatRequest {
    /// Whether the answer is to be streamed.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether a streamed answer ends with its usage.
    #[must_use]
    pub fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }

    /// The messages as a turn takes them.
    ///
    /// # Errors
    ///
    /// 400 for what an agent can't be asked.
    pub fn into_input(self) -> Result<Input, ApiError> {
        let is_given = |list: &Option<Value>| match list {
            None | Some(Value::Null) => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if is_given(&self.tools) || is_given(&self.functions) {
            return Err(ApiError::invalid(
                "tools_not_supported",
                "an agent has its own tools: requests with tools or functions are refused",
            ));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(ApiError::invalid("n_not_supported", "an agent gives one answer: n must be 1"));
        }
        let mut input = Input { messages: Vec::with_capacity(self.messages.len()), context: Vec::new() };
        let mut images = 0;
        for (at, message) in self.messages.into_iter().enumerate() {
            let content = blocks(message.content, at, &mut images)?;
            let role = match message.role.as_str() {
                "system" | "developer" => {
                    let text = crate::provider::message::joined_text(&content);
                    if !text.trim().is_empty() {
                        input.context.push(text);
                    }
                    continue;
                }
                "user" => Role::User,
                "assistant" => Role::Assistant,
                "tool" | "function" => {
                    return Err(ApiError::invalid(
                        "tools_not_supported",
                        format!("messages[{at}] is a tool's: an agent calls its tools itself"),
                    ));
                }
                _ => {
                    return Err(ApiError::invalid(
                        "invalid_role",
                        format!("messages[{at}].role is none of system, developer, user, assistant"),
                    ));
                }
            };
            if !content.is_empty() {
                input.messages.push(Message { role, content });
            }
        }
        if input.messages.last().map(|message| message.role) != Some(Role::User) {
            return Err(ApiError::invalid(
                "no_user_message",
                "the last message must be a user's and hold something",
            ));
        }
        Ok(input)
    }
}

/// The most images of one request.
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

fn image(url: &str) -> Result<Block, &'static str> {
    let Some(rest) = url.strip_prefix("data:") else {
        return Err("is no data URL: the gateway fetches nothing, send data:image/png;base64,…");
    };
    let Some((media_type, data)) = rest.split_once(";base64,") else {
        return Err("is not base64");
    };
    let media_type = media_type.to_ascii_lowercase();
    if !matches!(media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        return Err("is none of image/png, image/jpeg, image/gif, image/webp");
    }
    match STANDARD.decode(data) {
        Ok(bytes) if !bytes.is_empty() => Ok(Block::Image { media_type, data: data.to_owned() }),
        _ => Err("is not base64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(messages: &Value, more: &Value) -> Result<Input, ApiError> {
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
    fn what_an_agent_cannot_be_asked_is_refused() {
        let user = json!([{"role": "user", "content": "x"}]);
        let part = |part: Value| json!([{"role": "user", "content": [part]}]);
        let url = |url: &str| part(json!({"type": "image_url", "image_url": {"url": url}}));
        let none = json!({});
        for (messages, more, code) in [
            (&user, &json!({"tools": [{"type": "function"}]}), "tools_not_supported"),
            (&user, &json!({"functions": [{}]}), "tools_not_supported"),
            (&user, &json!({"n": 2}), "n_not_supported"),
            (&json!([]), &none, "no_user_message"),
            (&json!([{"role": "user", "content": ""}]), &none, "no_user_message"),
            (&json!([{"role": "user"}]), &none, "no_user_message"),
            (&json!([{"role": "assistant", "content": "x"}]), &none, "no_user_message"),
            (&json!([{"role": "tool", "content": "x"}]), &none, "tools_not_supported"),
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
