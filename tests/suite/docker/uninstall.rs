//! `flock uninstall` with a real engine: all of this home goes, nothing of another one.

use std::process::Stdio;
use std::time::Duration;

use flock::home::Home;
use flock::sandbox::image;

use crate::support::docker::{block_on, docker, engine};
use crate::support::home::TempHome;

/// Everything in the engine that is of a home.
fn belongings(home: &TempHome) -> Vec<String> {
    let home = Home::new(home.path(), None);
    let label = format!("label=flock.home={}", home.root().display());
    let prefix = format!("name=^/{}", flock::openclaw::container_prefix(&home));
    let mut found = Vec::new();
    for args in [
        &["ps", "-a", "--filter", label.as_str(), "--format", "{{.Names}}"][..],
        &["ps", "-a", "--filter", prefix.as_str(), "--format", "{{.Names}}"],
        &["volume", "ls", "--filter", label.as_str(), "--format", "{{.Name}}"],
        &["network", "ls", "--filter", label.as_str(), "--format", "{{.Name}}"],
    ] {
        found.extend(docker(args).lines().map(str::to_owned));
    }
    found.extend(block_on(image::tags(&engine().unwrap(), &home)).unwrap());
    found
}

/// A home with an agent's sandbox, the store, and a container as OpenClaw makes one.
fn team() -> Option<TempHome> {
    let home = TempHome::init_in_docker()?;
    home.flock(["add", "coder"]).ok();
    let own = Home::new(home.path(), None);
    let name = format!("{}coder", flock::openclaw::container_prefix(&own));
    let image = image::Recipe::Sandbox.reference(&own);
    let line = [
        "run",
        "-d",
        "--name",
        &name,
        "--label",
        "openclaw.sandbox=1",
        "--network",
        "none",
        &image,
        "sleep",
        "600",
    ];
    docker(&line);
    Some(home)
}

#[test]
fn all_of_this_home_goes_and_another_ones_stays() {
    let (Some(home), Some(other)) = (team(), team()) else { return };
    let theirs = belongings(&other);
    home.flock(["start", "-q"]).ok();
    let network = format!("flock-test{}", Home::new(home.path(), None).suffix());
    docker(&[
        "network",
        "create",
        "--internal",
        "--label",
        &format!("flock.home={}", home.path().display()),
        &network,
    ]);
    assert!(belongings(&home).len() >= 6, "{:?}", belongings(&home));
    let shown = home.flock(["uninstall", "--dry-run", "--json"]).ok().json();
    let shown: Vec<&str> =
        shown["removes"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in belongings(&home) {
        assert!(shown.contains(&name.as_str()), "{name} in {shown:?}");
    }
    home.flock(["uninstall", "--yes"]).ok();
    assert!(belongings(&home).is_empty(), "{:?}", belongings(&home));
    assert_eq!(belongings(&other), theirs);
    // What stayed is enough for the same team.
    home.flock(["init", "--yes"]).ok();
    home.flock(["start", "-q"]).ok();
    let agents = home.flock(["list", "--json"]).ok().json();
    assert_eq!(agents["agents"][2]["id"], "coder");
    home.flock(["uninstall", "--purge", "--yes"]).ok();
    assert!(!home.path().exists());
    assert!(belongings(&home).is_empty(), "{:?}", belongings(&home));
    // The folder is gone, and so is what somebody made for it meanwhile.
    let label = format!("flock.home={}", home.path().display());
    let name = format!("flock-late{}", Home::new(home.path(), None).suffix());
    docker(&["volume", "create", "--label", &label, &name]);
    home.flock(["uninstall", "--yes"]).ok();
    assert!(belongings(&home).is_empty(), "{:?}", belongings(&home));
}

#[test]
fn openclaw_takes_its_sandboxes_along_and_no_others() {
    let Some(home) = team() else { return };
    let before = belongings(&home);
    home.flock(["uninstall", "openclaw", "--yes"]).ok();
    let mut expected = before.clone();
    expected.retain(|name| !name.starts_with("flock-oc-"));
    assert_eq!((belongings(&home), before.len()), (expected, before.len()));
}

#[test]
fn killed_at_any_moment_the_next_call_finishes_in_the_engine_too() {
    for n in 0..4_u64 {
        let Some(home) = team() else { return };
        let line = ["uninstall", "--purge", "--yes"];
        let mut child =
            home.command().args(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(60 + n * 150));
        child.kill().unwrap();
        child.wait().unwrap();
        home.flock(line).ok();
        assert!(!home.path().exists(), "{n}");
        assert!(belongings(&home).is_empty(), "{n}: {:?}", belongings(&home));
    }
}

#[test]
fn an_engine_that_is_away_is_told_and_asked_by_the_next_call() {
    let Some(home) = team() else { return };
    let line = ["uninstall", "--purge", "--yes"];
    let mut command = home.command();
    command.args(line).env("DOCKER_HOST", format!("unix://{}", home.outside().join("none.sock").display()));
    let told = crate::support::home::finish(&mut command).fails(6);
    assert!(
        told.stderr.contains("failed to find what this home has in Docker")
            && told.stderr.contains("uninstall --purge"),
        "{told:?}"
    );
    assert!(!home.file("config.json").exists());
    assert!(home.database().file().is_none_or(|file| !file.exists()));
    assert!(!belongings(&home).is_empty());
    home.flock(line).ok();
    assert!(!home.path().exists());
    assert!(belongings(&home).is_empty(), "{:?}", belongings(&home));
}
