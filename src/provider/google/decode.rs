//! Decoder for the stream of Google's generateContent API.

use serde::Deserialize;
use serde_json::Value;

use super::super::decoder::{Decoder, EventError, Progress, decode};
use super::super::http::message_of;
use super::super::number;
use super::super::response_builder::ResponseBuilder;
use super::super::{Request, Response, Sink, StopReason, Usage};

/// A decoder for the chunks of a generateContent stream.
pub(in crate::provider) struct GoogleDecoder<'a> {
    answer: ResponseBuilder<'a>,
    stop: StopReason,
    stopped: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    #[serde(default, deserialize_with = "number::counts")]
    usage_metadata: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
    #[serde(default, alias = "thought_signature")]
    thought_signature: Option<String>,
    function_call: Option<Call>,
}

#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    name: Option<String>,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    #[serde(default, deserialize_with = "number::count")]
    prompt_token_count: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    candidates_token_count: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    thoughts_token_count: Option<u64>,
    #[serde(default, deserialize_with = "number::count")]
    cached_content_token_count: Option<u64>,
}

impl<'a> GoogleDecoder<'a> {
    pub(in crate::provider) fn new(sink: Sink<'a>, limit: usize) -> Self {
        Self { answer: ResponseBuilder::new(sink, limit), stop: StopReason::End, stopped: false }
    }

    pub(in crate::provider) fn finish(self, request: &Request) -> Response {
        self.answer.finish(self.stop, request)
    }

    fn chunk(&mut self, chunk: Chunk) -> Result<(), EventError> {
        if let Some(error) = &chunk.error {
            return Err(parse_failure(error));
        }
        if let Some(tokens) = &chunk.usage_metadata {
            self.count(tokens);
        }
        // The prompt itself was blocked, so there is no candidate.
        if chunk.prompt_feedback.and_then(|feedback| feedback.block_reason).is_some() {
            (self.stop, self.stopped) = (StopReason::Refusal, true);
        }
        let Some(candidate) = chunk.candidates.and_then(|all| all.into_iter().next()) else { return Ok(()) };
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.part(part)?;
        }
        match candidate.finish_reason.as_deref() {
            None | Some("" | "FINISH_REASON_UNSPECIFIED") => Ok(()),
            Some(reason) => self.finished(reason, candidate.finish_message),
        }
    }

    fn part(&mut self, part: Part) -> Result<(), EventError> {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            let id = call.id.unwrap_or_default();
            let at = self.answer.open_call(&id, &call.name.unwrap_or_default())?;
            match call.args {
                Value::Null => {}
                args => self.answer.set_arguments(at, args)?,
            }
            // Gemini signs the calls themselves, so the signature stays with the call.
            return self.sign(Some(at), signature);
        }
        let Some(text) = part.text else { return Ok(()) };
        let is_empty = text.is_empty();
        if part.thought == Some(true) {
            self.answer.thinking(text)?;
            return if is_empty { Ok(()) } else { self.sign(self.answer.last(), signature) };
        }
        self.answer.text(text)?;
        let mut at = self.answer.last();
        // A stream may end with a signature and no text. It belongs to the text before it; if there is none, it gets an
        // empty text.
        if is_empty && signature.is_some() && !at.is_some_and(|at| self.answer.is_text(at)) {
            at = Some(self.answer.open_text()?);
        }
        if is_empty && signature.is_none() {
            return Ok(());
        }
        self.sign(at, signature)
    }

    fn sign(&mut self, part: Option<usize>, signature: Option<String>) -> Result<(), EventError> {
        if let (Some(part), Some(signature)) = (part, signature) {
            self.answer.sign(part, signature)?;
        }
        Ok(())
    }

    fn finished(&mut self, reason: &str, message: Option<String>) -> Result<(), EventError> {
        let failed = |status| {
            let message = message.unwrap_or_else(|| format!("the model stopped with {reason}"));
            Err(EventError::Failure { status, message })
        };
        self.stop = match reason {
            "MAX_TOKENS" => StopReason::Length,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => StopReason::Refusal,
            // The model wrote a malformed call. Asked again, it mostly gets it right, so this is reported as a failure
            // that may pass.
            "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" => return failed(500),
            // After a part of an answer this reason counts as an end. Without any part there is nothing to show.
            "OTHER" if self.answer.is_empty() => return failed(500),
            // The same request would fail again, so it is reported as rejected.
            "MISSING_THOUGHT_SIGNATURE" | "TOO_MANY_TOOL_CALLS" => return failed(400),
            // A call needs no reason of its own: the answer already contains it.
            _ => StopReason::End,
        };
        self.stopped = true;
        Ok(())
    }

    fn count(&mut self, tokens: &Tokens) {
        let usage = &mut self.answer.usage;
        // Each chunk repeats the counts so far, and may leave one out.
        if let Some(prompt) = tokens.prompt_token_count {
            // The prompt's count includes the cached tokens.
            let cached = tokens.cached_content_token_count.unwrap_or(0).min(prompt);
            usage.input = prompt - cached;
            usage.cache_read = cached;
        }
        // Reasoning is counted apart from the text. Both are output.
        let written = tokens.candidates_token_count.unwrap_or(0);
        let output = written.saturating_add(tokens.thoughts_token_count.unwrap_or(0));
        usage.output = usage.output.max(output);
    }
}

impl Decoder for GoogleDecoder<'_> {
    fn event(&mut self, data: &[u8]) -> Result<Progress, EventError> {
        if self.stopped && data.trim_ascii() == b"[DONE]" {
            return Ok(Progress::Done);
        }
        self.chunk(decode(data)?)?;
        Ok(if self.stopped { Progress::Stopped } else { Progress::Running })
    }

    fn whole(&mut self, document: &[u8]) -> Result<(), EventError> {
        self.chunk(decode(document)?)?;
        if self.stopped {
            Ok(())
        } else {
            Err(EventError::Unreadable("there is no whole answer in it".to_owned()))
        }
    }

    fn usage(&self) -> Usage {
        self.answer.usage
    }

    fn written(&self) -> usize {
        self.answer.readable()
    }
}

fn parse_failure(error: &Value) -> EventError {
    let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let status = code.unwrap_or(match error["status"].as_str() {
        // Without a code the status name decides.
        Some("INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE") => 400,
        Some("UNAUTHENTICATED") => 401,
        Some("PERMISSION_DENIED") => 403,
        Some("NOT_FOUND") => 404,
        Some("RESOURCE_EXHAUSTED") => 429,
        _ => 500,
    });
    EventError::Failure { status, message: message_of(error).unwrap_or_else(|| error.to_string()) }
}
