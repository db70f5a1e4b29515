//! The specification of a check's sandbox. It names nothing of the home or the machine, so that the same checks have the
//! same specification everywhere.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::config::Agent;
use crate::home::Home;
use crate::id::hex;
use crate::sandbox::helper;
use crate::sandbox::spec::{
    self, ContainerSpec, HELPER_TARGET, MountSource, MountSpec, OPEN_FILES, PIDS, SandboxUser,
    WORKSPACE_TARGET,
};
use crate::sandbox::{binds, names, seccomp};

/// The properties of a check's sandbox that decide about the result of a check. A receipt shows them as they are here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckSandbox {
    /// CPU limit in thousandths of a core. A machine with fewer cores gives fewer.
    pub cpu_millis: u64,
    /// The SHA-256 of the helper program, which is PID 1.
    pub helper: String,
    /// The image that the owner configured. `None` stands for flock's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Memory limit in bytes. There is no swap beyond it.
    pub memory: u64,
    /// The mounts, each as `TARGET ro` or `TARGET rw`.
    pub mounts: Vec<String>,
    /// Always `none`.
    pub network: String,
    pub open_files: u64,
    /// Paths of the Nix store whose programs are on the PATH, in order.
    pub packages: Vec<String>,
    /// Limit on the number of processes.
    pub pids: u64,
    /// The OCI runtime that the owner configured. `None` stands for the engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The SHA-256 of the seccomp profile.
    pub seccomp: String,
    /// Size of `/tmp` in bytes.
    pub tmp_bytes: u64,
}

/// The facts about the machine that a container needs besides the specification.
pub(super) struct CheckHost<'a> {
    pub home: &'a Home,
    /// The run of checks.
    pub id: &'a str,
    /// The image's id.
    pub image: String,
    pub user: SandboxUser,
    /// Path of the helper program.
    pub helper: PathBuf,
    pub workspace: PathBuf,
}

impl CheckSandbox {
    /// Returns the specification of an agent's sandbox for a check. `packages` are the paths of the agent's packages in
    /// the store.
    ///
    /// The agent's own environment, binds and mounts are left out: they are not part of what it delivers, and may hold
    /// what a receipt must not show.
    #[must_use]
    pub fn of(agent: &Agent, packages: Vec<String>) -> Self {
        // The number of cores is the machine's, so it does not count here.
        let (memory, tmp_bytes, cpu_millis) = spec::limits(agent, u64::MAX / 1000);
        Self {
            cpu_millis,
            helper: helper::PROGRAM_SHA256.to_owned(),
            image: agent.docker.image.clone(),
            memory,
            mounts: mounts(),
            network: "none".to_owned(),
            open_files: u64::try_from(OPEN_FILES).unwrap_or_default(),
            packages,
            pids: u64::try_from(PIDS).unwrap_or_default(),
            runtime: agent.docker.runtime.clone(),
            seccomp: hex(&Sha256::digest(seccomp::profile())),
            tmp_bytes,
        }
    }

    /// Returns the same specification with this flock's own parts, and the names of the parts that differ. Another
    /// flock's helper and seccomp profile can't be used again.
    #[must_use]
    pub fn of_this_flock(&self) -> (Self, Vec<&'static str>) {
        let own = Self {
            helper: helper::PROGRAM_SHA256.to_owned(),
            seccomp: hex(&Sha256::digest(seccomp::profile())),
            mounts: mounts(),
            network: "none".to_owned(),
            // A receipt of a stranger must not get more than a sandbox of this home.
            pids: self.pids.min(u64::try_from(PIDS).unwrap_or_default()),
            open_files: self.open_files.min(u64::try_from(OPEN_FILES).unwrap_or_default()),
            ..self.clone()
        };
        let mut differs = Vec::new();
        let mut note = |name, is_same: bool| {
            if !is_same {
                differs.push(name);
            }
        };
        note("helper", own.helper == self.helper);
        note("seccomp profile", own.seccomp == self.seccomp);
        note("mounts", own.mounts == self.mounts);
        note("network", own.network == self.network);
        note("limits", (own.pids, own.open_files) == (self.pids, self.open_files));
        (own, differs)
    }

    /// Returns the environment of every command, as `NAME=value`.
    #[must_use]
    pub(super) fn environment(&self) -> Vec<String> {
        let packages: String = self.packages.iter().map(|path| format!("{path}/bin:")).collect();
        vec![
            format!("PATH={packages}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            format!("HOME={WORKSPACE_TARGET}/{}", super::HOME_FOLDER),
            "LANG=C.UTF-8".to_owned(),
        ]
    }

    /// Returns the container for one command.
    #[must_use]
    pub(super) fn container(&self, host: CheckHost<'_>) -> ContainerSpec {
        let store = MountSource::Volume(names::store_volume(host.home));
        let mut mounts = vec![
            MountSpec::path(HELPER_TARGET, host.helper, false),
            MountSpec { target: binds::STORE_TARGET.to_owned(), source: store, writable: false },
            MountSpec::path(WORKSPACE_TARGET, host.workspace, true),
        ];
        mounts.sort();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let cpu_millis = self.cpu_millis.min(cores * 1000);
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        ContainerSpec {
            name: names::check(host.home, host.id),
            home: names::owner(host.home),
            agent: String::new(),
            mcp_server: None,
            check: Some(host.id.to_owned()),
            image: host.image,
            user: format!("{}:{}", host.user.uid, host.user.gid),
            runtime: self.runtime.clone(),
            mounts,
            identity: Vec::new(),
            parts: Vec::new(),
            memory: signed(self.memory),
            nano_cpus: signed(cpu_millis.saturating_mul(1_000_000)),
            pids: signed(self.pids),
            open_files: signed(self.open_files),
            tmp_bytes: self.tmp_bytes,
        }
    }
}

fn mounts() -> Vec<String> {
    vec![
        format!("{HELPER_TARGET} ro"),
        format!("{} ro", binds::STORE_TARGET),
        "/tmp rw".to_owned(),
        format!("{WORKSPACE_TARGET} rw"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::testing;

    #[test]
    fn a_check_has_the_agents_limits_and_nothing_else_of_it() {
        let mut agent = testing::agent("coder", "/srv/flock/workspaces/coder".into());
        agent.docker.memory = Some(256 << 20);
        agent.docker.env.insert("KEY".to_owned(), "sk-planted".to_owned());
        let sandbox = CheckSandbox::of(&agent, vec!["/nix/store/a".to_owned()]);
        let text = serde_json::to_string(&sandbox).unwrap() + &sandbox.environment().join("\n");
        assert!(!text.contains("sk-planted") && !text.contains("coder"), "{text}");
        assert!(text.contains("/nix/store/a/bin:"), "{text}");
        let home = Home::new("/srv/flock".into(), None);
        let container = sandbox.container(CheckHost {
            home: &home,
            id: "0123456789ab",
            image: "sha256:abc".to_owned(),
            user: SandboxUser { uid: 31_000, gid: 31_000 },
            helper: "/srv/flock/run/helper/1/flock-helper".into(),
            workspace: "/srv/flock/run/checks/0123456789ab/workspace".into(),
        });
        let body = container.body();
        assert_eq!(body.hostname.as_deref(), Some("check"));
        let labels = body.labels.unwrap();
        assert!(!labels.contains_key(names::LABEL_AGENT), "{labels:?}");
        assert_eq!(labels[names::LABEL_CHECK], "0123456789ab");
        let host = body.host_config.unwrap();
        assert_eq!((host.memory, host.network_mode.as_deref()), (Some(256 << 20), Some("none")));
        assert_eq!(host.auto_remove, Some(true));
        assert_eq!(body.stdin_once, Some(true));
        let targets: Vec<_> = host.mounts.unwrap().into_iter().filter_map(|mount| mount.target).collect();
        assert_eq!(targets, ["/flock-helper", "/nix", "/workspace"]);
    }

    #[test]
    fn another_flocks_parts_are_named() {
        let agent = testing::agent("coder", "/srv/flock/workspaces/coder".into());
        let sandbox = CheckSandbox::of(&agent, Vec::new());
        assert_eq!(sandbox.of_this_flock(), (sandbox.clone(), Vec::new()));
        let other = CheckSandbox { helper: "0".repeat(64), network: "host".to_owned(), ..sandbox.clone() };
        assert_eq!(other.of_this_flock(), (sandbox, vec!["helper", "network"]));
    }
}
