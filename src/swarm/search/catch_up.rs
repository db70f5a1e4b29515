//! Brings the search index up to date with the files and messages that it is made from.
//!
//! Each source is taken in by transactions of its own, which also remember how far it was read. So a kill at any moment
//! leaves an index from which the next run goes on.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;

use tokio::runtime::Handle;

use super::corpus::Corpus;
use super::files::{self, FileStore};
use super::{MAX_TEXT, TOOL, words};
use crate::agent::said;
use crate::agent::transcript::{forward, look};
use crate::fault_point::{self, FaultPoint};
use crate::id::FolderName;
use crate::store::{
    IndexMeta, IndexedPost, KEPT_MARKS, NewEntry, SearchIndex, Session, SourceKey, SourceKind, SourceState,
    Store, StoreError,
};
use crate::swarm::vault::Vaults;
use crate::tool::safe_text;

/// The most bytes of a transcript that are taken in by one transaction.
const BATCH_BYTES: u64 = 1024 * 1024;
/// The most messages that are taken in by one transaction.
const BATCH_MESSAGES: u32 = 500;

/// One run of the catch-up. It may block.
pub(super) struct CatchUp<'a> {
    pub index: &'a SearchIndex,
    pub store: &'a Store,
    pub vaults: &'a Vaults,
    pub corpus: &'a Corpus,
    /// Called between batches. It returns `false` if the run is to end, and may wait: the run then has no lock of the index, so
    /// that no other one waits for it.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl CatchUp<'_> {
    /// Takes in everything that has changed, the smallest sources first. Returns `false` if it was to end before that.
    pub(super) fn run(&self) -> Result<bool, StoreError> {
        // Before anything waits. Meanwhile, sources could come that the corpus does not have.
        if self.corpus.is_whole {
            self.forget_missing()?;
        }
        for agent in &self.corpus.agents {
            for kind in [SourceKind::Memory, SourceKind::Findings] {
                if !self.files(kind, agent.id.as_str(), FileStore::Workspace(agent, kind))? {
                    return Ok(false);
                }
            }
        }
        for vault in &self.corpus.vaults {
            if !self.files(SourceKind::Vault, vault.as_str(), FileStore::Vault(self.vaults, vault))? {
                return Ok(false);
            }
        }
        if !self.reviews()? {
            return Ok(false);
        }
        if self.corpus.has_channels && !self.messages()? {
            return Ok(false);
        }
        let known = self.index.sources(SourceKind::Session, "")?;
        for session in &self.corpus.sessions {
            if !self.session(session, known.get(&session.file))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes in the files of one folder.
    fn files(&self, kind: SourceKind, owner: &str, folder: FileStore<'_>) -> Result<bool, StoreError> {
        // What is known of a workspace that can't be looked at now stays: its files are not gone.
        let Some(listed) = folder.list() else { return Ok(true) };
        let mut known = self.index.sources(kind, owner)?;
        let changed: Vec<_> = listed
            .into_iter()
            .filter(|(path, stamp)| known.remove(path).is_none_or(|state| state.stamp != *stamp))
            .collect();
        // Before anything waits, because a later source could get the number of one that is gone.
        self.index.forget(&known.values().map(|state| state.id).collect::<Vec<_>>())?;
        for (path, stamp) in changed {
            if !(self.goes_on)() {
                return Ok(false);
            }
            // A file that can't be read has no entries until it changes.
            let entries = folder.text(&path).map_or_else(Vec::new, |text| files::entries(&path, &text));
            let key = SourceKey { kind, owner: owner.to_owned(), path };
            self.index.replace(&key, &stamp, 0, &entries)?;
            fault_point::reach(FaultPoint::Indexing);
        }
        Ok(true)
    }

    /// Takes in the findings of reviews that were added or answered.
    fn reviews(&self) -> Result<bool, StoreError> {
        let known = self.index.sources(SourceKind::Review, "")?;
        for review in &self.corpus.reviews {
            let path = review.id.to_string();
            // Another database may have given the same numbers to other findings.
            let stamp = format!("{} {}", self.corpus.database, review.stamp);
            if known.get(&path).is_some_and(|state| state.stamp == stamp) {
                continue;
            }
            if !(self.goes_on)() {
                return Ok(false);
            }
            let findings = Handle::current().block_on(self.store.submissions().findings(review.id))?;
            let entries = findings.iter().map(|finding| {
                let text = super::results::finding_text(finding);
                NewEntry {
                    place: finding.id,
                    length: 0,
                    words: words::indexed(safe_text::start(&text, MAX_TEXT)),
                }
            });
            let key = SourceKey { kind: SourceKind::Review, owner: String::new(), path };
            self.index.replace(&key, &stamp, 0, &entries.collect::<Vec<_>>())?;
            fault_point::reach(FaultPoint::Indexing);
        }
        Ok(true)
    }

    /// Takes in what was added to a transcript.
    fn session(&self, session: &Session, known: Option<&SourceState>) -> Result<bool, StoreError> {
        let path = self.corpus.transcript(session);
        // A transcript that does not exist yet or can't be read has no entries. Reading the session reports the reason.
        let Ok(Some(mut file)) = look(&path) else { return Ok(true) };
        let Ok(facts) = file.metadata() else { return Ok(true) };
        let stamp = format!("{} {}", facts.dev(), facts.ino());
        let key = SourceKey { kind: SourceKind::Session, owner: String::new(), path: session.file.clone() };
        // A repair makes a new file, and a file that is shorter than before is another one too.
        let is_same = known.is_some_and(|known| known.stamp == stamp && size(known.position) <= facts.len());
        let mut from = match known {
            Some(known) if is_same => size(known.position),
            Some(_) => {
                self.index.replace(&key, &stamp, 0, &[])?;
                0
            }
            None => 0,
        };
        while from < facts.len() {
            if !(self.goes_on)() {
                return Ok(false);
            }
            let (messages, next) = match forward::messages_from(&mut file, from, BATCH_BYTES) {
                Ok(read) => read,
                // What was read before was taken back, because its writing had failed.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData && from > 0 => {
                    self.index.replace(&key, &stamp, 0, &[])?;
                    from = 0;
                    continue;
                }
                Err(_) => return Ok(true),
            };
            // The last line is not complete yet.
            if next == from {
                break;
            }
            let entries = messages.iter().filter_map(|message| {
                let text = said(&message.record, TOOL);
                let words = words::indexed(safe_text::start(&text, MAX_TEXT));
                (!words.is_empty()).then(|| NewEntry { place: offset(message.place), length: 0, words })
            });
            let read = (offset(from), offset(next));
            from = size(self.index.append(&key, &stamp, read, &entries.collect::<Vec<_>>())?);
            fault_point::reach(FaultPoint::Indexing);
        }
        Ok(true)
    }

    /// Takes in channel messages that are new, and those that were changed or deleted.
    fn messages(&self) -> Result<bool, StoreError> {
        let runtime = Handle::current();
        let mut last = self.index.meta(IndexMeta::LastMessage)?;
        let database = self.corpus.database;
        let known = self.index.meta(IndexMeta::Database)?;
        // A message that is changed after this has a later mark, so it may be read before or after that change.
        let newest_mark = runtime.block_on(self.store.posts().last_search_mark())?;
        if known != database
            || runtime.block_on(self.store.posts().last_row())? < last
            || newest_mark - self.index.meta(IndexMeta::LastMark)? > KEPT_MARKS
        {
            self.index.restart_messages((known, last), database, newest_mark)?;
            last = self.index.meta(IndexMeta::LastMessage)?;
        }
        loop {
            let mark = self.index.meta(IndexMeta::LastMark)?;
            let marks = runtime.block_on(self.store.posts().search_marks(mark, BATCH_MESSAGES))?;
            let Some(newest) = marks.last().map(|mark| mark.id) else { break };
            let rows: Vec<i64> =
                marks.iter().map(|mark| mark.message).collect::<HashSet<_>>().into_iter().collect();
            let there = runtime.block_on(self.store.posts().by_rows(&rows))?;
            // A row after the last one is left out there, and taken in below.
            let changed: Vec<_> =
                there.into_iter().map(|(id, post)| message(&IndexedPost { id, post })).collect();
            if !self.index.take_messages(&changed, &rows, (IndexMeta::LastMark, mark, newest))? {
                continue;
            }
            fault_point::reach(FaultPoint::Indexing);
            runtime.block_on(self.store.posts().delete_old_search_marks(newest))?;
            if !(self.goes_on)() {
                return Ok(false);
            }
        }
        self.index.note_last_message(last);
        loop {
            let new = runtime.block_on(self.store.posts().after_row(last, BATCH_MESSAGES))?;
            let Some(newest) = new.last().map(|post| post.id) else { return Ok(true) };
            let entries: Vec<_> = new.iter().map(message).collect();
            let is_taken = self.index.take_messages(&entries, &[], (IndexMeta::LastMessage, last, newest))?;
            fault_point::reach(FaultPoint::Indexing);
            last = if is_taken { newest } else { self.index.meta(IndexMeta::LastMessage)? };
            self.index.note_last_message(last);
            if !(self.goes_on)() {
                return Ok(false);
            }
        }
    }

    /// Deletes the sources of agents, vaults and sessions that exist no more.
    fn forget_missing(&self) -> Result<(), StoreError> {
        let agents: HashSet<&str> = self.corpus.agents.iter().map(|agent| agent.id.as_str()).collect();
        let vaults: HashSet<&str> = self.corpus.vaults.iter().map(FolderName::as_str).collect();
        for (kind, there) in
            [(SourceKind::Memory, &agents), (SourceKind::Findings, &agents), (SourceKind::Vault, &vaults)]
        {
            for owner in self.index.owners(kind)?.iter().filter(|owner| !there.contains(owner.as_str())) {
                self.forget(&self.index.sources(kind, owner)?, |_| true)?;
            }
        }
        let reviews: HashSet<String> =
            self.corpus.reviews.iter().map(|review| review.id.to_string()).collect();
        self.forget(&self.index.sources(SourceKind::Review, "")?, |number| !reviews.contains(number))?;
        let files: HashSet<&str> = self.corpus.sessions.iter().map(|session| session.file.as_str()).collect();
        self.forget(&self.index.sources(SourceKind::Session, "")?, |file| !files.contains(file))
    }

    fn forget(
        &self,
        known: &HashMap<String, SourceState>,
        is_gone: impl Fn(&str) -> bool,
    ) -> Result<(), StoreError> {
        let gone = known.iter().filter(|(path, _)| is_gone(path)).map(|(_, state)| state.id);
        self.index.forget(&gone.collect::<Vec<_>>())
    }
}

fn message(found: &IndexedPost) -> (SourceKey, NewEntry) {
    let post = &found.post;
    let key = SourceKey { kind: SourceKind::Channel, owner: String::new(), path: post.channel.to_string() };
    let words = words::indexed(safe_text::start(&post.content, MAX_TEXT));
    (key, NewEntry { place: found.id, length: 0, words })
}

fn size(position: i64) -> u64 {
    u64::try_from(position).unwrap_or(0)
}

fn offset(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}
