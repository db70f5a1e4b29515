//! Decoder for the event stream of Bedrock's Converse API.

use serde::Deserialize;

use super::super::decoder::{EventError, Progress, decode};
use super::super::http::message_of;
use super::super::number;
use super::super::response_builder::ResponseBuilder;
use super::super::{Request, Response, Sink, StopReason};
use super::frame::{Frame, FrameError};

/// A decoder for Converse events.
pub(in crate::provider) struct ConverseDecoder<'a> {
    answer: ResponseBuilder<'a>,
    stop: StopReason,
    /// The call whose arguments are arriving: the index of its content block, and its part in the answer.
    call: Option<(u64, usize)>,
    /// Index of the content block in which thinking is arriving.
    thinking: Option<u64>,
    stopped: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(default)]
    content_block_index: u64,
    start: Option<BlockStart>,
    delta: Option<Delta>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "number::counts")]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart {
    tool_use: Option<ToolUse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse {
    tool_use_id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    text: Option<String>,
    tool_use: Option<ToolInput>,
    reasoning_content: Option<Reasoning>,
}

#[derive(Deserialize)]
struct ToolInput {
    input: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reasoning {
    text: Option<String>,
    signature: Option<String>,
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    #[serde(default, deserialize_with = "number::count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    cache_write_input_tokens: Option<u64>,
}

impl From<FrameError> for EventError {
    fn from(broken: FrameError) -> Self {
        match broken {
            FrameError::TooLong => Self::TooLong,
            other => Self::Unreadable(other.to_string()),
        }
    }
}

impl<'a> ConverseDecoder<'a> {
    pub(in crate::provider) fn new(sink: Sink<'a>, limit: usize) -> Self {
        Self {
            answer: ResponseBuilder::new(sink, limit),
            stop: StopReason::End,
            call: None,
            thinking: None,
            stopped: false,
        }
    }

    pub(in crate::provider) fn finish(self, request: &Request) -> Response {
        self.answer.finish(self.stop, request)
    }

    /// Reads a frame. Once the model has stopped the answer is complete, and a broken frame is ignored.
    pub(super) fn frame(&mut self, frame: Frame<'_>) -> Result<Progress, EventError> {
        let progress = match frame.kind {
            "event" => self.event(frame.name, frame.payload),
            "exception" => Err(parse_exception(frame.name, frame.payload)),
            "error" => Err(failure(status(frame.name), frame.message, frame.name)),
            _ => Ok(Progress::Running),
        };
        match progress {
            Err(_) if self.stopped => Ok(Progress::Stopped),
            Ok(Progress::Running) if self.stopped => Ok(Progress::Stopped),
            other => other,
        }
    }

    fn event(&mut self, name: &str, payload: &[u8]) -> Result<Progress, EventError> {
        match name {
            "contentBlockStart" => {
                let event: Event = decode(payload)?;
                self.call = None;
                if let Some(call) = event.start.and_then(|start| start.tool_use) {
                    let id = call.tool_use_id.unwrap_or_default();
                    let call = self.answer.open_call(&id, &call.name.unwrap_or_default())?;
                    self.call = Some((event.content_block_index, call));
                }
            }
            "contentBlockDelta" => {
                let event: Event = decode(payload)?;
                if let Some(delta) = event.delta {
                    self.more(event.content_block_index, delta)?;
                }
            }
            "messageStop" => {
                let event: Event = decode(payload)?;
                self.stop = stop(event.stop_reason.as_deref().unwrap_or_default())?;
                self.stopped = true;
                return Ok(Progress::Stopped);
            }
            "metadata" => {
                let event: Event = decode(payload)?;
                if let Some(tokens) = event.usage {
                    self.count(&tokens);
                }
                // Token counts are the last event. Before the stop they may come early, so the answer continues.
                if self.stopped {
                    return Ok(Progress::Done);
                }
            }
            // The start of a message, the end of a block, and event types of later versions.
            _ => {}
        }
        Ok(Progress::Running)
    }

    fn more(&mut self, index: u64, delta: Delta) -> Result<(), EventError> {
        if let Some(text) = delta.text {
            self.answer.text(text)?;
        }
        if let Some(reasoning) = delta.reasoning_content {
            self.reasoning(index, reasoning)?;
        }
        if let (Some(input), Some((at, call))) = (delta.tool_use.and_then(|use_| use_.input), self.call)
            && at == index
        {
            self.answer.arguments(call, "", &input)?;
        }
        Ok(())
    }

    fn reasoning(&mut self, index: u64, reasoning: Reasoning) -> Result<(), EventError> {
        if let Some(data) = reasoning.redacted_content {
            self.thinking = Some(index);
            self.answer.open_thinking(Some(data))?;
        }
        if reasoning.text.is_none() && reasoning.signature.is_none() {
            return Ok(());
        }
        // Converse announces no start of a thinking block, so a new index starts one.
        if self.thinking != Some(index) {
            self.thinking = Some(index);
            self.answer.open_thinking(None)?;
        }
        self.answer.thinking(reasoning.text.unwrap_or_default())?;
        self.answer.signature(&reasoning.signature.unwrap_or_default())?;
        Ok(())
    }

    fn count(&mut self, tokens: &Tokens) {
        // Converse does not include cached tokens in the input count, so nothing is subtracted.
        let usage = &mut self.answer.usage;
        usage.input = tokens.input_tokens.unwrap_or(usage.input);
        usage.output = tokens.output_tokens.unwrap_or(usage.output);
        usage.cache_read = tokens.cache_read_input_tokens.unwrap_or(usage.cache_read);
        usage.cache_write = tokens.cache_write_input_tokens.unwrap_or(usage.cache_write);
    }
}

fn stop(reason: &str) -> Result<StopReason, EventError> {
    Ok(match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "guardrail_intervened" | "content_filtered" => StopReason::Refusal,
        "malformed_model_output" | "malformed_tool_use" => {
            // Reported as the provider's failure, so that the model is asked again.
            return Err(EventError::Failure {
                status: 500,
                message: "the model's output was malformed".into(),
            });
        }
        _ => StopReason::End,
    })
}

/// Returns the HTTP status that an exception has outside of a stream.
fn status(name: &str) -> u16 {
    match name {
        "validationException" | "ValidationException" => 400,
        "accessDeniedException" | "AccessDeniedException" => 403,
        "throttlingException" | "ThrottlingException" => 429,
        "modelTimeoutException" | "ModelTimeoutException" => 408,
        "serviceUnavailableException" | "ServiceUnavailableException" => 503,
        _ => 500,
    }
}

fn parse_exception(name: &str, payload: &[u8]) -> EventError {
    let said = serde_json::from_slice::<serde_json::Value>(payload).ok();
    let message = said.and_then(|said| message_of(&said)).unwrap_or_default();
    failure(status(name), &message, name)
}

fn failure(status: u16, message: &str, name: &str) -> EventError {
    // An exception without a text is reported by its name.
    let message = if message.trim().is_empty() { name } else { message };
    EventError::Failure { status, message: message.to_owned() }
}
