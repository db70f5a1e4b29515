//! Makes the items of a response from the events of its turn, and writes them as server-sent events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{ResponseHead, usage};
use crate::agent::{ClientCall, TurnEvent, TurnOutcome, TurnStop};
use crate::gateway::error::ApiError;
use crate::gateway::openai::answer_limits::{AnswerCutter, AnswerLimits};
use crate::gateway::openai::{AnswerWriter, REPLACED_MESSAGE, arguments_text};
use crate::sync::lock;

/// The server that a response names for the agent's own tool calls. They are items of MCP calls, because clients run the
/// calls of functions themselves.
const SERVER_LABEL: &str = "flock";

/// The items of one response.
#[derive(Debug)]
pub(crate) struct ResponseOutput {
    head: ResponseHead,
    items: Vec<Value>,
    /// The message that receives text.
    open: Option<OpenMessage>,
    /// The positions of the items of calls that run, by the id of the call.
    running: HashMap<String, usize>,
    /// Number of the next event.
    sequence: u64,
    /// Cuts each text of the answer.
    cutter: AnswerCutter,
    /// `true` if the text is held back until it is known to have the requested format.
    is_checked: bool,
    /// `true` if events are written.
    streams: bool,
    /// `true` if the text since the last tool call is not part of the answer.
    is_replaced: bool,
    /// The whole response, once its turn has ended well.
    ended: Option<Value>,
    /// The events that close the last items. They are written with the end of the stream.
    closing: Vec<u8>,
}

#[derive(Debug)]
struct OpenMessage {
    at: usize,
    text: String,
}

impl ResponseOutput {
    /// Creates the output of a turn whose answer has the limits of `bound`. If it `is_checked`, its text is written only
    /// at the end. If it `streams`, events are written.
    #[must_use]
    pub(crate) fn new(head: ResponseHead, bound: AnswerLimits, is_checked: bool, streams: bool) -> Self {
        Self {
            head,
            items: Vec::new(),
            open: None,
            running: HashMap::new(),
            sequence: 0,
            cutter: AnswerCutter::new(bound),
            is_checked,
            streams,
            is_replaced: false,
            ended: None,
            closing: Vec::new(),
        }
    }

    /// Returns the whole response of a turn that ended well, or `None` if the stream has text that is not part of it.
    pub(crate) fn finish(&mut self, outcome: &TurnOutcome) -> Option<Value> {
        if self.ended.is_none() && !(self.is_replaced && self.streams) {
            let mut closing = Vec::new();
            self.ended = Some(self.close(&mut closing, outcome));
            self.closing = closing;
        }
        self.ended.clone()
    }

    /// Takes an event of the turn.
    pub(crate) fn event(&mut self, out: &mut Vec<u8>, event: &TurnEvent) {
        match event {
            TurnEvent::TextDelta(_) | TurnEvent::TextReplaced if self.is_checked => {}
            TurnEvent::TextDelta(text) => {
                let text = self.cutter.take(text);
                self.text(out, &text);
            }
            TurnEvent::TextReplaced => self.is_replaced = true,
            TurnEvent::ToolStarted { call_id, name, arguments_preview } => {
                self.interrupt(out, "completed");
                self.call(out, call_id, name, arguments_preview);
            }
            TurnEvent::ToolEnded { call_id, is_error, .. } => self.call_ended(out, call_id, *is_error),
            // Streamed text can't be taken back. The answer begins again as another message.
            TurnEvent::Retrying { .. } => self.interrupt(out, "incomplete"),
            TurnEvent::Began | TurnEvent::ThinkingDelta(_) | TurnEvent::Notice(_) => {}
        }
    }

    /// Writes the events of a response that ended before.
    pub(crate) fn replay(&mut self, out: &mut Vec<u8>, response: Value) {
        self.begin(out);
        for (at, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            if item["type"] == "function_call" {
                self.function_call(out, at, item);
                continue;
            }
            let mut begun = item.clone();
            begun["status"] = json!("in_progress");
            let text = item["content"][0]["text"].as_str();
            if text.is_some() {
                begun["content"] = json!([]);
            }
            self.send(out, "response.output_item.added", json!({"output_index": at, "item": begun}));
            if let Some(text) = text {
                self.part(out, at, "response.content_part.added", "");
                self.delta(out, at, text);
                self.message_done(out, at, text);
            }
            self.send(out, "response.output_item.done", json!({"output_index": at, "item": item}));
        }
        self.ended = Some(response);
        self.write_end(out);
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        let response = self.head.with(json!({}));
        self.send(out, "response.created", json!({"response": response}));
        self.send(out, "response.in_progress", json!({"response": response}));
    }

    /// Ends all items and returns the whole response.
    fn close(&mut self, out: &mut Vec<u8>, outcome: &TurnOutcome) -> Value {
        if std::mem::take(&mut self.is_replaced) {
            self.cutter.begin_anew();
            if let Some(open) = self.open.take() {
                // It is the last item, because every other item interrupts a message.
                self.items.truncate(open.at);
            }
        }
        // Text that did not come in pieces, such as a checked answer, comes now. The text before calls for the client
        // came before the agent's own calls.
        let is_written = outcome.stop == TurnStop::ToolCalls && !self.is_checked;
        if self.open.is_none() && !is_written {
            let text = self.cutter.take(&outcome.text);
            self.text(out, &text);
        }
        let rest = self.cutter.rest();
        self.text(out, &rest);
        let reason = match self.cutter.stop(outcome.stop) {
            TurnStop::End | TurnStop::ToolCalls => None,
            TurnStop::Length => Some("max_output_tokens"),
            TurnStop::Refusal => Some("content_filter"),
        };
        let status = if reason.is_none() { "completed" } else { "incomplete" };
        self.close_message(out, status);
        // A call whose end was not reported ended with its turn.
        let running: Vec<String> = self.running.keys().cloned().collect();
        for call in running {
            self.call_ended(out, &call, true);
        }
        for call in &outcome.calls {
            self.hand_out(out, call);
        }
        self.head.with(json!({
            "status": status,
            "incomplete_details": reason.map(|reason| json!({"reason": reason})),
            "output": self.items,
            "usage": usage(outcome.usage),
        }))
    }

    /// Ends the current text, because the next piece belongs to another one.
    fn interrupt(&mut self, out: &mut Vec<u8>, status: &str) {
        let rest = self.cutter.rest();
        self.text(out, &rest);
        self.cutter.begin_anew();
        self.is_replaced = false;
        self.close_message(out, status);
    }

    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        if text.is_empty() {
            return;
        }
        let at = match &mut self.open {
            Some(open) => {
                open.text.push_str(text);
                open.at
            }
            None => {
                let at = self.items.len();
                self.items.push(self.message(at, "in_progress", None));
                self.open = Some(OpenMessage { at, text: text.to_owned() });
                self.send(
                    out,
                    "response.output_item.added",
                    json!({"output_index": at, "item": self.items[at]}),
                );
                self.part(out, at, "response.content_part.added", "");
                at
            }
        };
        self.delta(out, at, text);
    }

    fn close_message(&mut self, out: &mut Vec<u8>, status: &str) {
        let Some(OpenMessage { at, text }) = self.open.take() else { return };
        self.message_done(out, at, &text);
        self.items[at] = self.message(at, status, Some(&text));
        self.send(out, "response.output_item.done", json!({"output_index": at, "item": self.items[at]}));
    }

    fn call(&mut self, out: &mut Vec<u8>, call: &str, name: &str, arguments: &str) {
        let at = self.items.len();
        let id = self.item_id("mcp", at);
        self.items.push(json!({
            "id": id,
            "type": "mcp_call",
            "approval_request_id": null,
            "arguments": arguments,
            "error": null,
            "name": name,
            "output": null,
            "server_label": SERVER_LABEL,
            "status": "in_progress",
        }));
        self.running.insert(call.to_owned(), at);
        self.send(out, "response.output_item.added", json!({"output_index": at, "item": self.items[at]}));
        self.send(out, "response.mcp_call.in_progress", json!({"output_index": at, "item_id": id}));
        let done = json!({"output_index": at, "item_id": id, "arguments": arguments});
        self.send(out, "response.mcp_call_arguments.done", done);
    }

    /// Adds a call that the client has to answer.
    fn hand_out(&mut self, out: &mut Vec<u8>, call: &ClientCall) {
        let at = self.items.len();
        self.items.push(json!({
            "id": self.item_id("fc", at),
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments_text(&call.arguments),
            "status": "completed",
        }));
        let item = self.items[at].clone();
        self.function_call(out, at, &item);
    }

    /// Writes the events of a call that the client has to answer.
    fn function_call(&mut self, out: &mut Vec<u8>, at: usize, item: &Value) {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        begun["arguments"] = json!("");
        let (id, arguments) = (&item["id"], &item["arguments"]);
        self.send(out, "response.output_item.added", json!({"output_index": at, "item": begun}));
        let delta = json!({"output_index": at, "item_id": id, "delta": arguments});
        self.send(out, "response.function_call_arguments.delta", delta);
        let done = json!({"output_index": at, "item_id": id, "name": item["name"], "arguments": arguments});
        self.send(out, "response.function_call_arguments.done", done);
        self.send(out, "response.output_item.done", json!({"output_index": at, "item": item}));
    }

    fn call_ended(&mut self, out: &mut Vec<u8>, call: &str, is_error: bool) {
        let Some(at) = self.running.remove(call) else { return };
        let status = if is_error { "failed" } else { "completed" };
        let item = &mut self.items[at];
        item["status"] = json!(status);
        if is_error {
            item["error"] = json!("the call failed; the session has its result");
        }
        let (item, id) = (item.clone(), item["id"].clone());
        let kind = format!("response.mcp_call.{status}");
        self.send(out, &kind, json!({"output_index": at, "item_id": id}));
        self.send(out, "response.output_item.done", json!({"output_index": at, "item": item}));
    }

    fn message(&self, at: usize, status: &str, text: Option<&str>) -> Value {
        let content: Vec<Value> = text.map(text_part).into_iter().collect();
        json!({
            "id": self.item_id("msg", at),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        })
    }

    fn message_done(&mut self, out: &mut Vec<u8>, at: usize, text: &str) {
        let done = json!({"item_id": self.item_id("msg", at), "output_index": at, "content_index": 0, "text": text,
            "logprobs": []});
        self.send(out, "response.output_text.done", done);
        self.part(out, at, "response.content_part.done", text);
    }

    fn part(&mut self, out: &mut Vec<u8>, at: usize, kind: &str, text: &str) {
        let item = self.item_id("msg", at);
        let part = json!({"item_id": item, "output_index": at, "content_index": 0, "part": text_part(text)});
        self.send(out, kind, part);
    }

    fn delta(&mut self, out: &mut Vec<u8>, at: usize, text: &str) {
        let delta = json!({"item_id": self.item_id("msg", at), "output_index": at, "content_index": 0, "delta": text,
            "logprobs": []});
        self.send(out, "response.output_text.delta", delta);
    }

    fn item_id(&self, kind: &str, at: usize) -> String {
        format!("{kind}_{}_{at}", self.head.turn)
    }

    fn write_end(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.closing);
        if let Some(response) = self.ended.clone() {
            let status = response["status"].as_str().unwrap_or("completed");
            let kind = format!("response.{status}");
            self.send(out, &kind, json!({"response": response}));
        }
    }

    /// Writes an event.
    fn send(&mut self, out: &mut Vec<u8>, kind: &str, mut fields: Value) {
        if !self.streams {
            return;
        }
        fields["type"] = json!(kind);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        out.extend_from_slice(format!("event: {kind}\ndata: {fields}\n\n").as_bytes());
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// The writer of a streamed response. Its output is shared with the end of the turn, which stores the response before
/// the client can read that it is complete.
pub(crate) struct ResponseWriter(pub(crate) Arc<Mutex<ResponseOutput>>);

impl AnswerWriter for ResponseWriter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        lock(&self.0).begin(out);
    }

    fn event(&mut self, out: &mut Vec<u8>, event: &TurnEvent) {
        lock(&self.0).event(out, event);
    }

    fn end(&mut self, out: &mut Vec<u8>, outcome: &TurnOutcome) {
        let mut output = lock(&self.0);
        if output.finish(outcome).is_some() {
            return output.write_end(out);
        }
        drop(output);
        let error = ApiError::new(StatusCode::BAD_GATEWAY, "answer_replaced", REPLACED_MESSAGE);
        self.fail(out, &error.with_hint("flock session list"));
    }

    fn fail(&mut self, out: &mut Vec<u8>, error: &ApiError) {
        let mut output = lock(&self.0);
        output.close_message(out, "incomplete");
        let response = output.head.with(json!({
            "status": "failed",
            "error": {"code": error.code, "message": error.message},
            "output": output.items,
        }));
        output.send(out, "response.failed", json!({"response": response}));
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
