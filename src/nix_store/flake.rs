//! The flake that packages come from: nixpkgs, or the one that the configuration names. A flake in a folder of this
//! machine is copied into the store, because the store's container does not see the host.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::NixError;

/// The flake if the configuration names none.
pub(crate) const DEFAULT_FLAKE: &str = "github:NixOS/nixpkgs";
/// The revision of the default flake. It is the last one of release 24.11, which every Nix from 2.4 on can read.
pub(crate) const DEFAULT_REV: &str = "50ab793786d9de88ee30ec4e4c24fb4236fc2674";
/// The hash of that revision's content.
pub(crate) const DEFAULT_NAR_HASH: &str = "sha256-/bVBlRpECLVzjV19t5KMdMFWSwKLtb5RyXdjz3LJT+g=";

/// A source of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flake {
    /// A flake reference that Nix fetches itself.
    Remote(String),
    /// A folder of this machine.
    Folder(PathBuf),
}

impl Flake {
    /// Parses the configured flake, or returns the default one.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::Flake`] for a text that is not a usable reference.
    pub fn configured(configured: Option<&str>) -> Result<Self, NixError> {
        let flake = configured.unwrap_or(DEFAULT_FLAKE);
        let bad = |reason: &str| NixError::Flake { flake: flake.to_owned(), reason: reason.to_owned() };
        // The reference becomes a quoted word of a shell script, so quotes and other special characters are refused.
        let plain = |c: char| c.is_ascii_graphic() && !"#'\"\\`$".contains(c);
        if !flake.chars().all(|c| plain(c) || (flake.starts_with("path:") && !c.is_control()))
            || flake.starts_with('-')
        {
            return Err(bad("it is not a reference of a flake"));
        }
        if let Some(folder) = flake.strip_prefix("path:") {
            // Nothing would read a query, so the packages would not be those that `?dir=` asks for.
            if folder.contains('?') {
                return Err(bad("a folder has no query: name the folder that has the flake.nix"));
            }
            return if folder.starts_with('/') {
                Ok(Self::Folder(folder.into()))
            } else {
                Err(bad("its path is not absolute"))
            };
        }
        if !flake.contains(':') {
            return Err(bad("write it as in github:NixOS/nixpkgs/24.11, or path:/a/folder"));
        }
        // The pinned content is evaluated as a path of the store, and not every Nix from 2.4 on takes `dir` for a path.
        let query = flake.split_once('?').map_or("", |(_, query)| query);
        if query.split('&').any(|pair| pair.starts_with("dir=")) {
            return Err(bad("its flake.nix must be at the top of the repository, so there can be no dir="));
        }
        Ok(Self::Remote(flake.to_owned()))
    }

    /// Returns the reference of this flake at a revision, for example `github:NixOS/nixpkgs/50ab7937…`.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::NoRevision`] if this kind of flake has no revisions, or if `rev` is not a commit id of 7 to
    /// 40 hexadecimal digits.
    pub fn at(&self, rev: &str) -> Result<String, NixError> {
        let none = || NixError::NoRevision { flake: self.reference() };
        let Self::Remote(reference) = self else { return Err(none()) };
        if rev.len() < 7 || rev.len() > 40 || !rev.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(none());
        }
        let (place, query) = reference.split_once('?').unwrap_or((reference, ""));
        let (scheme, rest) = place.split_once(':').ok_or_else(none)?;
        // These schemes name the revision in the path. Git URLs name it in the query.
        if ["github", "gitlab", "sourcehut"].contains(&scheme) {
            let mut parts = rest.split('/');
            let (Some(owner), Some(repository)) = (parts.next(), parts.next()) else { return Err(none()) };
            // `host=` names a server of one's own, without which the revision would be looked for at the public one.
            let host = query.split('&').find(|pair| pair.starts_with("host="));
            let query = host.map(|host| format!("?{host}")).unwrap_or_default();
            return Ok(format!("{scheme}:{owner}/{repository}/{rev}{query}"));
        }
        if scheme != "git" && !scheme.starts_with("git+") {
            return Err(none());
        }
        let others = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("rev="));
        let query: Vec<String> = others.map(str::to_owned).chain([format!("rev={rev}")]).collect();
        Ok(format!("{place}?{}", query.join("&")))
    }

    /// Returns the reference as it was configured.
    pub fn reference(&self) -> String {
        match self {
            Self::Remote(reference) => reference.clone(),
            Self::Folder(folder) => format!("path:{}", folder.display()),
        }
    }
}

/// Packs a folder into a tar archive. Symbolic links are stored as links.
///
/// # Errors
///
/// Returns [`NixError::FlakeFolder`] if the folder has no `flake.nix`, cannot be read, or holds more than `MAX_BYTES`.
pub fn pack(folder: &Path) -> Result<Bytes, NixError> {
    let failed = |source| NixError::FlakeFolder { path: folder.to_owned(), source };
    fs_err::metadata(folder.join("flake.nix")).map_err(failed)?;
    // The size is counted first, because the archive is built in memory.
    let size = size(folder, MAX_BYTES).map_err(failed)?;
    if size > MAX_BYTES {
        return Err(failed(std::io::Error::other(format!("it holds more than {MAX_BYTES} bytes"))));
    }
    let mut tar = tar::Builder::new(Vec::new());
    tar.follow_symlinks(false);
    tar.append_dir_all(".", folder).map_err(failed)?;
    Ok(tar.into_inner().map_err(failed)?.into())
}

/// Returns the number of bytes below a folder. Counting stops when it exceeds `enough`.
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
            // Each entry has a header of 512 bytes in the archive, so many empty files are limited, too.
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
    fn a_flake_reference_is_remote_or_a_folder() {
        let remote = Flake::configured(None).unwrap();
        assert_eq!(remote.reference(), DEFAULT_FLAKE);
        let folder = Flake::configured(Some("path:/srv/flake")).unwrap();
        assert_eq!(folder, Flake::Folder("/srv/flake".into()));
        assert_eq!(folder.reference(), "path:/srv/flake");
        let rev = "50ab793786d9de88ee30ec4e4c24fb4236fc2674";
        for (flake, at) in [
            ("github:NixOS/nixpkgs/24.11", "github:NixOS/nixpkgs/50ab793786d9de88ee30ec4e4c24fb4236fc2674"),
            (
                "gitlab:a/b/main?host=git.a.example&ref=x",
                "gitlab:a/b/50ab793786d9de88ee30ec4e4c24fb4236fc2674?host=git.a.example",
            ),
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
    fn a_flake_in_a_subfolder_is_refused_and_not_taken_for_the_one_above_it() {
        for bad in [
            "path:/srv/flake?dir=sub",
            "path:/srv/flake?",
            "github:a/b?dir=sub",
            "git+https://a.example/b?ref=main&dir=sub",
        ] {
            assert!(matches!(Flake::configured(Some(bad)), Err(NixError::Flake { .. })), "{bad}");
        }
        assert!(Flake::configured(Some("git+https://a.example/b?ref=dir=sub")).is_ok());
    }

    #[test]
    fn a_folder_without_a_flake_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = pack(folder.path()).unwrap_err().to_string();
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }
}
