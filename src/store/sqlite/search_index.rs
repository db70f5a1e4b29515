//! The search index: the words of memory files, findings, transcripts, vaults and channel messages, without their texts.
//!
//! It is a database of its own beside the home's database. It is derived from files and rows that exist elsewhere, so no
//! backup has it, and a damaged one is deleted and made anew. Writing it keeps no turn waiting, because the home's
//! database has its own writer. A found entry is only a place: whoever shows it reads the text from there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, Transaction, TransactionBehavior};

use super::connection::{connect, create_private, files_of, is_there};
use super::integrity::{self, CheckDepth};
use super::probe::FileId;
use crate::home::Home;
use crate::store::StoreError;
use crate::store::sql::Cause;
use crate::sync::lock;

/// The version of the index. An index of another version is deleted and made anew.
const VERSION: i64 = 2;

/// The most entries. Beyond them nothing more is added, so that agents can't fill the disk through the index.
pub(crate) const MAX_ENTRIES: i64 = 2_000_000;

/// The number of pages that one transaction merges.
const MERGED_PAGES: i64 = 500;

const SCHEMA: &str = "
    CREATE TABLE source (
        id       INTEGER PRIMARY KEY,
        kind     TEXT NOT NULL,
        owner    TEXT NOT NULL,
        path     TEXT NOT NULL,
        -- The state of the file that was read, and for files that only grow the offset up to which it was.
        stamp    TEXT NOT NULL,
        position INTEGER NOT NULL DEFAULT 0,
        UNIQUE (kind, owner, path)
    ) STRICT;
    CREATE TABLE entry (
        id     INTEGER PRIMARY KEY,
        source INTEGER NOT NULL REFERENCES source (id),
        -- The first line, the offset of a record, or the id of a message's or a finding's row.
        place  INTEGER NOT NULL,
        length INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX entry_by_source ON entry (source, place);
    CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE VIRTUAL TABLE word USING fts5 (
        text, content = '', contentless_delete = 1,
        tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* N* Co Mc Mn'\"
    );";

/// The kinds of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SourceKind {
    /// A file of an agent's memory. The owner is the agent.
    Memory,
    /// A file of an agent's findings. The owner is the agent.
    Findings,
    /// The findings of a review. The path is the number of the submission, and there is no owner.
    Review,
    /// A transcript. The path is the name of its file, and there is no owner: the session's row says whose it is.
    Session,
    /// A file of a vault. The owner is the vault.
    Vault,
    /// The messages of a channel. The path is the channel's id.
    Channel,
}

impl SourceKind {
    const ALL: [Self; 6] =
        [Self::Memory, Self::Findings, Self::Review, Self::Session, Self::Vault, Self::Channel];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Findings => "findings",
            Self::Review => "review",
            Self::Session => "session",
            Self::Vault => "vault",
            Self::Channel => "channel",
        }
    }
}

/// The name of a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SourceKey {
    pub kind: SourceKind,
    pub owner: String,
    pub path: String,
}

/// The state of a source in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceState {
    pub id: i64,
    pub stamp: String,
    pub position: i64,
}

/// A piece of text for the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewEntry {
    pub place: i64,
    pub length: i64,
    /// The words, separated by spaces.
    pub words: String,
}

/// A place that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexHit {
    pub source: SourceKey,
    pub place: i64,
    pub length: i64,
    /// The rank by BM25. A larger number is a better match.
    pub score: f64,
}

/// The numbers that the index remembers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexMeta {
    /// The id of the newest message's row that was taken in.
    LastMessage,
    /// The id of the last mark that was taken in.
    LastMark,
    /// The inode of the home's database. Another one may number its messages differently.
    Database,
    /// The time in Unix milliseconds at which something was deleted whose words are still in the file.
    DeletedAt,
}

impl IndexMeta {
    const fn as_str(self) -> &'static str {
        match self {
            Self::LastMessage => "last_message",
            Self::LastMark => "last_mark",
            Self::Database => "database",
            Self::DeletedAt => "deleted_at",
        }
    }
}

/// The size of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexSize {
    pub entries: i64,
    pub bytes: u64,
}

struct Opened {
    connection: Connection,
    file: FileId,
}

/// The search index of a home. The file is made when it is used first.
pub(crate) struct SearchIndex {
    path: PathBuf,
    writing: Mutex<Option<Opened>>,
    reading: Mutex<Option<Opened>>,
    /// The last message, as the last run found or left it. Unset before the first run of this process.
    last_message: Mutex<Option<i64>>,
}

impl SearchIndex {
    #[must_use]
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            path: home.search_index(),
            writing: Mutex::default(),
            reading: Mutex::default(),
            last_message: Mutex::default(),
        }
    }

    /// Returns the sources of a kind and an owner, by their paths.
    ///
    /// # Errors
    ///
    /// Returns the store's error if the index can't be read, here and in the other functions.
    pub(crate) fn sources(
        &self,
        kind: SourceKind,
        owner: &str,
    ) -> Result<HashMap<String, SourceState>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT path, id, stamp, position FROM source WHERE kind = ?1 AND owner = ?2",
                )?
                .query_map((kind.as_str(), owner), |row| {
                    let state = SourceState { id: row.get(1)?, stamp: row.get(2)?, position: row.get(3)? };
                    Ok((row.get(0)?, state))
                })?
                .collect()
        })
    }

    /// Returns the owners of the sources of a kind.
    pub(crate) fn owners(&self, kind: SourceKind) -> Result<Vec<String>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT DISTINCT owner FROM source WHERE kind = ?1")?
                .query_map([kind.as_str()], |row| row.get(0))?
                .collect()
        })
    }

    /// Puts these entries in the place of all that a source had.
    pub(crate) fn replace(
        &self,
        key: &SourceKey,
        stamp: &str,
        position: i64,
        entries: &[NewEntry],
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let id = source_id(transaction, key, stamp, position)?;
            delete_entries(transaction, id)?;
            add(transaction, entries.iter().map(|entry| (id, entry)))
        })
    }

    /// Adds entries to a source that has grown from `from` to `to`. Nothing is added if another run did it meanwhile. Returns
    /// the offset up to which the source is taken in now.
    pub(crate) fn append(
        &self,
        key: &SourceKey,
        stamp: &str,
        (from, to): (i64, i64),
        entries: &[NewEntry],
    ) -> Result<i64, StoreError> {
        self.write(|transaction| {
            let known: Option<i64> = transaction
                .prepare_cached("SELECT position FROM source WHERE kind = ?1 AND owner = ?2 AND path = ?3")?
                .query_row((key.kind.as_str(), &key.owner, &key.path), |row| row.get(0))
                .optional()?;
            let known = known.unwrap_or(0);
            if known != from {
                return Ok(known);
            }
            let id = source_id(transaction, key, stamp, to)?;
            add(transaction, entries.iter().map(|entry| (id, entry)))?;
            Ok(to)
        })
    }

    /// Deletes sources with all their entries.
    pub(crate) fn forget(&self, ids: &[i64]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.write(|transaction| {
            for id in ids {
                delete_source(transaction, *id)?;
            }
            Ok(())
        })
    }

    /// Forgets all messages of channels, because another database may have given the same numbers to others, or because marks
    /// are missed. Does nothing if the index's database and last message are not `seen` any more: another search has done the
    /// same meanwhile, and may have taken messages in. `mark` is the newest one: messages that are read from now on are as it
    /// says.
    pub(crate) fn restart_messages(
        &self,
        seen: (i64, i64),
        database: i64,
        mark: i64,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let known = (meta(transaction, IndexMeta::Database)?, meta(transaction, IndexMeta::LastMessage)?);
            if known != seen {
                return Ok(());
            }
            let ids: Vec<i64> = transaction
                .prepare_cached("SELECT id FROM source WHERE kind = 'channel'")?
                .query_map((), |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for id in ids {
                delete_source(transaction, id)?;
            }
            set(transaction, IndexMeta::LastMessage, 0)?;
            set(transaction, IndexMeta::LastMark, mark)?;
            set(transaction, IndexMeta::Database, database)
        })
    }

    /// Takes in messages: those that are new, and those that take the place of earlier ones of the same row. `deleted`
    /// are rows whose entries go. The number is remembered in the same transaction. Returns `false`, and takes nothing in,
    /// if the number is not `from` any more: another search has done the same meanwhile. A message that took the place of
    /// an earlier one and comes after the last one that was taken in is left out: it will be a new one.
    pub(crate) fn take_messages(
        &self,
        new: &[(SourceKey, NewEntry)],
        deleted: &[i64],
        (name, from, to): (IndexMeta, i64, i64),
    ) -> Result<bool, StoreError> {
        self.write(|transaction| {
            if meta(transaction, name)? != from {
                return Ok(false);
            }
            for message in deleted {
                let ids: Vec<i64> = transaction
                    .prepare_cached(
                        "SELECT id FROM entry WHERE place = ?1
                         AND source IN (SELECT id FROM source WHERE kind = 'channel')",
                    )?
                    .query_map([message], |row| row.get(0))?
                    .collect::<rusqlite::Result<_>>()?;
                for id in ids {
                    delete_entry(transaction, id)?;
                }
            }
            let last = match name {
                IndexMeta::LastMark => meta(transaction, IndexMeta::LastMessage)?,
                _ => i64::MAX,
            };
            let mut channels = HashMap::new();
            let mut entries = Vec::with_capacity(new.len());
            for (key, entry) in new.iter().filter(|(_, entry)| entry.place <= last) {
                let channel = match channels.entry(key) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(missing) => *missing.insert(source_id(transaction, key, "", 0)?),
                };
                entries.push((channel, entry));
            }
            add(transaction, entries)?;
            set(transaction, name, to)?;
            Ok(true)
        })
    }

    /// Returns a number that the index remembers; 0 if there is none.
    pub(crate) fn meta(&self, name: IndexMeta) -> Result<i64, StoreError> {
        self.read(|connection| meta(connection, name))
    }

    /// Remembers a number.
    pub(crate) fn set_meta(&self, name: IndexMeta, value: i64) -> Result<(), StoreError> {
        self.write(|transaction| set(transaction, name, value))
    }

    /// Notes for [`Self::noted_last_message`] how far a run is. Of two at once, either may be noted last; the next run
    /// corrects that.
    pub(crate) fn note_last_message(&self, row: i64) {
        *lock(&self.last_message) = Some(row);
    }

    /// Returns the id of the newest message's row that is known to be taken in, without a look at the file. `None` before
    /// the first run of this process.
    pub(crate) fn noted_last_message(&self) -> Option<i64> {
        *lock(&self.last_message)
    }

    /// Returns the best matches among these sources, best first.
    pub(crate) fn search(
        &self,
        query: &str,
        sources: &[i64],
        limit: usize,
    ) -> Result<Vec<IndexHit>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let ids: Vec<String> = sources.iter().map(ToString::to_string).collect();
        let allowed = format!("[{}]", ids.join(","));
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT s.kind, s.owner, s.path, e.place, e.length, -bm25(word)
                     FROM word JOIN entry e ON e.id = word.rowid JOIN source s ON s.id = e.source
                     WHERE word MATCH ?1 AND e.source IN (SELECT value FROM json_each(?3))
                     ORDER BY bm25(word), e.id DESC LIMIT ?2",
                )?
                .query_map((query, limit, &allowed), hit)?
                .filter_map(Result::transpose)
                .collect()
        })
    }

    /// Returns the number of entries and the size of the file in bytes.
    pub(crate) fn size(&self) -> Result<IndexSize, StoreError> {
        let entries =
            self.read(|connection| connection.query_row("SELECT count(*) FROM entry", (), |row| row.get(0)))?;
        let bytes =
            files_of(&self.path).filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len());
        Ok(IndexSize { entries, bytes: bytes.sum() })
    }

    /// Merges the index, so that the words of deleted entries leave the file too, and returns free pages to the disk.
    ///
    /// It takes many short transactions, so that a search that has something to write need not wait for long. Between them
    /// it calls `goes_on`, which may wait, and ends if that returns `false`.
    pub(crate) fn tidy(&self, goes_on: impl Fn() -> bool) -> Result<(), StoreError> {
        let deleted_at = self.meta(IndexMeta::DeletedAt)?;
        // What is deleted from now on waits for the next time.
        self.set_meta(IndexMeta::DeletedAt, 0)?;
        // A negative number begins the merge of everything, and positive ones go on with it.
        let mut pages = -MERGED_PAGES;
        while self.write(|transaction| {
            let count = || transaction.query_row("SELECT total_changes()", (), |row| row.get::<_, i64>(0));
            let before = count()?;
            transaction.execute("INSERT INTO word (word, rank) VALUES ('merge', ?1)", [pages])?;
            // The statement itself counts as one change.
            Ok(count()? - before > 1)
        })? {
            if !goes_on() {
                // The words that are left are as old as before.
                return self.set_meta(IndexMeta::DeletedAt, deleted_at);
            }
            pages = MERGED_PAGES;
        }
        self.use_connection(&self.writing, |connection| {
            connection.execute_batch("PRAGMA incremental_vacuum")?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        })
    }

    /// Closes the connections, whose caches take megabytes. The next use opens them again.
    pub(crate) fn close(&self) {
        *lock(&self.writing) = None;
        *lock(&self.reading) = None;
    }

    fn read<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.use_connection(&self.reading, |connection| work(connection))
    }

    fn write<T>(&self, work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.use_connection(&self.writing, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    /// Runs `work` on a connection. A damaged index is deleted, and `work` runs once more on the new one.
    fn use_connection<T>(
        &self,
        slot: &Mutex<Option<Opened>>,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        const WHAT: &str = "use the search index";
        let mut slot = lock(slot);
        let mut has_renewed = false;
        loop {
            let opened = match self.open(&mut slot) {
                Ok(opened) => opened,
                Err(StoreError::Open { source, .. }) if source.cause().is_damage() && !has_renewed => {
                    has_renewed = true;
                    self.remove();
                    continue;
                }
                Err(error) => return Err(error),
            };
            match work(&mut opened.connection) {
                Err(error) if Cause::of(&error).is_damage() && !has_renewed => {
                    has_renewed = true;
                    tracing::warn!(%error, "the search index is damaged and is made anew");
                    *slot = None;
                    self.remove();
                }
                Err(error) => return Err(StoreError::query(WHAT, error)),
                Ok(done) => return Ok(done),
            }
        }
    }

    /// Returns the open connection, or opens the file that is at the path now.
    fn open<'s>(&self, slot: &'s mut Option<Opened>) -> Result<&'s mut Opened, StoreError> {
        let there = FileId::of(&self.path).ok();
        // Another process may have deleted the file or made it anew.
        if slot.as_ref().is_some_and(|opened| Some(opened.file) != there) {
            *slot = None;
        }
        let opened = match slot.take() {
            Some(opened) => opened,
            None => self.connect()?,
        };
        Ok(slot.insert(opened))
    }

    fn connect(&self) -> Result<Opened, StoreError> {
        let failed = |source| StoreError::open(&self.path, source);
        create_private(&self.path)?;
        let mut connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let version =
            |connection: &Connection| connection.query_row("PRAGMA user_version", (), |row| row.get(0));
        let found: i64 = version(&connection).map_err(failed)?;
        if found != 0 && found != VERSION {
            drop(connection);
            self.remove();
            create_private(&self.path)?;
            connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        }
        let mut settle = || -> rusqlite::Result<()> {
            // Deleted words are overwritten, and the file shrinks again.
            connection.execute_batch("PRAGMA secure_delete = ON; PRAGMA cache_size = -4096;")?;
            if version(&connection)? == VERSION {
                return Ok(());
            }
            connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Another process may have made the tables meanwhile.
            if version(&transaction)? != VERSION {
                transaction.execute_batch(SCHEMA)?;
                transaction.execute_batch(&format!("PRAGMA user_version = {VERSION}"))?;
            }
            transaction.commit()
        };
        settle().map_err(failed)?;
        let file = FileId::of(&self.path);
        let file = file.map_err(|source| StoreError::Create { path: self.path.clone(), source })?;
        Ok(Opened { connection, file })
    }

    fn remove(&self) {
        remove_files(&self.path);
    }
}

fn remove_files(path: &Path) {
    for file in files_of(path) {
        drop(fs_err::remove_file(file));
    }
}

/// Deletes the search index of a home. The next search makes it anew.
pub(crate) fn remove(home: &Home) {
    remove_files(&home.search_index());
}

/// Checks the search index of a home. Returns `None` if there is none, and otherwise the first fault, if there is one.
///
/// # Errors
///
/// Returns the store's error if the file can't be read.
pub(crate) fn check(home: &Home) -> Result<Option<Option<String>>, StoreError> {
    let path = home.search_index();
    if !is_there(&path)? {
        return Ok(None);
    }
    match integrity::check(&path, CheckDepth::Quick(std::time::Duration::from_secs(3))) {
        Ok(checked) if checked.is_whole() => Ok(Some(None)),
        Ok(checked) => Ok(Some(Some(checked.summary()))),
        Err(StoreError::Open { source, .. } | StoreError::Query { source, .. })
            if source.cause().is_damage() =>
        {
            Ok(Some(Some(source.to_string())))
        }
        Err(error) => Err(error),
    }
}

fn source_id(
    transaction: &Transaction<'_>,
    key: &SourceKey,
    stamp: &str,
    position: i64,
) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO source (kind, owner, path, stamp, position) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (kind, owner, path) DO UPDATE SET stamp = excluded.stamp, position = excluded.position
             RETURNING id",
        )?
        .query_row((key.kind.as_str(), &key.owner, &key.path, stamp, position), |row| row.get(0))
}

/// Adds entries, each to its source.
fn add<'e>(
    transaction: &Transaction<'_>,
    entries: impl IntoIterator<Item = (i64, &'e NewEntry)>,
) -> rusqlite::Result<()> {
    let mut count: i64 = transaction
        .prepare_cached("SELECT coalesce(max(id), 0) FROM entry")?
        .query_row((), |row| row.get(0))?;
    for (source, new) in entries {
        // The highest id is at least the number of entries, and counting them each time would take long.
        if count >= MAX_ENTRIES && entry_count(transaction)? >= MAX_ENTRIES {
            tracing::warn!(most = MAX_ENTRIES, "the search index is full, and nothing more is added to it");
            return Ok(());
        }
        transaction
            .prepare_cached("INSERT INTO entry (source, place, length) VALUES (?1, ?2, ?3)")?
            .execute((source, new.place, new.length))?;
        count = transaction.last_insert_rowid();
        transaction
            .prepare_cached("INSERT INTO word (rowid, text) VALUES (?1, ?2)")?
            .execute((count, &new.words))?;
    }
    Ok(())
}

fn entry_count(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    transaction.query_row("SELECT count(*) FROM entry", (), |row| row.get(0))
}

fn delete_entries(transaction: &Transaction<'_>, source: i64) -> rusqlite::Result<()> {
    let ids: Vec<i64> = transaction
        .prepare_cached("SELECT id FROM entry WHERE source = ?1")?
        .query_map([source], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    ids.into_iter().try_for_each(|id| delete_entry(transaction, id))
}

fn delete_source(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<()> {
    delete_entries(transaction, id)?;
    transaction.prepare_cached("DELETE FROM source WHERE id = ?1")?.execute([id]).map(drop)
}

fn delete_entry(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM word WHERE rowid = ?1")?.execute([id])?;
    transaction.prepare_cached("DELETE FROM entry WHERE id = ?1")?.execute([id])?;
    transaction
        .prepare_cached(
            "INSERT INTO meta (name, value) VALUES ('deleted_at', ?1)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value = 0",
        )?
        .execute([crate::clock::unix_ms()])
        .map(drop)
}

fn meta(connection: &Connection, name: IndexMeta) -> rusqlite::Result<i64> {
    let value = connection
        .prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    Ok(value.unwrap_or(0))
}

fn set(transaction: &Transaction<'_>, name: IndexMeta, value: i64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute((name.as_str(), value))
        .map(drop)
}

/// Reads a found place; `None` if it is of a kind that this version does not know.
fn hit(row: &Row<'_>) -> rusqlite::Result<Option<IndexHit>> {
    let kind = row.get_ref(0)?.as_str()?;
    let Some(kind) = SourceKind::ALL.into_iter().find(|known| known.as_str() == kind) else {
        return Ok(None);
    };
    let source = SourceKey { kind, owner: row.get(1)?, path: row.get(2)? };
    Ok(Some(IndexHit { source, place: row.get(3)?, length: row.get(4)?, score: row.get(5)? }))
}
