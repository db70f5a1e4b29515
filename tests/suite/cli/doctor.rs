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
fn a_key_that_can_not_sign_receipts_is_found() {
    let home = TempHome::new().init();
    home.flock(["receipt", "key"]).ok();
    std::fs::write(home.file("secrets/receipt-key"), "no key").unwrap();
    let found = check(&home.flock(["doctor", "--json"]).fails(1), "receipt");
    assert_eq!(found["state"], "bad", "{found}");
    assert!(found["mend"].as_str().unwrap().contains("flock receipt key"), "{found}");
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
fn an_approver_without_an_account_is_named_once_there_is_a_bridge() {
    let home = TempHome::new().init();
    let own = "plugins.entries.flock.config";
    home.flock(["config", "set", &format!("{own}.approvers"), r#"["human:ben"]"#]).ok();
    let names = |run: &Run| run.json()["checks"].to_string().contains("approvers");
    assert!(!names(&home.flock(["doctor", "--json"])));
    let bridge = r#"{"platform": "matrix", "homeserver": "http://127.0.0.1:1"}"#;
    home.flock(["config", "set", &format!("{own}.bridges.matrix"), bridge]).ok();
    let found = check(&home.flock(["doctor", "--json"]), "approvers");
    assert_eq!(found["state"], "warn", "{found}");
    assert!(found["message"].as_str().unwrap().contains("human:ben"), "{found}");
    assert_eq!(found["mend"], "flock person link NAME BRIDGE:ACCOUNT");
    home.flock(["config", "set", &format!("{own}.approvals.bridges"), "false"]).ok();
    assert!(!names(&home.flock(["doctor", "--json"])));
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

#[test]
fn a_file_of_a_workspace_that_is_not_read_is_named() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let found = home.file("workspaces/coder/AGENTS.md");
    std::fs::write(&found, "Answer in verse.").unwrap();
    let run = home.flock(["doctor", "--json"]).fails(1);
    let check = check(&run, "identity");
    let read = home.file("agents/coder/identity/AGENTS.md");
    assert_eq!(check["state"], "warn");
    assert_eq!(check["mend"], format!("cp {} {}", found.display(), read.display()));
    let status = home.flock(["status"]).fails(4);
    assert!((status.stdout + &status.stderr).contains(&format!("not read: {}", found.display())));
    std::fs::copy(&found, &read).unwrap();
    let run = home.flock(["doctor"]).fails(1);
    assert!(!run.stdout.contains("identity"), "{run:?}");
    // A new agent of the name has the soul that it was added with, unless a person wrote one.
    home.flock(["remove", "coder"]).ok();
    home.flock(["add", "coder", "--no-container", "--archetype", "qa"]).ok();
    let soul = home.file("agents/coder/identity/SOUL.md");
    assert!(std::fs::read_to_string(&soul).unwrap().contains("# QA"));
    std::fs::write(&soul, "kind").unwrap();
    home.flock(["remove", "coder"]).ok();
    let run = home.flock(["add", "coder", "--no-container", "--archetype", "ideation"]).ok();
    assert!(run.stderr.contains("was edited, so it stays"), "{run:?}");
    assert_eq!(std::fs::read_to_string(&soul).unwrap(), "kind");
}

#[test]
fn fix_mends_what_is_safe_and_a_look_changes_nothing() {
    let home = TempHome::new().init();
    let mode = |name: &str, bits: u32| {
        std::fs::set_permissions(home.file(name), std::fs::Permissions::from_mode(bits)).unwrap();
    };
    std::fs::write(home.file("secrets/openai"), "a-key").unwrap();
    mode("secrets/openai", 0o644);
    mode("secrets", 0o755);
    mode("backups", 0o750);
    std::fs::remove_dir(home.file("skills")).unwrap();
    std::fs::remove_dir(home.file("archetypes")).unwrap();
    let draft = home.file("data/.new-999999999-a1b2c3");
    std::fs::write(&draft, "half").unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::options().write(true).open(&draft).unwrap().set_modified(long_ago).unwrap();
    std::fs::write(home.file("run/gateway.pid"), "999999999 5\n").unwrap();
    let bits = |name: &str| std::fs::metadata(home.file(name)).unwrap().permissions().mode() & 0o777;
    let said = [
        "skills",
        "are missing",
        "others can look into",
        "others could read the key in",
        "1 drafts of files",
        "gateway.pid names a process that is gone",
    ];
    let look = home.flock(["doctor"]).fails(1);
    for text in said {
        assert!(look.stdout.contains(text), "{text}: {look:?}");
    }
    assert!(draft.exists() && home.file("run/gateway.pid").exists() && !home.file("skills").exists());
    assert_eq!((bits("secrets"), bits("secrets/openai")), (0o755, 0o644));
    let fixed = home.flock(["doctor", "--fix"]).fails(1);
    for text in ["closed", "made the missing folders", "removed 1 drafts", "removed "] {
        assert!(fixed.stdout.contains(&format!("mended: {text}")), "{text}: {fixed:?}");
    }
    assert!(!draft.exists() && !home.file("run/gateway.pid").exists());
    assert!(home.file("skills").is_dir() && home.file("archetypes").is_dir());
    assert_eq!((bits("secrets"), bits("secrets/openai"), bits("backups")), (0o700, 0o600, 0o700));
    let again = home.flock(["doctor", "--fix"]).fails(1);
    assert!(!again.stdout.contains("mended:"), "{again:?}");
}

#[test]
fn a_provider_at_which_nobody_can_sign_in_is_named() {
    const OIDC: &str = "plugins.entries.flock.config.dashboard.oidc";
    let home = TempHome::new().init();
    let none = home.flock(["doctor", "--json"]).fails(1);
    assert!(!none.stdout.contains("sign-in"), "{none:?}");
    // Nobody listens on port 1, which needs rights.
    let block = r#"{"issuer": "http://127.0.0.1:1", "clientId": "flock", "clientSecret": "s3cret"}"#;
    home.flock(["config", "set", OIDC, block]).ok();
    let shown = home.flock(["config", "get", OIDC]).ok();
    assert!(!shown.stdout.contains("s3cret"), "{shown:?}");
    let run = home.flock(["doctor", "--json"]).fails(1);
    let found = check(&run, "sign-in");
    let message = found["message"].as_str().unwrap();
    assert!(message.contains("nobody can sign in at http://127.0.0.1:1"), "{found}");
    assert!(run.stdout.contains("nobody of this home has an account"), "{run:?}");
    std::fs::remove_file(home.file("secrets/oidc.client")).unwrap();
    let run = home.flock(["doctor", "--json"]).fails(1);
    assert!(run.stdout.contains("there is no secret named oidc.client"), "{run:?}");
    assert!(run.stdout.contains("clientSecret -"), "{run:?}");
}
