//! Members who come and go while a channel is being archived.

use serde_json::{Value, json};

use super::provider::is_at_rest;
use crate::support::home::TempHome;
use crate::team::stage::{Served, add, said, until_said};

/// A team of one that gets ready and two that never do.
fn team() -> TempHome {
    let home = TempHome::new().init();
    let ready = |id: &str| json!({"name": "flock_archive_ready", "arguments": {"channelId": id}});
    let keen = json!([
        {"when": "#one", "steps": [{"calls": [ready("one")]}, {"say": ""}]},
        {"when": "#two", "steps": [{"calls": [ready("two")]}, {"say": ""}]},
        {"steps": [{"say": ""}]},
    ]);
    let idle: Value = json!([{"steps": [{"say": ""}]}]);
    add(&home, "keen", &keen);
    add(&home, "idle", &idle);
    add(&home, "late", &idle);
    home
}

fn state(home: &TempHome, id: &str) -> String {
    let all = home.flock(["channel", "list", "--all", "--json"]).ok().json();
    let all = all["channels"].as_array().unwrap();
    all.iter().find(|channel| channel["channelId"] == id).unwrap()["state"].as_str().unwrap().to_owned()
}

#[test]
fn who_joins_an_archive_is_waited_for_and_who_leaves_is_not() {
    let home = team();
    home.flock(["channel", "create", "one", "--topic", "x", "--member", "keen", "--member", "idle"]).ok();
    let _served = Served::start(&home);
    home.flock(["channel", "archive", "one"]).ok();
    until_said(&home, "one", "system", "keen is ready to archive (1 of 2)");
    home.flock(["channel", "assign", "one", "--add", "late"]).ok();
    home.flock(["channel", "assign", "one", "--remove", "idle"]).ok();
    is_at_rest(&home);
    assert_eq!(state(&home, "one"), "archiving", "late has joined and is not ready");
    home.flock(["channel", "assign", "one", "--remove", "late"]).ok();
    assert_eq!(state(&home, "one"), "archived", "who is left is ready");
    let ends = said(&home, "one").iter().filter(|(_, text)| text.contains("is archived (")).count();
    assert_eq!(ends, 1);
    home.flock(["channel", "assign", "one", "--add", "late"]).fails(1);
}

#[test]
fn who_joins_an_archive_is_told_of_it() {
    let home = team();
    home.flock(["channel", "create", "two", "--topic", "x", "--member", "idle"]).ok();
    let _served = Served::start(&home);
    home.flock(["channel", "archive", "two"]).ok();
    assert_eq!(state(&home, "two"), "archiving");
    home.flock(["channel", "assign", "two", "--add", "keen"]).ok();
    until_said(&home, "two", "system", "keen is ready to archive (1 of 2)");
    home.flock(["channel", "assign", "two", "--remove", "idle"]).ok();
    assert_eq!(state(&home, "two"), "archived");
}

#[test]
fn a_channel_without_agents_is_archived_at_once() {
    let home = team();
    for _ in 0..2 {
        home.flock(["channel", "create", "three", "--topic", "x", "--member", "human:ann"]);
        let run = home.flock(["channel", "archive", "three"]).ok();
        assert_eq!(run.stdout, "#three is archived\n");
        home.flock(["channel", "reopen", "three"]).ok();
    }
    // And one that loses its last while it is being archived.
    home.flock(["channel", "assign", "three", "--add", "idle"]).ok();
    home.flock(["channel", "archive", "three"]).ok();
    assert_eq!(state(&home, "three"), "archiving");
    home.flock(["channel", "assign", "three", "--remove", "idle"]).ok();
    assert_eq!(state(&home, "three"), "archived");
}
