//! `flock service`, written below another root so that no service manager takes part.

use super::Flock;

#[test]
fn a_service_is_written_shown_and_removed() {
    let flock = Flock::new();
    let root = flock.outside().join("root");
    let install = |scope: &str| {
        flock.flock(["service", "install", scope, "--json", "--root", root.to_str().unwrap()]).ok().json()
    };
    let user = install("--user");
    let path = std::path::PathBuf::from(user["path"].as_str().unwrap());
    assert!(path.starts_with(&root), "{user}");
    assert_eq!(user["active"], false);
    let unit = std::fs::read_to_string(&path).unwrap();
    let line = format!("--home \"{}\" start --foreground", flock.path().display());
    assert!(unit.contains(&line), "{unit}");
    assert!(unit.contains("WantedBy=default.target"), "{unit}");
    let system = install("--system");
    let system = system["path"].as_str().unwrap();
    assert!(system.contains("/etc/systemd/system/flock-"), "{system}");
    let unit = std::fs::read_to_string(system).unwrap();
    let me = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    assert!(unit.contains(&format!("\nUser={me}\n")), "{unit}");
    let text = flock.flock(["service", "install", "--user", "--root", root.to_str().unwrap()]).ok();
    assert!(text.stderr.contains("start --foreground"), "it shows what it wrote: {text:?}");
    let remove = || flock.flock(["service", "remove", "--user", "--root", root.to_str().unwrap()]).ok();
    remove();
    assert!(!path.exists());
    assert!(remove().stderr.contains("no service"));
}

#[test]
fn a_service_that_root_installs_for_somebody_runs_as_them() {
    if !nix::unistd::getuid().is_root() {
        return;
    }
    let flock = Flock::new();
    let root = flock.outside().join("root");
    let root = root.to_str().unwrap();
    std::os::unix::fs::chown(flock.path(), Some(65_534), None).unwrap();
    let installed = flock.flock(["service", "install", "--json", "--root", root]).ok().json();
    let unit = std::fs::read_to_string(installed["path"].as_str().unwrap()).unwrap();
    assert!(unit.contains("\nUser=nobody\n"), "{unit}");
    let refused = flock.flock(["service", "install", "--user", "--root", root]).fails(2);
    assert!(refused.stderr.contains("belongs to nobody"), "{refused:?}");
    std::os::unix::fs::chown(flock.path(), Some(0), None).unwrap();
}

#[test]
fn what_only_the_shell_knows_is_named_and_its_value_is_not() {
    let flock = Flock::new();
    let root = flock.outside().join("root");
    flock.flock(["config", "set", "agents.defaults.model.primary", "anthropic/claude-opus-4-5"]).ok();
    let install = |json: bool| {
        let mut command = flock.command();
        command.args(["service", "install", "--user", "--root", root.to_str().unwrap()]);
        command.args(json.then_some("--json"));
        command.env("ANTHROPIC_API_KEY", "sk-planted-1").env("https_proxy", "http://me:planted-2@proxy:1");
        command.env("OPENAI_API_KEY", "sk-planted-3");
        crate::support::home::finish(&mut command).ok()
    };
    let run = install(false);
    let key = "ANTHROPIC_API_KEY is set only in this environment, so the service does not get it; run `flock config \
               set models.providers.anthropic.apiKey -`";
    assert!(run.stderr.contains(key), "{run:?}");
    assert!(run.stderr.contains("https_proxy is set only in this environment"), "{run:?}");
    assert!(!run.stderr.contains("OPENAI_API_KEY"), "no agent uses it: {run:?}");
    let told = install(true);
    assert_eq!(told.json()["missingVariables"], serde_json::json!(["ANTHROPIC_API_KEY", "https_proxy"]));
    let unit = std::fs::read_to_string(told.json()["path"].as_str().unwrap()).unwrap();
    for text in [&run.stdout, &run.stderr, &told.stdout, &told.stderr, &unit] {
        assert!(!text.contains("planted"), "{text}");
    }
    let mend = ["config", "set", "models.providers.anthropic.apiKey", "-"];
    flock.flock_with_input(mend, "sk-planted-1").ok();
    assert_eq!(install(true).json()["missingVariables"], serde_json::json!(["https_proxy"]));
}
