//! The gateway is killed at every step of a checkpoint and of a rewind. Once it runs again, the files, the packages and
//! the conversation are those before or those after, byte for byte.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

use serde_json::json;

use super::{LONG, end, gateway};
use crate::docker::checkpoints::packages;
use crate::docker::store::flake;
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::checkpoints::{KEY, Stage, tree};

/// Number of kills of each kind. The test in full has 500 of each, by `FLOCK_TEST_CHECKPOINT_KILLS`.
fn kills() -> usize {
    number("FLOCK_TEST_CHECKPOINT_KILLS", 12)
}

/// Number of kills of rewinds that change packages, each of which asks the engine several times. The test in full has 100,
/// by `FLOCK_TEST_PACKAGE_KILLS`.
fn package_kills() -> usize {
    number("FLOCK_TEST_PACKAGE_KILLS", 10)
}

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn until_answering(home: &TempHome) {
    wait_until("the gateway answers", LONG, || {
        let run = home.flock(["checkpoints", "ada", "--json"]);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}")) }
    });
}

/// Runs a command against a gateway that dies at the n-th moment of this name. Returns `false` if it lived on.
fn dies(home: &TempHome, name: &str, n: usize, args: &[&str]) -> bool {
    let mut child = gateway(home, &format!("{name}:{n}"));
    until_answering(home);
    let run = home.flock(args.iter().copied());
    if run.code == 0 {
        end(child);
        return false;
    }
    let status =
        wait_until("the gateway to die", LONG, || child.try_wait().unwrap().ok_or(format!("{run:?}")));
    assert_eq!(status.signal(), Some(9), "{run:?}");
    true
}

/// Lets a gateway mend what the killed one left.
fn mend(home: &TempHome) {
    let child = gateway(home, "nowhere");
    until_answering(home);
    // The gateway answers before it has mended everything; only turns wait for that.
    wait_until("the rewind is completed", LONG, || {
        if home.file("agents/ada/checkpoints/rewind.json").exists() { Err(String::new()) } else { Ok(()) }
    });
    end(child);
}

fn states() -> (Stage, [BTreeMap<String, String>; 2]) {
    let stage = Stage::new();
    stage.home.flock(["config", "set", "plugins.entries.flock.config.checkpoints.keep", "10000"]).ok();
    let stage = stage.serve();
    let before = stage.tree();
    stage.turn(
        "go",
        &[
            ("src/main.txt", "changed"),
            ("src/new/file", "new"),
            ("src/new/other", "new"),
            ("link2", "a file"),
        ],
    );
    let after = stage.tree();
    let stage = Stage { served: None, ..stage };
    stage.home.flock(["checkpoint", "ada"]).ok();
    (stage, [before, after])
}

/// The files and packages of an agent.
type State = (BTreeMap<String, String>, Vec<String>);

/// Kills rewinds between checkpoints 1 and 2, whose states these are.
fn survives_kills(home: &TempHome, kills: usize, look: impl Fn() -> State, [before, after]: [State; 2]) {
    let (mut killed, mut step, mut seen) = (0, 1, [0, 0]);
    while killed < kills {
        let is_after = look() == after;
        let to = if is_after { "1" } else { "2" };
        let args = ["rewind", "ada", "--turn", to, "--yes"];
        if dies(home, "Rewinding", step, &args) {
            killed += 1;
            step += 1;
            mend(home);
        } else {
            // All steps were reached.
            assert_eq!(look(), if is_after { before.clone() } else { after.clone() });
            step = 1;
        }
        let now = look();
        assert!(now == before || now == after, "at step {step}, {is_after}: {now:#?}");
        // The conversation is that of the same moment.
        let shown = home.flock(["session", "show", KEY, "--json"]).ok().json();
        assert_eq!(shown["messages"].as_u64().unwrap() > 0, now == after, "at step {step}: {shown}");
        seen[usize::from((now == after) == is_after)] += 1;
    }
    eprintln!("{killed} kills: {} ended after the rewind, {} before", seen[0], seen[1]);
    assert!(seen.iter().all(|count| *count > 0), "both outcomes were seen: {seen:?}");
    // Nothing is left of any of them, and everything still works.
    home.flock(["rewind", "ada", "--turn", "1", "--yes"]).ok();
    assert_eq!(look(), before);
    assert_eq!(tree(&home.file("agents/ada/checkpoints/objects/new")).len(), 0);
}

#[test]
fn a_kill_in_a_rewind_leaves_one_of_the_two_states() {
    let (stage, states) = states();
    let look = || (stage.tree(), Vec::new());
    survives_kills(&stage.home, kills(), look, states.map(|files| (files, Vec::new())));
}

#[test]
fn a_kill_in_a_rewind_leaves_the_packages_of_the_same_moment() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let flake = flake(&home.outside());
    let write = |path: &str| json!({"name": "write", "arguments": {"path": path, "content": "new"}});
    let replies = json!({"replies": [
        {"steps": [{"calls": [write("a"), write("b/c")]}, {"say": "done"}]},
    ]});
    std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
    for (name, value) in [
        ("agents.defaults.model.primary", "script/test"),
        ("plugins.entries.flock.config.nix.flake", &format!("path:{}", flake.display())),
        ("plugins.entries.flock.config.checkpoints.keep", "10000"),
    ] {
        home.flock(["config", "set", name, value]).ok();
    }
    home.flock(["add", "ada", "--packages", "greet"]).ok();
    let look = || (tree(&home.file("workspaces/ada")), packages(&home, "ada"));
    let before = look();
    assert_eq!(before.1, ["greet"]);
    home.flock(["start"]).ok();
    home.flock(["chat", "ada", "go", "--session", KEY]).ok();
    home.flock(["stop"]).ok();
    home.flock(["nix", "install", "ada", "part"]).ok();
    home.flock(["checkpoint", "ada"]).ok();
    let after = look();
    assert_eq!((after.0.len() > before.0.len(), after.1.len()), (true, 2));
    survives_kills(&home, package_kills(), look, [before, after]);
    home.flock(["stop"]).ok();
}

#[test]
fn a_kill_in_a_checkpoint_costs_only_that_one() {
    let (stage, _) = states();
    let home = &stage.home;
    home.flock(["config", "set", "plugins.entries.flock.config.checkpoints.keep", "4"]).ok();
    let (mut killed, mut step, mut whole) = (0, 1, 0);
    while killed < kills() {
        whole = whole.max(step);
        let text = format!("{killed} {step}");
        std::fs::write(stage.workspace().join("src/round"), &text).unwrap();
        let files = stage.tree();
        if dies(home, "Checkpointing", step, &["checkpoint", "ada"]) {
            killed += 1;
            step += 1;
        } else {
            step = 1;
        }
        assert_eq!(stage.tree(), files);
        mend(home);
        assert_eq!(stage.tree(), files);
        let made = home.flock(["checkpoint", "ada", "--json"]).ok().json();
        assert_eq!(made["checkpoint"]["problem"], json!(null), "{made}");
        // Each that is listed has all of its contents. The test in full looks that up every tenth time: three forks take
        // longer than the kill.
        if killed > 12 && !killed.is_multiple_of(10) {
            continue;
        }
        let listed = stage.checkpoints();
        for one in listed.iter().take(2).chain(listed.last()) {
            let number = one["number"].to_string();
            let to = format!("fork{number}");
            home.flock(["fork", "ada", &to, "--checkpoint", &number]).ok();
            assert!(home.file(format!("workspaces/{to}/src/main.txt")).exists());
            home.flock(["remove", &to, "--purge", "--yes"]).ok();
        }
    }
    eprintln!("{killed} kills at {whole} moments of a checkpoint");
}

#[test]
fn a_kill_in_the_fork_of_a_team_leaves_all_of_it_or_nothing() {
    let stage = Stage::new();
    let home = &stage.home;
    home.flock(["add", "bob", "--no-container", "--model", "acme/one"]).ok();
    // Turns would only be in the way.
    for agent in ["ada", "bob"] {
        home.flock(["freeze", agent]).ok();
    }
    home.flock(["channel", "create", "dev", "--topic", "x", "--member", "ada", "--member", "bob"]).ok();
    home.flock(["channel", "post", "dev", "first words"]).ok();
    home.flock(["config", "set", "plugins.entries.flock.config.maxAgents", "1000"]).ok();
    let (mut step, mut seen) = (1, [0, 0]);
    loop {
        let name = format!("second{step}");
        if !dies(home, "Forking", step, &["fork", "#dev", &name]) {
            break;
        }
        // The next gateway completes or undoes it.
        let child = gateway(home, "nowhere");
        until_answering(home);
        wait_until("the fork is completed or undone", LONG, || {
            if home.file("data/team-fork.json").exists() { Err(String::new()) } else { Ok(()) }
        });
        let listed = home.flock(["list", "--json"]).ok().json();
        let is_agent = |id: &str| listed["agents"].as_array().unwrap().iter().any(|agent| agent["id"] == *id);
        let channels = home.flock(["channel", "list", "--json"]).ok().json();
        let made =
            channels["channels"].as_array().unwrap().iter().any(|channel| channel["channelId"] == *name);
        for agent in ["ada", "bob"] {
            let copy = format!("{agent}-{name}");
            assert_eq!(is_agent(&copy), made, "{copy} at step {step}");
            assert_eq!(home.file(format!("workspaces/{copy}")).exists(), made, "{copy} at step {step}");
            assert_eq!(home.file(format!("agents/{copy}")).exists(), made, "{copy} at step {step}");
        }
        if made {
            let read = home.flock(["channel", "read", &name, "--json"]).ok().json();
            assert!(read.to_string().contains("first words"), "{read}");
        } else {
            // Nothing is in the way of the same command.
            home.flock(["fork", "#dev", &name]).ok();
        }
        seen[usize::from(made)] += 1;
        end(child);
        step += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "both outcomes were seen: {seen:?}");
}
