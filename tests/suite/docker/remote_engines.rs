//! An engine that is reached by `ssh`: it is refused by what is wrong with the way to it, and an agent's workspace goes there
//! and comes back whole.

use std::time::Duration;

use crate::support::docker::docker as docker_command;
use crate::support::extra_engine::ExtraEngine;
use crate::support::home::TempHome;
use crate::support::ssh_server::SshServer;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn an_agent_works_on_an_engine_behind_ssh_and_comes_back_with_its_workspace() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let Some(server) = SshServer::start() else { return };
    let Some(extra) = ExtraEngine::plain() else { return };
    let path = server.path();
    let env = [("PATH", path.as_str())];
    let address = server.address(&extra.socket());
    let add = |address: &str| home.flock_with_env(["engine", "add", "far", address, "--labels", "gpu"], &env);

    // What is wrong with the way is told, with what mends it.
    let run = add(&address).fails(6);
    assert!(run.stderr.contains("Host key verification failed") && run.stderr.contains("ssh -p "), "{run:?}");
    server.trust();
    server.let_in(false);
    let run = add(&address).fails(6);
    assert!(run.stderr.contains("Permission denied") && run.stderr.contains("ssh-copy-id -p "), "{run:?}");
    server.let_in(true);
    let run = add(&server.address(&home.file("nothing.sock"))).fails(6);
    assert!(run.stderr.contains("no engine answers at"), "{run:?}");

    add(&address).ok();
    home.flock_with_env(["add", "painter", "--labels", "gpu"], &env).ok();
    let there = extra.host();
    let container = home.container("painter");
    let running = docker_command(&["-H", &there, "ps", "--format", "{{.Names}}"]);
    assert_eq!(running, container, "its sandbox is there");
    let workspace = home.file("workspaces/painter");
    assert!(workspace.is_file(), "a mark is in the place of the folder");
    docker_command(&[
        "-H",
        &there,
        "exec",
        &container,
        "sh",
        "-c",
        "mkdir /workspace/d; echo x > /workspace/d/made",
    ]);
    let run = home.flock_with_env(["engine", "remove", "far", "--force"], &env).fails(5);
    assert!(run.stderr.contains("painter"), "{run:?}");

    // And back.
    let labels = "plugins.entries.flock.config.gatewayAgents[painter].labels";
    home.flock_with_env(["config", "unset", labels], &env).ok();
    wait_until("the workspace comes back", LIMIT, || {
        let run = home.flock_with_env(["engine", "drain", "far"], &env);
        workspace.join("d/made").is_file().then_some(()).ok_or(run.stderr)
    });
    assert_eq!(std::fs::read_to_string(workspace.join("d/made")).unwrap(), "x\n");
    home.flock_with_env(["engine", "remove", "far"], &env).ok();
    for kind in [&["ps", "-aq"][..], &["volume", "ls", "-q"]] {
        let label = format!("label=flock.home={}", home.path().display());
        let found = docker_command(&[&["-H", &there], kind, &["--filter", &label]].concat());
        assert_eq!(found, "", "nothing of this home is left in it");
    }
}
