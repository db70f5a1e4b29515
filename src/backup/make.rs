//! Makes a backup: copies the database, writes the archive beside its final name, reads it again, and gives it its name.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::Path;

use super::collect::{self, Moment};
use super::error::BackupError;
use super::manifest::{DatabaseRecord, FORMAT, HomeIdentity, Manifest, Named, Part};
use super::record::BackupRecord;
use super::verify;
use super::writer::ArchiveWriter;
use super::{BackupWatcher, draft};
use crate::fault_point::{self, FaultPoint};
use crate::home::lock::Lock;
use crate::home::scratch::ScratchDir;
use crate::home::{self, Home, HomeError, free_space, instance};
use crate::store::snapshot::{self, DatabaseFacts};

/// The number of times that an archive is begun again because something was removed meanwhile.
const ATTEMPTS: usize = 3;

/// The wishes for a backup.
pub(crate) struct BackupRequest<'r> {
    pub(crate) home: &'r Home,
    /// The archive, which must not exist yet. Its folder exists.
    pub(crate) file: &'r Path,
    /// The parts that are left out.
    pub(crate) without: &'r [Part],
    /// Reads the archive again before it gets its name.
    pub(crate) verify: bool,
}

/// A backup that was made.
pub(crate) struct MadeBackup {
    pub(crate) manifest: Manifest,
    /// Size of the archive.
    pub(crate) bytes: u64,
}

/// Makes a backup of a home, which may be running.
///
/// # Errors
///
/// Returns [`BackupError::Inside`] if the file would be in the home, [`BackupError::Joined`] if the agents' files are in
/// another home, [`BackupError::Exists`] if it exists,
/// [`BackupError::Full`] if there is too little space, [`BackupError::Busy`] if another backup is being made,
/// [`BackupError::Restless`] if the home keeps changing in a way that does not fit together, and other variants if
/// something can't be read, written or verified. No file is left then.
pub(crate) fn make(
    request: &BackupRequest<'_>,
    watcher: &dyn BackupWatcher,
) -> Result<MadeBackup, BackupError> {
    let BackupRequest { home, file, without, .. } = *request;
    let folder = parent_of(file);
    check_place(home, file, folder)?;
    let _one = match Lock::try_acquire(&home.backup_lock()) {
        Err(HomeError::Held { .. }) => return Err(BackupError::Busy { home: home.root().to_owned() }),
        lock => lock?,
    };
    draft::sweep(folder, draft::ARCHIVE);
    let left = home::scratch::names(&home.backup_scratch());
    home::scratch::sweep(&home.backup_scratch(), &left);

    watcher.step("measuring the home");
    let total = collect::measure(home, without)?;
    let database = snapshot::size(home)?;
    require_space(folder, total + database)?;
    require_space(home.root(), database)?;

    let (temporary, _held) = draft::file(folder).map_err(BackupError::write(file))?;
    let mut attempt = 1;
    let (manifest, bytes) = loop {
        match write(request, temporary.as_file(), total + database, watcher) {
            Err(BackupError::Restless { .. }) if attempt < ATTEMPTS => attempt += 1,
            made => break made?,
        }
    };
    let written = temporary.as_file().sync_all();
    written.map_err(BackupError::write(file))?;
    fault_point::reach(FaultPoint::BackupWritten);
    if request.verify {
        watcher.step("verifying the archive");
        // The file has its temporary name still, but an error names the one that the person knows.
        verify::read(temporary.path(), watcher).map_err(|error| named(error, file))?;
    }
    fault_point::reach(FaultPoint::BackupVerified);
    temporary.persist_noclobber(file).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => BackupError::Exists { file: file.to_owned() },
        _ => BackupError::write(file)(error.error),
    })?;
    // Without a sync of the folder, a power cut could undo the rename.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(BackupError::write(file))?;
    let record = BackupRecord {
        at: manifest.at,
        file: file.to_owned(),
        bytes,
        verified: request.verify,
        without: without.to_vec(),
    };
    // The archive is good also without this record.
    if let Err(error) = record.write(home) {
        tracing::warn!(error = crate::error::chain(&error), "failed to record the backup");
    }
    Ok(MadeBackup { manifest, bytes })
}

/// Checks that the archive may be made at this place.
fn check_place(home: &Home, file: &Path, folder: &Path) -> Result<(), BackupError> {
    let real = fs_err::canonicalize(folder).map_err(BackupError::write(file))?;
    if real.starts_with(home.root()) {
        return Err(BackupError::Inside { file: file.to_owned() });
    }
    if home.files() != home.root() {
        let (home, files) = (home.root().to_owned(), home.files().to_owned());
        return Err(BackupError::Joined { home, files });
    }
    if file.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { file: file.to_owned() });
    }
    Ok(())
}

/// Writes one archive into the file, from its beginning.
fn write(
    request: &BackupRequest<'_>,
    file: &File,
    total: u64,
    watcher: &dyn BackupWatcher,
) -> Result<(Manifest, u64), BackupError> {
    let BackupRequest { home, without, .. } = *request;
    let failed = BackupError::write(request.file);
    file.set_len(0).map_err(&failed)?;
    let mut begin = file;
    begin.seek(SeekFrom::Start(0)).map_err(&failed)?;
    watcher.step("copying the database");
    let scratch = ScratchDir::make(&home.backup_scratch(), "home")?;
    let copy = Home::new(scratch.path(), None);
    let moment = Moment::take(home, &copy, without)?;
    fault_point::reach(FaultPoint::BackupCopied);
    watcher.step("writing the archive");
    let mut on_progress = |done| watcher.at(done, total.max(done));
    let seconds = super::reader::seconds(moment.at);
    let mut writer = ArchiveWriter::new(file, request.file, seconds, &mut on_progress);
    let mut left_out = Named::default();
    moment.write((home, &copy), without, (&mut writer, &mut left_out))?;
    let manifest = Manifest {
        format: FORMAT,
        flock: env!("CARGO_PKG_VERSION").to_owned(),
        at: moment.at,
        home: HomeIdentity {
            path: home.root().to_owned(),
            format: home::version::read(home)?.unwrap_or(home::FORMAT),
            id: instance::read(home).ok(),
        },
        database: moment.facts.as_ref().map(database_record),
        without: without.to_vec(),
        enter_again: moment.enter_again,
        left_out,
        entries: Vec::new(),
    };
    writer.finish(manifest)
}

/// Returns what the manifest says about a database.
pub(super) fn database_record(facts: &DatabaseFacts) -> DatabaseRecord {
    let rows = facts.tables.iter().map(|table| (table.name.clone(), table.rows.unwrap_or(0)));
    DatabaseRecord {
        server: facts.server.clone(),
        schema: facts.schema,
        rows: rows.collect(),
        audit_head: facts.head.clone(),
        audit_fault: facts.audit.broken.as_ref().map(ToString::to_string),
    }
}

/// Checks that a file system has this many free bytes.
///
/// An archive is nearly always smaller than what it is made of. How much smaller is known only afterwards, and a disk that
/// is full would stop the gateway.
pub(super) fn require_space(folder: &Path, needed: u64) -> Result<(), BackupError> {
    let folder = home::existing(folder);
    let free = free_space::measure(folder).map_err(BackupError::read(folder))?;
    let needed = needed.saturating_add(free_space::RESERVE);
    if free < needed { Err(BackupError::Full { folder: folder.to_owned(), free, needed }) } else { Ok(()) }
}

/// Puts the final name of an archive into an error.
fn named(error: BackupError, name: &Path) -> BackupError {
    let file = name.to_owned();
    match error {
        BackupError::NoArchive { what, .. } => BackupError::NoArchive { file, what },
        BackupError::Damaged { what, .. } => BackupError::Damaged { file, what },
        BackupError::Newer { flock, what, .. } => BackupError::Newer { file, flock, what },
        other => other,
    }
}

/// Returns the folder of a file.
pub(super) fn parent_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
