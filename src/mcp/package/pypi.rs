//! The answers of `PyPI`: the files of a project, and the report that pip makes.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::error::PackageError;
use super::lock::{Integrity, LockedPackage, MAX_PACKAGES, normalized};
use super::registry::{MAX_ANSWER, Registry};
use super::spec::Request;
use crate::config::PackageSource;
use crate::config::mcp_package::is_version;

/// The index in JSON.
pub(super) const ACCEPT: &str = "application/vnd.pypi.simple.v1+json";
/// The most versions that an error names.
const SHOWN: usize = 8;

/// A wheel that an index listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wheel {
    pub url: String,
    pub integrity: Integrity,
}

/// The entry of an index about a project.
#[derive(Debug, Default)]
pub(super) struct Project {
    /// Its wheels by their file names.
    pub wheels: BTreeMap<String, Wheel>,
    /// The index for pip, in which each wheel is at the relay.
    pub shown: Value,
    /// The versions of its source archives and of its wheels.
    sources: BTreeSet<String>,
    built: BTreeSet<String>,
}

/// Asks the index for a project. `None` if there is none.
///
/// # Errors
///
/// Returns an error if the index can't be reached or answers with something else.
pub(super) async fn project(
    registry: &Registry,
    name: &str,
    relay: &str,
) -> Result<Option<Project>, PackageError> {
    let source = PackageSource::Pypi;
    let unusable = |reason: &str| PackageError::Answer {
        registry: source,
        what: name.to_owned(),
        reason: reason.to_owned(),
    };
    let text = format!("{}{}/", registry.base(source), normalized(name));
    let url = text.parse::<reqwest::Url>().map_err(|_| unusable("its name makes no address"))?;
    let Some(response) = registry.get(source, &url, ACCEPT).await? else { return Ok(None) };
    let bytes = registry.bytes(source, response, MAX_ANSWER).await?;
    let document: Value =
        serde_json::from_slice(&bytes).map_err(|_| unusable("the index answers without JSON (PEP 691)"))?;
    if !document["files"].is_array() {
        return Err(unusable("it lists no files"));
    }
    Ok(Some(read_project(&document, &url, relay)))
}

/// Reads the wheels of a project. Those that can't be pinned are left out.
fn read_project(document: &Value, at: &reqwest::Url, relay: &str) -> Project {
    let mut project = Project::default();
    let mut files = Vec::new();
    for file in document["files"].as_array().into_iter().flatten() {
        let name = file["filename"].as_str().unwrap_or_default();
        if let Some(version) = source_version(name) {
            project.sources.insert(version.to_owned());
        }
        let hash =
            file["hashes"]["sha256"].as_str().and_then(|hex| Integrity::parse(&format!("sha256:{hex}")));
        let url = file["url"].as_str().and_then(|text| at.join(text).ok());
        let (Some(integrity), Some(url), true) = (hash, url, is_wheel(name) && is_for_here(name)) else {
            continue;
        };
        project.built.insert(name.split('-').nth(1).unwrap_or_default().to_owned());
        let mut shown =
            json!({"filename": name, "url": format!("{relay}file/{name}"), "hashes": file["hashes"]});
        for key in ["requires-python", "yanked", "core-metadata", "dist-info-metadata", "size", "upload-time"]
        {
            if let Some(value) = file.get(key) {
                shown[key] = value.clone();
            }
        }
        files.push(shown);
        project.wheels.insert(name.to_owned(), Wheel { url: url.to_string(), integrity });
    }
    project.shown = json!({"meta": {"api-version": "1.0"}, "name": document["name"], "files": files});
    project
}

/// Returns `true` for the file name of a wheel. It stands in an address and in no path.
pub(super) fn is_wheel(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '!');
    name.len() <= 300
        && name.ends_with(".whl")
        && name.chars().all(allowed)
        && (5..=6).contains(&name.split('-').count())
}

/// Returns `true` for the file name of a wheel for any machine, or for Linux on this kind of processor. pip leaves the
/// others out as well, but reads each of them, and large projects have thousands.
fn is_for_here(name: &str) -> bool {
    let platforms = name.trim_end_matches(".whl").rsplit('-').next().unwrap_or_default();
    platforms
        .split('.')
        .any(|one| one == "any" || one.contains("linux") && one.ends_with(std::env::consts::ARCH))
}

fn source_version(name: &str) -> Option<&str> {
    let stem = [".tar.gz", ".zip", ".tar.bz2"].iter().find_map(|end| name.strip_suffix(end))?;
    stem.rsplit_once('-').map(|(_, version)| version)
}

impl Project {
    /// Returns the error for a range in which pip found nothing.
    pub fn nothing_found(&self, request: &Request, output: &str) -> PackageError {
        let exact = request.range.trim_start_matches('=').to_owned();
        let newest = |versions: &BTreeSet<String>| {
            let mut known: Vec<&String> = versions.iter().collect();
            known.sort_by_key(|version| sortable(version));
            known.into_iter().rev().take(SHOWN).cloned().collect::<Vec<_>>()
        };
        if request.range.starts_with("==") && self.sources.contains(&exact) && !self.built.contains(&exact)
            || self.built.is_empty() && !self.sources.is_empty()
        {
            let known = newest(&self.built);
            let wheels = match known.as_slice() {
                [] => "no version of it has one".to_owned(),
                known => format!("these versions have: {}", known.join(", ")),
            };
            return PackageError::NoWheel { package: request.text(), wheels };
        }
        if request.range.starts_with("==") && !self.built.contains(&exact) {
            let known = newest(&self.built);
            return PackageError::UnknownVersion {
                name: request.name.clone(),
                range: request.range.clone(),
                known,
            };
        }
        PackageError::Unresolved { asked: request.text(), output: output.to_owned() }
    }
}

/// Returns numbers by which versions can be sorted well enough for an error.
fn sortable(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or_default()).collect()
}

/// Returns the file of requirements for pip. Each line was checked when the request was read.
pub(super) fn requirements(request: &Request) -> Vec<u8> {
    let lines: Vec<String> = std::iter::once(request.text()).chain(request.with.iter().cloned()).collect();
    (lines.join("\n") + "\n").into_bytes()
}

/// Reads pip's report: the packages, each with the hash that the index lists.
///
/// # Errors
///
/// Returns [`PackageError::Unpinned`] with a package that is no wheel of the index.
pub(super) fn read_report(
    registry: &Registry,
    bytes: &[u8],
    known: &BTreeMap<String, Wheel>,
) -> Result<Vec<LockedPackage>, PackageError> {
    let unusable = |reason: &str| PackageError::Answer {
        registry: PackageSource::Pypi,
        what: "the report".to_owned(),
        reason: reason.to_owned(),
    };
    let document: Value = serde_json::from_slice(bytes).map_err(|_| unusable("it is no JSON"))?;
    let entries = document["install"].as_array().ok_or_else(|| unusable("it has no packages"))?;
    if entries.len() > MAX_PACKAGES {
        let limit = format!("{MAX_PACKAGES} packages");
        return Err(PackageError::TooLarge { what: "the set of packages".to_owned(), limit });
    }
    let mut packages = Vec::new();
    for entry in entries {
        let name = entry["metadata"]["name"].as_str().unwrap_or_default();
        let version = entry["metadata"]["version"].as_str().unwrap_or_default();
        let shown = crate::clean::summary(name, 120);
        let unpinned = |what: &str| PackageError::Unpinned { package: shown.clone(), what: what.to_owned() };
        if !PackageSource::Pypi.is_name(name) || !is_version(version) {
            return Err(unpinned("has no usable name or version"));
        }
        let url = entry["download_info"]["url"].as_str().unwrap_or_default();
        // A `+` in a file name can be written as `%2B`.
        let file = url.rsplit('/').next().map(|file| percent_decode_str(file).decode_utf8_lossy());
        let wheel = file.and_then(|file| known.get(&*file));
        let wheel = wheel.ok_or_else(|| unpinned("is no wheel of the index"))?;
        let url = registry.archive(PackageSource::Pypi, &shown, &wheel.url)?;
        packages.push(LockedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            url: url.to_string(),
            integrity: wheel.integrity.clone(),
            folder: String::new(),
            install_script: false,
        });
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELAY: &str = "http://127.0.0.1:3128/relay/pypi/";

    fn example() -> Project {
        let hash = "ab".repeat(32);
        let document = json!({"name": "a", "files": [
            {"filename": "a-1.0.tar.gz", "url": "a-1.0.tar.gz", "hashes": {"sha256": hash}},
            {"filename": "a-2.0.tar.gz", "url": "a-2.0.tar.gz", "hashes": {"sha256": hash}},
            {"filename": "a-2.0-py3-none-any.whl", "url": "../../files/a-2.0-py3-none-any.whl", "yanked": false,
                "hashes": {"sha256": hash}},
            {"filename": "a-2.0+cpu-py3-none-any.whl", "url": "c", "hashes": {"sha256": hash}},
            {"filename": "a-3.0-py3-none-any.whl", "url": "x", "hashes": {"md5": "1"}},
            {"filename": "../a-4.0-py3-none-any.whl", "url": "x", "hashes": {"sha256": hash}},
        ]});
        read_project(&document, &"https://pypi.org/simple/a/".parse().unwrap(), RELAY)
    }

    #[test]
    fn only_wheels_with_a_hash_are_shown_to_pip_and_at_the_relay() {
        let found = example();
        let names: Vec<&String> = found.wheels.keys().collect();
        assert_eq!(names, ["a-2.0+cpu-py3-none-any.whl", "a-2.0-py3-none-any.whl"]);
        assert_eq!(found.wheels[names[1]].url, "https://pypi.org/files/a-2.0-py3-none-any.whl");
        assert_eq!(found.shown["files"][0]["url"], format!("{RELAY}file/a-2.0-py3-none-any.whl"));
        assert_eq!(found.shown["files"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn wheels_for_other_machines_are_left_out() {
        let own = std::env::consts::ARCH;
        for name in [
            "a-1.0-py3-none-any.whl".to_owned(),
            format!("a-1.0-cp311-cp311-manylinux_2_17_{own}.manylinux2014_{own}.whl"),
            format!("a-1.0-1-cp311-cp311-musllinux_1_2_{own}.whl"),
            format!("a-1.0-cp311-cp311-linux_{own}.whl"),
        ] {
            assert!(is_wheel(&name) && is_for_here(&name), "{name}");
        }
        for platform in ["win_amd64", "macosx_11_0_arm64", "manylinux2014_s390x", "macosx_10_9_x86_64"] {
            let name = format!("a-1.0-cp311-cp311-{platform}.whl");
            assert!(is_wheel(&name) && !is_for_here(&name), "{name}");
        }
    }

    #[test]
    fn the_reason_why_nothing_fits_is_named() {
        let found = example();
        let error = |text: &str| {
            let request = Request::parse(PackageSource::Pypi, text).unwrap();
            found.nothing_found(&request, "no match").to_string()
        };
        assert!(
            error("a==1.0").contains("no wheel, and flock builds nothing; these versions have: 2.0+cpu, 2.0"),
            "{}",
            error("a==1.0")
        );
        assert!(error("a==9").contains("has no version \"==9\"; it has 2.0+cpu, 2.0"), "{}", error("a==9"));
        assert!(error("a>=9").contains("no match"));
    }

    #[test]
    fn a_report_is_read_and_only_wheels_of_the_index_are_taken() {
        let found = example();
        let registry = Registry::from_env().unwrap();
        let report = |file: &str, name: &str| {
            let document = json!({"install": [{"metadata": {"name": name, "version": "2.0"},
                "download_info": {"url": format!("{RELAY}file/{file}"), "archive_info": {"hashes": {"sha256": "00"}}}}]});
            read_report(&registry, document.to_string().as_bytes(), &found.wheels)
        };
        let read = report("a-2.0-py3-none-any.whl", "a").unwrap();
        assert_eq!(
            read[0].integrity.to_string(),
            format!("sha256:{}", "ab".repeat(32)),
            "the index's, not pip's"
        );
        assert!(
            report("a-2.0%2Bcpu-py3-none-any.whl", "a").is_ok()
                && report("a-2.0+cpu-py3-none-any.whl", "a").is_ok()
                && report("b-2.0-py3-none-any.whl", "a").is_err()
                && report("a-2.0-py3-none-any.whl", "../a").is_err()
        );
    }

    #[test]
    fn the_requirements_are_lines_of_packages() {
        let request =
            Request::parse(PackageSource::Pypi, "a[x]==1").unwrap().with(&["mcp<2".to_owned()]).unwrap();
        assert_eq!(requirements(&request), b"a[x]==1\nmcp<2\n");
    }
}
