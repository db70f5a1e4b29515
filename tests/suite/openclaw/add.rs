//! `flock add --runtime openclaw`, and the configuration that OpenClaw is started on.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::openclaw::{Era, Upstream};

const ADD: [&str; 6] = ["add", "coder", "--runtime", "openclaw", "--no-container", "--yes"];

/// A home with OpenClaw, and a model that it can ask.
fn installed(era: Era) -> (TempHome, Upstream) {
    let upstream = Upstream::built(era);
    let home = TempHome::new();
    let line = ["init", "--yes", "--no-images", "--model", "lab/x", "--gateway", "openclaw"];
    home.flock(line.into_iter().chain(["--repo", &upstream.path(), "--ref", "main"])).ok();
    home.database();
    let lab = json!({"lab": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "secret:lab"}});
    home.flock(["config", "set", "models.providers", &lab.to_string()]).ok();
    std::fs::write(home.file("secrets/lab"), "planted-key").unwrap();
    (home, upstream)
}

fn derived(home: &TempHome) -> Value {
    serde_json::from_slice(&std::fs::read(home.file("gateways/openclaw/openclaw.json")).unwrap()).unwrap()
}

#[test]
fn without_openclaw_an_agent_is_told_how_to_get_it_and_nothing_is_written() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let told = home.flock(ADD).fails(1);
    assert!(
        told.stderr.contains("not installed") && told.stderr.contains("flock init --gateway openclaw"),
        "{told:?}"
    );
    assert_eq!(home.config_text(), before);
    assert!(!home.file("workspaces/coder").exists());
}

#[test]
fn an_agent_is_in_the_configuration_that_the_installed_version_took() {
    for era in [Era::Old, Era::New] {
        let (home, _upstream) = installed(era);
        home.flock(ADD).ok();
        let derived = derived(&home);
        let agent = match era {
            Era::Old => derived["agents"]["list"][0].clone(),
            Era::New => derived["agents"]["entries"]["coder"].clone(),
        };
        assert_eq!(agent["model"]["primary"], "lab/x");
        assert_eq!(agent["sandbox"]["docker"]["network"], "none");
        let text = derived.to_string();
        assert!(!text.contains("planted-key") && !text.contains("orchestrator"), "{text}");
        let file = home.file("gateways/openclaw/openclaw.json");
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        let port = home.flock(["config", "get", "gateway.port"]).ok().stdout;
        assert_eq!(derived["gateway"]["port"].to_string(), port.trim());
        assert!(home.file("extensions/hooks/flock-identity/HOOK.md").is_file());
    }
}

#[test]
fn what_could_not_run_is_refused_before_anything_is_written() {
    let (home, _upstream) = installed(Era::New);
    let before = home.config_text();
    for (more, code, said) in [
        (&["--model", "script/demo"][..], 1, "script/demo"),
        (&["--model", "nobody/knows"], 1, "base URL"),
        (&["--model", "anthropic/claude-opus-4-5"], 1, "has no key"),
        (&["--network", "proxy"], 2, "no network"),
        (&["--egress", "example.org"], 2, "no network"),
    ] {
        let told = home.flock(ADD.iter().chain(more).copied()).fails(code);
        assert!(told.stderr.contains(said) && told.stderr.contains("hint: "), "{more:?}: {told:?}");
    }
    home.flock(["config", "set", "agents.defaults.sandbox.docker.network", "host"]).ok();
    let told = home.flock(ADD).fails(1);
    assert!(told.stderr.contains("\"host\""), "{told:?}");
    home.flock(["config", "unset", "agents.defaults.sandbox.docker.network"]).ok();
    assert_eq!(home.config_text(), before);
    assert!(!home.file("gateways/openclaw/openclaw.json").exists());
    assert!(!home.file("workspaces/coder").exists());
}

#[test]
fn doctor_and_validate_name_what_stands_in_the_way_and_what_is_not_handed_over() {
    let (home, _upstream) = installed(Era::Old);
    home.flock(ADD).ok();
    home.flock(["config", "set", "channels", "{\"telegram\": {}}"]).ok();
    let told = home.flock(["config", "validate"]).ok();
    assert!(told.stderr.contains("OpenClaw 2026.2.9 does not get these settings: channels"), "{told:?}");
    assert!(told.stderr.contains("flock config unset channels"), "{told:?}");
    std::fs::remove_file(home.file("secrets/lab")).unwrap();
    let checks: Value = serde_json::from_str(&home.flock(["doctor", "--json"]).stdout).unwrap();
    let found =
        checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "openclaw").unwrap();
    assert_eq!(found["state"], "bad");
    assert!(found["message"].as_str().unwrap().contains("lab"), "{found}");
    std::fs::remove_file(home.file("openclaw")).unwrap();
    let told = home.flock(["config", "validate"]).ok();
    assert!(told.stderr.contains("flock init --gateway openclaw"), "{told:?}");
}
