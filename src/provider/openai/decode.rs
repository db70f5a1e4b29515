//! Decoder for the stream of the chat completions API.

use serde_json::Value;

use super::super::decoder::{Decoder, EventError, Progress, decode};
use super::super::http::message_of;
use super::super::response_builder::ResponseBuilder;
use super::super::{Request, Response, Sink, StopReason, Usage};
use super::chunk::{CallDelta, Choice, Chunk, MessageDelta, Tokens};
use super::reasoning_details::ReasoningDetails;

/// A decoder for completion chunks.
pub(in crate::provider) struct CompletionDecoder<'a> {
    answer: ResponseBuilder<'a>,
    stop: StopReason,
    /// The calls so far: the server's index of each, if it sends one, and its part in the answer.
    calls: Vec<(Option<u64>, usize)>,
    stopped: bool,
    details: ReasoningDetails,
    /// The part of thinking that the details belong to.
    detailed: Option<usize>,
    limit: usize,
    /// `true` if the server's charges are used.
    priced: bool,
}

impl<'a> CompletionDecoder<'a> {
    pub(in crate::provider) fn new(sink: Sink<'a>, limit: usize) -> Self {
        Self {
            answer: ResponseBuilder::new(sink, limit),
            stop: StopReason::End,
            calls: Vec::new(),
            stopped: false,
            details: ReasoningDetails::default(),
            detailed: None,
            limit,
            priced: false,
        }
    }

    /// Sets whether the charges that the server reports are used. That is right for a router, which sells at these
    /// prices.
    pub(in crate::provider) fn priced(self, priced: bool) -> Self {
        Self { priced, ..self }
    }

    pub(in crate::provider) fn finish(mut self, request: &Request) -> Response {
        if let (Some(part), Some(sealed)) = (self.detailed, self.details.seal()) {
            // The details may exceed the limit. They only serve later requests, so the answer is kept without them.
            let _ = self.answer.sign(part, sealed);
        }
        self.answer.finish(self.stop, request)
    }

    fn chunk(&mut self, chunk: Chunk) -> Result<(), EventError> {
        if let Some(error) = &chunk.error {
            return Err(parse_failure(error));
        }
        if let Some(tokens) = chunk.usage.or(chunk.x_groq.and_then(|groq| groq.usage)) {
            self.count(tokens);
        }
        // Only one answer is requested, so there is no second choice.
        match chunk.choices.and_then(|choices| choices.into_iter().next()) {
            Some(choice) => self.choice(choice),
            None => Ok(()),
        }
    }

    fn choice(&mut self, choice: Choice) -> Result<(), EventError> {
        if let Some(error) = &choice.error {
            return Err(parse_failure(error));
        }
        if let Some(piece) = choice.delta.or(choice.message) {
            self.piece(piece)?;
        }
        if let Some(reason) = choice.finish_reason.as_deref().filter(|reason| !reason.is_empty()) {
            self.stopped = true;
            match reason {
                "length" | "model_length" => self.stop = StopReason::Length,
                "content_filter" => self.stop = StopReason::Refusal,
                "error" => {
                    return Err(EventError::Failure { status: 500, message: "the model failed".to_owned() });
                }
                // For calls and textual refusals the answer already shows the reason.
                _ => {}
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: MessageDelta) -> Result<(), EventError> {
        for detail in piece.reasoning_details.into_iter().flatten() {
            self.details.add(detail, self.limit)?;
        }
        // The details are kept in a thinking block, even if none of the reasoning is readable.
        if self.detailed.is_none() && !self.details.is_empty() {
            self.detailed = Some(self.answer.open_thinking(None)?);
        }
        // Some servers send the same thinking under both names.
        let thinking = piece.reasoning_content.filter(|text| !text.is_empty()).or(piece.reasoning);
        self.answer.thinking(thinking.unwrap_or_default())?;
        self.answer.thinking(piece.content.thinking)?;
        self.answer.text(piece.content.text)?;
        // The words of a refusal are shown like any text.
        if let Some(refusal) = piece.refusal.filter(|refusal| !refusal.is_empty()) {
            self.stop = StopReason::Refusal;
            self.answer.text(refusal)?;
        }
        for call in piece.tool_calls.unwrap_or_default() {
            self.call(call)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: CallDelta) -> Result<(), EventError> {
        let id = piece.id.unwrap_or_default();
        let function = piece.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let call = match self.known(piece.index, &id, &name) {
            Some(call) => call,
            None => {
                let call = self.answer.open_call(&id, &name)?;
                self.calls.push((piece.index, call));
                call
            }
        };
        match function.arguments {
            Value::String(text) => self.answer.arguments(call, &name, &text)?,
            Value::Null => self.answer.arguments(call, &name, "")?,
            whole => self.answer.set_arguments(call, whole)?,
        }
        Ok(())
    }

    /// Returns the call that a piece continues, or `None` if it begins a new one.
    ///
    /// Servers that send whole calls may give each of them the index 0 or no index, and no id. There a new name after
    /// complete arguments begins a new call.
    fn known(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let call = match index {
            Some(_) => self.calls.iter().rev().find(|(known, _)| *known == index)?.1,
            // Without an index the id decides.
            None if !id.is_empty() => {
                let same = |(_, call): &&(Option<u64>, usize)| self.answer.call_id(*call) == id;
                return self.calls.iter().rev().find(same).map(|(_, call)| *call);
            }
            None => self.calls.last()?.1,
        };
        let known_id = self.answer.call_id(call);
        let other_id = !id.is_empty() && !known_id.is_empty() && id != known_id;
        let next_whole = !name.is_empty() && id.is_empty() && self.answer.is_complete(call);
        (!other_id && !next_whole).then_some(call)
    }

    fn count(&mut self, tokens: Tokens) {
        // OpenAI and DeepSeek report cached tokens in different places, as part of the prompt tokens.
        let cached = tokens
            .prompt_tokens_details
            .and_then(|details| details.cached_tokens)
            .or(tokens.prompt_cache_hit_tokens)
            .unwrap_or(0);
        let usage = &mut self.answer.usage;
        if let Some(prompt) = tokens.prompt_tokens {
            let written = tokens.prompt_tokens_details.and_then(|details| details.cache_write_tokens);
            usage.cache_read = cached.min(prompt);
            usage.cache_write = written.unwrap_or(0).min(prompt - usage.cache_read);
            usage.input = prompt - usage.cache_read - usage.cache_write;
        }
        usage.output = tokens.completion_tokens.unwrap_or(usage.output);
        if self.priced {
            usage.cost = tokens.charged().or(usage.cost);
        }
    }
}

impl Decoder for CompletionDecoder<'_> {
    fn event(&mut self, data: &[u8]) -> Result<Progress, EventError> {
        if data.trim_ascii() == b"[DONE]" {
            // Some servers never send a stop reason, so this may be the only end of an answer. Without anything before
            // it, it is no answer.
            let nothing = !self.stopped && self.answer.is_empty();
            return if nothing {
                Err(EventError::Unreadable("it ends before it begins".to_owned()))
            } else {
                Ok(Progress::Done)
            };
        }
        self.chunk(decode(data)?)?;
        Ok(if self.stopped { Progress::Stopped } else { Progress::Running })
    }

    fn whole(&mut self, document: &[u8]) -> Result<(), EventError> {
        let whole: Chunk = decode(document)?;
        if whole.error.is_none() && whole.choices.as_ref().is_none_or(Vec::is_empty) {
            return Err(EventError::Unreadable("there is no choice in it".to_owned()));
        }
        self.chunk(whole)
    }

    fn usage(&self) -> Usage {
        self.answer.usage
    }

    fn written(&self) -> usize {
        self.answer.readable()
    }
}

fn parse_failure(error: &Value) -> EventError {
    // Servers send the status as a number or a text, in `code` or in `status`.
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_u64().and_then(|code| u16::try_from(code).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let code = number(&error["code"]).or_else(|| number(&error["status"])).filter(|code| *code >= 400);
    let status = code.unwrap_or(match error["type"].as_str().or(error["code"].as_str()) {
        Some("rate_limit_exceeded" | "rate_limit_error" | "tokens" | "requests") => 429,
        Some("overloaded_error" | "overloaded") => 529,
        Some("invalid_request_error" | "context_length_exceeded") => 400,
        Some("authentication_error" | "invalid_api_key") => 401,
        _ => 500,
    });
    EventError::Failure { status, message: message_of(error).unwrap_or_else(|| error.to_string()) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::super::super::{Delta, Request};
    use super::*;

    #[test]
    fn repeated_call_names_are_cheap_for_long_arguments() {
        let mut sink = |_: Delta| {};
        let mut completion = CompletionDecoder::new(&mut sink, 8 << 20);
        let piece = |function: Value| {
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": function}]}}]}).to_string()
        };
        let begun = format!("{{\"a\": \"{}", "y".repeat(1_000_000));
        completion.event(piece(json!({"name": "x", "arguments": begun})).as_bytes()).unwrap();
        let more = piece(json!({"name": "x"}));
        let from = Instant::now();
        for _ in 0..2_000 {
            completion.event(more.as_bytes()).unwrap();
        }
        // Parsing a megabyte again for each piece would take a hundred times as long.
        assert!(from.elapsed() < Duration::from_secs(5), "{:?}", from.elapsed());
        completion.event(piece(json!({"arguments": "\"}"})).as_bytes()).unwrap();
        completion.event(piece(json!({"name": "x", "arguments": "{}"})).as_bytes()).unwrap();
        let answer = completion.finish(&Request::default());
        assert_eq!(answer.content.len(), 2, "a name after complete arguments begins another call");
    }

    #[test]
    fn invalid_token_counts_do_not_lose_the_answer() {
        for (usage, input) in [
            (json!({"prompt_tokens": 12.0, "completion_tokens": "3"}), 12),
            (json!({"prompt_tokens": -1}), 0),
            (json!({"prompt_tokens": 5, "prompt_tokens_details": 7}), 0),
            (json!("none"), 0),
        ] {
            let mut sink = |_: Delta| {};
            let mut completion = CompletionDecoder::new(&mut sink, 1_000);
            let event = json!({"choices": [{"delta": {"content": "a"}}], "usage": usage});
            completion.event(event.to_string().as_bytes()).unwrap();
            let answer = completion.finish(&Request::default());
            assert_eq!((answer.content.len(), answer.usage.input), (1, input), "{event}");
        }
    }
}
