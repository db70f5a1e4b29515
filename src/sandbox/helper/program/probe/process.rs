//! Reports the identity of the probe, its limits, and its access to the helper.

use std::fs::{self, File, OpenOptions};

use super::Lines;
use super::calls;

const STATUS: [&str; 11] = [
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
];

/// Files of the limits, in both versions of control groups.
const LIMITS: [(&str, &str); 7] = [
    ("pids", "/sys/fs/cgroup/pids.max"),
    ("pids", "/sys/fs/cgroup/pids/pids.max"),
    ("memory", "/sys/fs/cgroup/memory.max"),
    ("memory", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ("cpu", "/sys/fs/cgroup/cpu.max"),
    ("cpu_quota", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    ("cpu_period", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
];

/// Reports `status.<name>=…` for fields of /proc/self/status. Fields that a kernel leaves out there are asked for with
/// a system call.
pub fn identity(lines: &mut Lines) {
    let mut seen = Vec::new();
    for line in fs::read_to_string("/proc/self/status").unwrap_or_default().lines() {
        if let Some((name, value)) = line.split_once(':')
            && STATUS.contains(&name)
        {
            let words: Vec<&[u8]> = value.split_ascii_whitespace().map(str::as_bytes).collect();
            lines.say(&format!("status.{name}"), if words.is_empty() { &[b"none"] } else { &words });
            seen.push(name.to_owned());
        }
    }
    if !seen.iter().any(|name| name == "NoNewPrivs") {
        lines.say("status.NoNewPrivs", &[if calls::has_no_new_privileges() { b"1" } else { b"0" }]);
    }
    if !seen.iter().any(|name| name == "CapAmb") {
        lines.say("status.CapAmb", &[format!("{:016x}", calls::ambient_capabilities()).as_bytes()]);
    }
}

/// Reports `limit.<name>=…` if the control groups are visible.
pub fn limits(lines: &mut Lines) {
    for (name, path) in LIMITS {
        if let Ok(value) = fs::read_to_string(path) {
            let words: Vec<&[u8]> = value.split_ascii_whitespace().map(str::as_bytes).collect();
            lines.say(&format!("limit.{name}"), &words);
        }
    }
}

/// Reports `helper.pid=…` and `helper.<what>=open|closed`. The helper needs protection because it holds the streams to
/// flock.
pub fn helper(lines: &mut Lines) {
    // A probe that the engine's exec has started has a parent outside the container. The helper is then process 1.
    let pid = match calls::parent() {
        0 => 1,
        parent => parent,
    };
    let at = |name: &str| format!("/proc/{pid}/{name}");
    lines.say("helper.pid", &[pid.to_string().as_bytes()]);
    let tries = [
        ("fd", fs::read_dir(at("fd")).is_ok() || fs::read_link(at("fd/0")).is_ok()),
        ("environ", fs::read(at("environ")).is_ok_and(|bytes| !bytes.is_empty())),
        ("mem", File::open(at("mem")).is_ok() || OpenOptions::new().write(true).open(at("mem")).is_ok()),
        ("root", fs::read_link(at("root")).is_ok()),
        ("ptrace", calls::can_trace(pid)),
    ];
    for (what, open) in tries {
        lines.say_open(&format!("helper.{what}"), open);
    }
}

/// Reports `namespace.user=open|closed`: if a namespace can be created in which this user has all capabilities.
pub fn namespaces(lines: &mut Lines) {
    lines.say_open("namespace.user", calls::new_user_namespace());
}
