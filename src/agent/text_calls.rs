//! Tool calls written as text, for models whose API has no tool calls: how flock shows them to the model and reads them
//! back.
//!
//! Pure except for [`TextCalling`], which wraps a provider. A call is run only if the model itself makes it: at the end
//! of its answer, on a line that begins with the call's tag, outside of a code block. flock removes the tags from
//! everything else that a model reads, so that quoting a person or a tool's result makes no call.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::prompt::{call_marks, marks as flock_marks};
use super::transcript::hygiene::session_mark_positions;
use crate::clean::Skeleton;
use crate::provider::{
    Block, BoxFuture, Delta, MAX_BLOCKS, Message, Provider, ProviderError, Request, Response, Role, Sink,
    StopReason,
};

/// The tag that begins a call.
pub const OPEN: &str = "<tool_call>";
/// The tag that ends a call.
pub const CLOSE_TAG: &str = "</tool_call>";

/// The most bytes of whitespace before a call on its line.
const MAX_INDENT: usize = 256;

/// The name given to a call that can't be parsed. No such tool exists, so the model gets an error that lists its tools.
const UNREADABLE: &str = "unreadable_tool_call";

/// An answer split into its text and its tool calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedAnswer<'t> {
    /// The text for people.
    pub text: &'t str,
    /// The calls that follow the text, each as name and arguments.
    pub calls: Vec<(String, Value)>,
}

/// Splits a whole answer into text and calls.
///
/// Only calls at the very end count: a model that goes on writing after a call has not waited for its result.
///
/// Each part is read once: if other text follows some calls, none of them is at the end, and the search goes on behind
/// that text.
#[must_use]
pub fn parse(answer: &str) -> ParsedAnswer<'_> {
    let mut lines = FenceTracker::default();
    let (mut at, mut from) = (0, 0);
    for line in answer.split_inclusive('\n') {
        // `from` skips lines inside a run of calls that other text has followed: they were read already.
        if at >= from && is_call_start(line) && lines.fence.is_none() {
            match calls(&answer[at..]) {
                Ok(calls) => return ParsedAnswer { text: answer[..at].trim_end(), calls },
                Err(other) => from = at + other,
            }
        }
        lines.read(line);
        at += line.len();
    }
    ParsedAnswer { text: answer, calls: Vec::new() }
}

/// Returns the calls of a text that consists only of calls.
///
/// If other text is found, returns its position as the error. At most one call more than [`MAX_BLOCKS`] is returned,
/// which is enough for the caller to refuse the answer.
fn calls(text: &str) -> Result<Vec<(String, Value)>, usize> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    let place = |rest: &str| rest.as_ptr().addr() - text.as_ptr().addr();
    while !rest.is_empty() {
        let inner = rest.strip_prefix(OPEN).ok_or_else(|| place(rest))?;
        let mut values = serde_json::Deserializer::from_str(inner).into_iter::<Value>();
        let (value, after) = match values.next() {
            // The parser's position ends the value, not a search for the tag: an argument may contain the tag as text.
            Some(Ok(value)) => (Some(value), inner[values.byte_offset()..].trim_start()),
            _ => (None, &inner[inner.find(CLOSE_TAG).unwrap_or(inner.len())..]),
        };
        // A model may be stopped right before it writes the last closing tag.
        rest = if after.is_empty() {
            ""
        } else {
            after.strip_prefix(CLOSE_TAG).ok_or_else(|| place(after))?.trim_start()
        };
        // One call more than allowed is kept, and no others: a hostile answer must not fill the memory.
        if found.len() <= MAX_BLOCKS {
            found.push(value.and_then(call).unwrap_or_else(|| (UNREADABLE.to_owned(), json!({}))));
        }
    }
    Ok(found)
}

fn call(value: Value) -> Option<(String, Value)> {
    let Value::Object(mut call) = value else { return None };
    let Some(Value::String(name)) = call.remove("name") else { return None };
    let arguments = match call.remove("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        // Some providers send the arguments as a JSON string. One that does not parse is refused where calls are
        // checked.
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            _ => Value::String(text),
        },
        Some(arguments) => arguments,
    };
    Some((name, crate::provider::shallow(arguments)))
}

/// Tracks whether the current line is inside a code block.
#[derive(Clone, Copy, Debug, Default)]
struct FenceTracker {
    fence: Option<&'static str>,
}

impl FenceTracker {
    fn read(&mut self, line: &str) {
        let line = line.trim_start();
        let fence = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        match (self.fence, fence) {
            // A block that ``` opened is closed only by ```, never by ~~~, as in Markdown.
            (None, Some(mark)) => self.fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => self.fence = None,
            _ => {}
        }
    }

    /// Returns `true` if a line, or the beginning of one, is or may still become the first line of a call.
    fn may_call(self, line: &str) -> bool {
        if self.fence.is_some() {
            return false;
        }
        let begin = unindented(line);
        begin.starts_with(OPEN) || (OPEN.starts_with(begin) && !line.ends_with('\n'))
    }
}

/// Returns `true` if a line begins with a call.
fn is_call_start(line: &str) -> bool {
    unindented(line).starts_with(OPEN)
}

/// Strips a line's leading whitespace, up to the indentation that a call may have.
fn unindented(line: &str) -> &str {
    let start = &line[..line.floor_char_boundary(MAX_INDENT)];
    &line[start.len() - start.trim_start().len()..]
}

/// Filters an answer while it streams, so that no part of a call is shown.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    answer: String,
    lines: FenceTracker,
    /// Byte offset at which the last line begins.
    line: usize,
    /// Byte offset up to which no line end was found.
    looked: usize,
    shown: usize,
    /// Set once a call may have begun: the rest is held back until the answer is complete.
    holds: bool,
}

impl CallFilter {
    /// Adds a piece of the answer and returns the text that can be shown now.
    pub fn push(&mut self, piece: &str) -> &str {
        self.answer.push_str(piece);
        let from = self.shown;
        while !self.holds {
            let line = &self.answer[self.line..];
            // The search for a line's end goes on where the last piece ended, so each byte is searched once.
            let looked = self.looked.saturating_sub(self.line);
            let end = memchr::memchr(b'\n', &line.as_bytes()[looked..]).map(|end| looked + end + 1);
            self.looked = self.answer.len();
            let line = &line[..end.unwrap_or(line.len())];
            if self.lines.may_call(line) {
                self.holds = is_call_start(line);
                break;
            }
            self.shown = self.line + line.len();
            let Some(end) = end else { break };
            self.lines.read(line);
            self.line += end;
            self.looked = self.line;
        }
        &self.answer[from..self.shown.max(from)]
    }

    /// Returns the held-back text that turned out to be no call. To be called when the answer is complete.
    #[must_use]
    pub fn finish(&self) -> &str {
        let text = parse(&self.answer).text;
        text.get(self.shown..).unwrap_or_default()
    }
}

/// Converts a conversation for a model without tool calls: the model's own calls become text as it wrote them, and
/// results become user messages.
///
/// The tags are removed from everything that others have said.
#[must_use]
pub fn messages_as_text(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
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
            vec![Block::text(format!("{OPEN}{call}{CLOSE_TAG}"))]
        }
        Block::ToolResult { name, content, is_error, .. } => {
            let status = if *is_error { "error" } else { "ok" };
            // This model reads a tool's result as a user message, so it must not be able to imitate flock's own marks
            // or those of another session's message.
            let others = |text: &str| {
                let seen = Skeleton::of(text);
                let changes =
                    flock_marks(&seen).chain(session_mark_positions(&seen)).chain(call_marks(&seen));
                seen.changed(text, changes.collect()).into_owned()
            };
            let text = others(&crate::provider::message::joined_text(content));
            // The name becomes an attribute and must not be able to end it.
            let name = others(name).replace(['"', '<', '>'], "_");
            let text = format!("<tool_result name=\"{name}\" status=\"{status}\">\n{text}\n</tool_result>");
            let images = content.iter().filter(|block| matches!(block, Block::Image { .. })).cloned();
            std::iter::once(Block::text(text)).chain(images).collect()
        }
        Block::Text { text, .. } if role != Role::Assistant => vec![Block::text(tame(text))],
        block => vec![block.clone()],
    }
}

/// Returns the text without call and result tags, in whatever spelling they are written.
#[must_use]
pub fn tame(text: &str) -> String {
    let seen = Skeleton::of(text);
    seen.changed(text, call_marks(&seen).collect()).into_owned()
}

/// Returns the request in the form that a model without tool calls is sent.
fn as_text_request(request: &Request) -> Request {
    Request {
        messages: messages_as_text(&request.messages),
        tools: Vec::new(),
        format: None,
        ..request.clone()
    }
}

/// A provider whose model is offered tools as text.
pub struct TextCalling {
    pub provider: Arc<dyn Provider>,
    /// The provider's id, for errors.
    pub id: String,
}

impl Provider for TextCalling {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        self.provider.body(&as_text_request(request))
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let asked = as_text_request(request);
            let mut shown = CallFilter::default();
            let mut filtered = |delta: Delta| match delta {
                Delta::Text(piece) => {
                    let text = shown.push(&piece);
                    if !text.is_empty() {
                        sink(Delta::Text(text.to_owned()));
                    }
                }
                Delta::Thinking(_) | Delta::ToolCall => sink(delta),
            };
            let response = self.provider.call(&asked, &mut filtered).await?;
            let rest = shown.finish();
            if !rest.is_empty() {
                sink(Delta::Text(rest.to_owned()));
            }
            split_calls(response).map_err(|TooManyCalls| {
                let message = format!("it makes more than {MAX_BLOCKS} calls");
                ProviderError::Garbled { provider: self.id.clone(), message }
            })
        })
    }
}

/// An answer with more than [`MAX_BLOCKS`] calls.
#[derive(Debug, PartialEq, Eq)]
struct TooManyCalls;

/// Splits the text of an answer into text and tool calls.
fn split_calls(mut response: Response) -> Result<Response, TooManyCalls> {
    let text = crate::provider::message::joined_text(&response.content);
    let answer = parse(&text);
    if answer.calls.is_empty() {
        return Ok(response);
    }
    if answer.calls.len() > MAX_BLOCKS {
        return Err(TooManyCalls);
    }
    // Thinking stays in front. Only the text is replaced, by its parts.
    response.content.retain(|block| !matches!(block, Block::Text { .. }));
    if !answer.text.is_empty() {
        response.content.push(Block::text(answer.text));
    }
    // The ids stay empty here: `call::tidy` gives every call of an answer its id.
    let block = |(name, arguments)| Block::ToolCall { id: String::new(), name, arguments, signature: None };
    response.content.extend(answer.calls.into_iter().map(block));
    // The provider knew of no tools, so it reported a plain end.
    if response.stop == StopReason::End {
        response.stop = StopReason::ToolUse;
    }
    Ok(response)
}

#[cfg(test)]
#[path = "text_calls_tests.rs"]
mod tests;
