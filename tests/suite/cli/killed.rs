//! Killed at any moment: what is on the disk is the old state or the new one, and the same verb goes on.

use std::process::Stdio;
use std::time::Duration;

use crate::support::docker::block_on;
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

/// A home with an agent that has a session, a transcript, a membership, a grant and files of its own.
fn with_a_past(home: &TempHome, id: &str) -> flock::home::Home {
    use flock::id::{AgentId, SessionKey, SessionKind};
    use flock::store::{NewSession, Store};
    let place = flock::home::Home::new(home.path(), None);
    let agent: AgentId = id.parse().unwrap();
    home.flock(["add", id, "--no-container"]).ok();
    home.flock(["channel", "create", &format!("of-{id}"), "--topic", "x", "--member", id]).ok();
    let store = Store::open(&place).unwrap();
    let key = SessionKey::new(&agent, SessionKind::Main, "ann");
    let new = NewSession { key, file: id.to_owned() };
    assert!(block_on(store.sessions().create(new, 1)).unwrap());
    std::fs::create_dir_all(place.sessions(&agent)).unwrap();
    std::fs::write(place.sessions(&agent).join(format!("{id}.jsonl")), "").unwrap();
    std::fs::write(place.workspace(&agent).join("secret"), "x").unwrap();
    place
}

/// What there is of an agent: in the configuration, the database and the folders.
fn traces_of(home: &TempHome, place: &flock::home::Home, id: &str) -> Vec<&'static str> {
    use flock::store::Store;
    let agent = id.parse().unwrap();
    let store = Store::open(place).unwrap();
    let party = flock::id::Party::Agent(id.parse().unwrap());
    let listed = home.flock(["list", "--json"]).ok().stdout.contains(&format!("\"{id}\""));
    let all = [
        ("configuration", listed),
        ("session", !block_on(store.sessions().list(Some(&agent), 9)).unwrap().is_empty()),
        ("membership", !block_on(store.channels().list(Some(&party), None)).unwrap().is_empty()),
        ("transcripts", place.agent(&agent).exists()),
        ("workspace", place.workspace(&agent).exists()),
        ("record", flock::home::pending::read(place, &agent).unwrap().is_some()),
    ];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
}

#[test]
fn a_killed_purge_is_finished_by_the_same_command() {
    let home = TempHome::new().init();
    let mut halves = 0;
    for n in 0..24_u64 {
        let id = format!("agent-{n}");
        let place = with_a_past(&home, &id);
        let line = ["remove", &id, "--purge", "--yes"];
        kill_after(&home, &line, Duration::from_millis(n * 3));
        let traces = traces_of(&home, &place, &id);
        halves += u32::from(!traces.is_empty() && traces.len() < 5);
        if !traces.is_empty() {
            home.flock(line).ok();
        }
        assert_eq!(traces_of(&home, &place, &id), Vec::<&str>::new(), "{n}: it had left {traces:?}");
    }
    eprintln!("{halves} of 24 were interrupted in the middle");
}

/// Leaves the record of a purge as a kill leaves it before its first step.
pub fn half_removed(place: &flock::home::Home, id: &str) {
    use flock::home::pending::{self, AgentOperation, PendingOperation};
    let agent: flock::id::AgentId = id.parse().unwrap();
    let operation = AgentOperation::Remove { purge: true, workspace: place.workspace(&agent) };
    let pending =
        PendingOperation { agent, operation, by: "human:ann".into(), begun_at: 1, configured: false };
    pending::write(place, &pending).unwrap();
}

#[test]
fn whoever_gets_the_id_of_a_half_removed_agent_has_nothing_of_it() {
    let home = TempHome::new().init();
    let place = with_a_past(&home, "coder");
    let agent: flock::id::AgentId = "coder".parse().unwrap();
    half_removed(&place, "coder");
    let again = home.flock(["add", "coder", "--no-container"]).ok();
    assert!(again.stderr.contains("finishing the removal of coder"), "{again:?}");
    assert_eq!(traces_of(&home, &place, "coder"), ["configuration", "transcripts", "workspace"]);
    assert!(!place.workspace(&agent).join("secret").exists() && !place.sessions(&agent).exists());
}

#[test]
fn a_killed_rename_is_finished_by_the_same_command() {
    let home = TempHome::new().init();
    for n in 0..16_u64 {
        let (old, new) = (format!("agent-{n}"), format!("other-{n}"));
        let place = with_a_past(&home, &old);
        let line = ["rename", &old, &new];
        kill_after(&home, &line, Duration::from_millis(n * 4));
        let begun = flock::home::pending::read(&place, &old.parse().unwrap()).unwrap().is_some();
        let traces = traces_of(&home, &place, &old);
        if begun || traces.contains(&"configuration") {
            home.flock(line).ok();
        }
        assert_eq!(traces_of(&home, &place, &old), Vec::<&str>::new(), "{n}: {traces:?}");
        let all = ["configuration", "session", "membership", "transcripts", "workspace"];
        assert_eq!(traces_of(&home, &place, &new), all, "{n}: {traces:?}");
        let secret = place.workspace(&new.parse().unwrap()).join("secret");
        assert_eq!(std::fs::read_to_string(secret).unwrap(), "x");
    }
    // What is taken is refused before anything is written.
    home.flock(["rename", "other-1", "other-2"]).fails(5);
    home.flock(["rename", "nobody", "somebody"]).fails(1);
    home.flock(["rename", "other-1", "../x"]).fails(2);
    home.flock(["remove", "other-2", "--yes"]).ok();
    let refused = home.flock(["rename", "other-1", "other-2"]).fails(5);
    assert!(refused.stderr.contains("flock remove other-2 --purge"), "{refused:?}");
}

#[test]
fn doctor_finishes_what_was_interrupted() {
    let home = TempHome::new().init();
    let place = with_a_past(&home, "coder");
    half_removed(&place, "coder");
    // Other checks may find something here: only what is said of this counts.
    let found = home.flock(["doctor"]);
    assert!(found.stdout.contains("the removal of coder was interrupted"), "{found:?}");
    assert!(traces_of(&home, &place, "coder").contains(&"record"), "a look changes nothing");
    let fixed = home.flock(["doctor", "--fix"]);
    assert!(fixed.stdout.contains("mended: finished it"), "{fixed:?}");
    assert_eq!(traces_of(&home, &place, "coder"), Vec::<&str>::new());
}
