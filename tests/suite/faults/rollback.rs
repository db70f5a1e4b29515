//! The process is killed at every step of a change and of a rollback. The next command finds the state before or after.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use flock::fault_point::{self, FaultPoint};
use serde_json::{Value, json};

use super::{DIES_AT, HOME, dies_at, with_limit};
use crate::support::home::{TempHome, finish};

const LINE: &str = "FLOCK_TEST_LINE";

/// Not a test of its own: the command that the others start and lose.
#[test]
#[ignore = "runs a command line that kills itself; the other tests start it"]
fn the_command_that_dies() {
    let Ok(line) = std::env::var(LINE) else { return };
    fault_point::watch(dies_at);
    let words: Vec<_> = std::iter::once("flock").chain(line.split(' ')).map(Into::into).collect();
    let code = flock::cli::parse_and_run(&words);
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::SUCCESS));
}

/// Runs a command line that kills itself at a moment. Returns `true` if it was killed.
pub(super) fn dies(home: &TempHome, line: &str, at: FaultPoint) -> bool {
    dies_with(home, line, &format!("{at:?}"), &[])
}

/// Does the same with more variables, at `NAME` or at `NAME:3`, the third time that this moment is reached.
pub(super) fn dies_with(home: &TempHome, line: &str, at: &str, more: &[(&'static str, String)]) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::rollback::the_command_that_dies", "--ignored", "--nocapture"]);
    for (name, value) in home.command().get_envs() {
        command.envs(value.map(|value| (name, value)));
    }
    command.env(LINE, line).env(HOME, home.path()).env(DIES_AT, at);
    command.envs(more.iter().map(|(name, value)| (name, value)));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    status.signal() == Some(9)
}

fn newest(home: &TempHome) -> Value {
    home.flock(["generations", "--json"]).ok().json()["generations"][0].clone()
}

#[test]
fn a_killed_change_is_one_generation_or_none() {
    for at in FaultPoint::OF_CHANGE {
        let home = TempHome::new().init();
        assert!(dies(&home, "config set gateway.custom 1", at), "{at:?}");
        let is_changed = home.config()["gateway"]["custom"] == 1;
        assert_eq!(is_changed, at != FaultPoint::GenerationDrafted, "{at:?}");
        let found = newest(&home);
        // It is the change of who made it, and not one by hand.
        let why = if is_changed { "flock config set" } else { "flock init" };
        assert_eq!(
            (found["why"].as_str(), found["number"].as_u64()),
            (Some(why), Some(1 + u64::from(is_changed)))
        );
        home.flock(["config", "set", "gateway.custom", "2"]).ok();
        assert_eq!(newest(&home)["what"].as_array().unwrap().len(), 1, "{at:?}");
        assert!(!home.file("generations/underway").exists());
    }
}

/// A home with a first generation that has no agent `coder`.
fn with_past() -> TempHome {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    home
}

/// Checks that the home is in one of both states, and that its generations say the same. Returns `true` for the one
/// after the rollback.
fn is_whole(home: &TempHome, before: &Value, after: &Value, context: &str) -> bool {
    let found = newest(home);
    let now = home.config();
    assert!(now == *before || now == *after, "{context}: {now}");
    assert!(!home.file("generations/rollback").exists(), "{context}");
    let is_after = now == *after;
    assert_eq!(found["backTo"] == 1, is_after, "{context}: {found}");
    is_after
}

#[test]
fn a_killed_rollback_is_before_or_after_it() {
    for at in FaultPoint::OF_ROLLBACK {
        let home = with_past();
        let before = home.config();
        assert!(dies(&home, "rollback 1 --yes", at), "{at:?}");
        let status = home.flock(["status", "--json"]).json();
        assert!(status["warnings"].to_string().contains("was interrupted"), "{at:?}: {status}");
        assert!(home.flock(["doctor"]).stdout.contains("rollback to generation 1 was interrupted"), "{at:?}");
        home.flock(["start"]).ok();
        let after = {
            let mut after = before.clone();
            after["gateway"].as_object_mut().unwrap().remove("custom");
            after["agents"]["list"].as_array_mut().unwrap().retain(|agent| agent["id"] != "coder");
            let own = &mut after["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
            own.as_array_mut().unwrap().retain(|agent| agent["id"] != "coder");
            after
        };
        let is_after = is_whole(&home, &before, &after, &format!("{at:?}"));
        assert_eq!(is_after, at == FaultPoint::RollbackKept, "{at:?}");
        // It works from there.
        home.flock(["rollback", if is_after { "3" } else { "1" }, "--yes"]).ok();
        assert_eq!(home.config(), if is_after { before } else { after });
    }
}

#[test]
fn a_kill_while_everything_is_put_back_leaves_the_state_before() {
    let home = with_past();
    assert!(dies(&home, "rollback 1 --yes", FaultPoint::RollbackConfigured));
    let undone = dies(&home, "config set gateway.more 1", FaultPoint::RollbackUndone);
    assert!(undone);
    assert!(home.file("generations/rollback").exists());
    home.flock(["generations"]).ok();
    assert!(!home.file("generations/rollback").exists());
    assert_eq!(home.config()["gateway"]["custom"], 1);
    assert!(home.config()["gateway"].get("more").is_none());
}

#[test]
fn nobody_changes_the_configuration_during_a_rollback() {
    let home = with_past();
    home.flock(["start"]).ok();
    assert!(dies(&home, "rollback 1 --yes", FaultPoint::RollbackConfigured));
    // The gateway runs on. It refuses what a failing rollback would lose.
    let place = flock::home::Home::new(home.path(), None);
    let refused = flock::config::edit(&place, |document| {
        document["gateway"]["more"] = json!(1);
        Ok::<_, flock::config::ConfigError>(())
    });
    assert!(refused.unwrap_err().to_string().contains("while a rollback is in progress"));
    home.flock(["config", "set", "gateway.more", "1"]).ok();
    assert_eq!(
        (&home.config()["gateway"]["custom"], &home.config()["gateway"]["more"]),
        (&json!(1), &json!(1))
    );
}

/// `FLOCK_TEST_KILLS=1000` for the full number.
#[test]
fn kills_at_random_moments_leave_one_of_both_states() {
    let kills: u32 = std::env::var("FLOCK_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(25);
    let home = TempHome::new().init();
    home.flock(["config", "set", "plugins.entries.flock.config.generations.keep", "10000"]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    let later = home.config();
    home.flock(["rollback", "2", "--yes"]).ok();
    let earlier = home.config();
    let mut landed = 0;
    for n in 0..kills {
        let is_later = home.config() == later;
        let (now, then, to) = if is_later { (&later, &earlier, "2") } else { (&earlier, &later, "3") };
        let mut command = home.command();
        command.args(["rollback", to, "--yes"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Spread over the run of the command, with steps that have no common divisor with it.
        let delay = std::time::Duration::from_micros(u64::from(n).wrapping_mul(7_919) % 60_000);
        std::thread::sleep(delay);
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        landed += u32::from(ended.signal() == Some(9));
        home.flock(["generations", "-q"]).ok();
        let found = home.config();
        assert!(found == *now || found == *then, "{n}: neither");
        assert!(
            !home.file("generations/rollback").exists() && !home.file("generations/underway").exists(),
            "{n}"
        );
        // The newest generation is the state.
        let all = home.flock(["generations", "--json"]).ok().json();
        assert_ne!(all["generations"][0]["why"], "changed by hand", "{n}: {}", all["generations"][0]);
    }
    eprintln!("{landed} of {kills} kills came before the end");
}

#[test]
fn a_full_disk_leaves_the_old_state_and_says_so() {
    let home = with_past();
    let before = home.config();
    let count = |home: &TempHome| {
        home.flock(["generations", "--json"]).ok().json()["generations"].as_array().unwrap().len()
    };
    let generations = count(&home);
    // No file may grow beyond one block of 512 bytes.
    for line in [["config", "set", "gateway.custom", "5"], ["rollback", "1", "--yes", "-q"]] {
        let failed = finish(with_limit(&home, "ulimit -f 1;").args(line));
        assert_ne!(failed.code, 0, "{failed:?}");
        assert_eq!(home.config(), before, "{line:?}");
        assert_eq!(count(&home), generations, "{line:?}");
        assert!(!home.file("generations/rollback").exists());
    }
    home.flock(["rollback", "1", "--yes"]).ok();
}
