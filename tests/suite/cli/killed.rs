//! Killed at any moment: what is on the disk is the old state or the new one, and the same verb goes on.

use std::process::Stdio;
use std::time::Duration;

use crate::support::home::TempHome;

/// Runs the binary and kills it after `delay`, whatever it is at.
fn kill_after(home: &TempHome, args: &[&str], delay: Duration) {
    let mut child = home.command().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_writer_leaves_the_old_configuration_or_the_new_one() {
    let home = TempHome::new().init();
    for n in 0..60_u64 {
        let value = n.to_string();
        let before = home.config()["gateway"]["custom"].clone();
        kill_after(&home, &["config", "set", "gateway.custom", &value], Duration::from_micros(n * 250));
        let after = home.config()["gateway"]["custom"].clone();
        assert!(after == before || after == n, "{n}: {before} {after}");
    }
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    home.flock(["list"]).ok();
}

#[test]
fn a_killed_init_is_finished_by_the_next_one() {
    for n in 0..40_u64 {
        let home = TempHome::new();
        let line = ["init", "--yes", "--no-images", "--model", "script/demo"];
        kill_after(&home, &line, Duration::from_micros(n * 500));
        home.flock(line).ok();
        let agents = home.flock(["list", "--json"]).ok().json();
        assert_eq!(agents["agents"].as_array().unwrap().len(), 2, "{n}");
        assert!(
            home.file("agents/sysadmin/identity/TOOLS.md").exists() && home.file("version").exists(),
            "{n}"
        );
    }
}

#[test]
fn a_killed_add_leaves_no_half_agent() {
    let home = TempHome::new().init();
    for n in 0..30_u64 {
        let id = format!("agent-{n}");
        kill_after(&home, &["add", &id, "--no-container"], Duration::from_micros(n * 500));
        let there = home.flock(["list", "--json"]).ok().stdout.contains(&format!("\"{id}\""));
        let again = home.flock(["add", &id, "--no-container"]);
        assert_eq!(again.code, if there { 5 } else { 0 }, "{again:?}");
        assert!(home.file(format!("agents/{id}/identity/TOOLS.md")).exists(), "{id}");
    }
}
