//! The package that an MCP server's program comes from: what the configuration pins of it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::view::{Problem, View};

/// The most bytes of the name of a package, and of a version.
const MAX_NAME: usize = 214;
const MAX_VERSION: usize = 128;

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageSource {
    Npm,
    Pypi,
}

impl PackageSource {
    /// Returns the name that people know the registry by.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "PyPI",
        }
    }

    /// Writes a package with its version as the registry's own programs do.
    #[must_use]
    pub fn exact(self, name: &str, version: &str) -> String {
        match self {
            Self::Npm => format!("{name}@{version}"),
            Self::Pypi => format!("{name}=={version}"),
        }
    }

    /// Returns `true` if a text can be the name of a package.
    #[must_use]
    pub fn is_name(self, name: &str) -> bool {
        match self {
            Self::Npm => is_npm_name(name),
            Self::Pypi => is_pypi_name(name),
        }
    }
}

/// The pinned package of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpPackage {
    pub source: PackageSource,
    pub name: String,
    /// The exact version.
    pub version: String,
    /// The SHA-256 of the lock, which has the hash of every package that belongs to it.
    pub lock: String,
}

impl McpPackage {
    /// Returns the package with its version, as in `mcp-server-time==2026.10.19`.
    #[must_use]
    pub fn exact(&self) -> String {
        self.source.exact(&self.name, &self.version)
    }

    /// Returns the entry of the configuration.
    pub(super) fn entry(&self) -> Value {
        json!({"source": self.source, "name": self.name, "version": self.version, "lock": self.lock})
    }
}

/// Reads `{source, name, version, lock}`.
pub(super) fn package(view: &View<'_>) -> Result<Option<McpPackage>, Problem> {
    if view.value.is_none() {
        return Ok(None);
    }
    view.only(&["source", "name", "version", "lock"])?;
    let source_at = view.get("source")?;
    let source = match source_at.required_text()? {
        "npm" => PackageSource::Npm,
        "pypi" => PackageSource::Pypi,
        _ => return Err(source_at.problem("must be npm or pypi")),
    };
    let checked = |key: &str, is_good: &dyn Fn(&str) -> bool, what: &str| {
        let at = view.get(key)?;
        let text = at.required_text()?.to_owned();
        if is_good(&text) { Ok(text) } else { Err(at.problem(what)) }
    };
    let name = checked("name", &|name| source.is_name(name), "must be the name of a package")?;
    let version = checked("version", &is_version, "must be an exact version")?;
    let lock = checked("lock", &is_sha256, "must be 64 hex digits")?;
    Ok(Some(McpPackage { source, name, version, lock }))
}

/// Returns `true` for the name of a package of npm, with or without a scope.
fn is_npm_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    let fits = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    };
    // npm itself uses these as names of folders.
    fits && name.len() <= MAX_NAME && name != "node_modules" && name != "favicon.ico"
}

/// Returns `true` for the name of a package of `PyPI`.
fn is_pypi_name(name: &str) -> bool {
    let end = |c: char| c.is_ascii_alphanumeric();
    name.len() <= MAX_NAME
        && name.starts_with(end)
        && name.ends_with(end)
        && name.chars().all(|c| end(c) || matches!(c, '.' | '-' | '_'))
}

/// Returns `true` if a text can be an exact version.
#[must_use]
pub(crate) fn is_version(version: &str) -> bool {
    version.len() <= MAX_VERSION
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '!' | '_'))
}

/// Returns `true` for a SHA-256 in hex.
#[must_use]
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_told_from_paths_options_and_addresses() {
        for name in ["left-pad", "@modelcontextprotocol/server-everything", "a.b_c", "JSONStream", "_x"] {
            assert!(PackageSource::Npm.is_name(name), "{name}");
        }
        for name in [
            "",
            "@a",
            "@/b",
            "@a/b/c",
            "../x",
            "a/b",
            "-y",
            ".bin",
            "a b",
            "a\nb",
            "node_modules",
            "@a/../b",
            "@a/.x",
            "git+ssh://x",
            "a@1",
            "ü",
            "a$(id)",
            &"a".repeat(215),
        ] {
            assert!(!PackageSource::Npm.is_name(name), "{name}");
        }
        for name in ["mcp-server-time", "a", "zope.interface", "A_b"] {
            assert!(PackageSource::Pypi.is_name(name), "{name}");
        }
        for name in ["", "-r", "a-", "../x", "a b", "a;b", "a[x]", "a@b", "a\n--index-url=x", ".a"] {
            assert!(!PackageSource::Pypi.is_name(name), "{name}");
        }
        for version in ["1.2.3", "2026.10.19", "1!2.0rc1", "1.0.0-beta.1+build"] {
            assert!(is_version(version), "{version}");
        }
        for version in ["", "latest", "^1", "1 2", "1/2", "1;x", "../1"] {
            assert!(!is_version(version), "{version}");
        }
    }
}
