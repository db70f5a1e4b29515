//! What the next request of a long conversation begins with, kept from the request before it: else each short turn would
//! read, make ready and write all that was said before it once more.
//!
//! Only a beginning is kept of which hygiene looks at each message by itself: plain texts, that end with an answer. It is
//! good for the same file and the same way to a model, and where it is not, or more is wanted of the conversation than to
//! send it once more, everything is read again. Kept in the process, and small: what was used longest ago goes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::transcript::hygiene::{Target, sanitise};
use super::transcript::{Entry, Kind, MessageRecord, Record, repair};
use crate::id::SessionKey;
use crate::provider::{Block, BodyPrefix, Message, Role, Route, StopReason};

/// The fewest messages for which it is worth it: fewer are read faster than this pays.
pub(super) const FEWEST: usize = 100;
/// The most bytes of one conversation, and of all.
pub(super) const LARGEST: usize = 1 << 20;
const MOST: usize = 4 << 20;
/// The most bytes of a transcript behind what is kept.
const MOST_SINCE: u64 = 1 << 20;
/// How much of the transcript before its end is compared.
const SEAM: u64 = 256;

/// The beginning of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    pub(super) body: Arc<BodyPrefix>,
    /// What its messages are estimated to cost.
    pub(super) tokens: u64,
    /// Whom it was made ready for.
    pub(super) way: Way,
    /// Where in the transcript it ends.
    pub(super) at: Place,
}

/// What making a plain text ready for a model depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) route: Route,
    pub(super) reasoning: Option<bool>,
    pub(super) thinking: bool,
}

/// A place in a certain file, which is the end of a line.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
    born: SystemTime,
    pub(super) offset: u64,
    /// What stands before it.
    seam: Vec<u8>,
}

/// A conversation is nothing for a log.
impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("inode", &self.inode)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// A place in this file; `None` where the file system doesn't say when files were made: an inode's number is used
    /// again.
    pub(super) fn of(file: &File, offset: u64) -> io::Result<Option<Self>> {
        let metadata = file.metadata()?;
        let Ok(born) = metadata.created() else { return Ok(None) };
        let length = offset.min(SEAM);
        let mut seam = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut seam, offset - length)?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        Ok(seam.ends_with(b"\n").then_some(Self { device, inode, born, offset, seam }))
    }

    /// Whether it is a place in this file, as it is now.
    fn is_in(&self, file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.len() >= self.offset && Self::of(file, self.offset)?.as_ref() == Some(self))
    }
}

/// What was said since, each message with where it ends.
pub(super) type Since = Vec<(MessageRecord, u64)>;

impl Prefix {
    /// What was said since, where this is still the beginning of the conversation in this file, and nothing has come
    /// since that changes what a model is shown of it.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub(super) fn since(&self, file: &File) -> io::Result<Option<Since>> {
        if !self.at.is_in(file)? {
            return Ok(None);
        }
        let Some(length) =
            file.metadata()?.len().checked_sub(self.at.offset).filter(|more| *more <= MOST_SINCE)
        else {
            return Ok(None);
        };
        let mut lines = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_exact_at(&mut lines, self.at.offset)?;
        let mut since = Vec::new();
        let mut end = self.at.offset;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            end += line.len() as u64;
            if line.trim_ascii().is_empty() {
                continue;
            }
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

/// How many of these messages, the first, can be kept: plain texts up to an answer that a person's message follows, or
/// nothing.
pub(super) fn plain(entries: &[&Entry]) -> usize {
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

/// These messages as they are sent before whatever a person says next. `None` where that would be joined with the last of
/// them: hygiene leaves out an answer that only repeats what flock had put beside a message.
pub(super) fn ready(mut entries: Vec<Entry>, target: &Target) -> Option<Vec<Arc<Message>>> {
    // An answer that nothing follows is taken by many for one to go on with, and left out.
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
    about.kind == Kind::Said
        && !about.imported
        && about.provenance.is_none()
        && has_ended
        && entry.role() != Role::Tool
        && !content.is_empty()
        && content.iter().all(is_text)
}

/// The beginnings that are kept.
#[derive(Debug, Default)]
pub(super) struct PrefixCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<SessionKey, (Prefix, u64)>,
    /// How often something was asked for or kept.
    clock: u64,
}

impl PrefixCache {
    /// What is kept of this session for this way.
    pub(super) fn get(&self, session: &SessionKey, way: &Way) -> Option<Prefix> {
        let mut kept = self.kept();
        kept.clock += 1;
        let clock = kept.clock;
        let (prefix, used) = kept.sessions.get_mut(session).filter(|(prefix, _)| prefix.way == *way)?;
        *used = clock;
        Some(prefix.clone())
    }

    /// Keeps it, and lets go what is too much.
    pub(super) fn keep(&self, session: &SessionKey, prefix: Prefix) {
        let mut kept = self.kept();
        kept.clock += 1;
        let clock = kept.clock;
        if prefix.body.size() > LARGEST {
            kept.sessions.remove(session);
            return;
        }
        kept.sessions.insert(session.clone(), (prefix, clock));
        while kept.sessions.values().map(|(prefix, _)| prefix.body.size()).sum::<usize>() > MOST {
            let oldest = kept.sessions.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            kept.sessions.remove(&oldest);
        }
    }

    /// Lets go what is kept of this session.
    pub(super) fn forget(&self, session: &SessionKey) {
        self.kept().sessions.remove(session);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
