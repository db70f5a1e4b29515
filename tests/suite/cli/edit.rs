//! `flock edit`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::docker::block_on;
use crate::support::home::TempHome;

/// What the configuration says of an agent in flock's own block.
fn told(home: &TempHome, id: &str) -> Value {
    let all = home.config()["plugins"]["entries"]["flock"]["config"]["gatewayAgents"].clone();
    all.as_array().unwrap().iter().find(|agent| agent["id"] == id).unwrap().clone()
}

fn with_coder() -> TempHome {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    home
}

#[test]
fn a_change_is_shown_written_once_and_audited() {
    let home = with_coder();
    home.flock(["channel", "create", "dev", "--topic", "x"]).ok();
    let line = [
        "edit",
        "coder",
        "--model",
        "script/other",
        "--memory",
        "2g",
        "--budget-tokens",
        "1000",
        "--cpus",
        "2",
    ];
    let run = home.flock(line).ok();
    for text in [
        "model          default → script/other",
        "memory         default → 2g",
        "budget-tokens  default → 1000",
    ] {
        assert!(run.stdout.contains(text), "{text}: {run:?}");
    }
    assert!(run.stderr.contains("changed coder"), "{run:?}");
    let config = home.config();
    let listed =
        config["agents"]["list"].as_array().unwrap().iter().find(|agent| agent["id"] == "coder").unwrap();
    assert_eq!(listed["model"]["primary"], "script/other");
    assert_eq!(listed["sandbox"]["docker"]["memory"], "2g");
    let budgets = &config["plugins"]["entries"]["flock"]["config"]["budgets"]["agent"];
    assert_eq!(budgets["coder"], json!({"tokens": 1000}));
    let audited = || home.flock(["audit", "--json"]).ok().stdout.matches("agent.edit").count();
    assert_eq!(audited(), 1);
    assert!(home.flock(["audit", "--json"]).ok().stdout.contains("memory: default -> 2g"));

    let (before, count) = (home.config_text(), std::fs::read_dir(home.file("backups")).unwrap().count());
    let again = home.flock(line).ok();
    assert!(again.stdout.starts_with("nothing to change"), "{again:?}");
    assert_eq!(home.config_text(), before);
    assert_eq!(std::fs::read_dir(home.file("backups")).unwrap().count(), count);
    assert_eq!(audited(), 1);
    home.flock(["config", "validate"]).ok();
}

#[test]
fn programs_get_the_changes_and_a_dry_run_writes_nothing() {
    let home = with_coder();
    let before = home.config_text();
    let dry = home.flock(["edit", "coder", "--effort", "high", "--dry-run", "--json"]).ok().json();
    assert_eq!(dry["changed"], false);
    assert_eq!(dry["changes"], json!([{"setting": "effort", "before": null, "after": "high"}]));
    let dry = home.flock(["edit", "coder", "--effort", "high", "--dry-run"]).ok();
    assert!(dry.stdout.contains("effort  default → high") && dry.stderr.contains("--dry-run"), "{dry:?}");
    assert_eq!(home.config_text(), before);
    let done =
        home.flock(["edit", "coder", "--effort", "high", "--role", "orchestrator", "--json"]).ok().json();
    assert_eq!((&done["changed"], &done["agent"]["role"]), (&json!(true), &json!("orchestrator")));
    let same = home.flock(["edit", "coder", "--effort", "high", "--json"]).ok().json();
    assert_eq!((&same["changed"], &same["changes"]), (&json!(false), &json!([])));
    home.flock(["edit", "coder", "--effort", "default"]).ok();
    assert_eq!(told(&home, "coder")["effort"], Value::Null);
}

#[test]
fn the_soul_follows_the_archetype_unless_somebody_edited_it() {
    let home = with_coder();
    let soul = home.file("agents/coder/identity/SOUL.md");
    let text = || std::fs::read_to_string(&soul).unwrap();
    home.flock(["edit", "coder", "--archetype", "qa"]).ok();
    assert!(text().contains("# QA"), "{}", text());
    assert_eq!(told(&home, "coder")["archetype"], "qa");
    std::fs::write(&soul, "kind").unwrap();
    let run = home.flock(["edit", "coder", "--archetype", "ideation"]).ok();
    assert!(run.stderr.contains("SOUL.md was edited, so it stays as it is"), "{run:?}");
    assert_eq!((text().as_str(), &told(&home, "coder")["archetype"]), ("kind", &json!("ideation")));
    let json = home.flock(["edit", "coder", "--archetype", "none", "--json"]).ok().json();
    assert_eq!(json["kept"], json!([soul]));
    let run = home.flock(["edit", "coder", "--archetype", "nobody"]).fails(2);
    assert!(run.stderr.contains("there is no archetype nobody"), "{run:?}");
}

#[test]
fn what_is_not_changed_here_is_refused_with_the_command_that_does_it() {
    let home = with_coder();
    let before = home.config_text();
    for (line, hint) in [
        (&["edit", "coder", "--id", "dev"][..], "flock rename coder dev"),
        (&["edit", "coder", "--workspace", "/w"], "flock config set agents.list[coder].workspace /w"),
        (&["edit", "coder", "--packages", "jq,curl"], "flock nix install coder jq curl"),
        (&["edit", "coder"], "flock edit --help"),
        (&["edit", "coder", "--on-host"], "--runtime"),
        (&["edit", "coder", "--role", "sysadmin", "--memory", "1g"], "flock edit coder --role worker"),
        (&["edit", "coder", "--network", "none", "--egress", "example.org"], "flock edit --help"),
        (&["edit", "coder", "--memory", "1"], "--memory"),
        (&["edit", "coder", "--effort", "most"], "--effort"),
    ] {
        let run = home.flock(line).fails(2);
        assert!(run.stderr.contains(hint), "{line:?}: {run:?}");
    }
    let run = home.flock(["edit", "nobody", "--effort", "high"]).fails(1);
    assert!(run.stderr.contains("there is no agent nobody") && run.stderr.contains("flock list"), "{run:?}");
    assert_eq!(home.config_text(), before);
}

#[test]
fn an_interrupted_removal_comes_first() {
    let home = with_coder();
    let place = flock::home::Home::new(home.path(), None);
    super::killed::half_removed(&place, "coder");
    let run = home.flock(["edit", "coder", "--effort", "high"]).fails(5);
    assert!(run.stderr.contains("flock remove coder --purge"), "{run:?}");
}

#[test]
fn a_running_gateway_has_the_new_settings_at_once() {
    let home = with_coder();
    home.flock(["start"]).ok();
    home.flock(["edit", "coder", "--role", "sysadmin", "--model", "script/other"]).ok();
    let said: Value = block_on(home.owner().get_json("/api/agents", Duration::from_secs(10))).unwrap();
    let coder = said["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "coder").unwrap();
    assert_eq!((&coder["role"], &coder["sandbox"]), (&json!("sysadmin"), &json!("off")), "{said:#}");
    assert_eq!(coder["model"], "script/other");
    let tools = std::fs::read_to_string(home.file("agents/coder/identity/TOOLS.md")).unwrap();
    assert!(tools.contains("On the owner's machine itself"), "{tools}");
    assert!(home.flock(["audit", "--json"]).ok().stdout.contains("role: worker -> sysadmin"));
}
