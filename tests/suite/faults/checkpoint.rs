//! The gateway is killed at every step of a checkpoint and of a rewind. Once it runs again, the files are those before
//! or those after, byte for byte.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;

use serde_json::json;

use super::{LONG, end, gateway};
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::checkpoints::{KEY, Stage, tree};

/// Number of kills of each kind. The test in full has 500 of each, by `FLOCK_TEST_CHECKPOINT_KILLS`.
fn kills() -> usize {
    std::env::var("FLOCK_TEST_CHECKPOINT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
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

#[test]
fn a_kill_in_a_rewind_leaves_one_of_the_two_states() {
    let (stage, [before, after]) = states();
    let home = &stage.home;
    let (mut killed, mut step, mut seen) = (0, 1, [0, 0]);
    while killed < kills() {
        let is_after = stage.tree() == after;
        let to = if is_after { "1" } else { "2" };
        let args = ["rewind", "ada", "--turn", to, "--yes"];
        if dies(home, "Rewinding", step, &args) {
            killed += 1;
            step += 1;
            mend(home);
        } else {
            // All steps were reached.
            assert_eq!(stage.tree(), if is_after { before.clone() } else { after.clone() });
            step = 1;
        }
        let now = stage.tree();
        assert!(now == before || now == after, "at step {step}, {is_after}: {now:#?}");
        // The conversation is that of the same moment.
        let shown = home.flock(["session", "show", KEY, "--json"]).ok().json();
        assert_eq!(shown["messages"].as_u64().unwrap() > 0, now == after, "at step {step}: {shown}");
        seen[usize::from((now == after) == is_after)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "both outcomes were seen: {seen:?}");
    // Nothing is left of any of them, and everything still works.
    home.flock(["rewind", "ada", "--turn", "1", "--yes"]).ok();
    assert_eq!(stage.tree(), before);
    assert_eq!(tree(&home.file("agents/ada/checkpoints/objects/new")).len(), 0);
}

#[test]
fn a_kill_in_a_checkpoint_costs_only_that_one() {
    let (stage, _) = states();
    let home = &stage.home;
    home.flock(["config", "set", "plugins.entries.flock.config.checkpoints.keep", "4"]).ok();
    let (mut killed, mut step) = (0, 1);
    while killed < kills() {
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
        // Each that is listed has all of its contents.
        let listed = stage.checkpoints();
        for one in listed.iter().take(2).chain(listed.last()) {
            let number = one["number"].to_string();
            let to = format!("fork{number}");
            home.flock(["fork", "ada", &to, "--checkpoint", &number]).ok();
            assert!(home.file(format!("workspaces/{to}/src/main.txt")).exists());
            home.flock(["remove", &to, "--purge", "--yes"]).ok();
        }
    }
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
