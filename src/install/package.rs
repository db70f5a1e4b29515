//! Reads what a checkout says about itself: its `package.json` and the files beside it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::error::io;

/// The program that Node runs.
pub(crate) const ENTRY: &str = "openclaw.mjs";

/// The parts of `package.json` that flock needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Package {
    pub version: String,
    pub engines: Engines,
    /// Manager, version and checksum, as in `pnpm@10.23.0+sha512.…`.
    pub package_manager: Option<String>,
    pub scripts: BTreeMap<String, String>,
    /// The packages that it needs to run, by name.
    pub dependencies: BTreeMap<String, serde_json::Value>,
    /// The packages that its developers need, by name.
    pub dev_dependencies: BTreeMap<String, serde_json::Value>,
}

/// The programs that a package runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Engines {
    /// A range of Node versions.
    pub node: Option<String>,
}

/// A checkout on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkout {
    pub package: Package,
    /// The lock files that exist.
    pub locks: Vec<&'static str>,
    /// `true` if it is built: `dist` exists and is not empty.
    pub built: bool,
    /// `true` if it has sources to build.
    pub sources: bool,
    /// `true` if it is a workspace of many packages, like OpenClaw's source.
    pub workspace: bool,
    /// `true` if all of its dependencies are installed. An existing `node_modules` folder does not prove that, because
    /// a published package contains its bundled dependencies there.
    pub installed: bool,
}

/// Lock files. Each belongs to one package manager.
pub(crate) const LOCK_FILES: [&str; 6] =
    ["pnpm-lock.yaml", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "bun.lock", "bun.lockb"];

/// Reads a checkout.
///
/// # Errors
///
/// Returns the reason why the folder is not an OpenClaw, in words for a person.
pub(crate) fn read(root: &Path) -> Result<Checkout, String> {
    let file = root.join("package.json");
    let bytes = crate::home::atomic::read(&file, MAX_PACKAGE_JSON)
        .map_err(|error| crate::error::chain(&error))?
        .ok_or("it has no package.json")?;
    let package: Package =
        serde_json::from_slice(&bytes).map_err(|error| format!("its package.json can't be read: {error}"))?;
    if !root.join(ENTRY).is_file() {
        return Err(format!("it has no {ENTRY}"));
    }
    if !is_safe_version(&package.version) {
        return Err("its package.json has no version that can name a folder".to_owned());
    }
    let has_entries =
        |name: &str| std::fs::read_dir(root.join(name)).is_ok_and(|mut dir| dir.next().is_some());
    Ok(Checkout {
        locks: LOCK_FILES.into_iter().filter(|name| root.join(name).is_file()).collect(),
        built: has_entries("dist"),
        sources: root.join("src").is_dir() || root.join("tsconfig.json").is_file(),
        workspace: root.join("pnpm-workspace.yaml").is_file() || is_workspace(&bytes),
        installed: package.dependencies.keys().all(|name| root.join("node_modules").join(name).is_dir()),
        package,
    })
}

// npm, Yarn and Bun name the packages here, pnpm in its own file.
fn is_workspace(package: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(package)
        .is_ok_and(|package| package.get("workspaces").is_some())
}

/// Returns `true` if a version is safe as a part of a folder's name.
fn is_safe_version(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'))
}

/// Removes the files that an interrupted build left in a checkout, so that the next build starts from the cloned files.
/// With `keep_dependencies` the installed dependencies stay.
pub(super) fn clean(
    repository: &git2::Repository,
    keep_dependencies: bool,
) -> Result<(), super::InstallError> {
    let Some(root) = repository.workdir() else { return Ok(()) };
    let mut options = git2::StatusOptions::new();
    options
        .include_untracked(true)
        .include_ignored(true)
        // A folder of new files is one entry and is removed as a whole.
        .recurse_untracked_dirs(false)
        .recurse_ignored_dirs(false);
    let fail = |source| super::InstallError::Fetch {
        verb: "look through",
        repository: root.display().to_string(),
        source,
    };
    let statuses = repository.statuses(Some(&mut options)).map_err(fail)?;
    for entry in statuses.iter() {
        let status = entry.status();
        if !status.intersects(git2::Status::WT_NEW | git2::Status::IGNORED) {
            continue;
        }
        // Paths are bytes: a file name need not be UTF-8.
        let relative = entry.path_bytes();
        let path = {
            use std::os::unix::ffi::OsStrExt as _;
            Path::new(std::ffi::OsStr::from_bytes(relative)).to_owned()
        };
        if keep_dependencies && path.components().any(|part| part.as_os_str() == "node_modules") {
            continue;
        }
        let full = root.join(&path);
        // A link is removed itself, never its target.
        let removed = match full.symlink_metadata() {
            Ok(there) if there.is_dir() => fs_err::remove_dir_all(&full),
            Ok(_) => fs_err::remove_file(&full),
            Err(_) => Ok(()),
        };
        removed.map_err(io("remove", full))?;
    }
    Ok(())
}

const MAX_PACKAGE_JSON: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_versions_are_refused() {
        for (text, expected) in [
            ("2026.2.9", true),
            ("2026.9.6-beta.1+build", true),
            ("", false),
            ("../../x", false),
            ("1/2", false),
            ("v1", false),
            ("1 2", false),
        ] {
            assert_eq!(is_safe_version(text), expected, "{text:?}");
        }
    }

    #[test]
    fn missing_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).unwrap_err().contains("no package.json"));
        std::fs::write(dir.path().join("package.json"), "{").unwrap();
        assert!(read(dir.path()).unwrap_err().contains("can't be read"));
        std::fs::write(dir.path().join("package.json"), r#"{"version":"1.0.0","scripts":{"build":"x"}}"#)
            .unwrap();
        assert!(read(dir.path()).unwrap_err().contains(ENTRY));
        std::fs::write(dir.path().join(ENTRY), "").unwrap();
        std::fs::write(dir.path().join("yarn.lock"), "").unwrap();
        let found = read(dir.path()).unwrap();
        assert_eq!(
            (found.locks.as_slice(), found.built, found.workspace),
            (["yarn.lock"].as_slice(), false, false)
        );
    }

    #[test]
    fn bundled_dependencies_are_not_all_dependencies() {
        let dir = tempfile::tempdir().unwrap();
        let package = r#"{"version":"1.0.0","dependencies":{"bundled":"1","@own/other":"2"}}"#;
        std::fs::write(dir.path().join("package.json"), package).unwrap();
        std::fs::write(dir.path().join(ENTRY), "").unwrap();
        std::fs::create_dir_all(dir.path().join("node_modules/bundled")).unwrap();
        assert!(!read(dir.path()).unwrap().installed);
        std::fs::create_dir_all(dir.path().join("node_modules/@own/other")).unwrap();
        assert!(read(dir.path()).unwrap().installed);
    }
}
