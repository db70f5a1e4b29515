//! Commands that print, or start, without end.

use flock::sandbox::JobRequest;

use super::*;

#[tokio::test]
async fn a_gigabyte_of_output_is_counted_and_not_kept() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let command = Command { keep: 10_000, ..sh("echo first; yes | head -c 1000000000; echo last") };
    let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.end, CommandExit::Exited(0));
    assert_eq!(outcome.output.total, 1_000_000_011);
    assert_eq!((outcome.output.head.len(), outcome.output.tail.len()), (5_000, 5_000));
    assert!(outcome.output.head.starts_with(b"first\ny\n"));
    assert!(outcome.output.tail.ends_with(b"y\nlast\n"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", helper.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 8 * 1024, "{peak} KiB resident at most");
}

#[tokio::test]
async fn endless_output_ends_when_its_time_is_up() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let command = Command { timeout: Some(Duration::from_millis(500)), ..sh("yes & yes & setsid yes") };
    let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.end, CommandExit::TimedOut);
    assert!(outcome.output.total > 0);
    assert_eq!(helper.descendants(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_fork_bomb_ends_when_its_time_is_up() {
    let helper = Helper::start_with_few_processes(120);
    let client = helper.attach().await;
    // In one group; each in a session of its own; each gone at once, with two in its place.
    for bomb in [
        "bomb() { bomb | bomb & }; (bomb; bomb) & exec sleep 1000",
        "echo 'while :; do setsid sh bomb & done 2>/dev/null' > bomb; sh bomb & exec sleep 1000",
        "echo 'setsid -f sh bomb; setsid -f sh bomb' > bomb; sh bomb & exec sleep 1000",
    ] {
        let command = Command { timeout: Some(Duration::from_secs(1)), ..sh(bomb) };
        let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
        assert_eq!(outcome.end, CommandExit::TimedOut, "{bomb}");
        assert_eq!(helper.descendants(), Vec::<i32>::new(), "{bomb}");
        assert_eq!(run(&client, "echo $((6 * 7))").await.output.head, b"42\n");
    }
}

/// Processes that were killed count until they are reaped, so a sandbox that was full has room only a moment later.
#[tokio::test]
async fn a_command_waits_a_moment_for_room_among_the_processes() {
    // Only root can give the helper a user of its own, for whom the limit is exact.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let helper = Helper::start_with_few_processes(20);
    let client = helper.attach().await;
    // Besides the helper and this shell.
    let fill = sh("for n in $(seq 18); do sleep 1000 & done; exec sleep 1000");
    let full = client.spawn(&fill).await.unwrap();
    helper.grows_to(19).await;

    let refused = client.run(&sh("echo never"), &CancellationToken::new()).await.unwrap_err();
    assert!(refused.to_string().contains("resource temporarily unavailable"), "{refused}");

    let cancel = CancellationToken::new();
    cancel.cancel();
    let cancelled = client.run(&sh("echo never"), &cancel).await.unwrap();
    assert_eq!((cancelled.end, cancelled.output.total), (CommandExit::Cancelled, 0));

    let makes_room = async { client.jobs(JobRequest::Kill(full.id)).await.unwrap() };
    let (outcome, _) = tokio::join!(run(&client, "echo room"), makes_room);
    assert_eq!(text(&outcome), "room\n");
}
