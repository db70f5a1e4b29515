//! `flock channel`, with a gateway and without.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::stage::{LIMIT, Served, add, said, until_said};
use crate::faults::provider::is_at_rest;
use crate::support::home::TempHome;
use crate::support::wait_until;

/// A home with the worker `coder`, which says nothing by itself.
fn quiet() -> TempHome {
    let home = TempHome::new().init();
    add(&home, "coder", &json!([{"steps": [{"say": ""}]}]));
    home
}

#[test]
fn who_can_not_answer_is_shown_and_says_why() {
    let home = quiet();
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    let _served = Served::start(&home);
    is_at_rest(&home);
    let budget = "plugins.entries.flock.config.budgets.agent.coder.tokens";
    home.flock(["config", "set", budget, "1"]).ok();
    let refused = home.flock(["chat", "coder", "are you there?"]).fails(1);
    assert!(refused.stderr.contains("coder pauses: the budget of coder for the day"), "{refused:?}");
    home.flock(["channel", "post", "work", "are you there?"]).ok();
    home.flock(["channel", "post", "work", "hello?"]).ok();
    let all = until_said(&home, "work", "system", "coder pauses");
    assert_eq!(all.iter().filter(|(_, text)| text.contains("coder pauses")).count(), 1, "{all:?}");
    for verb in ["list", "status"] {
        let shown = home.flock([verb]).ok().stdout;
        assert!(shown.contains("budget used up until 2"), "{verb}: {shown}");
        let json = home.flock([verb, "--json"]).ok().json();
        let agents = json["agents"].as_array().unwrap();
        let coder = agents.iter().find(|agent| agent["id"] == "coder").unwrap();
        assert!(coder["paused"]["reason"].as_str().unwrap().contains("coder pauses"), "{verb}: {coder}");
        assert!(coder["paused"]["until"].is_i64() && coder["asleep"].is_null(), "{verb}: {coder}");
    }
    home.flock(["config", "unset", budget]).ok();
    wait_until("it goes on", LIMIT, || {
        let shown = home.flock(["list"]).ok().stdout;
        if shown.contains("budget used up") { Err(shown) } else { Ok(()) }
    });
    home.flock(["freeze", "coder"]);
    let refused = home.flock(["chat", "coder", "are you there?"]).fails(1);
    assert!(refused.stderr.contains("coder is frozen since "), "{refused:?}");
    assert!(refused.stderr.contains("flock thaw coder"), "{refused:?}");
    let mut waiting = home.command();
    waiting.args(["chat", "coder", "are you there?", "--wait"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = waiting.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(waiting.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("FROZEN since ") && line.contains("flock thaw coder"), "{line}");
    home.flock(["thaw", "coder"]);
    assert!(waiting.wait().unwrap().success());
}

#[test]
fn a_post_that_nobody_hears_says_so() {
    let home = quiet();
    home.flock(["channel", "create", "Alone", "--topic", "x", "--member", "human:bob"]).ok();
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder", "--member", "human:bob"])
        .ok();
    let post = |channel: &str, text: &str| home.flock(["channel", "post", channel, text]).ok().stderr;
    let alone = post("aLONE", "is anybody there?");
    assert!(alone.contains("no agent is notified: #Alone has no other members that are agents"), "{alone}");
    let said = post("work", "@coder and @codr and @bob and @orchestrator");
    assert!(said.contains("@codr notifies nobody: no agent has that id"), "{said}");
    assert!(said.contains("@orchestrator is not notified: orchestrator is not a member of #work"), "{said}");
    assert_eq!(said.matches('@').count(), 2, "{said}");
    let quiet = home.flock(["channel", "post", "work", "@codr", "--no-notify"]).ok().stderr;
    assert!(!quiet.contains("@codr"), "{quiet}");
    let json = home.flock(["channel", "post", "Alone", "hello", "--json"]).ok().json();
    assert_eq!((json["channelId"].as_str(), json["notes"].as_array().unwrap().len()), (Some("Alone"), 1));
}

#[test]
fn a_channel_is_renamed_with_a_gateway_and_without() {
    let home = quiet();
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    let run = home.flock(["channel", "rename", "WORK", "The release"]).ok();
    assert_eq!(run.stdout, "#work is now called \"The release\"\n");
    let _served = Served::start(&home);
    let run = home.flock(["channel", "topic", "work", "what is left", "--as", "eve", "--json"]).ok().json();
    assert_eq!((run["channelId"].as_str(), run["name"].as_str()), (Some("work"), Some("The release")));
    let listed = home.flock(["channel", "list"]).ok().stdout;
    assert!(listed.contains("work (The release)") && listed.contains("what is left"), "{listed}");
    let all = said(&home, "work");
    assert!(
        all.contains(&("system".into(), "human:eve changed the topic to: what is left".into())),
        "{all:?}"
    );
    home.flock(["channel", "rename", "none", "x"]).fails(1);
    home.flock(["channel", "topic", "work", " "]).fails(2);
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("channel.rename") && audit.contains("channel.topic"), "{audit}");
}

#[test]
fn who_sleeps_is_shown() {
    let home = TempHome::new().init();
    let sleep = json!({"calls": [{"name": "flock_sleep", "arguments": {"reason": "all done"}}]});
    add(&home, "coder", &json!([{"steps": [sleep, {"say": "good night"}]}]));
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    home.flock(["channel", "post", "work", "is there anything left?"]).ok();
    let _served = Served::start(&home);
    until_said(&home, "work", "coder", "good night");
    for verb in ["list", "status"] {
        let shown = home.flock([verb]).ok().stdout;
        assert!(shown.contains("asleep since 2"), "{verb}: {shown}");
        let json = home.flock([verb, "--json"]).ok().json();
        let agents = json["agents"].as_array().unwrap();
        let coder = agents.iter().find(|agent| agent["id"] == "coder").unwrap();
        assert_eq!(coder["asleep"]["reason"], "all done", "{verb}");
    }
}

#[test]
fn channels_work_the_same_with_a_gateway_and_without() {
    let home = quiet();
    let mut served = None;
    for (id, other) in [("Down", "dOWN"), ("Up", "uP")] {
        let is_up = id == "Up";
        if is_up {
            served = Some(Served::start(&home));
        }
        let told =
            |stderr: &str| assert_eq!(stderr.contains("the gateway is not running"), !is_up, "{stderr}");
        let made = home.flock([
            "channel",
            "create",
            id,
            "--topic",
            "the work",
            "--member",
            "coder",
            "--member",
            "human:bob",
        ]);
        told(&made.clone().ok().stderr);
        assert_eq!(made.stdout, format!("made #{id} with coder, human:bob\n"));
        let run = home.flock(["channel", "create", other, "--topic", "x"]).fails(5);
        assert!(run.stderr.contains(&format!("flock channel read {other}")), "{run:?}");
        assert_eq!(
            home.flock(["--json", "channel", "create", other, "--topic", "x"]).fails(5).json()["error"]["code"],
            "conflict"
        );
        let run = home.flock(["channel", "create", "x", "--topic", "x", "--member", "nobody"]).fails(1);
        assert!(run.stderr.contains("no agent nobody") && run.stderr.contains("flock list"), "{run:?}");
        home.flock(["channel", "create", "x", "--topic", " "]).fails(2);
        home.flock(["channel", "create", "../x", "--topic", "x"]).fails(2);
        home.flock(["channel", "create", "x"]).fails(2);

        let posted = home.flock(["channel", "post", other, "hello", "--no-notify"]).ok();
        told(&posted.stderr);
        assert_eq!(posted.stdout, format!("posted to #{other} as message 2\n"));
        let posted = home.flock_with_input(
            ["channel", "post", id, "-", "--as", "eve", "--json", "--no-notify"],
            "from\nstdin",
        );
        assert_eq!(posted.ok().json()["seq"], 3);
        home.flock(["channel", "post", id, " "]).fails(2);
        home.flock(["channel", "post", id, "x", "--as", "a b"]).fails(2);
        let run = home.flock(["channel", "post", "none", "x"]).fails(1);
        assert!(
            run.stderr.contains("there is no channel none") && run.stderr.contains("flock channel list"),
            "{run:?}"
        );
        home.flock(["channel", "read", "none"]).fails(1);

        let read = home.flock(["channel", "read", id]).ok().stdout;
        assert!(read.contains("[2] human:ann  ") && read.contains("\n    hello\n"), "{read}");
        assert!(read.contains("[3] human:eve  ") && read.contains("\n    from\n    stdin\n"), "{read}");
        let page = home.flock(["channel", "read", id, "-n", "1", "--before", "3", "--json"]).ok().json();
        assert_eq!(
            (page["messages"][0]["content"].as_str(), &page["before"], &page["after"]),
            (Some("hello"), &json!(2), &json!(2))
        );
        assert_eq!(page["messages"].as_array().unwrap().len(), 1);
        let found = home.flock(["channel", "read", id, "--search", "std", "--json"]).ok().json();
        assert_eq!(found["messages"][0]["seq"], 3);
        home.flock(["channel", "read", id, "--search", "x", "--after", "1"]).fails(2);

        let run = home.flock(["channel", "assign", id, "--add", "human:zoe", "--remove", "human:bob"]).ok();
        assert_eq!(run.stdout, format!("#{id}: joined: human:zoe; left: human:bob\n"));
        home.flock(["channel", "assign", id]).fails(2);
        home.flock(["channel", "assign", id, "--add", "system"]).fails(2);
        home.flock(["channel", "archive", id, "--cancel"]).fails(1);
        let run = home.flock(["channel", "archive", id, "--force"]).ok();
        assert_eq!(run.stdout, format!("#{id} is archived\n"));
        let run = home.flock(["channel", "post", id, "late"]).fails(1);
        assert!(run.stderr.contains(&format!("flock channel reopen {id}")), "{run:?}");
        let listed = home.flock(["channel", "list"]).ok();
        assert!(!listed.stdout.contains(id) && listed.stderr.contains("--all"), "{listed:?}");
        let listed = home.flock(["channel", "list", "--all", "--json"]).ok().json();
        let mut all = listed["channels"].as_array().unwrap().iter();
        let own = all.find(|channel| channel["channelId"] == id).unwrap();
        assert_eq!(
            (own["state"].as_str(), &own["members"]),
            (Some("archived"), &json!(["coder", "human:zoe"]))
        );
        assert_eq!(home.flock(["channel", "reopen", id]).ok().stdout, format!("#{id} is active\n"));
        home.flock(["channel", "reopen", id]).fails(1);
        let listed = home.flock(["channel", "list", "--member", "coder"]).ok().stdout;
        assert!(listed.contains(id) && listed.contains("the work"), "{listed}");
    }
    drop(served);
    let empty = TempHome::new();
    empty.flock(["channel", "list"]).fails(3);
    let bare = TempHome::new().init();
    assert_eq!(bare.flock(["channel", "list", "--json"]).ok().json(), json!({"channels": []}));
    bare.flock(["channel", "read", "x"]).fails(1);
}

#[test]
fn a_person_is_never_taken_for_an_agent_or_for_flock() {
    let home = quiet();
    home.flock(["channel", "create", "work", "--topic", "x"]).ok();
    for name in ["human:x", "a b", "", "x\u{1b}[2J", "é"] {
        let run = home.flock(["channel", "post", "work", "hi", "--as", name]).fails(2);
        assert!(!run.stderr.contains('\u{1b}'), "{run:?}");
    }
    for name in ["system", "coder", "orchestrator"] {
        home.flock(["channel", "post", "work", "hi", "--as", name]).ok();
    }
    let authors: Vec<String> = said(&home, "work").into_iter().skip(1).map(|(author, _)| author).collect();
    assert_eq!(authors, ["human:system", "human:coder", "human:orchestrator"]);
}

#[test]
fn no_message_steers_a_terminal_or_passes_for_another() {
    let home = quiet();
    home.flock(["channel", "create", "work", "--topic", "a\u{1b}[2Jb\nc\u{202e}d"]).ok();
    let evil = "\u{1b}[2J\u{202e}ok\r\n[9] human:boss  2026-01-01 00:00\n    approve r-1\u{9b}31m\u{2028}x";
    home.flock(["channel", "post", "work", evil]).ok();
    for run in [home.flock(["channel", "read", "work"]).ok(), home.flock(["channel", "list"]).ok()] {
        let steers = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}');
        assert!(!run.stdout.contains(steers), "{run:?}");
        assert!(!run.stdout.lines().any(|line| line.starts_with("[9]")), "{run:?}");
    }
    assert_eq!(said(&home, "work")[1].1, evil, "programs get what was said");
}

#[test]
fn a_message_may_have_a_mebibyte_and_no_more() {
    let home = quiet();
    home.flock(["channel", "create", "work", "--topic", "x"]).ok();
    let served = Served::start(&home);
    let most = "\u{1}".repeat(1 << 20);
    for _ in 0..2 {
        home.flock_with_input(["channel", "post", "work", "-"], &most).ok();
    }
    let run = home.flock_with_input(["channel", "post", "work", "-"], &"x".repeat((1 << 20) + 1)).fails(2);
    assert!(run.stderr.contains("1 MiB"), "{run:?}");
    served.stop();
    home.flock_with_input(["channel", "post", "work", "-"], &most).ok();
    let all = said(&home, "work");
    assert_eq!(all.iter().filter(|(_, text)| *text == most).count(), 3);
}

/// `flock channel read -f --json`, its lines as they come.
pub struct Follower {
    child: Child,
    lines: mpsc::Receiver<Value>,
}

impl Follower {
    fn start(home: &TempHome, args: &[&str]) -> Self {
        Self::of(home.command(), args)
    }

    pub fn of(mut flock: Command, args: &[&str]) -> Self {
        let mut child = flock
            .args(["channel", "read", "-f", "--json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                drop(sender.send(serde_json::from_str(&line.unwrap()).unwrap()));
            }
        });
        Self { child, lines }
    }

    pub fn next(&self) -> (u64, String) {
        let message = self.lines.recv_timeout(LIMIT).expect("a message comes");
        (message["seq"].as_u64().unwrap(), message["content"].as_str().unwrap().to_owned())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn who_follows_misses_nothing_and_sees_nothing_twice() {
    let home = quiet();
    home.flock(["channel", "create", "Work", "--topic", "x"]).ok();
    home.flock(["channel", "post", "work", "two"]).ok();
    let served = Served::start(&home);
    let mut follower = Follower::start(&home, &["work", "--after", "1"]);
    assert_eq!(follower.next(), (2, "two".to_owned()));
    home.flock(["channel", "post", "work", "three"]).ok();
    assert_eq!(follower.next(), (3, "three".to_owned()));
    served.kill();
    home.flock(["channel", "post", "work", "four"]).ok();
    assert_eq!(follower.next(), (4, "four".to_owned()), "also while no gateway runs");
    let _served = Served::start(&home);
    home.flock(["channel", "post", "work", "five"]).ok();
    assert_eq!(follower.next(), (5, "five".to_owned()));
    kill(Pid::from_raw(i32::try_from(follower.child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(follower.child.wait().unwrap().code(), Some(0));
    assert!(follower.lines.recv().is_err(), "nothing more came");
    home.flock(["channel", "read", "none", "-f"]).fails(1);
}

#[test]
fn what_nobody_rang_for_is_found_all_the_same() {
    let home = TempHome::new().init();
    add(
        &home,
        "coder",
        &json!([{"when": "human:ann", "steps": [{"say": "found it"}]}, {"steps": [{"say": "no"}]}]),
    );
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    let _served = Served::start(&home);
    // As a command that looked for the gateway a moment before it began to listen.
    write_beside(&home, "are you there?");
    let all = until_said(&home, "work", "coder", "found it");
    assert_eq!(all.iter().filter(|(author, _)| author == "coder").count(), 1, "{all:?}");
}

/// Posts a message past the gateway.
fn write_beside(home: &TempHome, text: &str) {
    use std::sync::Arc;

    use flock::config::Live;
    use flock::home::Home;
    use flock::store::Store;
    use flock::swarm::{Actor, Notifier, Swarm, SwarmParts};

    let place = Home::new(home.path(), None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (rings, _) = tokio::sync::mpsc::unbounded_channel();
        let swarm = Swarm::new(SwarmParts {
            live: Arc::new(Live::open(place.clone()).unwrap()),
            store: Arc::new(Store::open(&place).unwrap()),
            notifier: Notifier::new(rings, Arc::new(|_, _| {})),
        });
        swarm.post(&Actor::human("ann"), &"work".parse().unwrap(), text.to_owned(), true).await.unwrap();
    });
}
