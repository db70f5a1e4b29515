//! Commands that are ended, and what they leave behind.

use flock::sandbox::helper::HelperError;

use super::*;

/// Starts nine processes besides its shell, in every way that a group's kill misses, none of which listens
/// to SIGTERM; then makes `ready` and stays.
const TREE: &str = r#"
trap '' TERM HUP INT
stay() { while :; do sleep 1000; done; }
sleep 1000 &
setsid sleep 1000 &
(setsid sh -c "trap '' TERM HUP; sleep 1000 & sleep 1000 & exec sleep 1000" &)
(setsid -f sleep 1000)
env -i /usr/bin/setsid -f /bin/sleep 1000
(cd / && exec 1>&- 2>&- && sleep 1000 &)
: > ready
stay
"#;
/// The shell, its last sleep, and the nine; the way to `setsid -f` and the like is gone by then.
const TREE_SIZE: usize = 10;

/// Waits until the whole tree stands. The number alone is reached earlier too, while a `setsid -f` has not ended yet.
async fn stands(helper: &Helper) {
    let ready = helper.folder.path().join("ready");
    let begun = async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, begun).await.unwrap();
    helper.grows_to(TREE_SIZE).await;
}

#[tokio::test]
async fn a_command_out_of_time_ends_with_all_it_started() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let command = Command { timeout: Some(Duration::from_secs(2)), ..sh(&format!("echo begun; {TREE}")) };
    let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
    assert_eq!((outcome.end, text(&outcome)), (CommandExit::TimedOut, "begun\n"));
    assert!(outcome.took >= Duration::from_secs(2));
    assert!(helper.folder.path().join("ready").exists(), "the tree stood before the time was up");
    assert_eq!(helper.descendants(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_cancelled_command_ends_with_all_it_started() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let cancel = CancellationToken::new();
    let command = sh(TREE);
    let (outcome, ()) = tokio::join!(client.run(&command, &cancel), async {
        stands(&helper).await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap().end, CommandExit::Cancelled);
    assert_eq!(helper.descendants(), Vec::<i32>::new());
    let outcome = client.run(&sh("sleep 1000"), &cancel).await.unwrap();
    assert_eq!(outcome.end, CommandExit::Cancelled, "cancelled before it began");
}

#[tokio::test]
async fn a_command_nobody_waits_for_any_more_ends() {
    let helper = Helper::start();
    let client = std::sync::Arc::new(helper.attach().await);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { run(&client, TREE).await }
    });
    stands(&helper).await;
    waiting.abort();
    helper.grows_to(0).await;
    assert_eq!(run(&client, "exit 3").await.end, CommandExit::Exited(3));
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it_and_delays_nothing() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let outcome = run(&client, &TREE.replace("\nstay\n", "\necho done\n")).await;
    assert_eq!((outcome.end, text(&outcome)), (CommandExit::Exited(0), "done\n"));
    assert_eq!(helper.descendants(), Vec::<i32>::new());
}

#[tokio::test]
async fn the_end_of_one_command_spares_what_others_have_started() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let job = client.spawn(&sh(TREE)).await.unwrap();
    stands(&helper).await;
    let before = helper.descendants();
    let outcome = run(&client, &TREE.replace("\nstay\n", "\necho done\n")).await;
    assert_eq!(outcome.end, CommandExit::Exited(0));
    assert_eq!(helper.descendants(), before);
    let cut = Command { timeout: Some(Duration::from_millis(300)), ..sh(TREE) };
    assert_eq!(client.run(&cut, &CancellationToken::new()).await.unwrap().end, CommandExit::TimedOut);
    assert_eq!(helper.descendants(), before);
    client.jobs(flock::sandbox::JobRequest::Kill(job.id)).await.unwrap();
    assert_eq!(helper.descendants(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_stopped_command_ends_too() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let command =
        Command { timeout: Some(Duration::from_millis(300)), ..sh("sleep 1000 & kill -STOP $! $$") };
    assert_eq!(client.run(&command, &CancellationToken::new()).await.unwrap().end, CommandExit::TimedOut);
    assert_eq!(helper.descendants(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_helper_that_dies_is_noticed_by_all_who_wait() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let command = sh("exec sleep 1000");
    let never = CancellationToken::new();
    let (first, second, ()) =
        tokio::join!(client.run(&command, &never), client.run(&command, &never), async {
            helper.grows_to(2).await;
            let orphans = helper.descendants();
            let kill = |pid| {
                let pid = nix::unistd::Pid::from_raw(pid);
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
            };
            kill(helper.pid());
            orphans.into_iter().for_each(kill);
        });
    for result in [first, second] {
        assert!(matches!(result, Err(HelperError::Lost(_))));
    }
    assert!(!client.is_alive());
    assert!(matches!(client.run(&sh("true"), &never).await, Err(HelperError::Lost(_))));
}

#[tokio::test]
async fn a_helper_that_is_told_to_end_leaves_nothing() {
    for by_signal in [true, false] {
        let mut helper = Helper::start();
        let client = helper.attach().await;
        client.spawn(&sh(TREE)).await.unwrap();
        stands(&helper).await;
        let orphans = helper.descendants();
        if by_signal {
            let pid = nix::unistd::Pid::from_raw(helper.pid());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        } else {
            drop(client);
            helper.input = None;
        }
        let end = Instant::now() + LIMIT;
        while helper.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "it did not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let living: Vec<i32> = processes().iter().filter(|(.., state)| *state != 'Z').map(|p| p.0).collect();
        assert!(!orphans.iter().any(|pid| living.contains(pid)));
    }
}
