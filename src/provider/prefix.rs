//! The part of a request body that stays the same in all requests of a session: everything before the messages, and the
//! first of the messages. All wire formats put the messages last, so this part can be kept as bytes and need not be
//! written again.

use super::{Block, Provider, Request};

/// The last bytes of a body whose messages come last.
const END: &[u8] = b"]}";

/// The beginning of a body, up to the end of one of its messages.
#[derive(Clone, PartialEq, Eq)]
pub struct BodyPrefix {
    bytes: Vec<u8>,
    /// Number of bytes before the first message.
    head: usize,
    /// Number of bytes of text in the messages.
    text: u64,
}

impl BodyPrefix {
    /// Returns the beginning of the body for this request with all its messages.
    ///
    /// Returns `None` if the wire format does not put the messages last, or cannot write them.
    pub fn new(provider: &dyn Provider, request: &Request) -> Option<Self> {
        let head = head(provider, request)?;
        let mut bytes = provider.body(&whole(request)).ok()?;
        // Some wire formats do not end with the messages, and a body without messages has nothing to keep.
        let is_continued =
            bytes.starts_with(&head) && bytes.ends_with(END) && bytes.len() > head.len() + END.len();
        bytes.truncate(bytes.len() - END.len());
        is_continued.then(|| Self { bytes, head: head.len(), text: text(request) })
    }

    /// Returns this prefix with the messages of the request appended, or `None` if the part before the messages has
    /// changed.
    #[must_use]
    pub fn with_appended_messages(&self, provider: &dyn Provider, request: &Request) -> Option<Self> {
        if request.messages.is_empty() {
            return None;
        }
        let mut bytes = self.joined(&provider.body(&whole(request)).ok()?)?;
        bytes.truncate(bytes.len().checked_sub(END.len())?);
        Some(Self { bytes, head: self.head, text: self.text + text(request) })
    }

    /// Returns `true` if the body of a request that has only the following messages begins in the same way. The part
    /// before the messages may depend on them.
    #[must_use]
    pub fn fits(&self, provider: &dyn Provider, request: &Request) -> bool {
        provider.body(&whole(request)).is_ok_and(|body| body.starts_with(&self.bytes[..self.head]))
    }

    /// Returns the whole body for one that has only the following messages, or `None` if the two do not begin alike.
    pub(super) fn joined(&self, body: &[u8]) -> Option<Vec<u8>> {
        let rest = body.strip_prefix(&self.bytes[..self.head])?;
        let mut whole = Vec::with_capacity(self.bytes.len() + 1 + rest.len());
        whole.extend_from_slice(&self.bytes);
        // If the head ends with the system message, the rest begins with a comma. Without one the first message comes
        // without a comma, so it is added.
        if !rest.starts_with(b",") && rest != END {
            whole.push(b',');
        }
        whole.extend_from_slice(rest);
        Some(whole)
    }

    /// Returns the number of bytes of text in the messages.
    #[must_use]
    pub const fn text(&self) -> u64 {
        self.text
    }

    #[must_use]
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// Returns the part of the body that stands before the messages of this request.
fn head(provider: &dyn Provider, request: &Request) -> Option<Vec<u8>> {
    let mut body = provider.body(&Request { messages: Vec::new(), ..whole(request) }).ok()?;
    let length = body.strip_suffix(END)?.len();
    body.truncate(length);
    Some(body)
}

fn text(request: &Request) -> u64 {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks.filter_map(Block::as_text).map(|text| text.len() as u64).sum()
}

fn whole(request: &Request) -> Request {
    Request { prefix: None, ..request.clone() }
}

/// Shows sizes only: a conversation does not belong in a log.
impl std::fmt::Debug for BodyPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyPrefix").field("size", &self.bytes.len()).field("head", &self.head).finish()
    }
}
