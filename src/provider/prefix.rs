//! The beginning of a request's body that is the same in all requests of a session: what stands before the messages, and the
//! first of these. All wire formats put the messages last, so that it can be kept as bytes and need not be written again.

use super::{Block, Provider, Request};

/// How a body ends whose messages come last.
const END: &[u8] = b"]}";

/// The beginning of a body, up to the end of one of its messages.
#[derive(Clone, PartialEq, Eq)]
pub struct BodyPrefix {
    bytes: Vec<u8>,
    /// How much of it stands before the first message.
    head: usize,
    /// The bytes of text in its messages.
    text: u64,
}

impl BodyPrefix {
    /// The beginning of the body of this request with all its messages. `None` where the format doesn't put messages
    /// last, or can't write them.
    pub fn new(provider: &dyn Provider, request: &Request) -> Option<Self> {
        let head = head(provider, request)?;
        let mut bytes = provider.body(&whole(request)).ok()?;
        let is_continued =
            bytes.starts_with(&head) && bytes.ends_with(END) && bytes.len() > head.len() + END.len();
        bytes.truncate(bytes.len() - END.len());
        is_continued.then(|| Self { bytes, head: head.len(), text: text(request) })
    }

    /// The same with the messages of this request behind it; `None` where what stands before them is another now.
    #[must_use]
    pub fn extended(&self, provider: &dyn Provider, request: &Request) -> Option<Self> {
        if request.messages.is_empty() {
            return None;
        }
        let mut bytes = self.joined(&provider.body(&whole(request)).ok()?)?;
        bytes.truncate(bytes.len().checked_sub(END.len())?);
        Some(Self { bytes, head: self.head, text: self.text + text(request) })
    }

    /// Whether the body of a request that has only the messages which follow begins with the same. What stands before the
    /// messages may depend on them.
    #[must_use]
    pub fn fits(&self, provider: &dyn Provider, request: &Request) -> bool {
        provider.body(&whole(request)).is_ok_and(|body| body.starts_with(&self.bytes[..self.head]))
    }

    /// A whole body of one that has only the messages which follow; `None` where that begins with something else.
    pub(super) fn joined(&self, body: &[u8]) -> Option<Vec<u8>> {
        let rest = body.strip_prefix(&self.bytes[..self.head])?;
        let mut whole = Vec::with_capacity(self.bytes.len() + 1 + rest.len());
        whole.extend_from_slice(&self.bytes);
        // The first message comes without one, where nothing of flock's stands before it.
        if !rest.starts_with(b",") && rest != END {
            whole.push(b',');
        }
        whole.extend_from_slice(rest);
        Some(whole)
    }

    /// The bytes of text in its messages.
    #[must_use]
    pub const fn text(&self) -> u64 {
        self.text
    }

    /// Its size in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// What stands before the messages of this request.
fn head(provider: &dyn Provider, request: &Request) -> Option<Vec<u8>> {
    let mut body = provider.body(&Request { messages: Vec::new(), ..whole(request) }).ok()?;
    let length = body.strip_suffix(END)?.len();
    body.truncate(length);
    Some(body)
}

fn text(request: &Request) -> u64 {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks.map(|block| if let Block::Text { text, .. } = block { text.len() as u64 } else { 0 }).sum()
}

fn whole(request: &Request) -> Request {
    Request { prefix: None, ..request.clone() }
}

/// A conversation is nothing for a log.
impl std::fmt::Debug for BodyPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyPrefix").field("size", &self.bytes.len()).field("head", &self.head).finish()
    }
}
