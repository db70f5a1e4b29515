//! The environment of a build: only the variables that it needs, by name. API keys of providers, flock's own variables
//! and everything else are left out, because a build runs the code of hundreds of packages.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::env;

/// Variables that are passed on unchanged.
const NAMES: [&str; 16] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "NODE_OPTIONS",
    "GIT_SSL_CAINFO",
    "PNPM_HOME",
    "COREPACK_HOME",
    "COREPACK_NPM_REGISTRY",
];

/// Prefixes of variables that are passed on unchanged.
const PREFIXES: [&str; 3] = ["LC_", "npm_config_", "NPM_CONFIG_"];

/// Variables that cargo gets besides those of every build.
const OF_CARGO: [&str; 8] = [
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "CARGO_BUILD_JOBS",
    "CC",
    "CXX",
    "AR",
    "CARGO_NET_OFFLINE",
];

/// Variables that are set for every step. There is nobody to answer a question, and the log is not a terminal. Yarn
/// must install into `node_modules`, because Node runs the result without Yarn's own module loader.
const FIXED: [(&str, &str); 5] = [
    ("CI", "true"),
    ("NO_COLOR", "1"),
    ("COREPACK_ENABLE_DOWNLOAD_PROMPT", "0"),
    ("npm_config_yes", "true"),
    ("YARN_NODE_LINKER", "node-modules"),
];

/// Returns the environment of a build step that runs with this Node.
#[must_use]
pub fn of_build(node: &Path) -> Vec<(OsString, OsString)> {
    allowed(env::inherited(), node)
}

/// Returns the environment of cargo: that of every build, and what is needed to find cargo and the C compiler. Flags
/// that would change the result, such as `RUSTFLAGS`, are not passed on.
#[must_use]
pub fn of_cargo() -> Vec<(OsString, OsString)> {
    let passed = |name: &OsStr| {
        // `CARGO_HTTP_*` holds the proxy and the certificates for crates.io.
        let is_of_cargo =
            name.to_str().is_some_and(|name| OF_CARGO.contains(&name) || name.starts_with("CARGO_HTTP_"));
        name == "PATH" || is_of_cargo || passes(name)
    };
    let mut kept: Vec<_> = env::inherited().filter(|(name, _)| passed(name)).collect();
    kept.extend(
        [("CI", "true"), ("CARGO_TERM_COLOR", "never")].map(|(name, value)| (name.into(), value.into())),
    );
    kept
}

fn allowed(from: impl Iterator<Item = (OsString, OsString)>, node: &Path) -> Vec<(OsString, OsString)> {
    let mut path = OsString::new();
    let mut kept = Vec::new();
    for (name, value) in from {
        if name == "PATH" {
            path = value;
        } else if passes(&name) {
            kept.push((name, value));
        }
    }
    // These come last and replace inherited variables of the same name.
    kept.extend(FIXED.iter().map(|(name, value)| ((*name).into(), (*value).into())));
    kept.push(("PATH".into(), with_first(node, &path)));
    kept
}

fn passes(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        NAMES.contains(&name)
            || env::NETWORK.contains(&name)
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Returns PATH with the folder of the chosen Node first, so that scripts which call `node` get that one.
fn with_first(node: &Path, path: &OsStr) -> OsString {
    // A folder with a colon in its name cannot be in PATH. Then the old PATH stays.
    let folder = node.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folders = folder.into_iter().map(Path::to_owned).chain(std::env::split_paths(path));
    std::env::join_paths(folders).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_sees_no_key_and_nothing_of_flock() {
        let all = [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/home/ann"),
            ("LC_ALL", "C"),
            ("https_proxy", "http://proxy:3128"),
            ("npm_config_registry", "http://registry"),
            ("ANTHROPIC_API_KEY", "sk-1"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("FLOCK_HOME", "/x"),
            ("FLOCK_SUPERVISED", "y"),
            ("GITHUB_TOKEN", "g"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("LD_PRELOAD", "/evil.so"),
        ];
        let given = all.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let mut seen: Vec<(String, String)> = allowed(given, Path::new("/opt/node/bin/node"))
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect();
        seen.sort();
        let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "CI",
                "COREPACK_ENABLE_DOWNLOAD_PROMPT",
                "HOME",
                "LC_ALL",
                "NO_COLOR",
                "PATH",
                "YARN_NODE_LINKER",
                "https_proxy",
                "npm_config_registry",
                "npm_config_yes"
            ]
        );
        let path = &seen.iter().find(|(name, _)| name == "PATH").unwrap().1;
        assert_eq!(path, "/opt/node/bin:/usr/bin:/bin");
    }
}
