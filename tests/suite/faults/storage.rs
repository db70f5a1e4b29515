//! A disk that takes nothing for a while: everything is as it should be once it does, without a restart.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use flock::home::Home;
use flock::id::TurnId;
use flock::store::Store;
use flock::supervise::gateway_client::Call;
use serde_json::{Value, json};

use super::with_limit;
use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, add, log_text, said, transcripts, until_said};

/// How often two turns that run at the same time are tried for.
pub(super) const ROUNDS: u32 = 5;

/// What an agent needs a while for.
pub(super) fn slowly(round: u32) -> String {
    format!("slowly, {round}")
}

/// A home whose agents need a while for what is asked slowly.
pub(super) fn with_agent(home: TempHome) -> TempHome {
    // Longer with each attempt: on a busy machine it takes seconds to see that both turns run.
    let slow = (1..=ROUNDS).map(
        |round| json!({"when": slowly(round), "steps": [{"delay_ms": 1500 << round, "say": "at last"}]}),
    );
    let quick = [
        json!({"when": "are you there", "steps": [{"say": "here I am"}]}),
        json!({"when": "human:ann", "steps": [{"say": "noted"}]}),
        json!({"steps": [{"say": ""}]}),
    ];
    let replies = slow.chain(quick).collect();
    add(&home, "coder", &replies);
    add(&home, "tester", &replies);
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    home
}

/// A gateway that a limit of its files' sizes does not end.
fn serve(home: &TempHome) -> Served {
    Served::start_as(home, with_limit(home, ""))
}

/// Asks the agent over A2A and does not wait for the answer; gives the task.
pub(super) fn ask(home: &TempHome, text: &str) -> String {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {
        "message": {"messageId": TurnId::new().to_string(), "role": "ROLE_USER", "parts": [{"text": text}]},
        "configuration": {"returnImmediately": true},
    }});
    let answer: Value = block_on(async {
        let call = Call::post("/flock/a2a/tester").json(&call).unwrap();
        home.owner().ask(call, LIMIT).await.unwrap().json(LIMIT).await.unwrap()
    });
    answer["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

pub(super) fn running(home: &TempHome) -> u64 {
    home.flock(["status", "--json"]).json()["gateway"]["turns"]["running"].as_u64().unwrap_or(0)
}

pub(super) fn store(home: &TempHome) -> Store {
    Store::open(&Home::new(home.path(), None)).unwrap()
}

/// What the database has as under way.
fn under_way(home: &TempHome) -> String {
    let store = store(home);
    let parts = (
        block_on(store.turns().running()).unwrap(),
        block_on(store.deliveries().in_flight()).unwrap(),
        block_on(store.inbox().in_flight()).unwrap(),
        block_on(store.usage().reserved()).unwrap(),
        block_on(store.tasks().stranded()).unwrap(),
    );
    let is_empty = parts.0.is_empty()
        && parts.1.is_empty()
        && parts.2.is_empty()
        && parts.3.is_empty()
        && parts.4.is_empty();
    if is_empty { String::new() } else { format!("{parts:#?}") }
}

/// Has two turns run into a disk that takes nothing, then frees it.
fn survives(home: &TempHome, squeeze: impl Fn(), release: impl Fn()) {
    let mut tasks = Vec::new();
    for round in 1.. {
        home.flock(["channel", "post", "work", &format!("@coder {}", slowly(round))]).ok();
        tasks.push(ask(home, &slowly(round)));
        wait_until("both turns run", LIMIT, || {
            let count = running(home);
            if count == 2 { Ok(()) } else { Err(format!("{count}\n{}", log_text(home))) }
        });
        squeeze();
        if running(home) == 2 {
            break;
        }
        release();
        assert!(round < ROUNDS, "the turns always ended too early");
    }
    wait_until("the turns are over", LIMIT * 2, || match running(home) {
        0 => Ok(()),
        count => Err(format!("{count}\n{}", log_text(home))),
    });
    let refused = home.flock(["channel", "post", "work", "refused"]).fails(1);
    assert!(refused.stderr.contains("no room"), "{refused:?}");
    let refused = home.flock(["chat", "coder", "anybody?"]).fails(1);
    assert!(refused.stderr.contains("no room"), "{refused:?}");
    wait_until("the gateway says that it is unhealthy", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        let gateway = run.json()["gateway"].clone();
        let problem = gateway["problem"].as_str().unwrap_or_default();
        let is_said = gateway["healthy"] == false && problem.contains("the database can't be written");
        if is_said && run.code == 1 { Ok(()) } else { Err(format!("{run:?}\n{}", log_text(home))) }
    });
    assert!(home.flock(["doctor"]).fails(1).stdout.contains("can't be written"), "doctor says so, too");

    release();
    is_settled(home);
    for id in &tasks {
        let task = block_on(store(home).tasks().find(id)).unwrap().unwrap();
        assert!(task.state.is_final(), "{task:?}");
    }
    home.flock(["channel", "post", "work", "@coder are you there?"]).ok();
    until_said(home, "work", "coder", "here I am");
    is_settled(home);
    is_shown_once(home);
    home.flock(["audit", "--verify"]).ok();
}

/// Waits until nothing is under way in the database and the gateway is well.
pub(super) fn is_settled(home: &TempHome) {
    wait_until("nothing is under way", LIMIT * 2, || {
        let left = under_way(home);
        let run = home.flock(["status", "--json"]);
        if left.is_empty() && run.code == 0 {
            Ok(())
        } else {
            Err(format!("{left}\n{run:?}\n{}", log_text(home)))
        }
    });
}

pub(super) fn is_shown_once(home: &TempHome) {
    let seen = transcripts(home, "coder").join("\n");
    let all = said(home, "work");
    for (author, text) in all.iter().filter(|(author, _)| author.starts_with("human:")) {
        let line = format!("{author}: {text}");
        let posted = all.iter().filter(|(by, what)| (by, what) == (author, text)).count();
        assert_eq!(seen.matches(&line).count(), posted, "{line} is shown as often as it was said: {seen}");
    }
}

#[test]
fn what_could_not_be_written_is_settled_without_a_restart() {
    let home = with_agent(TempHome::new().init());
    let served = serve(&home);
    let limit = |limit: &str| {
        let pid = served.pid().to_string();
        let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={limit}")]).status();
        assert!(set.unwrap().success());
    };
    survives(&home, || limit("1:unlimited"), || limit("unlimited:unlimited"));
}

/// A small file system of its own at a path, gone with the value.
struct Small {
    path: PathBuf,
    _image: Option<tempfile::NamedTempFile>,
}

impl Small {
    /// A tmpfs; `None` where this user may not mount.
    fn at(path: &Path) -> Option<Self> {
        let options = ["-t", "tmpfs", "-o", "size=24m,mode=0700", "none"].map(Into::into);
        Self::mounted(path, &options, None)
    }

    /// An ext4 in a file with few inodes; `None` also where there is no loop device for it.
    fn with_few_inodes(path: &Path) -> Option<Self> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(48 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-N", "512"]).arg(image.path()).output();
        if !made.is_ok_and(|output| output.status.success()) {
            eprintln!("not tested: there is no mkfs.ext4");
            return None;
        }
        let options = [OsString::from("-o"), "loop".into(), image.path().into()];
        let small = Self::mounted(path, &options, Some(image))?;
        std::fs::remove_dir(path.join("lost+found")).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Some(small)
    }

    fn mounted(path: &Path, options: &[OsString], image: Option<tempfile::NamedTempFile>) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let mounted = Command::new("mount").args(options).arg(path).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self { path: path.to_owned(), _image: image });
        }
        eprintln!("not tested: this user may not mount");
        None
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.filler()).unwrap();
        for size in [1 << 20, 4096] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    /// Makes files until there is no inode for another one.
    fn use_inodes_up(&self) {
        std::fs::create_dir_all(self.filler()).unwrap();
        for number in 0.. {
            if std::fs::write(self.filler().join(format!("f{number}")), "").is_err() {
                return;
            }
        }
    }

    fn free_inodes(&self) {
        std::fs::remove_dir_all(self.filler()).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}

#[test]
fn a_full_disk_costs_nothing_once_there_is_room() {
    let home = TempHome::new();
    let Some(disk) = Small::at(&home.path()) else { return };
    let home = with_agent(home.init());
    let served = serve(&home);
    for _ in 0..2 {
        survives(&home, || disk.fill(), || disk.free());
    }
    drop(served);
    drop(home);
}

#[test]
fn missing_inodes_cost_nothing_once_there_are_some() {
    let home = TempHome::new();
    let Some(disk) = Small::with_few_inodes(&home.path()) else { return };
    let home = with_agent(home.init());
    let served = serve(&home);
    home.flock(["chat", "coder", "are you there, first?"]).ok();
    for round in 0..2 {
        // A temporary file that goes after the last inode was taken leaves one for the turn, which then succeeds.
        let (key, refused) = (0..20)
            .find_map(|attempt| {
                disk.use_inodes_up();
                let key = format!("agent:coder:flock:main:new-{round}-{attempt}");
                let text = "are you there, without a file?";
                let run = home.flock(["chat", "coder", text, "--session", &key]);
                (run.code != 0).then_some((key, run))
            })
            .expect("a turn that needs a file is refused");
        let chat = |text: &str| home.flock(["chat", "coder", text, "--session", &key]);
        // What needs a new file is refused in words or put off; what is there goes on.
        let refused = refused.fails(1);
        assert!(!refused.stderr.contains("the gateway failed to do this"), "{refused:?}");
        let posted = home.flock(["channel", "post", "work", "@coder are you there, without inodes?"]);
        let task = ask(&home, "are you there, tester?");
        disk.free_inodes();
        // A turn that was refused for it waits before it is tried again.
        wait_until("the task is over", LIMIT, || {
            let task = block_on(store(&home).tasks().find(&task)).unwrap().unwrap();
            if task.state.is_final() { Ok(()) } else { Err(format!("{task:?}\n{}", log_text(&home))) }
        });
        is_settled(&home);
        assert_eq!(chat("are you there, again?").ok().stdout, "here I am\n");
        assert_eq!(posted.code, 0, "{posted:?}");
    }
    until_said(&home, "work", "coder", "here I am");
    is_settled(&home);
    is_shown_once(&home);
    home.flock(["audit", "--verify"]).ok();
    drop(served);
    drop(home);
}

#[test]
fn what_an_earlier_turn_was_given_and_never_ended_is_given_again() {
    let home = with_agent(TempHome::new().init());
    let _served = serve(&home);
    home.flock(["channel", "post", "work", "@coder are you there?"]).ok();
    until_said(&home, "work", "coder", "here I am");
    home.flock(["channel", "post", "work", "nobody was ever shown this"]).ok();
    wait_until("nothing is under way", LIMIT, || {
        let left = under_way(&home);
        if left.is_empty() && transcripts(&home, "coder").join("").contains("nobody was ever") {
            Ok(())
        } else {
            Err(left)
        }
    });
    home.flock(["channel", "post", "work", "and this to no turn that lives"]).ok();
    wait_until("it was delivered", LIMIT, || {
        let left = under_way(&home);
        let seen = transcripts(&home, "coder").join("");
        if left.is_empty() && seen.contains("no turn that lives") { Ok(()) } else { Err(left) }
    });
    // As after a fault: the last message was given to a turn that there is none of any more.
    let change = format!(
        "UPDATE delivery SET delivered_seq = last - 1, inflight_seq = last, inflight_turn = '{}'
             FROM (SELECT seq AS last FROM message WHERE content LIKE '%no turn that lives') AS newest
             WHERE agent = 'coder' AND channel = 'work'",
        TurnId::new()
    );
    assert_eq!(home.database().execute(&change), 1);
    home.flock(["channel", "post", "work", "@coder are you there again?"]).ok();
    wait_until("what that turn had is given again", LIMIT, || {
        let seen = transcripts(&home, "coder").join("\n");
        let again = seen.matches("no turn that lives").count() + seen.matches("there again?").count();
        if again >= 3 && under_way(&home).is_empty() {
            Ok(())
        } else {
            Err(format!("{seen}\n{}", log_text(&home)))
        }
    });
}
