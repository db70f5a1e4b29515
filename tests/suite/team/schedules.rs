//! Schedules from the command line, and gateways that are killed while slots are due.
//!
//! `FLOCK_TEST_SCHEDULE_KILLS=1000` kills as many, `FLOCK_TEST_SEED` at the moments of an earlier run.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use super::stage::{LIMIT, Served, add, log_text, said, until_said};
use crate::support::home::TempHome;
use crate::support::wait_until;

/// A home with the agent `ada` in the channel `dev`.
fn home() -> TempHome {
    let home = TempHome::new().init();
    add(&home, "ada", &json!([{"steps": [{"say": "I looked around"}]}]));
    home.flock(["channel", "create", "dev", "--topic", "x", "--member", "ada"]).ok();
    home
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn soon(millis: i64) -> String {
    now().checked_add(jiff::SignedDuration::from_millis(millis)).unwrap().to_string()
}

/// The rows of a schedule's history, the newest first.
pub fn history(home: &TempHome, name: &str) -> Vec<Value> {
    let shown = home.flock(["schedule", "history", name, "--json"]).ok().json();
    shown["history"].as_array().unwrap().clone()
}

#[test]
fn a_schedule_is_added_run_paused_and_removed_with_and_without_a_gateway() {
    let home = home();
    let added = home
        .flock(["schedule", "add", "dev", "0 9 * * 1-5", "Look around", "--tz", "Europe/Berlin", "--json"])
        .ok();
    let added = &added.json()["schedule"];
    assert_eq!(
        (&added["name"], &added["cron"], &added["tz"]),
        (&json!("dev-1"), &json!("0 9 * * 1-5"), &json!("Europe/Berlin"))
    );
    assert!(added["nextAt"].as_i64().unwrap() > now().as_millisecond());
    let said_so =
        home.flock(["schedule", "add", "@ada", "--every", "2h", "--name", "two-hourly", "Look around"]).ok();
    assert!(said_so.stdout.contains("added schedule two-hourly, next at "), "{said_so:?}");
    for (wrong, code, says) in [
        (vec!["dev", "0 9 * *", "x"], 2, "0 9 * * 1-5"),
        (vec!["dev", "--every", "5s", "x"], 2, "90m"),
        (vec!["dev", "--at", "2001-01-01T00:00", "x"], 2, "has passed"),
        (vec!["dev", "0 9 * * *", "--tz", "Moon/Base", "x"], 2, "Europe/Berlin"),
        (vec!["dev", "--after", "sunset", "x"], 2, "task.completed"),
        (vec!["nobody", "--every", "1h", "x"], 2, "nobody"),
        (vec!["dev", "--every", "1h", "--at", "2099-01-01T00:00", "x"], 2, "--at"),
        (vec!["dev", "x"], 2, "say when it runs"),
        (vec!["dev", "0 9 * * *", "--every", "1h", "x"], 2, "only the text"),
        (vec!["dev", "0 9 * * *", "two", "words"], 2, "one word in quotes"),
        (vec!["@ada", "--every", "2h", "--name", "two-hourly", "x"], 5, "flock schedule show two-hourly"),
    ] {
        let run = home.flock([&["schedule", "add"][..], &wrong].concat()).fails(code);
        assert!(run.stderr.contains(says), "{wrong:?}: {run:?}");
    }
    let listed = home.flock(["schedule", "list"]).ok();
    assert!(listed.stdout.contains("two-hourly") && listed.stdout.contains("every 2h"), "{listed:?}");
    home.flock(["schedule", "pause", "dev-1"]).ok();
    assert_eq!(
        home.flock(["schedule", "show", "dev-1", "--json"]).ok().json()["schedule"]["state"],
        "paused"
    );
    let _served = Served::start(&home);
    let resumed = home.flock(["schedule", "resume", "dev-1"]).ok();
    assert!(resumed.stdout.contains("goes on"), "{resumed:?}");
    home.flock(["schedule", "run", "dev-1"]).ok();
    let all = until_said(&home, "dev", "ada", "I looked around");
    let by_schedule: Vec<_> = all.iter().filter(|(_, text)| text.starts_with("[Schedule dev-1]")).collect();
    assert_eq!(by_schedule, [&("system".to_owned(), "[Schedule dev-1]\nLook around".to_owned())]);
    home.flock(["schedule", "run", "two-hourly"]).ok();
    wait_until("the task is completed", LIMIT, || {
        let rows = history(&home, "two-hourly");
        if rows[0]["taskState"] == "completed" {
            Ok(())
        } else {
            Err(format!("{rows:?}\n{}", log_text(&home)))
        }
    });
    let rows = home.flock(["schedule", "history", "two-hourly"]).ok();
    assert!(rows.stdout.contains("person") && rows.stdout.contains("completed"), "{rows:?}");
    let changed = home.flock(["schedule", "budget", "dev-1", "--tokens", "5000", "--usd", "2.5"]).ok();
    assert!(changed.stdout.contains("may use 5000 tokens and $2.50 in a day"), "{changed:?}");
    let changed = home.flock(["schedule", "budget", "dev-1", "--tokens", "none", "--json"]).ok().json();
    assert_eq!(
        (&changed["schedule"]["tokens"], &changed["schedule"]["costMicros"]),
        (&Value::Null, &json!(2_500_000))
    );
    let changed = home.flock(["schedule", "budget", "dev-1", "--usd", "none"]).ok();
    assert!(changed.stdout.contains("no budget of its own"), "{changed:?}");
    for wrong in [vec!["dev-1"], vec!["dev-1", "--usd", "0"], vec!["dev-1", "--tokens", "many"]] {
        home.flock([&["schedule", "budget"][..], &wrong].concat()).fails(2);
    }
    home.flock(["schedule", "budget", "nothing", "--tokens", "1"]).fails(1);
    home.flock(["schedule", "remove", "dev-1"]).ok();
    let gone = home.flock(["schedule", "show", "dev-1"]).fails(1);
    assert!(gone.stderr.contains("flock schedule list"), "{gone:?}");
    let audited = home.flock(["audit", "--json"]).ok().stdout;
    for action in [
        "schedule.add",
        "schedule.pause",
        "schedule.resume",
        "schedule.run",
        "schedule.budget",
        "schedule.remove",
    ] {
        assert!(audited.contains(action), "{action}: {audited}");
    }
}

#[test]
fn a_running_gateway_runs_a_new_schedule_at_its_time_and_after_its_event() {
    let home = home();
    let _served = Served::start(&home);
    home.flock(["schedule", "add", "dev", "--after", "task.completed", "A task is done"]).ok();
    home.flock(["schedule", "add", "@ada", "--at", &soon(1500), "--name", "once", "Look around"]).ok();
    let done = wait_until("it is done", LIMIT, || {
        let shown = home.flock(["schedule", "show", "once", "--json"]).ok().json()["schedule"].clone();
        if shown["state"] == "done" { Ok(shown) } else { Err(format!("{shown}\n{}", log_text(&home))) }
    });
    assert_eq!((&done["last"]["outcome"], &done["nextAt"]), (&json!("ran"), &Value::Null));
    wait_until("its task is completed", LIMIT, || {
        let rows = history(&home, "once");
        if rows[0]["taskState"] == "completed" { Ok(()) } else { Err(format!("{rows:?}")) }
    });
    // The task of a schedule is no event for another one.
    assert!(history(&home, "dev-1").is_empty());
    home.flock(["channel", "create", "old", "--topic", "x", "--member", "human:ann"]).ok();
    home.flock([
        "schedule",
        "add",
        "dev",
        "--after",
        "channel.archived",
        "--name",
        "tidy",
        "A channel is archived",
    ])
    .ok();
    home.flock(["channel", "archive", "old", "--force"]).ok();
    until_said(&home, "dev", "system", "A channel is archived");
    assert_eq!(history(&home, "tidy")[0]["cause"], "event");
}

#[test]
fn an_agent_asks_for_a_schedule_and_doctor_finds_one_that_can_not_run() {
    let home = TempHome::new().init();
    let ask = json!({"action": "request", "when": "2h", "text": "look again"});
    let replies = json!([
        {"when": "plan it", "steps": [{"calls": [{"name": "flock_schedule", "arguments": ask}]}, {"say": "planned"}]},
        {"steps": [{"say": "fine"}]},
    ]);
    add(&home, "ada", &replies);
    home.flock(["channel", "create", "dev", "--topic", "x", "--member", "ada"]).ok();
    home.flock(["schedule", "add", "#dev", "@daily", "x"]).ok();
    let _served = Served::start(&home);
    home.flock(["chat", "ada", "plan it"]).ok();
    let listed = home.flock(["schedule", "list", "--json"]).ok().json();
    let own =
        listed["schedules"].as_array().unwrap().iter().find(|one| one["createdBy"] == "ada").unwrap().clone();
    assert_eq!((&own["agent"], &own["everyMinutes"]), (&json!("ada"), &json!(120)));
    let asked = home.flock(["approvals", "list", "--all", "--json"]).ok().stdout;
    assert!(asked.contains("\"schedule\"") && asked.contains("YELLOW"), "{asked}");
    let status = home.flock(["status", "--json"]).ok().json();
    assert_eq!((&status["schedules"]["active"], &status["schedules"]["failing"]), (&json!(2), &json!([])));
    assert!(home.flock(["status"]).ok().stdout.contains("2 active, 0 paused, next "));
    home.flock(["channel", "archive", "dev", "--force"]).ok();
    let paused = wait_until("it is paused", LIMIT, || {
        let shown = home.flock(["schedule", "show", "dev-1", "--json"]).ok().json()["schedule"].clone();
        if shown["state"] == "paused" { Ok(shown) } else { Err(format!("{shown}\n{}", log_text(&home))) }
    });
    assert_eq!(paused["why"], "#dev is archived");
    let checks = home.flock(["doctor", "--json"]).json();
    let found = checks["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "schedules")
        .unwrap()
        .clone();
    assert!(found.to_string().contains("flock schedule remove dev-1"), "{found}");
    assert_eq!(home.flock(["status", "--json"]).ok().json()["schedules"]["failing"], json!(["dev-1"]));
    // Without its agent a schedule waits for a person.
    home.flock(["remove", "ada", "--yes"]).ok();
    wait_until("it is paused", LIMIT, || {
        let shown = home.flock(["schedule", "show", "ada-1", "--json"]).ok().json()["schedule"].clone();
        if shown["why"] == "there is no agent ada" {
            Ok(())
        } else {
            Err(format!("{shown}\n{}", log_text(&home)))
        }
    });
}

#[test]
fn a_slot_that_passes_while_the_gateway_is_killed_runs_once() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("FLOCK_TEST_SCHEDULE_KILLS").unwrap_or(8);
    let seed = number("FLOCK_TEST_SEED").unwrap_or_else(|| u64::from(rand::random::<u16>()));
    let mut random = StdRng::seed_from_u64(seed);
    let home = home();
    // Nobody has to answer: what counts is what is said.
    home.flock(["channel", "create", "quiet", "--topic", "x", "--member", "human:ann"]).ok();
    let mut names = Vec::new();
    for round in 0..kills {
        let served = Served::start(&home);
        for number in 0..4 {
            let name = format!("s{round}-{number}");
            let at = soon(random.random_range(50..1500));
            let args = ["schedule", "add", "quiet", "--at", &at, "--name", &name, "x"];
            // The time may have passed when a slow machine comes to it.
            if home.flock(args).code == 0 {
                names.push(name);
            }
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..1200)));
        served.kill();
        // The home has room for 200 schedules.
        if names.len() % 100 > 90 || round + 1 == kills {
            let _served = Served::start(&home);
            settle(&home, &mut names, seed);
        }
    }
}

/// Waits until all these schedules are done, and compares what was said with them.
fn settle(home: &TempHome, names: &mut Vec<String>, seed: u64) {
    wait_until("all schedules are done", LIMIT, || {
        let listed = home.flock(["schedule", "list", "--json"]).ok().json();
        let open =
            listed["schedules"].as_array().unwrap().iter().filter(|one| one["state"] != "done").count();
        if open == 0 { Ok(()) } else { Err(format!("{listed}\n{}", log_text(home))) }
    });
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    for (author, text) in said(home, "quiet") {
        if let Some((name, _)) = text.strip_prefix("[Schedule ").and_then(|rest| rest.split_once([']', ',']))
        {
            assert_eq!(author, "system");
            *count.entry(name.to_owned()).or_default() += 1;
        }
    }
    for name in names.drain(..) {
        assert_eq!(count.get(&name), Some(&1), "seed {seed}: {name} was not said once: {count:?}");
        let rows = history(home, &name);
        assert!(rows.len() == 1 && rows[0]["outcome"] == "ran", "seed {seed}: {name}: {rows:?}");
        home.flock(["schedule", "remove", &name]).ok();
    }
}
