//! Looks at the files below one folder and changes them, as flock asks for it.
//!
//! The rules are those of `home::beneath`, by which flock itself opens what an agent can write: below the folder,
//! through no link, regular files only, never blocking. The programs in the sandbox change the files at the same time.
//! So nothing here checks a path and opens it afterwards: a path is resolved one name at a time, each below the
//! descriptor of the folder before it, and the checks apply to what was opened. The sandbox's filter of system calls
//! refuses `openat2`, which would do it in one step.
//!
//! `/proc/self/fd/N` stands for the folder that the descriptor N is open on, whatever its path is by now. With it, the
//! functions of the standard library work below a descriptor.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::file_message::{
    EntryKind, FileAction, FileEntry, FileRefusal, FileReply, FileRequest, FileVersion, MAX_LISTED, MAX_NAME, MAX_PART,
    MAX_PATH,
};
use crate::sys::{self, O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH};

const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const ENODEV: i32 = 19;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const ELOOP: i32 = 40;

/// The permissions that a file without any gets.
const NEW_FILE: u32 = 0o644;

/// A request that is not carried out.
struct Refused {
    why: FileRefusal,
    errno: u32,
}

impl From<FileRefusal> for Refused {
    fn from(why: FileRefusal) -> Self {
        Self { why, errno: 0 }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        let errno = error.raw_os_error();
        let why = match errno {
            Some(ENOENT) => FileRefusal::NotFound,
            Some(ELOOP) => FileRefusal::Outside,
            Some(ENOTDIR) => FileRefusal::NotFolder,
            Some(EISDIR) => FileRefusal::IsFolder,
            // The path names a socket, or a device without a driver.
            Some(ENXIO | ENODEV) => FileRefusal::IsSpecial,
            _ => FileRefusal::System,
        };
        Self { why, errno: errno.and_then(|errno| u32::try_from(errno).ok()).unwrap_or(0) }
    }
}

/// The files that are being written in parts.
#[derive(Default)]
pub struct Drafts {
    /// By their numbers, each with the request that removes it.
    open: HashMap<u64, FileRequest>,
}

impl Drafts {
    /// Carries out a request.
    pub fn answer(&mut self, request: &FileRequest) -> FileReply {
        let reply = answer(request);
        match request.action {
            FileAction::Part { draft, offset: 0, .. } if reply == FileReply::Done => {
                let (root, path) = (request.root.clone(), request.path.clone());
                let discard = FileRequest { root, path, action: FileAction::Discard { draft } };
                self.open.insert(draft, discard);
            }
            FileAction::Commit { draft, .. } | FileAction::Put { draft, .. } | FileAction::Discard { draft }
                if reply == FileReply::Done =>
            {
                drop(self.open.remove(&draft));
            }
            _ => {}
        }
        reply
    }

    /// Removes what has not got a name. Nobody goes on with it once its connection has ended.
    pub fn discard(&mut self) {
        for request in std::mem::take(&mut self.open).into_values() {
            drop(answer(&request));
        }
    }
}

/// Carries out a request.
fn answer(request: &FileRequest) -> FileReply {
    let done = carry_out(request);
    done.unwrap_or_else(|refused| FileReply::Refused { why: refused.why, errno: refused.errno })
}

fn carry_out(request: &FileRequest) -> Result<FileReply, Refused> {
    let names = names(&request.path)?;
    let root = Folder::open(Path::new(OsStr::from_bytes(&request.root)))?;
    match &request.action {
        FileAction::Look => look(root, &names).map(FileReply::Entry),
        FileAction::List { after, most } => root.descend(&names)?.list(after, (*most as usize).min(MAX_LISTED)),
        FileAction::Read { offset, most, version } => {
            let (folder, name) = root.parent(&names)?;
            let (file, found) = folder.open_file(name)?;
            read(&file, &found, *offset, *most as usize, *version)
        }
        FileAction::Write { draft, bytes, mode } => {
            let (folder, name) = root.parent(&names)?;
            // Before anything is written, so that a refusal leaves nothing behind.
            folder.replaced(name)?;
            let draft = draft_name(*draft);
            let written = folder.create(&draft).and_then(|mut file| {
                file.write_all(bytes)?;
                folder.place(&file, &draft, name, *mode)
            });
            folder.unless_done(written, &draft)
        }
        FileAction::Part { draft, offset, bytes } => {
            let (folder, name) = root.parent(&names)?;
            let draft = draft_name(*draft);
            if *offset == 0 {
                folder.replaced(name)?;
                let written = folder.create(&draft).and_then(|mut file| Ok(file.write_all(bytes)?));
                return folder.unless_done(written, &draft);
            }
            let file = folder.open_draft(&draft, *offset)?;
            Ok(file.write_all_at(bytes, *offset).map(|()| FileReply::Done)?)
        }
        FileAction::Commit { draft, size, mode } => {
            let (folder, name) = root.parent(&names)?;
            let draft = draft_name(*draft);
            let file = folder.open_draft(&draft, *size)?;
            let placed = folder.place(&file, &draft, name, *mode);
            folder.unless_done(placed, &draft)
        }
        FileAction::Discard { draft } => {
            let (folder, _) = root.parent(&names)?;
            match fs::remove_file(folder.child(&draft_name(*draft))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
                _ => Ok(FileReply::Done),
            }
        }
        FileAction::MakeFolder => {
            let mut at = root;
            for name in names {
                match fs::create_dir(at.child(name)) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
                    // Opening it checks that what is there is a folder and not a link.
                    _ => at = at.inner(name)?,
                }
            }
            Ok(FileReply::Done)
        }
        FileAction::Remove => {
            let (folder, name) = root.parent(&names)?;
            Ok(fs::remove_file(folder.child(name)).map(|()| FileReply::Done)?)
        }
        FileAction::RemoveFolder => {
            let (folder, name) = root.parent(&names)?;
            Ok(fs::remove_dir(folder.child(name)).map(|()| FileReply::Done)?)
        }
        FileAction::ReadLink => {
            let (folder, name) = root.parent(&names)?;
            let place = folder.child(name);
            let target = fs::read_link(&place)?.into_os_string().into_vec();
            Ok(FileReply::Bytes { bytes: target, version: version(&fs::symlink_metadata(&place)?) })
        }
        FileAction::MakeLink { draft, target } => {
            let (folder, name) = root.parent(&names)?;
            let draft = draft_name(*draft);
            std::os::unix::fs::symlink(OsStr::from_bytes(target), folder.child(&draft))?;
            folder.unless_done(folder.rename(&draft, name), &draft)
        }
        FileAction::SetMode { mode } if names.is_empty() => {
            let mode = Permissions::from_mode(mode & 0o7777);
            Ok(fs::set_permissions(root.path(), mode).map(|()| FileReply::Done)?)
        }
        FileAction::SetMode { mode } => {
            let (folder, name) = root.parent(&names)?;
            folder.set_mode(name, *mode)
        }
        FileAction::Put { draft, offset, bytes, mode } => {
            let (folder, name) = root.parent(&names)?;
            let draft = draft_name(*draft);
            let file = match offset {
                0 => folder.create(&draft)?,
                _ => folder.open_draft(&draft, *offset)?,
            };
            let placed = file.write_all_at(bytes, *offset).map_err(Refused::from).and_then(|()| {
                file.set_permissions(Permissions::from_mode(mode & 0o777))?;
                folder.rename(&draft, name)
            });
            folder.unless_done(placed, &draft)
        }
        FileAction::Hole { draft, offset, size } => {
            let (folder, _) = root.parent(&names)?;
            let file = folder.open_draft(&draft_name(*draft), *offset)?;
            Ok(file.set_len((*size).max(*offset)).map(|()| FileReply::Done)?)
        }
        FileAction::Sync => {
            let at = root.descend(&names)?;
            Ok(sys::sync_file_system(&File::open(at.path())?).map(|()| FileReply::Done)?)
        }
        FileAction::Clock => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Ok(FileReply::Clock(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)))
        }
    }
}

/// Splits a relative path into its names. A path with `..` or an absolute one is refused, as is one that can't be a path.
fn names(path: &[u8]) -> Result<Vec<&[u8]>, Refused> {
    let parts = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = parts.filter(|name| !name.is_empty() && *name != b".").collect();
    let is_outside = path.starts_with(b"/") || path.len() > MAX_PATH || path.contains(&0);
    if is_outside || names.iter().any(|name| *name == b"..") {
        return Err(FileRefusal::Outside.into());
    }
    Ok(names)
}

/// The name of a file that has not got its own yet.
fn draft_name(draft: u64) -> Vec<u8> {
    format!(".flock-new-{draft:016x}").into_bytes()
}

fn look(root: Folder, names: &[&[u8]]) -> Result<FileEntry, Refused> {
    let found = match names.split_last() {
        None => fs::metadata(root.path())?,
        Some(_) => {
            let (folder, name) = root.parent(names)?;
            fs::symlink_metadata(folder.child(name))?
        }
    };
    Ok(entry(Vec::new(), &found))
}

fn read(
    file: &File,
    found: &Metadata,
    offset: u64,
    most: usize,
    known: Option<FileVersion>,
) -> Result<FileReply, Refused> {
    let version = version(found);
    if known.is_some_and(|known| known != version) {
        return Err(FileRefusal::Changed.into());
    }
    let left = usize::try_from(version.size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; most.min(MAX_PART).min(left)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            // It has become shorter.
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(filled);
    Ok(FileReply::Bytes { bytes, version })
}

/// A folder that is open as a reference only.
struct Folder(File);

impl Folder {
    fn open(path: &Path) -> Result<Self, Refused> {
        let opened = OpenOptions::new().read(true).custom_flags(O_PATH | O_DIRECTORY | O_NOFOLLOW).open(path);
        opened.map(Self).map_err(|error| {
            // A link is reported as what is no folder, too.
            let is_link = error.raw_os_error() == Some(ENOTDIR)
                && fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink());
            if is_link { FileRefusal::Outside.into() } else { error.into() }
        })
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    fn child(&self, name: &[u8]) -> PathBuf {
        self.path().join(OsStr::from_bytes(name))
    }

    fn inner(&self, name: &[u8]) -> Result<Self, Refused> {
        Self::open(&self.child(name))
    }

    fn descend(self, names: &[&[u8]]) -> Result<Self, Refused> {
        names.iter().try_fold(self, |at, name| at.inner(name))
    }

    /// Returns the folder above the last name, and that name.
    fn parent<'n>(self, names: &[&'n [u8]]) -> Result<(Self, &'n [u8]), Refused> {
        let (name, above) = names.split_last().ok_or(FileRefusal::IsFolder)?;
        Ok((self.descend(above)?, *name))
    }

    fn list(&self, after: &[u8], most: usize) -> Result<FileReply, Refused> {
        // The first names after that one, and one more to see if there are more. Others are dropped while the folder is
        // read, so a folder of any size takes little memory.
        let mut names = BTreeSet::new();
        for item in fs::read_dir(self.path())? {
            let name = item?.file_name().into_vec();
            if name.as_slice() > after && name.len() <= MAX_NAME {
                names.insert(name);
            }
            if names.len() > most + 1 {
                names.pop_last();
            }
        }
        let has_more = names.len() > most;
        if has_more {
            names.pop_last();
        }
        let next = if has_more { names.last().cloned().unwrap_or_default() } else { Vec::new() };
        let entries = names.into_iter().filter_map(|name| {
            // One that was removed since is left out.
            let found = fs::symlink_metadata(self.child(&name)).ok()?;
            Some(entry(name, &found))
        });
        Ok(FileReply::Entries { entries: entries.collect(), next })
    }

    /// Opens a regular file for reading.
    fn open_file(&self, name: &[u8]) -> Result<(File, Metadata), Refused> {
        // O_NONBLOCK, because opening a FIFO would wait for its other end.
        let flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.child(name))?;
        let found = file.metadata()?;
        expect_file(&found)?;
        Ok((file, found))
    }

    /// Sets the permissions of anything but a link.
    fn set_mode(&self, name: &[u8], mode: u32) -> Result<FileReply, Refused> {
        // Without any right on it, which the owner may have taken away.
        let flags = O_PATH | O_NOFOLLOW;
        let handle = OpenOptions::new().read(true).custom_flags(flags).open(self.child(name))?;
        if kind(&handle.metadata()?) == EntryKind::Link {
            return Err(FileRefusal::Outside.into());
        }
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        Ok(fs::set_permissions(path, Permissions::from_mode(mode & 0o7777)).map(|()| FileReply::Done)?)
    }

    /// Opens a draft of this size for writing.
    fn open_draft(&self, draft: &[u8], size: u64) -> Result<File, Refused> {
        let flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(self.child(draft))?;
        let found = file.metadata()?;
        expect_file(&found)?;
        if found.len() == size { Ok(file) } else { Err(FileRefusal::Changed.into()) }
    }

    /// Creates a draft, readable for nobody else.
    fn create(&self, draft: &[u8]) -> Result<File, Refused> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(O_NOFOLLOW);
        Ok(options.open(self.child(draft))?)
    }

    /// Returns the permissions of the file that a new one replaces, if there is one. Only a regular file is replaced.
    fn replaced(&self, name: &[u8]) -> Result<Option<u32>, Refused> {
        match fs::symlink_metadata(self.child(name)) {
            Ok(found) => {
                expect_file(&found)?;
                Ok(Some(found.mode() & 0o777))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a draft its permissions and its name.
    fn place(&self, file: &File, draft: &[u8], name: &[u8], mode: Option<u32>) -> Result<(), Refused> {
        let old = self.replaced(name)?;
        let mode = mode.or(old).unwrap_or(NEW_FILE) & 0o777;
        file.set_permissions(Permissions::from_mode(mode))?;
        self.rename(draft, name)
    }

    /// Gives a draft a name. Anything but a folder is replaced.
    fn rename(&self, draft: &[u8], name: &[u8]) -> Result<(), Refused> {
        Ok(fs::rename(self.child(draft), self.child(name))?)
    }

    /// Removes a draft if what was done with it failed.
    fn unless_done(&self, result: Result<(), Refused>, draft: &[u8]) -> Result<FileReply, Refused> {
        if result.is_err() {
            // If this fails as well, nothing more can be done. The name shows what the file is.
            let _ = fs::remove_file(self.child(draft));
        }
        result.map(|()| FileReply::Done)
    }
}

fn expect_file(found: &Metadata) -> Result<(), Refused> {
    match kind(found) {
        EntryKind::File => Ok(()),
        EntryKind::Folder => Err(FileRefusal::IsFolder.into()),
        EntryKind::Link => Err(FileRefusal::Outside.into()),
        EntryKind::Special if found.file_type().is_fifo() => Err(FileRefusal::IsFifo.into()),
        EntryKind::Special if found.file_type().is_socket() => Err(FileRefusal::IsSocket.into()),
        EntryKind::Special => Err(FileRefusal::IsDevice.into()),
    }
}

fn kind(found: &Metadata) -> EntryKind {
    let kind = found.file_type();
    if kind.is_file() {
        EntryKind::File
    } else if kind.is_dir() {
        EntryKind::Folder
    } else if kind.is_symlink() {
        EntryKind::Link
    } else {
        EntryKind::Special
    }
}

fn version(found: &Metadata) -> FileVersion {
    let changed_ns = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    FileVersion { size: found.len(), inode: found.ino(), changed_ns }
}

fn entry(name: Vec<u8>, found: &Metadata) -> FileEntry {
    let modified_ms = found.mtime().saturating_mul(1000).saturating_add(found.mtime_nsec() / 1_000_000);
    FileEntry { name, kind: kind(found), mode: found.mode() & 0o7777, modified_ms, version: version(found) }
}
