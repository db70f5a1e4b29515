//! The lock of a server's package: every package that belongs to it, with the hash of its archive.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha512};

use super::error::PackageError;
use super::spec::Request;
use crate::config::mcp_package::{is_sha256, is_version};
use crate::config::{McpPackage, PackageSource};
use crate::home::{Home, atomic};
use crate::id::{McpServerName, hex};

/// The version of the form of a lock.
const FORMAT: u32 = 1;
/// The most packages of a lock, and the most bytes of one.
pub(super) const MAX_PACKAGES: usize = 3_000;
const MAX_LOCK: u64 = 4 << 20;

/// Every package that a server's program needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Lock {
    format: u32,
    /// The request that it answers.
    pub request: Request,
    /// The exact version of the server's own package.
    pub version: String,
    /// The runtime of its program.
    pub runtime: PackageRuntime,
    /// All packages, sorted by their folders and names.
    pub packages: Vec<LockedPackage>,
}

/// The runtime of a package's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum PackageRuntime {
    /// Node, which flock fetches from npm.
    #[serde(rename_all = "camelCase")]
    Node { package: String, version: String, integrity: Integrity },
    /// The Python of the sandbox's image.
    #[serde(rename_all = "camelCase")]
    Python { path: String, version: String },
}

/// A package of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LockedPackage {
    pub name: String,
    pub version: String,
    /// The address of its archive.
    pub url: String,
    /// The hash of the archive.
    pub integrity: Integrity,
    /// The folder of a package of npm, as in `node_modules/a`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder: String,
    /// Set if it has an install script. It does not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub install_script: bool,
}

/// The hash of an archive, as registries write it: `sha512-` and base64, or `sha256:` and hex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Integrity {
    Sha512(Vec<u8>),
    Sha256(Vec<u8>),
}

impl TryFrom<String> for Integrity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no hash that flock checks"))
    }
}

impl From<Integrity> for String {
    fn from(hash: Integrity) -> Self {
        hash.to_string()
    }
}

impl std::fmt::Display for Integrity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sha512(bytes) => write!(out, "sha512-{}", STANDARD.encode(bytes)),
            Self::Sha256(bytes) => write!(out, "sha256:{}", hex(bytes)),
        }
    }
}

impl Integrity {
    /// Reads a hash. Of several, as npm allows them, the SHA-512 counts. SHA-1 is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.split_ascii_whitespace().find_map(|one| {
            if let Some(coded) = one.strip_prefix("sha512-") {
                let bytes = STANDARD.decode(coded.split('?').next()?).ok()?;
                return (bytes.len() == 64).then_some(Self::Sha512(bytes));
            }
            let digits = one.strip_prefix("sha256:").filter(|digits| is_sha256(digits))?;
            let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(byte).collect();
            bytes.map(Self::Sha256)
        })
    }

    /// Returns the hash of the same kind over other bytes.
    #[must_use]
    pub fn hasher(&self) -> Hasher {
        match self {
            Self::Sha512(_) => Hasher::Sha512(Sha512::new()),
            Self::Sha256(_) => Hasher::Sha256(Sha256::new()),
        }
    }
}

/// A hash in the making.
pub(crate) enum Hasher {
    Sha512(Sha512),
    Sha256(Sha256),
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha512(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    #[must_use]
    pub fn finish(self) -> Integrity {
        match self {
            Self::Sha512(hash) => Integrity::Sha512(hash.finalize().to_vec()),
            Self::Sha256(hash) => Integrity::Sha256(hash.finalize().to_vec()),
        }
    }
}

impl Lock {
    /// Makes a lock.
    #[must_use]
    pub fn new(
        request: Request,
        version: String,
        runtime: PackageRuntime,
        mut packages: Vec<LockedPackage>,
    ) -> Self {
        packages.sort_by(|one, other| (&one.folder, &one.name).cmp(&(&other.folder, &other.name)));
        Self { format: FORMAT, request, version, runtime, packages }
    }

    /// Returns the text that is stored and hashed.
    fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Returns the SHA-256 of the lock.
    #[must_use]
    pub fn sha256(&self) -> String {
        hex(&Sha256::digest(self.text()))
    }

    /// Returns the server's own package.
    #[must_use]
    pub fn main(&self) -> Option<&LockedPackage> {
        let is_own = |one: &&LockedPackage| match self.request.source {
            PackageSource::Npm => one.folder == format!("node_modules/{}", self.request.name),
            PackageSource::Pypi => normalized(&one.name) == normalized(&self.request.name),
        };
        self.packages.iter().find(is_own)
    }

    /// Returns what the configuration pins.
    #[must_use]
    pub fn pin(&self) -> McpPackage {
        McpPackage {
            source: self.request.source,
            name: self.request.name.clone(),
            version: self.version.clone(),
            lock: self.sha256(),
        }
    }

    /// Writes it into the folder of a server's locks.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be written.
    pub fn store(&self, home: &Home, server: &McpServerName) -> Result<(), PackageError> {
        let folder = home.mcp_locks(server);
        fs_err::create_dir_all(&folder).map_err(PackageError::host(&folder))?;
        Ok(atomic::write(&folder.join(format!("{}.json", self.sha256())), &self.text(), 0o600)?)
    }

    /// Reads the lock that a server's configuration pins.
    ///
    /// # Errors
    ///
    /// Returns [`PackageError::BadLock`] if it is not there, or is not the pinned one.
    pub fn load(home: &Home, server: &McpServerName, package: &McpPackage) -> Result<Self, PackageError> {
        let bad = |why| PackageError::BadLock { server: server.clone(), why };
        let path = home.mcp_locks(server).join(format!("{}.json", package.lock));
        let bytes = atomic::read(&path, MAX_LOCK)?.ok_or_else(|| bad("is not there"))?;
        // The hash comes first: nothing else in it counts if somebody changed it.
        if hex(&Sha256::digest(&bytes)) != package.lock {
            return Err(bad("was changed: it has another hash than the configuration says"));
        }
        let lock: Self = serde_json::from_slice(&bytes).map_err(|_| bad("can't be read"))?;
        lock.check().map_err(|()| bad("can't be read"))?;
        Ok(lock)
    }

    /// Checks what the form of a lock does not say. It stands in paths and command lines later.
    pub(super) fn check(&self) -> Result<(), ()> {
        let folder = |folder: &str| match self.request.source {
            PackageSource::Npm => is_folder(folder),
            PackageSource::Pypi => folder.is_empty(),
        };
        let runtime = match (&self.runtime, self.request.source) {
            (PackageRuntime::Node { package, version, .. }, PackageSource::Npm) => {
                PackageSource::Npm.is_name(package) && !package.contains('/') && is_version(version)
            }
            (PackageRuntime::Python { path, version }, PackageSource::Pypi) => {
                path.starts_with('/') && path.len() < 256 && version.len() < 32
            }
            _ => false,
        };
        let folders: BTreeSet<(&str, &str)> =
            self.packages.iter().map(|one| (one.folder.as_str(), one.name.as_str())).collect();
        let is_good = self.format == FORMAT
            && self.request.is_valid()
            && is_version(&self.version)
            && runtime
            && self.packages.len() <= MAX_PACKAGES
            && folders.len() == self.packages.len()
            && self.packages.iter().all(|one| is_version(&one.version) && folder(&one.folder))
            && self.main().is_some_and(|main| main.version == self.version);
        if is_good { Ok(()) } else { Err(()) }
    }
}

/// Returns `true` for the folder of a package of npm: names of packages, each below a `node_modules`.
#[must_use]
pub(super) fn is_folder(folder: &str) -> bool {
    let plain = Path::new(folder).components().all(|part| matches!(part, Component::Normal(_)));
    let parts = folder.strip_prefix("node_modules/").map(|rest| rest.split("/node_modules/"));
    plain
        && folder.len() <= 1024
        && parts.is_some_and(|mut parts| parts.all(|name| PackageSource::Npm.is_name(name)))
}

/// Returns the form of a name of `PyPI` in which equal names are equal.
#[must_use]
pub(super) fn normalized(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

/// A difference between two locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    pub name: String,
    /// The versions before, with the hash if only that is different. Empty if it is new.
    pub before: Vec<String>,
    /// The versions after. Empty if it is gone.
    pub after: Vec<String>,
}

/// Returns the packages that differ between two locks, by name.
#[must_use]
pub(crate) fn differences(before: &Lock, after: &Lock) -> Vec<Difference> {
    let versions = |lock: &Lock| {
        let mut found: BTreeMap<String, BTreeSet<(String, Integrity)>> = BTreeMap::new();
        for one in &lock.packages {
            let hash = one.integrity.clone();
            found.entry(one.name.clone()).or_default().insert((one.version.clone(), hash));
        }
        found
    };
    let (old, new) = (versions(before), versions(after));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    changed
        .map(|name| {
            let of = |found: &BTreeMap<String, BTreeSet<(String, Integrity)>>| -> Vec<(String, Integrity)> {
                found.get(name).into_iter().flatten().cloned().collect()
            };
            let (before, after) = (of(&old), of(&new));
            let same_versions = before.iter().map(|one| &one.0).eq(after.iter().map(|one| &one.0));
            let write = |all: Vec<(String, Integrity)>| {
                let one = |(version, hash): (String, Integrity)| {
                    // A version whose archive was replaced: the hash is the difference.
                    if same_versions { format!("{version} ({hash})") } else { version }
                };
                all.into_iter().map(one).collect()
            };
            Difference { name: name.clone(), before: write(before), after: write(after) }
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn package(name: &str, version: &str, content: &[u8]) -> LockedPackage {
        LockedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            url: format!("https://registry.npmjs.org/{name}/-/x-{version}.tgz"),
            integrity: Integrity::Sha512(Sha512::digest(content).to_vec()),
            folder: format!("node_modules/{name}"),
            install_script: false,
        }
    }

    pub(crate) fn lock(packages: Vec<LockedPackage>) -> Lock {
        let request = Request::parse(PackageSource::Npm, "@a/main@^1").unwrap();
        let version = packages[0].version.clone();
        let integrity = Integrity::Sha512(Sha512::digest(b"node").to_vec());
        let node =
            PackageRuntime::Node { package: "node-x".to_owned(), version: "22.1.0".to_owned(), integrity };
        Lock::new(request, version, node, packages)
    }

    #[test]
    fn hashes_are_read_as_registries_write_them_and_weak_ones_are_none() {
        let strong = Integrity::Sha512(Sha512::digest(b"x").to_vec());
        assert_eq!(Integrity::parse(&strong.to_string()), Some(strong.clone()));
        assert_eq!(Integrity::parse(&format!("sha1-abc= {strong}?opt")), Some(strong));
        let other = Integrity::Sha256(Sha256::digest(b"x").to_vec());
        assert_eq!(Integrity::parse(&other.to_string()), Some(other));
        for text in ["", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "sha512-", "sha512-AAAA", "sha256:00", "md5-x"]
        {
            assert_eq!(Integrity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_stored_lock_is_read_again_and_a_changed_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let server = "a".parse().unwrap();
        let made = lock(vec![package("@a/main", "1.2.3", b"1"), package("b", "2.0.0", b"2")]);
        made.store(&home, &server).unwrap();
        let pin = made.pin();
        assert_eq!(Lock::load(&home, &server, &pin).unwrap(), made);
        let path = home.mcp_locks(&server).join(format!("{}.json", pin.lock));
        let text = fs_err::read_to_string(&path).unwrap();
        fs_err::write(&path, text.replace("2.0.0", "2.0.1")).unwrap();
        let error = Lock::load(&home, &server, &pin).unwrap_err();
        assert!(error.to_string().contains("was changed"), "{error}");
        fs_err::remove_file(&path).unwrap();
        assert!(Lock::load(&home, &server, &pin).unwrap_err().to_string().contains("not there"));
    }

    #[test]
    fn a_lock_with_a_folder_elsewhere_is_refused() {
        for folder in [
            "node_modules/../x",
            "../x",
            "/etc",
            "x",
            "node_modules",
            "node_modules/",
            "node_modules/a/../b",
            "node_modules/a/b",
            "node_modules/a//node_modules/b",
            "node_modules/.bin",
            "node_modules/a/node_modules/.b",
        ] {
            let mut bad = package("b", "1.0.0", b"x");
            bad.folder = folder.to_owned();
            let made = lock(vec![package("@a/main", "1.2.3", b"1"), bad]);
            assert!(made.check().is_err(), "{folder}");
        }
        let mut deep = package("b", "1.0.0", b"x");
        deep.folder = "node_modules/@a/main/node_modules/b".to_owned();
        assert!(lock(vec![package("@a/main", "1.2.3", b"1"), deep]).check().is_ok());
        let other = lock(vec![package("@a/other", "1.2.3", b"1")]);
        assert!(other.check().is_err(), "the server's own package is missing");
    }

    #[test]
    fn differences_name_each_package_and_also_a_swapped_archive() {
        let before = lock(vec![
            package("@a/main", "1.0.0", b"1"),
            package("same", "1.0.0", b"s"),
            package("gone", "1.0.0", b"g"),
            package("swapped", "1.0.0", b"x"),
        ]);
        let after = lock(vec![
            package("@a/main", "1.1.0", b"2"),
            package("same", "1.0.0", b"s"),
            package("new", "3.0.0", b"n"),
            package("swapped", "1.0.0", b"y"),
        ]);
        let found = differences(&before, &after);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["@a/main", "gone", "new", "swapped"]);
        assert_eq!(
            (found[0].before.join(" "), found[0].after.join(" ")),
            ("1.0.0".to_owned(), "1.1.0".to_owned())
        );
        assert!(found[1].after.is_empty() && found[2].before.is_empty());
        assert!(found[3].before[0].starts_with("1.0.0 (sha512-") && found[3].before != found[3].after);
        assert_eq!(differences(&before, &before), []);
    }
}
