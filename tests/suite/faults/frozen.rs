//! A gateway that is ended while a frozen agent's answer waits for its thaw.

use serde_json::json;

use super::provider::is_at_rest;
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, add, log_text, said, transcripts, until_said};

#[test]
fn an_answer_that_waits_for_a_thaw_survives_a_restart_and_is_posted_once() {
    let home = TempHome::new().init();
    add(
        &home,
        "ada",
        &json!([
            {"when": "please speak", "steps": [{"say": "the long awaited words", "delay_ms": 5_000}]},
            {"steps": [{"say": ""}]},
        ]),
    );
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada"]).ok();
    let served = Served::start(&home);
    is_at_rest(&home);
    home.flock(["channel", "post", "work", "please speak"]).ok();
    wait_until("its turn runs", LIMIT, || {
        let status = home.flock(["status", "--json"]).ok().json();
        if status["gateway"]["turns"]["running"] == 1 { Ok(()) } else { Err(status.to_string()) }
    });
    home.flock(["freeze", "ada"]);
    wait_until("it has answered", LIMIT, || {
        let texts = transcripts(&home, "ada").join("\n");
        if texts.contains("the long awaited words") { Ok(()) } else { Err(texts + &log_text(&home)) }
    });
    let is_said = || said(&home, "work").iter().filter(|(author, _)| author == "ada").count();
    assert_eq!(is_said(), 0, "it is frozen");
    served.stop();
    let served = Served::start(&home);
    assert_eq!(is_said(), 0, "it is frozen still");
    home.flock(["thaw", "ada"]);
    until_said(&home, "work", "ada", "the long awaited words");
    is_at_rest(&home);
    served.stop();
    let _served = Served::start(&home);
    is_at_rest(&home);
    assert_eq!(is_said(), 1);
}
