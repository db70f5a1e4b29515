//! Backups of the database.
//!
//! SQLite makes them while the database is in use. A backup is checked before it gets its final name, and only a small
//! number is kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::connection::{connect, create_private};
use super::integrity::{self, CheckDepth};
use crate::generation;
use crate::home::Home;
use crate::store::{Store, StoreError, database_file};

/// The number of backups kept of each kind.
const MAX_PER_KIND: usize = 7;

/// Milliseconds between daily backups.
const DAILY_INTERVAL: i64 = 24 * 3_600_000;

/// The reason for a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupKind {
    /// Made once every 24 hours.
    Daily,
    /// Made before a migration changed the database.
    Migration,
}

/// A backup file of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub path: PathBuf,
    pub kind: BackupKind,
    /// Unix milliseconds, taken from the file name.
    pub at: i64,
    /// The version of its schema, if the file name has it.
    pub schema: Option<u32>,
}

impl Backup {
    /// Parses a file name: `flock-daily-<time>.db`, or `flock-v<version>-<time>.db` for a backup made before a
    /// migration.
    fn parse(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_prefix("flock-")?.strip_suffix(".db")?;
        let (kind, at) = name.split_once('-')?;
        let schema = kind.strip_prefix('v').and_then(|version| version.parse().ok());
        let kind = match kind {
            "daily" => BackupKind::Daily,
            _ if schema.is_some() => BackupKind::Migration,
            _ => return None,
        };
        Some(Self { kind, at: at.parse().ok()?, schema, path })
    }
}

/// Lists the backups of a home's database, newest first.
#[must_use]
pub fn list(home: &Home) -> Vec<Backup> {
    backups_in(&home.backups())
}

/// Deletes the oldest backups of each kind, so that their number stays bounded.
pub(super) fn prune(folder: &Path) {
    // The generations are beside the backups in the home.
    let generations = folder.parent().map(|root| Home::new(root.to_owned(), None));
    let pinned = generations.map(|home| generation::log::schemas(&home)).unwrap_or_default();
    for old in excess_backups(&backups_in(folder), &pinned) {
        if let Err(error) = fs_err::remove_file(&old) {
            tracing::warn!(%error, path = %old.display(), "failed to remove an old backup");
        }
    }
}

fn backups_in(folder: &Path) -> Vec<Backup> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<Backup> = entries
        .flatten()
        .filter_map(|entry| Backup::parse(entry.path()))
        // A FIFO or a folder with such a name is not a backup.
        .filter(|backup| backup.path.is_file())
        .collect();
    found.sort_unstable_by_key(|backup| std::cmp::Reverse(backup.at));
    found
}

/// Returns the Unix milliseconds at which the next daily backup is due.
///
/// A backup dated in the future, left by a wrong clock, is ignored: waiting for it could take years.
#[must_use]
pub fn due_at(backups: &[Backup], now: i64) -> i64 {
    let newest = backups.iter().filter(|backup| backup.kind == BackupKind::Daily && backup.at <= now);
    newest.map(|backup| backup.at).max().map_or(now, |at| at + DAILY_INTERVAL)
}

/// Selects the backups beyond [`MAX_PER_KIND`] of each kind. `backups` is sorted newest first. Of each schema in `pinned`
/// one remains.
#[must_use]
fn excess_backups(backups: &[Backup], pinned: &BTreeSet<u32>) -> Vec<PathBuf> {
    let of = |kind| backups.iter().filter(move |backup| backup.kind == kind).skip(MAX_PER_KIND);
    let mut excess: Vec<&Backup> = of(BackupKind::Daily).chain(of(BackupKind::Migration)).collect();
    // The newest backup of each schema stays: a generation with an older program can be gone back to only with it.
    let mut seen = BTreeSet::new();
    let newest: Vec<&PathBuf> = backups
        .iter()
        .filter(|backup| backup.schema.is_some_and(|schema| pinned.contains(&schema) && seen.insert(schema)))
        .map(|backup| &backup.path)
        .collect();
    excess.retain(|backup| !newest.contains(&&backup.path));
    excess.into_iter().map(|backup| backup.path.clone()).collect()
}

impl Store {
    /// Makes a daily backup, checks it, and deletes the oldest ones. Blocks the calling thread.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Backup`] if the copy can't be made, is damaged, or can't be moved to its name. The
    /// incomplete file is deleted.
    pub fn back_up(&self, home: &Home, now: i64) -> Result<Backup, StoreError> {
        let path = home.backups().join(format!("flock-daily-{now}.db"));
        // A draft has another name, so `list` never sees a backup that is unfinished or unchecked.
        // The name has the form of the temporary files of `home::atomic`, so one that a killed process leaves is swept.
        let draft = home.backups().join(format!(".new-{}-backup", std::process::id()));
        let file = database_file(home, "make a backup")?;
        let made = copy(&file, &draft)
            .and_then(|()| Ok(fs_err::rename(&draft, &path)?))
            // Without a sync of the folder, a power cut could undo the rename.
            .and_then(|()| Ok(std::fs::File::open(home.backups())?.sync_all()?));
        if let Err(source) = made {
            drop(fs_err::remove_file(&draft));
            return Err(StoreError::Backup { path, source });
        }
        prune(&home.backups());
        Ok(Backup { path, kind: BackupKind::Daily, at: now, schema: None })
    }
}

/// Copies the home's database to `to` and checks the copy. The database may be in use.
///
/// # Errors
///
/// Returns [`StoreError::Backup`] if the copy can't be made or is damaged. The incomplete copy is deleted.
pub(crate) fn snapshot(home: &Home, to: &Path) -> Result<(), StoreError> {
    // A file from an earlier attempt may be there, and the copy needs an empty one.
    drop(fs_err::remove_file(to));
    copy(&home.database(), to).map_err(|source| StoreError::Backup { path: to.to_owned(), source })
}

/// Copies a database and checks the copy. Going through SQLite includes what is still in the write-ahead log.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    copy_of(&connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?, to)
}

/// Copies a database that is already open. Deletes the copy if it is incomplete.
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
    // VACUUM INTO accepts an existing file that is empty and keeps its mode, so the copy is private from the start.
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    std::fs::File::open(to)?.sync_all()?;
    let checked = integrity::check(to, CheckDepth::Deep)?;
    if checked.is_whole() {
        Ok(())
    } else {
        Err(format!("the copy is damaged: {}", checked.summary()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::integrity::tests::{filled, flip};
    use super::*;

    fn backup(kind: BackupKind, at: i64) -> Backup {
        Backup { path: format!("{kind:?}-{at}").into(), kind, at, schema: None }
    }

    #[test]
    fn a_daily_backup_is_due_a_day_after_the_last_daily_one() {
        use BackupKind::{Daily, Migration};
        for (backups, now, expected) in [
            (vec![], 5, 5),
            (vec![backup(Daily, 1_000)], 2_000, 1_000 + DAILY_INTERVAL),
            (vec![backup(Migration, 1_000)], 2_000, 2_000),
            (vec![backup(Daily, 9_000), backup(Daily, 1_000)], 2_000, 1_000 + DAILY_INTERVAL),
        ] {
            assert_eq!(due_at(&backups, now), expected, "{backups:?}");
        }
    }

    #[test]
    fn backup_names_are_parsed_and_only_the_newest_are_kept() {
        let named = |name: &str| Backup::parse(Path::new("/b").join(name));
        assert_eq!(named("flock-daily-7.db").map(|one| (one.kind, one.at)), Some((BackupKind::Daily, 7)));
        assert_eq!(named("flock-v3-9.db").map(|one| (one.kind, one.at)), Some((BackupKind::Migration, 9)));
        for name in ["flock-daily-x.db", "flock-vx-1.db", "config-1.json", ".new-daily-1.db", "flock-1.db"] {
            assert_eq!(named(name), None, "{name}");
        }
        let all: Vec<Backup> = (0..10).rev().map(|at| backup(BackupKind::Daily, at)).collect();
        let none = BTreeSet::new();
        assert_eq!(excess_backups(&all, &none).len(), 10 - MAX_PER_KIND);
        assert!(excess_backups(&all, &none).contains(&all[9].path), "the oldest");
        let versions: Vec<Backup> = (0..10)
            .rev()
            .map(|at| Backup {
                schema: Some(if at < 3 { 7 } else { 8 }),
                ..backup(BackupKind::Migration, at)
            })
            .collect();
        let excess = excess_backups(&versions, &BTreeSet::from([7]));
        assert_eq!(excess, [versions[8].path.clone(), versions[9].path.clone()], "one of version 7 remains");
    }

    #[test]
    fn a_backup_is_intact_and_private_and_a_damaged_database_is_not_backed_up() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        filled(&home);
        let store = Store::open(&home).unwrap();
        let made = store.back_up(&home, 5).unwrap();
        assert_eq!(list(&home), std::slice::from_ref(&made));
        assert!(integrity::check(&made.path, CheckDepth::Deep).unwrap().is_whole());
        assert_eq!(std::fs::metadata(&made.path).unwrap().permissions().mode() & 0o777, 0o600);
        for at in 6..20 {
            store.back_up(&home, at).unwrap();
        }
        assert_eq!(list(&home).len(), MAX_PER_KIND);
        drop(store);
        flip(&home.database());
        assert!(Store::open(&home).and_then(|store| store.back_up(&home, 99)).is_err());
        assert_eq!(list(&home).len(), MAX_PER_KIND, "{:?}", list(&home));
        let drafts = std::fs::read_dir(home.backups()).unwrap().flatten();
        assert!(drafts.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".new")));
    }
}
