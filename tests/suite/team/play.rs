//! People and agents in channels, the whole way: the command line, the gateway, turns, tools, and back.

use serde_json::json;

use super::stage::{LIMIT, Served, add, log_text, said, transcripts, until_said};
use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::wait_until;

#[test]
fn a_person_calls_one_agent_and_the_other_hears_of_its_post_at_its_tick() {
    let home = TempHome::new().init();
    let report = json!({"name": "flock_channel_post",
        "arguments": {"channelId": "work", "message": "the report is ready"}});
    add(
        &home,
        "ada",
        &json!([
            {"when": "please report", "steps": [{"calls": [report]}, {"say": "my final words"}]},
            {"steps": [{"say": ""}]},
        ]),
    );
    add(
        &home,
        "bob",
        &json!([
            {"when": "the report is ready", "steps": [
                {"calls": [{"name": "flock_channel_post",
                            "arguments": {"channelId": "work", "message": "bob has read the report"}}]},
                {"say": "noted"},
            ]},
            {"steps": [{"say": ""}]},
        ]),
    );
    home.flock(["channel", "create", "work", "--topic", "reports", "--member", "ada", "--member", "bob"])
        .ok();
    home.flock(["channel", "post", "work", "@ada please report", "--no-notify"]).ok();
    home.flock(["channel", "assign", "work", "--add", "human:ann"]).ok();
    // Said before the gateway runs, delivered when it does.
    home.flock(["channel", "post", "work", "@ada do it now"]).ok();
    let served = Served::start(&home);
    let all = until_said(&home, "work", "bob", "bob has read the report");
    let by = |author: &str| -> Vec<&str> {
        all.iter().filter(|(who, _)| who == author).map(|(_, text)| text.as_str()).collect()
    };
    assert_eq!(by("ada"), ["the report is ready"], "posted once, and its final text not in addition");
    assert_eq!(by("bob"), ["bob has read the report"]);
    assert_eq!(by("human:ann"), ["@ada please report", "@ada do it now"]);

    let seen = transcripts(&home, "bob").join("\n");
    assert_eq!(seen.matches("] ada: the report is ready").count(), 1, "{seen}");
    let seen = transcripts(&home, "ada").join("\n");
    assert_eq!(seen.matches("] human:ann: @ada please report").count(), 1, "{seen}");
    assert!(!seen.contains("] ada: "), "nobody is given their own posts: {seen}");
    served.stop();
    let before = said(&home, "work");
    let _served = Served::start(&home);
    home.flock(["channel", "post", "work", "thanks", "--no-notify"]).ok();
    wait_until("the team has nothing to do", LIMIT, || {
        let status = home.flock(["status", "--json"]).ok().json();
        let turns = &status["gateway"]["turns"];
        (turns["running"] == 0 && turns["waiting"] == 0).then_some(()).ok_or_else(|| status.to_string())
    });
    assert_eq!(
        said(&home, "work").len(),
        before.len() + 1,
        "a restart says nothing again: {}",
        log_text(&home)
    );
}

#[test]
fn a_channel_is_archived_when_all_are_ready_and_opened_again() {
    let home = TempHome::new().init();
    let ready = json!({"name": "flock_archive_ready", "arguments": {"channelId": "work"}});
    let replies = json!([
        {"when": "going to be archived", "steps": [{"calls": [ready]}, {"say": "done"}]},
        {"when": "human:ann", "steps": [{"say": "here I am"}]},
        {"steps": [{"say": ""}]},
    ]);
    add(&home, "ada", &replies);
    add(&home, "bob", &replies);
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada", "--member", "bob"]).ok();
    let _served = Served::start(&home);
    home.flock(["channel", "post", "work", "hello both"]).ok();
    until_said(&home, "work", "ada", "here I am");
    until_said(&home, "work", "bob", "here I am");

    let begun = home.flock(["channel", "archive", "work"]).ok().stdout;
    assert!(begun.contains("is being archived: waiting for") || begun.contains("is archived"), "{begun}");
    until_said(&home, "work", "system", "This channel is archived (all are ready)");
    let all = said(&home, "work");
    for agent in ["ada", "bob"] {
        let line = format!("{agent} is ready to archive");
        let count = all.iter().filter(|(author, text)| author == "system" && text.starts_with(&line)).count();
        assert_eq!(count, 1, "{all:?}");
    }
    home.flock(["channel", "post", "work", "late"]).fails(1);
    assert_eq!(session_state(&home, "agent:ada:flock:channel:work"), "closed");

    home.flock(["channel", "reopen", "work"]).ok();
    assert_eq!(session_state(&home, "agent:ada:flock:channel:work"), "open");
    let before = said(&home, "work").len();
    home.flock(["channel", "post", "work", "hello again"]).ok();
    wait_until("both answer again", LIMIT, || {
        let all = said(&home, "work");
        let count = all[before..].iter().filter(|(_, text)| text == "here I am").count();
        (count == 2).then_some(()).ok_or_else(|| format!("{all:?}"))
    });
}

fn session_state(home: &TempHome, key: &str) -> String {
    let store = flock::store::Store::open(&flock::home::Home::new(home.path(), None)).unwrap();
    let session =
        block_on(store.sessions().find(&key.parse().unwrap())).unwrap().expect("the session is there");
    format!("{:?}", session.state).to_lowercase()
}
