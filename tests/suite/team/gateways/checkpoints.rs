//! Checkpoints of agents that another gateway has taken over. Each home has packages of its own.

use serde_json::{Value, json};

use super::{AGENTS, LIMIT, Pair, quiet_home};
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::checkpoints::record_profile;

/// Makes a checkpoint by the gateway of a home. Returns its number and that of the package profile.
fn made(home: &TempHome, agent: &str) -> (String, Value) {
    let made = home.flock(["checkpoint", agent, "--json"]).ok().json();
    (made["checkpoint"]["number"].to_string(), made["checkpoint"]["packages"].clone())
}

/// Returns how a rewind would change the packages, and if it leaves those of another home.
fn planned(home: &TempHome, agent: &str, checkpoint: &str) -> (Value, Value) {
    let plan = home.flock(["rewind", agent, "--turn", checkpoint, "--dry-run", "--json"]).ok().json();
    (plan["rewind"]["packages"].clone(), plan["rewind"]["packagesElsewhere"].clone())
}

#[test]
fn the_packages_of_a_checkpoint_are_those_of_the_home_that_made_it() {
    let Some(first) = quiet_home() else { return };
    let pair = Pair::of(first, |_| ());
    for agent in AGENTS {
        record_profile(&pair.first, agent, 3);
        record_profile(&pair.second, agent, 1);
    }
    let (_first, second) = pair.start();
    let agent = AGENTS.into_iter().find(|agent| pair.has(&pair.second, agent)).unwrap();
    let (theirs, profile) = made(&pair.first, agent);
    assert_eq!(profile, 1, "the gateway that has the agent made it\n{}", pair.logs());
    assert_eq!(planned(&pair.first, agent, &theirs), (json!(null), json!(false)));
    second.stop();
    wait_until("the first gateway has the agent", LIMIT, || {
        pair.has(&pair.first, agent).then_some(()).ok_or_else(|| pair.logs())
    });
    assert_eq!(planned(&pair.first, agent, &theirs), (json!(null), json!(true)), "{}", pair.logs());
    let listed = pair.first.flock(["checkpoints", agent, "--json"]).ok().json();
    assert_eq!(listed["checkpoints"][0]["packages"], json!(null), "{listed}");
    let (ours, profile) = made(&pair.first, agent);
    assert_eq!(profile, 3);
    assert_eq!(planned(&pair.first, agent, &ours), (json!(null), json!(false)));
    let shown = pair.first.flock(["rewind", agent, "--turn", &theirs, "--yes"]).ok();
    assert!(shown.stderr.contains("the packages stay as they are"), "{shown:?}");
}
