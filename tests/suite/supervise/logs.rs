//! `flock logs`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use super::{Flock, LONG};
use crate::support::wait_until;

#[test]
fn the_last_lines_and_as_json() {
    let flock = Flock::started();
    let lines = flock.flock(["logs", "supervisor", "-n", "2"]).ok().stdout;
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.ends_with("gateway healthy\n"), "{lines}");
    let record = flock.flock(["logs", "supervisor", "-n", "1", "--json"]).ok().json();
    assert_eq!((&record["log"], &record["text"]), (&"supervisor".into(), &"gateway healthy".into()));
    wait_until("the gateway's first line", LONG, || {
        let said = flock.flock(["logs"]).ok().stdout;
        if said.contains("listens") { Ok(()) } else { Err(said) }
    });
    flock.flock(["logs", "nobody"]).fails(2);
}

#[test]
fn following_goes_on_over_a_rotation() {
    let flock = Flock::new();
    let path = flock.file("logs/gateway.log");
    std::fs::write(&path, "old\n").unwrap();
    let mut follow = flock
        .command()
        .args(["logs", "--follow"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "old");
    let append = |text: &[u8]| {
        std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap().write_all(text).unwrap();
    };
    append(b"one\nesc\x1b[2Jape\n");
    assert_eq!(next(), "one");
    assert!(!next().contains('\x1b'), "what is logged can't steer the terminal");
    append(b"two\n");
    std::fs::rename(&path, flock.file("logs/gateway.log.1")).unwrap();
    append(b"three\n");
    assert_eq!([next(), next()], ["two", "three"]);
    follow.kill().unwrap();
    follow.wait().unwrap();
}
