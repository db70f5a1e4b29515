//! Writes a streamed answer: the parts of one turn as server-sent events.

use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer_limits::{AnswerCutter, AnswerLimits};
use super::{
    AnswerWriter, CompletionHead, CompletionUsage, REPLACED_MESSAGE, arguments_text, finish_reason, tool_call,
};
use crate::agent::{ClientCall, TurnEvent, TurnOutcome, TurnStop};
use crate::gateway::error::ApiError;

/// The content that a client wants besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamExtras {
    /// `true` for the usage at the end.
    pub usage: bool,
    /// `true` for the agent's activity, as named events that OpenAI's format does not have.
    pub activity: bool,
}

/// A writer for the events of one answer.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    /// The beginning of each chunk, up to its choices.
    before: String,
    /// The end of each chunk, after its choices.
    after: &'static str,
    extras: StreamExtras,
    /// Tells if text was written. More text after a tool call then needs a gap.
    gap: Gap,
    /// `true` if text came since the last tool call.
    came: bool,
    /// `true` if the text since the last tool call is not part of the answer.
    replaced: bool,
    /// Cuts each text of the answer.
    cutter: AnswerCutter,
    /// `true` if the text is held back until it is known to have the requested format.
    is_checked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    None,
    Written,
    Needed,
}

impl ChunkWriter {
    /// Creates a writer for an answer with the limits of `bound`. If it `is_checked`, its text is written only at the
    /// end.
    #[must_use]
    pub(crate) fn new(
        head: &CompletionHead,
        extras: StreamExtras,
        bound: AnswerLimits,
        is_checked: bool,
    ) -> Self {
        let before = json!({
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
            "system_fingerprint": null,
        });
        // The closing brace is removed, because the choices follow in the same object.
        let mut before = before.to_string();
        before.pop();
        // With `include_usage`, OpenAI's chunks carry a `usage` of `null` until the last one.
        let after = if extras.usage { r#","usage":null}"# } else { "}" };
        let cutter = AnswerCutter::new(bound);
        Self { before, after, extras, gap: Gap::None, came: false, replaced: false, cutter, is_checked }
    }

    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut delta = br#"{"content":"#.to_vec();
        if self.gap == Gap::Needed {
            write_json(&mut delta, &format!("\n\n{text}"));
        } else {
            write_json(&mut delta, &text);
        }
        delta.push(b'}');
        self.gap = Gap::Written;
        self.write_raw_chunk(out, &delta, "null");
    }

    /// Ends the current text, because the next piece belongs to another one.
    fn interrupt(&mut self, out: &mut Vec<u8>) {
        let rest = self.cutter.rest();
        self.text(out, &rest);
        self.cutter.begin_anew();
        if self.gap == Gap::Written {
            self.gap = Gap::Needed;
        }
        self.came = false;
        self.replaced = false;
    }

    fn activity(&self, out: &mut Vec<u8>, name: &str, what: &Value) {
        if self.extras.activity {
            out.extend_from_slice(format!("event: {name}\ndata: {what}\n\n").as_bytes());
        }
    }

    /// Writes a call for the client: first its name, then its arguments.
    fn call(&self, out: &mut Vec<u8>, index: usize, call: &ClientCall) {
        let mut begun = tool_call(call);
        begun["index"] = json!(index);
        begun["function"]["arguments"] = json!("");
        self.chunk(out, &json!({"tool_calls": [begun]}).to_string(), "null");
        let rest = json!({"index": index, "function": {"arguments": arguments_text(&call.arguments)}});
        self.chunk(out, &json!({"tool_calls": [rest]}).to_string(), "null");
    }

    fn chunk(&self, out: &mut Vec<u8>, delta: &str, finish_reason: &str) {
        self.write_raw_chunk(out, delta.as_bytes(), finish_reason);
    }

    fn write_raw_chunk(&self, out: &mut Vec<u8>, delta: &[u8], finish_reason: &str) {
        for part in [
            b"data: ",
            self.before.as_bytes(),
            br#","choices":[{"index":0,"delta":"#,
            delta,
            br#","logprobs":null,"finish_reason":"#,
            finish_reason.as_bytes(),
            b"}]",
            self.after.as_bytes(),
            b"\n\n",
        ] {
            out.extend_from_slice(part);
        }
    }
}

impl AnswerWriter for ChunkWriter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.chunk(out, r#"{"role":"assistant","content":"","refusal":null}"#, "null");
    }

    fn event(&mut self, out: &mut Vec<u8>, event: &TurnEvent) {
        match event {
            TurnEvent::TextDelta(_) if self.is_checked => {}
            TurnEvent::TextDelta(text) => {
                self.came |= !text.is_empty();
                let text = self.cutter.take(text);
                self.text(out, &text);
            }
            TurnEvent::Began => {}
            TurnEvent::ThinkingDelta(text) => self.activity(out, "turn.thinking", &json!({"text": text})),
            TurnEvent::ToolStarted { call_id, name, arguments_preview } => {
                self.interrupt(out);
                self.activity(
                    out,
                    "tool.started",
                    &json!({"call": call_id, "tool": name, "arguments": arguments_preview}),
                );
            }
            TurnEvent::ToolEnded { call_id, name, is_error, took } => {
                let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                let what = json!({"call": call_id, "tool": name, "isError": is_error, "tookMs": took});
                self.activity(out, "tool.ended", &what);
            }
            TurnEvent::Retrying { attempt, after, reason } => {
                // Streamed text can't be taken back. The gap shows where the answer begins again.
                self.interrupt(out);
                let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                let what = json!({"attempt": attempt, "afterMs": after, "reason": reason});
                self.activity(out, "turn.retrying", &what);
            }
            TurnEvent::TextReplaced if self.is_checked => {}
            TurnEvent::TextReplaced => {
                self.replaced = true;
                self.activity(out, "turn.notice", &json!({"text": REPLACED_MESSAGE}));
            }
            TurnEvent::Notice(text) => self.activity(out, "turn.notice", &json!({"text": text})),
        }
    }

    // If the text that was sent is not part of the answer, this is an error, because the client would read two answers
    // as one.
    fn end(&mut self, out: &mut Vec<u8>, outcome: &TurnOutcome) {
        if self.replaced {
            let error = ApiError::new(StatusCode::BAD_GATEWAY, "answer_replaced", REPLACED_MESSAGE);
            return self.fail(out, &error.with_hint("flock session list"));
        }
        // Text that was not streamed, such as a checked answer, is written now. The text before calls for the client
        // came before the agent's own calls.
        let is_written = outcome.stop == TurnStop::ToolCalls && !self.is_checked;
        if !self.came && !is_written {
            let text = self.cutter.take(&outcome.text);
            self.text(out, &text);
        }
        let rest = self.cutter.rest();
        self.text(out, &rest);
        for (index, call) in outcome.calls.iter().enumerate() {
            self.call(out, index, call);
        }
        let reason = format!("\"{}\"", finish_reason(self.cutter.stop(outcome.stop)));
        self.chunk(out, "{}", &reason);
        if self.extras.usage {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(self.before.as_bytes());
            out.extend_from_slice(br#","choices":[],"usage":"#);
            write_json(out, &CompletionUsage::from(outcome.usage));
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(DONE_EVENT);
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &ApiError) {
        out.extend_from_slice(b"data: ");
        write_json(out, &error.body("/v1"));
        out.extend_from_slice(b"\n\n");
        out.extend_from_slice(DONE_EVENT);
    }
}

/// The event that marks a stream as complete.
const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";

fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    // Strings and numbers always have a JSON form, and writing to a vector can't fail.
    drop(serde_json::to_writer(out, value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Usage;

    fn outcome(text: &str) -> TurnOutcome {
        TurnOutcome {
            text: text.to_owned(),
            stop: TurnStop::End,
            calls: Vec::new(),
            usage: Usage { input: 3, output: 4, cache_read: 2, cache_write: 1, cost: None },
            model: "script/x".parse().unwrap(),
            steps: 1,
        }
    }

    #[test]
    fn an_answer_that_was_replaced_ends_with_an_error_and_not_with_two_answers() {
        let written = |after: &[TurnEvent]| {
            let head = CompletionHead { id: "i".into(), created: 7, model: "coder".into() };
            let mut writer = ChunkWriter::new(&head, StreamExtras::default(), AnswerLimits::default(), false);
            let mut out = Vec::new();
            writer.event(&mut out, &TurnEvent::TextDelta("It is f".into()));
            writer.event(&mut out, &TurnEvent::TextReplaced);
            for event in after {
                writer.event(&mut out, event);
            }
            writer.end(&mut out, &outcome("Four it is."));
            data(&out)
        };
        let ended = written(&[]);
        let last = ended.last().unwrap();
        assert_eq!((&last["error"]["code"], ended.len()), (&json!("answer_replaced"), 2), "{ended:?}");
        assert!(!Value::from(ended).to_string().contains("Four"));
        // Text before a tool call is not part of the answer in any case.
        let call = TurnEvent::ToolStarted {
            call_id: "1".into(),
            name: "read".into(),
            arguments_preview: String::new(),
        };
        let ended = written(&[call, TurnEvent::TextDelta("Four it is.".into())]);
        assert_eq!(ended.last().unwrap()["choices"][0]["finish_reason"], "stop", "{ended:?}");
    }

    /// Returns the `data` of all events. Each one but the last is JSON.
    fn data(out: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(out).unwrap();
        let mut events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.pop(), Some("data: [DONE]"));
        events
            .iter()
            .map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap())
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    fn content(chunks: &[Value]) -> String {
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
    }

    #[test]
    fn an_answer_is_a_sequence_of_chunks() {
        let head = CompletionHead { id: "chatcmpl-1".into(), created: 7, model: "coder".into() };
        let mut writer = ChunkWriter::new(
            &head,
            StreamExtras { usage: true, activity: false },
            AnswerLimits::default(),
            false,
        );
        let mut out = Vec::new();
        writer.begin(&mut out);
        writer.event(&mut out, &TurnEvent::TextDelta("I \"look\"\n".into()));
        writer.event(
            &mut out,
            &TurnEvent::ToolStarted {
                call_id: "c".into(),
                name: "exec".into(),
                arguments_preview: "{}".into(),
            },
        );
        writer.event(&mut out, &TurnEvent::TextDelta("done".into()));
        writer.end(&mut out, &outcome("done"));
        let chunks = data(&out);
        assert_eq!(content(&chunks), "I \"look\"\n\n\ndone");
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == "chatcmpl-1")
        );
        let last = &chunks[chunks.len() - 2];
        assert_eq!(last["choices"][0]["finish_reason"], "stop");
        assert!(last["usage"].is_null());
        assert_eq!(chunks[chunks.len() - 1]["usage"]["total_tokens"], 10);
        assert_eq!(chunks[chunks.len() - 1]["choices"], json!([]));
    }

    #[test]
    fn calls_for_the_client_come_at_the_end_with_their_ids() {
        let head = CompletionHead { id: "i".into(), created: 7, model: "coder".into() };
        let call = |id: &str, city: &str| ClientCall {
            id: id.into(),
            name: "weather".into(),
            arguments: json!({"city": city}),
        };
        let calls = vec![call("call_1", "Oslo"), call("call_2", "Rome")];
        let outcome = TurnOutcome { stop: TurnStop::ToolCalls, calls, ..outcome("I look.") };
        let mut writer = ChunkWriter::new(&head, StreamExtras::default(), AnswerLimits::default(), false);
        let mut out = Vec::new();
        writer.event(&mut out, &TurnEvent::TextDelta("I look.".into()));
        let (call_id, name) = ("c".to_owned(), "exec".to_owned());
        writer.event(&mut out, &TurnEvent::ToolStarted { call_id, name, arguments_preview: "{}".into() });
        writer.end(&mut out, &outcome);
        let chunks = data(&out);
        assert_eq!(content(&chunks), "I look.", "it is not said twice");
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
        let mut told = [(String::new(), String::new()), (String::new(), String::new())];
        for chunk in &chunks {
            for call in chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let at = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
                told[at].0.push_str(call["id"].as_str().unwrap_or_default());
                told[at].1.push_str(call["function"]["arguments"].as_str().unwrap());
            }
        }
        let expected = [("call_1", r#"{"city":"Oslo"}"#), ("call_2", r#"{"city":"Rome"}"#)];
        assert_eq!(told, expected.map(|(id, arguments)| (id.to_owned(), arguments.to_owned())));
        let whole = crate::gateway::openai::completion(&head, &outcome);
        assert_eq!(whole["choices"][0]["message"]["tool_calls"][1]["id"], "call_2");
        assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    }

    #[test]
    fn each_text_is_cut_where_it_is_to_end() {
        let head = CompletionHead { id: "i".into(), created: 7, model: "coder".into() };
        let bound = AnswerLimits { stops: vec!["END".into()], tokens: Some(5) };
        let mut writer = ChunkWriter::new(&head, StreamExtras::default(), bound, false);
        let mut out = Vec::new();
        writer.begin(&mut out);
        writer.event(&mut out, &TurnEvent::TextDelta("first EN".into()));
        let (call_id, name) = ("c".to_owned(), "exec".to_owned());
        writer.event(&mut out, &TurnEvent::ToolStarted { call_id, name, arguments_preview: "{}".into() });
        for piece in ["one E", "ND two", " three"] {
            writer.event(&mut out, &TurnEvent::TextDelta(piece.into()));
        }
        writer.end(&mut out, &outcome("one END two three"));
        let chunks = data(&out);
        assert_eq!(content(&chunks), "first EN\n\none ");
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");

        let bound = AnswerLimits { stops: Vec::new(), tokens: Some(1) };
        let mut writer = ChunkWriter::new(&head, StreamExtras::default(), bound, true);
        let mut out = Vec::new();
        writer.event(&mut out, &TurnEvent::TextDelta("not yet".into()));
        assert!(out.is_empty(), "it is not checked");
        writer.end(&mut out, &outcome("12345"));
        let chunks = data(&out);
        assert_eq!(content(&chunks), "1234");
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
    }

    #[test]
    fn text_that_was_not_streamed_comes_at_the_end() {
        let head = CompletionHead { id: "i".into(), created: 7, model: "coder".into() };
        let mut writer = ChunkWriter::new(
            &head,
            StreamExtras { usage: false, activity: true },
            AnswerLimits::default(),
            false,
        );
        let mut out = Vec::new();
        writer.begin(&mut out);
        writer.event(&mut out, &TurnEvent::Notice("careful".into()));
        writer.end(&mut out, &outcome("all of it"));
        let chunks = data(&out);
        assert_eq!(content(&chunks), "all of it");
        assert_eq!(chunks[1]["text"], "careful");
        assert!(chunks[0].get("usage").is_none());
    }
}
