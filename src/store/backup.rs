//! Backups of the database: made through SQLite while it is in use, checked before they count, and kept in a small
//! number.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::damage::{self, Depth};
use super::{Store, StoreError, connect, create_private};
use crate::home::Home;

/// How many of each kind are kept.
const KEPT: usize = 7;

/// How long after the newest one the next is made, in milliseconds.
const EVERY: i64 = 24 * 3_600_000;

/// Why a backup was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupKind {
    /// A day had passed.
    Daily,
    /// A migration was about to change the database.
    Migration,
}

/// A backup of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its file.
    pub path: PathBuf,
    /// Why it was made.
    pub kind: BackupKind,
    /// When, in Unix milliseconds.
    pub at: i64,
}

impl Backup {
    /// From a file's name: `flock-daily-<time>.db`, or `flock-v<version>-<time>.db` before a migration.
    fn parse(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix("flock-")?.strip_suffix(".db")?;
        let (kind, at) = name.split_once('-')?;
        let is_version = kind.strip_prefix('v').is_some_and(|version| version.parse::<u32>().is_ok());
        let kind = match kind {
            "daily" => BackupKind::Daily,
            _ if is_version => BackupKind::Migration,
            _ => return None,
        };
        Some(Self { kind, at: at.parse().ok()?, path })
    }
}

/// The backups of a home's database, the newest first.
#[must_use]
pub fn list(home: &Home) -> Vec<Backup> {
    within(&home.backups())
}

/// Removes the oldest backups, so that their number is bounded.
pub(super) fn prune(folder: &Path) {
    for old in superfluous(&within(folder)) {
        if let Err(error) = fs_err::remove_file(&old) {
            tracing::warn!(%error, path = %old.display(), "failed to remove an old backup");
        }
    }
}

fn within(folder: &Path) -> Vec<Backup> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<Backup> = entries
        .flatten()
        .filter_map(|entry| Backup::parse(entry.path()))
        // A FIFO by the name of one is none.
        .filter(|backup| backup.path.is_file())
        .collect();
    found.sort_unstable_by_key(|backup| std::cmp::Reverse(backup.at));
    found
}

/// When the next daily backup is due, in Unix milliseconds. A newest one from the future, of a clock that was wrong, is
/// not waited for.
#[must_use]
pub fn due_at(backups: &[Backup], now: i64) -> i64 {
    let newest = backups.iter().filter(|backup| backup.kind == BackupKind::Daily && backup.at <= now);
    newest.map(|backup| backup.at).max().map_or(now, |at| at + EVERY)
}

/// Those that are more than are kept of their kind.
#[must_use]
fn superfluous(backups: &[Backup]) -> Vec<PathBuf> {
    let of = |kind| backups.iter().filter(move |backup| backup.kind == kind).skip(KEPT);
    of(BackupKind::Daily).chain(of(BackupKind::Migration)).map(|backup| backup.path.clone()).collect()
}

impl Store {
    /// Makes a daily backup, checks it, and removes the oldest ones. Blocks the thread.
    ///
    /// # Errors
    ///
    /// [`StoreError::Backup`]; a backup that is not whole is not kept.
    pub fn back_up(&self, home: &Home, now: i64) -> Result<Backup, StoreError> {
        let path = home.backups().join(format!("flock-daily-{now}.db"));
        let draft = home.backups().join(format!(".new-{}-backup", std::process::id()));
        let made = copy(&self.path, &draft)
            .and_then(|()| Ok(fs_err::rename(&draft, &path)?))
            .and_then(|()| Ok(std::fs::File::open(home.backups())?.sync_all()?));
        if let Err(source) = made {
            drop(fs_err::remove_file(&draft));
            return Err(StoreError::Backup { path, source });
        }
        prune(&home.backups());
        Ok(Backup { path, kind: BackupKind::Daily, at: now })
    }
}

/// Copies a database through SQLite, which sees what is still in the log beside it, and checks the copy.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    copy_of(&connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?, to)
}

/// The same of a database that is open. A copy that is not whole does not stay.
pub(super) fn copy_of(
    connection: &Connection,
    to: &Path,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let made = write_copy(connection, to);
    if made.is_err() {
        drop(fs_err::remove_file(to));
    }
    made
}

fn write_copy(connection: &Connection, to: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    create_private(to)?;
    // VACUUM INTO writes to an empty file and keeps its mode.
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    std::fs::File::open(to)?.sync_all()?;
    let checked = damage::check(to, Depth::Deep)?;
    if checked.is_whole() {
        Ok(())
    } else {
        Err(format!("the copy is damaged: {}", checked.summary()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::damage::tests::{filled, flip};
    use super::*;

    fn backup(kind: BackupKind, at: i64) -> Backup {
        Backup { path: format!("{kind:?}-{at}").into(), kind, at }
    }

    #[test]
    fn one_is_due_a_day_after_the_last_one_of_its_kind() {
        use BackupKind::{Daily, Migration};
        for (backups, now, expected) in [
            (vec![], 5, 5),
            (vec![backup(Daily, 1_000)], 2_000, 1_000 + EVERY),
            (vec![backup(Migration, 1_000)], 2_000, 2_000),
            (vec![backup(Daily, 9_000), backup(Daily, 1_000)], 2_000, 1_000 + EVERY),
        ] {
            assert_eq!(due_at(&backups, now), expected, "{backups:?}");
        }
    }

    #[test]
    fn names_are_read_and_only_the_newest_are_kept() {
        let named = |name: &str| Backup::parse(Path::new("/b").join(name));
        assert_eq!(named("flock-daily-7.db").map(|one| (one.kind, one.at)), Some((BackupKind::Daily, 7)));
        assert_eq!(named("flock-v3-9.db").map(|one| (one.kind, one.at)), Some((BackupKind::Migration, 9)));
        for name in ["flock-daily-x.db", "flock-vx-1.db", "config-1.json", ".new-daily-1.db", "flock-1.db"] {
            assert_eq!(named(name), None, "{name}");
        }
        let all: Vec<Backup> = (0..10).rev().map(|at| backup(BackupKind::Daily, at)).collect();
        assert_eq!(superfluous(&all).len(), 10 - KEPT);
        assert!(superfluous(&all).contains(&all[9].path), "the oldest");
    }

    #[test]
    fn a_backup_is_whole_and_private_and_one_of_a_damaged_database_is_none() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        filled(&home);
        let store = Store::open(&home).unwrap();
        let made = store.back_up(&home, 5).unwrap();
        assert_eq!(list(&home), std::slice::from_ref(&made));
        assert!(damage::check(&made.path, Depth::Deep).unwrap().is_whole());
        assert_eq!(std::fs::metadata(&made.path).unwrap().permissions().mode() & 0o777, 0o600);
        for at in 6..20 {
            store.back_up(&home, at).unwrap();
        }
        assert_eq!(list(&home).len(), KEPT);
        drop(store);
        flip(&home.database());
        assert!(Store::open(&home).and_then(|store| store.back_up(&home, 99)).is_err());
        assert_eq!(list(&home).len(), KEPT, "{:?}", list(&home));
        let drafts = std::fs::read_dir(home.backups()).unwrap().flatten();
        assert!(drafts.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".new")));
    }
}
