use super::*;
use crate::sandbox::inspect::findings as differences;
use crate::sandbox::spec::ContainerSpec;
use crate::sandbox::testing;

fn service() -> Service {
    Service {
        is_rootless: false,
        runtime: "crun".to_owned(),
        controllers: Vec::new(),
        limits: [("nproc", 5000), ("nofile", 20_000)],
    }
}

fn translated(body: &ContainerCreateBody, service: &Service) -> Result<Specification, String> {
    Specification::of("flock-coder", body, service, Path::new("/tmp/profile"))
}

/// Returns the body with another host configuration.
fn changed(change: impl FnOnce(&mut HostConfig)) -> ContainerCreateBody {
    let mut body = testing::spec().body();
    change(body.host_config.as_mut().unwrap());
    body
}

#[test]
fn a_sandbox_is_translated_with_all_its_walls() {
    let spec = testing::spec();
    let Specification { document, volumes } = translated(&spec.body(), &service()).unwrap();
    for (pointer, expected) in [
        ("/name", json!("flock-coder")),
        ("/image", json!("sha256:abc")),
        ("/user", json!("1000:1000")),
        ("/read_only_filesystem", json!(true)),
        ("/no_new_privileges", json!(true)),
        ("/cap_drop", json!(["ALL"])),
        ("/cap_add", Value::Null),
        ("/seccomp_profile_path", json!("/tmp/profile")),
        ("/netns/nsmode", json!("none")),
        ("/userns/nsmode", json!("host")),
        ("/resource_limits/memory", json!({"limit": spec.memory, "swap": spec.memory})),
        ("/resource_limits/cpu", json!({"quota": spec.nano_cpus / 10_000, "period": 100_000})),
        ("/resource_limits/pids/limit", json!(spec.pids)),
        ("/r_limits/2", json!({"type": "nproc", "soft": 5000, "hard": 5000})),
        ("/r_limits/3", Value::Null),
        ("/r_limits/0", json!({"type": "nofile", "soft": spec.open_files, "hard": spec.open_files})),
    ] {
        assert_eq!(document.pointer(pointer).unwrap_or(&Value::Null), &expected, "{pointer}");
    }
    let place = |target: &str| {
        let all = items(&document["mounts"]).chain(items(&document["volumes"]));
        let mut found = all.filter(|mount| mount["destination"] == target || mount["Dest"] == target);
        found.next().cloned().unwrap_or_default()
    };
    assert_eq!(place("/flock-helper")["options"], json!(["rbind", "ro", "rprivate"]));
    assert_eq!(place("/workspace")["options"], json!(["rbind", "rw", "rprivate"]));
    assert_eq!(place("/nix")["Options"], json!(["ro", "nocopy"]));
    assert!(
        strings(&place("/tmp")["options"]).ends_with(&["mode=1777".to_owned(), "notmpcopyup".to_owned()])
    );
    let (_, labels) = volumes.first().unwrap();
    assert_eq!(labels.get(names::LABEL_HOME), Some(&spec.home), "Podman would make it without a label");
}

#[test]
fn a_rootless_service_keeps_the_users_number() {
    let rootless = Service { is_rootless: true, ..service() };
    let document = translated(&testing::spec().body(), &rootless).unwrap().document;
    assert_eq!(document["userns"]["nsmode"], "keep-id");
}

#[test]
fn an_approved_folder_is_mounted_without_what_is_below_and_an_overlay_as_a_mount() {
    let mut places = Places::default();
    let mut approved = spec::MountSpec::path("/mnt/set", "/srv/set", false).body("home");
    approved.target = None;
    places.add("/mnt/set", &mut approved).unwrap();
    assert_eq!(places.mounts[0]["options"], json!(["bind", "ro", "private"]));
    let options = [("type", "overlay"), ("device", "overlay"), ("o", "lowerdir=/a,upperdir=/b")];
    let driver = bollard::models::MountVolumeOptionsDriverConfig {
        name: Some("local".to_owned()),
        options: Some(options.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
    };
    let volume_options =
        bollard::models::MountVolumeOptions { driver_config: Some(driver), ..Default::default() };
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

#[test]
fn what_has_no_translation_is_refused() {
    let refused = |change: fn(&mut HostConfig)| translated(&changed(change), &service()).is_err();
    assert!(!refused(|_| ()));
    assert!(!refused(|host| host.runtime = Some("crun".to_owned())));
    assert!(refused(|host| host.runtime = Some("runsc".to_owned())), "one service has one runtime");
    assert!(refused(|host| host.privileged = Some(true)));
    assert!(refused(|host| host.network_mode = Some("host".to_owned())));
    assert!(refused(|host| host.security_opt = Some(vec!["no-new-privileges".to_owned()])));
    assert!(refused(|host| host.ipc_mode = Some("host".to_owned())));
    assert!(refused(|host| host.binds = Some(vec!["/:/host".to_owned()])));
    assert!(refused(|host| host.memory_swappiness = Some(0)), "a setting that nobody thought of");
    assert!(refused(|host| host.mounts.as_mut().unwrap()[0].consistency = Some("cached".to_owned())));
    let body = ContainerCreateBody { env: Some(vec!["A=1".to_owned()]), ..testing::spec().body() };
    assert!(translated(&body, &service()).is_err());
}

#[test]
fn memory_that_has_an_owner_is_described_as_it_was_asked_for_and_no_other() {
    let asked = "rw,noexec,size=9,uid=30,gid=30,mode=755";
    let body = changed(|host| host.tmpfs = Some(HashMap::from([("/nix/var".to_owned(), asked.to_owned())])));
    let mut given = translated(&body, &service()).unwrap().document;
    let place = given["mounts"].as_array_mut().unwrap().pop().unwrap();
    assert_eq!(place["options"], json!(["rw", "noexec", "size=9", "mode=1777", "notmpcopyup"]));
    // The word is for Podman, which adds another one for the runtime.
    for (options, expected) in [
        (json!(["rw", "noexec", "size=9", "mode=1777", "rprivate"]), asked),
        (json!(["rw", "exec", "size=9", "mode=1777", "rprivate"]), "rw,exec,size=9,mode=1777"),
    ] {
        given["mounts"] = json!([{"destination": "/nix/var", "type": "tmpfs", "options": options}]);
        assert_eq!(tmpfs(&given), HashMap::from([("/nix/var".to_owned(), expected.to_owned())]));
    }
}

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
            "seccomp": filter(),
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
                spec::MountSource::Path(path) => ("bind", path.to_string_lossy().into_owned(), ""),
                spec::MountSource::Volume(name) => ("volume", "/volumes".to_owned(), name.as_str()),
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

#[tokio::test]
async fn a_rootless_service_without_controllers_does_not_pass_for_one_that_limits() {
    const INFO: &str = r#"{"host": {
        "cgroupControllers": ["cpu"],
        "security": {"rootless": true},
        "ociRuntime": {"name": "crun"}
    }}"#;
    let (engine, _folder) = testing::engine(|_: &str| (200, INFO));
    let claimed = SystemInfo {
        memory_limit: Some(true),
        cpu_cfs_quota: Some(true),
        pids_limit: Some(true),
        security_options: Some(vec!["name=seccomp,profile=default".to_owned()]),
        ..SystemInfo::default()
    };
    let found = corrected(&engine, claimed).await.unwrap();
    assert_eq!(
        (found.memory_limit, found.cpu_cfs_quota, found.pids_limit),
        (Some(false), Some(true), Some(false))
    );
    assert_eq!(found.security_options.unwrap(), ["name=seccomp,profile=default", "name=rootless"]);
}

#[tokio::test]
async fn a_state_that_docker_does_not_have_is_an_end() {
    use bollard::models::{ContainerStateStatusEnum, ContainerSummaryStateEnum};
    let one = r#"{"Id": "a", "State": {"Status": "stopped"}}"#;
    let (engine, _folder) = testing::engine(move |_: &str| (200, one));
    let found = inspect(&engine, "a").await.unwrap();
    assert_eq!(found.state.unwrap().status, Some(ContainerStateStatusEnum::EXITED));
    let all = r#"[{"Id": "a", "State": "stopped"}, {"Id": "b", "State": "running"}]"#;
    let (engine, _folder) = testing::engine(move |_: &str| (200, all));
    let found = list(&engine, &HashMap::new()).await.unwrap();
    let states: Vec<_> = found.into_iter().filter_map(|one| one.state).collect();
    assert_eq!(states, [ContainerSummaryStateEnum::EXITED, ContainerSummaryStateEnum::RUNNING]);
}

#[tokio::test]
async fn the_texts_of_its_errors_are_told_apart() {
    for (text, expected, is_state) in [
        (r#"{"cause": "that name is already in use", "message": "it is"}"#, 409, false),
        (r#"{"cause": "image not known", "message": "it is not"}"#, 404, false),
        (r#"{"cause": "other", "message": "can't pause: container state improper"}"#, 500, true),
        ("no JSON", 500, false),
    ] {
        let (engine, _folder) = testing::engine(move |_: &str| (500, text));
        let error =
            engine.call("try", engine::QUICK, call(&engine, Method::GET, "/x", None)).await.unwrap_err();
        assert_eq!(engine::refusal(&error), Some(expected), "{text}");
        assert_eq!(is_wrong_state(&error), is_state, "{text}");
    }
}

#[test]
fn the_filter_has_no_key_that_podman_does_not_write() {
    let filter = filter();
    let rules: Vec<&Value> = items(&filter["syscalls"]).collect();
    assert!(rules.len() > 10, "{rules:?}");
    let has = |rule: &Value, key: &str| rule.get(key).is_some();
    assert!(!has(rules[0], "args"), "a rule without conditions has no list of them");
    assert!(rules.iter().flat_map(|rule| items(&rule["args"])).all(|condition| !has(condition, "valueTwo")));
    let profile: Value = serde_json::from_str(seccomp::profile()).unwrap();
    for (rule, asked) in rules.into_iter().zip(items(&profile["syscalls"])) {
        assert_eq!((&rule["names"], &rule["action"]), (&asked["names"], &asked["action"]));
        assert_eq!(rule.get("errnoRet"), asked.get("errnoRet"));
    }
}
