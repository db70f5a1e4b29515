//! Decoder for the event stream of OpenAI's Responses API.

use serde::Deserialize;
use serde_json::Value;

use super::super::decoder::{Decoder, EventError, Progress, decode};
use super::super::http::message_of;
use super::super::number;
use super::super::response_builder::ResponseBuilder;
use super::super::{Request, Response, Sink, StopReason, Usage};
use super::item::{self, MessageSignature, joined_id};

/// A decoder for Responses events.
pub(in crate::provider) struct ResponsesDecoder<'a> {
    answer: ResponseBuilder<'a>,
    stop: StopReason,
    items: Vec<OpenItem>,
}

/// An item of the answer that is arriving.
struct OpenItem {
    index: u64,
    kind: OutputItemKind,
    /// Its part in the answer.
    part: usize,
    /// `true` once a piece of it has arrived.
    begun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputItemKind {
    Reasoning,
    Message,
    Call,
}

/// The fields of all event types together.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    output_index: u64,
    item: Value,
    delta: Value,
    arguments: Value,
    summary_index: u64,
    response: Option<WholeResponse>,
    code: Value,
    message: Value,
    error: Value,
}

#[derive(Deserialize)]
struct WholeResponse {
    status: Option<String>,
    output: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "number::counts")]
    usage: Option<Tokens>,
    incomplete_details: Option<IncompleteDetails>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default, deserialize_with = "number::count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputTokenDetails>,
}

#[derive(Deserialize)]
struct InputTokenDetails {
    #[serde(default, deserialize_with = "number::count")]
    cached_tokens: Option<u64>,
}

impl<'a> ResponsesDecoder<'a> {
    pub(in crate::provider) fn new(sink: Sink<'a>, limit: usize) -> Self {
        Self { answer: ResponseBuilder::new(sink, limit), stop: StopReason::End, items: Vec::new() }
    }

    pub(in crate::provider) fn finish(self, request: &Request) -> Response {
        self.answer.finish(self.stop, request)
    }

    /// Returns the item with this index, if it is of this kind.
    fn known(&mut self, index: u64, kind: OutputItemKind) -> Option<&mut OpenItem> {
        self.items.iter_mut().rev().find(|item| item.index == index && item.kind == kind)
    }

    /// Starts an item, or finds it if it was started already. Returns `None` for items that do not concern flock, such
    /// as tools that the provider runs itself.
    fn open(&mut self, index: u64, item: &Value) -> Result<Option<usize>, EventError> {
        let kind = match item["type"].as_str() {
            Some("reasoning") => OutputItemKind::Reasoning,
            Some("message") => OutputItemKind::Message,
            Some("function_call") => OutputItemKind::Call,
            _ => return Ok(None),
        };
        if let Some(known) = self.known(index, kind) {
            return Ok(Some(known.part));
        }
        self.start(index, kind, item).map(Some)
    }

    fn start(&mut self, index: u64, kind: OutputItemKind, item: &Value) -> Result<usize, EventError> {
        let word = |key: &str| item[key].as_str().unwrap_or_default();
        let part = match kind {
            OutputItemKind::Message => self.answer.open_text()?,
            OutputItemKind::Call => {
                self.answer.open_call(&joined_id(word("call_id"), word("id")), word("name"))?
            }
            OutputItemKind::Reasoning => self.answer.open_thinking(None)?,
        };
        self.items.push(OpenItem { index, kind, part, begun: false });
        Ok(part)
    }

    /// Adds a piece to an item. If the server has not announced the item, it is started here.
    fn more(&mut self, index: u64, kind: OutputItemKind, piece: &Value) -> Result<(), EventError> {
        let Some(piece) = piece.as_str() else { return Ok(()) };
        if self.known(index, kind).is_none() {
            // Without its announcement a call has no name and cannot be run.
            if kind == OutputItemKind::Call {
                return Ok(());
            }
            self.start(index, kind, &Value::Null)?;
        }
        let Some(item) = self.known(index, kind) else { return Ok(()) };
        item.begun = true;
        let part = item.part;
        match kind {
            OutputItemKind::Call => self.answer.arguments(part, "", piece)?,
            OutputItemKind::Message | OutputItemKind::Reasoning => {
                self.answer.more(part, piece.to_owned())?;
            }
        }
        Ok(())
    }

    /// Starts a paragraph of the reasoning summary.
    fn paragraph(&mut self, index: u64, number: u64) -> Result<(), EventError> {
        match self.known(index, OutputItemKind::Reasoning).map(|item| (item.part, item.begun)) {
            // The first paragraph needs no blank line before it, and neither does one before any text.
            Some((part, true)) if number > 0 => Ok(self.answer.more(part, "\n\n".to_owned())?),
            _ => Ok(()),
        }
    }

    /// Finishes an item with its complete form, which the server sends at its end.
    fn close(&mut self, index: u64, mut item: Value) -> Result<(), EventError> {
        let Some(part) = self.open(index, &item)? else { return Ok(()) };
        let open = self.items.iter().rev().find(|open| open.part == part);
        let Some((kind, begun)) = open.map(|open| (open.kind, open.begun)) else { return Ok(()) };
        match kind {
            OutputItemKind::Reasoning => {
                // Some servers stream no pieces, so the text is taken from the complete item.
                if !begun {
                    let thought = texts(&item["summary"], "\n\n").or_else(|| texts(&item["content"], "\n\n"));
                    self.answer.more(part, thought.unwrap_or_default())?;
                }
                if let Some(kept) = item::keep(item.take()) {
                    self.answer.sign(part, kept)?;
                }
            }
            OutputItemKind::Message => {
                if !begun {
                    self.answer.more(part, texts(&item["content"], "").unwrap_or_default())?;
                }
                if has_refusal(&item["content"]) {
                    self.stop = StopReason::Refusal;
                }
                let id = item["id"].as_str().unwrap_or_default();
                if let Some(signature) = MessageSignature::write(id, item["phase"].as_str()) {
                    self.answer.sign(part, signature)?;
                }
            }
            OutputItemKind::Call => {
                if let Some(all) = item["arguments"].as_str().filter(|all| !all.is_empty()) {
                    self.answer.replace_arguments(part, all)?;
                }
            }
        }
        Ok(())
    }

    /// Finishes the answer. The last event contains the whole answer again.
    fn end(&mut self, whole: WholeResponse) -> Result<(), EventError> {
        if whole.status.as_deref() == Some("failed") {
            return Err(parse_failure(&whole.error));
        }
        if let Some(tokens) = whole.usage {
            let cached = tokens.input_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
            let input = tokens.input_tokens.unwrap_or(0);
            let usage = &mut self.answer.usage;
            usage.input = input.saturating_sub(cached);
            usage.cache_read = cached.min(input);
            usage.output = tokens.output_tokens.unwrap_or(0);
        }
        // Without any item events, as from a server that does not stream, the items are read from the whole answer.
        if self.items.is_empty() {
            for (index, item) in (0..).zip(whole.output.unwrap_or_default()) {
                self.close(index, item)?;
            }
        }
        match whole.incomplete_details.and_then(|details| details.reason).as_deref() {
            Some("content_filter") => self.stop = StopReason::Refusal,
            Some("max_output_tokens") => self.stop = StopReason::Length,
            _ if whole.status.as_deref() == Some("incomplete") => self.stop = StopReason::Length,
            _ => {}
        }
        Ok(())
    }
}

impl Decoder for ResponsesDecoder<'_> {
    fn event(&mut self, data: &[u8]) -> Result<Progress, EventError> {
        if data.trim_ascii() == b"[DONE]" {
            // OpenAI does not send this marker. From a server that does, it ends an answer that is not empty.
            return if self.answer.is_empty() {
                Err(EventError::Unreadable("it ends before it begins".to_owned()))
            } else {
                Ok(Progress::Done)
            };
        }
        let event: Event = decode(data)?;
        let index = event.output_index;
        match event.kind.as_str() {
            "response.output_item.added" => {
                self.open(index, &event.item)?;
            }
            "response.output_text.delta" => self.more(index, OutputItemKind::Message, &event.delta)?,
            "response.refusal.delta" => {
                self.stop = StopReason::Refusal;
                self.more(index, OutputItemKind::Message, &event.delta)?;
            }
            "response.reasoning_summary_part.added" => self.paragraph(index, event.summary_index)?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.more(index, OutputItemKind::Reasoning, &event.delta)?;
            }
            "response.function_call_arguments.delta" => {
                self.more(index, OutputItemKind::Call, &event.delta)?;
            }
            "response.function_call_arguments.done" => {
                let part = self.known(index, OutputItemKind::Call).map(|item| item.part);
                if let (Some(part), Some(all)) = (part, event.arguments.as_str()) {
                    self.answer.replace_arguments(part, all)?;
                }
            }
            "response.output_item.done" => self.close(index, event.item)?,
            "response.completed" | "response.incomplete" | "response.done" => {
                if let Some(whole) = event.response {
                    self.end(whole)?;
                }
                return Ok(Progress::Done);
            }
            "response.failed" => {
                return Err(parse_failure(&event.response.map(|whole| whole.error).unwrap_or_default()));
            }
            "error" if event.error.is_object() => return Err(parse_failure(&event.error)),
            // OpenAI sends this event without an error object: its fields are at the top level.
            "error" => {
                return Err(parse_failure(
                    &serde_json::json!({"code": event.code, "message": event.message}),
                ));
            }
            // Some servers send an error without an event type.
            "" if event.error.is_object() => return Err(parse_failure(&event.error)),
            _ => {}
        }
        Ok(Progress::Running)
    }

    fn whole(&mut self, document: &[u8]) -> Result<(), EventError> {
        let whole: WholeResponse = decode(document)?;
        if whole.error.is_object() {
            return Err(parse_failure(&whole.error));
        }
        if whole.output.is_none() {
            return Err(EventError::Unreadable("there is no output in it".to_owned()));
        }
        self.end(whole)
    }

    fn usage(&self) -> Usage {
        self.answer.usage
    }

    fn written(&self) -> usize {
        self.answer.readable()
    }
}

/// Returns the texts of a list of parts, including refusals, or `None` if there are none.
fn texts(parts: &Value, between: &str) -> Option<String> {
    let texts =
        parts.as_array()?.iter().filter_map(|part| part["text"].as_str().or(part["refusal"].as_str()));
    let texts: Vec<&str> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(between))
}

fn has_refusal(parts: &Value) -> bool {
    parts.as_array().is_some_and(|parts| parts.iter().any(|part| part["type"] == "refusal"))
}

fn parse_failure(error: &Value) -> EventError {
    let code = error["code"].as_str().or(error["type"].as_str()).unwrap_or_default();
    let status = match code {
        "rate_limit_exceeded" | "rate_limit_error" => 429,
        "server_is_overloaded" | "slow_down" | "overloaded" => 529,
        // Asking again does not bring credit, so these are not retried.
        "insufficient_quota"
        | "billing_hard_limit_reached"
        | "usage_limit_reached"
        | "usage_not_included" => 402,
        "invalid_api_key" | "authentication_error" => 401,
        "context_length_exceeded" | "model_not_found" | "cyber_policy" => 400,
        code if code.starts_with("invalid_") || code.starts_with("unsupported_") => 400,
        _ => 500,
    };
    let message = match message_of(error) {
        // The code is kept in the text because the recovery from refused reasoning looks for it.
        Some(message) if code == "invalid_encrypted_content" => format!("{message} ({code})"),
        Some(message) => message,
        None if code.is_empty() => "it failed without a word".to_owned(),
        None => code.to_owned(),
    };
    EventError::Failure { status, message }
}
