//! Selects the step of a script that answers a request. The same request always gets the same answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::super::{Block, Message, ProviderError, Request, Response, Role, StopReason, Usage, message};
use super::document::{ScriptDocument, ScriptedFailure, ScriptedStep};

const CALL_ID: &str = "call_script_";
/// Maximum bytes of a tool's result that a script quotes.
const MAX_QUOTE_BYTES: usize = 8 * 1024;

/// A step with its templates filled in.
pub(super) struct RenderedStep {
    pub delay: Duration,
    pub pace: Duration,
    pub think: String,
    pub say: String,
    pub calls: Vec<Block>,
    pub error: Option<ProviderError>,
    stop: Option<StopReason>,
    usage: Usage,
}

impl RenderedStep {
    pub(super) fn into_response(self) -> Response {
        let by_itself = if self.calls.is_empty() { StopReason::End } else { StopReason::ToolUse };
        let mut content = Vec::with_capacity(2 + self.calls.len());
        if !self.think.is_empty() {
            content.push(Block::Thinking { thinking: self.think, signature: None, redacted: None });
        }
        if !self.say.is_empty() {
            content.push(Block::text(self.say));
        }
        content.extend(self.calls);
        Response { content, stop: self.stop.unwrap_or(by_itself), usage: self.usage }
    }
}

/// Returns the script's answer to this request.
pub(super) fn answer(document: &ScriptDocument, request: &Request) -> RenderedStep {
    let start = request.messages.iter().rposition(|message| message.role == Role::User);
    let (asked, since) = match start {
        Some(at) => (request.messages[at].text_without_context(), &request.messages[at + 1..]),
        None => (String::new(), request.messages.as_slice()),
    };
    // The answers since the person's message tell how many steps were played, so no state is kept between requests.
    let done = since.iter().filter(|message| message.role == Role::Assistant).count();
    let lower = asked.to_lowercase();
    let reply = document
        .replies
        .iter()
        .find(|reply| reply.when.as_ref().is_none_or(|when| lower.contains(&when.to_lowercase())));
    let step = match reply {
        Some(reply) => reply.steps.get(done).cloned().unwrap_or_else(|| end_of_script("its last step")),
        None => end_of_script("no reply for this message"),
    };
    render(step, &asked, since, &request.messages)
}

/// Returns the step for a script that has no more to say. The turn must end all the same.
fn end_of_script(why: &str) -> ScriptedStep {
    ScriptedStep { say: format!("(The script ends here: {why}.)"), ..ScriptedStep::default() }
}

fn render(step: ScriptedStep, asked: &str, since: &[Arc<Message>], all: &[Arc<Message>]) -> RenderedStep {
    let template = Template { asked, result: last_result(since) };
    let first = next_call(all);
    let calls = step.calls.into_iter().zip(first..).map(|(call, number)| {
        // A call without arguments in the script has an empty object, as with a real model.
        let arguments = match call.arguments {
            Value::Null => Value::Object(serde_json::Map::new()),
            given => template.value(given),
        };
        Block::call(format!("{CALL_ID}{number}"), call.name, arguments)
    });
    RenderedStep {
        delay: Duration::from_millis(step.delay_ms),
        pace: Duration::from_millis(step.pace_ms),
        calls: calls.collect(),
        think: template.text(step.think),
        say: template.text(step.say),
        error: step.error.map(failure),
        stop: step.stop,
        usage: step.usage,
    }
}

fn failure(failure: ScriptedFailure) -> ProviderError {
    let retry_after = failure.retry_after_ms.map(Duration::from_millis);
    match failure.status {
        Some(status) => ProviderError::from_status("script", status, failure.message, retry_after),
        None => ProviderError::Failed {
            provider: "script".to_owned(),
            message: if failure.message.is_empty() {
                "the answer broke off".to_owned()
            } else {
                failure.message
            },
            retry_after,
            unsent: false,
        },
    }
}

struct Template<'a> {
    asked: &'a str,
    result: Option<String>,
}

impl Template<'_> {
    fn text(&self, text: String) -> String {
        if !text.contains("{{") {
            return text;
        }
        // The result is inserted last, so that templates in a tool's output are not filled in.
        let result = self.result.as_deref().unwrap_or("(no tool has been run)");
        text.replace("{{last_message}}", self.asked).replace("{{last_result}}", result)
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(entries) => {
                Value::Object(entries.into_iter().map(|(key, value)| (key, self.value(value))).collect())
            }
            other => other,
        }
    }
}

/// Returns the output of the last tool since the person's message, shortened.
fn last_result(since: &[Arc<Message>]) -> Option<String> {
    let content =
        since.iter().rev().flat_map(|message| message.content.iter().rev()).find_map(
            |block| match block {
                Block::ToolResult { content, .. } => Some(content),
                _ => None,
            },
        )?;
    let text = message::joined_text(content);
    Some(shorten(&text, MAX_QUOTE_BYTES).into_owned())
}

fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(limit);
    Cow::Owned(format!("{}\n… ({} bytes more)", &text[..end], text.len() - end))
}

/// Returns a number for the next call that no call of this conversation has. It is also unique if the beginning of the
/// conversation was left out, because the largest number counts.
fn next_call(messages: &[Arc<Message>]) -> u64 {
    let numbers = messages.iter().flat_map(|message| message.tool_calls());
    let numbers = numbers.filter_map(|call| call.id.strip_prefix(CALL_ID)?.parse::<u64>().ok());
    numbers.max().unwrap_or(0).saturating_add(1)
}
