//! Putting a version in use, and removing those that are no longer needed.

use std::path::Path;

use super::error::io;
use super::{InstallError, Installer, Version, versions};
use crate::home::Home;

/// Makes a prepared version the current one, by one rename of a link. What was current becomes the previous one.
/// Killed at any point, the old version or the new one is current.
///
/// # Errors
///
/// What failed; then the old version is still current.
pub fn swap(_: &Installer, home: &Home, version: &Version) -> Result<(), InstallError> {
    let before = versions::current(home);
    if before.as_ref().is_some_and(|before| before.commit == version.commit && before.path == version.path) {
        return Ok(());
    }
    // Written first: as long as the link does not point here, nobody reads it.
    let mut record = versions::read(&version.path).ok_or_else(|| {
        InstallError::Missing(format!("{} is not an installed OpenClaw", version.path.display()))
    })?;
    record.replaces = before.map(|before| before.name());
    record.write(&version.path)?;
    point(home, version)
}

/// Takes a [`swap()`] back: the version is the current one again, and before it is what was before it.
///
/// # Errors
///
/// What failed; then the link is as it was.
pub fn swap_back(_: &Installer, home: &Home, version: &Version) -> Result<(), InstallError> {
    version.write(&version.path)?;
    point(home, version)
}

fn point(home: &Home, version: &Version) -> Result<(), InstallError> {
    let link = home.openclaw();
    let draft = home.root().join(".new-openclaw");
    remove_link(&draft)?;
    let target = home.openclaw_versions().join(version.name());
    let target = target.strip_prefix(home.root()).unwrap_or(&target);
    std::os::unix::fs::symlink(target, &draft).map_err(io("make the link", &draft))?;
    if link.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        return Err(io("replace", link)(std::io::Error::other("a folder is in the link's place")));
    }
    fs_err::rename(&draft, &link).map_err(io("make the link", &link))?;
    sync(home.root())
}

/// Removes every version but the current and the previous one and those of these names, and what earlier removals left.
///
/// # Errors
///
/// What could not be removed; the next call tries again.
pub fn prune(_: &Installer, home: &Home, others: &[String]) -> Result<(), InstallError> {
    let kept: Vec<String> = [versions::current(home), versions::previous(home)]
        .into_iter()
        .flatten()
        .map(|version| version.name())
        .collect();
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

/// Removes a folder of the versions: out of the way by one rename, so that half of it is never taken for one.
fn remove(home: &Home, folder: &Path) -> Result<(), InstallError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let aside = home.openclaw_versions().join(format!("{REMOVED}{name}"));
    if aside.exists() {
        fs_err::remove_dir_all(&aside).map_err(io("remove", &aside))?;
    }
    fs_err::rename(folder, &aside).map_err(io("remove", folder))?;
    fs_err::remove_dir_all(&aside).map_err(io("remove", &aside))
}

/// Removes what interrupted removals left.
pub(super) fn sweep(home: &Home) -> Result<(), InstallError> {
    let folder = home.openclaw_versions();
    for entry in std::fs::read_dir(&folder).map_err(io("read", &folder))?.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(REMOVED) {
            fs_err::remove_dir_all(entry.path()).map_err(io("remove", entry.path()))?;
        }
    }
    Ok(())
}

fn remove_link(path: &Path) -> Result<(), InstallError> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes renames in a folder last.
pub(super) fn sync(folder: &Path) -> Result<(), InstallError> {
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("sync", folder))
}

const REMOVED: &str = ".removed-";
