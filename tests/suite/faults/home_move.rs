//! Moves of the database to a server and back: killed at every step, stopped by a person, and on a disk that is full.

use flock::fault_point::FaultPoint;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::rollback::dies_with;
use super::with_limit;
use crate::support::home::{TempHome, finish};
use crate::support::{postgres, wait_until};

fn with_posts(count: usize) -> TempHome {
    let home = TempHome::new().init();
    home.flock(["channel", "create", "work", "--topic", "x"]).ok();
    for number in 0..count {
        post(&home, number);
    }
    home
}

fn post(home: &TempHome, number: usize) {
    home.flock(["channel", "post", "work", &format!("message {number}")]).ok();
}

fn messages(home: &TempHome) -> usize {
    home.flock(["channel", "read", "work", "--json"]).ok().stdout.matches("message ").count()
}

fn is_sound(home: &TempHome, posts: usize) {
    home.flock(["audit", "--verify"]).ok();
    assert_eq!(messages(home), posts);
}

#[test]
fn a_killed_move_loses_nothing_and_goes_on() {
    let Some(server) = postgres::server() else { return };
    let home = with_posts(4);
    let mut posts = 4;
    let switched = format!("{:?}", FaultPoint::MoveSwitched);
    for (there, back) in [
        ("MoveCopying", "MoveCopying"),
        ("MoveCopying:3", "MoveCopying:3"),
        ("MoveProved", "MoveProved"),
        ("MoveProved", "MoveRetired"),
        ("MoveSwitched", "MoveSwitched"),
    ] {
        let schema = postgres::schema();
        let line = format!("home move --to {server} --schema {schema}");
        let words: Vec<&str> = line.split(' ').collect();
        assert!(dies_with(&home, &line, there, &[]), "{there}");
        is_sound(&home, posts);
        assert_eq!(home.file("store.json").exists(), there == switched, "{there}");
        home.flock(words).fails(if there == switched { 5 } else { 0 });
        is_sound(&home, posts);
        post(&home, posts);
        posts += 1;

        let line = "home move --to sqlite";
        assert!(dies_with(&home, line, back, &[]), "{back}");
        if back == "MoveRetired" {
            // The server refuses changes already, and says what finishes the move.
            let refused = home.flock(["channel", "post", "work", "lost"]).fails(5);
            assert!(refused.stderr.contains("flock home move --to sqlite"), "{refused:?}");
        } else {
            is_sound(&home, posts);
        }
        home.flock(line.split(' ')).fails(if back == switched { 5 } else { 0 });
        is_sound(&home, posts);
        assert!(!home.file("store.json").exists() && !home.file("data/flock.db.moving").exists());
        post(&home, posts);
        posts += 1;
    }
}

#[test]
fn a_move_that_changed_rows_follow_begins_anew() {
    let Some(server) = postgres::server() else { return };
    let (home, schema) = (with_posts(3), postgres::schema());
    let line = format!("home move --to {server} --schema {schema}");
    assert!(dies_with(&home, &line, "MoveCopying:3", &[]));
    post(&home, 3);
    let moved = home.flock(line.split(' ').chain(["--json"])).ok().json();
    assert_eq!(moved["beganAnew"], true, "{moved:#}");
    is_sound(&home, 4);
}

#[test]
fn a_disk_without_room_leaves_a_move_that_goes_on() {
    let Some(server) = postgres::server() else { return };
    let (home, schema) = (with_posts(3), postgres::schema());
    for number in 3..15 {
        let text = format!("message {number} {}", "x".repeat(400 << 10));
        home.flock_with_input(["channel", "post", "work", "-"], &text).ok();
    }
    home.flock(["home", "move", "--to", &server, "--schema", &schema]).ok();
    // Files may have three megabytes: enough for empty tables, and not for the rows.
    let failed = finish(with_limit(&home, "ulimit -f 6144;").args(["home", "move", "--to", "sqlite"]));
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("no room") && failed.stderr.contains("make room"), "{failed:?}");
    assert!(failed.stderr.contains("then go on with: flock home move --to sqlite"), "{failed:?}");
    assert!(home.file("store.json").exists());
    let moved = home.flock(["home", "move", "--to", "sqlite", "--json"]).ok().json();
    assert_eq!(moved["beganAnew"], false, "{moved:#}");
    home.flock(["audit", "--verify"]).ok();
    assert_eq!(home.flock(["channel", "read", "work", "--json"]).ok().stdout.matches("message ").count(), 15);
}

#[test]
fn a_person_stops_a_move_and_goes_on_with_it() {
    let Some(server) = postgres::server() else { return };
    let (home, schema) = (with_posts(2), postgres::schema());
    let line = ["home", "move", "--to", &server, "--schema", &schema];
    let child = home
        .command()
        .args(line)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    // A signal that comes before the move listens for it ends the process, which is a kill.
    wait_until("the move began", super::LONG, || {
        if home.file("run/move.lock").exists() { Ok(()) } else { Err("no lock".to_owned()) }
    });
    kill(pid, Signal::SIGINT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    // It may have been done already.
    if !ended.status.success() && ended.status.code().is_some() {
        assert!(said.contains("the move was stopped") && said.contains("flock home move --to"), "{said}");
    }
    is_sound(&home, 2);
    if !home.file("store.json").exists() {
        home.flock(line).ok();
    }
    is_sound(&home, 2);
}

#[test]
fn a_killed_restore_to_a_server_goes_on_or_names_what_is_left() {
    let Some(server) = postgres::server() else { return };
    let (home, schema) = (with_posts(3), postgres::schema());
    let file = home.outside().join("one.tar.gz").display().to_string();
    home.flock(["backup", &file]).ok();
    post(&home, 3);
    let line = format!("restore {file} --replace --yes --to {server} --schema {schema}");
    // The home that is there stays as it is, and the copy on the server goes on.
    for at in ["MoveCopying:3", "MoveProved"] {
        assert!(dies_with(&home, &line, at, &[]), "{at}");
        is_sound(&home, 4);
        assert!(!home.file("store.json").exists(), "{at}");
    }
    assert!(dies_with(&home, &line, "MoveSwitched", &[]));
    is_sound(&home, 4);
    assert!(dies_with(&home, &line, "RestoreReady", &[]));
    is_sound(&home, 4);
    let refused = home.flock(line.split(' ')).fails(5);
    assert!(refused.stderr.contains("is not empty") && refused.stderr.contains("DROP SCHEMA"), "{refused:?}");
    is_sound(&home, 4);
    postgres::discard(&schema);
    home.flock(line.split(' ')).ok();
    is_sound(&home, 3);
    assert!(home.file("store.json").exists());
    postgres::discard(&schema);
}
