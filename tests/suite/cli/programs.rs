//! Agents that installed programs run, as far as the command line goes.

use std::path::PathBuf;

use crate::support::home::{Run, TempHome, finish};

/// A home, and a folder that is all of PATH.
struct Machine {
    home: TempHome,
    bin: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { home: TempHome::new().init(), bin: tempfile::tempdir().unwrap() };
        let provider = r#"{"baseUrl":"http://127.0.0.1:9","api":"anthropic-messages","models":[{"id":"m"}]}"#;
        machine.flock(&["config", "set", "models.providers.mine", provider]).ok();
        machine.flock(&["config", "set", "agents.defaults.model.primary", "mine/m"]).ok();
        machine
    }

    /// Installs something that says this version.
    fn has(&self, name: &str, says: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.bin.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn flock(&self, args: &[&str]) -> Run {
        let mut command = self.home.command();
        command.args(args).env("PATH", self.bin.path()).env("HOME", self.bin.path());
        finish(command.stdin(std::process::Stdio::null()))
    }
}

#[test]
fn a_program_that_is_missing_is_named_with_what_installs_it() {
    let machine = Machine::new();
    let before = machine.home.config_text();
    let run = machine.flock(&["add", "coder", "--runtime", "claude", "--no-container"]).fails(1);
    assert!(run.stderr.contains("Claude Code is not installed"), "{run:?}");
    assert!(run.stderr.contains("npm install -g @anthropic-ai/claude-code"), "{run:?}");
    assert_eq!(machine.home.config_text(), before);
}

#[test]
fn on_the_host_only_who_says_so_and_it_is_shown_for_good() {
    let machine = Machine::new();
    machine.has("claude", "2.1.330 (Claude Code)");
    let run = machine.flock(&["add", "boxed", "--runtime", "claude", "--no-container"]).ok();
    assert!(!run.stderr.contains("host"), "{run:?}");
    let run = machine.flock(&["add", "free", "--runtime", "claude", "--on-host"]).ok();
    assert!(run.stderr.contains("with your rights"), "{run:?}");
    let run = machine.flock(&["--json", "list"]).ok();
    let listed: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let on_host = |id: &str| {
        let agents = listed["agents"].as_array().unwrap();
        agents.iter().find(|agent| agent["id"] == id).unwrap()["onHost"].clone()
    };
    assert_eq!((on_host("boxed"), on_host("free")), (false.into(), true.into()));
    assert!(machine.flock(&["list"]).ok().stdout.contains("none, on the host"));
    assert!(machine.flock(&["status"]).stdout.contains("none: it runs on this machine itself"));
    let doctor = machine.flock(&["doctor"]).stdout;
    assert!(doctor.contains("agent free runs on this machine itself"), "{doctor}");
    assert!(doctor.contains("found Claude Code 2.1.330"), "{doctor}");
    assert!(!doctor.contains("agent boxed runs"), "{doctor}");
}

#[test]
fn an_old_program_and_a_model_that_it_can_not_ask_are_told_of() {
    let machine = Machine::new();
    machine.has("claude", "1.0.2 (Claude Code)");
    let run = machine.flock(&["add", "coder", "--runtime", "claude", "--no-container"]).ok();
    assert!(run.stderr.contains("Claude Code 1.0.2 is older than"), "{run:?}");
    let doctor = machine.flock(&["doctor"]).stdout;
    assert!(doctor.contains("Claude Code 1.0.2 is older than"), "{doctor}");
    let provider = r#"{"baseUrl":"http://127.0.0.1:9/v1","api":"openai-completions","models":[{"id":"m"}]}"#;
    machine.flock(&["config", "set", "models.providers.other", provider]).ok();
    let line = ["add", "tester", "--runtime", "claude", "--no-container", "--model", "other/m"];
    let run = machine.flock(&line).fails(2);
    assert!(run.stderr.contains("does not speak openai-completions; opencode does"), "{run:?}");
    std::fs::remove_file(machine.bin.path().join("claude")).unwrap();
    let doctor = machine.flock(&["doctor"]).fails(1).stdout;
    assert!(doctor.contains("Claude Code is not installed, and 1 agents need it"), "{doctor}");
}
