//! The flake that packages come from: nixpkgs, or what the configuration names. A flake in a folder of this
//! machine is copied into the store, whose container sees nothing of the host.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::NixError;

/// The flake where the configuration names none.
pub const DEFAULT_FLAKE: &str = "github:NixOS/nixpkgs";
/// Its revision: the last of the release 24.11, which every Nix from 2.4 on can read.
pub const DEFAULT_REV: &str = "50ab793786d9de88ee30ec4e4c24fb4236fc2674";
/// The hash of that revision's content.
pub const DEFAULT_NAR_HASH: &str = "sha256-/bVBlRpECLVzjV19t5KMdMFWSwKLtb5RyXdjz3LJT+g=";

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
        // It becomes a quoted word of a script.
        let plain = |c: char| c.is_ascii_graphic() && !"#'\"\\`$".contains(c);
        if !flake.chars().all(|c| plain(c) || (flake.starts_with("path:") && !c.is_control()))
            || flake.starts_with('-')
        {
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

    /// The same flake at a revision, as in `github:NixOS/nixpkgs/50ab7937…`.
    ///
    /// # Errors
    ///
    /// [`NixError::NoRevision`] where it has none, or where this can't be one.
    pub fn at(&self, rev: &str) -> Result<String, NixError> {
        let none = || NixError::NoRevision { flake: self.reference() };
        let Self::Remote(reference) = self else { return Err(none()) };
        if rev.len() < 7 || rev.len() > 40 || !rev.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(none());
        }
        let (place, query) = reference.split_once('?').unwrap_or((reference, ""));
        let (scheme, rest) = place.split_once(':').ok_or_else(none)?;
        if ["github", "gitlab", "sourcehut"].contains(&scheme) {
            let mut parts = rest.split('/');
            let (Some(owner), Some(repository)) = (parts.next(), parts.next()) else { return Err(none()) };
            return Ok(format!("{scheme}:{owner}/{repository}/{rev}"));
        }
        if scheme != "git" && !scheme.starts_with("git+") {
            return Err(none());
        }
        let others = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("rev="));
        let query: Vec<String> = others.map(str::to_owned).chain([format!("rev={rev}")]).collect();
        Ok(format!("{place}?{}", query.join("&")))
    }

    /// The reference as it was configured.
    pub fn reference(&self) -> String {
        match self {
            Self::Remote(reference) => reference.clone(),
            Self::Folder(folder) => format!("path:{}", folder.display()),
        }
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
        assert_eq!(remote.reference(), DEFAULT_FLAKE);
        let folder = Flake::configured(Some("path:/srv/flake")).unwrap();
        assert_eq!(folder, Flake::Folder("/srv/flake".into()));
        assert_eq!(folder.reference(), "path:/srv/flake");
        let rev = "50ab793786d9de88ee30ec4e4c24fb4236fc2674";
        for (flake, at) in [
            ("github:NixOS/nixpkgs/24.11", "github:NixOS/nixpkgs/50ab793786d9de88ee30ec4e4c24fb4236fc2674"),
            (
                "git+https://a.example/b?ref=main&rev=00",
                "git+https://a.example/b?ref=main&rev=50ab793786d9de88ee30ec4e4c24fb4236fc2674",
            ),
        ] {
            assert_eq!(Flake::configured(Some(flake)).unwrap().at(rev).unwrap(), at);
        }
        assert!(folder.at(rev).is_err() && remote.at("24.11").is_err());
        for bad in
            ["github:a/b'c", "github:a/$(id)", "path:relative", "-x", "nixpkgs", "github:a/b#c", "a b:c", ""]
        {
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
