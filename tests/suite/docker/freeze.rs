//! Frozen sandboxes: still there, standing still, and not taken for dead ones.

use std::sync::Arc;
use std::time::Duration;

use flock::id::AgentId;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::{Command, CommandExit, JobRequest, Sandbox as _, SandboxError};
use tokio_util::sync::CancellationToken;

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team, docker as docker_command};

fn command(text: &str) -> Command {
    let timeout = Some(Duration::from_secs(60));
    Command { command: text.to_owned(), timeout, keep: 1024, ..Command::default() }
}

/// Waits until a file is there that a command has made.
async fn appears(path: &std::path::Path) {
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn states(sandbox: &DockerSandbox) -> Vec<String> {
    sandbox.containers().await.unwrap().into_iter().map(|found| found.state).collect()
}

#[test]
fn what_runs_stands_still_and_goes_on_when_thawed() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let coder = id("coder");
    let workspace = team.home.workspace(&coder);
    docker::block_on(async {
        // Nothing to freeze: nothing is made either.
        sandbox.pause(&coder).await.unwrap();
        assert!(matches!(sandbox.ensure(&coder).await, Err(SandboxError::Frozen(_))));
        assert_eq!(states(&sandbox).await, Vec::<String>::new());
        sandbox.resume(&coder).await.unwrap();

        sandbox.ensure(&coder).await.unwrap();
        let before = sandbox.containers().await.unwrap().remove(0).id;
        let (never, cancel) = (CancellationToken::new(), CancellationToken::new());
        let waits = "touch waits; while ! [ -e go ]; do sleep 0.01; done; echo went on";
        let (waited, cancelled, ()) = tokio::join!(
            sandbox.run(&coder, command(waits), &never),
            sandbox.run(&coder, command("touch long; sleep 1000"), &cancel),
            async {
                appears(&workspace.join("waits")).await;
                appears(&workspace.join("long")).await;
                sandbox.pause(&coder).await.unwrap();
                sandbox.pause(&coder).await.unwrap();
                assert_eq!(states(&sandbox).await, ["paused"]);
                assert!(sandbox.containers().await.unwrap()[0].is_running(), "it is still there");
                for error in [
                    sandbox.ensure(&coder).await.unwrap_err(),
                    sandbox.run(&coder, command("true"), &never).await.unwrap_err(),
                    sandbox.spawn(&coder, command("true")).await.unwrap_err(),
                    sandbox.jobs(&coder, JobRequest::List).await.unwrap_err(),
                    sandbox.probe(&coder).await.unwrap_err(),
                ] {
                    assert!(matches!(error, SandboxError::Frozen(_)), "{error}");
                }
                cancel.cancel();
                std::fs::write(workspace.join("go"), "").unwrap();
                // The answer comes while it is frozen; the end itself when it is thawed.
                assert_eq!(states(&sandbox).await, ["paused"]);
                sandbox.resume(&coder).await.unwrap();
                sandbox.resume(&coder).await.unwrap();
            }
        );
        let waited = waited.unwrap();
        assert_eq!(
            (waited.end, waited.output.head.as_slice()),
            (CommandExit::Exited(0), b"went on\n".as_slice())
        );
        assert!(
            matches!(
                cancelled,
                Err(SandboxError::Frozen(_))
                    | Ok(flock::sandbox::CommandOutcome { end: CommandExit::Cancelled, .. })
            ),
            "{cancelled:?}"
        );
        let sleeping =
            "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep -c '^sleep 1000' || true";
        while output(&sandbox, "coder", sleeping).await != "0" {}
        assert_eq!(sandbox.containers().await.unwrap().remove(0).id, before);
    });
}

#[test]
fn a_cancelled_call_does_not_wait_for_the_thaw() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        sandbox.ensure(&coder).await.unwrap();
        let cancel = CancellationToken::new();
        let started = team.home.workspace(&coder).join("long");
        let (answer, ()) =
            tokio::join!(sandbox.run(&coder, command("touch long; sleep 1000"), &cancel), async {
                appears(&started).await;
                sandbox.pause(&coder).await.unwrap();
                cancel.cancel();
            });
        assert!(matches!(answer, Err(SandboxError::Frozen(_))), "{answer:?}");
        assert_eq!(states(&sandbox).await, ["paused"]);
    });
}

#[test]
fn one_that_is_found_frozen_is_left_as_it_is() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let coder = id("coder");
    let name = team.container("coder");
    docker::block_on(async {
        let sandbox = team.sandbox();
        sandbox.ensure(&coder).await.unwrap();
        docker_command(&["pause", &name]);
        drop(sandbox);
        // The gateway after one that was killed, with another specification at that.
        let next = team.sandbox();
        team.configure(|config| config.agents[0].docker.memory = Some(256 << 20));
        let error = run(&next, "coder", "true").await.unwrap_err();
        assert!(matches!(error, SandboxError::Frozen(_)), "{error}");
        assert_eq!(states(&next).await, ["paused"]);
        next.resume(&coder).await.unwrap();
        assert_eq!(output(&next, "coder", "echo thawed").await, "thawed");
        // Behind its back, the waits of the warm one run out; that is no dead helper either.
        docker_command(&["pause", &name]);
        let error = next.jobs(&coder, JobRequest::List).await.unwrap_err();
        assert!(matches!(error, SandboxError::Frozen(_)), "{error}");
        next.remove(&coder).await.unwrap();
        assert_eq!(states(&next).await, Vec::<String>::new());
    });
}

#[test]
fn all_are_frozen_at_once_and_can_still_be_stopped() {
    let names: Vec<String> = (0..8).map(|number| format!("worker-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(team) = Team::new(&names) else { return };
    docker::block_on(async {
        let sandbox = team.sandbox();
        let agents: Vec<AgentId> = names.iter().skip(1).map(|name| id(name)).collect();
        let ready = futures_util::future::join_all(agents.iter().map(|agent| sandbox.ensure(agent))).await;
        ready.into_iter().collect::<Result<Vec<()>, _>>().unwrap();
        // A gateway that has used none of them yet freezes what the engine has.
        let next = team.sandbox();
        next.follow(Arc::new(|_| true)).await.unwrap();
        assert_eq!(states(&next).await, vec!["paused"; 7]);
        // One that was never made is none the less frozen.
        assert!(matches!(next.ensure(&id("worker-0")).await, Err(SandboxError::Frozen(_))));
        next.follow(Arc::new(|_| false)).await.unwrap();
        assert_eq!(states(&next).await, vec!["running"; 7]);
        assert_eq!(output(&next, "worker-1", "echo on").await, "on");
        next.follow(Arc::new(|_| true)).await.unwrap();
        next.stop_all().await.unwrap();
        assert_eq!(states(&next).await, vec!["exited"; 7]);
    });
}
