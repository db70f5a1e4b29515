//! A disk that fails to read for a while: that is said, nothing is taken for damaged, and all is as it should be once it
//! reads again, without a restart.

use std::path::PathBuf;
use std::process::Command;

use flock::supervise::gateway_client::Call;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::storage::{ROUNDS, ask, is_settled, is_shown_once, running, slowly, store, with_agent};
use crate::support::docker::block_on;
use crate::support::home::{Run, TempHome, finish};
use crate::support::preload;
use crate::support::wait_until;
use crate::team::cli::Follower;
use crate::team::stage::{LIMIT, Served, log_text, said, transcripts, until_said};

/// The files of the database.
const DATABASE: &[&str] = &["/data/flock.db", "/data/flock.db-wal"];
const TRANSCRIPTS: &[&str] = &[".jsonl"];

/// A disk that fails to read for the programs that are started on it.
struct Disk {
    library: PathBuf,
    list: PathBuf,
}

impl Disk {
    /// `None` where nothing compiles C.
    fn of(home: &TempHome) -> Option<Self> {
        let library = preload::library("faults/read_errors.c", &home.outside())?;
        Some(Self { library, list: home.outside().join("unreadable") })
    }

    fn on(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.library).env("READ_ERRORS", &self.list);
        command
    }

    /// Runs the binary on it.
    fn flock(&self, home: &TempHome, args: &[&str]) -> Run {
        finish(self.on(home.command()).args(args))
    }

    /// It fails to read files whose paths end so.
    fn fails(&self, endings: &[&str]) {
        let draft = self.list.with_extension("new");
        std::fs::write(&draft, endings.join("\n")).unwrap();
        std::fs::rename(draft, &self.list).unwrap();
    }

    fn works(&self) {
        std::fs::remove_file(&self.list).unwrap();
    }
}

/// Stops what a test started, also where it failed.
struct Stops<'h>(&'h TempHome);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.flock(["stop"]);
    }
}

/// What a client of HTTP gets that posts, where that is refused: the status, when to come back, and the error's word.
fn refusal(home: &TempHome, text: &str) -> Option<(u16, Option<String>, String)> {
    block_on(async {
        let call = Call::post("/api/channels/work/messages").json(&json!({"content": text})).unwrap();
        let answer = home.owner().send(call, LIMIT).await.unwrap();
        let (status, after) = (answer.status(), answer.header("retry-after").map(str::to_owned));
        let body: Value = answer.json(LIMIT).await.unwrap();
        (status >= 400)
            .then(|| (status, after, body["error"]["code"].as_str().unwrap_or_default().to_owned()))
    })
}

fn check(run: &Run, name: &str) -> Value {
    let found = run.json();
    let checks = found["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{found:#}")).clone()
}

/// That nobody took it for damage.
fn is_left_alone(home: &TempHome) {
    let kept = std::fs::read_dir(home.file("data")).unwrap().flatten();
    let aside: Vec<_> =
        kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("damaged-")).collect();
    assert!(aside.is_empty(), "{aside:?}");
}

fn is_unhealthy(home: &TempHome) {
    wait_until("the gateway says that it is unhealthy", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        let gateway = run.json()["gateway"].clone();
        let problem = gateway["problem"].as_str().unwrap_or_default();
        let is_said = gateway["healthy"] == false && problem.contains("the database can't be read");
        if is_said && run.code == 1 { Ok(()) } else { Err(format!("{run:?}\n{}", log_text(home))) }
    });
}

#[test]
fn what_could_not_be_read_is_settled_without_a_restart_and_never_taken_for_damage() {
    let home = with_agent(TempHome::new().init());
    let Some(disk) = Disk::of(&home) else { return };
    let served = Served::start_as(&home, disk.on(home.command()));
    let mut tasks = Vec::new();
    for round in 1.. {
        home.flock(["channel", "post", "work", &format!("@coder {}", slowly(round))]).ok();
        tasks.push(ask(&home, &slowly(round)));
        wait_until("both turns run", LIMIT, || match running(&home) {
            2 => Ok(()),
            count => Err(format!("{count}\n{}", log_text(&home))),
        });
        disk.fails(DATABASE);
        let has_answered =
            |agent: &str| transcripts(&home, agent).join("").matches("at last").count() >= tasks.len();
        if !has_answered("coder") && !has_answered("tester") {
            break;
        }
        disk.works();
        assert!(round < ROUNDS, "the turns always ended too early");
    }
    let refused = home.flock(["channel", "read", "work"]).fails(10);
    assert!(!refused.stderr.contains("damaged"), "{refused:?}");
    is_unhealthy(&home);
    // What needs nothing that the gateway does not still have in its memory is taken, all else is refused.
    for number in 0..20 {
        let run = home.flock(["channel", "post", "work", &format!("taken or refused, {number:02}")]);
        assert!(run.code == 0 || run.code == 10, "{run:?}");
    }
    let doctor = home.flock(["doctor"]).fails(1);
    assert!(doctor.stdout.contains("the database can't be read"), "{doctor:?}");
    assert!(!doctor.stdout.contains("is damaged"), "{doctor:?}");
    // The turns end meanwhile, and nothing of that can be looked up.
    wait_until("both have answered", LIMIT * 2, || {
        let both = ["coder", "tester"].map(|agent| transcripts(&home, agent).join(""));
        let count = both.iter().filter(|text| text.matches("at last").count() >= tasks.len()).count();
        if count == 2 { Ok(()) } else { Err(format!("{both:?}\n{}", log_text(&home))) }
    });
    is_unhealthy(&home);

    disk.works();
    is_settled(&home);
    for id in &tasks {
        let task = block_on(store(&home).tasks().find(id)).unwrap().unwrap();
        assert!(task.state.is_final(), "{task:?}");
    }
    home.flock(["channel", "post", "work", "@coder are you there?"]).ok();
    until_said(&home, "work", "coder", "here I am");
    is_settled(&home);
    is_shown_once(&home);
    home.flock(["audit", "--verify"]).ok();
    assert!(!log_text(&home).contains("is damaged"), "{}", log_text(&home));
    is_left_alone(&home);
    served.stop();
}

#[test]
fn who_asks_meanwhile_is_told_to_come_back() {
    let home = with_agent(TempHome::new().init());
    let Some(disk) = Disk::of(&home) else { return };
    // One that has just been started has next to nothing in its memory.
    let _served = Served::start_as(&home, disk.on(home.command()));
    disk.fails(DATABASE);
    wait_until("a client is told to come back", LIMIT, || {
        let refused = refusal(&home, "taken or refused");
        let expected = Some((503, Some("5".to_owned()), "unreadable".to_owned()));
        if refused == expected { Ok(()) } else { Err(format!("{refused:?}\n{}", log_text(&home))) }
    });
    is_unhealthy(&home);
    let refused = home.flock(["chat", "coder", "are you there?"]).fails(10);
    assert!(!refused.stderr.contains("damaged"), "{refused:?}");
    disk.works();
    wait_until("it is healthy again", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}\n{}", log_text(&home))) }
    });
    assert_eq!(home.flock(["chat", "coder", "are you there?"]).ok().stdout, "here I am\n");
    home.flock(["channel", "post", "work", "@coder are you there?"]).ok();
    until_said(&home, "work", "coder", "here I am");
}

#[test]
fn who_follows_a_channel_waits_while_the_database_can_not_be_read() {
    let home = TempHome::new().init();
    let Some(disk) = Disk::of(&home) else { return };
    home.flock(["channel", "create", "work", "--topic", "x"]).ok();
    home.flock(["channel", "post", "work", "one"]).ok();
    let told = home.outside().join("told");
    let mut command = disk.on(home.command());
    command.stderr(std::fs::File::create(&told).unwrap());
    let follower = Follower::of(command, &["work", "--after", "1"]);
    assert_eq!(follower.next().1, "one");
    disk.fails(DATABASE);
    home.flock(["channel", "post", "work", "two"]).ok();
    let is_told = |word: &str| {
        wait_until(word, LIMIT, || {
            let text = std::fs::read_to_string(&told).unwrap();
            if text.contains(word) { Ok(()) } else { Err(text) }
        });
    };
    is_told("waiting: ");
    disk.works();
    let (number, text) = follower.next();
    assert_eq!(text, "two");
    home.flock(["channel", "post", "work", "three"]).ok();
    assert_eq!(follower.next(), (number + 1, "three".to_owned()), "each comes once");
}

#[test]
fn a_part_that_can_not_be_read_is_said_and_the_rest_goes_on() {
    let home = with_agent(TempHome::new().init());
    let Some(disk) = Disk::of(&home) else { return };
    let long = "needle ".repeat(3_000);
    home.flock_with_input(["channel", "post", "work", "-"], &long).ok();
    for number in 0..40 {
        home.flock(["channel", "post", "work", &format!("newer, {number:02}")]).ok();
    }
    block_on(store(&home).settle()).unwrap();
    // On a page that has nothing but this text.
    let bytes = std::fs::read(home.file("data/flock.db")).unwrap();
    let bad = bytes.windows(7).rposition(|part| part == b"needle ").unwrap() - 4096;
    let _served = Served::start_as(&home, disk.on(home.command()));
    home.flock(["channel", "post", "work", "@coder are you there, first?"]).ok();
    until_said(&home, "work", "coder", "here I am");
    is_settled(&home);
    disk.fails(&[&format!("/data/flock.db@{bad}")]);
    // What is new has a connection forget what it read before.
    let refused = wait_until("it can't be read", LIMIT, || {
        home.flock(["channel", "post", "work", "newer still"]).ok();
        let run = home.flock(["channel", "read", "work", "-n", "200"]);
        if run.code == 10 { Ok(run) } else { Err(format!("{}", run.code)) }
    });
    assert!(!refused.stderr.contains("damaged"), "{refused:?}");
    let problem = |run: &Run| run.json()["gateway"]["problem"].as_str().unwrap_or_default().to_owned();
    wait_until("it says that a part can't be read", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        if problem(&run).contains("a part of it") {
            Ok(())
        } else {
            Err(format!("{run:?}\n{}", log_text(&home)))
        }
    });
    home.flock(["channel", "post", "work", "@coder are you there, second?"]).ok();
    wait_until("it has answered", LIMIT, || {
        let run = home.flock(["channel", "read", "work", "--json", "-n", "2"]);
        if run.stdout.contains("here I am") { Ok(()) } else { Err(format!("{run:?}\n{}", log_text(&home))) }
    });
    let log = log_text(&home);
    assert!(log.matches("a part of it").count() < 50, "it is not said over and over: {log}");
    assert!(problem(&home.flock(["status", "--json"]).fails(1)).contains("a part of it"), "it still says so");
    disk.works();
    wait_until("it is healthy again", LIMIT * 2, || {
        let run = home.flock(["status", "--json"]);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}\n{}", log_text(&home))) }
    });
    assert!(said(&home, "work").iter().any(|(_, text)| text.starts_with("needle needle")));
}

#[test]
fn a_gateway_that_starts_on_a_disk_that_fails_to_read_is_started_again_until_it_reads() {
    let home = with_agent(TempHome::new().init());
    let Some(disk) = Disk::of(&home) else { return };
    let _stops = Stops(&home);
    disk.fails(DATABASE);
    let run = disk.flock(&home, &["start"]).fails(10);
    assert!(run.stderr.contains("its disk fails") && run.stderr.contains("kernel's log"), "{run:?}");
    assert!(!run.stderr.contains("damaged"), "{run:?}");
    disk.works();

    disk.flock(&home, &["start"]).ok();
    home.flock(["channel", "post", "work", "@coder are you there?"]).ok();
    until_said(&home, "work", "coder", "here I am");
    disk.fails(DATABASE);
    let pid = home.flock(["status", "--json"]).json()["gateway"]["pid"].as_i64().unwrap();
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    wait_until("it is said why it does not run", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        let gateway = run.json()["gateway"].clone();
        let reason = gateway["reason"].as_str().unwrap_or_default();
        let is_said = gateway["state"] == "backing-off" && reason.contains("its disk fails");
        if is_said && gateway["restarts"].as_u64() > Some(1) { Ok(()) } else { Err(format!("{run:?}")) }
    });
    assert!(
        !home.file("run/gateway.breaker.json").exists() || crashes(&home) == 1,
        "it is tried again and again"
    );
    let refused = disk.flock(&home, &["channel", "post", "work", "refused"]).fails(10);
    assert!(!refused.stderr.contains("damaged"), "{refused:?}");
    // Whoever can read it can also write it down for later.
    home.flock(["channel", "post", "work", "@coder are you there, later?"]).ok();

    disk.works();
    wait_until("it is healthy again", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}")) }
    });
    wait_until("it has answered again", LIMIT, || {
        let all = said(&home, "work");
        let count = all.iter().filter(|(by, text)| by == "coder" && text == "here I am").count();
        if count == 2 { Ok(()) } else { Err(format!("{all:?}")) }
    });
    is_shown_once(&home);
    is_left_alone(&home);
}

fn crashes(home: &TempHome) -> u64 {
    home.flock(["status", "--json"]).json()["gateway"]["crashes"].as_u64().unwrap()
}

#[test]
fn neither_doctor_nor_restore_takes_a_disk_that_fails_to_read_for_damage() {
    let home = with_agent(TempHome::new().init());
    let Some(disk) = Disk::of(&home) else { return };
    home.flock(["channel", "post", "work", "kept"]).ok();
    let made = store(&home).back_up(&flock::home::Home::new(home.path(), None), 1_000).unwrap();
    home.flock(["channel", "post", "work", "said after the backup"]).ok();
    let before = std::fs::read(home.file("data/flock.db")).unwrap();

    disk.fails(DATABASE);
    for args in [&["doctor", "--json"][..], &["doctor", "--json", "--deep"], &["doctor", "--json", "--fix"]] {
        let found = check(&disk.flock(&home, args).fails(1), "database");
        let message = found["message"].as_str().unwrap();
        assert!(message.contains("its disk fails") && !message.contains("damaged"), "{found}");
        assert!(found["mend"].as_str().unwrap().contains("kernel's log"), "{found}");
        assert!(found["fixed"].is_null(), "{found}");
    }
    let run = disk.flock(&home, &["restore", "--yes"]).fails(10);
    assert!(run.stderr.contains("its disk fails") && run.stderr.contains("kernel's log"), "{run:?}");
    // A backup that can't be read is not passed over for an older one or none.
    let backup = format!("/{}", made.path.file_name().unwrap().to_str().unwrap());
    disk.fails(&[&backup]);
    let run = disk.flock(&home, &["restore", "--yes"]).fails(10);
    assert!(run.stderr.contains(&backup) && run.stderr.contains("its disk fails"), "{run:?}");
    // Nor is the end of the audit taken for cut off that can't be read.
    disk.fails(&["/data/audit.head", "/data/audit.base"]);
    for args in [&["audit", "--verify"][..], &["channel", "post", "work", "refused"]] {
        let run = disk.flock(&home, args).fails(10);
        assert!(run.stderr.contains("audit.head") && run.stderr.contains("kernel's log"), "{run:?}");
    }
    let found = check(&disk.flock(&home, &["doctor", "--json"]).fails(1), "audit");
    assert!(found["mend"].as_str().unwrap().contains("kernel's log"), "{found}");
    disk.works();
    home.flock(["audit", "--verify"]).ok();

    is_left_alone(&home);
    assert!(std::fs::read(home.file("data/flock.db")).unwrap() == before, "nothing of it was changed");
    let found = check(&disk.flock(&home, &["doctor", "--json", "--deep"]), "database");
    assert_eq!(found["state"], "ok", "{found}");
    let all = said(&home, "work");
    assert!(all.iter().any(|(_, text)| text == "said after the backup"), "{all:?}");
}

#[test]
fn a_transcript_that_can_not_be_read_for_a_while_costs_nothing() {
    let home = with_agent(TempHome::new().init());
    let Some(disk) = Disk::of(&home) else { return };
    let served = Served::start_as(&home, disk.on(home.command()));
    home.flock(["chat", "coder", "are you there, first?"]).ok();
    home.flock(["channel", "post", "work", "@coder are you there?"]).ok();
    until_said(&home, "work", "coder", "here I am");
    is_settled(&home);

    disk.fails(TRANSCRIPTS);
    let refused = home.flock(["chat", "coder", "are you there, second?"]).fails(10);
    assert!(refused.stderr.contains("the conversation can't be read"), "{refused:?}");
    assert!(refused.stderr.contains("kernel's log"), "{refused:?}");
    home.flock(["channel", "post", "work", "@coder are you there, third?"]).ok();
    wait_until("it is said that it can't answer", LIMIT, || {
        let all = said(&home, "work");
        let is_said = all.iter().any(|(by, text)| by == "system" && text.contains("coder could not answer"));
        if is_said { Ok(()) } else { Err(format!("{all:?}\n{}", log_text(&home))) }
    });
    let found = check(&disk.flock(&home, &["doctor", "--json"]).fails(1), "sessions");
    assert!(found["mend"].as_str().unwrap().contains("kernel's log"), "{found}");

    disk.works();
    wait_until("it has answered", LIMIT, || {
        let all = said(&home, "work");
        let count = all.iter().filter(|(by, text)| by == "coder" && text == "here I am").count();
        if count == 2 { Ok(()) } else { Err(format!("{all:?}\n{}", log_text(&home))) }
    });
    is_settled(&home);
    is_shown_once(&home);
    assert_eq!(home.flock(["chat", "coder", "are you there, fourth?"]).ok().stdout, "here I am\n");

    // One that is gone is begun anew, and holds nothing up.
    for entry in std::fs::read_dir(home.file("agents/coder/sessions")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(home.flock(["chat", "coder", "are you there, fifth?"]).ok().stdout, "here I am\n");
    home.flock(["channel", "post", "work", "@coder are you there, sixth?"]).ok();
    wait_until("it has answered once more", LIMIT, || {
        let all = said(&home, "work");
        let count = all.iter().filter(|(by, text)| by == "coder" && text == "here I am").count();
        if count == 3 { Ok(()) } else { Err(format!("{all:?}\n{}", log_text(&home))) }
    });
    is_settled(&home);
    served.stop();
}
