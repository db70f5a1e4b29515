//! The mounts that keep their files in memory. Podman's options for them differ from those that were asked for, so the container
//! has an annotation with the latter for its description.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::items;

/// The annotation with the asked mounts.
pub(super) const ANNOTATION: &str = "flock.tmpfs";

/// Returns a mount as Podman takes it.
pub(super) fn mount(target: &str, asked: &str) -> Value {
    // Podman would fill it with the files of the image.
    let options: Vec<&str> = options(asked).into_iter().chain(["notmpcopyup"]).collect();
    json!({"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options})
}

/// Returns the options of a mount, as Podman takes them. It knows no owner: what has one can be written by everybody, and the
/// container's user is the only one there.
fn options(asked: &str) -> Vec<&str> {
    let is_owner = |option: &str| option.starts_with("uid=") || option.starts_with("gid=");
    let has_owner = asked.split(',').any(is_owner);
    let mode = |option| match has_owner && str::starts_with(option, "mode=") {
        true => "mode=1777",
        false => option,
    };
    asked.split(',').filter(|option| !is_owner(option)).map(mode).collect()
}

/// Returns the places and the options of the mounts that a runtime was given, except that of the devices.
pub(super) fn described(given: &Value) -> HashMap<String, String> {
    let asked = given["annotations"][ANNOTATION].as_str().and_then(|text| serde_json::from_str(text).ok());
    let asked: HashMap<String, String> = asked.unwrap_or_default();
    let described = |mount: &Value| {
        let target = mount["destination"].as_str().filter(|target| *target != "/dev")?;
        let options =
            items(&mount["options"]).filter_map(Value::as_str).filter(|option| *option != "rprivate");
        let options: Vec<&str> = options.collect();
        let same = asked.get(target).filter(|asked| self::options(asked) == options);
        Some((target.to_owned(), same.cloned().unwrap_or_else(|| options.join(","))))
    };
    items(&given["mounts"]).filter(|mount| mount["type"] == "tmpfs").filter_map(described).collect()
}
