//! Figures of a real engine, for docs/performance.md. They are printed and never asserted:
//! `cargo test --release --test suite docker::measure -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flock::sandbox::exec::{self, EngineExec};
use flock::sandbox::{Command, OutputChunk, ProgramCommand, Sandbox as _};
use tokio_util::sync::CancellationToken;

use super::sandbox::id;
use crate::support::docker::{self, Team, docker as docker_command};

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
#[ignore = "measures; nothing is checked"]
fn a_sandbox_against_the_plain_command_line() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let image = flock::sandbox::image::Recipe::Sandbox.reference(&team.home);
    let coder = id("coder");
    let (mut made, mut plain) = (Vec::new(), Vec::new());
    docker::block_on(async {
        for _ in 0..15 {
            let sandbox = team.sandbox();
            let start = Instant::now();
            sandbox.ensure(&coder).await.unwrap();
            made.push(start.elapsed());
            sandbox.remove(&coder).await.unwrap();

            let start = Instant::now();
            let container = docker_command(&["run", "-d", &image, "sleep", "1000"]);
            plain.push(start.elapsed());
            docker_command(&["rm", "-f", &container]);
        }
        let (made, plain) = (median(made), median(plain));
        eprintln!(
            "confined and probed: {made:?}; docker run -d: {plain:?}; ratio {:.2}",
            made.as_secs_f64() / plain.as_secs_f64()
        );

        let sandbox = team.sandbox();
        sandbox.ensure(&coder).await.unwrap();
        let never = CancellationToken::new();
        let (mut warm, mut exec) = (Vec::new(), Vec::new());
        for _ in 0..300 {
            let command = Command { command: "true".to_owned(), keep: 1024, ..Command::default() };
            let start = Instant::now();
            sandbox.run(&coder, command, &never).await.unwrap();
            warm.push(start.elapsed());
        }
        for _ in 0..15 {
            let start = Instant::now();
            docker_command(&["exec", &team.container("coder"), "sh", "-c", "true"]);
            exec.push(start.elapsed());
        }
        let (warm, exec) = (median(warm), median(exec));
        eprintln!(
            "true, warm: {warm:?}; docker exec: {exec:?}; ratio {:.0}",
            exec.as_secs_f64() / warm.as_secs_f64()
        );

        let mut listed = Vec::new();
        for _ in 0..50 {
            let start = Instant::now();
            sandbox.containers().await.unwrap();
            listed.push(start.elapsed());
        }
        eprintln!("list of containers: {:?}; probe: {:?}", median(listed), sandbox.probes()[0].1.took);
    });
}

#[test]
#[ignore = "measures; nothing is checked"]
fn twenty_sandboxes_frozen_and_thawed() {
    let names: Vec<String> = (0..20).map(|number| format!("worker-{number}")).collect();
    let Some(team) = Team::new(&names.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        for name in &names {
            sandbox.ensure(&id(name)).await.unwrap();
        }
        let (mut frozen, mut thawed) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            let start = Instant::now();
            sandbox.follow(Arc::new(|_| true)).await.unwrap();
            frozen.push(start.elapsed());
            let start = Instant::now();
            sandbox.follow(Arc::new(|_| false)).await.unwrap();
            thawed.push(start.elapsed());
        }
        let slowest = frozen.iter().max().copied();
        eprintln!("20 frozen: {:?}, slowest {slowest:?}; thawed: {:?}", median(frozen), median(thawed));
    });
}

#[test]
#[ignore = "measures; nothing is checked"]
fn a_program_against_the_engines_exec() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        sandbox.ensure(&coder).await.unwrap();
        let command = vec!["sh".to_owned(), "-c".to_owned(), "echo".to_owned()];
        let run = ProgramCommand { command: command.clone(), ..ProgramCommand::default() };
        let exec = EngineExec {
            container: team.container("coder"),
            command,
            input: Some(bytes::Bytes::new()),
            timeout: Duration::from_secs(60),
            keep: 1024,
            ..EngineExec::default()
        };
        let never = CancellationToken::new();
        let (mut attended, mut plain, mut first, mut ended) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..100 {
            let start = Instant::now();
            let mut heard = |_: OutputChunk<'_>| first.push(start.elapsed());
            sandbox.attend(&coder, &run, &mut heard).await.unwrap();
            attended.push(start.elapsed());
            let start = Instant::now();
            exec::run(&team.engine, &exec, &never).await.unwrap();
            plain.push(start.elapsed());
        }
        let sleeps = ProgramCommand {
            command: ["sh", "-c", "echo; exec sleep 1000"].map(str::to_owned).to_vec(),
            ..ProgramCommand::default()
        };
        for _ in 0..30 {
            let begun = tokio::sync::Notify::new();
            let mut heard = |_: OutputChunk<'_>| begun.notify_one();
            tokio::select! {
                end = sandbox.attend(&coder, &sleeps, &mut heard) => panic!("{end:?}"),
                () = begun.notified() => {}
            }
            let start = Instant::now();
            // The next one begins when that one has gone.
            sandbox.attend(&coder, &run, &mut |_: OutputChunk<'_>| {}).await.unwrap();
            ended.push(start.elapsed());
        }
        eprintln!(
            "a program's turn: {:?}, its first word after {:?}; the engine's exec of it: {:?}; after one that was given up: {:?}",
            median(attended),
            median(first),
            median(plain),
            median(ended)
        );
    });
}
