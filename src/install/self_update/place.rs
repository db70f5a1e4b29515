//! Finds the file of the program in use, its version, and if an update may replace it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{AccessFlags, access};

use super::SelfUpdateError;
use crate::install::error::io;

/// Package managers, and how each is asked for the owner of a file. Each exits with an error if no package owns it.
const MANAGERS: [(&str, &str, &str); 2] =
    [("dpkg-query", "-S", "the Debian package"), ("rpm", "-qf", "the package")];

/// Folders whose files are made by a package manager and never change.
const STORES: [(&str, &str); 2] = [("/nix/store", "the Nix store"), ("/gnu/store", "the Guix store")];

/// Returns the file that will be replaced: the one that a person named, or the one that this process runs.
///
/// # Errors
///
/// Returns [`SelfUpdateError::Replaced`] if the program was replaced since this process started, and an error if the named
/// file does not exist.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, SelfUpdateError> {
    if let Some(named) = named {
        return Ok(fs_err::canonicalize(named).map_err(io("find", named))?);
    }
    let path = std::env::current_exe().map_err(io("find", "/proc/self/exe"))?;
    // Linux appends this to the path of a file that was removed, or that another file was renamed over.
    match path.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(text) => Err(SelfUpdateError::Replaced { path: text.into() }),
        None => Ok(path),
    }
}

/// Returns the version of the program at a path. `own` is the version of this process.
///
/// # Errors
///
/// Returns [`SelfUpdateError::NotFlock`] if the other program does not print flock's version, and an error if it cannot be
/// run.
pub(crate) fn version(path: &Path, own: &str) -> Result<String, SelfUpdateError> {
    if std::env::current_exe().is_ok_and(|exe| exe == path) {
        return Ok(own.to_owned());
    }
    let output =
        Command::new(path).arg("--version").stdin(Stdio::null()).output().map_err(io("run", path))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = text.trim().strip_prefix("flock ").filter(|_| output.status.success());
    said.map(str::to_owned).ok_or_else(|| SelfUpdateError::NotFlock {
        address: path.display().to_string(),
        reason: "its --version is not that of flock".to_owned(),
    })
}

/// Checks that an update may replace this file.
///
/// # Errors
///
/// Returns [`SelfUpdateError::Owned`] if a package manager owns it, and [`SelfUpdateError::Unwritable`] if this user may not write to
/// its folder.
pub(crate) fn check(path: &Path) -> Result<(), SelfUpdateError> {
    if let Some(owner) = owner(path) {
        return Err(SelfUpdateError::Owned { path: path.to_owned(), owner });
    }
    // A rename needs the right to write to the folder, not to the file.
    let folder = path.parent().unwrap_or(Path::new("/"));
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|_| SelfUpdateError::Unwritable { path: path.to_owned() })
}

/// Returns the package that a file belongs to, with its package manager.
fn owner(path: &Path) -> Option<String> {
    // Checked first, because these need no program to be run.
    if let Some((_, name)) = STORES.iter().find(|(folder, _)| path.starts_with(folder)) {
        return Some((*name).to_owned());
    }
    MANAGERS.iter().find_map(|(program, option, name)| {
        let asked =
            Command::new(program).arg(option).arg(path).stdin(Stdio::null()).stderr(Stdio::null()).output();
        // dpkg prints `package: path`, rpm only the package.
        let said = asked.ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let package = text.lines().next()?.split(": ").next()?.trim().to_owned();
        Some(format!("{name} {package}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_package_store_is_refused() {
        assert_eq!(owner(Path::new("/nix/store/x-flock/bin/flock")).as_deref(), Some("the Nix store"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("flock");
        std::fs::write(&file, "").unwrap();
        check(&file).unwrap();
    }
}
