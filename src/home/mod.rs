//! The home: the folder that holds one flock. This module owns its layout, its locks, atomic replacement of
//! its files, its format version, and the only safe way to open what an agent can write.

pub mod atomic;
pub mod beneath;
pub mod clear;
pub mod drafts;
pub mod fingerprint;
pub mod instance;
pub mod layout;
pub mod lock;
pub mod log;
pub mod pending;
pub mod regular;
pub mod scratch;
pub mod shared;
pub mod version;
pub mod walk;

use std::path::{Path, PathBuf};

use crate::env;
use crate::error::{Explain, KERNEL_LOG, Kind, is_of_disk};

pub use layout::Home;

/// Why a home can't be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// There is no home folder of a user to look in.
    #[error("this user has no home folder, and neither --home nor FLOCK_HOME is given")]
    Nowhere,
    /// The path is not one a home can have.
    #[error("{} can't be a home: {reason}", path.display())]
    Unusable {
        /// The path.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// Nothing has been set up there.
    #[error("flock is not set up in {}", root.display())]
    NotInitialised {
        /// The home.
        root: PathBuf,
    },
    /// The home has no instance id.
    #[error("{} is missing or empty", path.display())]
    NoInstance {
        /// The file.
        path: PathBuf,
    },
    /// A newer flock made it.
    #[error("{} has format {found}; this flock writes format {known}", root.display())]
    Newer {
        /// The home.
        root: PathBuf,
        /// Its format.
        found: u32,
        /// The newest this flock knows.
        known: u32,
    },
    /// The format number can't be read.
    #[error("{} does not hold a format number", path.display())]
    BadVersion {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else holds a lock.
    #[error("another process holds {}", path.display())]
    Held {
        /// The lock.
        path: PathBuf,
    },
    /// Other users can look into it, and that can't be changed.
    #[error("other users can look into {}, which could not be closed to them", path.display())]
    Open {
        /// Which folder.
        path: PathBuf,
        /// Why; `None` where the file system keeps no rights.
        #[source]
        source: Option<std::io::Error>,
    },
    /// A file or folder of the home failed.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// As in `write`.
        verb: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
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
            Self::Open { path, source: Some(_) } => {
                let path = path.display();
                Some(format!("sudo chown $(id -u) {path} && chmod 700 {path}"))
            }
            Self::Open { .. } => {
                Some("use --home with a folder on a file system that keeps rights".to_owned())
            }
            Self::Io { source, .. } if is_of_disk(source) => Some(KERNEL_LOG.to_owned()),
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

/// The home format this flock writes.
pub const FORMAT: u32 = 1;

impl Home {
    /// Finds the home: the one given, else `FLOCK_HOME`, else `~/.flock`. It need not exist yet.
    ///
    /// # Errors
    ///
    /// If there is no place for one, or the path is a file.
    pub fn locate(given: Option<&Path>) -> Result<Self, HomeError> {
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
        // Docker's bind syntax and the control characters of a terminal both end in trouble much later.
        if chosen.to_str().is_none_or(|text| text.contains(':') || text.chars().any(char::is_control)) {
            return Err(HomeError::Unusable {
                path: chosen,
                reason: "its path is not plain text, or has a ':' in it",
            });
        }
        Ok(Self::new(chosen, default.as_deref()))
    }

    /// Fails unless `init` has made this home.
    ///
    /// # Errors
    ///
    /// [`HomeError::NotInitialised`].
    pub fn require(&self) -> Result<(), HomeError> {
        if self.config().exists() {
            Ok(())
        } else {
            Err(HomeError::NotInitialised { root: self.root().to_owned() })
        }
    }

    /// Makes the folders that are missing, each with its mode, and closes the home to other users.
    ///
    /// # Errors
    ///
    /// If one can't be made, and as [`Home::close`].
    pub fn make_folders(&self) -> Result<(), HomeError> {
        use std::os::unix::fs::DirBuilderExt as _;
        for (path, mode) in self.folders() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(&path)
                .map_err(|source| HomeError::Io { verb: "make the folder", path: path.clone(), source })?;
        }
        self.close()
    }

    /// Takes from other users what rights they have to the home and to its most private folders. A workspace in it may hold
    /// programs that run with its owner's rights.
    ///
    /// # Errors
    ///
    /// [`HomeError::Open`] where others still have some.
    pub fn close(&self) -> Result<(), HomeError> {
        use std::os::unix::fs::PermissionsExt as _;
        for path in [self.root().to_owned(), self.data(), self.secrets()] {
            let mode = || std::fs::metadata(&path).map(|found| found.permissions().mode() & 0o7777);
            let Ok(found) = mode() else { continue };
            if found & 0o077 == 0 {
                continue;
            }
            let closed = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(found & !0o077));
            // Some file systems take any mode and keep their own.
            let is_closed = mode().is_ok_and(|now| now & 0o077 == 0);
            if closed.is_err() || !is_closed {
                return Err(HomeError::Open { path, source: closed.err() });
            }
        }
        Ok(())
    }
}

/// The path, or the nearest folder above it that is there: a command can't look at a file that could not be made.
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

/// The canonical form of a path whose last parts may not exist yet. For comparing where things are, never for opening
/// what an agent can write.
#[must_use]
pub fn canonical(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
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
