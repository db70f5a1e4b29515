//! The home's instance id, which distinguishes it from all other homes, even from a copy of it.
//!
//! The file also records where the home was when it got the id: the path, and the device and inode of the folder. If
//! both differ, the home is a copy, or was moved from another file system. It then gets another id, so that it never
//! takes what belongs to the original home for its own.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{Home, HomeError, atomic};
use crate::id::hex;

const MAX_BYTES: u64 = 8 << 10;

/// The prefix of the line that records the place.
const LOCATION_PREFIX: &str = "at ";

/// The place of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Location {
    device: u64,
    inode: u64,
    path: PathBuf,
}

impl Location {
    fn of(home: &Home) -> Option<Self> {
        let facts = std::fs::metadata(home.root()).ok()?;
        Some(Self { device: facts.dev(), inode: facts.ino(), path: home.root().to_owned() })
    }

    fn parse(line: &str) -> Option<Self> {
        let (number, path) = line.strip_prefix(LOCATION_PREFIX)?.split_once(' ')?;
        let (device, inode) = number.split_once(':')?;
        Some(Self {
            device: device.parse().ok()?,
            inode: inode.parse().ok()?,
            path: Path::new(path).to_owned(),
        })
    }

    /// Returns `true` if a home recorded at `self` and found at `now` is a copy. A folder that was moved keeps its
    /// inode, and one that was restored from a backup keeps its path.
    fn is_copied_to(&self, now: &Self) -> bool {
        self.path != now.path && (self.device, self.inode) != (now.device, now.inode)
    }
}

/// The content of the file.
struct Record {
    id: String,
    place: Option<Location>,
}

impl Record {
    /// Reads the file. Returns `None` if it is missing, empty or invalid.
    fn read(home: &Home) -> Result<Option<Self>, HomeError> {
        let bytes = atomic::read(&home.instance(), MAX_BYTES)?.unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        let mut lines = text.lines();
        let id = lines.next().unwrap_or_default().trim().to_owned();
        let place = lines.next().and_then(Location::parse);
        Ok((!id.is_empty()).then_some(Self { id, place }))
    }

    fn write(&self, home: &Home) -> Result<(), HomeError> {
        // A path that is not plain text can't be recorded, so a copy of such a home is not detected.
        let path = self.place.as_ref().and_then(|place| place.path.to_str());
        let text = match (&self.place, path.filter(|path| !path.contains('\n'))) {
            (Some(Location { device, inode, .. }), Some(path)) => {
                format!("{}\n{LOCATION_PREFIX}{device}:{inode} {path}\n", self.id)
            }
            _ => format!("{}\n", self.id),
        };
        atomic::write(&home.instance(), text.as_bytes(), 0o600)
    }

    fn is_copied(&self, now: Option<&Location>) -> bool {
        matches!((&self.place, now), (Some(then), Some(now)) if then.is_copied_to(now))
    }
}

/// Returns the id of the files that a home shares with the gateways of a group, or `None` outside of one.
#[must_use]
pub(crate) fn of_shared_files(home: &Home) -> Option<String> {
    let mark = atomic::read(&home.files_mark(), MAX_BYTES).ok()??;
    let id = std::str::from_utf8(mark.trim_ascii()).ok()?;
    (!id.is_empty()).then(|| id.to_owned())
}

/// Returns the id of the home that has the agents' files: this one, or the one whose files its gateway shares.
///
/// # Errors
///
/// Returns the errors of [`read`] about that home.
pub(crate) fn of_files(home: &Home) -> Result<String, HomeError> {
    let owner = home.of_files();
    if owner == *home {
        return read(home);
    }
    // Each machine may see the folder at a path and a device of its own, so the place says nothing of a copy here.
    match Record::read(&owner)? {
        Some(record) => Ok(record.id),
        None => Err(HomeError::NoInstance { path: owner.instance() }),
    }
}

/// Returns the id for a copy at `path` of the home `id`. It is the same each time.
fn copy_id(id: &str, path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut hash = Sha256::new();
    hash.update(id.as_bytes());
    // A separator, so that no other id and path give the same input.
    hash.update([0]);
    hash.update(path.as_os_str().as_bytes());
    hex(&hash.finalize()[..16])
}

/// The result of [`settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceStatus {
    /// The recorded id belongs to this home.
    Own,
    /// The home is a copy of another one. It has its own id from now on.
    Copy,
    /// There was no id, because the file was missing or empty. A new one was written.
    Nothing,
}

/// Reads the id. For a copy that was never started, this is already the id that it will get.
///
/// # Errors
///
/// Returns [`HomeError::NoInstance`] if there is no id, and [`HomeError::Io`] if the file can't be read.
pub fn read(home: &Home) -> Result<String, HomeError> {
    let Some(record) = Record::read(home)? else {
        return Err(HomeError::NoInstance { path: home.instance() });
    };
    if record.is_copied(Location::of(home).as_ref()) {
        return Ok(copy_id(&record.id, home.root()));
    }
    Ok(record.id)
}

/// Returns `true` if the home in this folder will be a copy of another one when the folder is at `path`.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(crate) fn becomes_copy(home: &Home, path: &Path) -> Result<bool, HomeError> {
    let there = Location::of(home).map(|place| Location { path: path.to_owned(), ..place });
    Ok(Record::read(home)?.is_some_and(|record| record.is_copied(there.as_ref())))
}

/// Returns the recorded path of the home if it is now at another one: the path of the original of a copy, or the path
/// before the home was moved.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(crate) fn previous_path(home: &Home) -> Result<Option<PathBuf>, HomeError> {
    let place = Record::read(home)?.and_then(|record| record.place);
    Ok(place.map(|place| place.path).filter(|path| path != home.root()))
}

/// Makes sure that the home has an id of its own. Called by a process that begins to run the home.
///
/// # Errors
///
/// Returns an error if the file can't be read, or a new id can't be written.
pub fn settle(home: &Home) -> Result<InstanceStatus, HomeError> {
    let place = Location::of(home);
    let (record, found) = match Record::read(home)? {
        None => (Record { id: uuid::Uuid::new_v4().to_string(), place }, InstanceStatus::Nothing),
        Some(record) if record.is_copied(place.as_ref()) => {
            (Record { id: copy_id(&record.id, home.root()), place }, InstanceStatus::Copy)
        }
        Some(record) if record.place == place => return Ok(InstanceStatus::Own),
        // The home was moved or restored. It keeps its id, and the new place is recorded.
        Some(record) => (Record { place, ..record }, InstanceStatus::Own),
    };
    match record.write(home) {
        // The id itself is valid; only its place could not be updated.
        Err(_) if found == InstanceStatus::Own => Ok(found),
        written => written.map(|()| found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path) -> Home {
        let home = Home::new(folder.to_owned(), None);
        std::fs::create_dir_all(home.data()).unwrap();
        home
    }

    fn copy(from: &Path, to: &Path) {
        assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }

    #[test]
    fn a_home_with_another_path_and_inode_is_a_copy() {
        let at = |device, inode, path: &str| Location { device, inode, path: path.into() };
        let then = at(1, 7, "/a");
        for (now, is_copy, what) in [
            (at(1, 7, "/a"), false, "the same"),
            (at(1, 7, "/b"), false, "moved"),
            (at(1, 8, "/a"), false, "restored to its place"),
            (at(1, 8, "/b"), true, "copied"),
            (at(2, 7, "/b"), true, "copied to another file system"),
        ] {
            assert_eq!(then.is_copied_to(&now), is_copy, "{what}");
        }
    }

    #[test]
    fn a_copy_has_an_id_of_its_own_before_and_after_its_first_start() {
        let folder = tempfile::tempdir().unwrap();
        let first = home(&folder.path().join("first"));
        assert!(matches!(read(&first), Err(HomeError::NoInstance { .. })));
        assert_eq!(settle(&first).unwrap(), InstanceStatus::Nothing);
        assert_eq!(settle(&first).unwrap(), InstanceStatus::Own);
        let id = read(&first).unwrap();
        let second = Home::new(folder.path().join("second"), None);
        copy(first.root(), second.root());
        let own = read(&second).unwrap();
        assert_ne!(own, id);
        assert_eq!(previous_path(&second).unwrap().as_deref(), Some(first.root()));
        assert_eq!(previous_path(&first).unwrap(), None);
        assert_eq!(settle(&second).unwrap(), InstanceStatus::Copy);
        assert_eq!(settle(&second).unwrap(), InstanceStatus::Own);
        assert_eq!(previous_path(&second).unwrap(), None);
        assert_eq!(read(&second).unwrap(), own);
        assert_eq!(read(&first).unwrap(), id, "the first is what it was");
        let third = Home::new(folder.path().join("third"), None);
        std::fs::rename(second.root(), third.root()).unwrap();
        assert_eq!(read(&third).unwrap(), own, "a home that is moved is the same");
    }

    #[test]
    fn an_id_of_an_earlier_version_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        std::fs::write(home.instance(), "abc\n").unwrap();
        assert_eq!(read(&home).unwrap(), "abc");
        assert_eq!(settle(&home).unwrap(), InstanceStatus::Own);
        assert_eq!(read(&home).unwrap(), "abc");
        std::fs::write(home.instance(), " \n").unwrap();
        assert_eq!(settle(&home).unwrap(), InstanceStatus::Nothing);
        assert_ne!(read(&home).unwrap(), "abc");
    }
}
