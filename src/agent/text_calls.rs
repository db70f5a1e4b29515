//! Tool calls as text, for models whose API takes none: what the model is shown, and what it writes back.
//!
//! Pure but for [`TextCalling`], which stands in front of a provider. A call is run only where the model itself
//! makes it: at the end of its answer, on a line of its own, outside of a code block. Everything else that a model
//! reads has the marks taken out of it, so that quoting a person or a tool's result makes no call.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::provider::{
    Block, BoxFuture, Delta, Message, Provider, ProviderError, Request, Response, Role, Sink, StopReason,
};

/// Begins a call.
pub const OPEN: &str = "<tool_call>";
/// Ends it.
pub const CLOSE: &str = "</tool_call>";

/// The names of the marks.
const MARKS: [&str; 2] = ["tool_call", "tool_result"];

/// What a call is named that can't be read: there is no such tool, and the model is told those there are.
const UNREADABLE: &str = "unreadable_tool_call";

/// An answer taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer<'t> {
    /// What is for people.
    pub text: &'t str,
    /// The calls after it: name and arguments.
    pub calls: Vec<(String, Value)>,
}

/// Takes a whole answer apart. Only what stands at its end is a call: a model that goes on talking has not
/// waited for a result.
#[must_use]
pub fn parse(answer: &str) -> Answer<'_> {
    let mut lines = Lines::default();
    let mut at = 0;
    for line in answer.split_inclusive('\n') {
        let begins = lines.may_call(line) && line.trim_start().starts_with(OPEN);
        if begins && let Some(calls) = calls(&answer[at..]) {
            return Answer { text: answer[..at].trim_end(), calls };
        }
        lines.read(line);
        at += line.len();
    }
    Answer { text: answer, calls: Vec::new() }
}

/// One call after the other to the end; `None` if something else is there.
fn calls(text: &str) -> Option<Vec<(String, Value)>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let inner = rest.strip_prefix(OPEN)?;
        let mut values = serde_json::Deserializer::from_str(inner).into_iter::<Value>();
        let (value, after) = match values.next() {
            // By what was read, and not by looking for the mark: an argument may have it as text.
            Some(Ok(value)) => (Some(value), inner[values.byte_offset()..].trim_start()),
            _ => (None, &inner[inner.find(CLOSE).unwrap_or(inner.len())..]),
        };
        // A model may be stopped right before the last mark.
        rest = if after.is_empty() { "" } else { after.strip_prefix(CLOSE)?.trim_start() };
        found.push(value.and_then(call).unwrap_or_else(|| (UNREADABLE.to_owned(), json!({}))));
    }
    Some(found)
}

fn call(value: Value) -> Option<(String, Value)> {
    let Value::Object(mut call) = value else { return None };
    let Some(Value::String(name)) = call.remove("name") else { return None };
    let arguments = match call.remove("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        // As providers send them; what does not parse is refused where a call is checked.
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            _ => Value::String(text),
        },
        Some(arguments) => arguments,
    };
    Some((name, arguments))
}

/// Whether lines are quoted.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    fence: Option<char>,
}

impl Lines {
    fn read(&mut self, line: &str) {
        let line = line.trim_start();
        let fence = ['`', '~'].into_iter().find(|mark| line.starts_with(&mark.to_string().repeat(3)));
        match (self.fence, fence) {
            (None, Some(mark)) => self.fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => self.fence = None,
            _ => {}
        }
    }

    /// Whether a line, or its beginning, is or may become the first of a call.
    fn may_call(self, line: &str) -> bool {
        let begin = line.trim_start();
        self.fence.is_none()
            && (begin.starts_with(OPEN) || (OPEN.starts_with(begin) && !line.ends_with('\n')))
    }
}

/// What of an answer can be shown while it comes: never a part of a call.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    answer: String,
    lines: Lines,
    /// Where the last line begins.
    line: usize,
    shown: usize,
    /// A call may have begun: the rest waits for the end.
    holds: bool,
}

impl Shown {
    /// Takes more of the answer; gives what can be shown now.
    pub fn push(&mut self, piece: &str) -> &str {
        self.answer.push_str(piece);
        let from = self.shown;
        while !self.holds {
            let line = &self.answer[self.line..];
            let end = line.find('\n').map(|end| end + 1);
            let line = &line[..end.unwrap_or(line.len())];
            if self.lines.may_call(line) {
                self.holds = line.trim_start().starts_with(OPEN);
                break;
            }
            self.shown = self.line + line.len();
            let Some(end) = end else { break };
            self.lines.read(line);
            self.line += end;
        }
        &self.answer[from..self.shown.max(from)]
    }

    /// The answer is whole: gives what had waited and is no call after all.
    #[must_use]
    pub fn finish(&self) -> &str {
        let text = parse(&self.answer).text;
        text.get(self.shown..).unwrap_or_default()
    }
}

/// A conversation as a model is shown it that knows no calls: its own as it wrote them, results as messages
/// to it. What others have said has no marks in it.
#[must_use]
pub fn as_text(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let shown = |message: &Arc<Message>| {
        let role = if message.role == Role::Tool { Role::User } else { message.role };
        let content = message.content.iter().flat_map(|block| block_as_text(block, message.role)).collect();
        Arc::new(Message { role, content })
    };
    messages.iter().map(shown).collect()
}

fn block_as_text(block: &Block, role: Role) -> Vec<Block> {
    match block {
        Block::ToolCall { name, arguments, .. } => {
            let call = json!({"name": name, "arguments": arguments});
            vec![Block::text(format!("{OPEN}{call}{CLOSE}"))]
        }
        Block::ToolResult { name, content, is_error, .. } => {
            let status = if *is_error { "error" } else { "ok" };
            let text = tame(&crate::provider::message::joined_text(content));
            let name = tame(name).replace(['"', '<', '>'], "_");
            let text = format!("<tool_result name=\"{name}\" status=\"{status}\">\n{text}\n</tool_result>");
            let images = content.iter().filter(|block| matches!(block, Block::Image { .. })).cloned();
            std::iter::once(Block::text(text)).chain(images).collect()
        }
        Block::Text { text, .. } if role != Role::Assistant => vec![Block::text(tame(text))],
        block => vec![block.clone()],
    }
}

/// The text without the marks of calls and results, in whatever case they are written.
#[must_use]
pub fn tame(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, mark) = rest.split_at(at + 1);
        out.push_str(before);
        // Letters that nobody sees would make the mark again for a model that does not see them either.
        let name: String = mark
            .chars()
            .filter(|c| !crate::clean::is_unseen(*c) && !c.is_whitespace() && *c != '/')
            .take(16)
            .collect::<String>()
            .to_lowercase();
        if MARKS.iter().any(|known| name.starts_with(known)) {
            out.pop();
            out.push('‹');
        }
        rest = mark;
    }
    out.push_str(rest);
    out
}

/// The request as a model is sent it that knows no calls.
fn spoken(request: &Request) -> Request {
    Request { messages: as_text(&request.messages), tools: Vec::new(), ..request.clone() }
}

/// A provider whose model is told of tools in text.
pub struct TextCalling(pub Arc<dyn Provider>);

impl Provider for TextCalling {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        self.0.body(&spoken(request))
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let asked = spoken(request);
            let mut shown = Shown::default();
            let mut filtered = |delta: Delta| match delta {
                Delta::Text(piece) => {
                    let text = shown.push(&piece);
                    if !text.is_empty() {
                        sink(Delta::Text(text.to_owned()));
                    }
                }
                Delta::Thinking(_) | Delta::ToolCall => sink(delta),
            };
            let response = self.0.call(&asked, &mut filtered).await?;
            let rest = shown.finish();
            if !rest.is_empty() {
                sink(Delta::Text(rest.to_owned()));
            }
            Ok(with_calls(response))
        })
    }
}

/// An answer whose text is taken apart into text and calls.
fn with_calls(mut response: Response) -> Response {
    let text = crate::provider::message::joined_text(&response.content);
    let answer = parse(&text);
    if answer.calls.is_empty() {
        return response;
    }
    response.content.retain(|block| !matches!(block, Block::Text { .. }));
    if !answer.text.is_empty() {
        response.content.push(Block::text(answer.text));
    }
    // An id is given to each where all calls get theirs.
    let block = |(name, arguments)| Block::ToolCall { id: String::new(), name, arguments, signature: None };
    response.content.extend(answer.calls.into_iter().map(block));
    if response.stop == StopReason::End {
        response.stop = StopReason::ToolUse;
    }
    response
}

#[cfg(test)]
#[path = "text_calls_tests.rs"]
mod tests;
