//! The verbs that reach into a real engine: init, add, remove, nix, doctor.

use std::os::unix::process::CommandExt as _;

use super::store::flake;
use crate::support::docker::{self, docker as docker_command};
use crate::support::home::{TempHome, finish};

fn state(container: &str) -> String {
    docker_command(&["ps", "-a", "--filter", &format!("name=^{container}$"), "--format", "{{.State}}"])
}

#[test]
fn add_returns_with_a_confined_container_and_remove_leaves_none() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["init", "--yes"]).ok();
    let run = home.flock(["add", "coder", "--memory", "256m", "--cpus", "0.5"]).ok();
    assert!(run.stderr.contains("found confined"), "{run:?}");
    let container = home.container("coder");
    assert_eq!(state(&container), "running");
    let limits = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.NetworkMode}}";
    assert_eq!(docker_command(&["inspect", "-f", limits, &container]), "268435456 500000000 none");
    let identity = docker_command(&["exec", &container, "cat", "/workspace/IDENTITY.md"]);
    assert!(identity.contains("coder"), "{identity}");
    home.flock(["add", "coder"]).fails(5);
    let report = home.flock(["doctor", "--json"]).ok().json();
    assert_eq!(report["ok"], true, "{report:#}");
    home.flock(["remove", "coder"]).ok();
    assert_eq!(state(&container), "");
    assert!(home.file("workspaces/coder/IDENTITY.md").exists());
}

#[test]
fn with_the_gateway_up_it_makes_and_removes_the_containers() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["start"]).ok();
    let runs: Vec<_> = (0..6)
        .map(|n| {
            let id = format!("agent-{n}");
            let child = home
                .command()
                .args(["add", &id])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            (id, child)
        })
        .collect();
    for (id, child) in runs {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{id}: {output:?}");
        assert_eq!(state(&home.container(&id)), "running", "{id}");
    }
    let run = home.flock(["chat", "agent-3", "hello"]).ok();
    assert!(run.stdout.contains("not a model"), "{run:?}");
    home.flock(["remove", "agent-3", "--purge", "--yes"]).ok();
    assert_eq!(state(&home.container("agent-3")), "");
    assert!(!home.file("workspaces/agent-3").exists() && !home.file("agents/agent-3").exists());
    home.flock(["stop"]).ok();
    assert_eq!(state(&home.container("agent-1")), "exited");
    home.flock(["remove", "agent-1"]).ok();
    assert_eq!(state(&home.container("agent-1")), "", "without the gateway the verb removes it itself");
}

#[test]
fn packages_are_an_agents_own() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let flake = format!("path:{}", flake(&home.outside()).display());
    home.flock(["config", "set", "plugins.entries.flock.config.nix.flake", &flake]).ok();
    home.flock(["add", "coder", "--packages", "greet"]).ok();
    let container = home.container("coder");
    let greet = "/nix/var/nix/profiles/per-agent/coder/bin/greet";
    assert_eq!(docker_command(&["exec", &container, greet]), "greet from the store");
    let run = home.flock(["nix", "install", "coder", "part", "greet"]).ok();
    assert!(run.stdout.contains("installed for coder: part"), "{run:?}");
    let list = home.flock(["nix", "list", "--json"]).ok().json();
    let coder = list["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "coder").unwrap();
    let names: Vec<_> = coder["packages"].as_array().unwrap().iter().map(|found| &found["name"]).collect();
    assert_eq!(names, ["greet", "part"]);
    home.flock(["nix", "remove", "coder", "greet"]).ok();
    home.flock(["nix", "remove", "coder", "greet"]).fails(1);
    home.flock(["nix", "rollback", "coder"]).ok();
    let table = home.flock(["nix", "list", "coder"]).ok().stdout;
    assert!(table.contains("greet") && table.contains("part"), "{table}");
    let run = home.flock(["nix", "install", "coder", "missing"]).fails(1);
    assert!(run.stderr.contains("hint: "), "{run:?}");
    home.flock(["nix", "install", "nobody", "greet"]).fails(1);
    home.flock(["nix", "install", "coder", "github:x/y#z"]).fails(2);
    home.flock(["nix", "gc", "--json"]).ok().json()["freed"].as_str().unwrap();
    // Half done: the agent is there, the package is not, and the error says so.
    let run = home.flock(["add", "writer", "--packages", "missing"]).fails(1);
    assert!(run.stderr.contains("agent writer was added, but"), "{run:?}");
    home.flock(["remove", "coder", "--purge", "--yes"]).ok();
    assert!(!home.flock(["nix", "list", "--json"]).ok().stdout.contains("greet"));
}

#[test]
fn a_socket_this_user_may_not_open_is_told_from_an_engine_that_is_not_there() {
    let Some(_engine) = docker::engine() else { return };
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("not run: only root can run the program as somebody else");
        return;
    }
    let home = TempHome::new().with_docker();
    let mut command = home.command();
    command.uid(65534).gid(65534).env("FLOCK_HOME", "/tmp/flock-test-nobody").env("HOME", "/nonexistent");
    let run = finish(command.args(["doctor", "--json"])).fails(1);
    let engine =
        run.json()["checks"].as_array().unwrap().iter().find(|check| check["name"] == "engine").cloned();
    let engine = engine.unwrap();
    assert!(engine["message"].as_str().unwrap().contains("refuses this user"), "{engine}");
    assert!(engine["mend"].as_str().unwrap().contains("usermod"), "{engine}");
}

#[test]
fn an_edited_limit_makes_the_container_anew_and_a_sysadmin_has_none() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["add", "coder"]).ok();
    let container = home.container("coder");
    let memory = || docker_command(&["inspect", "-f", "{{.HostConfig.Memory}}", &container]);
    let edited = |args: &[&str]| {
        let line = [&["edit", "coder", "--json"], args].concat();
        home.flock(line).ok().json()["sandbox"].clone()
    };
    assert_eq!(edited(&["--memory", "256m"]), "remade");
    assert_eq!((memory().as_str(), state(&container).as_str()), ("268435456", "running"));
    assert_eq!(edited(&["--effort", "high"]), serde_json::Value::Null, "no setting of the container");
    assert_eq!(edited(&["--role", "sysadmin"]), "removed");
    assert_eq!(state(&container), "");
    home.flock(["start"]).ok();
    assert_eq!(edited(&["--role", "worker"]), serde_json::Value::Null, "it is made at its first command");
    home.flock(["add", "other"]).ok();
    let other = home.container("other");
    let line = ["edit", "other", "--cpus", "0.5", "--json"];
    assert_eq!(home.flock(line).ok().json()["sandbox"], "remade");
    assert_eq!(docker_command(&["inspect", "-f", "{{.HostConfig.NanoCpus}}", &other]), "500000000");
    assert_eq!(
        home.flock(["edit", "other", "--role", "sysadmin", "--json"]).ok().json()["sandbox"],
        "removed"
    );
    assert_eq!(state(&other), "");
}
