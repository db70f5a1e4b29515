//! What is in a profile, from the manifest that Nix keeps in it: its own listing is for people and changes
//! from version to version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a path of a profile comes from. Nix is given paths to install and knows no more of them, so flock writes it
/// down beside the profiles, by the path's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The attribute it was installed as.
    pub package: String,
    /// The flake, with its revision where it has one.
    pub flake: String,
    /// The hash of the flake's content, where it is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nar_hash: Option<String>,
}

/// A package of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The attribute it was installed as.
    pub package: String,
    /// The flake it came from, as it was given.
    pub flake: String,
    /// The hash of that flake's content, where it was pinned.
    pub nar_hash: Option<String>,
    /// Its paths in the store.
    pub store_paths: Vec<String>,
}

/// The packages of a manifest, by name. What is not a package is left out.
#[must_use]
pub fn parse(text: &[u8], origins: &BTreeMap<String, Origin>) -> Vec<Installed> {
    let Ok(manifest) = serde_json::from_slice::<Value>(text) else { return Vec::new() };
    // A list up to format 2, a table by name from format 3.
    let elements: Vec<&Value> = match manifest.get("elements") {
        Some(Value::Array(elements)) => elements.iter().collect(),
        Some(Value::Object(elements)) => elements.values().collect(),
        _ => Vec::new(),
    };
    let mut packages: Vec<Installed> = Vec::new();
    for found in elements.into_iter().filter_map(|found| element(found, origins)) {
        // Outputs of one package are elements of their own.
        let same = |one: &&mut Installed| {
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

/// What the profile's reader prints: the manifest's line, and a line for each origin with the name of its path.
#[must_use]
pub fn read(text: &str) -> Vec<Installed> {
    let mut lines = text.lines();
    let manifest = lines.next().unwrap_or_default();
    let origin = |line: &str| {
        let (name, origin) = line.split_once(' ')?;
        Some((name.to_owned(), serde_json::from_str(origin).ok()?))
    };
    parse(manifest.as_bytes(), &lines.filter_map(origin).collect())
}

fn element(element: &Value, origins: &BTreeMap<String, Origin>) -> Option<Installed> {
    if element.get("active") == Some(&Value::Bool(false)) {
        return None;
    }
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| element.get(key)?.as_str()).map(str::to_owned);
    let store_paths: Vec<String> =
        element.get("storePaths")?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if let Some(path) = text(["attrPath", "attrPath"]) {
        let flake = text(["originalUrl", "originalUri"]).unwrap_or_default();
        return Some(Installed { package: attribute(&path), flake, nar_hash: None, store_paths });
    }
    let origin = store_paths.iter().find_map(|path| origins.get(path.rsplit('/').next()?))?.clone();
    let Origin { package, flake, nar_hash } = origin;
    Some(Installed { package, flake, nar_hash, store_paths })
}

/// `legacyPackages.x86_64-linux.hello` is `hello`.
fn attribute(path: &str) -> String {
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
        let expected = Installed {
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
    fn outputs_are_one_package_by_what_flock_wrote_down() {
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
