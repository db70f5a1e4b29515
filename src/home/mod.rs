//! The home: the folder that contains one flock installation.
//!
//! This module owns its layout, its locks, the atomic replacement of its files, its format version, and the only safe
//! way to open what an agent can write.

pub mod atomic;
pub mod beneath;
pub mod elsewhere;
mod error;
pub(crate) mod fingerprint;
pub(crate) mod folder_rights;
pub(crate) mod free_space;
pub mod instance;
pub mod layout;
pub mod lock;
pub mod log;
pub mod pending;
pub mod regular;
pub(crate) mod remove_tree;
pub(crate) mod reverse_lines;
pub(crate) mod scratch;
pub(crate) mod temp_files;
pub(crate) mod unlocked;
pub(crate) mod user_dirs;
pub mod version;
pub(crate) mod walk;
pub mod write_fence;

use std::path::{Path, PathBuf};

use crate::env;

pub use error::HomeError;
pub(crate) use error::existing;
pub use layout::Home;

/// The home format that this flock writes.
pub(crate) const FORMAT: u32 = 1;

impl Home {
    /// Finds the home: `given`, else `FLOCK_HOME`, else `~/.flock`. It need not exist yet.
    ///
    /// # Errors
    ///
    /// Returns [`HomeError::Nowhere`] if none of the three is available, and [`HomeError::Unusable`] if the path is a
    /// file, the root folder, or contains a colon or control characters.
    pub fn locate(given: Option<&Path>) -> Result<Self, HomeError> {
        // Canonical paths, so that a home has the same identity however its path is written.
        let default = dirs::home_dir().map(|home| canonical(&home.join(".flock")));
        let chosen = match given {
            Some(path) => canonical(&absolute(path)?),
            None => match env::HOME_DIR.get_os() {
                Some(path) => canonical(&absolute(Path::new(&path))?),
                None => default.clone().ok_or(HomeError::Nowhere)?,
            },
        };
        if chosen.parent().is_none() {
            return Err(HomeError::Unusable { path: chosen, reason: "it is the root folder" });
        }
        if chosen.exists() && !chosen.is_dir() {
            return Err(HomeError::Unusable { path: chosen, reason: "it is not a folder" });
        }
        // A colon breaks Docker's syntax for mounts, and control characters disturb terminals, both much later than
        // here.
        if chosen.to_str().is_none_or(|text| text.contains(':') || text.chars().any(char::is_control)) {
            return Err(HomeError::Unusable {
                path: chosen,
                reason: "its path is not plain text, or has a ':' in it",
            });
        }
        Ok(Self::new(chosen, default.as_deref()))
    }

    /// Checks that `flock init` was run for this home.
    ///
    /// # Errors
    ///
    /// Returns [`HomeError::NotInitialised`] if it was not.
    pub(crate) fn require_initialised(&self) -> Result<(), HomeError> {
        if self.config().exists() {
            Ok(())
        } else {
            Err(HomeError::NotInitialised { root: self.root().to_owned() })
        }
    }

    /// Creates missing folders, each with its mode, and removes other users' access to the home.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder can't be created, and the errors of [`Home::close`].
    pub fn make_folders(&self) -> Result<(), HomeError> {
        use std::os::unix::fs::DirBuilderExt as _;
        for (path, mode) in self.folders() {
            // `recursive` accepts folders that exist already, and leaves their mode as it is.
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(&path)
                .map_err(HomeError::io("make the folder", &path))?;
        }
        // Folders that existed before may be open to other users.
        self.close()
    }

    /// Removes other users' access to the home and to its most private folders. A workspace in it may contain programs
    /// that run with the rights of their owner.
    ///
    /// # Errors
    ///
    /// Returns [`HomeError::Open`] if others still have access.
    pub fn close(&self) -> Result<(), HomeError> {
        use std::os::unix::fs::PermissionsExt as _;
        for path in [self.root().to_owned(), self.data(), self.secrets()] {
            let mode = || std::fs::metadata(&path).map(|found| found.permissions().mode() & 0o7777);
            // A folder that does not exist needs no change.
            let Ok(found) = mode() else { continue };
            if found & 0o077 == 0 {
                continue;
            }
            let closed = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(found & !0o077));
            // Some file systems accept any mode and ignore it, so check the result.
            let is_closed = mode().is_ok_and(|now| now & 0o077 == 0);
            if closed.is_err() || !is_closed {
                return Err(HomeError::Open { path, source: closed.err() });
            }
        }
        Ok(())
    }
}

fn absolute(path: &Path) -> Result<PathBuf, HomeError> {
    std::path::absolute(path).map_err(HomeError::io("resolve", path))
}

/// Returns the canonical form of a path whose last components may not exist.
///
/// Use it only to compare locations, never to open something that an agent can write.
#[must_use]
pub fn canonical(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        // The longest existing part is resolved, and the missing names are appended to it.
        if let Ok(real) = at.canonicalize() {
            return missing.iter().rev().fold(real, |real, name| real.join(name));
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name.to_owned());
                at = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Explain as _, Kind};

    #[test]
    fn a_home_is_closed_to_others_whatever_its_mode_was() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"), None);
        home.make_folders().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for path in [home.root().to_owned(), home.data(), home.secrets()] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            home.make_folders().unwrap();
            assert_eq!(mode(&path), 0o700, "{}", path.display());
        }
        let open = HomeError::Open { path: "/srv/x".into(), source: None };
        assert!(open.hint().is_some_and(|hint| hint.contains("file system")));
        let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let open = HomeError::Open { path: "/srv/x".into(), source: Some(error) };
        assert!(open.hint().is_some_and(|hint| hint.ends_with("chmod 700 /srv/x")));
    }

    #[test]
    fn a_home_is_named_by_its_canonical_path() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let by_link = Home::locate(Some(&link.join("new"))).unwrap();
        assert_eq!(by_link.root(), real.canonicalize().unwrap().join("new"));
    }

    #[test]
    fn impossible_homes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for bad in [file, dir.path().join("a:b"), PathBuf::from("/"), dir.path().join("a\nb")] {
            let error = Home::locate(Some(&bad)).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{}", bad.display());
        }
    }
}
