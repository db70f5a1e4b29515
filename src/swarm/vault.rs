//! Vaults: folders with text files that all agents share, `vaults/<name>/` in the home.
//!
//! Agents write here, and a person may open the same folder in an editor. So each side must treat a vault as hostile.
//! Everything is opened below the vault's own folder and never below the folder of all vaults, from which a symbolic
//! link could lead into another vault. Names that begin with a dot, under which editors and version control keep files
//! that they execute, are not accessible. Only a person can create a vault, by creating its folder.

use std::fmt::{self, Display, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::skill::list_known;
use crate::error::{Explain, Kind};
use crate::home::beneath::{BeneathError, DirEntry, FileKind, Root};
use crate::home::lock::Lock;
use crate::home::user_dirs;
use crate::home::walk::{WalkLimits, walk};
use crate::home::write_fence::WriteFence;
use crate::home::{Home, HomeError};
use crate::id::{FolderName, IdError};
use crate::sync::lock;
use crate::tool::safe_text;

/// Maximum size of a file that is written, in bytes.
pub(crate) const MAX_WRITTEN: u64 = 1024 * 1024;

/// Maximum size of a file that is read, in bytes. A person may have put larger files there.
pub(crate) const MAX_READ: u64 = 10 * 1024 * 1024;

/// Maximum number of files and folders with which agents may fill a vault.
pub(crate) const MAX_ENTRIES: usize = 20_000;
/// Maximum total size in bytes with which agents may fill a vault.
pub(crate) const MAX_TOTAL: u64 = 512 * 1024 * 1024;

/// Longest time for which a write waits for other gateways. One of them may be paused while it writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of vaults that an error names.
const MAX_NAMED: usize = 30;
const MAX_PATH: usize = 1024;
const MAX_NAME: usize = 255;
/// Maximum number of levels of a vault. Its own folder is the first one.
pub(crate) const MAX_DEPTH: usize = 16;
const WALK_LIMITS: WalkLimits = WalkLimits { depth: MAX_DEPTH, entries: MAX_ENTRIES };

/// An error of a vault operation. The texts are written for a model: they name the vault and the path in it, and
/// nothing else of the host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VaultError {
    /// The name is not valid for a vault.
    #[error(transparent)]
    Name(#[from] IdError),
    /// No vault has this name.
    #[error("there is no vault {name}: {}, and only a person can create one", list_known(.known, MAX_NAMED))]
    Unknown {
        name: FolderName,
        /// The names of existing vaults.
        known: Vec<FolderName>,
    },
    /// The path is not valid for a file of a vault.
    #[error("{path:?} is not a path in a vault: {reason}")]
    Path { path: String, reason: &'static str },
    /// The file would be too long.
    #[error("{size} bytes for {place}; a file of a vault has at most {MAX_WRITTEN}: split it")]
    TooLong {
        place: VaultFile,
        /// The size that the file would have, in bytes.
        size: u64,
    },
    /// The file or the new content is not text.
    #[error("{place} is a binary file of {size} bytes; only text is kept in vaults")]
    Binary { place: VaultFile, size: u64 },
    /// The vault is full.
    #[error("vault {name} is full ({files} entries, {bytes} bytes): a person must tidy it up")]
    Full {
        name: FolderName,
        /// Number of entries in the vault.
        files: usize,
        /// Total size of the files in bytes.
        bytes: u64,
    },
    /// The file or folder could not be opened or accessed.
    #[error("{place}: {}", reason(.source))]
    File {
        place: VaultFile,
        #[source]
        source: BeneathError,
    },
    /// The lock that keeps out other gateways could not be taken.
    #[error("{place}: nothing was written: {}", lock_reason(.source))]
    Lock {
        place: VaultFile,
        #[source]
        source: HomeError,
    },
}

impl Explain for VaultError {
    fn kind(&self) -> Kind {
        match self {
            // Only these two depend on what the caller wrote. The others depend on the vault.
            Self::Name(_) | Self::Path { .. } => Kind::Usage,
            Self::Lock { source, .. } => source.kind(),
            _ => Kind::Failed,
        }
    }
}

/// A file of a vault, in the form that is used in texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VaultFile {
    vault: FolderName,
    path: PathBuf,
}

impl Display for VaultFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vault, shown(&self.path))
    }
}

/// The contents of a vault in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VaultSummary {
    pub name: FolderName,
    pub files: usize,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// `true` if the vault has more entries than were counted.
    pub more: bool,
}

/// The vaults of a home.
#[derive(Debug)]
pub(crate) struct Vaults {
    folder: PathBuf,
    /// Checked before each change.
    fence: WriteFence,
    /// Held from reading a file to writing it, so that of two concurrent appends none is lost.
    writing: Mutex<()>,
    /// The lock that keeps out other gateways meanwhile.
    lock_file: PathBuf,
    /// Longest time to wait for that lock.
    patience: Duration,
}

impl Vaults {
    #[must_use]
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            folder: home.vaults(),
            fence: WriteFence::absent(),
            writing: Mutex::default(),
            lock_file: home.vaults_lock(),
            patience: PATIENCE,
        }
    }

    /// Sets the fence of the vaults, which other gateways may change too.
    #[must_use]
    pub(crate) fn fenced(self, fence: WriteFence) -> Self {
        Self { fence, ..self }
    }

    /// Returns the names of all vaults, sorted.
    #[must_use]
    pub(crate) fn names(&self) -> Vec<FolderName> {
        user_dirs::names(&self.folder)
    }

    /// Returns a summary of each vault.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError::File`] if a vault can't be listed. A vault that disappears meanwhile is left out.
    pub(crate) fn summaries(&self) -> Result<Vec<VaultSummary>, VaultError> {
        let mut summaries = Vec::new();
        for name in self.names() {
            match self.summary(&name) {
                Ok(summary) => summaries.push(summary),
                // A person may delete a vault between the two reads.
                Err(VaultError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(summaries)
    }

    /// Returns the entries of a vault, at most `entries` of them and `depth` levels deep. The second value is `true` if
    /// there are more.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError::Unknown`] if there is no such vault, and [`VaultError::File`] if it can't be listed.
    pub(crate) fn entries(
        &self,
        name: &FolderName,
        depth: usize,
        entries: usize,
    ) -> Result<(Vec<DirEntry>, bool), VaultError> {
        let root = self.open(name)?;
        let limits =
            WalkLimits { depth: depth.min(WALK_LIMITS.depth), entries: entries.min(WALK_LIMITS.entries) };
        let found = walk(&root, Path::new(""), limits);
        let found = found.map_err(|source| self.failed(name, Path::new(""), source))?;
        Ok((found.entries, found.more))
    }

    /// Returns the content of a text file. Invalid UTF-8 is replaced by the replacement character.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError::Path`] if the path is not valid, [`VaultError::Unknown`] if there is no such vault,
    /// [`VaultError::Binary`] if the file contains a zero byte, and [`VaultError::File`] if it can't be read or is too
    /// large.
    pub(crate) fn read(&self, name: &FolderName, path: &str) -> Result<(VaultFile, String), VaultError> {
        let path = parse(path)?;
        let root = self.open(name)?;
        let place = self.place(name, &path);
        let text = self.text(&root, &place, MAX_READ)?;
        Ok((place, text))
    }

    /// Returns the bytes of the file at the path of an entry, at most `cap`.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError::Unknown`] if there is no such vault, and [`VaultError::File`] if the file can't be read or is too
    /// large.
    pub(crate) fn bytes(&self, name: &FolderName, path: &Path, cap: u64) -> Result<Vec<u8>, VaultError> {
        self.open(name)?.read(path, cap).map_err(|source| self.failed(name, path, source))
    }

    /// Returns the entry at a path, without following a link.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError::Path`] if the path is not valid, [`VaultError::Unknown`] if there is no such vault, and
    /// [`VaultError::File`] if nothing is there or it can't be examined.
    pub(crate) fn stat(&self, name: &FolderName, path: &str) -> Result<DirEntry, VaultError> {
        let path = parse(path)?;
        let root = self.open(name)?;
        root.stat(&path).map_err(|source| self.failed(name, &path, source))
    }

    /// Replaces a text file or appends to it, atomically, and creates the folders above it. Returns the file and its
    /// new size in bytes. Blocks the calling thread while another write goes on.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError`] if the path or content is not valid, the vault does not exist or is full, the file would
    /// be too long, another gateway does not end its write in time, or the file can't be written. The existing file is
    /// unchanged then.
    pub(crate) fn write(
        &self,
        name: &FolderName,
        path: &str,
        content: &str,
        how: WriteMode,
    ) -> Result<(VaultFile, u64), VaultError> {
        let path = parse(path)?;
        // Only for writes: a file that a person has named so can still be read.
        if path.to_string_lossy().chars().any(safe_text::is_unseen) {
            let reason = "it holds characters that can't be seen";
            return Err(VaultError::Path { path: start(&path.to_string_lossy()), reason });
        }
        let root = self.open(name)?;
        let place = self.place(name, &path);
        let size = content.len() as u64;
        // A zero byte marks a file as binary, so `read` would refuse it later.
        if content.contains('\0') {
            return Err(VaultError::Binary { place, size });
        }
        let began = Instant::now();
        let _one_at_a_time = lock(&self.writing);
        // Taken after the mutex, so that only one thread of this gateway waits for it, and released before.
        let _one_gateway = self.keep_others_out(&place, began)?;
        let whole = match how {
            WriteMode::Replace => content.to_owned(),
            WriteMode::Append => self.joined(&root, &place, content)?,
        };
        let size = whole.len() as u64;
        if size > MAX_WRITTEN {
            return Err(VaultError::TooLong { place, size });
        }
        // Checked under the lock, so that concurrent writes can't exceed the limit together.
        self.has_room(&root, name, size)?;
        put(&root, &place, whole.as_bytes())?;
        Ok((place, size))
    }

    /// Makes a vault, unless there is one with this name. Only a person may do that.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError::File`] if its folder can't be created, or if something else has its name.
    pub(crate) fn create(&self, name: &FolderName) -> Result<(), VaultError> {
        let made = user_dirs::open(&self.folder)
            .and_then(|root| root.create_dir_all(Path::new(name.as_str()), None));
        made.map_err(|source| self.failed(name, Path::new(""), source))
    }

    /// Puts a file of a copy back, atomically, and creates the folders above it. A file that differs stays as it is, unless
    /// `replaces` is set. The limits for agents do not count. Blocks the calling thread while another write goes on.
    ///
    /// # Errors
    ///
    /// Returns [`VaultError`] if the vault does not exist, something that is no file has the path, another gateway does not end
    /// its write in time, or the file can't be written. What is there is unchanged then.
    pub(crate) fn put_back(
        &self,
        name: &FolderName,
        path: &Path,
        content: &[u8],
        replaces: bool,
    ) -> Result<PutBack, VaultError> {
        let root = self.open(name)?;
        let place = self.place(name, path);
        let began = Instant::now();
        let _one_at_a_time = lock(&self.writing);
        let _one_gateway = self.keep_others_out(&place, began)?;
        // Looked at under the lock, so that nothing is replaced that was written meanwhile.
        match root.read(path, content.len() as u64) {
            Ok(found) if found == content => return Ok(PutBack::Same),
            Ok(_) | Err(BeneathError::TooLarge { .. }) if !replaces => return Ok(PutBack::Kept),
            Ok(_) | Err(BeneathError::TooLarge { .. } | BeneathError::NotFound { .. }) => {}
            Err(source) => return Err(VaultError::File { place, source }),
        }
        put(&root, &place, content)?;
        Ok(PutBack::Written)
    }

    fn summary(&self, name: &FolderName) -> Result<VaultSummary, VaultError> {
        // Bounded: a person may put a very large folder here.
        let (entries, more) = self.entries(name, WALK_LIMITS.depth, WALK_LIMITS.entries)?;
        let files = || entries.iter().filter(|entry| entry.kind == FileKind::File);
        Ok(VaultSummary {
            name: name.clone(),
            files: files().count(),
            bytes: files().map(|file| file.size).sum(),
            more,
        })
    }

    fn open(&self, name: &FolderName) -> Result<Root, VaultError> {
        let opened = Root::open(&self.folder.join(name.as_str()));
        opened.map(|root| root.fenced(self.fence.clone())).map_err(|source| match source {
            // A symbolic link or a file is not a vault.
            BeneathError::NotFound { .. } | BeneathError::WrongKind { .. } | BeneathError::Outside { .. } => {
                VaultError::Unknown { name: name.clone(), known: self.names() }
            }
            source => self.failed(name, Path::new(""), source),
        })
    }

    /// Takes the lock that keeps out the writes of other gateways. `began` is the time at which the write began to wait.
    fn keep_others_out(&self, place: &VaultFile, began: Instant) -> Result<Lock, VaultError> {
        // The time behind other writes of this gateway counts. Otherwise each of them would wait in turn for a gateway that
        // is paused. A part is always left, because other gateways usually write for a moment only.
        let left = self.patience.saturating_sub(began.elapsed()).max(self.patience / 10);
        // The folder may be in another home, and be removed with what that home has of its own.
        Lock::acquire_with_folder(&self.lock_file, left).map_err(|source| {
            // The path of the lock goes to the log and not to the model.
            tracing::warn!("vault: {}", crate::error::chain(&source));
            VaultError::Lock { place: place.clone(), source }
        })
    }

    fn text(&self, root: &Root, place: &VaultFile, cap: u64) -> Result<String, VaultError> {
        let bytes = root
            .read(&place.path, cap)
            .map_err(|source| VaultError::File { place: place.clone(), source })?;
        if bytes.contains(&0) {
            return Err(VaultError::Binary { place: place.clone(), size: bytes.len() as u64 });
        }
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn joined(&self, root: &Root, place: &VaultFile, content: &str) -> Result<String, VaultError> {
        // A larger file would exceed the limit for writes anyway.
        match self.text(root, place, MAX_WRITTEN) {
            Ok(mut whole) => {
                // Added text always begins on a new line.
                if !whole.is_empty() && !whole.ends_with('\n') {
                    whole.push('\n');
                }
                whole.push_str(content);
                Ok(whole)
            }
            // Appending to a missing file creates it.
            Err(VaultError::File { source: BeneathError::NotFound { .. }, .. }) => Ok(content.to_owned()),
            Err(error) => Err(error),
        }
    }

    /// Checks that the vault has room, so that an agent in a loop can't fill the disk. The size of a replaced file is
    /// not subtracted: a vault that close to the limit has to be tidied up in any case.
    fn has_room(&self, root: &Root, name: &FolderName, size: u64) -> Result<(), VaultError> {
        let found = walk(root, Path::new(""), WALK_LIMITS)
            .map_err(|source| self.failed(name, Path::new(""), source))?;
        let bytes: u64 = found.files().map(|file| file.size).sum();
        // The walk itself stops at `MAX_ENTRIES`, so reaching that number means that there may be more.
        if found.entries.len() >= MAX_ENTRIES || bytes + size > MAX_TOTAL {
            return Err(VaultError::Full { name: name.clone(), files: found.entries.len(), bytes });
        }
        Ok(())
    }

    fn place(&self, name: &FolderName, path: &Path) -> VaultFile {
        VaultFile { vault: name.clone(), path: path.to_owned() }
    }

    fn failed(&self, name: &FolderName, path: &Path, source: BeneathError) -> VaultError {
        VaultError::File { place: self.place(name, path), source }
    }
}

/// Writes a file and creates the folders above it.
fn put(root: &Root, place: &VaultFile, bytes: &[u8]) -> Result<(), VaultError> {
    let fail = |source| VaultError::File { place: place.clone(), source };
    if let Some(folder) = place.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        root.create_dir_all(folder, None).map_err(fail)?;
    }
    // `Root::write` replaces the file atomically, so a reader never sees half of it.
    root.write(&place.path, bytes, None, None).map_err(fail)
}

/// The outcome for a file of a copy that is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutBack {
    /// It was missing or different, and was written.
    Written,
    /// It has this content.
    Same,
    /// It is different, and stays.
    Kept,
}

/// The treatment of an existing file by a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The file is replaced.
    Replace,
    /// The file stays, and the content is added at its end.
    Append,
}

/// Formats a path on one line, with invisible characters escaped.
#[must_use]
pub(crate) fn shown(path: &Path) -> String {
    let mut text = String::new();
    for c in path.to_string_lossy().chars() {
        if safe_text::is_unseen(c) {
            let _ = write!(text, "{}", c.escape_unicode());
        } else {
            text.push(c);
        }
    }
    text
}

/// Parses a path in the form that models write. Only the text is checked. Opening the file makes sure that no part of
/// the path is a symbolic link.
fn parse(text: &str) -> Result<PathBuf, VaultError> {
    let refuse = |reason| Err(VaultError::Path { path: start(text), reason });
    if text.trim().is_empty() {
        return refuse("it is empty");
    }
    if text.len() > MAX_PATH || text.split('/').any(|name| name.len() > MAX_NAME) {
        return refuse("it is too long");
    }
    // A backslash is refused because a model that writes one means a separator, which it is not here.
    if text.starts_with('/') || text.contains('\\') || text.contains('\0') {
        return refuse("write it relative to the vault, with /");
    }
    if text.ends_with('/') {
        return refuse("it is a folder, not a file");
    }
    let mut path = PathBuf::new();
    // Models write `./notes.md` and `a//b`, which name the same files without ambiguity.
    for name in text.split('/').filter(|name| !name.is_empty() && *name != ".") {
        if name == ".." {
            return refuse("it leads out of the vault");
        }
        // Editors and version control execute what they find in such files.
        if name.starts_with('.') {
            return refuse("agents can't use names that begin with a dot");
        }
        path.push(name);
    }
    match path.components().count() {
        0 => refuse("it is a folder, not a file"),
        1..=MAX_DEPTH => Ok(path),
        _ => refuse("it has too many folders"),
    }
}

fn start(text: &str) -> String {
    safe_text::start(text, 200).to_owned()
}

fn reason(failure: &BeneathError) -> String {
    match failure {
        BeneathError::Outside { .. } => "a symbolic link, not followed".to_owned(),
        BeneathError::NotFound { .. } => "it does not exist".to_owned(),
        BeneathError::WrongKind { found, wanted, .. } => format!("found {found}, not {wanted}"),
        BeneathError::TooLarge { size, cap, .. } => format!("{size} bytes; at most {cap} are read"),
        BeneathError::Io { verb, source, .. } => {
            // The details contain host paths, which go to the log and not to the model.
            tracing::warn!("vault: {}", crate::error::chain(failure));
            format!("failed to {verb} it: {}", source.kind())
        }
        BeneathError::CutOff { source, .. } => source.to_string(),
        // Vaults are on this machine.
        BeneathError::Elsewhere { .. } | BeneathError::Unreachable { .. } => "it can't be reached".to_owned(),
    }
}

fn lock_reason(failure: &HomeError) -> String {
    match failure {
        HomeError::Held { .. } => "another gateway of this team holds the lock of the vaults: it writes there, or was \
            paused while it did. Try again later. If this goes on, a person has to look for a gateway that is paused \
            (`flock status` shows the gateways), and continue or end it"
            .to_owned(),
        HomeError::Io { source, .. } => format!("the lock of the vaults can't be taken: {}", source.kind()),
        _ => "the lock of the vaults can't be taken".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Barrier;

    use super::*;

    /// A time that no test reaches.
    const LONG: Duration = Duration::from_secs(60);

    /// Two gateways' homes with the same vault `shared`. The second one has joined the first one.
    struct Group {
        _dir: tempfile::TempDir,
        home: Home,
        joined: Home,
        vault: FolderName,
    }

    impl Group {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let home = Home::new(dir.path().join("home"), None);
            home.make_folders().unwrap();
            std::fs::create_dir(home.vaults().join("shared")).unwrap();
            let joined = Home::new(dir.path().join("joined"), None).seen_with_files(home.root());
            Self { _dir: dir, home, joined, vault: "shared".parse().unwrap() }
        }
    }

    fn vaults(home: &Home, patience: Duration) -> Vaults {
        Vaults { patience, ..Vaults::new(home) }
    }

    #[test]
    fn gateways_that_append_at_once_lose_no_line() {
        let group = Group::new();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for (name, home) in [("a", &group.home), ("b", &group.joined)] {
                let (vaults, vault, start) = (vaults(home, LONG), &group.vault, &start);
                scope.spawn(move || {
                    start.wait();
                    for n in 0..100 {
                        vaults.write(vault, "log.md", &format!("{name} {n}"), WriteMode::Append).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(group.home.vaults().join("shared/log.md")).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 200, "{text}");
    }

    #[test]
    fn a_write_gives_up_if_another_gateway_keeps_the_lock_and_changes_nothing() {
        let group = Group::new();
        let patient = vaults(&group.joined, LONG);
        patient.write(&group.vault, "log.md", "one", WriteMode::Append).unwrap();
        let held = Lock::acquire(&group.home.vaults_lock(), LONG).unwrap();
        let impatient = vaults(&group.joined, Duration::ZERO);
        for how in [WriteMode::Append, WriteMode::Replace] {
            let error = impatient.write(&group.vault, "log.md", "two", how).unwrap_err();
            assert!(matches!(&error, VaultError::Lock { source: HomeError::Held { .. }, .. }), "{error:?}");
            assert_eq!(error.kind(), Kind::Conflict);
            let told = error.to_string();
            assert!(told.starts_with("shared/log.md: nothing was written: another gateway"), "{told}");
            assert!(told.contains("`flock status`") && !told.contains("vaults.lock"), "{told}");
        }
        // A reader sees whole files without the lock.
        assert_eq!(impatient.read(&group.vault, "log.md").unwrap().1, "one");
        drop(held);
        patient.write(&group.vault, "log.md", "two", WriteMode::Append).unwrap();
        assert_eq!(patient.read(&group.vault, "log.md").unwrap().1, "one\ntwo");
    }

    #[test]
    fn a_file_of_a_copy_replaces_only_what_a_person_gives_up() {
        let group = Group::new();
        let (one, other) = (vaults(&group.home, LONG), vaults(&group.joined, LONG));
        let put = |path: &str, text: &str, replaces| {
            one.put_back(&group.vault, Path::new(path), text.as_bytes(), replaces)
        };
        assert_eq!(put("deep/notes.md", "copied", false).unwrap(), PutBack::Written);
        assert_eq!(put("deep/notes.md", "copied", false).unwrap(), PutBack::Same);
        for newer in ["newer and longer", "short", ""] {
            other.write(&group.vault, "deep/notes.md", newer, WriteMode::Replace).unwrap();
            assert_eq!(put("deep/notes.md", "copied", false).unwrap(), PutBack::Kept);
            assert_eq!(one.read(&group.vault, "deep/notes.md").unwrap().1, newer);
        }
        assert_eq!(put("deep/notes.md", "copied", true).unwrap(), PutBack::Written);
        // Another gateway writes.
        let held = Lock::acquire(&group.home.vaults_lock(), LONG).unwrap();
        let refused = vaults(&group.home, Duration::ZERO)
            .put_back(&group.vault, Path::new("other.md"), b"x", true)
            .unwrap_err();
        assert!(matches!(refused, VaultError::Lock { .. }), "{refused}");
        drop(held);
        // What is no file is neither followed nor replaced.
        let outside = group.home.root().join("outside");
        std::fs::write(&outside, "mine").unwrap();
        let vault = group.home.vaults().join("shared");
        std::os::unix::fs::symlink(&outside, vault.join("link.md")).unwrap();
        std::os::unix::fs::symlink(group.home.root(), vault.join("folder")).unwrap();
        for path in ["link.md", "folder/outside", "deep", "../outside", "deep/notes.md/x"] {
            assert!(put(path, "theirs", true).is_err(), "{path}");
        }
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        let left: Vec<_> = std::fs::read_dir(vault.join("deep")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_vault_is_made_for_a_person_and_nowhere_else() {
        let group = Group::new();
        let vaults = vaults(&group.home, LONG);
        let (new, link) = ("new".parse().unwrap(), "link".parse().unwrap());
        std::os::unix::fs::symlink(group.home.root(), group.home.vaults().join("link")).unwrap();
        for name in [&new, &group.vault] {
            vaults.create(name).unwrap();
        }
        assert_eq!(vaults.names(), [new, group.vault]);
        assert!(vaults.create(&link).is_err());
    }

    #[test]
    fn the_lock_is_in_no_vault_and_its_folder_is_made_again() {
        let group = Group::new();
        std::fs::remove_dir_all(group.home.run()).unwrap();
        let vaults = vaults(&group.joined, LONG);
        vaults.write(&group.vault, "log.md", "one", WriteMode::Replace).unwrap();
        let mode = std::fs::metadata(group.home.vaults_lock()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(vaults.names(), std::slice::from_ref(&group.vault));
        let (entries, _) = vaults.entries(&group.vault, 1, 10).unwrap();
        let paths: Vec<&Path> = entries.iter().map(|entry| entry.path.as_path()).collect();
        assert_eq!(paths, [Path::new("log.md")]);
    }
}
