use super::*;
use crate::sandbox::podman::{items, strings};
use crate::sandbox::{names, testing};

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
        assert_eq!(
            in_memory::described(&given),
            HashMap::from([("/nix/var".to_owned(), expected.to_owned())])
        );
    }
}
