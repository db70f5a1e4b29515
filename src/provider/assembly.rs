//! An answer being put together from the pieces of a stream, whatever its wire format.

use std::collections::HashSet;

use serde_json::Value;

use super::ending::Ending;
use super::{Block, Delta, Request, Response, Sink, StopReason, Usage};

/// A name a model made up may be any text; a longer one is of no use to anybody.
const LONGEST_NAME: usize = 256;
const LONGEST_ID: usize = 512;
/// More calls than this in one answer are a model that has lost its way.
pub const MOST_BLOCKS: usize = 512;

/// The answer holds more than it may.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// What has come so far.
pub struct Assembly<'a> {
    parts: Vec<Part>,
    sink: Sink<'a>,
    bytes: usize,
    /// Those of them that only the provider can read.
    sealed: usize,
    limit: usize,
    /// What it cost so far.
    pub usage: Usage,
}

#[derive(Debug)]
enum Part {
    Text {
        text: String,
        signature: Option<String>,
    },
    Thinking {
        thinking: String,
        signature: String,
        redacted: Option<String>,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
        ending: Ending,
        whole: Option<Value>,
        signature: Option<String>,
    },
}

impl<'a> Assembly<'a> {
    /// Nothing yet. Pieces go to `sink`; `limit` bounds the bytes of all parts.
    pub fn new(sink: Sink<'a>, limit: usize) -> Self {
        Self { parts: Vec::new(), sink, bytes: 0, sealed: 0, limit, usage: Usage::default() }
    }

    /// More text; it goes on with the last part if that is text that is not signed yet.
    ///
    /// # Errors
    ///
    /// [`TooLong`], as for all that add.
    pub fn text(&mut self, piece: String) -> Result<(), TooLong> {
        if piece.is_empty() {
            return Ok(());
        }
        self.count(piece.len())?;
        if let Some(Part::Text { text, signature: None }) = self.parts.last_mut() {
            text.push_str(&piece);
        } else {
            self.push(Part::Text { text: piece.clone(), signature: None })?;
        }
        (self.sink)(Delta::Text(piece));
        Ok(())
    }

    /// A new part of text, also after another one; returns what [`Assembly::more`] knows it by.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn open_text(&mut self) -> Result<usize, TooLong> {
        self.push(Part::Text { text: String::new(), signature: None })?;
        Ok(self.parts.len() - 1)
    }

    /// More of a part of text or thinking, wherever it stands.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn more(&mut self, part: usize, piece: String) -> Result<(), TooLong> {
        if piece.is_empty() {
            return Ok(());
        }
        self.count(piece.len())?;
        match self.parts.get_mut(part) {
            Some(Part::Text { text, .. }) => {
                text.push_str(&piece);
                (self.sink)(Delta::Text(piece));
            }
            Some(Part::Thinking { thinking, .. }) => {
                thinking.push_str(&piece);
                (self.sink)(Delta::Thinking(piece));
            }
            _ => {}
        }
        Ok(())
    }

    /// What the provider wants back with a part, whatever it is; the later of two is kept.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn sign(&mut self, part: usize, signed: String) -> Result<(), TooLong> {
        self.seal(signed.len())?;
        match self.parts.get_mut(part) {
            Some(Part::Text { signature, .. } | Part::Call { signature, .. }) => *signature = Some(signed),
            Some(Part::Thinking { signature, .. }) => *signature = signed,
            None => {}
        }
        Ok(())
    }

    /// The part that came last.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.parts.len().checked_sub(1)
    }

    /// Whether a part is text, signed or not.
    #[must_use]
    pub fn is_text(&self, part: usize) -> bool {
        matches!(self.parts.get(part), Some(Part::Text { .. }))
    }

    /// More thinking; it goes on with the last part if that is thinking that is not signed yet.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn thinking(&mut self, piece: String) -> Result<(), TooLong> {
        if piece.is_empty() {
            return Ok(());
        }
        self.count(piece.len())?;
        match self.parts.last_mut() {
            Some(Part::Thinking { thinking, redacted: None, signature }) if signature.is_empty() => {
                thinking.push_str(&piece);
            }
            _ => self.push(Part::Thinking {
                thinking: piece.clone(),
                signature: String::new(),
                redacted: None,
            })?,
        }
        (self.sink)(Delta::Thinking(piece));
        Ok(())
    }

    /// A new part of thinking, which what follows belongs to; `redacted` is its opaque data.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn open_thinking(&mut self, redacted: Option<String>) -> Result<(), TooLong> {
        self.seal(redacted.as_ref().map_or(0, String::len))?;
        self.push(Part::Thinking { thinking: String::new(), signature: String::new(), redacted })
    }

    /// More of the signature of the last part of thinking.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn signature(&mut self, piece: &str) -> Result<(), TooLong> {
        self.seal(piece.len())?;
        if let Some(Part::Thinking { signature, .. }) = self.parts.last_mut() {
            signature.push_str(piece);
        }
        Ok(())
    }

    /// A new call; returns what [`Assembly::arguments`] knows it by.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn open_call(&mut self, id: &str, name: &str) -> Result<usize, TooLong> {
        self.count(id.len() + name.len())?;
        self.push(Part::Call {
            id: cut(id.trim(), LONGEST_ID),
            name: cut(name.trim(), LONGEST_NAME),
            arguments: String::new(),
            ending: Ending::default(),
            whole: None,
            signature: None,
        })?;
        (self.sink)(Delta::ToolCall);
        Ok(self.parts.len() - 1)
    }

    /// More of a call's arguments, and its name where it comes late.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn arguments(&mut self, call: usize, late_name: &str, piece: &str) -> Result<(), TooLong> {
        self.count(piece.len())?;
        if let Some(Part::Call { name, arguments, ending, .. }) = self.parts.get_mut(call) {
            arguments.push_str(piece);
            ending.read(piece);
            if name.is_empty() {
                *name = cut(late_name.trim(), LONGEST_NAME);
            }
        }
        Ok(())
    }

    /// A call's arguments once more, now all of them: these are the ones that count.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn all_arguments(&mut self, call: usize, all: &str) -> Result<(), TooLong> {
        let known = match self.parts.get(call) {
            Some(Part::Call { arguments, .. }) if arguments != all => arguments.len(),
            _ => return Ok(()),
        };
        self.count(all.len().saturating_sub(known))?;
        if let Some(Part::Call { arguments, ending, .. }) = self.parts.get_mut(call) {
            all.clone_into(arguments);
            *ending = Ending::default();
            ending.read(all);
        }
        Ok(())
    }

    /// A call's arguments, given as JSON and not as text.
    ///
    /// # Errors
    ///
    /// [`TooLong`].
    pub fn whole_arguments(&mut self, call: usize, value: Value) -> Result<(), TooLong> {
        self.count(value.to_string().len())?;
        if let Some(Part::Call { whole, .. }) = self.parts.get_mut(call) {
            *whole = Some(value);
        }
        Ok(())
    }

    /// Whether a call's arguments are complete JSON already, so that more belongs to another call.
    #[must_use]
    pub fn is_complete(&self, call: usize) -> bool {
        match self.parts.get(call) {
            Some(Part::Call { whole: Some(_), .. }) => true,
            Some(Part::Call { ending, .. }) => ending.has_come(),
            _ => false,
        }
    }

    /// The id a call was opened with.
    #[must_use]
    pub fn call_id(&self, call: usize) -> &str {
        match self.parts.get(call) {
            Some(Part::Call { id, .. }) => id,
            _ => "",
        }
    }

    /// Whether nothing has come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The answer. A call is what makes a model stop for tools, whatever it says of itself; a call that was
    /// cut by the limit is kept, so that the model is told its arguments are broken.
    #[must_use]
    pub fn finish(self, stop: StopReason, request: &Request) -> Response {
        let withheld = stop == StopReason::Refusal;
        let parts = self.parts.into_iter().filter(|part| !withheld || !matches!(part, Part::Call { .. }));
        let mut content: Vec<Block> = parts.filter_map(into_block).collect();
        let has_calls = content.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        if has_calls {
            distinguish(&mut content, request);
        }
        let stop = match stop {
            StopReason::Refusal => StopReason::Refusal,
            _ if has_calls => StopReason::ToolUse,
            StopReason::ToolUse => StopReason::End,
            other => other,
        };
        Response { content, stop, usage: self.usage }
    }

    fn push(&mut self, part: Part) -> Result<(), TooLong> {
        if self.parts.len() >= MOST_BLOCKS {
            return Err(TooLong);
        }
        self.parts.push(part);
        Ok(())
    }

    /// Bytes of text, thinking and arguments.
    pub const fn readable(&self) -> usize {
        self.bytes - self.sealed
    }

    fn seal(&mut self, bytes: usize) -> Result<(), TooLong> {
        self.sealed += bytes;
        self.count(bytes)
    }

    fn count(&mut self, bytes: usize) -> Result<(), TooLong> {
        self.bytes += bytes;
        if self.bytes > self.limit { Err(TooLong) } else { Ok(()) }
    }
}

fn into_block(part: Part) -> Option<Block> {
    match part {
        Part::Text { text, signature } => {
            (!text.is_empty() || signature.is_some()).then_some(Block::Text { text, signature })
        }
        Part::Thinking { thinking, signature, redacted } => {
            let signature = Some(signature).filter(|signature| !signature.is_empty());
            if thinking.is_empty() && signature.is_none() && redacted.is_none() {
                return None;
            }
            Some(Block::Thinking { thinking, signature, redacted })
        }
        Part::Call { id, name, arguments, whole, signature, .. } => {
            let arguments = shallow(whole.unwrap_or_else(|| parse(arguments)));
            Some(Block::ToolCall { id, name, arguments, signature })
        }
    }
}

/// How deep arguments may be nested. What reads a transcript gives up at twice that depth, and an answer that can't be
/// read again would be lost.
const DEEPEST: usize = 64;

/// Arguments as they are; as text, which no call takes, where they are nested too deep.
#[must_use]
pub fn shallow(arguments: Value) -> Value {
    fn is_deep(value: &Value, left: usize) -> bool {
        let Some(left) = left.checked_sub(1) else { return true };
        match value {
            Value::Array(items) => items.iter().any(|item| is_deep(item, left)),
            Value::Object(entries) => entries.values().any(|entry| is_deep(entry, left)),
            _ => false,
        }
    }
    if is_deep(&arguments, DEEPEST) { Value::String(arguments.to_string()) } else { arguments }
}

/// Arguments as an object where they are one, also where a model wrote the object into a string; the text
/// itself where they are not.
fn parse(text: String) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(value @ Value::Object(_)) => value,
        Ok(Value::Null) => Value::Object(serde_json::Map::new()),
        Ok(Value::String(inner)) => match serde_json::from_str::<Value>(&inner) {
            Ok(value @ Value::Object(_)) => value,
            _ => Value::String(text),
        },
        _ => Value::String(text),
    }
}

/// Gives a new id to each call that has none, or one that the conversation has already: results could not
/// be told apart, and providers refuse such a history.
fn distinguish(content: &mut [Block], request: &Request) {
    let mut seen: HashSet<&str> =
        request.messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.id).collect();
    for block in content {
        if let Block::ToolCall { id, .. } = block {
            if id.is_empty() || seen.contains(id.as_str()) {
                *id = new_id();
            }
            seen.insert(id);
        }
    }
}

fn new_id() -> String {
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(20);
    id.insert_str(0, "call");
    id
}

fn cut(text: &str, limit: usize) -> String {
    text[..text.floor_char_boundary(limit)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::{Message, Role};

    fn request(ids: &[&str]) -> Request {
        let calls = ids.iter().map(|id| Block::call(*id, "x", json!({})));
        let message = Message { role: Role::Assistant, content: calls.collect() };
        Request { messages: vec![message.into()], ..Request::default() }
    }

    #[test]
    fn arguments_are_an_object_or_the_text_itself() {
        for (text, expected) in [
            ("", json!({})),
            (" \n", json!({})),
            ("null", json!({})),
            (r#"{"a":1}"#, json!({"a": 1})),
            (r#""{\"a\":1}""#, json!({"a": 1})),
            (r#"{"a":"#, json!(r#"{"a":"#)),
            ("[1]", json!("[1]")),
            ("7", json!("7")),
            (r#""text""#, json!(r#""text""#)),
        ] {
            assert_eq!(parse(text.to_owned()), expected, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(deep.clone()), json!(deep));
    }

    #[test]
    fn arguments_that_could_not_be_read_again_are_text() {
        let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let call = |text: &str, is_whole: bool| {
            let mut sink = |_: Delta| {};
            let mut assembly = Assembly::new(&mut sink, 10_000);
            let call = assembly.open_call("1", "x").unwrap();
            if is_whole {
                assembly.whole_arguments(call, serde_json::from_str(text).unwrap()).unwrap();
            } else {
                assembly.arguments(call, "", text).unwrap();
            }
            let Some(Block::ToolCall { arguments, .. }) =
                assembly.finish(StopReason::End, &request(&[])).content.pop()
            else {
                panic!("there is a call")
            };
            arguments
        };
        for is_whole in [false, true] {
            for depth in 1..127 {
                let arguments = call(&nested(depth), is_whole);
                assert_eq!(arguments.is_object(), depth < DEEPEST, "{depth}");
                // As deep as a transcript has them, and a compaction that copies its record.
                let stored =
                    serde_json::json!({"initial": {"message": {"content": [{"arguments": arguments}]}}});
                assert!(serde_json::from_str::<Value>(&stored.to_string()).is_ok(), "{depth}");
            }
        }
        assert_eq!(call(&Value::String(nested(100)).to_string(), false), json!(nested(100)));
    }

    #[test]
    fn ids_are_made_distinct() {
        let mut sink = |_: Delta| {};
        let mut assembly = Assembly::new(&mut sink, 1000);
        for id in ["new", "old", "", "new"] {
            assembly.open_call(id, "read").unwrap();
        }
        let response = assembly.finish(StopReason::End, &request(&["old"]));
        assert_eq!(response.stop, StopReason::ToolUse);
        let message = Message { role: Role::Assistant, content: response.content };
        let ids: Vec<&str> = message.tool_calls().map(|call| call.id).collect();
        assert_eq!(ids[0], "new");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4);
        assert!(!ids.contains(&"") && !ids.contains(&"old"));
    }

    #[test]
    fn an_answer_is_bounded() {
        let mut sink = |_: Delta| {};
        let mut assembly = Assembly::new(&mut sink, 10);
        assembly.text("12345".to_owned()).unwrap();
        assert_eq!(assembly.thinking("123456".to_owned()), Err(TooLong));
        let mut assembly = Assembly::new(&mut sink, 100_000);
        let calls = (0..1000).map(|_| assembly.open_call("", "x")).take_while(Result::is_ok).count();
        assert_eq!(calls, MOST_BLOCKS);
    }

    #[test]
    fn a_stop_for_tools_needs_a_call() {
        let mut sink = |_: Delta| {};
        let assembly = Assembly::new(&mut sink, 10);
        assert_eq!(assembly.finish(StopReason::ToolUse, &request(&[])).stop, StopReason::End);
        let mut assembly = Assembly::new(&mut sink, 100);
        assembly.text("no".to_owned()).unwrap();
        assembly.open_call("a", "b").unwrap();
        let refused = assembly.finish(StopReason::Refusal, &request(&[]));
        assert_eq!((refused.stop, refused.content.len()), (StopReason::Refusal, 1));
    }
}
