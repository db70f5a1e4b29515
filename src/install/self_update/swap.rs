//! Replaces the program in use, and keeps the previous one.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::pending_change::PendingProgramChange;
use super::program::{CURRENT, PREVIOUS_FILE, PREVIOUS_RECORD, digest};
use super::{ProgramRecord, SelfUpdateError, UpdateLock};
use crate::home::{Home, regular};
use crate::install::InstallError;
use crate::install::error::{io, remove_file};
use crate::store;

/// Returns the path of the program that will be put in use.
#[must_use]
pub(crate) fn next(home: &Home) -> PathBuf {
    home.program().join("flock-next")
}

/// Returns the path of the copy of the old program while a change is in progress.
fn old_file(home: &Home) -> PathBuf {
    home.program().join("flock-left")
}

/// Copies a file to the place of the next program. Returns its digest.
///
/// # Errors
///
/// Returns an error if the file cannot be copied.
pub(crate) fn take_up(_: &UpdateLock, home: &Home, file: &Path) -> Result<String, SelfUpdateError> {
    copy(file, &next(home), 0o755)?;
    Ok(digest(&next(home))?)
}

/// Returns the path of the previous program, for a rollback.
#[must_use]
pub(crate) fn previous_file(home: &Home) -> PathBuf {
    home.program().join(PREVIOUS_FILE)
}

/// Copies the program in use, before anything is changed.
///
/// # Errors
///
/// Returns an error if the file cannot be copied.
pub(crate) fn keep(_: &UpdateLock, home: &Home, path: &Path) -> Result<(), SelfUpdateError> {
    Ok(copy(path, &old_file(home), 0o755)?)
}

/// Copies the database before the new version migrates it. Nothing may write to it meanwhile. A database on a server is
/// not copied: that is the server's part, and other homes may use it.
///
/// # Errors
///
/// Returns an error if a file cannot be copied.
pub(crate) fn keep_state(_: &UpdateLock, home: &Home) -> Result<(), SelfUpdateError> {
    let folder = database_backup(home);
    drop(fs_err::remove_dir_all(&folder));
    if store::server_address(home)?.is_some() {
        return Ok(());
    }
    fs_err::create_dir_all(&folder).map_err(io("make the folder", &folder))?;
    // The head of the audit chain must fit the database: with a newer head, rows would seem to be cut off.
    if home.audit_head().exists() {
        copy(&home.audit_head(), &folder.join("audit.head"), 0o600)?;
    }
    // The database is copied last. A folder without it comes from an interrupted copy.
    Ok(store::snapshot(home, &folder.join("flock.db"))?)
}

/// Puts a backup in the place of the database, which [`keep_state`] has copied. Nothing may use the database meanwhile.
///
/// # Errors
///
/// Returns an error if a file cannot be copied or removed.
pub(crate) fn put_backup(_: &UpdateLock, home: &Home, backup: &Path) -> Result<(), SelfUpdateError> {
    // The new database is complete beside the old one before that one's log is removed.
    let next = home.data().join(".flock.db.next");
    copy(backup, &next, 0o600)?;
    for suffix in store::BESIDE {
        remove_file(&store::beside(&home.database(), suffix))?;
    }
    fs_err::rename(&next, home.database()).map_err(io("replace", home.database()))?;
    Ok(super::super::swap::sync(&home.data())?)
}

/// Restores the copy of the database if the present one has a newer schema than this program reads, or if `always` is
/// set. Nothing may use the database meanwhile. Returns `true` if it was restored.
///
/// # Errors
///
/// Returns an error if a file cannot be copied or removed.
pub(crate) fn restore_database(_: &UpdateLock, home: &Home, always: bool) -> Result<bool, SelfUpdateError> {
    let kept = database_backup(home).join("flock.db");
    if !kept.exists() || !(always || store::is_newer(home)) {
        return Ok(false);
    }
    // The data that the new version wrote is kept. A gateway that was killed has left a part of it in the write-ahead log.
    let aside = home.backups().join("flock-unproved.db");
    copy(&home.database(), &aside, 0o600)?;
    let log = store::beside(&home.database(), "-wal");
    if log.exists() {
        copy(&log, &store::beside(&aside, "-wal"), 0o600)?;
    } else {
        // SQLite would apply the log of an earlier copy to this one.
        drop(fs_err::remove_file(store::beside(&aside, "-wal")));
    }
    // It would apply a leftover log or journal to the restored file, too.
    for suffix in store::BESIDE {
        remove_file(&store::beside(&home.database(), suffix))?;
    }
    let head = database_backup(home).join("audit.head");
    if head.exists() {
        copy(&head, &home.audit_head(), 0o600)?;
    }
    copy(&kept, &home.database(), 0o600)?;
    Ok(true)
}

fn database_backup(home: &Home) -> PathBuf {
    home.program().join("state-before")
}

/// Puts the next program in use, by one rename.
///
/// # Errors
///
/// Returns an error if the file is not the one that was tried, or cannot be put in place. Then the old program is still
/// in use.
pub(crate) fn swap(
    _: &UpdateLock,
    home: &Home,
    change: &PendingProgramChange,
) -> Result<(), SelfUpdateError> {
    Ok(replace_program(&next(home), &change.path, &change.to)?)
}

/// Undoes a [`swap()`].
///
/// # Errors
///
/// Returns an error if the old program cannot be put in place. Then the file is unchanged.
pub(crate) fn swap_back(
    _: &UpdateLock,
    home: &Home,
    change: &PendingProgramChange,
) -> Result<(), SelfUpdateError> {
    Ok(replace_program(&old_file(home), &change.path, &change.from)?)
}

/// Records that the change is complete. The old program becomes the previous one.
///
/// # Errors
///
/// Returns an error if a record cannot be written.
pub(crate) fn conclude(
    updater: &UpdateLock,
    home: &Home,
    change: &PendingProgramChange,
) -> Result<(), SelfUpdateError> {
    let folder = home.program();
    // Not there after a restart: an interrupted call renamed it already.
    if old_file(home).exists() {
        fs_err::rename(old_file(home), previous_file(home)).map_err(io("keep", previous_file(home)))?;
    }
    // The database that a backup has replaced stays, as a backup of its own version.
    let replaced = database_backup(home).join("flock.db");
    if change.backup.is_some()
        && replaced.exists()
        && let Some(schema) = store::row_counts::census(&replaced).ok().and_then(|counts| counts.schema)
    {
        let name = format!("flock-v{schema}-{}.db", crate::clock::unix_ms());
        let to = home.backups().join(name);
        fs_err::rename(&replaced, &to).map_err(io("keep", &to))?;
    }
    change.from.write(&folder.join(PREVIOUS_RECORD))?;
    change.to.write(&folder.join(CURRENT))?;
    tidy(updater, home);
    Ok(())
}

/// Removes files that only a change in progress needs. The next change removes what cannot be removed now.
pub(crate) fn tidy(_: &UpdateLock, home: &Home) {
    for file in [next(home), old_file(home)] {
        drop(fs_err::remove_file(file));
    }
    drop(fs_err::remove_dir_all(database_backup(home)));
}

/// Copies a file beside the program and renames it over the program. Processes that run the old program keep it.
fn replace_program(from: &Path, to: &Path, expected: &ProgramRecord) -> Result<(), InstallError> {
    let wrong = |path: &Path, text: &str| io("use", path)(std::io::Error::other(text.to_owned()));
    // The file may have been changed since its trial.
    if digest(from)? != expected.sha256 {
        return Err(wrong(from, "it is not the file that was tried"));
    }
    // The mode keeps the rights of other users to run it. It never keeps a setuid or setgid bit, or a right of others
    // to write.
    let mode = fs_err::metadata(to).map_or(0o755, |found| found.mode() & 0o755 | 0o700);
    copy(from, to, mode)
}

/// Copies a file to a temporary file beside its place, then renames it. The next copy overwrites a temporary file that
/// a `kill -9` left.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), InstallError> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let draft = to.with_file_name(format!(".{name}.flock-update"));
    // An interrupted copy may have left one.
    let result = (|| {
        drop(fs_err::remove_file(&draft));
        regular::copy(from, &draft)?;
        fs_err::set_permissions(&draft, Permissions::from_mode(mode))?;
        // Without this sync a power loss after the rename could leave an empty program.
        std::fs::File::open(&draft)?.sync_all()?;
        fs_err::rename(&draft, to)
    })();
    result.map_err(|error| {
        drop(fs_err::remove_file(&draft));
        io("write", to)(error)
    })?;
    super::super::swap::sync(to.parent().unwrap_or(Path::new("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::pending_change::ChangeDirection;

    #[test]
    fn a_program_is_replaced_only_by_the_tested_file() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let path = dir.path().join("flock");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
        let built = dir.path().join("built");
        std::fs::write(&built, "new").unwrap();
        let updater = UpdateLock::begin(&home, &path).unwrap();
        assert!(matches!(UpdateLock::begin(&home, &path), Err(SelfUpdateError::Busy)));
        let from = ProgramRecord::current(&home, &path, "1").unwrap();
        keep(&updater, &home, &path).unwrap();
        let sha256 = take_up(&updater, &home, &built).unwrap();
        let to = ProgramRecord { version: "2".into(), sha256, ..from.clone() };
        let change = PendingProgramChange {
            way: ChangeDirection::Update,
            path: path.clone(),
            from,
            to,
            ran: false,
            migrates: false,
            back: false,
            backup: None,
        };
        swap(&updater, &home, &change).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        swap_back(&updater, &home, &change).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        std::fs::write(next(&home), "another").unwrap();
        assert!(swap(&updater, &home, &change).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        conclude(&updater, &home, &change).unwrap();
        assert_eq!(ProgramRecord::previous(&home).unwrap(), change.from);
        std::fs::write(previous_file(&home), "changed").unwrap();
        assert_eq!(
            ProgramRecord::previous(&home),
            None,
            "what is not what was kept is nothing to go back to"
        );
    }
}
