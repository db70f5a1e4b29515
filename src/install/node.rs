//! Finds a suitable Node.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nodejs_semver::{Range, Version};

use super::InstallError;
use crate::config::OpenClawSettings;
use crate::env;

/// An installed Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub path: PathBuf,
    /// Version, as in `22.12.0`.
    pub version: String,
}

/// Returns the Node that a person named. The environment variable wins over the configuration.
#[must_use]
pub(crate) fn chosen(settings: &OpenClawSettings) -> Option<PathBuf> {
    env::NODE.get_os().map(PathBuf::from).or_else(|| settings.node.clone())
}

/// Returns the named Node, or else the first one on PATH that fits `engines.node` of the package.
///
/// # Errors
///
/// Returns [`InstallError::Node`] with the required range and the versions that were found.
pub(crate) fn find(engines: Option<&str>, chosen: Option<&Path>) -> Result<Node, InstallError> {
    let candidates: Vec<PathBuf> = match chosen {
        Some(path) => vec![path.to_owned()],
        // All of them: the first one on PATH may be too old, while a later one fits.
        None => which::which_all("node").into_iter().flatten().collect(),
    };
    let mut seen = Vec::new();
    for path in candidates {
        let Some(version) = version_of(&path) else {
            seen.push(format!("{} does not say its version", path.display()));
            continue;
        };
        if fits(&version, engines) {
            // The target of the link is recorded, because a version manager changes its links.
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            return Ok(Node { path, version });
        }
        seen.push(format!("{} is {version}", path.display()));
    }
    let found = if seen.is_empty() { "there is no node on PATH".to_owned() } else { seen.join(", ") };
    Err(InstallError::Node { needed: engines.unwrap_or("of any version").to_owned(), found })
}

/// Returns the version that a Node program reports, without the `v`.
fn version_of(path: &Path) -> Option<String> {
    let output =
        Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.trim().strip_prefix('v')?;
    Version::parse(version).ok().map(|_| version.to_owned())
}

/// Returns the version that a program reports when it is run outside any package.
pub(super) fn says(program: &Path, env: &[(OsString, OsString)]) -> Option<String> {
    let mut command = Command::new(program);
    // In a package's folder Yarn would switch to the version that the package asks for.
    command.arg("--version").env_clear().envs(env.iter().map(|(name, value)| (name, value))).current_dir("/");
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Version::parse(&version).ok().map(|_| version)
}

/// Returns `true` if a version is in a range as npm reads it. An unreadable range allows every version, as in npm.
fn fits(version: &str, range: Option<&str>) -> bool {
    let Some(range) = range.and_then(|range| Range::parse(range).ok()) else { return true };
    Version::parse(version).is_ok_and(|version| version.satisfies(&range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_npm() {
        const NEW: Option<&str> = Some(">=24.16 <25 || >=26.1");
        for (version, range, expected) in [
            ("22.12.0", Some(">=22.12.0"), true),
            ("22.11.9", Some(">=22.12.0"), false),
            ("20.20.2", Some(">=22.12"), false),
            ("24.16.0", NEW, true),
            ("24.15.1", NEW, false),
            ("25.0.0", NEW, false),
            ("26.0.5", NEW, false),
            ("26.1.0", NEW, true),
            ("18.0.0", Some("^18 || ^20"), true),
            ("19.0.0", Some("18.x || 20.x"), false),
            ("20.5.0", Some("*"), true),
            ("20.5.0", None, true),
            ("20.5.0", Some("what?"), true),
        ] {
            assert_eq!(fits(version, range), expected, "{version} in {range:?}");
        }
    }

    #[test]
    fn the_error_names_required_and_found_versions() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("node");
        std::fs::write(&old, "#!/bin/sh\necho v16.3.0\n").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
        let told = find(Some(">=22.12"), Some(&old)).unwrap_err().to_string();
        assert!(told.contains(">=22.12") && told.contains("is 16.3.0"), "{told}");
        assert_eq!(find(Some(">=16"), Some(&old)).unwrap().version, "16.3.0");
        let none = find(None, Some(&dir.path().join("none"))).unwrap_err().to_string();
        assert!(none.contains("does not say its version"), "{none}");
    }
}
