//! `flock search` with no gateway running.

use serde_json::json;

use crate::support::home::TempHome;

fn home() -> TempHome {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["add", "tester", "--no-container"]).ok();
    for agent in ["coder", "tester"] {
        let text = format!("# Notes\n\nthe zebra of {agent}\n");
        std::fs::write(home.file(format!("workspaces/{agent}/MEMORY.md")), text).unwrap();
    }
    std::fs::write(home.file("vaults/shared/animals.md"), "a zebra \u{1b}[2J is striped").unwrap();
    home.flock(["channel", "create", "dev", "--topic", "work", "--member", "coder"]).ok();
    home.flock(["channel", "post", "dev", "who has seen the zebra?", "--as", "ann"]).ok();
    home
}

#[test]
fn a_person_finds_everything_and_as_an_agent_what_it_may_read() {
    let home = home();
    let found = home.flock(["search", "zebra", "--json"]).ok().json();
    assert_eq!(found["results"].as_array().unwrap().len(), 4, "{found}");
    assert_eq!((&found["complete"], &found["closed"]), (&json!(true), &json!([])));
    let found = home.flock(["search", "zebra", "--agent", "coder", "--json"]).ok().json();
    let results = found["results"].as_array().unwrap();
    assert_eq!(results.len(), 3, "{found}");
    assert!(!found.to_string().contains("tester"), "{found}");
    let memory = results.iter().find(|found| found["in"] == "memory").unwrap();
    assert_eq!(
        (&memory["agent"], &memory["path"], &memory["line"]),
        (&json!("coder"), &json!("MEMORY.md"), &json!(3))
    );
    let post = results.iter().find(|found| found["in"] == "channels").unwrap();
    assert_eq!(
        (&post["channel"], &post["seq"], &post["author"]),
        (&json!("dev"), &json!(2), &json!("human:ann"))
    );

    let shown = home.flock(["search", "zebra", "--in", "memory,vaults"]).ok().stdout;
    assert!(
        shown.contains("coder: MEMORY.md:3\n  …the zebra of coder\n") || shown.contains("the zebra of coder"),
        "{shown}"
    );
    assert!(shown.contains("vault shared: animals.md:1\n"), "{shown}");
    assert!(!shown.contains('\u{1b}') && !shown.contains("#dev"), "{shown:?}");
    assert_eq!(home.flock(["search", "giraffe"]).ok().stderr, "nothing was found\n");
}

#[test]
fn wrong_searches_say_what_is_wrong_and_no_text_is_an_expression() {
    let home = home();
    assert!(home.flock(["search", "\"*("]).fails(2).stderr.contains("at least one word"));
    assert!(home.flock(["search", "zebra", "--agent", "nobody"]).fails(1).stderr.contains("flock list"));
    home.flock(["search", "zebra", "--in", "secrets"]).fails(2);
    home.flock(["search", "zebra", "--limit", "0"]).fails(2);
    for text in ["zebra\" OR \"x", "text:zebra NOT the", "NEAR(zebra AND)", "^zebra*", "{zebra} - (("] {
        home.flock(["search", "--json", "--", text]).ok();
    }
    let found = home.flock(["search", "--json", "--", "zebra NOT zebra"]).ok().json();
    assert_eq!(found["results"].as_array().unwrap().len(), 4, "NOT is a word: {found}");
}

#[test]
fn a_damaged_index_is_found_and_mended() {
    let home = home();
    home.flock(["search", "zebra"]).ok();
    std::fs::write(home.file("data/search.db"), "no database".repeat(1000)).unwrap();
    let check = |args: &[&str]| {
        let report = home.flock(args).json();
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "search").cloned().unwrap_or_default()
    };
    let found = check(&["doctor", "--json"]);
    assert_eq!((&found["state"], &found["mend"]), (&json!("warn"), &json!("flock doctor --fix")), "{found}");
    let mended = check(&["doctor", "--fix", "--json"]);
    assert!(mended["fixed"].is_string(), "{mended}");
    assert_eq!(check(&["doctor", "--json"]), json!(null), "there is no index until somebody searches");
    let found = home.flock(["search", "zebra", "--json"]).ok().json();
    assert_eq!(found["results"].as_array().unwrap().len(), 4, "{found}");
    assert_eq!(check(&["doctor", "--json"])["state"], "ok");
    // Without doctor, the search itself makes it anew.
    std::fs::write(home.file("data/search.db"), "no database".repeat(1000)).unwrap();
    let found = home.flock(["search", "zebra", "--json"]).ok().json();
    assert_eq!(found["results"].as_array().unwrap().len(), 4, "{found}");
}

#[test]
fn a_removed_agent_is_not_found_and_a_renamed_one_is() {
    let home = home();
    home.flock(["search", "zebra"]).ok();
    home.flock(["rename", "coder", "maker", "--yes"]).ok();
    home.flock(["remove", "tester", "--purge", "--yes"]).ok();
    let found = home.flock(["search", "zebra", "--in", "memory", "--json"]).ok().json();
    let results = found["results"].as_array().unwrap();
    assert_eq!(results.len(), 1, "{found}");
    assert_eq!(results[0]["agent"], "maker");
    home.flock(["add", "tester", "--no-container"]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    for agent in ["coder", "tester"] {
        let found = home
            .flock(["search", "zebra", "--agent", agent, "--in", "memory,sessions", "--json"])
            .ok()
            .json();
        assert_eq!(found["results"], json!([]), "{agent} inherits nothing");
    }
}
