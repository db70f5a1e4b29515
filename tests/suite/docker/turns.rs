//! The whole way: a person, the gateway, a turn, a command in a real sandbox, and back.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::docker::docker;
use crate::support::home::{TempHome, finish};
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn an_agent_writes_a_program_runs_it_and_is_stopped_without_a_trace() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["add", "coder"]).ok();
    home.flock(["start"]).ok();
    let run = home.flock(["chat", "coder", "please write fizzbuzz"]).ok();
    assert!(run.stdout.contains("FizzBuzz") && run.stdout.contains("exit code 0"), "{run:?}");
    assert!(run.stderr.contains("· exec"), "what it does is told: {run:?}");
    assert!(home.file("workspaces/coder/fizzbuzz.py").is_file());

    let status = home.flock(["status", "--probe", "--json"]).ok().json();
    let containers = status["containers"].as_array().unwrap();
    let own = containers.iter().find(|container| container["agent"] == "coder").unwrap();
    assert_eq!(own["state"], "running", "{own:#}");
    assert_eq!(own["probe"]["confined"], true, "{own:#}");
    assert!(own["probe"]["ageMs"].as_i64().unwrap() < 60_000, "{own:#}");

    home.flock(["stop"]).ok();
    let label = format!("label=flock.home={}", home.path().display());
    assert_eq!(docker(&["ps", "-q", "--filter", &label]), "", "no container of this home runs");
}

#[test]
fn who_gives_up_on_a_turn_ends_its_command() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let replies = json!({"replies": [
        {"when": "sleep", "steps": [
            {"say": "sleeping", "calls": [{"name": "exec", "arguments": {"command": "sleep 4711"}}]},
            {"say": "slept"},
        ]},
        {"steps": [{"say": "awake"}]},
    ]});
    std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
    home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    home.flock(["add", "coder"]).ok();
    home.flock(["start"]).ok();
    let mut chat = home
        .command()
        .args(["chat", "coder", "sleep"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 8];
    chat.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let container = home.container("coder");
    let sleeps = || docker(&["top", &container]).contains("sleep 4711");
    wait_until("the command runs", LIMIT, || sleeps().then_some(()).ok_or_else(String::new));
    kill(Pid::from_raw(i32::try_from(chat.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(chat.wait().unwrap().code(), Some(130));
    wait_until("the command is gone", LIMIT, || (!sleeps()).then_some(()).ok_or_else(String::new));
    assert_eq!(home.flock(["chat", "coder", "and now"]).ok().stdout, "awake\n");
}

#[test]
fn a_key_never_enters_a_sandbox_its_description_or_an_argument_list() {
    const KEY: &str = "sk-planted-in-the-environment-4711";
    let Some(home) = TempHome::init_in_docker() else { return };
    // The pattern does not find itself.
    let look = "(env; cat /proc/*/environ /proc/*/cmdline; cat /workspace/*) 2>/dev/null \
                | tr '\\0' '\\n' | grep -c 'sk-plant[e]d'";
    let replies = json!({"replies": [{"steps": [
        {"calls": [{"name": "exec", "arguments": {"command": look}}]},
        {"say": "{{last_result}}"},
    ]}]});
    std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
    home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    std::fs::write(home.file("secrets/openai"), KEY).unwrap();
    let with_key = |args: &[&str]| {
        let mut command = home.command();
        finish(command.args(args).env("ANTHROPIC_API_KEY", KEY)).ok()
    };
    with_key(&["add", "coder"]);
    with_key(&["start"]);
    let run = with_key(&["chat", "coder", "look around"]);
    assert!(run.stdout.contains("\n0\n") || run.stdout.ends_with("\n0"), "{run:?}");
    assert!(!docker(&["inspect", &home.container("coder")]).contains(KEY));
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path().join("cmdline");
        let line = std::fs::read(&path).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(KEY), "{}", path.display());
    }
}
