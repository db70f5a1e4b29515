//! `flock uninstall openclaw`, and `flock uninstall` of a home that has OpenClaw, whole or half.

use std::path::PathBuf;
use std::process::Stdio;

use super::install::{current, init, line, log};
use crate::support::home::TempHome;
use crate::support::openclaw::{Era, Upstream};
use crate::support::wait_until;

/// What of OpenClaw is in a home.
fn remains(home: &TempHome) -> Vec<PathBuf> {
    let names = ["openclaw", "gateways", "extensions", "secrets/openclaw-token", "secrets/openclaw-plugin"];
    names.iter().map(|name| home.file(name)).filter(|path| path.symlink_metadata().is_ok()).collect()
}

fn installed() -> (TempHome, Upstream) {
    let upstream = Upstream::built(Era::Old);
    let home = TempHome::new().init();
    init(&home, &upstream.path(), "main").ok();
    (home, upstream)
}

#[test]
fn openclaw_goes_and_flock_goes_on() {
    let (home, upstream) = installed();
    home.flock(["start", "-q"]).ok();
    let before = home.config_text();
    home.flock(["uninstall", "openclaw"]).fails(2);
    assert!(current(&home).is_dir());
    home.flock(["uninstall", "openclaw", "--yes"]).ok();
    assert!(remains(&home).is_empty(), "{:?}", remains(&home));
    assert_eq!(home.config_text(), before);
    assert_eq!(home.flock(["status", "-q"]).code, 0, "the gateway goes on");
    let told = home.flock(["uninstall", "openclaw", "--yes"]).ok();
    assert!(told.stdout.contains("there is no OpenClaw in"), "{told:?}");
    init(&home, &upstream.path(), "main").ok();
    assert!(current(&home).is_dir());
}

#[test]
fn not_while_agents_run_on_it_and_its_own_state_stays() {
    let (home, _upstream) = installed();
    home.flock(["add", "coder", "--no-container"]).ok();
    let runtime = "plugins.entries.flock.config.gatewayAgents[coder].runtime";
    home.flock(["config", "set", runtime, "openclaw"]).ok();
    std::fs::create_dir_all(home.file("gateways/openclaw/state/agents")).unwrap();
    std::fs::write(home.file("gateways/openclaw/state/agents/x"), "a conversation").unwrap();
    let refused = home.flock(["uninstall", "openclaw", "--yes"]).fails(1);
    assert!(refused.stderr.contains("the agent coder runs on OpenClaw"), "{refused:?}");
    assert!(refused.stderr.contains(&format!("flock config set '{runtime}' native")), "{refused:?}");
    assert!(current(&home).is_dir());
    // As it says.
    home.flock(["config", "set", runtime, "native"]).ok();
    home.flock(["uninstall", "openclaw", "--dry-run"]).ok();
    home.flock(["config", "set", runtime, "openclaw"]).ok();
    let told = home.flock(["uninstall", "openclaw", "--force", "--yes"]).ok();
    assert!(told.stderr.contains("gateways/openclaw/state"), "{told:?}");
    assert_eq!(remains(&home), [home.file("gateways")]);
    assert!(home.file("gateways/openclaw/state/agents/x").exists());
    home.flock(["uninstall", "openclaw", "--purge", "--yes"]).ok();
    assert!(remains(&home).is_empty(), "{:?}", remains(&home));
}

#[test]
fn a_half_built_one_goes_with_or_without_the_rest() {
    let upstream = Upstream::new(Era::Old);
    upstream.fault("build", "hang");
    for line_of_removal in [&["uninstall", "openclaw", "--yes"][..], &["uninstall", "--purge", "--yes"]] {
        let home = TempHome::new();
        let mut child = home
            .command()
            .args(line(&upstream.path(), "main"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the build hangs", std::time::Duration::from_secs(120), || {
            if log(&home).contains("hanging ") { Ok(()) } else { Err(log(&home)) }
        });
        let refused = home.flock(line_of_removal).fails(5);
        assert!(refused.stderr.contains("another flock is installing"), "{refused:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(home.file("gateways/openclaw/.staging/checkout").is_dir());
        home.flock(line_of_removal).ok();
        assert!(remains(&home).is_empty(), "{:?}", remains(&home));
        assert_eq!(home.path().exists(), line_of_removal.len() == 3 && line_of_removal[1] == "openclaw");
    }
}

#[test]
fn only_a_bundle_is_left_of_a_home_and_killed_at_any_moment_it_goes_all_the_same() {
    for n in 0..8_u64 {
        let (home, _upstream) = installed();
        for name in ["data", "agents", "run", "config.json", "version", "secrets", "backups"] {
            let path = home.file(name);
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
        }
        let line = ["uninstall", "--purge", "--yes"];
        let mut child =
            home.command().args(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(n * 6));
        child.kill().unwrap();
        child.wait().unwrap();
        home.flock(line).ok();
        assert!(!home.path().exists(), "{n}");
    }
}
