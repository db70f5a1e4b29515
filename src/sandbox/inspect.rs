//! Compares a container with its specification. The engine's description of the container is checked field by field.
//! Every difference that loosens the container is a finding, and a container with findings is not used.

use std::collections::BTreeSet;

use bollard::models::{ContainerInspectResponse, HostConfig, MountPoint};

use crate::sandbox::spec::{self, ContainerSpec, HELPER_TARGET, MountSource, MountSpec};

/// Returns the differences between a container and its specification. An empty list means that the container is as
/// confined as the specification demands. `limits_swap` is `false` if the engine's kernel cannot limit swap.
#[must_use]
pub fn findings(spec: &ContainerSpec, found: &ContainerInspectResponse, limits_swap: bool) -> Vec<String> {
    let mut findings = Findings::default();
    let config = found.config.clone().unwrap_or_default();
    let labels = config.labels.unwrap_or_default();
    for (label, value) in spec.labels() {
        findings.equal(&format!("label {label}"), &labels.get(&label), &Some(&value));
    }
    findings.equal("image", &found.image.as_ref(), &Some(&spec.image));
    findings.equal("user", &config.user.as_ref(), &Some(&spec.user));
    let entrypoint = config.entrypoint.unwrap_or_default();
    findings.check("entrypoint", entrypoint == [HELPER_TARGET]);
    findings.check("command", config.cmd.unwrap_or_default().is_empty());
    findings.check("terminal", config.tty != Some(true));
    // A second attach does not get an answer if the engine closes standard input after the first one. A check container
    // is attached to once and has to end with its owner.
    let closes_once = config.stdin_once == Some(true);
    findings.check("standard input", config.open_stdin == Some(true) && closes_once == spec.check.is_some());
    match &found.host_config {
        Some(host) => {
            host_config(spec, host, &mut findings);
            // Without a limit on swap in the kernel, the engine replaces the value that was asked for.
            if limits_swap {
                findings.equal("memory and swap", &host.memory_swap, &Some(spec.memory));
            }
        }
        None => findings.check("host configuration", false),
    }
    mounts(spec, found.mounts.as_deref().unwrap_or_default(), &mut findings);
    // Docker lists the network "none" as it lists any other.
    let networks = found.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
    let only_none = networks.is_none_or(|networks| networks.keys().all(|name| name == "none"));
    findings.check("networks", only_none);
    findings.0
}

fn host_config(spec: &ContainerSpec, host: &HostConfig, findings: &mut Findings) {
    // Without a chosen runtime the engine fills in the name of its default, which may be any.
    if spec.runtime.is_some() {
        findings.equal("runtime", &host.runtime, &spec.runtime);
    }
    findings.equal("network", &host.network_mode.as_deref(), &Some("none"));
    findings.check("privileged", host.privileged != Some(true));
    findings.check("read-only root", host.readonly_rootfs == Some(true));
    let dropped = host.cap_drop.as_deref().unwrap_or_default();
    findings.check("dropped capabilities", dropped.iter().any(|name| name == "ALL"));
    findings.none("added capabilities", host.cap_add.as_deref());
    let options = host.security_opt.as_deref().unwrap_or_default();
    findings.check("security options", options == spec::security_options());
    findings.none("devices", host.devices.as_deref());
    findings.none("device rules", host.device_cgroup_rules.as_deref());
    findings.none("device requests", host.device_requests.as_deref());
    findings.none("binds", host.binds.as_deref());
    findings.none("volumes of other containers", host.volumes_from.as_deref());
    findings.none("added groups", host.group_add.as_deref());
    findings.none("links", host.links.as_deref());
    findings.check("sysctls", host.sysctls.as_ref().is_none_or(std::collections::HashMap::is_empty));
    findings.check("ports", host.port_bindings.as_ref().is_none_or(std::collections::HashMap::is_empty));
    // An empty mode means a separate namespace. The other values share the host's or another container's.
    let namespaces = [("pid", &host.pid_mode), ("uts", &host.uts_mode), ("user", &host.userns_mode)];
    for (name, mode) in namespaces {
        findings.check(&format!("{name} namespace"), mode.as_deref().unwrap_or_default().is_empty());
    }
    findings.equal("ipc namespace", &host.ipc_mode.as_deref(), &Some("private"));
    findings.equal("memory", &host.memory, &Some(spec.memory));
    findings.equal("cpu", &host.nano_cpus, &Some(spec.nano_cpus));
    findings.equal("processes", &host.pids_limit, &Some(spec.pids));
    findings.check("out-of-memory killer", host.oom_kill_disable != Some(true));
    let limits = host.ulimits.clone().unwrap_or_default();
    findings.check("ulimits", spec::ulimits(spec.open_files).iter().all(|limit| limits.contains(limit)));
    findings.equal("tmpfs", &host.tmpfs.clone().unwrap_or_default(), &spec.tmpfs());
    let driver = host.log_config.as_ref().and_then(|log| log.typ.as_deref());
    findings.equal("log driver", &driver, &Some("none"));
    let masked = host.masked_paths.as_deref();
    // A missing list is accepted. If there is one, it must still contain a well-known path of the defaults.
    findings.check("masked paths", masked.is_none_or(|paths| paths.iter().any(|path| path == "/proc/kcore")));
    let read_only = host.readonly_paths.as_deref();
    findings
        .check("read-only paths", read_only.is_none_or(|paths| paths.iter().any(|path| path == "/proc/sys")));
}

/// Compares the mounts as sets, because the engine reports them in any order.
fn mounts(spec: &ContainerSpec, found: &[MountPoint], findings: &mut Findings) {
    let asked: BTreeSet<MountSpec> = spec.mounts.iter().cloned().collect();
    let mut there = BTreeSet::new();
    for mount in found {
        let target = mount.destination.clone().unwrap_or_default();
        let source = match mount.typ.as_deref() {
            Some("bind") => MountSource::Path(mount.source.clone().unwrap_or_default().into()),
            Some("volume") if mount.driver.as_deref() == Some("local") => {
                MountSource::Volume(mount.name.clone().unwrap_or_default())
            }
            // `/tmp` is compared by its mount options instead.
            Some("tmpfs") if target == "/tmp" => continue,
            _ => {
                findings.check(&format!("mount of {target}"), false);
                continue;
            }
        };
        there.insert(MountSpec { target, source, writable: mount.rw == Some(true) });
    }
    // A missing mount is as wrong as an additional one.
    for mount in asked.symmetric_difference(&there) {
        findings.check(&format!("mount of {}", mount.target), false);
    }
}

#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn check(&mut self, what: &str, holds: bool) {
        if !holds {
            self.0.push(format!("{what} differs from what was asked for"));
        }
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &T, asked: &T) {
        if found != asked {
            self.0.push(format!("{what} is {found:?} and should be {asked:?}"));
        }
    }

    fn none<T>(&mut self, what: &str, list: Option<&[T]>) {
        if list.is_some_and(|list| !list.is_empty()) {
            self.0.push(format!("it has {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::testing;

    #[test]
    fn a_limit_on_swap_that_was_raised_or_taken_away_is_found_where_there_can_be_one() {
        let spec = testing::spec();
        let about_swap = |memory_swap: Option<i64>, limits_swap: bool| {
            let host_config = HostConfig { memory_swap, ..spec.body().host_config.unwrap() };
            let found = ContainerInspectResponse {
                host_config: Some(host_config),
                ..ContainerInspectResponse::default()
            };
            findings(&spec, &found, limits_swap).iter().filter(|finding| finding.contains("swap")).count()
        };
        assert_eq!(about_swap(Some(spec.memory), true), 0);
        for raised in [Some(-1), Some(2 * spec.memory), Some(0), None] {
            assert_eq!(about_swap(raised, true), 1, "{raised:?}");
        }
        assert_eq!(about_swap(Some(-1), false), 0);
    }
}
