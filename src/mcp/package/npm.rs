//! The answers of npm: the versions of a package, and the lock that it makes.

use nodejs_semver::{Range, Version};
use serde_json::{Map, Value, json};

use super::error::PackageError;
use super::lock::{Integrity, LockedPackage, MAX_PACKAGES};
use super::registry::{MAX_ANSWER, Registry};
use super::spec::Request;
use crate::config::PackageSource;
use crate::config::mcp_package::is_version;

/// The short form of what the registry knows of a package.
pub(super) const ACCEPT: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8";
/// The most versions that an error names.
const SHOWN: usize = 8;

/// Asks the registry for the exact version that is meant.
///
/// # Errors
///
/// Returns an error if there is no such package or version.
pub(super) async fn version(registry: &Registry, request: &Request) -> Result<String, PackageError> {
    let source = PackageSource::Npm;
    let unusable = |reason: &str| PackageError::Answer {
        registry: source,
        what: request.name.clone(),
        reason: reason.to_owned(),
    };
    let text = format!("{}{}", registry.base(source), request.name.replace('/', "%2f"));
    let url = text.parse().map_err(|_| unusable("its name makes no address"))?;
    let response = registry.get(source, &url, ACCEPT).await?;
    let response = response
        .ok_or_else(|| PackageError::UnknownPackage { registry: source, name: request.name.clone() })?;
    let bytes = registry.bytes(source, response, MAX_ANSWER).await?;
    let document: Value = serde_json::from_slice(&bytes).map_err(|_| unusable("it is no JSON"))?;
    let versions = document["versions"].as_object().ok_or_else(|| unusable("it has no versions"))?;
    choose(&request.range, versions, &document["dist-tags"]).ok_or_else(|| {
        let mut known: Vec<Version> = versions.keys().filter_map(|text| text.parse().ok()).collect();
        known.sort();
        PackageError::UnknownVersion {
            name: request.name.clone(),
            range: request.range.clone(),
            known: known.iter().rev().take(SHOWN).map(ToString::to_string).collect(),
        }
    })
}

/// Chooses a version as npm does: the tag, or the newest in the range, with preference for the one with the tag `latest`.
fn choose(range: &str, versions: &Map<String, Value>, tags: &Value) -> Option<String> {
    let known =
        |version: &str| (versions.contains_key(version) && is_version(version)).then(|| version.to_owned());
    if let Some(tagged) = tags[range].as_str() {
        return known(tagged);
    }
    if let Some(exact) = known(range) {
        return Some(exact);
    }
    let wanted: Range = range.parse().ok()?;
    let fits = |text: &str| text.parse::<Version>().ok().filter(|version| wanted.satisfies(version));
    if let Some(latest) = tags["latest"].as_str().filter(|latest| fits(latest).is_some()) {
        return known(latest);
    }
    let newest = versions.keys().filter_map(|text| Some((fits(text)?, text))).max();
    newest.and_then(|(_, text)| known(text))
}

/// Returns the `package.json` from which npm makes its lock.
pub(super) fn manifest(request: &Request, version: &str) -> Vec<u8> {
    let mut dependencies = Map::new();
    for text in &request.with {
        if let Ok(more) = Request::parse(PackageSource::Npm, text) {
            dependencies.insert(more.name, json!(more.range));
        }
    }
    dependencies.insert(request.name.clone(), json!(version));
    let document = json!({"name": "flock-mcp-server", "version": "0.0.0", "private": true, "dependencies": dependencies});
    document.to_string().into_bytes()
}

/// Reads npm's lock: the packages for this machine, each with its hash.
///
/// # Errors
///
/// Returns [`PackageError::Unpinned`] with a package that has no hash or is not from the registry.
pub(super) fn read_lock(
    registry: &Registry,
    bytes: &[u8],
    relay: &str,
) -> Result<Vec<LockedPackage>, PackageError> {
    let unusable = |reason: &str| PackageError::Answer {
        registry: PackageSource::Npm,
        what: "the lock".to_owned(),
        reason: reason.to_owned(),
    };
    let document: Value = serde_json::from_slice(bytes).map_err(|_| unusable("it is no JSON"))?;
    let entries = document["packages"].as_object().ok_or_else(|| unusable("it has no packages"))?;
    if entries.len() > MAX_PACKAGES {
        let limit = format!("{MAX_PACKAGES} packages");
        return Err(PackageError::TooLarge { what: "the set of packages".to_owned(), limit });
    }
    let mut packages = Vec::new();
    for (folder, entry) in entries.iter().filter(|(folder, _)| !folder.is_empty()) {
        // The archive of another package brings it along.
        if entry["inBundle"] == true || (entry["optional"] == true && !is_for_here(entry)) {
            continue;
        }
        packages.push(locked(registry, folder, entry, relay)?);
    }
    Ok(packages)
}

fn locked(
    registry: &Registry,
    folder: &str,
    entry: &Value,
    relay: &str,
) -> Result<LockedPackage, PackageError> {
    let shown = crate::clean::summary(folder, 120);
    let unpinned = |what: &str| PackageError::Unpinned { package: shown.clone(), what: what.to_owned() };
    if !super::lock::is_folder(folder) {
        return Err(unpinned("has no usable folder"));
    }
    if entry["link"] == true {
        return Err(unpinned("is a link to another folder"));
    }
    // An alias has the name of another package in its folder.
    let name = entry["name"].as_str().or_else(|| folder.rsplit("node_modules/").next()).unwrap_or_default();
    let version = entry["version"].as_str().unwrap_or_default();
    if !PackageSource::Npm.is_name(name) || !is_version(version) {
        return Err(unpinned("has no usable name or version"));
    }
    let integrity = entry["integrity"].as_str().and_then(Integrity::parse);
    let integrity =
        integrity.ok_or_else(|| unpinned("has no SHA-512 at the registry, so it can't be pinned"))?;
    let resolved = entry["resolved"].as_str().unwrap_or_default();
    let resolved = match resolved.strip_prefix(relay) {
        Some(rest) => format!("{}{rest}", registry.base(PackageSource::Npm)),
        None => resolved.to_owned(),
    };
    let url = registry.archive(PackageSource::Npm, &shown, &resolved)?;
    Ok(LockedPackage {
        name: name.to_owned(),
        version: version.to_owned(),
        url: url.to_string(),
        integrity,
        folder: folder.to_owned(),
        install_script: entry["hasInstallScript"] == true,
    })
}

/// Returns `true` if an optional package is for this kind of machine.
fn is_for_here(entry: &Value) -> bool {
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |key: &str, own: &str| {
        let Some(listed) = entry[key].as_array() else { return true };
        let names: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
        let refused = names.iter().any(|name| name.strip_prefix('!') == Some(own));
        let chosen = names.iter().any(|name| *name == own || *name == "any");
        !refused && (chosen || names.iter().all(|name| name.starts_with('!')))
    };
    fits("os", "linux") && fits("cpu", cpu) && fits("libc", "glibc")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str =
        "sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==";
    const RELAY: &str = "http://127.0.0.1:3128/relay/npm/";

    fn read(entry: &Value) -> Result<Vec<LockedPackage>, PackageError> {
        let document = json!({"packages": {"": {}, "node_modules/@a/b": entry}});
        read_lock(&Registry::from_env().unwrap(), document.to_string().as_bytes(), RELAY)
    }

    #[test]
    fn versions_are_chosen_as_npm_chooses_them() {
        let versions = json!({"1.0.0": {}, "1.2.0": {}, "1.3.0-beta.1": {}, "2.0.0": {}, "../x": {}});
        let tags = json!({"latest": "1.2.0", "next": "2.0.0", "bad": "9.9.9", "worse": "../x"});
        let found = |range: &str| choose(range, versions.as_object().unwrap(), &tags);
        for (range, version) in [
            ("latest", Some("1.2.0")),
            ("next", Some("2.0.0")),
            ("1.0.0", Some("1.0.0")),
            ("^1.0.0", Some("1.2.0")),
            (">=1", Some("1.2.0")),
            ("2", Some("2.0.0")),
            ("1.3.0-beta.1", Some("1.3.0-beta.1")),
            ("~1.0", Some("1.0.0")),
            ("3", None),
            ("bad", None),
            ("worse", None),
            ("nothing", None),
        ] {
            assert_eq!(found(range).as_deref(), version, "{range}");
        }
    }

    #[test]
    fn a_lock_of_npm_is_read_and_what_is_for_other_machines_left_out() {
        let good = json!({"version": "1.0.0", "integrity": HASH, "hasInstallScript": true,
            "resolved": format!("{RELAY}@a/b/-/b-1.0.0.tgz")});
        let found = read(&good).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].install_script), ("@a/b", true));
        assert_eq!(found[0].url, "https://registry.npmjs.org/@a/b/-/b-1.0.0.tgz");
        for (key, value) in [
            ("os", json!(["darwin"])),
            ("os", json!(["!linux"])),
            ("cpu", json!(["ia32"])),
            ("libc", json!(["musl"])),
        ] {
            let mut other = good.clone();
            other["optional"] = json!(true);
            other[key] = value;
            assert_eq!(read(&other).unwrap().len(), 0, "{other}");
        }
        let mut own = good;
        own["optional"] = json!(true);
        own["os"] = json!(["linux", "darwin"]);
        own["libc"] = json!(["!musl"]);
        assert_eq!(read(&own).unwrap().len(), 1);
        assert_eq!(read(&json!({"inBundle": true})).unwrap().len(), 0);
    }

    #[test]
    fn what_can_not_be_pinned_is_refused() {
        let url = "https://registry.npmjs.org/@a/b/-/b-1.0.0.tgz";
        for entry in [
            json!({"version": "1.0.0", "resolved": url}),
            json!({"version": "1.0.0", "resolved": url, "integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}),
            json!({"version": "1.0.0", "integrity": HASH}),
            json!({"version": "1.0.0", "integrity": HASH, "resolved": "https://evil.example/b.tgz"}),
            json!({"version": "1.0.0", "integrity": HASH, "resolved": "git+ssh://git@github.com/a/b.git#1"}),
            json!({"version": "../1", "integrity": HASH, "resolved": url}),
            json!({"link": true, "resolved": "../elsewhere"}),
            json!({"version": "1.0.0", "integrity": HASH, "resolved": url, "name": "../x"}),
        ] {
            assert!(matches!(read(&entry), Err(PackageError::Unpinned { .. })), "{entry}");
        }
        let outside = json!({"packages": {"node_modules/../../x": {"version": "1.0.0", "integrity": HASH, "resolved": url}}});
        let registry = Registry::from_env().unwrap();
        assert!(read_lock(&registry, outside.to_string().as_bytes(), RELAY).is_err());
        assert!(read_lock(&registry, b"{}", RELAY).is_err() && read_lock(&registry, b"x", RELAY).is_err());
    }

    #[test]
    fn the_manifest_asks_for_the_exact_version() {
        let request =
            Request::parse(PackageSource::Npm, "@a/b@^1").unwrap().with(&["c@2".to_owned()]).unwrap();
        let made: Value = serde_json::from_slice(&manifest(&request, "1.2.0")).unwrap();
        assert_eq!(made["dependencies"], json!({"@a/b": "1.2.0", "c": "2"}));
    }
}
