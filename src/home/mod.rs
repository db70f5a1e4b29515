//! The home: the folder that contains one flock installation.
//!
//! This module owns its layout, its locks, the atomic replacement of its files, its format version, and the only safe
//! way to open what an agent can write.

pub mod atomic;
pub mod beneath;
pub(crate) mod fingerprint;
pub mod instance;
pub mod layout;
pub mod lock;
pub mod log;
pub mod pending;
pub mod regular;
pub(crate) mod remove_tree;
pub(crate) mod scratch;
pub(crate) mod temp_files;
pub(crate) mod user_dirs;
pub mod version;
pub(crate) mod walk;

use std::path::{Path, PathBuf};

use crate::env;
use crate::error::{Explain, KERNEL_LOG_HINT, Kind, is_of_disk};

pub use layout::Home;

/// An error of using a home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The user has no home folder in which flock's could be.
    #[error("this user has no home folder, and neither --home nor FLOCK_HOME is given")]
    Nowhere,
    /// The path can't be that of a home.
    #[error("{} can't be a home: {reason}", path.display())]
    Unusable {
        path: PathBuf,
        /// The reason why not.
        reason: &'static str,
    },
    /// `flock init` was not run for this home.
    #[error("flock is not set up in {}", root.display())]
    NotInitialised {
        /// The folder of the home.
        root: PathBuf,
    },
    /// The home has no instance id.
    #[error("{} is missing or empty", path.display())]
    NoInstance {
        /// The file in which it is missing.
        path: PathBuf,
    },
    /// A newer version of flock created the home.
    #[error("{} has format {found}; this flock writes format {known}", root.display())]
    Newer {
        /// The folder of the home.
        root: PathBuf,
        /// The home's format number.
        found: u32,
        /// The newest format number that this flock knows.
        known: u32,
    },
    /// The file with the format number is invalid.
    #[error("{} does not hold a format number", path.display())]
    BadVersion {
        /// The path of that file.
        path: PathBuf,
    },
    /// Another process holds a lock.
    #[error("another process holds {}", path.display())]
    Held {
        /// The path of the lock file.
        path: PathBuf,
    },
    /// Other users have access to a folder, and that could not be changed.
    #[error("other users can look into {}, which could not be closed to them", path.display())]
    Open {
        path: PathBuf,
        /// The error of the change; `None` if the file system does not store permissions.
        #[source]
        source: Option<std::io::Error>,
    },
    /// An operation on a file or folder of the home failed.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// The operation, as in `write`.
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl Explain for HomeError {
    fn kind(&self) -> Kind {
        match self {
            Self::Nowhere | Self::Unusable { .. } => Kind::Usage,
            Self::NotInitialised { .. } => Kind::NotInitialised,
            Self::Newer { .. } => Kind::NewerHome,
            Self::Held { .. } => Kind::Conflict,
            Self::Io { source, .. } if is_of_disk(source) => Kind::Unreadable,
            Self::NoInstance { .. } | Self::BadVersion { .. } | Self::Io { .. } | Self::Open { .. } => {
                Kind::Failed
            }
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Nowhere | Self::Unusable { .. } => Some("flock --home DIR init".to_owned()),
            Self::NotInitialised { .. } => Some("flock init".to_owned()),
            Self::Newer { .. } => Some("install the newer flock, or use another --home".to_owned()),
            Self::BadVersion { path } => Some(format!("echo {FORMAT} > {}", path.display())),
            Self::Held { .. } => Some("flock status".to_owned()),
            Self::NoInstance { .. } => Some("flock doctor --fix".to_owned()),
            // The permissions could not be changed, most likely because another user owns the folder.
            Self::Open { path, source: Some(_) } => {
                let path = path.display();
                Some(format!("sudo chown $(id -u) {path} && chmod 700 {path}"))
            }
            Self::Open { .. } => {
                Some("use --home with a folder on a file system that keeps rights".to_owned())
            }
            Self::Io { source, .. } if is_of_disk(source) => Some(KERNEL_LOG_HINT.to_owned()),
            Self::Io { source, path, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull => Some(format!("df -h {}", existing(path).display())),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    Some(format!("ls -ld {}", existing(path).display()))
                }
                _ => None,
            },
        }
    }
}

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
                .map_err(|source| HomeError::Io { verb: "make the folder", path: path.clone(), source })?;
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

/// Returns the path, or its nearest existing ancestor. A hint can't tell the user to inspect a file that could not be
/// created.
pub(crate) fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}

fn absolute(path: &Path) -> Result<PathBuf, HomeError> {
    std::path::absolute(path).map_err(|source| HomeError::Io {
        verb: "resolve",
        path: path.to_owned(),
        source,
    })
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
