//! Tool calls as text, for models whose API takes none: what the model is shown, and what it writes back.
//!
//! Pure but for [`TextCalling`], which stands in front of a provider. A call is run only where the model itself
//! makes it: at the end of its answer, on a line of its own, outside of a code block. Everything else that a model
//! reads has the marks taken out of it, so that quoting a person or a tool's result makes no call.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::prompt::marks as flock_marks;
use super::transcript::hygiene::inter_session_marks;
use crate::clean::Seen;
use crate::provider::{
    Block, BoxFuture, Delta, MOST_BLOCKS, Message, Provider, ProviderError, Request, Response, Role, Sink,
    StopReason,
};

/// Begins a call.
pub const OPEN: &str = "<tool_call>";
/// Ends it.
pub const CLOSE: &str = "</tool_call>";

/// The names of the marks.
const MARKS: [&str; 2] = ["tool_call", "tool_result"];

/// The most bytes of blanks before a call.
const MOST_INDENT: usize = 256;

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
///
/// Each part is read once: where something else follows some calls, none of them is at the end, and what can be is
/// looked for behind it.
#[must_use]
pub fn parse(answer: &str) -> Answer<'_> {
    let mut lines = Lines::default();
    let (mut at, mut from) = (0, 0);
    for line in answer.split_inclusive('\n') {
        if at >= from && begins_call(line) && lines.fence.is_none() {
            match calls(&answer[at..]) {
                Ok(calls) => return Answer { text: answer[..at].trim_end(), calls },
                Err(other) => from = at + other,
            }
        }
        lines.read(line);
        at += line.len();
    }
    Answer { text: answer, calls: Vec::new() }
}

/// One call after the other to the end; where something else is, if it is. Of more calls than an answer may have,
/// one too many is given.
fn calls(text: &str) -> Result<Vec<(String, Value)>, usize> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    let place = |rest: &str| rest.as_ptr().addr() - text.as_ptr().addr();
    while !rest.is_empty() {
        let inner = rest.strip_prefix(OPEN).ok_or_else(|| place(rest))?;
        let mut values = serde_json::Deserializer::from_str(inner).into_iter::<Value>();
        let (value, after) = match values.next() {
            // By what was read, and not by looking for the mark: an argument may have it as text.
            Some(Ok(value)) => (Some(value), inner[values.byte_offset()..].trim_start()),
            _ => (None, &inner[inner.find(CLOSE).unwrap_or(inner.len())..]),
        };
        // A model may be stopped right before the last mark.
        rest = if after.is_empty() {
            ""
        } else {
            after.strip_prefix(CLOSE).ok_or_else(|| place(after))?.trim_start()
        };
        if found.len() <= MOST_BLOCKS {
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
        // As providers send them; what does not parse is refused where a call is checked.
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            _ => Value::String(text),
        },
        Some(arguments) => arguments,
    };
    Some((name, crate::provider::shallow(arguments)))
}

/// Whether lines are quoted.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    fence: Option<&'static str>,
}

impl Lines {
    fn read(&mut self, line: &str) {
        let line = line.trim_start();
        let fence = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        match (self.fence, fence) {
            (None, Some(mark)) => self.fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => self.fence = None,
            _ => {}
        }
    }

    /// Whether a line, or its beginning, is or may become the first of a call.
    fn may_call(self, line: &str) -> bool {
        if self.fence.is_some() {
            return false;
        }
        let begin = unindented(line);
        begin.starts_with(OPEN) || (OPEN.starts_with(begin) && !line.ends_with('\n'))
    }
}

/// Whether a line begins with a call.
fn begins_call(line: &str) -> bool {
    unindented(line).starts_with(OPEN)
}

/// A line without the blanks at its beginning, as far as a call may be indented.
fn unindented(line: &str) -> &str {
    let start = &line[..line.floor_char_boundary(MOST_INDENT)];
    &line[start.len() - start.trim_start().len()..]
}

/// What of an answer can be shown while it comes: never a part of a call.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    answer: String,
    lines: Lines,
    /// Where the last line begins.
    line: usize,
    /// Up to where it has no end.
    looked: usize,
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
            let looked = self.looked.saturating_sub(self.line);
            let end = memchr::memchr(b'\n', &line.as_bytes()[looked..]).map(|end| looked + end + 1);
            self.looked = self.answer.len();
            let line = &line[..end.unwrap_or(line.len())];
            if self.lines.may_call(line) {
                self.holds = begins_call(line);
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
            // A tool's words, in what is a message of the user's to this model: neither may they pass for what flock
            // or another session says.
            let others = |text: &str| {
                let seen = Seen::of(text);
                let changes = flock_marks(&seen).chain(inter_session_marks(&seen)).chain(marks(&seen));
                seen.changed(text, changes.collect()).into_owned()
            };
            let text = others(&crate::provider::message::joined_text(content));
            let name = others(name).replace(['"', '<', '>'], "_");
            let text = format!("<tool_result name=\"{name}\" status=\"{status}\">\n{text}\n</tool_result>");
            let images = content.iter().filter(|block| matches!(block, Block::Image { .. })).cloned();
            std::iter::once(Block::text(text)).chain(images).collect()
        }
        Block::Text { text, .. } if role != Role::Assistant => vec![Block::text(tame(text))],
        block => vec![block.clone()],
    }
}

/// The text without the marks of calls and results, however they are written.
#[must_use]
pub fn tame(text: &str) -> String {
    let seen = Seen::of(text);
    seen.changed(text, marks(&seen).collect()).into_owned()
}

/// The first character of each mark of a call or result, and what it becomes.
pub(super) fn marks(seen: &Seen) -> impl Iterator<Item = (usize, char)> {
    let letters = seen.letters();
    let is_mark = |at: &usize| {
        let name = letters[at + 1..].iter().filter(|c| !matches!(c, b' ' | b'\n' | b'/'));
        let name: Vec<u8> = name.copied().take(16).collect();
        MARKS.iter().any(|known| name.starts_with(known.as_bytes()))
    };
    memchr::memchr_iter(b'<', letters).filter(is_mark).map(|at| (at, '‹'))
}

/// The request as a model is sent it that knows no calls.
fn spoken(request: &Request) -> Request {
    Request { messages: as_text(&request.messages), tools: Vec::new(), format: None, ..request.clone() }
}

/// A provider whose model is told of tools in text.
pub struct TextCalling {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// Its id.
    pub id: String,
}

impl Provider for TextCalling {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        self.provider.body(&spoken(request))
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
            let response = self.provider.call(&asked, &mut filtered).await?;
            let rest = shown.finish();
            if !rest.is_empty() {
                sink(Delta::Text(rest.to_owned()));
            }
            with_calls(response).map_err(|TooMany| {
                let message = format!("it makes more than {MOST_BLOCKS} calls");
                ProviderError::Garbled { provider: self.id.clone(), message }
            })
        })
    }
}

/// An answer has more calls than it may.
#[derive(Debug, PartialEq, Eq)]
struct TooMany;

/// An answer whose text is taken apart into text and calls.
///
/// # Errors
///
/// [`TooMany`].
fn with_calls(mut response: Response) -> Result<Response, TooMany> {
    let text = crate::provider::message::joined_text(&response.content);
    let answer = parse(&text);
    if answer.calls.is_empty() {
        return Ok(response);
    }
    if answer.calls.len() > MOST_BLOCKS {
        return Err(TooMany);
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
    Ok(response)
}

#[cfg(test)]
#[path = "text_calls_tests.rs"]
mod tests;
