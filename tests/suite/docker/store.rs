//! The Nix store in a real engine, with a flake that needs no network.

use std::path::{Path, PathBuf};

use flock::nix_store::{Attribute, NixError};
use tokio_util::sync::CancellationToken;

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team, docker as docker_command};

/// A flake of two programs, each one raw derivation built by the shell.
pub fn flake(folder: &Path) -> PathBuf {
    let flake = folder.join("flake");
    std::fs::create_dir_all(&flake).unwrap();
    let program = |name: &str| {
        format!(
            r#"{name} = derivation {{ name = "{name}"; system = "x86_64-linux"; builder = "/bin/sh";
               PATH = "/usr/bin:/bin";
               args = [ "-c" "mkdir -p $out/bin; printf '#!/bin/sh\necho {name} from the store\n' > $out/bin/{name}; chmod 755 $out/bin/{name}" ]; }};"#
        )
    };
    let broken = r#"broken = derivation { name = "broken"; system = "x86_64-linux"; builder = "/bin/sh"; args = [ "-c" "echo it can not be built >&2; exit 1" ]; };"#;
    let text = format!(
        "{{ outputs = {{ self }}: {{ packages.x86_64-linux = {{ {} {} {broken} }}; }}; }}",
        program("greet"),
        program("part")
    );
    std::fs::write(flake.join("flake.nix"), text).unwrap();
    flake
}

fn packages(names: &[&str]) -> Vec<Attribute> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn packages_of_an_agent_come_and_go() {
    let Some(team) = Team::new(&["coder", "other"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let flake = flake(folder.path());
    team.configure(|config| {
        config.nix_flake = Some(format!("path:{}", flake.display()));
        for agent in config.agents.iter_mut() {
            let path =
                format!("/nix/var/nix/profiles/per-agent/{}/bin:/usr/local/bin:/usr/bin:/bin", agent.id);
            agent.docker.env.insert("PATH".to_owned(), path);
        }
    });
    let (store, sandbox) = (team.store(), team.sandbox());
    let (coder, never) = (id("coder"), CancellationToken::new());
    let quiet = |_: &str| {};
    docker::block_on(async {
        assert_eq!(store.state().await.unwrap().state, "absent");
        store.ensure().await.unwrap();
        assert_eq!(store.state().await.unwrap().state, "running");
        assert_eq!(store.installed(&coder).await.unwrap(), []);
        let first = packages(&["greet"]);
        assert_eq!(store.install(&coder, &first, &never, &quiet).await.unwrap(), first);
        assert_eq!(store.install(&coder, &first, &never, &quiet).await.unwrap(), [], "it has it already");
        assert_eq!(output(&sandbox, "coder", "greet").await, "greet from the store");
        let elsewhere = run(&sandbox, "other", "greet").await.unwrap();
        assert_ne!(elsewhere.end, flock::sandbox::CommandExit::Exited(0), "it is not the other agent's");
        store.install(&coder, &packages(&["greet", "part"]), &never, &quiet).await.unwrap();
        let names: Vec<String> =
            store.installed(&coder).await.unwrap().into_iter().map(|found| found.package).collect();
        assert_eq!(names, ["greet", "part"]);
        assert_eq!(
            output(&sandbox, "coder", "greet; part").await,
            "greet from the store\npart from the store"
        );

        store.uninstall(&coder, &first).await.unwrap();
        let names: Vec<String> =
            store.installed(&coder).await.unwrap().into_iter().map(|found| found.package).collect();
        assert_eq!(names, ["part"]);
        assert!(matches!(store.uninstall(&coder, &first).await, Err(NixError::NotInstalled { .. })));
        store.rollback(&coder).await.unwrap();
        assert_eq!(output(&sandbox, "coder", "greet").await, "greet from the store");

        let error = store.install(&coder, &packages(&["broken"]), &never, &quiet).await.unwrap_err();
        assert!(error.to_string().contains("it can not be built"), "{error}");
        let error = store.install(&coder, &packages(&["missing"]), &never, &quiet).await.unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        assert_eq!(
            output(&sandbox, "coder", "greet").await,
            "greet from the store",
            "the profile is as it was"
        );

        let freed = store.gc(None, &never, &quiet).await.unwrap();
        assert!(freed.contains("freed"), "{freed}");
        assert_eq!(
            output(&sandbox, "coder", "greet; part").await,
            "greet from the store\npart from the store"
        );
        store.forget(&coder).await.unwrap();
        store.gc(Some(0), &never, &quiet).await.unwrap();
        assert_ne!(
            run(&sandbox, "coder", "greet").await.unwrap().end,
            flock::sandbox::CommandExit::Exited(0)
        );
        assert_eq!(output(&sandbox, "coder", "ls /nix/var/nix/profiles/per-agent").await, "");
        let sockets = output(&sandbox, "coder", "find /nix -type s").await;
        assert_eq!(sockets, "", "nothing on the volume can be connected to");
    });
}

#[test]
fn the_store_survives_its_container_and_is_this_homes_alone() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let flake = flake(folder.path());
    team.configure(|config| config.nix_flake = Some(format!("path:{}", flake.display())));
    let store = team.store();
    let (coder, never) = (id("coder"), CancellationToken::new());
    docker::block_on(async {
        // The sandbox may come first: it must not spoil the empty volume.
        assert_eq!(output(&team.sandbox(), "coder", "ls /nix").await, "");
        store.install(&coder, &packages(&["greet"]), &never, &|_| {}).await.unwrap();
        let name = store.state().await.unwrap().container;
        docker_command(&["rm", "-f", &name]);
        assert_eq!(store.installed(&coder).await.unwrap().len(), 1);
        docker_command(&["kill", &name]);
        assert_eq!(store.installed(&coder).await.unwrap().len(), 1);
        let greet = "/nix/var/nix/profiles/per-agent/coder/bin/greet";
        assert_eq!(output(&team.sandbox(), "coder", greet).await, "greet from the store");
        team.sandbox().stop_all().await.unwrap();
        assert!(team.sandbox().containers().await.unwrap().iter().all(|found| !found.is_running()));
        let volume = store.state().await.unwrap().volume;
        docker::remove_all(&team.engine, &team.home).await.unwrap();
        let is_there = || docker_command(&["volume", "ls", "-q"]).lines().any(|line| line == volume);
        assert!(!is_there());
        docker_command(&["volume", "create", &volume]);
        docker::remove_all(&team.engine, &team.home).await.unwrap();
        assert!(is_there(), "a volume without this home's label is left alone");
        docker_command(&["volume", "rm", &volume]);
    });
}
