//! `flock update` while OpenClaw runs: whatever fails, at whatever point, the version before serves.

use std::process::Stdio;
use std::time::Duration;

use flock::process::ProcessId;
use serde_json::{Value, json};

use super::faults::{gone, hanging};
use super::install::{current, folders, log, record};
use super::supervised;
use super::update::checked;
use crate::support::home::{Run, TempHome, finish};
use crate::support::openclaw::{Era, Upstream};
use crate::support::wait_until;

const LONG: Duration = Duration::from_secs(120);

/// A home with an agent on OpenClaw.
fn team(upstream: &Upstream) -> TempHome {
    let home = TempHome::new();
    supervised::install(&home, upstream);
    supervised::add(&home, "coder");
    home
}

/// The same, running.
fn running(upstream: &Upstream) -> TempHome {
    let home = team(upstream);
    home.flock(["start"]).ok();
    wait_until("OpenClaw serves", LONG, || serving(&home).ok_or_else(|| told(&home)));
    home
}

/// Which commit serves, and as which process; none where nothing listens.
fn serving(home: &TempHome) -> Option<(String, ProcessId)> {
    let noted = std::fs::read(home.file("gateways/openclaw/state/started.json")).ok()?;
    let noted: Value = serde_json::from_slice(&noted).ok()?;
    let process = ProcessId::of(i32::try_from(noted["pid"].as_i64()?).ok()?)?;
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", process.pid)).ok()?;
    let folder = line.split('\0').find_map(|word| word.strip_suffix("/openclaw.mjs"))?;
    let port = u16::try_from(noted["port"].as_u64()?).ok()?;
    std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    Some((folder.rsplit('-').next()?.to_owned(), process))
}

fn told(home: &TempHome) -> String {
    ["supervisor", "openclaw", "build-openclaw"]
        .map(|name| std::fs::read_to_string(home.file(format!("logs/{name}.log"))).unwrap_or_default())
        .join("----\n")
}

/// Updates with little patience.
fn update(home: &TempHome, more: &[&str]) -> Run {
    finish(
        home.command().arg("update").args(more).env("FLOCK_OPENCLAW_START_LIMIT", "6").stdin(Stdio::null()),
    )
}

#[track_caller]
fn serves(home: &TempHome, commit: &str) -> ProcessId {
    let (found, process) = serving(home).unwrap_or_else(|| panic!("{}", told(home)));
    assert_eq!(found, commit[..12], "{}", told(home));
    assert_eq!(record(home)["commit"], json!(commit));
    process
}

/// What an agent has been told, in the state of the stand-in.
fn remember(home: &TempHome, text: &str) {
    let folder = home.file("gateways/openclaw/state/agents/coder/sessions");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("sessions.json"), text).unwrap();
}

fn remembered(home: &TempHome) -> String {
    std::fs::read_to_string(home.file("gateways/openclaw/state/agents/coder/sessions/sessions.json")).unwrap()
}

/// Nothing of an update is left but versions and what belongs to the one in use.
fn is_tidy(home: &TempHome) {
    for name in folders(home) {
        let left = name.starts_with(".trial") || name.starts_with("candidate") || name == "underway.json";
        assert!(!left && name != ".state-copy", "{name}");
    }
}

/// How many versions are on the disk.
fn versions(home: &TempHome) -> usize {
    folders(home).iter().filter(|name| name.starts_with("2026")).count()
}

#[test]
fn a_newer_commit_is_tried_and_then_serves_and_a_rollback_brings_the_one_before_back() {
    // The second era has another schema: each version gets the configuration that it takes.
    let upstream = Upstream::built(Era::Old);
    let home = running(&upstream);
    let first = upstream.head();
    let process = serves(&home, &first);
    remember(&home, "one");
    upstream.write("fixture.json", r#"{"era": "9.6"}"#);
    let second = upstream.release("2026.9.6");
    let told = update(&home, &["--json"]).ok().json();
    assert_eq!((&told["state"], &told["serves"]), (&json!("updated"), &json!(true)));
    let newer = serves(&home, &second);
    assert_ne!(newer, process);
    assert!(log(&home).contains("a trial"), "{}", log(&home));
    assert_eq!(remembered(&home), "one");
    let derived = std::fs::read_to_string(home.file("gateways/openclaw/openclaw.json")).unwrap();
    assert!(derived.contains("\"entries\""), "{derived}");
    let asked =
        std::fs::read_to_string(home.file("gateways/openclaw/state/requests.jsonl")).unwrap_or_default();
    assert_eq!(asked, "", "no agent was asked anything");
    is_tidy(&home);

    // The newer one has the conversations where the older one does not look for them.
    remember(&home, "two");
    let index = home.file("gateways/openclaw/state/agents/coder/sessions/sessions.json");
    std::fs::rename(&index, index.with_file_name("moved")).unwrap();
    // If it can't be given what it left, it is not started on what it does not find them in.
    let lock = home.file("gateways/openclaw/state-owner.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let told = update(&home, &["--rollback"]).fails(1);
    assert!(told.stderr.contains("left can't be put back"), "{told:?}");
    serves(&home, &second);
    std::fs::remove_dir(&lock).unwrap();
    let told = update(&home, &["--rollback"]).ok();
    assert!(told.stderr.contains("before that version was put in use"), "{told:?}");
    serves(&home, &first);
    assert_eq!(remembered(&home), "one");
    let derived = std::fs::read_to_string(home.file("gateways/openclaw/openclaw.json")).unwrap();
    assert!(derived.contains("\"list\""), "{derived}");
    is_tidy(&home);
    assert!(update(&home, &[]).ok().stderr.contains("it was rolled back"));
    // Forward again, and back where nothing was moved: what was said since stays.
    update(&home, &["--retry"]).ok();
    serves(&home, &second);
    remember(&home, "three");
    update(&home, &["--rollback"]).ok();
    serves(&home, &first);
    assert_eq!(remembered(&home), "three");
}

#[test]
fn what_fails_its_trial_never_gets_near_the_one_that_serves() {
    let upstream = Upstream::built(Era::Old);
    let home = running(&upstream);
    let first = upstream.head();
    let process = serves(&home, &first);
    for (step, how, doubtful, word) in [
        ("start", "exit:3", false, "it ended with exit code 3: told to end with 3"),
        ("start", "crash", true, "it was ended by SIGKILL"),
        ("start", "hang", true, "it was not ready within 6 seconds"),
        ("health", "never", true, "it was not ready within 6 seconds"),
        ("health", "impostor", false, "it answers HTTP 200 without the token where 401 is due"),
    ] {
        let commit = upstream.fault(step, how);
        if doubtful {
            // It may have been the machine's fault, once.
            let told = update(&home, &[]).fails(1);
            assert!(told.stderr.contains(word) && told.stderr.contains("the next flock update"), "{told:?}");
            assert!(!told.stderr.contains("--retry"), "{told:?}");
            assert_eq!(checked(&home, &[])["state"], "available", "{step} {how}");
            assert_eq!((serves(&home, &first), versions(&home)), (process, 2), "it need not be made again");
        }
        let told = update(&home, &[]).fails(1);
        for word in [word, "is in use as before", "--retry", &first[..12]] {
            assert!(told.stderr.contains(word), "{step} {how}, {word}: {told:?}");
        }
        assert_eq!(serves(&home, &first), process, "{step} {how}");
        let told = checked(&home, &[]);
        assert_eq!((&told["state"], &told["wanted"]["commit"]), (&json!("failed"), &json!(commit)));
        assert!(update(&home, &[]).ok().stderr.contains("is passed over"));
        assert_eq!(versions(&home), 1, "what failed is removed");
        is_tidy(&home);
    }
    // A version that does not take the configuration is not even started.
    let gateway = std::fs::read_to_string(upstream.root().join("src/gateway.mjs")).unwrap();
    upstream.write("src/gateway.mjs", &gateway.replace(r#""session", "#, ""));
    upstream.mend();
    let told = update(&home, &[]).fails(1);
    assert!(told.stderr.contains("Unrecognized key: \"session\""), "{told:?}");
    assert_eq!(serves(&home, &first), process);
    upstream.write("src/gateway.mjs", &gateway);
    let commit = upstream.mend();
    update(&home, &[]).ok();
    serves(&home, &commit);
}

#[test]
fn what_fails_after_the_swap_is_taken_back_with_its_state() {
    let upstream = Upstream::built(Era::New);
    let home = running(&upstream);
    let first = upstream.head();
    remember(&home, "one");
    for how in ["exit:3", "exit:78", "crash", "sick", "hang"] {
        let commit = upstream.fault("after-swap", how);
        let told = update(&home, &[]).fails(1);
        for word in ["did not get healthy", "serves again", "--retry"] {
            assert!(told.stderr.contains(word), "{how}, {word}: {told:?}");
        }
        serves(&home, &first);
        assert_eq!(remembered(&home), "one", "{how}");
        assert_eq!(checked(&home, &[])["failed"]["version"], "2026.9.6", "{how}");
        assert!(update(&home, &[]).ok().stderr.contains(&commit[..12]));
        assert_eq!(versions(&home), 1, "what failed is removed");
        is_tidy(&home);
    }
    assert!(record(&home)["replaces"].is_null(), "what failed is not what was before");
    let commit = upstream.mend();
    update(&home, &[]).ok();
    serves(&home, &commit);
    assert_eq!(record(&home)["replaces"], format!("2026.9.6-{}", &first[..12]));
}

#[test]
fn killed_anywhere_the_one_that_serves_goes_on_and_the_next_update_ends_it() {
    for (step, how) in
        [("install", "hang-once"), ("build", "hang-once"), ("version", "hang-once"), ("start", "hang")]
    {
        let is_of_build = matches!(step, "install" | "build");
        let upstream = if is_of_build { Upstream::new(Era::Old) } else { Upstream::built(Era::Old) };
        let home = running(&upstream);
        let first = upstream.head();
        let process = serves(&home, &first);
        upstream.fault(step, how);
        let mut child =
            home.command().arg("update").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let left = hanging(&home);
        child.kill().unwrap();
        child.wait().unwrap();
        gone(&left);
        assert_eq!(serves(&home, &first), process, "{step}");
        if how == "hang" {
            // Nobody has seen it fail: it is tried again.
            assert!(update(&home, &[]).fails(1).stderr.contains("within 6 seconds"));
            upstream.mend();
        }
        update(&home, &[]).ok();
        serves(&home, &upstream.head());
        is_tidy(&home);
    }
}

#[test]
fn killed_between_the_swap_and_the_restart_it_is_ended_by_the_next_update() {
    // One that is healthy then, and one that is not.
    for fault in [None, Some("exit:3")] {
        let upstream = Upstream::built(Era::Old);
        let home = running(&upstream);
        let (first, before) = (upstream.head(), current(&home));
        let process = serves(&home, &first);
        let second = match fault {
            Some(how) => upstream.fault("after-swap", how),
            None => upstream.mend(),
        };
        home.flock(["stop"]).ok();
        update(&home, &[]).ok();
        let after = current(&home);
        let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let point = |path: &std::path::Path| {
            std::fs::remove_file(home.file("openclaw")).unwrap();
            std::os::unix::fs::symlink(path, home.file("openclaw")).unwrap();
        };
        point(&before);
        home.flock(["start"]).ok();
        assert_ne!(serves(&home, &first), process);
        // As an install leaves it, which restarts nothing.
        point(&after);
        assert!(update(&home, &[]).ok().stderr.contains(&format!("still runs as {}", name(&before))));
        assert_eq!(serving(&home).unwrap().0, first[..12]);
        point(&before);
        let underway = json!({"way": "update", "from": name(&before), "to": name(&after)});
        std::fs::write(home.file("gateways/openclaw/underway.json"), underway.to_string()).unwrap();
        point(&after);
        assert_eq!(checked(&home, &[])["interrupted"], json!(true));
        assert!(home.flock(["doctor"]).stdout.contains("was interrupted before that version was healthy"));
        let (serves_still, _) = serving(&home).unwrap();
        assert_eq!(serves_still, first[..12], "nobody restarts it but who goes on");
        if fault.is_none() {
            assert!(update(&home, &[]).ok().stderr.contains("going on with the interrupted change"));
            let served = serves(&home, &second);
            // It serves by then, since somebody has restarted it: nobody's turns are broken off.
            std::fs::write(home.file("gateways/openclaw/underway.json"), underway.to_string()).unwrap();
            assert!(update(&home, &[]).ok().stderr.contains("is healthy"));
            assert_eq!(serves(&home, &second), served);
            assert_eq!(checked(&home, &[])["interrupted"], json!(false));
            // Killed while it was taken back: the link is the old one's, and the new one runs.
            let mut underway = underway;
            underway["back"] = json!(true);
            std::fs::write(home.file("gateways/openclaw/underway.json"), underway.to_string()).unwrap();
            point(&before);
            assert_eq!(checked(&home, &[])["interrupted"], json!(true));
            let told = home.flock(["doctor"]).stdout;
            assert!(
                told.contains(&format!("going back to OpenClaw {} was interrupted", name(&before))),
                "{told}"
            );
            upstream.branch("before", &first);
            update(&home, &["--ref", "before"]).ok();
            serves(&home, &first);
            assert_eq!(checked(&home, &[])["interrupted"], json!(false));
        } else {
            let told = update(&home, &[]).fails(1);
            assert!(told.stderr.contains("serves again"), "{told:?}");
            serves(&home, &first);
        }
        is_tidy(&home);
    }
}

#[test]
fn what_has_served_since_is_not_taken_back_when_it_fails_later() {
    let upstream = Upstream::built(Era::Old);
    let home = running(&upstream);
    let first = upstream.head();
    let before = current(&home);
    let second = upstream.mend();
    update(&home, &[]).ok();
    let process = serves(&home, &second);
    // Killed after the swap; it was started all the same, and serves. Then something of it breaks.
    let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let underway = json!({"way": "update", "from": name(&before), "to": name(&current(&home))});
    std::fs::write(home.file("gateways/openclaw/underway.json"), underway.to_string()).unwrap();
    remember(&home, "two");
    std::fs::write(home.file("openclaw/fault.json"), r#"{"start": "exit:3"}"#).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    wait_until("its end has been noticed", LONG, || {
        let state = home.flock(["status", "--json"]).json()["openclaw"]["state"].clone();
        (!process.is_alive() && state != "healthy").then_some(()).ok_or(state.to_string())
    });
    let told = update(&home, &[]).fails(1);
    for word in ["has served since it was put in use", "told to end with 3", "flock update --rollback"] {
        assert!(told.stderr.contains(word), "{word}: {told:?}");
    }
    assert_eq!((&record(&home)["commit"], remembered(&home)), (&json!(second), "two".to_owned()));
    let told = checked(&home, &[]);
    assert_eq!((&told["interrupted"], &told["failed"]), (&json!(false), &Value::Null));
    update(&home, &["--rollback"]).ok();
    serves(&home, &first);
    assert_eq!(remembered(&home), "two");
}

#[test]
fn stopped_during_its_restart_a_version_is_not_blamed_and_the_next_update_ends_the_change() {
    let upstream = Upstream::built(Era::Old);
    let home = running(&upstream);
    let commit = upstream.fault("after-swap", "hang");
    let child = home.command().arg("update").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the new version is started", LONG, || {
        let written = std::fs::read_to_string(home.file("logs/openclaw.log")).unwrap_or_default();
        if written.contains("hanging ") { Ok(()) } else { Err(told(&home)) }
    });
    home.flock(["stop"]).ok();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("was stopped meanwhile") && !said.contains("--retry"), "{said}");
    let told = checked(&home, &[]);
    assert_eq!((&told["failed"], &told["interrupted"]), (&Value::Null, &json!(true)));
    // Nothing runs, so there is nothing to prove.
    update(&home, &[]).ok();
    assert_eq!(record(&home)["commit"], json!(commit));
    assert_eq!(checked(&home, &[])["interrupted"], json!(false));
    is_tidy(&home);
}

/// Runs `init` for OpenClaw again.
fn init(home: &TempHome, more: &[&str]) -> Run {
    home.flock([&["init", "--yes", "--no-images", "--gateway", "openclaw"], more].concat())
}

#[test]
fn an_init_where_a_version_serves_tries_the_newer_one_first_and_restarts() {
    let upstream = Upstream::built(Era::Old);
    let home = running(&upstream);
    let first = upstream.head();
    let process = serves(&home, &first);
    init(&home, &[]).ok();
    assert_eq!(serves(&home, &first), process, "there is nothing new");
    for (step, words) in [
        ("start", &["is not put in use: it ended with exit code 3", "is in use as before"][..]),
        ("after-swap", &["did not get healthy", "serves again"]),
    ] {
        let commit = upstream.fault(step, "exit:3");
        let told = init(&home, &[]).fails(1);
        for word in words {
            assert!(told.stderr.contains(word), "{step}, {word}: {told:?}");
        }
        serves(&home, &first);
        // It is passed over from then on, as by an update.
        let told = init(&home, &["--ref", "main"]).ok();
        assert!(told.stderr.contains(&format!("{} of main is passed over", &commit[..12])), "{told:?}");
        serves(&home, &first);
        assert_eq!(versions(&home), 1, "what failed is removed");
        is_tidy(&home);
    }
    let second = upstream.mend();
    let told = init(&home, &[]).ok();
    assert!(told.stderr.contains("is in use; flock update --rollback goes back to"), "{told:?}");
    serves(&home, &second);
    assert!(log(&home).contains("a trial"), "{}", log(&home));
    let third = upstream.mend();
    let told = init(&home, &["--ref", &third, "--json"]).ok().json();
    assert_eq!(told["openclaw"]["commit"], json!(third));
    serves(&home, &third);
    assert_eq!(record(&home)["replaces"], format!("2026.2.9-{}", &second[..12]));
    assert_eq!(versions(&home), 2, "only the one before stays");
    // What was rolled back does not come back by itself.
    update(&home, &["--rollback"]).ok();
    serves(&home, &second);
    upstream.tag("third", &third);
    assert!(init(&home, &["--ref", "third"]).ok().stderr.contains("it was rolled back"));
    serves(&home, &second);
}

#[test]
fn where_nothing_runs_it_is_tried_and_swapped_and_the_next_start_takes_it() {
    let upstream = Upstream::built(Era::New);
    let home = team(&upstream);
    upstream.fault("start", "exit:3");
    update(&home, &[]).fails(1);
    let commit = upstream.mend();
    let told = update(&home, &["--json"]).ok().json();
    assert_eq!((&told["state"], &told["serves"]), (&json!("updated"), &json!(false)));
    assert!(log(&home).contains("a trial"));
    assert!(serving(&home).is_none());
    home.flock(["start"]).ok();
    wait_until("OpenClaw serves", LONG, || serving(&home).ok_or_else(|| self::told(&home)));
    serves(&home, &commit);
}

#[test]
fn of_two_updates_at_once_one_is_refused_and_the_other_ends() {
    let upstream = Upstream::new(Era::Old);
    let home = running(&upstream);
    let first = upstream.head();
    upstream.fault("build", "hang-once");
    let mut child = home.command().arg("update").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let left = hanging(&home);
    for line in [&["update"][..], &["update", "--rollback"]] {
        let told = home.flock(line).fails(5);
        assert!(told.stderr.contains("another flock is installing"), "{told:?}");
    }
    serves(&home, &first);
    child.kill().unwrap();
    child.wait().unwrap();
    gone(&left);
    let mut both: Vec<_> = (0..2)
        .map(|_| home.command().arg("update").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    let mut codes: Vec<Option<i32>> = both.iter_mut().map(|child| child.wait().unwrap().code()).collect();
    codes.sort();
    assert!(codes == [Some(0), Some(5)] || codes == [Some(0), Some(0)], "{codes:?}");
    serves(&home, &upstream.head());
}
