//! Builds an answer from the pieces of a stream, for every wire format.

use std::collections::HashSet;

use serde_json::Value;

use super::call_arguments::{parse, shallow};
use super::json_end::EndDetector;
use super::{Block, Delta, Request, Response, Sink, StopReason, Usage};

/// Maximum bytes of a tool's name. A model can invent a name of any length; a longer one is useless.
const MAX_NAME_BYTES: usize = 256;
/// Maximum bytes of a call's id.
const MAX_ID_BYTES: usize = 512;
/// Maximum number of blocks in an answer. More calls than this are a malfunction of the model.
pub(crate) const MAX_BLOCKS: usize = 512;

/// The error of an answer that exceeds its limit of bytes or blocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The parts of an answer that have arrived so far.
pub(crate) struct ResponseBuilder<'a> {
    parts: Vec<Part>,
    sink: Sink<'a>,
    bytes: usize,
    /// Number of these bytes that only the provider can read: signatures and redacted data.
    sealed: usize,
    limit: usize,
    /// Tokens counted so far.
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
        ending: EndDetector,
        whole: Option<Value>,
        signature: Option<String>,
    },
}

impl<'a> ResponseBuilder<'a> {
    /// Returns an empty answer. Pieces go to `sink`; `limit` bounds the bytes of all parts together.
    pub fn new(sink: Sink<'a>, limit: usize) -> Self {
        Self { parts: Vec::new(), sink, bytes: 0, sealed: 0, limit, usage: Usage::default() }
    }

    /// Adds text. It continues the last part if that is text without a signature.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit. The same holds for all other methods that add to it.
    pub fn text(&mut self, piece: String) -> Result<(), TooLong> {
        if piece.is_empty() {
            return Ok(());
        }
        let part = match self.parts.last() {
            Some(Part::Text { signature: None, .. }) => self.parts.len() - 1,
            _ => self.open_text()?,
        };
        self.more(part, piece)
    }

    /// Starts a new part of text, even after another one, and returns its index for [`ResponseBuilder::more`].
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer has too many parts.
    pub(crate) fn open_text(&mut self) -> Result<usize, TooLong> {
        self.push(Part::Text { text: String::new(), signature: None })
    }

    /// Adds to a part of text or thinking, at any position.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
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

    /// Sets the data that the provider wants back with a part of any kind. A second call replaces the data of the
    /// first.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub fn sign(&mut self, part: usize, signed: String) -> Result<(), TooLong> {
        self.seal(signed.len())?;
        match self.parts.get_mut(part) {
            Some(Part::Text { signature, .. } | Part::Call { signature, .. }) => *signature = Some(signed),
            Some(Part::Thinking { signature, .. }) => *signature = signed,
            None => {}
        }
        Ok(())
    }

    /// Returns the index of the last part.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        self.parts.len().checked_sub(1)
    }

    /// Returns `true` if a part is text, signed or not.
    #[must_use]
    pub fn is_text(&self, part: usize) -> bool {
        matches!(self.parts.get(part), Some(Part::Text { .. }))
    }

    /// Adds thinking. It continues the last part if that is thinking without a signature.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub fn thinking(&mut self, piece: String) -> Result<(), TooLong> {
        if piece.is_empty() {
            return Ok(());
        }
        let part = match self.parts.last() {
            Some(Part::Thinking { redacted: None, signature, .. }) if signature.is_empty() => {
                self.parts.len() - 1
            }
            _ => self.open_thinking(None)?,
        };
        self.more(part, piece)
    }

    /// Starts a new part of thinking, which the following pieces belong to, and returns its index. `redacted` is the
    /// provider's opaque data.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub(crate) fn open_thinking(&mut self, redacted: Option<String>) -> Result<usize, TooLong> {
        self.seal(redacted.as_ref().map_or(0, String::len))?;
        self.push(Part::Thinking { thinking: String::new(), signature: String::new(), redacted })
    }

    /// Adds to the signature of the last part, if that is thinking.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub fn signature(&mut self, piece: &str) -> Result<(), TooLong> {
        self.seal(piece.len())?;
        if let Some(Part::Thinking { signature, .. }) = self.parts.last_mut() {
            signature.push_str(piece);
        }
        Ok(())
    }

    /// Starts a new tool call and returns its index for [`ResponseBuilder::arguments`].
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub(crate) fn open_call(&mut self, id: &str, name: &str) -> Result<usize, TooLong> {
        self.count(id.len() + name.len())?;
        let call = self.push(Part::Call {
            // Some models put white space around a name, and no tool would be found under it.
            id: cut(id.trim(), MAX_ID_BYTES),
            name: cut(name.trim(), MAX_NAME_BYTES),
            arguments: String::new(),
            ending: EndDetector::default(),
            whole: None,
            signature: None,
        })?;
        (self.sink)(Delta::ToolCall);
        Ok(call)
    }

    /// Adds to a call's arguments, and sets its name if it had none.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub fn arguments(&mut self, call: usize, late_name: &str, piece: &str) -> Result<(), TooLong> {
        self.count(piece.len())?;
        if let Some(Part::Call { name, arguments, ending, .. }) = self.parts.get_mut(call) {
            arguments.push_str(piece);
            ending.read(piece);
            if name.is_empty() {
                *name = cut(late_name.trim(), MAX_NAME_BYTES);
            }
        }
        Ok(())
    }

    /// Replaces a call's arguments by the complete ones, which some providers send again at the end.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub(crate) fn replace_arguments(&mut self, call: usize, all: &str) -> Result<(), TooLong> {
        let known = match self.parts.get(call) {
            Some(Part::Call { arguments, .. }) if arguments != all => arguments.len(),
            _ => return Ok(()),
        };
        // Only the bytes beyond the streamed arguments are new.
        self.count(all.len().saturating_sub(known))?;
        if let Some(Part::Call { arguments, ending, .. }) = self.parts.get_mut(call) {
            all.clone_into(arguments);
            *ending = EndDetector::default();
            ending.read(all);
        }
        Ok(())
    }

    /// Sets a call's arguments from JSON instead of text.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the answer exceeds its limit.
    pub(crate) fn set_arguments(&mut self, call: usize, value: Value) -> Result<(), TooLong> {
        self.count(value.to_string().len())?;
        if let Some(Part::Call { whole, .. }) = self.parts.get_mut(call) {
            *whole = Some(value);
        }
        Ok(())
    }

    /// Returns `true` if a call's arguments are complete JSON already. Further pieces then belong to another call.
    #[must_use]
    pub(crate) fn is_complete(&self, call: usize) -> bool {
        match self.parts.get(call) {
            Some(Part::Call { whole: Some(_), .. }) => true,
            Some(Part::Call { ending, .. }) => ending.has_come(),
            _ => false,
        }
    }

    /// Returns the id that a call was started with.
    #[must_use]
    pub fn call_id(&self, call: usize) -> &str {
        match self.parts.get(call) {
            Some(Part::Call { id, .. }) => id,
            _ => "",
        }
    }

    /// Returns `true` if no part has arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the whole answer.
    ///
    /// An answer with a call stops for tools, whatever reason the model gives. A call that the length limit cut off is
    /// kept, so that the model is told that its arguments are broken.
    #[must_use]
    pub fn finish(self, stop: StopReason, request: &Request) -> Response {
        let withheld = stop == StopReason::Refusal;
        // The calls of a withheld answer are dropped, so that none of them is run.
        let parts = self.parts.into_iter().filter(|part| !withheld || !matches!(part, Part::Call { .. }));
        let mut content: Vec<Block> = parts.filter_map(into_block).collect();
        let has_calls = content.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        if has_calls {
            make_ids_unique(&mut content, request);
        }
        let stop = match stop {
            StopReason::Refusal => StopReason::Refusal,
            _ if has_calls => StopReason::ToolUse,
            // A stop for tools without any call leaves nothing to run, so the answer is finished.
            StopReason::ToolUse => StopReason::End,
            other => other,
        };
        Response { content, stop, usage: self.usage }
    }

    /// Appends a part and returns its index.
    fn push(&mut self, part: Part) -> Result<usize, TooLong> {
        let index = self.parts.len();
        if index >= MAX_BLOCKS {
            return Err(TooLong);
        }
        self.parts.push(part);
        Ok(index)
    }

    /// Returns the number of bytes of text, thinking and arguments.
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

/// Gives a new id to each call without an id, or with an id that the conversation already uses. Their results could not
/// be told apart, and providers refuse such a history.
fn make_ids_unique(content: &mut [Block], request: &Request) {
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
    // Together with the prefix, 24 characters: short enough for every wire format but Mistral's.
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
    use crate::provider::call_arguments::MAX_DEPTH;
    use crate::provider::{Message, Role};

    fn request(ids: &[&str]) -> Request {
        let calls = ids.iter().map(|id| Block::call(*id, "x", json!({})));
        let message = Message { role: Role::Assistant, content: calls.collect() };
        Request { messages: vec![message.into()], ..Request::default() }
    }

    #[test]
    fn arguments_nested_too_deeply_are_kept_as_text() {
        let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let call = |text: &str, is_whole: bool| {
            let mut sink = |_: Delta| {};
            let mut assembly = ResponseBuilder::new(&mut sink, 10_000);
            let call = assembly.open_call("1", "x").unwrap();
            if is_whole {
                assembly.set_arguments(call, serde_json::from_str(text).unwrap()).unwrap();
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
                assert_eq!(arguments.is_object(), depth < MAX_DEPTH, "{depth}");
                // A compaction nests a copied record of a transcript in its own: no arguments are stored deeper.
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
        let mut assembly = ResponseBuilder::new(&mut sink, 1000);
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
    fn an_answer_beyond_its_limits_is_refused() {
        let mut sink = |_: Delta| {};
        let mut assembly = ResponseBuilder::new(&mut sink, 10);
        assembly.text("12345".to_owned()).unwrap();
        assert_eq!(assembly.thinking("123456".to_owned()), Err(TooLong));
        let mut assembly = ResponseBuilder::new(&mut sink, 100_000);
        let calls = (0..1000).map(|_| assembly.open_call("", "x")).take_while(Result::is_ok).count();
        assert_eq!(calls, MAX_BLOCKS);
    }

    #[test]
    fn a_tool_stop_without_a_call_becomes_an_end() {
        let mut sink = |_: Delta| {};
        let assembly = ResponseBuilder::new(&mut sink, 10);
        assert_eq!(assembly.finish(StopReason::ToolUse, &request(&[])).stop, StopReason::End);
        let mut assembly = ResponseBuilder::new(&mut sink, 100);
        assembly.text("no".to_owned()).unwrap();
        assembly.open_call("a", "b").unwrap();
        let refused = assembly.finish(StopReason::Refusal, &request(&[]));
        assert_eq!((refused.stop, refused.content.len()), (StopReason::Refusal, 1));
    }
}
