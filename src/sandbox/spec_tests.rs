use std::collections::BTreeMap;

use super::*;
use crate::config::{Agent, DockerSettings};

fn home() -> Home {
    Home::new("/srv/flock".into(), None)
}

fn agent(docker: DockerSettings) -> Agent {
    let mut agent = crate::sandbox::testing::agent("coder", "/srv/flock/workspaces/coder".into());
    agent.docker = docker;
    agent
}

fn host() -> HostFacts {
    HostFacts {
        image: "sha256:abc".to_owned(),
        user: SandboxUser { uid: 1000, gid: 1000 },
        helper: "/srv/flock/run/helper/1/flock-helper".into(),
        workspace: "/srv/flock/workspaces/coder".into(),
        identity: vec![IdentityMount { name: "AGENTS.md".to_owned(), inode: 7 }],
        cores: 8,
        engine_socket: Some("/var/run/docker.sock".into()),
        mounts: Mounts::default(),
        fittings: Vec::new(),
        projects: Vec::new(),
        volume: None,
    }
}

fn refusal(docker: DockerSettings) -> String {
    match ContainerSpec::build(&home(), &agent(docker), &host()) {
        Err(SandboxError::Refused { what, .. }) => what,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn the_container_is_confined_whatever_is_configured() {
    let docker = DockerSettings {
        binds: vec!["flock-nix:/nix:ro".to_owned()],
        network: Some("none".to_owned()),
        memory: Some(1 << 30),
        cpu_millis: Some(1500),
        env: BTreeMap::from([("LD_PRELOAD".to_owned(), "/workspace/evil.so".to_owned())]),
        ..DockerSettings::default()
    };
    let spec = ContainerSpec::build(&home(), &agent(docker), &host()).unwrap();
    let body = spec.body();
    assert!(body.env.is_none(), "a person's environment is for the commands, not for the helper");
    assert_eq!(body.user.as_deref(), Some("1000:1000"));
    assert_eq!(body.image.as_deref(), Some("sha256:abc"));
    assert_eq!((body.open_stdin, body.stdin_once, body.tty), (Some(true), Some(false), Some(false)));
    let host_config = body.host_config.unwrap();
    assert_eq!(host_config.network_mode.as_deref(), Some("none"));
    assert_eq!(host_config.readonly_rootfs, Some(true));
    assert_eq!(host_config.cap_drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(host_config.security_opt, Some(vec!["no-new-privileges".to_owned(), seccomp::option()]));
    assert_eq!((host_config.memory, host_config.memory_swap), (Some(1 << 30), Some(1 << 30)));
    assert_eq!(host_config.nano_cpus, Some(1_500_000_000));
    assert_eq!(host_config.pids_limit, Some(256));
    assert_eq!(host_config.log_config.unwrap().typ.as_deref(), Some("none"));
    assert_eq!(host_config.cap_add, None);
    assert_eq!(host_config.binds, None);
    assert_eq!(host_config.devices, None);
    let mounts: Vec<(String, bool)> = host_config
        .mounts
        .unwrap()
        .into_iter()
        .map(|mount| (mount.target.unwrap(), mount.read_only.unwrap()))
        .collect();
    let mount = |target: &str, read_only| (target.to_owned(), read_only);
    assert_eq!(
        mounts,
        [
            mount("/flock-helper", true),
            mount("/nix", true),
            mount("/workspace", false),
            mount("/workspace/AGENTS.md", true)
        ]
    );
}

#[test]
fn forbidden_settings_are_refused_by_name() {
    let cases = [
        (DockerSettings { refused: vec!["privileged".to_owned()], ..Default::default() }, "privileged"),
        (DockerSettings { network: Some("host".to_owned()), ..Default::default() }, "host"),
        (DockerSettings { network: Some("bridge".to_owned()), ..Default::default() }, "bridge"),
        (DockerSettings { binds: vec!["/srv/flock:/x".to_owned()], ..Default::default() }, "/srv/flock"),
        (DockerSettings { binds: vec!["/:/host:ro".to_owned()], ..Default::default() }, "/host"),
        (
            DockerSettings {
                binds: vec!["/var/run/docker.sock:/docker.sock".to_owned()],
                ..Default::default()
            },
            "docker.sock",
        ),
    ];
    for (docker, named) in cases {
        let what = refusal(docker);
        assert!(what.contains(named), "{what}");
    }
}

#[test]
fn a_workspace_must_be_the_agents_own_or_outside_the_home() {
    for (path, allowed) in [
        ("/srv/flock/workspaces/coder", true),
        ("/srv/project", true),
        ("/srv/flock/workspaces/other", false),
        ("/srv/flock/workspaces", false),
        ("/srv/flock", false),
        ("/srv/flock/secrets", false),
        ("/srv", false),
        ("/", false),
        ("/etc", false),
        ("/var/run", false),
    ] {
        let host = HostFacts { workspace: path.into(), ..host() };
        let built = ContainerSpec::build(&home(), &agent(DockerSettings::default()), &host);
        assert_eq!(built.is_ok(), allowed, "{path}: {built:?}");
    }
}

#[test]
fn the_hash_changes_with_every_container_property() {
    let base = ContainerSpec::build(&home(), &agent(DockerSettings::default()), &host()).unwrap();
    let same = ContainerSpec::build(&home(), &agent(DockerSettings::default()), &host()).unwrap();
    assert_eq!(base.hash(), same.hash());
    let memory = agent(DockerSettings { memory: Some(1 << 29), ..Default::default() });
    let others = [
        (memory, host()),
        (agent(DockerSettings::default()), HostFacts { image: "sha256:def".to_owned(), ..host() }),
        (agent(DockerSettings::default()), HostFacts { helper: "/other".into(), ..host() }),
        (agent(DockerSettings::default()), HostFacts { user: SandboxUser { uid: 1, gid: 1 }, ..host() }),
        (
            agent(DockerSettings::default()),
            HostFacts { identity: vec![IdentityMount { name: "AGENTS.md".to_owned(), inode: 8 }], ..host() },
        ),
    ];
    for (agent, host) in others {
        assert_ne!(ContainerSpec::build(&home(), &agent, &host).unwrap().hash(), base.hash());
    }
}

#[test]
fn cpu_never_exceeds_the_machine() {
    let docker = DockerSettings { cpu_millis: Some(64_000), ..Default::default() };
    let spec = ContainerSpec::build(&home(), &agent(docker), &HostFacts { cores: 2, ..host() }).unwrap();
    assert_eq!(spec.nano_cpus, 2_000_000_000);
}
