//! `flock freeze --all` on a team at work.

use std::time::Duration;

use serde_json::json;

use crate::support::docker::docker;
use crate::support::home::TempHome;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(90);

#[test]
fn a_team_at_work_stands_still_over_a_restart_and_goes_on_when_thawed() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let exec = |command: &str| json!({"calls": [{"name": "exec", "arguments": {"command": command}}]});
    let replies = json!({"replies": [
        {"when": "go", "steps": [
            exec("touch begun"),
            // Frozen meanwhile: the next step is not begun.
            {"delay_ms": 4000, "calls": [{"name": "exec", "arguments": {"command": "touch after"}}]},
            {"say": "finished"},
        ]},
        {"steps": [{"say": ""}]},
    ]});
    std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
    home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    home.flock(["add", "coder"]).ok();
    home.flock(["add", "other"]).ok();
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    home.flock(["start", "-q"]).ok();
    home.flock(["channel", "post", "work", "@coder go"]).ok();
    let workspace = home.file("workspaces/coder");
    let there = |name: &str| workspace.join(name).exists();
    wait_until("the turn has begun", LIMIT, || there("begun").then_some(()).ok_or_else(String::new));
    home.flock(["freeze", "--all"]).ok();
    let state = |agent: &str| docker(&["inspect", "-f", "{{.State.Status}}", &home.container(agent)]);
    assert_eq!((state("coder").as_str(), state("other").as_str()), ("paused", "paused"));
    assert!(!there("after"));

    home.flock(["restart", "-q"]).ok();
    let listed = home.flock(["list", "--json"]).ok().json();
    assert!(listed["agents"].as_array().unwrap().iter().all(|agent| !agent["frozen"].is_null()), "{listed}");
    assert_ne!(state("coder"), "running");
    home.flock(["channel", "post", "work", "@coder go"]).ok();
    assert!(!there("after"), "nothing was done while it was frozen");
    let said = || home.flock(["channel", "read", "work", "--json"]).ok().json();
    assert!(!said().to_string().contains("finished"));

    home.flock(["thaw", "--all"]).ok();
    wait_until("the turn comes to its end", LIMIT, || {
        let all = said().to_string();
        if there("after") && all.contains("finished") { Ok(()) } else { Err(all) }
    });
    home.flock(["stop", "-q"]).ok();
}
