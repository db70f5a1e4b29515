//! Atomic replacement of files: a reader, or a machine after a power cut, sees the old file or the new one, never a
//! part.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{HomeError, regular};

/// Writes `bytes` to `path` with `mode`, in one step. A symbolic link at `path` is replaced, not followed.
///
/// # Errors
///
/// Returns [`HomeError::Io`] with the path. The old file is then unchanged, and no temporary file is left.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), HomeError> {
    let fail = HomeError::io("write", path);
    // Write a temporary file in the same folder, sync it, rename it, and sync the folder: without the last step a power
    // cut could undo the rename.
    let file = write_temp_file(path, bytes, mode).map_err(&fail)?;
    file.as_file().sync_all().map_err(&fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    sync_folder(parent_of(path))
}

/// Writes a file as [`write()`] does, without waiting for the disk. For files that mean nothing after a power cut, such
/// as a PID file.
///
/// # Errors
///
/// Returns [`HomeError::Io`] if the file can't be written or renamed.
pub(crate) fn write_unsynced(path: &Path, bytes: &[u8], mode: u32) -> Result<(), HomeError> {
    let fail = HomeError::io("write", path);
    let file = write_temp_file(path, bytes, mode).map_err(&fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

/// Writes a file as [`write()`] does, unless something is at `path` already. Returns `true` if it wrote.
///
/// # Errors
///
/// Returns [`HomeError::Io`] if the file can't be written or renamed.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<bool, HomeError> {
    let fail = HomeError::io("write", path);
    let file = write_temp_file(path, bytes, mode).map_err(&fail)?;
    file.as_file().sync_all().map_err(&fail)?;
    // Another process may have created the file since the caller looked.
    match file.persist_noclobber(path) {
        Ok(_) => sync_folder(parent_of(path)).map(|()| true),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(fail(error.error)),
    }
}

/// Reads a file that only its owner writes. Returns `None` if it does not exist.
///
/// # Errors
///
/// Returns [`HomeError::Io`] if the file can't be read, is longer than `cap` bytes, or is not a regular file.
pub fn read(path: &Path, cap: u64) -> Result<Option<Vec<u8>>, HomeError> {
    use std::io::Read as _;
    let fail = HomeError::io("read", path);
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let mut bytes = Vec::new();
    // One byte more than the cap shows that the file is too long.
    file.take(cap + 1).read_to_end(&mut bytes).map_err(&fail)?;
    if bytes.len() as u64 > cap {
        let text = format!("it is longer than {cap} bytes");
        return Err(fail(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text)));
    }
    Ok(Some(bytes))
}

/// Returns `true` if a file name is that of a temporary file of [`write()`], which a killed process left behind.
///
/// Nothing else in a home has a name of this form: the prefix, a process id and six characters. Earlier versions left
/// out the process id.
#[must_use]
pub(crate) fn is_draft(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(TEMP_PREFIX) else { return false };
    let (pid, random) = rest.split_once('-').unwrap_or(("0", rest));
    pid.parse::<u32>().is_ok() && random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the pid of the process that made a temporary file, if the name contains it.
#[must_use]
pub(crate) fn temp_file_pid(name: &str) -> Option<i32> {
    let (pid, _) = name.strip_prefix(TEMP_PREFIX)?.split_once('-')?;
    pid.parse().ok()
}

const TEMP_PREFIX: &str = ".new-";

/// Writes the content to a temporary file in the target's folder. The file is removed when it is dropped.
fn write_temp_file(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<tempfile::NamedTempFile> {
    // The name contains the pid, so that another process can tell whether the file is still being written.
    let prefix = format!("{TEMP_PREFIX}{}-", std::process::id());
    let mut file = tempfile::Builder::new()
        .prefix(&prefix)
        .permissions(std::fs::Permissions::from_mode(mode))
        .tempfile_in(parent_of(path))?;
    // The umask of this process removed rights of other users. Those are needed: a sandbox's user must be able to run
    // its helper.
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    Ok(file)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

fn sync_folder(folder: &Path) -> Result<(), HomeError> {
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(HomeError::io("sync", folder))
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
    fn a_temp_file_is_recognised_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let left = write_temp_file(&dir.path().join("file"), b"x", 0o600).unwrap();
        let name = left.path().file_name().unwrap().to_str().unwrap();
        assert!(is_draft(name), "{name}");
        assert_eq!(temp_file_pid(name), i32::try_from(std::process::id()).ok());
        assert!(is_draft(".new-a1b2c3") && temp_file_pid(".new-a1b2c3").is_none());
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
