//! The description of a container in the words of Docker, by what its runtime was given.

use std::collections::BTreeSet;

use bollard::models::{ContainerInspectResponse, ResourcesUlimits};
use serde_json::Value;

use super::{filter, in_memory, items, strings};
use crate::sandbox::{names, seccomp};

/// Describes a container that was started. Podman's own translation leaves out the filter of system calls, names the namespaces
/// otherwise and lists each mount twice.
pub(super) fn in_words_of_docker(
    mut found: ContainerInspectResponse,
    runtime: Option<&str>,
    given: &Value,
) -> ContainerInspectResponse {
    let (process, linux) = (&given["process"], &given["linux"]);
    if let Some(settings) = &mut found.config {
        // It does not say that it closes standard input with the first attached stream, which it always does.
        let is_check = settings.labels.as_ref().is_some_and(|labels| labels.contains_key(names::LABEL_CHECK));
        settings.stdin_once = Some(is_check);
    }
    let Some(host) = found.host_config.as_mut().filter(|_| process.is_object() && linux.is_object()) else {
        // Without the parts that are needed it is not confined.
        found.host_config = None;
        return found;
    };
    // A namespace with a path is that of somebody else.
    let path_of = |kind: &str| {
        let mut spaces = items(&linux["namespaces"]);
        let space = spaces.find(|space| space["type"] == kind)?;
        Some(space["path"].as_str().unwrap_or_default())
    };
    let mode = |kind: &str, own: &str| match path_of(kind) {
        Some("") => own.to_owned(),
        Some(path) => path.to_owned(),
        None => "host".to_owned(),
    };
    host.runtime = runtime.map(str::to_owned);
    host.pid_mode = Some(mode("pid", ""));
    host.uts_mode = Some(mode("uts", ""));
    host.ipc_mode = Some(mode("ipc", "private"));
    // Docker's containers share the users of the engine, too.
    host.userns_mode = Some(path_of("user").unwrap_or_default().to_owned());
    let shared_network = mode("network", "");
    if !shared_network.is_empty() {
        host.network_mode = Some(shared_network);
    }
    host.readonly_rootfs = given["root"]["readonly"].as_bool();
    let sets = process["capabilities"].as_object();
    let held: BTreeSet<&str> =
        sets.into_iter().flat_map(|sets| sets.values()).flat_map(items).filter_map(Value::as_str).collect();
    host.cap_drop = Some(vec!["ALL".to_owned()]);
    host.cap_add = Some(held.into_iter().map(|name| name.trim_start_matches("CAP_").to_owned()).collect());
    let has_filter = linux["seccomp"] == filter::given();
    let options = [
        (process["noNewPrivileges"] == true).then(|| "no-new-privileges".to_owned()),
        has_filter.then(seccomp::option),
    ];
    host.security_opt = Some(options.into_iter().flatten().collect());
    let limit = |limit: &Value| {
        Some(ResourcesUlimits {
            name: Some(limit["type"].as_str()?.trim_start_matches("RLIMIT_").to_ascii_lowercase()),
            soft: limit["soft"].as_i64(),
            hard: limit["hard"].as_i64(),
        })
    };
    host.ulimits = Some(items(&process["rlimits"]).filter_map(limit).collect());
    let resources = &linux["resources"];
    host.memory = resources["memory"]["limit"].as_i64();
    host.memory_swap = resources["memory"]["swap"].as_i64();
    host.pids_limit = resources["pids"]["limit"].as_i64();
    let (quota, period) = (resources["cpu"]["quota"].as_i64(), resources["cpu"]["period"].as_i64());
    host.nano_cpus =
        quota.zip(period).and_then(|(quota, period)| quota.checked_mul(1_000_000_000)?.checked_div(period));
    host.masked_paths = Some(strings(&linux["maskedPaths"]));
    host.readonly_paths = Some(strings(&linux["readonlyPaths"]));
    // Each of them is among the mounts.
    host.binds = None;
    host.tmpfs = Some(in_memory::described(given));
    found
}

#[cfg(test)]
#[path = "description_tests.rs"]
mod tests;
