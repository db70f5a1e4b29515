//! `flock doctor`: each thing that can be broken is found and has its mend.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::session::{session, snapshot};
use crate::support::home::{Run, TempHome};

/// The check of this name that is not ok; the first one of the name otherwise.
#[track_caller]
fn check(run: &Run, name: &str) -> Value {
    let report = run.json();
    let named: Vec<&Value> =
        report["checks"].as_array().unwrap().iter().filter(|check| check["name"] == name).collect();
    let found = named.iter().find(|check| check["state"] != "ok").or(named.first());
    (*found.unwrap_or_else(|| panic!("{name}: {report:#}"))).clone()
}

#[test]
fn what_is_broken_is_named_with_its_mend() {
    let home = TempHome::new().init();
    let run = home.flock(["doctor", "--json"]).fails(1);
    assert_eq!(run.json()["ok"], false);
    let engine = check(&run, "engine");
    assert_eq!(engine["state"], "bad", "{run:?}");
    assert!(engine["mend"].as_str().unwrap().contains("docker"), "{engine}");
    for name in ["home", "config", "model", "gateway"] {
        assert_eq!(check(&run, name)["state"], "ok", "{name}: {run:?}");
    }
    let text = home.flock(["doctor"]).fails(1);
    assert!(
        text.stdout.contains("bad   engine") && text.stdout.contains("systemctl start docker"),
        "{text:?}"
    );
    snapshot!("doctor", session(&home, &["doctor --help"]));
}

#[test]
fn a_home_that_is_not_there_is_found() {
    let run = TempHome::new().flock(["doctor", "--json"]).fails(1);
    assert_eq!(check(&run, "home")["mend"], "flock init");
}

#[test]
fn permissions_config_and_keys_are_looked_at() {
    let home = TempHome::new().init();
    std::fs::set_permissions(home.file("secrets"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(home.file("config.json"), std::fs::Permissions::from_mode(0o644)).unwrap();
    home.flock(["config", "set", "agents.list[sysadmin].model.primary", "anthropic/claude-opus-4-5"]).ok();
    std::fs::set_permissions(home.file("config.json"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let run = home.flock(["doctor", "--json"]).fails(1);
    assert!(check(&run, "home")["mend"].as_str().unwrap().starts_with("chmod 700 "), "{run:?}");
    assert!(check(&run, "config")["mend"].as_str().unwrap().starts_with("chmod 600 "), "{run:?}");
    let model = check(&run, "model");
    assert_eq!(model["mend"], "flock config set models.providers.anthropic.apiKey -");
    std::fs::write(home.file("config.json"), "{").unwrap();
    let run = home.flock(["doctor", "--json"]).fails(1);
    assert!(check(&run, "config")["message"].as_str().unwrap().contains("line 1"), "{run:?}");
}

#[test]
fn a_port_that_another_program_has_is_found() {
    let home = TempHome::new().init();
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = other.local_addr().unwrap().port();
    home.flock(["config", "set", "plugins.entries.flock.config.gateway.port", &port.to_string()]).ok();
    // It accepts and closes, as a program that speaks something else does.
    std::thread::spawn(move || while other.accept().is_ok() {});
    let run = home.flock(["doctor", "--json"]).fails(1);
    let gateway = check(&run, "gateway");
    assert_eq!(gateway["state"], "bad", "{gateway}");
    assert!(gateway["mend"].as_str().is_some(), "{gateway}");
}

#[test]
fn a_setting_that_nothing_reads_yet_is_named_with_what_takes_it_out() {
    let home = TempHome::new().init();
    let path = "plugins.entries.flock.config.gatewayAgents[orchestrator].onHost";
    home.flock(["config", "set", path, "true"]).ok();
    let run = home.flock(["doctor", "--json"]);
    let found = check(&run, "config");
    assert_eq!(found["state"], "warn", "{found}");
    assert_eq!(
        found["message"],
        format!("{path} is set but has no effect: only agent programs run on the host")
    );
    assert_eq!(found["mend"], format!("flock config unset {path}"));
    home.flock(["config", "unset", path]).ok();
    assert_eq!(check(&home.flock(["doctor", "--json"]), "config")["state"], "ok");
}

#[test]
fn a_granted_folder_that_is_gone_is_named_with_what_takes_it_back() {
    let home = TempHome::new().init();
    let host = tempfile::Builder::new().prefix("flock-test-").tempdir_in("/var/tmp").unwrap();
    let root = host.path().canonicalize().unwrap();
    let roots = serde_json::json!([root]).to_string();
    home.flock(["config", "set", "plugins.entries.flock.config.mountRoots", &roots]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    for name in ["here", "gone"] {
        std::fs::create_dir(root.join(name)).unwrap();
        crate::team::approvals::has_mount(&home, &format!("r-{name}"), "coder", &root.join(name));
    }
    std::fs::remove_dir(root.join("gone")).unwrap();
    let run = home.flock(["doctor", "--json"]).fails(1);
    let found = check(&run, "mounts");
    assert_eq!(
        (found["state"].as_str(), found["mend"].as_str()),
        (Some("bad"), Some("flock approvals revoke r-gone"))
    );
    let message = found["message"].as_str().unwrap();
    assert!(
        message.starts_with("coder can run no command") && message.contains("it is not there"),
        "{message}"
    );
    home.flock(["approvals", "revoke", "r-gone"]).ok();
    let found = check(&home.flock(["doctor", "--json"]), "mounts");
    assert_eq!(found["message"], "1 granted folders can be mounted");
}
