//! Decoder for the event stream of Anthropic's Messages API.

use serde::Deserialize;
use serde_json::Value;

use super::super::decoder::{Decoder, EventError, Progress, decode};
use super::super::number;
use super::super::response_builder::ResponseBuilder;
use super::super::{Request, Response, Sink, StopReason, Usage};

/// A decoder for Messages events.
pub(in crate::provider) struct MessagesDecoder<'a> {
    answer: ResponseBuilder<'a>,
    stop: StopReason,
    /// The call whose arguments are arriving: the index of its content block, and its part in the answer.
    call: Option<(u64, usize)>,
}

/// The fields of all event types together. Reading these few fields is cheaper than choosing a type by the tag first.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    index: Option<u64>,
    delta: Option<Delta>,
    content_block: Option<ContentBlock>,
    message: Option<WholeMessage>,
    #[serde(default, deserialize_with = "number::counts")]
    usage: Option<Tokens>,
    error: Option<Failure>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct ContentBlock {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    name: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    input: Option<Value>,
}

#[derive(Deserialize)]
struct WholeMessage {
    #[serde(default)]
    content: Vec<ContentBlock>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "number::counts")]
    usage: Option<Tokens>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default, deserialize_with = "number::count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    cache_read_input_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
struct Failure {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    /// The HTTP status as text, which only MiniMax sends.
    http_code: Option<Value>,
}

impl<'a> MessagesDecoder<'a> {
    pub(in crate::provider) fn new(sink: Sink<'a>, limit: usize) -> Self {
        Self { answer: ResponseBuilder::new(sink, limit), stop: StopReason::End, call: None }
    }

    pub(in crate::provider) fn finish(self, request: &Request) -> Response {
        self.answer.finish(self.stop, request)
    }

    fn open(&mut self, index: u64, content: ContentBlock) -> Result<(), EventError> {
        self.call = None;
        match content.kind.as_str() {
            "text" => self.answer.text(content.text.unwrap_or_default())?,
            // In a whole document the block already contains its text and signature.
            "thinking" => {
                self.answer.open_thinking(None)?;
                self.answer.thinking(content.thinking.unwrap_or_default())?;
                self.answer.signature(&content.signature.unwrap_or_default())?;
            }
            "redacted_thinking" => {
                self.answer.open_thinking(content.data)?;
            }
            "tool_use" => {
                let id = content.id.unwrap_or_default();
                let call = self.answer.open_call(&id, &content.name.unwrap_or_default())?;
                self.call = Some((index, call));
                // Some servers send all arguments here and no delta.
                if let Some(input) =
                    content.input.filter(|input| input.as_object().is_some_and(|o| !o.is_empty()))
                {
                    self.answer.set_arguments(call, input)?;
                }
            }
            // Blocks of tools that the provider runs itself do not concern flock.
            _ => {}
        }
        Ok(())
    }

    fn more(&mut self, index: u64, delta: Delta) -> Result<(), EventError> {
        if let Some(text) = delta.text {
            self.answer.text(text)?;
        }
        if let Some(thinking) = delta.thinking {
            self.answer.thinking(thinking)?;
        }
        if let Some(signature) = delta.signature {
            self.answer.signature(&signature)?;
        }
        // Arguments of other blocks, such as tools that the provider runs itself, are dropped.
        if let (Some(json), Some((at, call))) = (delta.partial_json, self.call)
            && at == index
        {
            self.answer.arguments(call, "", &json)?;
        }
        Ok(())
    }

    fn count(&mut self, tokens: &Tokens) {
        let usage = &mut self.answer.usage;
        // The counts grow from event to event, and a server may leave one out of a later event.
        let newer = |known: &mut u64, count: Option<u64>| *known = count.unwrap_or(0).max(*known);
        newer(&mut usage.input, tokens.input_tokens);
        newer(&mut usage.output, tokens.output_tokens);
        newer(&mut usage.cache_read, tokens.cache_read_input_tokens);
        newer(&mut usage.cache_write, tokens.cache_creation_input_tokens);
    }
}

impl Decoder for MessagesDecoder<'_> {
    fn event(&mut self, data: &[u8]) -> Result<Progress, EventError> {
        let event: Event = decode(data)?;
        // `message_start` has its counts within the message, later events have them at the top level.
        if let Some(tokens) = &event.usage {
            self.count(tokens);
        }
        match event.kind.as_str() {
            "message_start" => {
                if let Some(tokens) = event.message.and_then(|message| message.usage) {
                    self.count(&tokens);
                }
            }
            "content_block_start" => {
                if let Some(content) = event.content_block {
                    self.open(event.index.unwrap_or(0), content)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.more(event.index.unwrap_or(0), delta)?;
                }
            }
            "message_delta" => {
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.stop = stop(&reason);
                    // Only token counts follow, so the answer is complete.
                    return Ok(Progress::Stopped);
                }
            }
            "message_stop" => return Ok(Progress::Done),
            "error" => return Err(failure(event.error)),
            _ => {}
        }
        Ok(Progress::Running)
    }

    fn whole(&mut self, document: &[u8]) -> Result<(), EventError> {
        let whole: WholeMessage = decode(document)?;
        if whole.error.is_some() {
            return Err(failure(whole.error));
        }
        let Some(reason) = whole.stop_reason else {
            return Err(EventError::Unreadable("it is not a message".to_owned()));
        };
        // A whole document consists of the blocks that a stream would open one after another.
        for (index, content) in (0..).zip(whole.content) {
            self.open(index, content)?;
        }
        if let Some(tokens) = &whole.usage {
            self.count(tokens);
        }
        self.stop = stop(&reason);
        Ok(())
    }

    fn usage(&self) -> Usage {
        self.answer.usage
    }

    fn written(&self) -> usize {
        self.answer.readable()
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Refusal,
        _ => StopReason::End,
    }
}

fn failure(failure: Option<Failure>) -> EventError {
    let Failure { kind, message, http_code } = failure.unwrap_or_default();
    let kind = kind.unwrap_or_default();
    // MiniMax's own code is more exact than the error type, so it is preferred if it is a valid error status.
    let code = http_code.and_then(|code| match code {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| u16::try_from(number).ok()),
    });
    let status = match kind.as_str() {
        _ if code.is_some_and(|code| (400..600).contains(&code)) => code.unwrap_or(500),
        "invalid_request_error" | "bad_request_error" => 400,
        "insufficient_balance_error" => 402,
        "authentication_error" | "authorized_error" => 401,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "overloaded_error" => 529,
        // Unknown types count as a failure of the provider, which may pass.
        _ => 500,
    };
    EventError::Failure { status, message: message.unwrap_or(kind) }
}
