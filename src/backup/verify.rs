//! Reads a whole archive and checks it: every file, and the database in it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::BackupWatcher;
use super::error::BackupError;
use super::make::{database_record, parent_of};
use super::manifest::{DatabaseRecord, Entry, Manifest, Node};
use super::reader::{ArchiveReader, EntrySink};
use super::selection::DATABASE;
use crate::home::{Home, HomeError, regular};
use crate::store::snapshot;

/// Reads an archive and checks all of it. Changes nothing. Returns its manifest.
///
/// # Errors
///
/// Returns [`BackupError::NoArchive`] or [`BackupError::Damaged`] if it is not whole, [`BackupError::Newer`] if a newer
/// flock made it, and another error if it can't be read or its database can't be opened.
pub(crate) fn read(file: &Path, watcher: &dyn BackupWatcher) -> Result<Manifest, BackupError> {
    let mut reader = ArchiveReader::open(file)?;
    // The database has to be a file for SQLite. The archive may be on a disk that can't be written.
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".flock-verify-");
        builder
    };
    let scratch = builder().tempdir_in(parent_of(file)).or_else(|_| builder().tempdir());
    let scratch = scratch.map_err(HomeError::io("make a folder in", parent_of(file)))?;
    let home = Home::new(scratch.path().to_owned(), None);
    fs_err::create_dir_all(home.data()).map_err(HomeError::io("make the folder", &home.data()))?;
    let (_, total) = reader.manifest.totals();
    let mut sink = DatabaseSink { home: &home, file: None };
    reader.read_all(&mut sink, &mut |done| watcher.at(done, total))?;
    check_database(&home, &reader.manifest, file)?;
    Ok(reader.manifest)
}

/// Checks that an unpacked database is the one that the manifest describes.
pub(super) fn check_database(home: &Home, manifest: &Manifest, file: &Path) -> Result<(), BackupError> {
    let damaged = |what: String| Err(BackupError::Damaged { file: file.to_owned(), what });
    let Some(wanted) = &manifest.database else {
        return if home.database().exists() {
            damaged("it has a database that it does not name".to_owned())
        } else {
            Ok(())
        };
    };
    if let Err(error) = regular::open(&home.database()) {
        return damaged(format!("its database can't be opened: {error}"));
    }
    let found = match snapshot::examine(home) {
        Ok(facts) => database_record(&facts),
        Err(crate::store::StoreError::Damaged { what, .. }) => {
            return damaged(format!("its database is damaged: {what}"));
        }
        Err(error) => return Err(error.into()),
    };
    match difference(wanted, &found) {
        Some(what) => damaged(what),
        None => Ok(()),
    }
}

/// Returns how a database differs from the one that the manifest describes.
fn difference(wanted: &DatabaseRecord, found: &DatabaseRecord) -> Option<String> {
    if wanted.schema != found.schema {
        return Some(format!("its database has version {}, not {}", found.schema, wanted.schema));
    }
    if wanted.rows != found.rows {
        let tables = wanted.rows.keys().chain(found.rows.keys());
        let table = tables.into_iter().find(|table| wanted.rows.get(*table) != found.rows.get(*table));
        return Some(format!("the table {} has another number of rows", table.map_or("?", String::as_str)));
    }
    if wanted.audit_head != found.audit_head || wanted.audit_fault != found.audit_fault {
        let fault = found.audit_fault.as_deref().unwrap_or("it ends with another row");
        return Some(format!("its audit is not the one that it names: {fault}"));
    }
    None
}

/// Unpacks only the database.
struct DatabaseSink<'s> {
    home: &'s Home,
    file: Option<File>,
}

impl EntrySink for DatabaseSink<'_> {
    fn begin(&mut self, entry: &Entry) -> Result<(), BackupError> {
        let path = entry.path.as_path();
        let is_database = DATABASE.iter().any(|name| Path::new("data").join(name) == path);
        self.file = None;
        if is_database && matches!(entry.node, Node::File { data: None, .. }) {
            let path = self.home.root().join(path);
            self.file = Some(File::create_new(&path).map_err(HomeError::io("write", &path))?);
        }
        Ok(())
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BackupError> {
        match &self.file {
            Some(file) => {
                Ok(file.write_all_at(bytes, offset).map_err(HomeError::io("write", &self.home.database()))?)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, _: &Entry) -> Result<(), BackupError> {
        self.file = None;
        Ok(())
    }
}
