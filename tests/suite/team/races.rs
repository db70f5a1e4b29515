//! Races from the command line: what is said, what is refused, and a gateway that is killed.

use serde_json::{Value, json};

use super::stage::{LIMIT, Served, add, log_text};
use crate::support::home::TempHome;
use crate::support::{git, wait_until};

/// A home with the agent `ada` in the channel `dev`, and the project `lib` that it works on.
fn home() -> TempHome {
    let home = TempHome::new().init();
    let owner = home.outside().join("owner");
    std::fs::create_dir_all(&owner).unwrap();
    git(&owner, &["init", "-q", "-b", "main"]);
    std::fs::write(owner.join("answer"), "0\n").unwrap();
    git(&owner, &["add", "-A"]);
    git(&owner, &["commit", "-q", "-m", "begin"]);
    add(&home, "ada", &json!([{"steps": [{"say": "I give up"}]}]));
    let repo = owner.to_str().unwrap();
    home.flock(["project", "add", "lib", "--repo", repo, "--check", "true", "--agent", "ada"]).ok();
    home.flock(["project", "add", "bare", "--repo", repo, "--agent", "ada"]).ok();
    home.flock(["channel", "create", "dev", "--topic", "x", "--member", "ada"]).ok();
    home
}

fn show(home: &TempHome) -> Value {
    home.flock(["race", "show", "1", "--json"]).ok().json()["race"].clone()
}

const RACE: [&str; 6] = ["race", "#dev", "2", "--project", "lib", "Find the answer"];

#[test]
fn a_race_outlives_a_killed_gateway_and_is_over_when_every_copy_gives_up() {
    let home = home();
    home.flock(["config", "set", "plugins.entries.flock.config.races", "{\"idleSeconds\": 2}"]).ok();
    let said = home.flock(RACE).ok();
    assert!(said.stdout.contains("#dev-r1-1, #dev-r1-2"), "{said:?}");
    let begun = show(&home);
    assert_eq!((&begun["state"], &begun["copyCount"]), (&json!("running"), &json!(2)));
    assert_eq!(begun["copies"][1]["agents"], json!([{"agent": "ada-r1-2", "from": "ada"}]));
    let served = Served::start(&home);
    served.kill();
    let _served = Served::start(&home);
    let over = wait_until("the race is over", LIMIT, || {
        let found = show(&home);
        if found["state"] == "over" { Ok(found) } else { Err(format!("{found}\n{}", log_text(&home))) }
    });
    assert_eq!(over["copies"][0]["why"], "nothing of it passed the checks: it gave up");
    let listed = home.flock(["race", "list"]).ok();
    assert!(listed.stdout.contains("over") && listed.stdout.contains("Find the answer"), "{listed:?}");
    let shown = home.flock(["race", "show", "1"]).ok();
    assert!(
        shown.stdout.contains("#dev-r1-2") && shown.stdout.contains("copy 1: nothing of it"),
        "{shown:?}"
    );
    wait_until("the copies are frozen", LIMIT, || {
        let agents = home.flock(["list", "--json"]).ok().json();
        let frozen = home.flock(["status", "--json"]).ok().json().to_string();
        if frozen.contains("race 1: ") { Ok(()) } else { Err(format!("{agents}\n{frozen}")) }
    });
    home.flock(["race", "keep", "1"]).fails(1);
    home.flock(["race", "stop", "1"]).fails(1);
    let unasked = home.flock(["race", "drop", "1"]).fails(2);
    assert!(unasked.stderr.contains("flock race drop 1 --yes"), "{unasked:?}");
    home.flock(["race", "drop", "1", "--yes"]).ok();
    let agents = home.flock(["list", "--json"]).ok().json().to_string();
    assert!(agents.contains("ada") && !agents.contains("ada-r1-"), "{agents}");
    assert!(!home.file("workspaces/ada-r1-1").exists() && !home.file("agents/ada-r1-2").exists());
    assert_eq!(show(&home)["state"], "over", "it can still be looked at");
    home.flock(["race", "drop", "1", "--yes"]).fails(1);
}

#[test]
fn a_race_works_without_a_gateway_and_says_what_it_needs() {
    let home = home();
    let refused = |args: &[&str], code: i32, text: &str| {
        let run = home.flock(args.iter().copied()).fails(code);
        assert!(run.stderr.contains(text), "{args:?}: {run:?}");
    };
    refused(&["race", "dev", "1", "--project", "lib", "x"], 2, "2..=8");
    refused(&["race", "dev", "2", "--project", "bare", "x"], 1, "has no checks");
    refused(&["race", "dev", "2", "--project", "none", "x"], 1, "no project none");
    refused(&["race", "nowhere", "2", "--project", "lib", "x"], 1, "no channel nowhere");
    refused(&["race", "dev", "2", "--project", "lib", "--budget-usd", "free", "x"], 2, "dollars as in 2.5");
    refused(&["race", "show", "7"], 1, "there is no race 7");
    home.flock(["config", "set", "plugins.entries.flock.config.maxAgents", "10"]).ok();
    refused(&["race", "dev", "8", "--project", "lib", "x"], 5, "maxAgents");
    home.flock([
        "race",
        "dev",
        "2",
        "--project",
        "lib",
        "--budget-usd",
        "1.5",
        "--budget-tokens",
        "9000",
        "x",
    ])
    .ok();
    let found = show(&home);
    assert_eq!((&found["costMicros"], &found["tokens"]), (&json!(1_500_000), &json!(9000)));
    refused(&["race", "drop", "1", "--yes"], 1, "race 1 is running");
    home.flock(["race", "stop", "1"]).ok();
    assert_eq!(show(&home)["state"], "stopped");
    home.flock(["race", "drop", "1", "--yes"]).ok();
    assert!(!home.file("workspaces/ada-r1-1").exists());
    let again = home.flock(["race", "dev", "2", "--project", "lib", "x", "--json"]).ok().json();
    assert_eq!(again["race"]["race"], 2, "a number is never used again");
}
