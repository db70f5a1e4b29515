//! The schedules of two gateways: one of them runs what is due, and the other one goes on when that one is gone.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{LIMIT, Pair, quiet_home};
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::schedules::history;
use crate::team::stage::{Served, said};

/// Adds a schedule of the channel `open` for a time in so many milliseconds.
fn add_due(home: &TempHome, name: &str, millis: i64) {
    wait_until(&format!("the schedule {name} is added"), LIMIT, || {
        let at = Timestamp::now().checked_add(SignedDuration::from_millis(millis)).unwrap().to_string();
        // The time may have passed when a slow machine comes to it.
        let run = home.flock(["schedule", "add", "open", "--at", &at, "--name", name, "look"]);
        (run.code == 0).then_some(()).ok_or_else(|| format!("{run:?}"))
    });
}

fn until_ran(pair: &Pair, name: &str) {
    wait_until(&format!("the schedule {name} runs"), LIMIT, || {
        let rows = history(&pair.second, name);
        (!rows.is_empty()).then_some(()).ok_or_else(|| pair.logs())
    });
}

#[test]
fn one_gateway_runs_what_is_due_and_after_its_death_another_one_runs_each_time_once() {
    let Some(first) = quiet_home() else { return };
    let pair = Pair::of(first, |_| ());
    let (first, _second) = pair.start_with("clock", "");
    add_due(&pair.first, "before", 1000);
    until_ran(&pair, "before");
    // The gateway dies while these are due, or before.
    let due = ["one", "two", "three"];
    for name in due {
        add_due(&pair.first, name, 1500);
    }
    first.kill();
    // This time passes while the dead gateway still has the lease. The other one knows of it, and has to wait.
    add_due(&pair.second, "meanwhile", 500);
    until_ran(&pair, "meanwhile");
    assert!(pair.holds(&pair.second, "clock", ""), "it ran without the lease\n{}", pair.logs());
    for name in due {
        until_ran(&pair, name);
    }
    // The one that comes back runs none of them again, and leaves what follows to the other one.
    let _first = Served::start(&pair.first);
    add_due(&pair.second, "after", 1000);
    until_ran(&pair, "after");
    assert!(pair.holds(&pair.second, "clock", ""), "{}", pair.logs());

    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    for (_, text) in said(&pair.second, "open") {
        // One that is very late says so after the name.
        let name = text.strip_prefix("[Schedule ").and_then(|rest| rest.split_once([']', ',']));
        if let Some((name, _)) = name {
            *given.entry(name.to_owned()).or_default() += 1;
        }
    }
    let all = ["before", "one", "two", "three", "meanwhile", "after"];
    let once: BTreeMap<String, usize> = all.iter().map(|&name| (name.to_owned(), 1)).collect();
    assert_eq!(given, once, "{}", pair.logs());
    for name in all {
        let rows = history(&pair.second, name);
        assert!(rows.len() == 1 && rows[0]["outcome"] == "ran", "{name}: {rows:?}\n{}", pair.logs());
    }
    pair.second.flock(["audit", "--verify"]).ok();
}
