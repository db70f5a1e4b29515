use serde_json::json;

use super::*;
use crate::sandbox::inspect::findings as differences;
use crate::sandbox::spec::{ContainerSpec, MountSource};
use crate::sandbox::testing;

/// Returns what crun was given for the sandbox, as Podman 4.3.1 writes it.
fn given(spec: &ContainerSpec) -> Value {
    let spaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"].map(|kind| json!({"type": kind}));
    let (_, tmpfs) = spec.tmpfs().into_iter().next().unwrap();
    let tmpfs: Vec<&str> = tmpfs.split(',').chain(["rprivate"]).collect();
    json!({
        "process": {
            "capabilities": {},
            "noNewPrivileges": true,
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "hard": spec.open_files, "soft": spec.open_files},
                {"type": "RLIMIT_NPROC", "hard": 1_048_576, "soft": 1_048_576},
                {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            ],
        },
        "root": {"readonly": true},
        "mounts": [
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": tmpfs},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "noexec"]},
        ],
        "linux": {
            "resources": {
                "memory": {"limit": spec.memory, "swap": spec.memory},
                "cpu": {"quota": spec.nano_cpus / 10_000, "period": 100_000},
                "pids": {"limit": spec.pids},
            },
            "namespaces": spaces,
            "maskedPaths": ["/proc/kcore"],
            "readonlyPaths": ["/proc/sys"],
            "seccomp": filter::given(),
        },
    })
}

/// Returns Podman's own description of the sandbox in Docker's interface.
fn reported(spec: &ContainerSpec) -> ContainerInspectResponse {
    let mounts: Vec<Value> = spec
        .mounts
        .iter()
        .map(|mount| {
            let (kind, source, name) = match &mount.source {
                MountSource::Path(path) => ("bind", path.to_string_lossy().into_owned(), ""),
                MountSource::Volume(name) => ("volume", "/volumes".to_owned(), name.as_str()),
            };
            let driver = if kind == "volume" { "local" } else { "" };
            json!({
                "Type": kind, "Source": source, "Name": name, "Driver": driver,
                "Destination": mount.target, "RW": mount.writable,
            })
        })
        .collect();
    serde_json::from_value(json!({
        "Id": "bac32c",
        "Image": spec.image,
        "HostConfig": {
            "Binds": ["/srv/flock/workspaces/coder:/workspace:rbind,rw,rprivate"],
            "LogConfig": {"Type": "none", "Config": null},
            "NetworkMode": "none",
            "CapAdd": [],
            "CapDrop": ["AUDIT_WRITE", "CHOWN"],
            "IpcMode": "shareable",
            "PidMode": "private",
            "UTSMode": "private",
            "UsernsMode": "",
            "Privileged": false,
            "Runtime": "oci",
            "SecurityOpt": ["no-new-privileges"],
            "Tmpfs": {"/tmp": "rw,rprivate"},
        },
        "GraphDriver": {"Data": null, "Name": "vfs"},
        "Mounts": mounts,
        "Config": {
            "User": spec.user,
            "Tty": false,
            "OpenStdin": true,
            "StdinOnce": false,
            "Cmd": [],
            "Entrypoint": ["/flock-helper"],
            "Labels": spec.labels(),
        },
        "NetworkSettings": {"Networks": {}},
    }))
    .unwrap()
}

/// A change of what a runtime was given.
type Loosening = fn(&mut Value);

#[test]
fn a_sandbox_is_judged_by_what_its_runtime_was_given() {
    let spec = testing::spec();
    let findings = |change: Loosening| {
        let mut given = given(&spec);
        change(&mut given);
        differences(&spec, &in_words_of_docker(reported(&spec), Some("crun"), &given), true)
    };
    assert_eq!(findings(|_| ()), Vec::<String>::new());
    let loosened: [(&str, Loosening); 16] = [
        ("nothing is known", |given| *given = Value::Null),
        ("new privileges", |given| given["process"]["noNewPrivileges"] = json!(false)),
        ("a capability", |given| given["process"]["capabilities"] = json!({"bounding": ["CAP_CHOWN"]})),
        ("open files", |given| given["process"]["rlimits"][0]["hard"] = json!(1_048_576)),
        ("a writable root", |given| given["root"]["readonly"] = json!(false)),
        ("memory", |given| given["linux"]["resources"]["memory"] = Value::Null),
        ("swap", |given| given["linux"]["resources"]["memory"]["swap"] = json!(-1)),
        ("processors", |given| given["linux"]["resources"]["cpu"] = Value::Null),
        ("processes", |given| given["linux"]["resources"]["pids"] = Value::Null),
        ("no filter", |given| given["linux"]["seccomp"] = Value::Null),
        ("another filter", |given| given["linux"]["seccomp"]["defaultAction"] = json!("SCMP_ACT_ALLOW")),
        ("the host's processes", |given| given["linux"]["namespaces"][0]["type"] = json!("user")),
        ("another's network", |given| given["linux"]["namespaces"][1]["path"] = json!("/run/netns/a")),
        ("the host's memory segments", |given| given["linux"]["namespaces"][2]["type"] = json!("user")),
        ("writable memory", |given| given["mounts"][1]["destination"] = json!("/run")),
        ("nothing masked", |given| given["linux"]["maskedPaths"] = json!([])),
    ];
    for (what, change) in loosened {
        assert!(!findings(change).is_empty(), "{what}");
    }
}
