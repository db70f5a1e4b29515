//! The pin of the package set: a revision and the hash of its content, recorded in the home. If an agent names a
//! package of the set, only content with that hash is ever evaluated.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::flake::{DEFAULT_FLAKE, DEFAULT_NAR_HASH, DEFAULT_REV, Flake};
use super::path::StorePath;
use super::{NixError, nar};
use crate::home::{Home, atomic};

/// A package set that is fixed to one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pin {
    /// The flake as it is configured.
    pub flake: String,
    /// The reference with its revision, for example `github:NixOS/nixpkgs/50ab7937…`. For a folder it is the same as
    /// `flake`.
    pub locked: String,
    /// The hash of the content, as `sha256-…`.
    pub nar_hash: String,
}

impl Pin {
    /// Returns the pin of a configured flake: the one recorded in the home, otherwise the built-in one. `None` if the
    /// flake is not pinned yet.
    ///
    /// # Errors
    ///
    /// Fails if the flake cannot be used or the record cannot be read.
    pub fn read(home: &Home, configured: Option<&str>) -> Result<Option<Self>, NixError> {
        let flake = Flake::configured(configured)?.reference();
        let recorded = match atomic::read(&home.nix_pin(), MAX_RECORD)? {
            None => None,
            Some(bytes) => match serde_json::from_slice::<Self>(&bytes) {
                Ok(pin) => Some(pin),
                Err(error) => {
                    return Err(NixError::PinRecord { path: home.nix_pin(), reason: error.to_string() });
                }
            },
        };
        let built_in = || {
            (flake == DEFAULT_FLAKE).then(|| Self {
                flake: flake.clone(),
                locked: format!("{DEFAULT_FLAKE}/{DEFAULT_REV}"),
                nar_hash: DEFAULT_NAR_HASH.to_owned(),
            })
        };
        // A record of another flake does not count, because the configuration has changed since.
        Ok(recorded.filter(|pin| pin.flake == flake).or_else(built_in))
    }

    /// Records the pin in the home.
    pub fn write(&self, home: &Home) -> Result<(), NixError> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        Ok(atomic::write(&home.nix_pin(), &text, 0o600)?)
    }

    /// Pins a folder to its current content and records the pin.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read, has no `flake.nix`, or the home cannot be written.
    pub fn folder(home: &Home, folder: &Path) -> Result<Self, NixError> {
        let flake = Flake::Folder(folder.to_owned()).reference();
        let pin = Self { locked: flake.clone(), flake, nar_hash: folder_hash(folder)? };
        pin.write(home)?;
        Ok(pin)
    }

    /// Returns the path of the content in the store. No other content can be at this path.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::PinRecord`] if the recorded hash is not a SHA-256.
    pub(crate) fn source(&self, home: &Home) -> Result<StorePath, NixError> {
        let digest = self.nar_hash.strip_prefix("sha256-").and_then(|text| STANDARD.decode(text).ok());
        let digest: Option<[u8; 32]> = digest.and_then(|bytes| bytes.try_into().ok());
        let reason = format!("{:?} is no hash", self.nar_hash);
        let digest = digest.ok_or(NixError::PinRecord { path: home.nix_pin(), reason })?;
        Ok(StorePath::for_source(&digest))
    }
}

/// Returns the hash of a folder's content, as `sha256-…`.
///
/// # Errors
///
/// Returns [`NixError::FlakeFolder`] if the folder cannot be read or has no `flake.nix`.
pub(crate) fn folder_hash(folder: &Path) -> Result<String, NixError> {
    let failed = |source| NixError::FlakeFolder { path: folder.to_owned(), source };
    fs_err::metadata(folder.join("flake.nix")).map_err(failed)?;
    Ok(format!("sha256-{}", STANDARD.encode(nar::hash(folder).map_err(failed)?)))
}

/// Pins a configured folder that has no pin yet, because the owner's configuration names it. A flake that has to be
/// fetched is not pinned here.
///
/// # Errors
///
/// Fails under the same conditions as [`Pin::read`] and [`Pin::folder`].
pub(crate) fn adopt(home: &Home, configured: Option<&str>) -> Result<Option<Pin>, NixError> {
    match (Flake::configured(configured)?, Pin::read(home, configured)?) {
        (Flake::Folder(folder), None) => Pin::folder(home, &folder).map(Some),
        (_, pin) => Ok(pin),
    }
}

const MAX_RECORD: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path) -> Home {
        let home = Home::new(folder.join("home"), None);
        home.make_folders().unwrap();
        home
    }

    #[test]
    fn the_built_in_set_is_a_revision_with_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let pin = Pin::read(&home, None).unwrap().unwrap();
        let rev = pin.locked.rsplit('/').next().unwrap();
        assert!(rev.len() == 40 && rev.bytes().all(|byte| byte.is_ascii_hexdigit()), "{rev}");
        assert!(pin.source(&home).unwrap().as_str().ends_with("-source"));
        assert_eq!(Pin::read(&home, Some("github:NixOS/nixpkgs/24.11")).unwrap(), None);
    }

    #[test]
    fn a_folder_is_pinned_once_and_a_record_of_another_flake_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let flake = folder.path().join("flake");
        std::fs::create_dir(&flake).unwrap();
        let configured = format!("path:{}", flake.display());
        assert!(adopt(&home, Some(&configured)).is_err(), "there is no flake.nix in it");
        std::fs::write(flake.join("flake.nix"), "{ outputs = _: { }; }").unwrap();
        let pin = adopt(&home, Some(&configured)).unwrap().unwrap();
        std::fs::write(flake.join("flake.nix"), "{ outputs = _: { a = 1; }; }").unwrap();
        assert_eq!(adopt(&home, Some(&configured)).unwrap(), Some(pin.clone()), "nobody moved it");
        assert_ne!(folder_hash(&flake).unwrap(), pin.nar_hash);
        assert_eq!(Pin::read(&home, Some("path:/elsewhere")).unwrap(), None);
        std::fs::write(home.nix_pin(), "{}").unwrap();
        assert!(Pin::read(&home, None).is_err(), "a record that can't be read is not taken for none");
    }
}
