//! The process is killed at every named moment of a message's way; the next one loses nothing and shows
//! nothing twice. What else goes wrong around a team, a file for each.

mod backup;
mod checkpoint;
mod compaction;
mod copies;
mod damage;
mod database;
mod forgery;
mod frozen;
mod home_move;
mod isolation;
mod mcp_package;
mod membership;
mod memory;
mod power;
mod program;
pub mod provider;
mod quota;
mod reading;
mod removal;
mod rollback;
mod search;
mod skill;
mod storage;
mod storm;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flock::fault_point::{self, FaultPoint};
use flock::home::Home;
use flock::id::{AgentId, ChannelId, Party};
use flock::store::{AuditEntry, Level, NewChannel, NewPost, Page, PostMentions, Reader, Store, WakeUrgency};
use serde_json::json;

use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::wait_until;

const LONG: Duration = Duration::from_secs(60);
const HOME: &str = "FLOCK_TEST_HOME";
const DIES_AT: &str = "FLOCK_TEST_DIES_AT";

fn dies_at(fault_point: FaultPoint) {
    static REACHED: AtomicUsize = AtomicUsize::new(0);
    let Ok(wanted) = std::env::var(DIES_AT) else { return };
    // `NAME:3` is the third time that this moment is reached.
    let (name, nth) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if name == format!("{fault_point:?}")
        && REACHED.fetch_add(1, Ordering::SeqCst) + 1 == nth.parse::<usize>().unwrap()
    {
        // As sudden as `kill -9`, because it is one.
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
    }
}

/// Not a test of its own: the gateway that the others start and lose.
#[test]
#[ignore = "runs a gateway until it is ended; the other tests start it"]
fn the_process_that_dies() {
    let Some(root) = std::env::var_os(HOME) else { return };
    fault_point::watch(dies_at);
    flock::process::set_own_executable(env!("CARGO_BIN_EXE_flock").into());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(flock::gateway::lifecycle::serve(Home::new(root.into(), None))).unwrap();
}

struct Stage {
    home: TempHome,
}

impl Stage {
    /// Two workers in one channel: `ada` reports there when a person asks, `bob` answers when it is mentioned.
    fn new() -> Self {
        let home = TempHome::new().init();
        let report = json!({"name": "flock_channel_post", "arguments": {"channelId": "work", "message": "the report @bob"}});
        let ada = json!({"replies": [
            {"when": "broken off", "steps": [{"calls": [report]}, {"say": "reported"}]},
            {"when": "human:ann", "steps": [{"calls": [report]}, {"say": "reported"}]},
            {"steps": [{"say": "nothing to do"}]},
        ]});
        let bob = json!({"replies": [
            {"when": "the report", "steps": [{"say": "bob has read it"}]},
            {"when": "broken off", "steps": [{"say": "bob has read it"}]},
            {"steps": [{"say": "nothing to do"}]},
        ]});
        std::fs::create_dir_all(home.file("scripts")).unwrap();
        std::fs::write(home.file("scripts/ada"), ada.to_string()).unwrap();
        std::fs::write(home.file("scripts/bob"), bob.to_string()).unwrap();
        for agent in ["ada", "bob"] {
            home.flock(["add", agent, "--no-container", "--model", &format!("script/{agent}")]).ok();
        }
        let stage = Self { home };
        stage.say_hello();
        stage
    }

    fn place(&self) -> Home {
        Home::new(self.home.path(), None)
    }

    /// What a person said before the gateway runs.
    fn say_hello(&self) {
        let entry = AuditEntry {
            actor: "human:ann".into(),
            action: "channel.create",
            subject: "work".into(),
            level: Level::Green,
            detail: String::new(),
            session: None,
            turn: None,
        };
        let agents: Vec<AgentId> = ["ada", "bob"].iter().map(|id| id.parse().unwrap()).collect();
        let new = NewChannel {
            id: channel(),
            topic: "the work".into(),
            created_by: Party::human("ann"),
            members: agents.into_iter().map(Party::Agent).collect(),
            now: 1,
        };
        let first = NewPost {
            channel: channel(),
            author: Party::human("ann"),
            content: "@ada please report".into(),
            // Only who is mentioned is called at once.
            wake: WakeUrgency::InTime,
            mentions: PostMentions { agents: vec!["ada".parse().unwrap()], all: false },
            session: None,
            turn: None,
            is_final: false,
            key: None,
            origin: None,
            charged: None,
            now: 2,
        };
        let store = Store::open(&self.place()).unwrap();
        block_on(store.channels().create(new, Some(first), entry)).unwrap().unwrap();
    }

    fn gateway(&self, dies_at: &str) -> Child {
        gateway(&self.home, dies_at)
    }

    /// What was said, by whom.
    fn said(&self) -> Vec<(String, String)> {
        let reader = Reader::open(&self.place()).unwrap().unwrap();
        let messages = block_on(reader.posts().page(&channel(), Page::Last, 100)).unwrap();
        messages.into_iter().map(|post| (post.author.to_string(), post.content)).collect()
    }

    fn is_at_rest(&self) -> bool {
        let store = Store::open(&self.place()).unwrap();
        block_on(store.deliveries().in_flight()).unwrap().is_empty()
            && block_on(store.inbox().in_flight()).unwrap().is_empty()
            && block_on(store.inbox().sessions()).unwrap().is_empty()
            && block_on(store.turns().running()).unwrap().is_empty()
    }
}

/// A gateway of this home that dies at the moment of this name.
fn gateway(home: &TempHome, dies_at: &str) -> Child {
    gateway_command(home, dies_at).spawn().unwrap()
}

/// The command of a gateway of this home that dies at the moment of this name.
pub fn gateway_command(home: &TempHome, dies_at: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if !home.has_docker() {
        command.env("DOCKER_HOST", format!("unix://{}", home.outside().join("none.sock").display()));
    }
    command
        .args(["--exact", "faults::the_process_that_dies", "--ignored", "--nocapture"])
        .env(HOME, home.path())
        .env(DIES_AT, dies_at)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn channel() -> ChannelId {
    "work".parse().unwrap()
}

pub fn end(mut child: Child) {
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    child.wait().unwrap();
}

fn dies_and_comes_back(fault_point: FaultPoint) {
    let stage = Stage::new();
    let mut first = stage.gateway(&format!("{fault_point:?}"));
    let status = wait_until("the gateway to die", LONG, || {
        first.try_wait().unwrap().ok_or_else(|| format!("at {fault_point:?}: {:?}", stage.said()))
    });
    assert_eq!(status.signal(), Some(9), "{fault_point:?}");

    let second = stage.gateway("nowhere");
    wait_until("everybody to have spoken", LONG, || {
        let said = stage.said();
        let has = |text: &str| said.iter().any(|(_, content)| content == text);
        if has("the report @bob") && has("bob has read it") && stage.is_at_rest() {
            Ok(())
        } else {
            Err(format!("{fault_point:?}: {said:?}"))
        }
    });
    end(second);
    let mut said = stage.said();
    said.retain(|(author, _)| author != "system");
    let expected =
        [("human:ann", "@ada please report"), ("ada", "the report @bob"), ("bob", "bob has read it")];
    let expected: Vec<(String, String)> =
        expected.iter().map(|(author, text)| ((*author).to_owned(), (*text).to_owned())).collect();
    assert_eq!(said, expected, "{fault_point:?}");
}

#[test]
fn a_kill_at_any_moment_loses_nothing_and_shows_nothing_twice() {
    for fault_point in FaultPoint::ALL {
        dies_and_comes_back(fault_point);
    }
}

/// The binary in this home, after `limit` in a shell. With the signal of a file that grew too large ignored, a write says
/// that it failed.
fn with_limit(home: &TempHome, limit: &str) -> Command {
    let own = home.command();
    let mut command = Command::new("sh");
    command.env_clear().current_dir(home.outside());
    for (name, value) in own.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let script = format!("trap '' XFSZ; {limit} exec \"$0\" \"$@\"");
    command.args(["-c", &script, crate::support::flock_binary()]);
    command
}
