//! Replacing a file in one step: a reader, and a machine that loses power, sees the old file or the new one,
//! never a part.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{HomeError, regular};

/// Puts `bytes` at `path` with `mode`: a temporary file in the same folder, fsync, rename, fsync of the
/// folder. A symbolic link at `path` is replaced, not followed.
///
/// # Errors
///
/// With the path and what could not be done; the old file is then untouched and no temporary one is left.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), HomeError> {
    let fail = |source| HomeError::Io { verb: "write", path: path.to_owned(), source };
    let file = draft(path, bytes, mode).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    sync_folder(folder_of(path))
}

/// As [`write()`], but without waiting for the disk: for what means nothing after a power cut, as a PID file.
///
/// # Errors
///
/// As [`write()`].
pub fn write_fleeting(path: &Path, bytes: &[u8], mode: u32) -> Result<(), HomeError> {
    let fail = |source| HomeError::Io { verb: "write", path: path.to_owned(), source };
    let file = draft(path, bytes, mode).map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

/// As [`write()`], but only if nothing is at `path` yet; says whether it wrote.
///
/// # Errors
///
/// As [`write()`].
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<bool, HomeError> {
    let fail = |source| HomeError::Io { verb: "write", path: path.to_owned(), source };
    let file = draft(path, bytes, mode).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    match file.persist_noclobber(path) {
        Ok(_) => sync_folder(folder_of(path)).map(|()| true),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(fail(error.error)),
    }
}

/// Reads a file of at most `cap` bytes that only the owner writes; `None` if it is not there.
///
/// # Errors
///
/// If it can't be read, or is longer.
pub fn read(path: &Path, cap: u64) -> Result<Option<Vec<u8>>, HomeError> {
    use std::io::Read as _;
    let fail = |source| HomeError::Io { verb: "read", path: path.to_owned(), source };
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let mut bytes = Vec::new();
    file.take(cap + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > cap {
        return Err(fail(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("it is longer than {cap} bytes"),
        )));
    }
    Ok(Some(bytes))
}

/// Whether a file of this name is new content that a killed writer left: nothing else in a home begins like that and has
/// a process id and six characters after it. Writers of before did not say who they are.
#[must_use]
pub fn is_draft(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(DRAFT) else { return false };
    let (pid, random) = rest.split_once('-').unwrap_or(("0", rest));
    pid.parse::<u32>().is_ok() && random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The process that makes a draft of this name, where the name says it.
#[must_use]
pub fn draft_maker(name: &str) -> Option<i32> {
    let (pid, _) = name.strip_prefix(DRAFT)?.split_once('-')?;
    pid.parse().ok()
}

const DRAFT: &str = ".new-";

/// The new content under a name of its own, in the folder that it is renamed in; gone when dropped.
fn draft(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<tempfile::NamedTempFile> {
    // Named by its maker: whoever finds it later knows whether it is still being written.
    let prefix = format!("{DRAFT}{}-", std::process::id());
    let mut file = tempfile::Builder::new()
        .prefix(&prefix)
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(folder_of(path))?;
    // The mask of this process took from the mode what others may: a sandbox's user must be able to run its helper.
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    Ok(file)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

fn sync_folder(folder: &Path) -> Result<(), HomeError> {
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| HomeError::Io {
        verb: "sync",
        path: folder.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_file_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write(&path, b"one", 0o600).unwrap();
        write(&path, b"two", 0o640).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(!write_new(&path, b"three", 0o600).unwrap());
        assert_eq!(read(&path, 3).unwrap().unwrap(), b"two");
        assert!(read(&path, 2).is_err());
        assert!(read(&dir.path().join("none"), 2).unwrap().is_none());
    }

    #[test]
    fn what_a_killed_writer_leaves_is_known_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let left = draft(&dir.path().join("file"), b"x", 0o600).unwrap();
        let name = left.path().file_name().unwrap().to_str().unwrap();
        assert!(is_draft(name), "{name}");
        assert_eq!(draft_maker(name), i32::try_from(std::process::id()).ok());
        assert!(is_draft(".new-a1b2c3") && draft_maker(".new-a1b2c3").is_none());
        for other in
            [".new-openclaw", ".new-", "new-a1b2c3", ".new-x-a1b2c3", ".new-1-a1b2", ".new-1-a1b2c3d"]
        {
            assert!(!is_draft(other), "{other}");
        }
    }

    #[test]
    fn a_link_is_replaced_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, "kept").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&link, b"new", 0o600).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"kept");
        assert_eq!(std::fs::read(&link).unwrap(), b"new");
    }
}
