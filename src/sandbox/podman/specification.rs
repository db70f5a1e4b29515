//! The translation of a request of Docker's interface for a container. Each part is taken out of the request as it is translated,
//! and a request of which something is left is refused.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{ContainerCreateBody, HostConfig, ResourcesUlimits, RestartPolicyNameEnum};
use serde_json::{Value, json};

use super::in_memory::{self, ANNOTATION};
use super::places::Places;
use super::service::Service;
use crate::sandbox::spec;

/// The period of the limit on processors, in microseconds.
const CPU_PERIOD: i64 = 100_000;

/// A request for a container in the form of Podman's own interface.
pub(super) struct Specification {
    pub(super) document: Value,
    /// The volumes that it needs, with their labels.
    pub(super) volumes: Vec<(String, HashMap<String, String>)>,
}

impl Specification {
    /// Translates a request of Docker's interface. `profile` is the file with the filter of system calls.
    ///
    /// # Errors
    ///
    /// Returns a description of what can't be translated.
    pub(super) fn of(
        name: &str,
        body: &ContainerCreateBody,
        service: &Service,
        profile: &Path,
    ) -> Result<Self, String> {
        let mut body = body.clone();
        let mut host = body.host_config.take().unwrap_or_default();
        if let Some(wanted) = host.runtime.take().filter(|wanted| *wanted != service.runtime) {
            return Err(format!(
                "a service of Podman has one runtime for all containers, which is {} and not {wanted}",
                service.runtime
            ));
        }
        let is_confined = take_walls(&mut body, &mut host);
        // Podman attaches what a request to attach names, and closes standard input with the first one in any case.
        for attached in
            [&mut body.attach_stdin, &mut body.attach_stdout, &mut body.attach_stderr, &mut body.stdin_once]
        {
            *attached = None;
        }
        let Places { mut mounts, named, volumes } = Places::of(host.mounts.take().unwrap_or_default())?;
        let tmpfs = host.tmpfs.take().unwrap_or_default();
        mounts.extend(tmpfs.iter().map(|(target, options)| in_memory::mount(target, options)));
        let limits = process_limits(&host.ulimits.take().unwrap_or_default(), service);
        let mut document = walls();
        // A rootless service shifts users. With this, the workspace is the sandbox's own as with Docker of root.
        let users = if service.is_rootless { "keep-id" } else { "host" };
        for (key, value) in [
            ("name", json!(name)),
            ("image", json!(body.image.take())),
            ("hostname", json!(body.hostname.take())),
            ("user", json!(body.user.take())),
            ("entrypoint", json!(body.entrypoint.take())),
            ("command", json!(body.cmd.take())),
            ("work_dir", json!(body.working_dir.take())),
            ("labels", json!(body.labels.take())),
            ("annotations", json!({ANNOTATION: json!(tmpfs).to_string()})),
            ("stdin", json!(body.open_stdin.take())),
            ("remove", json!(host.auto_remove.take())),
            ("read_only_filesystem", json!(host.readonly_rootfs.take())),
            ("seccomp_profile_path", json!(profile)),
            ("cap_drop", json!(host.cap_drop.take())),
            ("cap_add", json!(host.cap_add.take())),
            ("userns", json!({"nsmode": users})),
            ("r_limits", json!(limits)),
            ("resource_limits", resources(&mut host)),
            ("mounts", json!(mounts)),
            ("volumes", json!(named)),
        ] {
            document[key] = value;
        }
        if let Some(adjustment) = host.oom_score_adj.take() {
            document["oom_score_adj"] = json!(adjustment);
        }
        if !is_confined || body != ContainerCreateBody::default() || host != HostConfig::default() {
            return Err("the request has a part that is not translated for Podman".to_owned());
        }
        Ok(Self { document, volumes })
    }
}

/// Takes those parts out of a request that are defaults of Podman's own interface or set by [`walls`]. Returns `false` if one of
/// them asks for something else.
fn take_walls(body: &mut ContainerCreateBody, host: &mut HostConfig) -> bool {
    host.privileged.take() != Some(true)
        && host.init.take() != Some(true)
        && host.network_mode.take().as_deref() == Some("none")
        && host.ipc_mode.take().as_deref() == Some("private")
        && host.security_opt.take() == Some(spec::security_options())
        && host.log_config.take().and_then(|log| log.typ).as_deref() == Some("none")
        && host.restart_policy.take().and_then(|policy| policy.name) == Some(RestartPolicyNameEnum::NO)
        && body.stop_signal.take().as_deref() == Some("SIGKILL")
        && body.tty.take() != Some(true)
        && body.network_disabled.take() != Some(true)
}

/// Returns what all containers have in common, which [`take_walls`] has found in the request.
fn walls() -> Value {
    let own = json!({"nsmode": "private"});
    json!({
        "stop_signal": nix::libc::SIGKILL,
        // It would mount more, and make parts of it writable, for an init process of that name.
        "systemd": "false",
        "sdnotifyMode": "ignore",
        // The proxy of the service's own environment must not get in.
        "httpproxy": false,
        "image_volume_mode": "ignore",
        "log_configuration": {"driver": "none"},
        "restart_policy": "no",
        "privileged": false,
        "no_new_privileges": true,
        "netns": {"nsmode": "none"},
        "ipcns": own,
        "pidns": own,
        "utsns": own,
        "cgroupns": own,
    })
}

/// Returns the limits of a process: those of a request, and those of the service where the request has none.
fn process_limits(given: &[ResourcesUlimits], service: &Service) -> Vec<Value> {
    let is_given = |name: &str| given.iter().any(|one| one.name.as_deref() == Some(name));
    let missing = service.limits.iter().filter(|(name, _)| !is_given(name));
    let missing = missing.map(|(name, most)| json!({"type": name, "soft": most, "hard": most}));
    let limits = given.iter().map(|one| json!({"type": one.name, "soft": one.soft, "hard": one.hard}));
    limits.chain(missing).collect()
}

/// Takes the limits of the control groups out of a request.
fn resources(host: &mut HostConfig) -> Value {
    let mut limits = json!({});
    if let Some(memory) = host.memory.take() {
        limits["memory"] = json!({"limit": memory});
        if let Some(swap) = host.memory_swap.take() {
            limits["memory"]["swap"] = json!(swap);
        }
    }
    if let Some(nanos) = host.nano_cpus.take() {
        limits["cpu"] = json!({"quota": nanos / (1_000_000_000 / CPU_PERIOD), "period": CPU_PERIOD});
    }
    if let Some(most) = host.pids_limit.take() {
        limits["pids"] = json!({"limit": most});
    }
    limits
}

#[cfg(test)]
#[path = "specification_tests.rs"]
mod tests;
