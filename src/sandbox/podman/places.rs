//! The translation of the mounts of a request.

use std::collections::HashMap;

use bollard::models::{Mount, MountType};
use serde_json::{Value, json};

/// The mounts of a request, as Podman takes them.
#[derive(Default)]
pub(super) struct Places {
    pub(super) mounts: Vec<Value>,
    /// The mounts of volumes that have a name.
    pub(super) named: Vec<Value>,
    /// The volumes that the mounts need, with their labels.
    pub(super) volumes: Vec<(String, HashMap<String, String>)>,
}

impl Places {
    /// Translates all mounts of a request.
    ///
    /// # Errors
    ///
    /// Returns a description of what can't be translated.
    pub(super) fn of(asked: Vec<Mount>) -> Result<Self, String> {
        let mut places = Self::default();
        for mut mount in asked {
            let target = mount.target.take().unwrap_or_default();
            if places.add(&target, &mut mount).is_none() {
                return Err(format!("the mount of {target} is not translated for Podman"));
            }
        }
        Ok(places)
    }

    /// Adds a mount. Returns `None` if a part of it has no translation.
    fn add(&mut self, target: &str, mount: &mut Mount) -> Option<()> {
        let access = if mount.read_only.take() == Some(true) { "ro" } else { "rw" };
        match (mount.typ.take()?, mount.source.take()) {
            (MountType::BIND, Some(source)) => {
                // The propagation is always private.
                let is_flat =
                    mount.bind_options.take().is_some_and(|options| options.non_recursive == Some(true));
                // Each of the two words with an r makes the mount recursive.
                let options =
                    if is_flat { ["bind", access, "private"] } else { ["rbind", access, "rprivate"] };
                self.mounts.push(
                    json!({"destination": target, "type": "bind", "source": source, "options": options}),
                );
            }
            (MountType::VOLUME, Some(name)) => {
                let options = mount.volume_options.take().unwrap_or_default();
                if options.driver_config.is_some() || options.subpath.is_some() {
                    return None;
                }
                let flags =
                    std::iter::once(access).chain((options.no_copy == Some(true)).then_some("nocopy"));
                self.named.push(json!({"Name": name, "Dest": target, "Options": flags.collect::<Vec<_>>()}));
                self.volumes.push((name, options.labels.unwrap_or_default()));
            }
            // A volume without a name, which is nothing but its mount and goes with the container.
            (MountType::VOLUME, None) => {
                let driver = mount.volume_options.take()?.driver_config?.options?;
                let options: Vec<&str> = driver.get("o")?.split(',').chain([access]).collect();
                self.mounts.push(json!({
                    "destination": target,
                    "type": driver.get("type")?,
                    "source": driver.get("device")?,
                    "options": options,
                }));
            }
            _ => return None,
        }
        (*mount == Mount::default()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::{MountVolumeOptions, MountVolumeOptionsDriverConfig};

    use super::*;
    use crate::sandbox::spec::MountSpec;

    #[test]
    fn an_approved_folder_is_mounted_without_what_is_below_and_an_overlay_as_a_mount() {
        let mut places = Places::default();
        let mut approved = MountSpec::path("/mnt/set", "/srv/set", false).body("home");
        approved.target = None;
        places.add("/mnt/set", &mut approved).unwrap();
        assert_eq!(places.mounts[0]["options"], json!(["bind", "ro", "private"]));
        let options = [("type", "overlay"), ("device", "overlay"), ("o", "lowerdir=/a,upperdir=/b")];
        let driver = MountVolumeOptionsDriverConfig {
            name: Some("local".to_owned()),
            options: Some(options.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        };
        let volume_options = MountVolumeOptions { driver_config: Some(driver), ..Default::default() };
        let mut overlay =
            Mount { typ: Some(MountType::VOLUME), volume_options: Some(volume_options), ..Mount::default() };
        places.add("/nix/store", &mut overlay).unwrap();
        let expected = json!({
            "destination": "/nix/store",
            "type": "overlay",
            "source": "overlay",
            "options": ["lowerdir=/a", "upperdir=/b", "rw"],
        });
        assert_eq!(places.mounts[1], expected);
        assert!(places.volumes.is_empty(), "it goes with the container");
    }
}
