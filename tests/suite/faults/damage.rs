//! A home that is damaged, incomplete, read-only or a copy: each is said, and brought back where that can be.

use std::path::{Path, PathBuf};
use std::process::Command;

use flock::home::Home;
use flock::process::ProcessId;
use flock::store::Store;
use serde_json::{Value, json};

use crate::support::home::{Run, TempHome, finish, free_port};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, add, said};

/// Stops what a test started, also where it failed.
struct Stops<'h>(&'h TempHome);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.flock(["stop"]);
    }
}

fn with_channel() -> TempHome {
    let home = TempHome::new().init();
    add(
        &home,
        "coder",
        &json!([{"when": "hello", "steps": [{"say": "hello yourself"}]}, {"steps": [{"say": ""}]}]),
    );
    home.flock(["channel", "create", "work", "--topic", "x"]).ok();
    home
}

fn store(home: &TempHome) -> Store {
    Store::open(&Home::new(home.path(), None)).unwrap()
}

fn post(home: &TempHome, text: &str) {
    home.flock(["channel", "post", "work", text]).ok();
}

fn texts(home: &TempHome) -> Vec<String> {
    said(home, "work").into_iter().map(|(_, text)| text).collect()
}

/// Everything that is in the log is in the file after this.
fn fold(home: &TempHome) {
    crate::support::docker::block_on(store(home).settle()).unwrap();
}

/// Overwrites pages in the second half of the database, but for its end.
fn damage(home: &TempHome) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::OpenOptions::new().write(true).open(home.file("data/flock.db")).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in [pages / 2, pages / 2 + 1] {
        file.write_all_at(&[0xA5; 4096], page * 4096).unwrap();
    }
}

fn check(home: &TempHome, args: &[&str], name: &str) -> Value {
    let found = home.flock([&["doctor", "--json"][..], args].concat()).json();
    let checks = found["checks"].as_array().unwrap();
    let bad = checks.iter().find(|check| check["name"] == name && check["state"] == "bad");
    let any = bad.or_else(|| checks.iter().find(|check| check["name"] == name));
    any.unwrap_or_else(|| panic!("no check {name}: {found:#}")).clone()
}

#[test]
fn a_damaged_database_is_said_once_and_brought_back() {
    let home = with_channel();
    let _stops = Stops(&home);
    let long = "a-long-text.".repeat(4_000);
    for number in 0..20 {
        post(&home, &format!("{number} {long}"));
    }
    store(&home).back_up(&Home::new(home.path(), None), 1_000).unwrap();
    post(&home, "said after the backup");
    fold(&home);
    damage(&home);

    let run = home.flock(["start"]).fails(9);
    assert!(run.stderr.contains("is damaged") && run.stderr.contains("flock restore"), "{run:?}");
    assert!(!home.file("run/gateway.breaker.json").exists(), "it is not tried again and again");
    let found = check(&home, &[], "database");
    assert_eq!(found["state"], "bad", "{found}");
    let message = found["message"].as_str().unwrap();
    assert!(message.contains("is damaged") && message.contains("the newest backup is of"), "{message}");
    let deep = check(&home, &["--deep"], "database");
    assert!(deep["message"].as_str().unwrap().contains("can be read up to row"), "{deep}");

    home.flock(["restore"]).fails(2);
    let done = home.flock(["restore", "--yes"]).ok();
    assert!(
        done.stdout.contains("restored the backup of") || done.stderr.contains("restored the backup of"),
        "{done:?}"
    );
    assert_eq!(check(&home, &["--deep"], "database")["state"], "ok");
    let said = texts(&home);
    assert!((0..20).all(|number| said.contains(&format!("{number} {long}"))), "{}", said.len());
    let kept = std::fs::read_dir(home.file("data")).unwrap().flatten();
    let kept = kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("damaged-")).count();
    assert_eq!(kept, 1, "the damaged file is kept");
    home.flock(["start"]).ok();
    post(&home, "and on it goes");
}

#[test]
fn doctor_brings_back_what_it_safely_can() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = with_channel();
    post(&home, "kept");
    store(&home).back_up(&Home::new(home.path(), None), 1_000).unwrap();
    std::fs::remove_file(home.file("data/flock.db")).unwrap();
    std::fs::write(home.file("data/instance"), "").unwrap();
    std::fs::remove_dir(home.file("locales")).ok();
    std::fs::set_permissions(home.file("secrets"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let before = home.flock(["doctor", "--json"]).fails(1).json();
    assert!(before["checks"].as_array().unwrap().iter().all(|check| check["fixed"].is_null()), "{before:#}");
    let fixed = check(&home, &["--fix"], "database");
    assert_eq!(fixed["state"], "ok", "{fixed}");
    assert!(fixed["fixed"].as_str().unwrap().contains("restored the backup"), "{fixed}");
    // One look finds one flaw of the home at a time.
    home.flock(["doctor", "--fix"]);
    assert_eq!(check(&home, &[], "home")["state"], "ok");
    let mode = std::fs::metadata(home.file("secrets")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(texts(&home).contains(&"kept".to_owned()));
    assert!(!std::fs::read_to_string(home.file("data/instance")).unwrap().trim().is_empty());
}

#[test]
fn a_home_without_its_database_is_not_taken_for_a_new_one() {
    let home = with_channel();
    let _stops = Stops(&home);
    home.flock(["start"]).ok();
    home.flock(["chat", "coder", "hello"]).ok();
    home.flock(["stop"]).ok();
    store(&home).back_up(&Home::new(home.path(), None), 1_000).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(home.file(format!("data/flock.db{suffix}"))));
    }
    let run = home.flock(["start"]).fails(9);
    assert!(run.stderr.contains("is gone") && run.stderr.contains("flock restore"), "{run:?}");
    assert!(!home.file("data/flock.db").exists(), "no empty one was put in its place");
    home.flock(["channel", "post", "work", "x"]).fails(9);
    home.flock(["restore", "--yes"]).ok();
    home.flock(["start"]).ok();
    assert_eq!(home.flock(["chat", "coder", "hello"]).ok().stdout, "hello yourself\n");
}

#[test]
fn a_session_that_only_its_transcript_knows_is_taken_up_again() {
    let home = with_channel();
    let _stops = Stops(&home);
    store(&home).back_up(&Home::new(home.path(), None), 1_000).unwrap();
    home.flock(["start"]).ok();
    home.flock(["chat", "coder", "hello"]).ok();
    home.flock(["stop"]).ok();
    let before = home.flock(["session", "list", "--json"]).ok().json();
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(home.file(format!("data/flock.db{suffix}"))));
    }
    let done = home.flock(["restore", "--yes", "--json"]).ok().json();
    assert_eq!(done["sessions"], 1, "{done:#}");
    let keys = |list: &Value| {
        let sessions = list["sessions"].as_array().or_else(|| list.as_array()).unwrap().clone();
        sessions.iter().map(|session| session["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let after = home.flock(["session", "list", "--json"]).ok().json();
    assert_eq!(keys(&after), keys(&before));
}

#[test]
fn a_fifo_in_the_place_of_a_transcript_holds_nothing_up() {
    let home = with_channel();
    let _stops = Stops(&home);
    home.flock(["start"]).ok();
    home.flock(["chat", "coder", "hello"]).ok();
    let folder = home.file("agents/coder/sessions");
    let transcript = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(&transcript).unwrap();
    nix::unistd::mkfifo(&transcript, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let run = home.flock(["chat", "coder", "hello"]);
    assert_ne!(run.code, 0, "{run:?}");
    let found = check(&home, &[], "sessions");
    assert!(found["message"].as_str().unwrap().contains("no regular file"), "{found}");
    let pids = pids(&home);
    home.flock(["stop"]).ok();
    gone(&pids);
}

/// Runs a verb that must end whatever it finds.
fn ends(home: &TempHome, args: &[&str]) -> Run {
    struct Kills(std::process::Child);
    impl Drop for Kills {
        fn drop(&mut self) {
            drop(self.0.kill());
            drop(self.0.wait());
        }
    }
    let texts = ["out", "err"].map(|name| home.outside().join(name));
    let [out, err] = texts.each_ref().map(|path| std::fs::File::create(path).unwrap());
    let mut run = Kills(home.command().args(args).stdout(out).stderr(err).spawn().unwrap());
    let status = wait_until(&format!("{args:?} ends"), LIMIT, || {
        run.0.try_wait().unwrap().ok_or_else(|| "it goes on".to_owned())
    });
    let [stdout, stderr] = texts.map(|path| std::fs::read_to_string(path).unwrap());
    Run { code: status.code().unwrap(), stdout, stderr }
}

#[test]
fn a_fifo_in_the_place_of_the_database_holds_nothing_up() {
    let home = with_channel();
    let _stops = Stops(&home);
    post(&home, "kept");
    fold(&home);
    for name in ["flock.db", "flock.db-wal"] {
        let (path, aside) = (home.file("data").join(name), home.outside().join(name));
        let was_there = std::fs::rename(&path, &aside).is_ok();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let word = format!("{name} can't be opened: it is no regular file");
        ends(&home, &["status"]).fails(4);
        let doctor = ends(&home, &["doctor"]).fails(1);
        assert!(doctor.stdout.contains(&word) && !doctor.stdout.contains("is damaged"), "{doctor:?}");
        for args in [&["start"][..], &["channel", "post", "work", "x"], &["restore", "--yes"]] {
            let run = ends(&home, args).fails(1);
            assert!(run.stderr.contains(&word), "{args:?}: {run:?}");
        }
        ends(&home, &["stop"]).ok();
        std::fs::remove_file(&path).unwrap();
        if was_there {
            std::fs::rename(&aside, &path).unwrap();
        }
    }
    assert!(texts(&home).contains(&"kept".to_owned()));

    home.flock(["start"]).ok();
    let pids = pids(&home);
    let (path, aside) = (home.file("data/flock.db"), home.outside().join("flock.db"));
    std::fs::rename(&path, &aside).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    ends(&home, &["status"]);
    ends(&home, &["doctor"]).fails(1);
    ends(&home, &["stop"]).ok();
    gone(&pids);
}

#[test]
fn a_fifo_in_the_place_of_the_newest_backup_is_passed_over() {
    let home = with_channel();
    let _stops = Stops(&home);
    post(&home, "kept");
    let whole = store(&home).back_up(&Home::new(home.path(), None), 1_000).unwrap();
    let fifo = home.file("backups/flock-daily-2000.db");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(home.file(format!("data/flock.db{suffix}"))));
    }
    ends(&home, &["status"]).fails(4);
    ends(&home, &["start"]).fails(9);
    let doctor = ends(&home, &["doctor"]).fails(1);
    assert!(doctor.stdout.contains("is gone; the newest backup is of"), "{doctor:?}");
    let from = ends(&home, &["restore", "--yes", "--from", fifo.to_str().unwrap()]).fails(1);
    assert!(from.stderr.contains("it is no regular file"), "{from:?}");
    let done = ends(&home, &["restore", "--yes", "--json"]).ok().json();
    assert_eq!(done["backup"], whole.path.to_str().unwrap(), "{done:#}");
    ends(&home, &["start"]).ok();
    ends(&home, &["stop"]).ok();
    assert!(texts(&home).contains(&"kept".to_owned()));
}

/// The supervisor's and the gateway's processes.
fn pids(home: &TempHome) -> Vec<ProcessId> {
    let status = home.flock(["status", "--json"]).json();
    let pid = |part: &str| i32::try_from(status[part]["pid"].as_i64().unwrap()).unwrap();
    ["supervisor", "gateway"].into_iter().filter_map(|part| ProcessId::of(pid(part))).collect()
}

fn gone(pids: &[ProcessId]) {
    wait_until("the processes are gone", LIMIT, || {
        let left: Vec<i32> = pids.iter().filter(|one| one.is_alive()).map(|one| one.pid).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// Runs the binary with another home than the test's own.
fn with_home(home: &TempHome, other: &Path, args: &[&str]) -> Run {
    finish(home.command().arg("--home").arg(other).args(args))
}

#[test]
fn a_copy_of_a_home_has_an_identity_of_its_own_and_leaves_the_first_alone() {
    let home = with_channel();
    let _stops = Stops(&home);
    home.flock(["start"]).ok();
    let first = pids(&home);
    let copy = home.outside().join("copy");
    assert!(Command::new("cp").arg("-a").args([&home.path(), &copy]).status().unwrap().success());
    let _database = home.database().copied_to(&Home::new(copy.clone(), None));
    // It was never started, and is another home all the same.
    with_home(&home, &copy, &["stop"]).ok();
    assert!(first.iter().all(|one| one.is_alive()), "the first one goes on");
    with_home(&home, &copy, &["status"]).fails(4);
    let refused = with_home(&home, &copy, &["start"]);
    assert_ne!(refused.code, 0, "its port is the first one's: {refused:?}");
    let port = free_port().to_string();
    with_home(&home, &copy, &["config", "set", "plugins.entries.flock.config.gateway.port", &port]).ok();
    with_home(&home, &copy, &["start"]).ok();
    let ids =
        [home.path(), copy.clone()].map(|root| std::fs::read_to_string(root.join("data/instance")).unwrap());
    assert_ne!(ids[0].lines().next(), ids[1].lines().next());
    with_home(&home, &copy, &["stop"]).ok();
    assert!(first.iter().all(|one| one.is_alive()), "the first one still goes on");
    home.flock(["status"]).ok();
}

#[test]
fn an_empty_instance_file_costs_nothing_but_the_identity() {
    let home = with_channel();
    let _stops = Stops(&home);
    for text in ["", "\n"] {
        std::fs::write(home.file("data/instance"), text).unwrap();
        let run = home.flock(["start"]).ok();
        assert!(run.stderr.contains("new identity"), "{run:?}");
        home.flock(["chat", "coder", "hello"]).ok();
        home.flock(["stop"]).ok();
    }
}

/// A folder that can't be written for a while.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// `None` where this user may not mount.
    fn make(path: &Path) -> Option<Self> {
        let mount = |args: &[&str]| {
            let run = Command::new("mount").args(args).arg(path).output();
            run.is_ok_and(|output| output.status.success())
        };
        let place = path.to_str().unwrap();
        if !mount(&["--bind", place]) {
            eprintln!("not tested: this user may not mount");
            return None;
        }
        let made = Self(path.to_owned());
        mount(&["-o", "remount,bind,ro"]).then_some(made)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn stop_stops_on_a_disk_that_became_read_only() {
    let home = with_channel();
    home.flock(["start"]).ok();
    let pids = pids(&home);
    let read_only = ReadOnly::make(&home.path());
    if read_only.is_some() {
        let found = check(&home, &[], "disk");
        assert!(found["message"].as_str().unwrap().contains("nothing can be written"), "{found}");
        home.flock(["doctor"]).fails(1);
        assert_eq!(home.flock(["status", "--json"]).fails(1).json()["writable"], false);
    }
    home.flock(["stop"]).ok();
    gone(&pids);
    drop(read_only);
}
