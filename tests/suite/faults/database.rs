//! The database that another process holds, and the one that has no room.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::with_limit;
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, add, log_text, said, until_said};

/// A home with a channel and one agent in it, which answers people.
fn with_channel() -> TempHome {
    let home = TempHome::new().init();
    let replies = json!([
        {"when": "are you there", "steps": [{"say": "here I am"}]},
        {"when": "human:ann", "steps": [{"say": "noted"}]},
        {"steps": [{"say": ""}]},
    ]);
    add(&home, "coder", &replies);
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    home
}

fn of_people(home: &TempHome) -> Vec<String> {
    let all = said(home, "work").into_iter();
    all.filter(|(author, _)| author.starts_with("human:")).map(|(_, text)| text).collect()
}

#[test]
fn a_post_to_a_locked_database_is_refused_whole_and_the_next_one_is_taken() {
    let home = with_channel();
    let mut served = Some(Served::start(&home));
    for round in ["with a gateway", "without"] {
        if round == "without" {
            served = None;
        }
        home.flock(["channel", "post", "work", &format!("before, {round}")]).ok();
        let holder = home.database().locked();
        let run = home.flock(["channel", "post", "work", &format!("refused, {round}")]).fails(1);
        assert!(run.stderr.contains("another process has locked the database"), "{run:?}");
        assert!(run.stderr.contains("try again"), "{run:?}");
        assert!(!of_people(&home).contains(&format!("refused, {round}")), "it can be read meanwhile");
        drop(holder);
        home.flock(["channel", "post", "work", &format!("after, {round}")]).ok();
    }
    drop(served);
    let _served = Served::start(&home);
    home.flock(["channel", "post", "work", "are you there?"]).ok();
    until_said(&home, "work", "coder", "here I am");
    let expected = [
        "before, with a gateway",
        "after, with a gateway",
        "before, without",
        "after, without",
        "are you there?",
    ];
    assert_eq!(of_people(&home), expected);
    home.flock(["audit", "--verify"]).ok();
}

/// Lets no file of the gateway grow over 4 MiB.
fn with_little_room(home: &TempHome) -> Command {
    with_limit(home, "ulimit -S -f 8192;")
}

#[test]
fn a_full_database_takes_nothing_by_halves_and_goes_on_when_there_is_room() {
    let home = with_channel();
    let served = Served::start_as(&home, with_little_room(&home));
    let mut accepted = Vec::new();
    let mut refused = 0;
    for number in 0..60 {
        let text = format!("{number:03} {}", "x".repeat(400 << 10));
        let run = home.flock_with_input(["channel", "post", "work", "-"], &text);
        if run.code == 0 {
            accepted.push(text);
            continue;
        }
        let run = run.fails(1);
        assert!(run.stderr.contains("there is no room for the database"), "{}", run.stderr);
        refused += 1;
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3, "it never was full");
    assert!(!accepted.is_empty());
    assert!(of_people(&home) == accepted, "what was accepted is there and nothing else is");
    assert_eq!(home.flock(["status", "--json"]).json()["running"], true);

    let pid = served.pid().to_string();
    let lifted = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status().unwrap();
    assert!(lifted.success());
    home.flock(["channel", "post", "work", "are you there?"]).ok();
    accepted.push("are you there?".to_owned());
    until_said(&home, "work", "coder", "here I am");
    served.stop();
    let _served = Served::start(&home);
    assert!(of_people(&home) == accepted, "and after a restart");
    home.flock(["audit", "--verify"]).ok();
}

#[test]
fn what_a_start_can_not_write_is_written_as_soon_as_it_can_be() {
    let home = TempHome::new().init();
    add(&home, "coder", &json!([{"steps": [{"say": "late", "delay_ms": 600_000}]}]));
    let running = || home.database().number("SELECT count(*) FROM turn WHERE state = 'running'");
    let served = Served::start(&home);
    let mut client = home.command();
    let mut client =
        client.args(["chat", "coder", "hello"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("its turn runs", LIMIT, || (running() == 1).then_some(()).ok_or_else(|| log_text(&home)));
    served.kill();
    client.wait().unwrap();

    let holder = home.database().locked();
    let _served = Served::start(&home);
    wait_until("the start can't mark the turn", LIMIT, || {
        let text = log_text(&home);
        text.contains("failed to mark").then_some(()).ok_or(text)
    });
    drop(holder);
    // Without a fault, the watchdog looks after a minute.
    wait_until("the turn is marked", Duration::from_secs(30), || {
        (running() == 0).then_some(()).ok_or_else(|| log_text(&home))
    });
}
