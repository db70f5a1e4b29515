//! What is in a profile, from the manifest that Nix keeps in it: its own listing is for people and changes
//! from version to version.

use serde_json::Value;

/// A package of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The attribute it was installed as.
    pub package: String,
    /// The flake it came from, as it was given.
    pub flake: String,
    /// Its paths in the store.
    pub store_paths: Vec<String>,
}

/// The packages of a manifest, by name. What is not a package is left out.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Installed> {
    let Ok(manifest) = serde_json::from_slice::<Value>(text) else { return Vec::new() };
    // A list up to format 2, a table by name from format 3.
    let elements: Vec<&Value> = match manifest.get("elements") {
        Some(Value::Array(elements)) => elements.iter().collect(),
        Some(Value::Object(elements)) => elements.values().collect(),
        _ => Vec::new(),
    };
    let mut packages: Vec<Installed> = elements.into_iter().filter_map(element).collect();
    packages.sort_by(|a, b| a.package.cmp(&b.package));
    packages
}

fn element(element: &Value) -> Option<Installed> {
    if element.get("active") == Some(&Value::Bool(false)) {
        return None;
    }
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| element.get(key)?.as_str()).map(str::to_owned);
    let store_paths = element.get("storePaths")?.as_array()?;
    Some(Installed {
        package: attribute(&text(["attrPath", "attrPath"])?),
        flake: text(["originalUrl", "originalUri"]).unwrap_or_default(),
        store_paths: store_paths.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    })
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
            store_paths: vec!["/nix/store/a-numpy".to_owned()],
        };
        let list = format!(r#"{{"version":2,"elements":[{element}]}}"#);
        let table = format!(r#"{{"version":3,"elements":{{"numpy":{element}}}}}"#);
        assert_eq!(parse(list.as_bytes()), std::slice::from_ref(&expected));
        assert_eq!(parse(table.as_bytes()), [expected]);
        for garbage in ["", "null", "[]", r#"{"elements":[1,{}]}"#] {
            assert_eq!(parse(garbage.as_bytes()), []);
        }
    }
}
