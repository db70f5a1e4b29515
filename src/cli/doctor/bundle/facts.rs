//! Facts about the program, the engine and the machine, for a report.

use std::path::Path;

use serde_json::{Value, json};

use crate::clock::unix_ms;
use crate::error::chain;
use crate::home::{FORMAT, atomic};
use crate::sandbox::engine::Engine;

/// Largest part in bytes that is read of a kernel file.
const MAX_BYTES: u64 = 256 << 10;

/// Returns the version of this program and the formats it writes.
pub(crate) fn version() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build": env!("FLOCK_VERSION"),
        "format": FORMAT,
        "arch": std::env::consts::ARCH,
        "os": std::env::consts::OS,
        "made_at": unix_ms() / 1000,
    })
}

/// Returns the engine's description of itself, or the error it gave.
pub(crate) async fn engine() -> Value {
    let engine = Engine::from_env();
    match engine.facts().await {
        Ok(facts) => json!({"endpoint": engine.endpoint(), "facts": facts}),
        Err(error) => json!({"endpoint": engine.endpoint(), "problem": chain(&error)}),
    }
}

/// Returns the kernel, memory and limits of this machine.
pub(crate) fn system() -> Value {
    let line = |path: &str| text(path).map(|text| text.trim().to_owned());
    let lines = |path: &str, names: &[&str]| -> Vec<String> {
        let text = text(path).unwrap_or_default();
        // Only the named lines are taken: other lines of these files say more about the machine than a report needs.
        let known = |line: &&str| names.iter().any(|name| line.starts_with(name));
        text.lines().filter(known).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    json!({
        // The whole line is taken, because it also names the compiler and the build of the distribution.
        "kernel": line("/proc/version"),
        "distribution": lines("/etc/os-release", &["PRETTY_NAME=", "ID=", "VERSION_ID="]),
        "memory": lines("/proc/meminfo", &["MemTotal", "MemAvailable", "SwapTotal", "SwapFree"]),
        "load": line("/proc/loadavg"),
        "cores": std::thread::available_parallelism().map(usize::from).ok(),
        "limits": lines("/proc/self/limits", &["Max open files", "Max processes", "Max file size", "Max core"]),
        "user": nix::unistd::Uid::effective().as_raw(),
        "cgroup_v2": Path::new("/sys/fs/cgroup/cgroup.controllers").exists(),
        // AppArmor, cgroups and user namespaces decide which sandbox settings the engine can apply.
        "apparmor": line("/sys/module/apparmor/parameters/enabled"),
        "user_namespaces": line("/proc/sys/user/max_user_namespaces"),
        "inotify_instances": line("/proc/sys/fs/inotify/max_user_instances"),
        "inotify_watches": line("/proc/sys/fs/inotify/max_user_watches"),
        "in_container": Path::new("/.dockerenv").exists(),
    })
}

fn text(path: &str) -> Option<String> {
    let bytes = atomic::read(Path::new(path), MAX_BYTES).ok()??;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
