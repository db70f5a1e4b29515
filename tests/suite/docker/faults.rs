//! An engine that fails half-way, refuses, or is not there.

use std::sync::Arc;
use std::time::Duration;

use flock::error::{Explain as _, Kind};
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::engine::Engine;
use flock::sandbox::{Command, CommandExit, Sandbox as _, SandboxError};
use tokio_util::sync::CancellationToken;

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team, docker as docker_command};
use crate::support::engine_proxy::{EngineProxy, Fault};

#[test]
fn without_its_streams_a_sandbox_runs_by_the_engines_exec() {
    let Some(team) = Team::new(&["coder"]) else { return };
    docker::block_on(async {
        let proxy = EngineProxy::new(&team.engine);
        proxy.set(Fault::NoAttach);
        let sandbox = DockerSandbox::new(team.home.clone(), team.source(), proxy.engine());
        let coder = id("coder");
        sandbox.ensure(&coder).await.unwrap();
        assert!(sandbox.probes()[0].1.is_confined());
        assert_eq!(output(&sandbox, "coder", "echo hello; pwd").await, "hello\n/workspace");
        assert_eq!(run(&sandbox, "coder", "exit 7").await.unwrap().end, CommandExit::Exited(7));
        // What ran out of time is gone, with all it started.
        let count = "n=0; for p in /proc/[0-9]*; do n=$((n + 1)); done; echo $n";
        let alone = output(&sandbox, "coder", count).await;
        let command = Command {
            command: "setsid sleep 1000 & trap '' TERM; while :; do sleep 1; done".to_owned(),
            timeout: Some(Duration::from_millis(500)),
            keep: 1024,
            ..Command::default()
        };
        let outcome = sandbox.run(&coder, command.clone(), &CancellationToken::new()).await.unwrap();
        assert_eq!(outcome.end, CommandExit::TimedOut);
        assert_eq!(output(&sandbox, "coder", count).await, alone);
        // So is what nobody waits for any more.
        let command =
            Command { command: format!("touch begun; {}", command.command), timeout: None, ..command };
        let never = CancellationToken::new();
        let begun = async { while output(&sandbox, "coder", "ls begun 2>&1 || :").await != "begun" {} };
        tokio::select! {
            ended = sandbox.run(&coder, command.clone(), &never) => panic!("{ended:?}"),
            () = begun => {}
        }
        let limit = tokio::time::Instant::now() + Duration::from_secs(30);
        while output(&sandbox, "coder", count).await != alone {
            assert!(tokio::time::Instant::now() < limit, "it goes on");
        }
        assert!(matches!(sandbox.spawn(&coder, command).await, Err(SandboxError::Lost { .. })));
        docker_command(&["rm", "-f", &team.container("coder")]);
        assert_eq!(output(&sandbox, "coder", "echo again").await, "again");
        let large = run(&sandbox, "coder", "head -c 200000000 /dev/zero").await.unwrap();
        assert_eq!(large.output.total, 200_000_000);
        assert!(large.output.head.len() + large.output.tail.len() <= 64 << 10);
    });
}

#[test]
fn a_command_whose_container_is_killed_is_no_success_and_is_not_run_again() {
    let Some(team) = Team::new(&["coder"]) else { return };
    for streams in [true, false] {
        docker::block_on(async {
            let proxy = EngineProxy::new(&team.engine);
            if !streams {
                proxy.set(Fault::NoAttach);
            }
            let sandbox = DockerSandbox::new(team.home.clone(), team.source(), proxy.engine());
            let coder = id("coder");
            let marks = team.home.workspace(&coder).join(format!("marks-{streams}"));
            let command = Command {
                command: format!("echo begun >> marks-{streams}; sleep 1000; echo done >> marks-{streams}"),
                keep: 1024,
                ..Command::default()
            };
            let never = CancellationToken::new();
            let kill = async {
                while !marks.exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                docker_command(&["kill", &team.container("coder")]);
            };
            let (ended, ()) = tokio::join!(sandbox.run(&coder, command, &never), kill);
            let success = ended.as_ref().is_ok_and(|outcome| outcome.end == CommandExit::Exited(0));
            assert!(!success, "with streams {streams}: {ended:?}");
            // The next one runs in a container that was made ready again.
            assert_eq!(output(&sandbox, "coder", &format!("cat marks-{streams}")).await, "begun");
        });
    }
}

#[test]
fn an_engine_that_is_not_there_or_says_nothing_is_unavailable_with_a_way_out() {
    let Some(team) = Team::new(&["coder"]) else { return };
    docker::block_on(async {
        let proxy = EngineProxy::new(&team.engine);
        let through = DockerSandbox::new(team.home.clone(), team.source(), proxy.engine());
        assert_eq!(output(&through, "coder", "echo 1").await, "1");
        proxy.set(Fault::Closed);
        // What is warm goes on: it does not need the engine.
        assert_eq!(output(&through, "coder", "echo 2").await, "2");
        let cold = DockerSandbox::new(team.home.clone(), team.source(), proxy.engine());
        let absent = Arc::new(Engine::at("unix:///nonexistent/flock-test.sock"));
        let absent = DockerSandbox::new(team.home.clone(), team.source(), absent);
        let remote = Arc::new(Engine::at("tcp://127.0.0.1:1"));
        let remote = DockerSandbox::new(team.home.clone(), team.source(), remote);
        for sandbox in [cold, absent, remote] {
            let error = sandbox.ensure(&id("coder")).await.unwrap_err();
            assert!(matches!(error, SandboxError::Unavailable { .. }), "{error:?}");
            assert_eq!(error.kind(), Kind::DockerUnavailable);
            assert!(error.hint().is_some());
        }
        proxy.set(Fault::Silent);
        let frozen = DockerSandbox::new(team.home.clone(), team.source(), proxy.engine());
        let error = frozen.containers().await.unwrap_err();
        assert!(matches!(error, SandboxError::Unavailable { .. }), "{error:?}");
        proxy.set(Fault::None);
        assert_eq!(frozen.containers().await.unwrap().len(), 1, "it mends itself");
    });
}

#[test]
fn a_missing_image_is_named_and_mended_by_init() {
    let Some(team) = Team::new(&["coder"]) else { return };
    team.configure(|config| config.agents[0].docker.image = Some("flock-test-nowhere:1".to_owned()));
    docker::block_on(async {
        let sandbox = team.sandbox();
        let error = sandbox.ensure(&id("coder")).await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::NoImage { image } if image == "flock-test-nowhere:1"),
            "{error:?}"
        );
        assert_eq!(error.hint().as_deref(), Some("flock init"));
    });
}
