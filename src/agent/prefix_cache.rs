//! Caches the encoded beginning of a long conversation's request. Without it, each short turn would read, prepare and
//! encode the whole conversation again.
//!
//! Only beginnings are cached in which hygiene treats each message on its own: plain texts that end with an answer. A
//! cached prefix is valid for one file and one route to a model. If it does not match, or the conversation is needed
//! for more than to send it again, everything is read anew. The cache is in memory and small: the entry that was used
//! longest ago is evicted first.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::transcript::hygiene::{Target, sanitise};
use super::transcript::{Entry, EntryKind, MessageRecord, Record, repair};
use crate::id::SessionKey;
use crate::provider::{Block, BodyPrefix, Message, Role, Route, StopReason};
use crate::sync::lock;

/// The fewest messages for which a prefix is cached. Fewer are read faster than the cache would save.
pub(super) const MIN_MESSAGES: usize = 100;
/// The most bytes of one cached prefix, and of all together.
pub(super) const LARGEST: usize = 1 << 20;
const MAX_TOTAL_BYTES: usize = 4 << 20;
/// The most bytes of a transcript behind a prefix that are read for it.
const MAX_SINCE_BYTES: u64 = 1 << 20;
/// Number of bytes before a prefix's end that are compared to recognise the file.
const COMPARED_BYTES: u64 = 256;

/// The cached beginning of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    pub(super) body: Arc<BodyPrefix>,
    /// Estimated tokens of its messages.
    pub(super) tokens: u64,
    /// The route it was encoded for.
    pub(super) way: EncodingKey,
    /// The end of the prefix in the transcript.
    pub(super) at: FilePosition,
}

/// Everything that the encoding of a plain text depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EncodingKey {
    pub(super) route: Route,
    pub(super) reasoning: Option<bool>,
    pub(super) thinking: bool,
}

/// A position in a specific file, which is the end of a line.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct FilePosition {
    device: u64,
    inode: u64,
    born: SystemTime,
    pub(super) offset: u64,
    /// The bytes before the position.
    seam: Vec<u8>,
}

/// Leaves out the bytes before the position, because a conversation must not get into a log.
impl std::fmt::Debug for FilePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("inode", &self.inode)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl FilePosition {
    /// Returns the position in this file, or `None` if the file system has no creation times. They are needed because
    /// an inode number is reused after a file is deleted.
    pub(super) fn of(file: &File, offset: u64) -> io::Result<Option<Self>> {
        let metadata = file.metadata()?;
        let Ok(born) = metadata.created() else { return Ok(None) };
        let length = offset.min(COMPARED_BYTES);
        let mut seam = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut seam, offset - length)?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        // Only the end of a line is a position: an unfinished line may still change.
        Ok(seam.ends_with(b"\n").then_some(Self { device, inode, born, offset, seam }))
    }

    /// Returns `true` if the position is still valid in this file.
    fn is_in(&self, file: &File) -> io::Result<bool> {
        // Both a shorter file and other bytes before the position mean that the transcript was replaced.
        Ok(file.metadata()?.len() >= self.offset && Self::of(file, self.offset)?.as_ref() == Some(self))
    }
}

/// Messages after a prefix, each with the byte offset at which it ends.
pub(super) type MessagesSince = Vec<(MessageRecord, u64)>;

impl Prefix {
    /// Returns the messages after this prefix, or `None` if the file no longer begins with it or has a record since
    /// that changes the messages a model reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(super) fn since(&self, file: &File) -> io::Result<Option<MessagesSince>> {
        if !self.at.is_in(file)? {
            return Ok(None);
        }
        let Some(length) =
            file.metadata()?.len().checked_sub(self.at.offset).filter(|more| *more <= MAX_SINCE_BYTES)
        else {
            return Ok(None);
        };
        // Read in one piece, because it is at most `MAX_SINCE_BYTES` bytes.
        let mut lines = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut lines, self.at.offset)?;
        let mut since = Vec::new();
        let mut end = self.at.offset;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            end += line.len() as u64;
            if line.trim_ascii().is_empty() {
                continue;
            }
            // A reset, a compaction, a damaged line or a record of a newer version means that the prefix may be wrong
            // now.
            match Record::parse(line.trim_ascii_end()) {
                Ok(Record::Message(message)) if !repair::is_unsendable(&message) => {
                    since.push((*message, end));
                }
                Ok(Record::Turn(_) | Record::Command(_)) => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(since))
    }
}

/// Returns the number of leading messages that can be cached: plain texts up to an answer that a person's message
/// follows, or zero.
#[must_use]
pub fn plain(entries: &[&Entry]) -> usize {
    // Hygiene inserts a message before an answer that comes first, and a prefix must not depend on that.
    if entries.first().is_none_or(|first| first.role() != Role::User) {
        return 0;
    }
    let count = entries.iter().take_while(|entry| is_plain(entry)).count();
    let is_end = |at: &usize| {
        entries[*at - 1].role() == Role::Assistant
            && entries.get(*at).is_none_or(|next| next.role() == Role::User)
    };
    (1..=count).rev().find(is_end).unwrap_or(0)
}

/// Prepares these messages as they are sent before any next message of a person. Returns `None` if hygiene would join
/// that message with the last of them, as it does when it drops an answer that only repeats flock's own context.
#[must_use]
pub fn ready(mut entries: Vec<Entry>, target: &Target) -> Option<Vec<Arc<Message>>> {
    // A request that ends with an answer reads to many models as one to continue, so hygiene would drop it. The extra
    // message keeps it.
    let next = Arc::new(Message::text(Role::User, "next"));
    entries.push(Entry { message: Arc::clone(&next), about: Arc::default() });
    let mut messages = sanitise(&entries, target).ok()?.messages;
    let is_by_itself = messages.pop().is_some_and(|last| last == next);
    let ends_with_answer = messages.last().is_some_and(|last| last.role == Role::Assistant);
    (is_by_itself && ends_with_answer).then_some(messages)
}

fn is_plain(entry: &Entry) -> bool {
    let about = &entry.about;
    let has_ended = matches!(about.stop, None | Some(StopReason::End));
    let is_text =
        |block: &Block| matches!(block, Block::Text { signature: None, text } if !text.trim().is_empty());
    let content = &entry.message.content;
    about.kind == EntryKind::Said
        && !about.imported
        && about.provenance.is_none()
        && has_ended
        && entry.role() != Role::Tool
        && !content.is_empty()
        && content.iter().all(is_text)
}

/// The cached prefixes of all sessions.
#[derive(Debug, Default)]
pub(super) struct PrefixCache(Mutex<CacheEntries>);

#[derive(Debug, Default)]
struct CacheEntries {
    sessions: HashMap<SessionKey, (Prefix, u64)>,
    /// Counts uses of the cache, to order them.
    clock: u64,
}

impl PrefixCache {
    /// Returns the cached prefix of a session for this route.
    pub(super) fn get(&self, session: &SessionKey, way: &EncodingKey) -> Option<Prefix> {
        let mut kept = lock(&self.0);
        kept.clock += 1;
        let clock = kept.clock;
        // A prefix for another route stays in the cache: the session may return to it.
        let (prefix, used) = kept.sessions.get_mut(session).filter(|(prefix, _)| prefix.way == *way)?;
        *used = clock;
        Some(prefix.clone())
    }

    /// Caches a prefix, and evicts others if there are too many bytes.
    pub(super) fn keep(&self, session: &SessionKey, prefix: Prefix) {
        let mut kept = lock(&self.0);
        kept.clock += 1;
        let clock = kept.clock;
        // A single long conversation must not evict those of all other sessions.
        if prefix.body.size() > LARGEST {
            kept.sessions.remove(session);
            return;
        }
        kept.sessions.insert(session.clone(), (prefix, clock));
        while kept.sessions.values().map(|(prefix, _)| prefix.body.size()).sum::<usize>() > MAX_TOTAL_BYTES {
            let oldest = kept.sessions.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            kept.sessions.remove(&oldest);
        }
    }

    /// Drops the cached prefix of a session.
    pub(super) fn forget(&self, session: &SessionKey) {
        lock(&self.0).sessions.remove(session);
    }
}
