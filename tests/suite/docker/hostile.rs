//! What a model may do in its sandbox to hurt the host, and what stays of it: nothing.

use std::time::Duration;

use flock::sandbox::{Command, CommandExit, JobRequest, Sandbox as _};
use tokio_util::sync::CancellationToken;

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team};

fn command(text: &str, timeout: Duration) -> Command {
    Command { command: text.to_owned(), timeout: Some(timeout), keep: 64 << 10, ..Command::default() }
}

/// The resident size of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Processes in the sandbox besides the helper and the shell that looks.
const PROCESSES: &str = "n=0; for p in /proc/[0-9]*; do n=$((n + 1)); done; echo $n";

#[test]
fn a_gigabyte_of_output_is_bounded() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        let before = resident();
        let text = "head -c 1073741824 /dev/zero | tr '\\0' x";
        let outcome = run(&sandbox, "coder", text).await.unwrap();
        assert_eq!(outcome.end, CommandExit::Exited(0));
        assert_eq!(outcome.output.total, 1 << 30);
        assert!(outcome.output.head.len() + outcome.output.tail.len() <= 64 << 10);
        let grown = resident().saturating_sub(before);
        assert!(grown < 64 << 20, "grew by {grown} bytes");
    });
}

#[test]
fn timed_out_and_cancelled_commands_leave_no_process() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        let alone = output(&sandbox, "coder", PROCESSES).await;
        let stubborn = "trap '' TERM HUP INT; (trap '' TERM; setsid sleep 1000) & (sleep 1001 &) ; while :; do sleep 1; done";
        let never = CancellationToken::new();
        let outcome =
            sandbox.run(&coder, command(stubborn, Duration::from_millis(500)), &never).await.unwrap();
        assert_eq!(outcome.end, CommandExit::TimedOut);
        assert_eq!(output(&sandbox, "coder", PROCESSES).await, alone);

        let cancel = CancellationToken::new();
        let long = command(stubborn, Duration::from_secs(600));
        let (outcome, ()) = tokio::join!(sandbox.run(&coder, long, &cancel), async {
            // Cancelled once it runs for certain.
            while output(&sandbox, "coder", PROCESSES).await == alone {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        });
        assert_eq!(outcome.unwrap().end, CommandExit::Cancelled);
        assert_eq!(output(&sandbox, "coder", PROCESSES).await, alone);

        // A caller that is dropped gives up, too.
        let long = command(stubborn, Duration::from_secs(600));
        let dropped = tokio::time::timeout(Duration::from_millis(300), sandbox.run(&coder, long, &never));
        assert!(dropped.await.is_err());
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while output(&sandbox, "coder", PROCESSES).await != alone {
            assert!(std::time::Instant::now() < end, "processes are left");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn forking_without_end_is_contained_and_the_sandbox_goes_on() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        let bomb = "f() { f | f & }; f; while :; do f; done";
        let never = CancellationToken::new();
        let outcome = sandbox.run(&id("coder"), command(bomb, Duration::from_secs(2)), &never).await.unwrap();
        assert!(
            matches!(outcome.end, CommandExit::TimedOut | CommandExit::Exited(_) | CommandExit::Signalled(_)),
            "{outcome:?}"
        );
        assert_eq!(output(&sandbox, "coder", "echo still here").await, "still here");
    });
}

#[test]
fn using_up_memory_or_ending_the_helper_ends_no_other_sandbox() {
    let Some(team) = Team::new(&["coder", "other"]) else { return };
    let sandbox = team.sandbox();
    team.configure(|config| config.agents[0].docker.memory = Some(128 << 20));
    docker::block_on(async {
        sandbox.ensure(&id("other")).await.unwrap();
        let eat = "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'";
        let outcome = run(&sandbox, "coder", eat).await;
        assert!(!matches!(&outcome, Ok(outcome) if outcome.end == CommandExit::Exited(0)), "{outcome:?}");
        assert_eq!(output(&sandbox, "coder", "echo still here").await, "still here");
        // The first process can't be killed from inside, whoever tries.
        let _ = run(&sandbox, "coder", "kill -9 1; kill -9 -1").await;
        assert_eq!(output(&sandbox, "coder", "echo still here").await, "still here");
        assert_eq!(output(&sandbox, "other", "echo untouched").await, "untouched");
    });
}

#[test]
fn background_jobs_outlive_their_turn_and_not_their_agent() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        let job = Command { command: "cat; sleep 1000".to_owned(), keep: 1024, ..Command::default() };
        let job = sandbox.spawn(&coder, job).await.unwrap();
        sandbox.jobs(&coder, JobRequest::Write(job.id, b"hello\n".to_vec())).await.unwrap();
        // Another gateway finds it.
        let next = team.sandbox();
        let end = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let reply = next.jobs(&coder, JobRequest::Log(job.id)).await.unwrap();
            if reply.output.head == b"hello\n" {
                assert_eq!(reply.jobs[0].end, None);
                break;
            }
            assert!(std::time::Instant::now() < end, "{reply:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        next.remove(&coder).await.unwrap();
        assert_eq!(next.containers().await.unwrap(), []);
        assert_eq!(next.jobs(&coder, JobRequest::List).await.unwrap().jobs, []);
    });
}
