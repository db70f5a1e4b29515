//! The helper where it belongs: as the first process of a real sandbox.

use std::time::{Duration, Instant};

use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::{Command, CommandExit, JobRequest, Sandbox as _};
use tokio_util::sync::CancellationToken;

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team, docker as docker_command};

/// How many living processes there are besides the shell that counts, its two helpers' and init.
async fn others(sandbox: &DockerSandbox) -> i32 {
    // What has ended and is not reaped yet runs nothing any more.
    let script = r#"n=0; for p in /proc/[0-9]*; do read -r line 2>/dev/null < $p/stat || continue
        case "${line##*) }" in Z*|X*) ;; *) n=$((n+1)) ;; esac; done; echo $n"#;
    output(sandbox, "coder", script).await.parse::<i32>().unwrap() - 2
}

async fn cut_off(sandbox: &DockerSandbox, command: &str) -> flock::sandbox::CommandOutcome {
    let command = Command {
        command: command.to_owned(),
        timeout: Some(Duration::from_secs(2)),
        keep: 1024,
        ..Command::default()
    };
    sandbox.run(&id("coder"), command, &CancellationToken::new()).await.unwrap()
}

#[test]
fn a_command_out_of_time_leaves_no_process_whatever_it_does() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        let before = sandbox.containers().await.unwrap().remove(0).id;
        for command in [
            "trap '' TERM; setsid sleep 100 & (setsid -f sleep 100); env -i setsid -f sleep 100; sleep 100",
            "bomb() { bomb | bomb & }; (bomb; bomb) & exec sleep 100",
            "echo 'while :; do setsid sh bomb & done 2>/dev/null' > bomb; sh bomb & exec sleep 100",
            "echo 'setsid -f sh bomb; setsid -f sh bomb' > bomb; sh bomb & exec sleep 100",
            "python3 -c 'import os\nwhile os.fork() == 0 or os.setsid() or True: pass' & exec sleep 100",
        ] {
            assert_eq!(cut_off(&sandbox, command).await.end, CommandExit::TimedOut, "{command}");
            assert_eq!(others(&sandbox).await, 0, "{command}");
        }
        // It is still the same container: nothing had to be made again.
        assert_eq!(sandbox.containers().await.unwrap().remove(0).id, before);
    });
}

#[test]
fn nothing_inside_can_signal_it() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        let signals = "for s in TERM INT HUP STOP KILL SEGV CHLD; do kill -$s 1; done; echo sent";
        assert_eq!(output(&sandbox, "coder", signals).await, "sent");
        let before = sandbox.containers().await.unwrap().remove(0).id;
        let end = run(&sandbox, "coder", "kill -KILL -1; echo survived").await.unwrap().end;
        assert!(matches!(end, CommandExit::Exited(0) | CommandExit::Signalled(9)), "{end:?}");
        assert_eq!(output(&sandbox, "coder", "echo still there").await, "still there");
        assert_eq!(sandbox.containers().await.unwrap().remove(0).id, before);
        let started = docker_command(&["inspect", "-f", "{{.RestartCount}} {{.State.Running}}", &before]);
        assert_eq!(started, "0 true");
    });
}

#[test]
fn a_background_job_outlives_the_end_of_others_and_of_the_gateway() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        let command = "echo up; (setsid -f sleep 100); sleep 100";
        let job = Command { command: command.to_owned(), keep: 1024, ..Command::default() };
        let job = sandbox.spawn(&id("coder"), job).await.unwrap();
        assert_eq!(cut_off(&sandbox, "setsid -f sleep 100; sleep 100").await.end, CommandExit::TimedOut);
        assert_eq!(others(&sandbox).await, 3);
        drop(sandbox);
        let next = team.sandbox();
        let log = next.jobs(&id("coder"), JobRequest::Log(job.id)).await.unwrap();
        assert_eq!((log.output.head.as_slice(), log.jobs[0].end), (b"up\n".as_slice(), None));
        next.jobs(&id("coder"), JobRequest::Kill(job.id)).await.unwrap();
        assert_eq!(others(&next).await, 0);
    });
}

#[test]
fn a_gigabyte_of_output_costs_the_sandbox_no_memory() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        let outcome = run(&sandbox, "coder", "yes | head -c 1000000000").await.unwrap();
        assert_eq!((outcome.end, outcome.output.total), (CommandExit::Exited(0), 1_000_000_000));
        let peak = output(&sandbox, "coder", "grep VmHWM /proc/1/status | tr -dc 0-9").await;
        assert!(peak.parse::<u64>().unwrap() < 8 * 1024, "{peak} KiB resident at most");
    });
}

#[test]
#[ignore = "prints a figure, proves nothing"]
fn median_of_true() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        let mut times = Vec::new();
        for _ in 0..500 {
            let start = Instant::now();
            assert_eq!(run(&sandbox, "coder", "true").await.unwrap().end, CommandExit::Exited(0));
            times.push(start.elapsed());
        }
        times.sort();
        let mut execs = Vec::new();
        for _ in 0..20 {
            let start = Instant::now();
            docker_command(&["exec", &team.container("coder"), "true"]);
            execs.push(start.elapsed());
        }
        execs.sort();
        eprintln!("true: median {:?}, p95 {:?}; docker exec: median {:?}", times[250], times[475], execs[10]);
    });
}
