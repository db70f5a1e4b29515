//! Restores a home: unpacks an archive beside its place, checks it, and puts it there in one step.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::draft::{self, DraftHome};
use super::error::BackupError;
use super::make::require_space;
use super::manifest::{Entry, Manifest, Node};
use super::reader::{ArchiveReader, EntrySink};
use super::{BackupWatcher, verify};
use crate::clock;
use crate::fault_point::{self, FaultPoint};
use crate::home::beneath::Root;
use crate::home::{Home, HomeError, instance};
use crate::store::transfer::{self, Destination, MoveError, MoveRequest, MoveWatcher};

/// A home that was unpacked and checked, and is not in its place yet. Dropping it removes it.
pub(crate) struct UnpackedHome {
    draft: DraftHome,
    pub(crate) manifest: Manifest,
}

/// Checks that a home may be restored to this place without replacing anything.
///
/// # Errors
///
/// Returns [`BackupError::NotEmpty`] if something is there.
pub(crate) fn require_empty(home: &Home, file: &Path) -> Result<(), BackupError> {
    match fs_err::read_dir(home.root()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::read(home.root())(error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(BackupError::NotEmpty { home: home.root().to_owned(), file: file.to_owned() }),
        },
    }
}

/// Unpacks an archive beside the place of the home, and checks it like [`verify::read`].
///
/// # Errors
///
/// Returns the errors of [`verify::read`], [`BackupError::Full`] if there is too little space, and other variants if
/// something can't be written. Nothing is left then.
pub(crate) fn unpack(
    file: &Path,
    home: &Home,
    watcher: &dyn BackupWatcher,
) -> Result<UnpackedHome, BackupError> {
    let mut reader = ArchiveReader::open(file)?;
    let above = home.root().parent().unwrap_or(Path::new("/"));
    fs_err::create_dir_all(above).map_err(HomeError::io("make the folder", above))?;
    draft::sweep(above, draft::HOME);
    let (_, total) = reader.manifest.totals();
    let blocks = reader.manifest.entries.len() as u64 * 4096;
    require_space(above, total.saturating_add(blocks))?;
    let draft = DraftHome::make(above).map_err(HomeError::io("make a folder in", above))?;
    watcher.step("unpacking the archive");
    let path = draft.path();
    let mut sink = HomeSink { root: Root::open(&path)?, path, file: None, folders: Vec::new() };
    reader.read_all(&mut sink, &mut |done| watcher.at(done, total))?;
    sink.close_folders()?;
    fault_point::reach(FaultPoint::RestoreUnpacked);
    let manifest = reader.manifest;
    remove_of_original(&Home::new(draft.path(), None), home.root())?;
    let unpacked = UnpackedHome { draft, manifest };
    watcher.step("checking the database");
    verify::check_database(&unpacked.home(), &unpacked.manifest, file)?;
    unpacked.home().make_folders()?;
    Ok(unpacked)
}

/// Removes what the original home alone may have, from a home that gets its place at `path`.
fn remove_of_original(home: &Home, path: &Path) -> Result<(), HomeError> {
    // The database of an archive is a file. A home that names a server would use the database there, and change it. With the
    // original's record, it would write to its second place. The archives of today do not have these two.
    let mut paths = vec![home.store_location(), home.blob_record()];
    // By this mark the gateways of a group know the workspaces on other machines. A copy would take them for its own, and remove
    // them. At its old path the home is still the one that has made them.
    if instance::becomes_copy(home, path)? {
        paths.push(home.files_mark());
    }
    for path in paths {
        match fs_err::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(HomeError::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A database that was brought to a server.
pub(crate) struct RestoredOnServer {
    /// The place on the server.
    pub(crate) to: String,
    /// The command that drops it there.
    pub(crate) drop: String,
}

/// Shows the progress of a move as that of the restore, which nothing stops but a kill.
struct MovedWatcher<'w>(&'w dyn BackupWatcher);

impl MoveWatcher for MovedWatcher<'_> {
    fn step(&self, text: &str) {
        self.0.step(text);
    }

    fn at(&self, done: u64, of: u64) {
        self.0.at(done, of);
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

impl UnpackedHome {
    /// Returns the home at the place where it was unpacked.
    pub(crate) fn home(&self) -> Home {
        Home::new(self.draft.path(), None)
    }

    /// Brings the database to its place. Returns `None` if that is the file of the home.
    ///
    /// The copy on the server is compared with the file, and its audit is verified, before the home names the server. One that
    /// was interrupted is continued by the next restore of the same archive.
    ///
    /// # Errors
    ///
    /// Returns the errors of a move to a server. No home uses what is there then.
    pub(crate) fn move_database(
        &self,
        to: &Destination,
        replace_nul: bool,
        watcher: &dyn BackupWatcher,
    ) -> Result<Option<RestoredOnServer>, MoveError> {
        if *to == Destination::File {
            return Ok(None);
        }
        let home = self.home();
        // The folder has another name in each attempt, and the home has its id only in its place.
        let id = self.manifest.home.id.as_deref().unwrap_or_default();
        let owner = Some(format!("restore of {id} as of {}", self.manifest.at));
        let request = MoveRequest { home: home.clone(), to: to.clone(), replace_nul, owner };
        let report = transfer::run(&request, &MovedWatcher(watcher))?;
        // The archive has it as well, and a new home needs no old database.
        let kept = Path::new(&report.kept.place);
        fs_err::remove_file(kept).map_err(HomeError::io("remove", kept))?;
        let drop = transfer::drop_command(&home)?;
        Ok(Some(RestoredOnServer { to: report.to, drop: drop.unwrap_or_default() }))
    }

    /// Puts the home into its place, in one step. Returns where the home is now that was there before.
    ///
    /// # Errors
    ///
    /// Returns [`BackupError::NotEmpty`] if something is in that place and `replace` is not set, and
    /// [`BackupError::Place`] if the file system can't do it in one step. Nothing is changed then.
    pub(crate) fn place(
        mut self,
        home: &Home,
        (file, replace): (&Path, bool),
    ) -> Result<Option<PathBuf>, BackupError> {
        let failed = |source| BackupError::Place { home: home.root().to_owned(), source };
        // Everything is on the disk before it has its name.
        let folder = File::open(self.draft.path()).map_err(failed)?;
        nix::unistd::syncfs(folder).map_err(|errno| failed(errno.into()))?;
        fault_point::reach(FaultPoint::RestoreReady);
        let is_empty = require_empty(home, file);
        let aside = match is_empty {
            Ok(()) => {
                fs_err::rename(self.draft.path(), home.root()).map_err(failed)?;
                None
            }
            Err(BackupError::NotEmpty { .. }) if replace => {
                let aside = aside(home);
                // It gets the name under which the old home is kept, so that no moment is left in which the old home has
                // the name of a draft, which the next restore would remove.
                fs_err::rename(self.draft.path(), &aside).map_err(failed)?;
                let swapped =
                    renameat2(AT_FDCWD, &aside, AT_FDCWD, home.root(), RenameFlags::RENAME_EXCHANGE);
                if let Err(errno) = swapped {
                    fs_err::rename(&aside, self.draft.path()).map_err(failed)?;
                    return Err(failed(errno.into()));
                }
                Some(aside)
            }
            Err(error) => return Err(error),
        };
        self.draft.keep();
        fault_point::reach(FaultPoint::RestorePlaced);
        let above = home.root().parent().unwrap_or(Path::new("/"));
        File::open(above).and_then(|above| above.sync_all()).map_err(failed)?;
        Ok(aside)
    }
}

/// Returns a free path beside the home for the home that is replaced.
fn aside(home: &Home) -> PathBuf {
    let now = clock::file_time(clock::unix_ms());
    let named = |end: String| {
        let mut name = home.root().file_name().unwrap_or_default().to_owned();
        name.push(format!("-replaced-{now}{end}"));
        home.root().with_file_name(name)
    };
    let all = std::iter::once(named(String::new())).chain((2..).map(|n| named(format!("-{n}"))));
    all.into_iter().find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| named(String::new()))
}

/// Writes entries below a folder. Nothing there is followed, and nothing there is replaced.
struct HomeSink {
    root: Root,
    /// The path of the folder, for errors.
    path: PathBuf,
    /// The file whose content comes.
    file: Option<File>,
    /// The permissions of the folders, which are set last: a folder may be closed to its owner.
    folders: Vec<(PathBuf, u32)>,
}

impl HomeSink {
    fn close_folders(&mut self) -> Result<(), BackupError> {
        // What is in a folder comes before it.
        for (path, mode) in self.folders.drain(..).rev() {
            self.root.set_mode(&path, mode)?;
        }
        Ok(())
    }
}

impl EntrySink for HomeSink {
    fn begin(&mut self, entry: &Entry) -> Result<(), BackupError> {
        let path = entry.path.as_path();
        match &entry.node {
            Node::Folder { mode } => {
                self.root.create_dir(path, None)?;
                self.folders.push((path.to_owned(), mode & 0o777));
            }
            Node::File { size, .. } => {
                let file = self.root.create_file(path, None)?;
                // A hole at the end has no content that would make the file so long.
                file.set_len(*size).map_err(HomeError::io("write", path))?;
                self.file = Some(file);
            }
            Node::Link { target } => self.root.link(path, target.as_path())?,
            Node::Same { of } => self.root.hard_link(of.as_path(), path)?,
        }
        Ok(())
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BackupError> {
        match &self.file {
            Some(file) => Ok(file.write_all_at(bytes, offset).map_err(HomeError::io("write", &self.path))?),
            None => Ok(()),
        }
    }

    fn end(&mut self, entry: &Entry) -> Result<(), BackupError> {
        if let (Some(file), Node::File { mode, modified, .. }) = (self.file.take(), &entry.node) {
            let path = entry.path.as_path();
            let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(*modified));
            if let Some(at) = at {
                // A file system that can't store the time has the file all the same.
                drop(file.set_modified(at));
            }
            // Bits that give a program its owner's rights are in no archive, and are not set from one.
            self.root.set_mode(path, mode & 0o777)?;
        }
        Ok(())
    }
}
