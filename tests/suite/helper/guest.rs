//! Programs that are started beside the helper. What becomes of them needs a sandbox: `docker::program_run`.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt as _;

use flock::sandbox::helper::HelperError;
use flock::sandbox::helper::message::MAX_GUESTS;

use super::*;

#[tokio::test]
async fn each_guest_has_a_mark_of_its_own_and_there_are_only_so_many() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let mut marks = HashSet::new();
    for _ in 0..MAX_GUESTS {
        assert!(marks.insert(client.admit().await.unwrap()));
    }
    let full = client.admit().await.unwrap_err();
    assert!(matches!(&full, HelperError::Refused(why) if why == "64 programs run already"), "{full}");
    let mut leaving = marks.iter().copied();
    // One has ended, one is ended that has never come; both are told twice, and so is one that was never there.
    for mark in [leaving.next().unwrap(), 4711] {
        client.dismiss(mark).await.unwrap();
        client.dismiss(mark).await.unwrap();
    }
    let never = leaving.next().unwrap();
    for mark in [never, never, 4711] {
        client.end(mark).await.unwrap();
    }
    for _ in 0..2 {
        assert!(marks.insert(client.admit().await.unwrap()), "none is given twice");
    }
    client.admit().await.unwrap_err();
    // Whoever connects next finds nobody.
    drop(client);
    let client = helper.attach().await;
    for _ in 0..MAX_GUESTS {
        assert!(marks.insert(client.admit().await.unwrap()));
    }
    assert_eq!(run(&client, "exit 3").await.end, CommandExit::Exited(3), "commands go on");
}

#[tokio::test]
async fn a_guest_can_say_much_before_anybody_listens() {
    let helper = Helper::start();
    let mut guest = Process::new(helper.folder.path().join("flock-helper"))
        .args(["run", "4711", "head", "-c", "900000", "/dev/zero"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    let ended = loop {
        match guest.try_wait().unwrap() {
            None if Instant::now() < end => tokio::time::sleep(Duration::from_millis(5)).await,
            ended => break ended,
        }
    };
    guest.kill().unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

#[tokio::test]
async fn a_guest_becomes_its_program_with_its_mark() {
    let helper = Helper::start();
    let program = helper.folder.path().join("flock-helper");
    let start = |words: &[&str]| Process::new(&program).arg("run").args(words).output().unwrap();
    let told = start(&["4711", "sh", "-c", "sh -c 'grep realtime.timeout /proc/self/limits'; exit 5"]);
    let limits = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!((told.status.code(), limits.matches("4711").count()), (Some(5), 2), "{limits}");
    // It has the signals that a program expects.
    assert_eq!(start(&["4711", "sh", "-c", "kill -PIPE $$; exit 0"]).status.signal(), Some(13));
    let folder = helper.folder.path().to_str().unwrap();
    for (words, code) in [
        (vec!["4711", "/nowhere"], 127),
        (vec!["4711", folder], 126),
        (vec!["4711"], 2),
        (vec!["x", "sh"], 2),
    ] {
        let ended = start(&words);
        assert_eq!(ended.status.code(), Some(code), "{words:?}");
        assert!(!ended.stderr.is_empty(), "{words:?}");
    }
}
