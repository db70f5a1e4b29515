//! An agent that is removed in the middle of its turns.

use serde_json::{Value, json};

use super::provider::is_at_rest;
use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, add, log_text, until_said};

fn running(home: &TempHome) -> usize {
    let status = home.flock(["status", "--json"]).ok().json();
    usize::try_from(status["gateway"]["turns"]["running"].as_u64().unwrap()).unwrap()
}

fn tasks(home: &TempHome) -> Vec<Value> {
    home.flock(["tasks", "--json"]).ok().json()["tasks"].as_array().unwrap().clone()
}

#[test]
fn what_a_removed_agent_was_doing_ends_and_the_others_go_on() {
    let home = TempHome::new().init();
    let long = json!([{"say": "never said", "delay_ms": 600_000}]);
    add(
        &home,
        "ada",
        &json!([
            {"when": "work long", "steps": long},
            {"steps": [{"say": ""}]},
        ]),
    );
    let ask = json!({"name": "flock_message", "arguments": {"to": "ada", "message": "work long on this"}});
    add(
        &home,
        "bob",
        &json!([
            {"when": "delegate", "steps": [{"calls": [ask]}, {"say": "sent"}]},
            {"when": "are you there", "steps": [{"say": "here I am"}]},
            {"steps": [{"say": ""}]},
        ]),
    );
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada", "--member", "bob"]).ok();
    home.flock(["channel", "create", "own", "--topic", "x", "--member", "ada"]).ok();
    let served = Served::start(&home);
    is_at_rest(&home);
    home.flock(["channel", "post", "own", "work long here"]).ok();
    home.flock(["channel", "post", "work", "@bob please delegate"]).ok();
    wait_until("ada is in the middle of two turns", LIMIT, || {
        let (turns, tasks) = (running(&home), tasks(&home));
        let is_working = tasks.iter().any(|task| task["assignee"] == "ada" && task["state"] == "working");
        if turns == 2 && is_working { Ok(()) } else { Err(format!("{turns} {tasks:?}\n{}", log_text(&home))) }
    });

    home.flock(["remove", "ada"]).ok();
    wait_until("its turns, task and memberships end", LIMIT, || {
        let (turns, tasks) = (running(&home), tasks(&home));
        let channels = home.flock(["channel", "list", "--json"]).ok().json();
        let is_member = channels.to_string().contains("\"ada\"");
        let is_open = tasks.iter().any(|task| !matches!(task["state"].as_str(), Some("failed" | "canceled")));
        if turns == 0 && !is_member && !is_open {
            Ok(())
        } else {
            Err(format!("{turns} {is_member} {tasks:?}\n{}", log_text(&home)))
        }
    });
    let count = || {
        let store = flock::store::Store::open(&flock::home::Home::new(home.path(), None)).unwrap();
        let sessions = block_on(store.sessions().list(Some(&"ada".parse().unwrap()), 100)).unwrap();
        sessions.iter().map(|session| session.turns).sum::<u64>()
    };
    let before = count();
    home.flock(["channel", "post", "work", "@ada @bob are you there?"]).ok();
    home.flock(["channel", "post", "own", "are you there, too?"]).ok();
    until_said(&home, "work", "bob", "here I am");
    served.stop();
    let _served = Served::start(&home);
    home.flock(["channel", "post", "work", "@ada @bob are you there still?"]).ok();
    is_at_rest(&home);
    assert_eq!(count(), before, "nothing starts it again");
    assert!(!crate::team::stage::said(&home, "work").iter().any(|(author, _)| author == "ada"));
}
