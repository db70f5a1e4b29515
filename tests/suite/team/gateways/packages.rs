//! Packages of agents that another gateway has taken over: it installs them in its own store, or says what a person can do.

use serde_json::json;

use super::{AGENTS, LIMIT, Pair, quiet_home};
use crate::docker::store::flake;
use crate::support::home::TempHome;
use crate::support::{postgres, wait_until};
use crate::team::stage::add;

/// The details of the audit about packages that followed an agent, the newest first.
fn followed(home: &TempHome, agent: &str) -> Vec<String> {
    let audit = home.flock(["audit", "--json"]).ok().json();
    let rows = audit["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["action"] == "packages.follow" && row["subject"] == agent);
    rows.map(|row| row["detail"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn packages_follow_an_agent_to_the_gateway_that_takes_it_over() {
    if postgres::server().is_none() {
        return;
    }
    let Some(first) = TempHome::init_in_docker() else { return };
    let source = format!("path:{}", flake(&first.outside()).display());
    first.flock(["config", "set", "plugins.entries.flock.config.nix.flake", &source]).ok();
    for agent in AGENTS {
        add(&first, agent, &json!([{"steps": [{"say": ""}]}]));
        first.flock(["nix", "install", agent, "greet"]).ok();
    }
    let pair = Pair::of(first, |_| ());
    let (_first, second) = pair.start();
    let agent = AGENTS.into_iter().find(|agent| pair.has(&pair.second, agent)).unwrap();
    wait_until("its packages are in the store of the second home", LIMIT * 4, || {
        let listed = pair.second.flock(["nix", "list", agent, "--json"]);
        let is_there = listed.stdout.contains("\"greet\"");
        is_there.then_some(()).ok_or_else(|| format!("{listed:?}\n{}", pair.logs()))
    });
    wait_until("that is in the audit", LIMIT, || {
        let rows = followed(&pair.first, agent);
        let is_there = rows == ["greet after a takeover"];
        is_there.then_some(()).ok_or_else(|| format!("{rows:?}\n{}", pair.logs()))
    });
    let status = pair.second.flock(["status"]).ok();
    assert!(!status.stderr.contains(&format!("packages of {agent} are not")), "{status:?}");
    // Where they are already, nothing is installed again.
    second.stop();
    wait_until("the first gateway has the agent", LIMIT, || {
        pair.has(&pair.first, agent).then_some(()).ok_or_else(|| pair.logs())
    });
    assert_eq!(followed(&pair.first, agent).len(), 1);
}

#[test]
fn packages_that_can_not_be_installed_after_a_takeover_are_named_with_the_command() {
    let Some(first) = quiet_home() else { return };
    let pair = Pair::of(first, |_| ());
    for agent in AGENTS {
        let list = json!({"wanted": ["jq", "github:a/b#tree"]}).to_string();
        std::fs::write(pair.first.file(format!("agents/{agent}/packages.json")), list).unwrap();
    }
    let (_first, second) = pair.start();
    for agent in AGENTS {
        wait_until("the failure is in the audit", LIMIT, || {
            let rows = followed(&pair.first, agent);
            let is_there = rows.iter().any(|row| row.starts_with("jq after a takeover: failed: "));
            is_there.then_some(()).ok_or_else(|| format!("{agent}: {rows:?}\n{}", pair.logs()))
        });
    }
    let agent = AGENTS.into_iter().find(|agent| pair.has(&pair.second, agent)).unwrap();
    let warned = |home: &TempHome| {
        let status = home.flock(["status"]);
        let command = format!("to mend it: flock nix install {agent} jq");
        status.stderr.contains(&command).then_some(()).ok_or_else(|| format!("{status:?}\n{}", pair.logs()))
    };
    wait_until("the second gateway names them", LIMIT, || warned(&pair.second));
    second.stop();
    wait_until("the first gateway names them", LIMIT, || warned(&pair.first));
}
