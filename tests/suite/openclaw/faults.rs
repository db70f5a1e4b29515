//! Every point where an install can fail or be killed: what was in use stays, and the same command goes on.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use flock::home::lock::Lock;
use flock::process::ProcessId;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::install::{current, folders, init, line, log, record};
use crate::support::home::TempHome;
use crate::support::openclaw::{Era, Upstream};
use crate::support::wait_until;

const LONG: Duration = Duration::from_secs(120);

fn spawn(home: &TempHome, repository: &str) -> Child {
    home.command().args(line(repository, "main")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for `hanging PID…` in the build log, and says which processes hang.
pub fn hanging(home: &TempHome) -> Vec<ProcessId> {
    let written = wait_until("a step hangs", LONG, || {
        let written = log(home);
        written.lines().rev().find_map(|line| line.strip_prefix("hanging ").map(str::to_owned)).ok_or(written)
    });
    written.split(' ').filter_map(|pid| ProcessId::of(pid.parse().unwrap())).collect()
}

pub fn gone(processes: &[ProcessId]) {
    assert!(!processes.is_empty());
    wait_until("the build's processes end", LONG, || {
        let left: Vec<String> =
            processes.iter().filter(|process| process.is_alive()).map(ToString::to_string).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    });
}

#[test]
fn a_step_that_fails_leaves_what_was_in_use_and_shows_its_last_lines() {
    let upstream = Upstream::new(Era::Old);
    let home = TempHome::new();
    init(&home, &upstream.path(), "main").ok();
    let good = record(&home);
    for (step, how, word) in [
        ("install", "fail", "install is told to fail"),
        ("build", "fail", "build is told to fail"),
        ("ui", "fail", "ui is told to fail"),
        ("version", "exit:7", "ended with code 7"),
        ("version", "crash", "was killed"),
    ] {
        upstream.fault(step, how);
        let told = init(&home, &upstream.path(), "main").fails(1);
        assert!(told.stderr.contains(word) && told.stderr.contains("build-openclaw.log"), "{step}: {told:?}");
        assert_eq!(record(&home), good, "{step}");
        if how == "fail" {
            assert!(log(&home).contains(&format!("{step} line 1\n")), "all of it is in the log");
            assert!(
                !told.stderr.contains(&format!("{step} line 1\n")),
                "and only its end is shown: {told:?}"
            );
            assert!(told.stderr.contains(&format!("{step} line 40\n")), "{told:?}");
        }
    }
    let commit = upstream.mend();
    init(&home, &upstream.path(), "main").ok();
    assert_eq!(record(&home)["commit"], commit);
    let versions: Vec<String> = folders(&home).into_iter().filter(|name| name.starts_with("2026")).collect();
    assert_eq!(versions.len(), 2, "{versions:?}");
}

#[test]
fn what_a_build_prints_never_reaches_a_terminal_raw() {
    let upstream = Upstream::new(Era::Old);
    upstream.write("fault.json", r#"{"ui": "garbage", "version": "exit:1", "build": "garbage"}"#);
    upstream.package(|package| package["scripts"]["ui:build"] = "node scripts/step.mjs ui; exit 1".into());
    upstream.commit("Print what no terminal should get");
    let home = TempHome::new();
    let told = init(&home, &upstream.path(), "main").fails(1);
    assert!(told.stderr.contains("31mtext"), "{told:?}");
    assert!(!told.stderr.contains('\u{1b}') && !told.stderr.contains('\u{7}'), "{told:?}");
}

#[test]
fn a_kill_at_each_step_ends_the_build_and_the_same_command_goes_on() {
    for (step, again) in [("install", 2), ("build", 1), ("ui", 1), ("version", 1)] {
        let upstream = Upstream::new(Era::Old);
        let commit = upstream.fault(step, "hang-once");
        let home = TempHome::new();
        let mut child = spawn(&home, &upstream.path());
        let processes = hanging(&home);
        child.kill().unwrap();
        child.wait().unwrap();
        gone(&processes);
        assert!(!home.file("openclaw").exists(), "{step}");
        let told = init(&home, &upstream.path(), "main").ok();
        assert!(told.stderr.contains("going on with the interrupted install"), "{step}: {told:?}");
        assert_eq!(record(&home)["commit"], commit);
        assert_eq!(log(&home).matches("$ npm install").count(), again, "{step}: {}", log(&home));
        assert_eq!(folders(&home).len(), 1, "{step}");
    }
}

#[test]
fn ctrl_c_ends_the_whole_build() {
    let upstream = Upstream::new(Era::Old);
    upstream.fault("build", "hang");
    let home = TempHome::new();
    let mut child = spawn(&home, &upstream.path());
    let processes = hanging(&home);
    assert_eq!(processes.len(), 2, "the script and its child");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    wait_until("it ends", LONG, || child.try_wait().unwrap().ok_or_else(|| "it runs on".to_owned()));
    gone(&processes);
}

#[test]
fn killed_at_any_moment_the_link_is_nothing_or_a_whole_version() {
    let upstream = Upstream::new(Era::Old);
    let home = TempHome::new();
    for n in 0..14_u64 {
        if n % 5 == 4 {
            upstream.mend();
        }
        let mut child = spawn(&home, &upstream.path());
        std::thread::sleep(Duration::from_millis(40 + n * 170));
        child.kill().unwrap();
        child.wait().unwrap();
        if home.file("openclaw").symlink_metadata().is_ok() {
            assert!(current(&home).join("dist/gateway.mjs").is_file() && record(&home)["commit"].is_string());
        }
    }
    init(&home, &upstream.path(), "main").ok();
    assert_eq!(record(&home)["commit"], upstream.head());
    assert!(folders(&home).iter().all(|name| !name.starts_with('.')), "{:?}", folders(&home));
}

#[test]
fn a_server_that_says_nothing_can_be_left_and_another_one_taken() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/openclaw.git", silent.local_addr().unwrap());
    let home = TempHome::new();
    let mut child = spawn(&home, &url);
    silent.set_nonblocking(true).unwrap();
    let (mut stream, _) =
        wait_until("it connects", LONG, || silent.accept().map_err(|error| error.to_string()));
    stream.set_nonblocking(false).unwrap();
    let mut first = [0; 3];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"GET");
    child.kill().unwrap();
    child.wait().unwrap();
    let upstream = Upstream::built(Era::Old);
    init(&home, &upstream.path(), "main").ok();
}

#[test]
fn a_repository_with_a_hole_in_it_is_an_error_and_no_version() {
    let upstream = Upstream::built(Era::Old);
    let home = TempHome::new();
    let blob = upstream.repository().revparse_single("HEAD:openclaw.mjs").unwrap().id().to_string();
    let object = upstream.root().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    let kept = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    let told = init(&home, &upstream.path(), "main").fails(1);
    assert!(told.stderr.contains("failed to fetch"), "{told:?}");
    assert!(!home.file("openclaw").exists());
    std::fs::write(&object, kept).unwrap();
    init(&home, &upstream.path(), "main").ok();
}

#[test]
fn one_installs_at_a_time() {
    let upstream = Upstream::built(Era::Old);
    let home = TempHome::new().init();
    let held = Lock::try_acquire(&home.file("run/install.lock")).unwrap();
    let told = init(&home, &upstream.path(), "main").fails(5);
    assert!(told.stderr.contains("another flock is installing"), "{told:?}");
    drop(held);
    init(&home, &upstream.path(), "main").ok();
}
