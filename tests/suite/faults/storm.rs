//! Two agents that call each other without end.

use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, add, log_text, said};

/// The cap on agents' messages without one of a person's.
const CAP: usize = 50;

/// Calls the other by each of its messages, and each time says something longer.
fn calls(other: &str) -> Value {
    let post = json!({"name": "flock_channel_post",
        "arguments": {"channelId": "work", "message": format!("@{other} you said {{{{last_message}}}}")}});
    json!([
        {"when": "begin the storm", "steps": [{"calls": [post]}, {"say": "x"}]},
        {"when": "you said", "steps": [{"calls": [post]}, {"say": "x"}]},
        {"steps": [{"say": ""}]},
    ])
}

fn by_agents(all: &[(String, String)]) -> usize {
    all.iter().filter(|(author, _)| matches!(author.as_str(), "ada" | "bob")).count()
}

fn brakes(all: &[(String, String)]) -> usize {
    all.iter().filter(|(author, text)| author == "system" && text.starts_with("The brake is on")).count()
}

#[test]
fn two_agents_that_call_each_other_end_and_a_person_lets_them_go_on() {
    let home = TempHome::new().init();
    add(&home, "ada", &calls("bob"));
    add(&home, "bob", &calls("ada"));
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada", "--member", "bob"]).ok();
    let _served = Served::start(&home);
    home.flock(["channel", "post", "work", "@ada begin the storm"]).ok();
    wait_until("the brake", LIMIT * 3, || {
        let all = said(&home, "work");
        if brakes(&all) > 0 { Ok(()) } else { Err(format!("{} messages\n{}", all.len(), log_text(&home))) }
    });
    super::provider::is_at_rest(&home);
    let all = said(&home, "work");
    let first = by_agents(&all);
    // Messages beyond the cap wake nobody, but whoever was woken before still answers: for each of the two a turn that
    // runs, and under load one that waits behind it.
    assert!((2..=CAP + 4).contains(&first), "{first}");
    assert_eq!(brakes(&all), 1, "{all:#?}");
    // What a person says elsewhere does not let go of the brake here.
    home.flock(["chat", "ada", "begin the storm"]).ok();
    super::provider::is_at_rest(&home);
    let all = said(&home, "work");
    assert_eq!(by_agents(&all), first + 1, "it is kept and wakes nobody");
    assert_eq!(brakes(&all), 1, "it is said once");
    let first = first + 1;

    home.flock(["channel", "post", "work", "@ada begin the storm again"]).ok();
    wait_until("they go on", LIMIT, || {
        let count = by_agents(&said(&home, "work"));
        if count > first + 2 { Ok(()) } else { Err(format!("{count}\n{}", log_text(&home))) }
    });
}
