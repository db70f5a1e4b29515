//! The gateway as a process of its own: faults at its start, its death and its end, and what it keeps
//! secret.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

/// `flock gateway serve` of a home; killed when dropped.
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts it and waits until it is healthy.
    pub(super) fn start(home: &TempHome) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log_of(home)).unwrap();
        let child = home
            .command()
            .args(["gateway", "serve"])
            .env("FLOCK_LOG", "debug")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let process = Self { child };
        let port = home.port();
        wait_until("the gateway is healthy", LIMIT, || {
            get(port, "/health", "").filter(|answer| answer.contains("\"ok\"")).ok_or_else(|| log_text(home))
        });
        process
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for its end.
    pub(super) fn ended(mut self) -> std::process::ExitStatus {
        wait_until("the gateway ends", LIMIT, || {
            self.child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn log_of(home: &TempHome) -> std::path::PathBuf {
    home.outside().join("gateway.log")
}

pub(super) fn log_text(home: &TempHome) -> String {
    std::fs::read_to_string(log_of(home)).unwrap_or_default()
}

/// A whole answer, head and body; `None` where nothing answers.
pub(super) fn get(port: u16, path: &str, token: &str) -> Option<String> {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

pub(super) fn edit(home: &TempHome, change: impl FnOnce(&mut Value)) {
    let mut config = home.config();
    change(&mut config);
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
}

/// Gives all agents a script of these replies.
pub(super) fn play(home: &TempHome, replies: &Value) {
    std::fs::write(home.file("scripts/test"), json!({ "replies": replies }).to_string()).unwrap();
    edit(home, |config| config["agents"]["defaults"]["model"]["primary"] = "script/test".into());
}

/// Says something slow to the orchestrator, and returns once its first word has come.
fn begin_slow_turn(home: &TempHome) -> Child {
    let mut child = home
        .command()
        .args(["chat", "orchestrator", "go slowly"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 4];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"word");
    child
}

fn slow() -> Value {
    let words = "word ".repeat(2000);
    json!([{"when": "slowly", "steps": [{"say": words, "pace_ms": 20}]}, {"steps": [{"say": "quick answer"}]}])
}

fn transcripts(home: &TempHome, agent: &str) -> String {
    let folder = home.file(format!("agents/{agent}/sessions"));
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        text.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    text
}

#[test]
fn a_killed_gateway_goes_on_from_what_was_written() {
    let home = TempHome::new().init();
    play(&home, &slow());
    let gateway = Process::start(&home);
    home.flock(["chat", "orchestrator", "remember this"]).ok();
    let mut chat = begin_slow_turn(&home);
    gateway.signal(Signal::SIGKILL);
    assert_eq!(gateway.ended().signal(), Some(9));
    assert!(!chat.wait().unwrap().success(), "the answer was broken off, and chat says so");

    let _gateway = Process::start(&home);
    let answer = home.flock(["chat", "orchestrator", "and now"]).ok();
    assert_eq!(answer.stdout, "quick answer\n");
    assert!(log_text(&home).contains("marked interrupted"), "{}", log_text(&home));
    let transcript = transcripts(&home, "orchestrator");
    for expected in ["remember this", "go slowly", "nterrupted", "and now"] {
        assert!(transcript.contains(expected), "{expected}: {transcript}");
    }
}

#[test]
fn sigterm_ends_running_turns_and_exits_with_0() {
    let home = TempHome::new().init();
    play(&home, &slow());
    let gateway = Process::start(&home);
    let chat = begin_slow_turn(&home);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.ended().code(), Some(0), "{}", log_text(&home));
    let chat = chat.wait_with_output().unwrap();
    assert_eq!(chat.status.code(), Some(1));
    let said = String::from_utf8_lossy(&chat.stderr);
    assert!(said.contains("the turn was cancelled"), "{said}");
    std::net::TcpListener::bind(("127.0.0.1", home.port())).expect("the port is free");
}

#[test]
fn ctrl_c_in_chat_ends_the_turn() {
    let home = TempHome::new().init();
    play(&home, &slow());
    let _gateway = Process::start(&home);
    let mut chat = begin_slow_turn(&home);
    kill(Pid::from_raw(i32::try_from(chat.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(chat.wait().unwrap().code(), Some(130));
    let token = home.token();
    wait_until("no turn runs", LIMIT, || {
        let answer = get(home.port(), "/api/status", &token).unwrap_or_default();
        answer.contains(r#""turns":{"running":0,"waiting":0}"#).then_some(()).ok_or(answer)
    });
}

#[test]
fn a_taken_port_is_named() {
    let home = TempHome::new().init();
    let listener = std::net::TcpListener::bind(("127.0.0.1", home.port())).unwrap();
    let run = home.flock(["gateway", "serve"]).fails(1);
    assert!(run.stderr.contains("another program listens"), "{run:?}");
    drop(listener);

    let gateway = Process::start(&home);
    let run = home.flock(["gateway", "serve"]).fails(5);
    assert!(run.stderr.contains(&format!("pid {}", gateway.child.id())), "{run:?}");

    let other = TempHome::new().init();
    edit(&other, |config| {
        config["plugins"]["entries"]["flock"]["config"]["gateway"]["port"] = home.port().into();
    });
    let run = other.flock(["gateway", "serve"]).fails(5);
    assert!(run.stderr.contains("another home's gateway"), "{run:?}");
    let run = other.flock(["chat", "orchestrator", "hi"]).fails(4);
    assert!(run.stderr.contains("flock start"), "another home's gateway is not asked: {run:?}");
}

#[test]
fn without_a_home_or_a_gateway_the_way_out_is_named() {
    let empty = TempHome::new();
    empty.flock(["gateway", "serve"]).fails(3);
    let run = empty.flock(["chat", "coder", "hi"]).fails(3);
    assert!(run.stderr.contains("flock init"), "{run:?}");

    let home = TempHome::new().init();
    let run = home.flock(["chat", "orchestrator", "hi"]).fails(4);
    assert!(run.stderr.contains("flock start"), "{run:?}");
    let run = home.flock(["chat", "nobody", "hi"]).fails(1);
    assert!(run.stderr.contains("flock list"), "{run:?}");
    home.flock(["chat", "../x", "hi"]).fails(2);
    home.flock(["chat", "orchestrator", "--session", "agent:sysadmin:flock:main:x", "hi"]).fails(2);
    home.flock(["chat", "orchestrator", "--session", "nonsense", "hi"]).fails(2);
    home.flock(["chat", "orchestrator"]).fails(2);
}

#[test]
fn chat_speaks_for_people_and_for_programs() {
    let home = TempHome::new().init();
    play(
        &home,
        &json!([
            {"when": "evil", "steps": [{"say": "a\u{1b}[2Jb\u{202e}c"}]},
            {"when": "broken", "steps": [{"error": {"status": 401, "message": "no such key"}}]},
            {"steps": [{"say": "an answer"}]},
        ]),
    );
    let _gateway = Process::start(&home);
    assert_eq!(home.flock(["chat", "orchestrator", "hi"]).ok().stdout, "an answer\n");
    assert_eq!(home.flock_with_input(["chat", "orchestrator"], "from stdin\n").ok().stdout, "an answer\n");
    assert_eq!(home.flock(["chat", "orchestrator", "evil"]).ok().stdout, "a\\u{1b}[2Jb\\u{202e}c\n");
    let key = "agent:orchestrator:flock:main:other";
    let json = home.flock(["--json", "chat", "orchestrator", "hi", "--session", key]).ok().json();
    assert_eq!(json["text"], "an answer");
    assert_eq!(json["session"], key);
    assert_eq!(json["finishReason"], "stop");
    let run = home.flock(["chat", "orchestrator", "broken"]).fails(1);
    assert!(run.stderr.contains("refused the key"), "{run:?}");
    let token = home.token();
    let sessions = get(home.port(), "/api/sessions", &token).unwrap();
    assert!(sessions.contains("agent:orchestrator:flock:main:ann"), "named after the login: {sessions}");
}

#[test]
fn an_agent_speaks_with_its_own_sessions() {
    let home = TempHome::new().init();
    let call = |name: &str, arguments: Value| json!({"calls": [{"name": name, "arguments": arguments}]});
    let main = "agent:orchestrator:flock:main:ann";
    let dm = "agent:orchestrator:flock:dm:bob";
    play(
        &home,
        &json!([
            {"when": "delegate", "steps": [
                call("sessions_spawn", json!({"task": "a small part"})),
                {"say": "delegated"},
            ]},
            {"when": "a small part", "steps": [{"say": "the part is done"}]},
            {"when": "tell bob", "steps": [
                call("sessions_send", json!({"sessionKey": dm, "message": "ping from main"})),
                {"say": "told"},
            ]},
            // The answer to a message would start a turn that answers again, and so on.
            {"when": "ping from main", "steps": [
                call("sessions_send", json!({"sessionKey": main, "message": "pong from dm"})),
                {"say": "ping was read"},
            ]},
            {"when": "spy", "steps": [
                call("sessions_history", json!({"sessionKey": "agent:sysadmin:flock:main:ann"})),
                {"say": "spied"},
            ]},
            {"steps": [{"say": "hello"}]},
        ]),
    );
    let _gateway = Process::start(&home);
    assert_eq!(home.flock(["chat", "orchestrator", "delegate"]).ok().stdout, "delegated\n");
    assert!(transcripts(&home, "orchestrator").contains("the part is done"));

    home.flock(["chat", "orchestrator", "hi", "--session", dm]).ok();
    assert_eq!(home.flock(["chat", "orchestrator", "tell bob"]).ok().stdout, "told\n");
    wait_until("the message is answered", LIMIT, || {
        let text = transcripts(&home, "orchestrator");
        text.contains("ping was read").then_some(()).ok_or(text)
    });
    let text = transcripts(&home, "orchestrator");
    assert!(
        text.contains("itself started by another session"),
        "two sessions can't keep each other going: {text}"
    );

    assert_eq!(home.flock(["chat", "orchestrator", "spy"]).ok().stdout, "spied\n");
    assert!(!transcripts(&home, "orchestrator").contains("\"sysadmin\""));
}

#[test]
fn a_message_between_sessions_survives_a_killed_gateway() {
    let home = TempHome::new().init();
    // The orchestrator's own session, in which `begin_slow_turn` keeps the turns busy.
    let busy = "agent:orchestrator:flock:main:ann";
    let dm = "agent:orchestrator:flock:dm:bob";
    let mut replies = slow();
    let tell = json!({"when": "tell ann", "steps": [
        {"calls": [{"name": "sessions_send",
                    "arguments": {"sessionKey": busy, "message": "ping for ann"}}]},
        {"say": "told"},
    ]});
    replies
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"when": "ping for ann", "steps": [{"say": "ping was read"}]}));
    replies.as_array_mut().unwrap().insert(0, tell);
    play(&home, &replies);
    let gateway = Process::start(&home);
    let mut chat = begin_slow_turn(&home);
    assert_eq!(home.flock(["chat", "orchestrator", "tell ann", "--session", dm]).ok().stdout, "told\n");
    gateway.signal(Signal::SIGKILL);
    gateway.ended();
    chat.wait().unwrap();
    assert!(!transcripts(&home, "orchestrator").contains("ping was read"));

    let _gateway = Process::start(&home);
    wait_until("the message is read after all", LIMIT, || {
        let text = transcripts(&home, "orchestrator");
        text.contains("ping was read").then_some(()).ok_or(text)
    });
}

#[test]
fn a_planted_key_stays_where_it_belongs() {
    const KEY: &str = "sk-planted-0123456789abcdef";
    let home = TempHome::new().init();
    let model = ModelServer::start();
    edit(&home, |config| {
        config["models"]["providers"]["acme"] = json!({
            "baseUrl": model.openai_url(), "apiKey": KEY, "api": "openai-completions",
            "models": [{"id": "one", "name": "one"}],
        });
        config["agents"]["defaults"]["model"]["primary"] = "acme/one".into();
    });
    let token = home.token();
    let _gateway = Process::start(&home);
    model.reply(Reply::text("fine"));
    let mut said = vec![format!("{:?}", home.flock(["chat", "orchestrator", "hi"]).ok())];
    assert!(model.requests()[0].header("authorization").contains(KEY), "the key reached its provider");
    // Providers like to repeat the key that they refuse.
    model.always(Reply::status(401, &format!("the key {KEY} is not known")));
    said.push(format!("{:?}", home.flock(["chat", "orchestrator", "again"]).fails(1)));
    said.push(format!("{:?}", home.flock(["--json", "chat", "orchestrator", "again"]).fails(1)));
    for path in ["/api/status", "/api/agents", "/api/sessions", "/v1/models", "/health"] {
        said.push(get(home.port(), path, &token).unwrap());
    }
    said.push(log_text(&home));
    let said = said.join("\n");
    for secret in [KEY, token.as_str()] {
        assert!(!said.contains(secret), "{secret} was said: {said}");
        let found = holders(&home.path(), secret);
        let allowed = |path: &String| path.starts_with("config.json") || path.starts_with("backups/");
        assert!(found.iter().all(allowed), "{secret} is in {found:?}");
        assert!(!home.database().contains(secret), "{secret} is in the database");
    }
}

/// The files below a folder that hold this text.
fn holders(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.is_file() {
                let bytes = std::fs::read(&path).unwrap();
                if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                    found.push(path.strip_prefix(folder).unwrap().display().to_string());
                }
            }
        }
    }
    found
}

#[test]
fn the_log_is_lines_on_stderr() {
    let home = TempHome::new().init();
    let mut child = home
        .command()
        .args(["gateway", "serve"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("INFO") && first.contains("the gateway listens"), "{first}");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
}
