//! The flake that packages come from: a pinned one of nixpkgs, or what the configuration names. A flake in a
//! folder of this machine is carried into the store's container, which sees nothing of the host.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::NixError;

/// The flake where the configuration names none: a release that every Nix from 2.4 on can read.
pub const DEFAULT_FLAKE: &str = "github:NixOS/nixpkgs/24.11";

/// Where packages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flake {
    /// A reference that Nix fetches itself.
    Remote(String),
    /// A folder of this machine.
    Folder(PathBuf),
}

impl Flake {
    /// The configured flake, or the default one.
    pub fn configured(configured: Option<&str>) -> Result<Self, NixError> {
        let flake = configured.unwrap_or(DEFAULT_FLAKE);
        let bad = |reason: &str| NixError::Flake { flake: flake.to_owned(), reason: reason.to_owned() };
        if flake.chars().any(|c| c.is_control() || c.is_whitespace() || c == '#') || flake.starts_with('-') {
            return Err(bad("it is not a reference of a flake"));
        }
        if let Some(folder) = flake.strip_prefix("path:") {
            let folder = folder.split('?').next().unwrap_or_default();
            return if folder.starts_with('/') {
                Ok(Self::Folder(folder.into()))
            } else {
                Err(bad("its path is not absolute"))
            };
        }
        if !flake.contains(':') {
            return Err(bad("write it as in github:NixOS/nixpkgs/24.11, or path:/a/folder"));
        }
        Ok(Self::Remote(flake.to_owned()))
    }

    /// The reference inside the store's container.
    pub fn inside(&self) -> String {
        match self {
            Self::Remote(reference) => reference.clone(),
            Self::Folder(folder) => format!("path:{}", Self::folder_inside(folder)),
        }
    }

    /// Where a folder of the host is inside: the same place each time, so that its packages keep their
    /// origin.
    pub fn folder_inside(folder: &Path) -> String {
        use std::os::unix::ffi::OsStrExt as _;
        let digest = Sha256::digest(folder.as_os_str().as_bytes());
        let name = crate::id::hex(&digest[..8]);
        format!("/var/lib/flock/flakes/{name}")
    }
}

/// A folder as a tar archive. Links are carried as links.
pub fn pack(folder: &Path) -> Result<Bytes, NixError> {
    let failed = |source| NixError::FlakeFolder { path: folder.to_owned(), source };
    fs_err::metadata(folder.join("flake.nix")).map_err(failed)?;
    let size = size(folder, MAX_BYTES).map_err(failed)?;
    if size > MAX_BYTES {
        return Err(failed(std::io::Error::other(format!("it holds more than {MAX_BYTES} bytes"))));
    }
    let mut tar = tar::Builder::new(Vec::new());
    tar.follow_symlinks(false);
    tar.append_dir_all(".", folder).map_err(failed)?;
    Ok(tar.into_inner().map_err(failed)?.into())
}

/// The bytes below a folder, counted until there are more than `enough`.
fn size(folder: &Path, enough: u64) -> std::io::Result<u64> {
    let mut total = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                total += entry.metadata()?.len();
            }
            total += 512;
            if total > enough {
                return Ok(total);
            }
        }
    }
    Ok(total)
}

const MAX_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flake_is_fetched_or_a_folder() {
        let remote = Flake::configured(None).unwrap();
        assert_eq!(remote.inside(), DEFAULT_FLAKE);
        let folder = Flake::configured(Some("path:/srv/flake")).unwrap();
        assert_eq!(folder, Flake::Folder("/srv/flake".into()));
        assert!(folder.inside().starts_with("path:/var/lib/flock/flakes/"));
        for bad in ["path:relative", "-x", "nixpkgs", "github:a/b#c", "a b:c", ""] {
            assert!(Flake::configured(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_folder_without_a_flake_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = pack(folder.path()).unwrap_err().to_string();
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }
}
