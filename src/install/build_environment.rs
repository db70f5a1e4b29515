//! The environment of a build: only the variables that it needs, by name. API keys of providers, flock's own variables
//! and everything else are left out, because a build runs the code of hundreds of packages.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::env;

/// Variables that are passed on unchanged, besides the locale (`LC_*`), the network and [`SETTINGS`].
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

/// Prefix of the variables with settings of npm and pnpm, in any case.
const NPM: &str = "npm_config_";

/// Settings of npm and pnpm that are passed on, as they are spelled in `.npmrc`. All others are left out, because some
/// are secrets: a token is in `_authToken` or `//registry.npmjs.org/:_authToken`, a private key in `key`.
const SETTINGS: [&str; 36] = [
    "registry",
    "proxy",
    "http-proxy",
    "https-proxy",
    "noproxy",
    "ca",
    "cafile",
    "strict-ssl",
    "local-address",
    "userconfig",
    "globalconfig",
    "cache",
    "store-dir",
    "offline",
    "prefer-offline",
    "prefer-online",
    "fetch-retries",
    "fetch-retry-factor",
    "fetch-retry-mintimeout",
    "fetch-retry-maxtimeout",
    "fetch-timeout",
    "maxsockets",
    "network-concurrency",
    "child-concurrency",
    "jobs",
    "python",
    "nodedir",
    "devdir",
    "disturl",
    // An owner's own limits on what is installed and run.
    "ignore-scripts",
    "before",
    "min-release-age",
    "minimum-release-age",
    "fund",
    "audit",
    "loglevel",
];

/// Ends of further settings that are passed on: the registry of a scope (`@acme:registry`), and the address of ready
/// binaries of one package (`sharp-binary-host`).
const SETTING_ENDS: [&str; 3] = [":registry", "-binary-host", "-binary-host-mirror"];

/// Variables that cargo gets besides those of every build.
const CARGO_NAMES: [&str; 8] = [
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
pub(crate) fn for_build(node: &Path) -> Vec<(OsString, OsString)> {
    filter_for_build(env::inherited(), node)
}

/// Returns the environment of cargo: that of every build, and what is needed to find cargo and the C compiler. Flags
/// that would change the result, such as `RUSTFLAGS`, are not passed on.
#[must_use]
pub(crate) fn for_cargo() -> Vec<(OsString, OsString)> {
    let passed = |name: &OsStr, value: &OsStr| {
        // `CARGO_HTTP_*` holds the proxy and the certificates for crates.io.
        let is_of_cargo =
            name.to_str().is_some_and(|name| CARGO_NAMES.contains(&name) || name.starts_with("CARGO_HTTP_"));
        name == "PATH" || is_of_cargo || is_allowed(name, value)
    };
    let mut kept: Vec<_> = env::inherited().filter(|(name, value)| passed(name, value)).collect();
    kept.extend(
        [("CI", "true"), ("CARGO_TERM_COLOR", "never")].map(|(name, value)| (name.into(), value.into())),
    );
    kept
}

fn filter_for_build(
    from: impl Iterator<Item = (OsString, OsString)>,
    node: &Path,
) -> Vec<(OsString, OsString)> {
    let mut path = OsString::new();
    let mut kept = Vec::new();
    for (name, value) in from {
        if name == "PATH" {
            path = value;
        } else if is_allowed(&name, &value) {
            kept.push((name, value));
        }
    }
    // These come last and replace inherited variables of the same name.
    kept.extend(FIXED.iter().map(|(name, value)| ((*name).into(), (*value).into())));
    kept.push(("PATH".into(), prepend_folder(node, &path)));
    kept
}

fn is_allowed(name: &OsStr, value: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    if env::NETWORK_VARS.contains(&name) {
        return true;
    }
    match npm_setting(name) {
        // The login of a proxy is passed on, because there may be no other way to the network.
        Some(setting) => is_passed(&setting) && (setting.ends_with("proxy") || !has_login(value)),
        None => (NAMES.contains(&name) || name.starts_with("LC_")) && !has_login(value),
    }
}

/// Returns the setting of npm that a variable holds, as it is spelled in `.npmrc`.
fn npm_setting(name: &str) -> Option<String> {
    let (prefix, setting) = name.split_at_checked(NPM.len())?;
    // npm itself reads these names in any case, with `_` for `-`.
    prefix.eq_ignore_ascii_case(NPM).then(|| setting.replace('_', "-").to_ascii_lowercase())
}

fn is_passed(setting: &str) -> bool {
    // A name that begins with `//` belongs to one registry and can be its token.
    SETTINGS.contains(&setting)
        || (!setting.starts_with("//") && SETTING_ENDS.iter().any(|end| setting.ends_with(end)))
}

/// Returns `true` if the value has an address with a user name or a password, as in `https://ann:secret@registry/`.
fn has_login(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    value.split("://").skip(1).any(|rest| {
        let host = rest.split(['/', '?', '#']).next();
        host.is_some_and(|host| host.contains('@'))
    })
}

/// Returns PATH with the folder of the chosen Node first, so that scripts which call `node` get that one.
fn prepend_folder(node: &Path, path: &OsStr) -> OsString {
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
        let mut seen: Vec<(String, String)> = filter_for_build(given, Path::new("/opt/node/bin/node"))
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

    #[test]
    fn a_build_sees_settings_of_npm_and_no_token_of_a_registry() {
        let planted = [
            ("npm_config__authToken", "planted"),
            ("npm_config__auth", "planted"),
            ("NPM_CONFIG__PASSWORD", "planted"),
            ("npm_config__password", "planted"),
            ("npm_config_otp", "planted"),
            ("npm_config_key", "planted"),
            ("npm_config_//registry.npmjs.org/:_authToken", "planted"),
            ("npm_config_//registry.acme.example/:registry", "planted"),
            ("npm_config_registry", "https://ann:planted@registry.acme.example/"),
            ("npm_config_@acme:registry", "https://planted@registry.acme.example"),
            ("COREPACK_NPM_REGISTRY", "https://ann:planted@registry.acme.example/"),
            ("COREPACK_NPM_TOKEN", "planted"),
            ("pnpm_config__auth", "planted"),
            ("YARN_NPM_AUTH_TOKEN", "planted"),
        ];
        let harmless = [
            ("NPM_CONFIG_REGISTRY", "https://registry.acme.example/@acme/"),
            ("npm_config_@other:registry", "https://registry.other.example"),
            ("npm_config_https_proxy", "http://ann:needed@proxy:3128"),
            ("Npm_Config_strict_ssl", "true"),
            ("npm_config_cafile", "/etc/ssl/acme.pem"),
            ("npm_config_sharp_binary_host", "https://mirror.acme.example"),
        ];
        let given = planted
            .iter()
            .chain(&harmless)
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let seen = filter_for_build(given, Path::new("/opt/node/bin/node"));
        for (name, value) in &seen {
            assert!(!value.to_string_lossy().contains("planted"), "{name:?}");
        }
        for (name, _) in harmless {
            assert!(seen.iter().any(|(seen, _)| seen == name), "{name}");
        }
    }
}
