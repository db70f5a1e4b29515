//! Puts a version in use, and removes versions that are no longer needed.

use std::path::Path;

use super::error::{io, remove_file};
use super::{InstallError, InstallLock, InstalledVersion, versions};
use crate::home::Home;

/// Makes a prepared version the current one, by renaming a link. The current one becomes the previous one. After a kill
/// at any point, either the old or the new version is current.
///
/// # Errors
///
/// Returns an error if the folder is not an installed version, or a file cannot be written. Then the old version is
/// still current.
pub(crate) fn swap(_: &InstallLock, home: &Home, version: &InstalledVersion) -> Result<(), InstallError> {
    let before = versions::current(home);
    if before.as_ref().is_some_and(|before| before.commit == version.commit && before.path == version.path) {
        return Ok(());
    }
    // The record is written first. Nobody reads it before the link points here.
    let mut record = versions::read(&version.path).ok_or_else(|| {
        InstallError::Missing(format!("{} is not an installed OpenClaw", version.path.display()))
    })?;
    record.replaces = before.map(|before| before.name());
    record.write(&version.path)?;
    replace_link(home, version)
}

/// Undoes a [`swap()`]: the version becomes current again, with its former record of what came before it.
///
/// # Errors
///
/// Returns an error if the record or the link cannot be written. Then the link is unchanged.
pub(crate) fn swap_back(
    _: &InstallLock,
    home: &Home,
    version: &InstalledVersion,
) -> Result<(), InstallError> {
    version.write(&version.path)?;
    replace_link(home, version)
}

fn replace_link(home: &Home, version: &InstalledVersion) -> Result<(), InstallError> {
    let link = home.openclaw();
    let draft = home.root().join(".new-openclaw");
    // An interrupted call may have left one.
    remove_file(&draft)?;
    let target = home.openclaw_versions().join(version.name());
    // The link is relative, so that the home can be moved.
    let target = target.strip_prefix(home.root()).unwrap_or(&target);
    std::os::unix::fs::symlink(target, &draft).map_err(io("make the link", &draft))?;
    if link.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        return Err(io("replace", link)(std::io::Error::other("a folder is in the link's place")));
    }
    fs_err::rename(&draft, &link).map_err(io("make the link", &link))?;
    sync(home.root())
}

/// Removes every version except the current, the previous and those named in `others`, and the remains of earlier
/// removals.
///
/// # Errors
///
/// Returns an error if a folder cannot be removed. The next call tries again.
pub(crate) fn prune(_: &InstallLock, home: &Home, others: &[String]) -> Result<(), InstallError> {
    let kept: Vec<String> = [versions::current(home), versions::previous(home)]
        .into_iter()
        .flatten()
        .map(|version| version.name())
        .collect();
    // Without a current version it is not known what is in use, so nothing is removed.
    if kept.is_empty() {
        return Ok(());
    }
    for version in versions::list(home)? {
        if !kept.contains(&version.name()) && !others.contains(&version.name()) {
            remove(home, &version.path)?;
        }
    }
    sweep(home)
}

/// Removes a version's folder. It is renamed first, so that a half-removed folder is never read as a version.
fn remove(home: &Home, folder: &Path) -> Result<(), InstallError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = home.openclaw_versions().join(format!("{REMOVED_PREFIX}{name}"));
    if aside.exists() {
        fs_err::remove_dir_all(&aside).map_err(io("remove", &aside))?;
    }
    fs_err::rename(folder, &aside).map_err(io("remove", folder))?;
    fs_err::remove_dir_all(&aside).map_err(io("remove", &aside))
}

/// Deletes the remains of interrupted removals.
pub(super) fn sweep(home: &Home) -> Result<(), InstallError> {
    let folder = home.openclaw_versions();
    for entry in std::fs::read_dir(&folder).map_err(io("read", &folder))?.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(REMOVED_PREFIX) {
            fs_err::remove_dir_all(entry.path()).map_err(io("remove", entry.path()))?;
        }
    }
    Ok(())
}

/// Makes renames in a folder survive a power loss.
pub(super) fn sync(folder: &Path) -> Result<(), InstallError> {
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("sync", folder))
}

const REMOVED_PREFIX: &str = ".removed-";
