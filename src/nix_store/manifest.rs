//! Reads the contents of a profile from the manifest that Nix keeps in it. Nix's own listing is meant for people and
//! changes from version to version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The origin of a path in a profile. Nix is given plain paths to install and knows nothing else about them. So flock
/// records the origin beside the profiles, by the path's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackageOrigin {
    /// The attribute it was installed as.
    pub package: String,
    /// The flake, with its revision if it has one.
    pub flake: String,
    /// The hash of the flake's content, if the flake was pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nar_hash: Option<String>,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPackage {
    /// The attribute it was installed as.
    pub package: String,
    /// The flake it came from, as recorded.
    pub flake: String,
    /// The hash of the flake's content, if the flake was pinned.
    pub nar_hash: Option<String>,
    /// The package's paths in the store.
    pub store_paths: Vec<String>,
}

/// Parses a manifest and returns its packages, sorted by name. Elements that are no packages are skipped.
#[must_use]
pub fn parse(text: &[u8], origins: &BTreeMap<String, PackageOrigin>) -> Vec<InstalledPackage> {
    let Ok(manifest) = serde_json::from_slice::<Value>(text) else { return Vec::new() };
    // `elements` is a list up to format 2, and an object by name from format 3 on.
    let elements: Vec<&Value> = match manifest.get("elements") {
        Some(Value::Array(elements)) => elements.iter().collect(),
        Some(Value::Object(elements)) => elements.values().collect(),
        _ => Vec::new(),
    };
    let mut packages: Vec<InstalledPackage> = Vec::new();
    for found in elements.into_iter().filter_map(|found| element(found, origins)) {
        // The outputs of one package are separate elements.
        let same = |one: &&mut InstalledPackage| {
            (&one.package, &one.flake, &one.nar_hash) == (&found.package, &found.flake, &found.nar_hash)
        };
        match packages.iter_mut().find(same) {
            Some(one) => one.store_paths.extend(found.store_paths),
            None => packages.push(found),
        }
    }
    packages.sort_by(|a, b| a.package.cmp(&b.package));
    packages
}

/// Parses the output of the script that reads a profile: the manifest in the first line, then one line per origin with
/// the name of its path.
#[must_use]
pub fn read(text: &str) -> Vec<InstalledPackage> {
    let mut lines = text.lines();
    let manifest = lines.next().unwrap_or_default();
    let origin = |line: &str| {
        let (name, origin) = line.split_once(' ')?;
        Some((name.to_owned(), serde_json::from_str(origin).ok()?))
    };
    parse(manifest.as_bytes(), &lines.filter_map(origin).collect())
}

fn element(element: &Value, origins: &BTreeMap<String, PackageOrigin>) -> Option<InstalledPackage> {
    if element.get("active") == Some(&Value::Bool(false)) {
        return None;
    }
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| element.get(key)?.as_str()).map(str::to_owned);
    let store_paths: Vec<String> =
        element.get("storePaths")?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    // Packages that Nix installed from a flake by itself carry their attribute in the manifest.
    if let Some(path) = text(["attrPath", "attrPath"]) {
        let flake = text(["originalUrl", "originalUri"]).unwrap_or_default();
        return Some(InstalledPackage { package: attribute_name(&path), flake, nar_hash: None, store_paths });
    }
    // An element without a recorded origin was not installed by flock and is skipped.
    let origin = store_paths.iter().find_map(|path| origins.get(path.rsplit('/').next()?))?.clone();
    let PackageOrigin { package, flake, nar_hash } = origin;
    Some(InstalledPackage { package, flake, nar_hash, store_paths })
}

/// Returns the attribute's name: `legacyPackages.x86_64-linux.hello` becomes `hello`.
fn attribute_name(path: &str) -> String {
    let mut parts = path.splitn(3, '.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("packages" | "legacyPackages"), Some(_), Some(name)) => name.to_owned(),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_read() {
        let element = r#"{"active":true,"attrPath":"legacyPackages.x86_64-linux.python3Packages.numpy",
            "originalUrl":"github:NixOS/nixpkgs/24.11","storePaths":["/nix/store/a-numpy"]}"#;
        let expected = InstalledPackage {
            package: "python3Packages.numpy".to_owned(),
            flake: "github:NixOS/nixpkgs/24.11".to_owned(),
            nar_hash: None,
            store_paths: vec!["/nix/store/a-numpy".to_owned()],
        };
        let list = format!(r#"{{"version":2,"elements":[{element}]}}"#);
        let table = format!(r#"{{"version":3,"elements":{{"numpy":{element}}}}}"#);
        let none = BTreeMap::new();
        assert_eq!(parse(list.as_bytes(), &none), std::slice::from_ref(&expected));
        assert_eq!(parse(table.as_bytes(), &none), [expected]);
        for garbage in ["", "null", "[]", r#"{"elements":[1,{}]}"#] {
            assert_eq!(parse(garbage.as_bytes(), &none), []);
        }
    }

    #[test]
    fn outputs_are_grouped_by_the_recorded_origin() {
        let origin = r#"{"package":"greet","flake":"path:/srv/flake"}"#;
        let text = format!(
            "{{\"version\":2,\"elements\":[{{\"active\":true,\"storePaths\":[\"/nix/store/a-greet\"]}},\
             {{\"active\":true,\"storePaths\":[\"/nix/store/b-greet-man\"]}},\
             {{\"active\":true,\"storePaths\":[\"/nix/store/c-unknown\"]}}]}}\n\
             a-greet {origin}\nb-greet-man {origin}\nold {origin}\n"
        );
        let found = read(&text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].package, "greet");
        assert_eq!(found[0].store_paths, ["/nix/store/a-greet", "/nix/store/b-greet-man"]);
        assert_eq!(read(""), []);
    }
}
