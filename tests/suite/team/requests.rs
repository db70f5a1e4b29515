//! What the sysadmin wants to do on the host: asked of a person exactly as it is, done once or not at all, and
//! told to the session that wanted it.

use serde_json::{Value, json};

use super::stage::{LIMIT, play, transcripts};
use crate::support::home::{TempHome, finish};
use crate::support::wait_until;

const KEY: &str = "sk-planted-for-the-host-4711";

/// Plants a provider's key where the gateway has it.
fn with_key(home: &TempHome, args: &[&str]) {
    finish(home.command().args(args).env("ANTHROPIC_API_KEY", KEY).env("OPENAI_API_KEY", KEY)).ok();
}

fn open(home: &TempHome) -> Vec<Value> {
    let listed = home.flock(["approvals", "list", "--json"]).ok().json();
    listed["requests"].as_array().unwrap().clone()
}

fn shown(home: &TempHome, id: &str) -> Value {
    home.flock(["approvals", "show", id, "--json"]).ok().json()["request"].clone()
}

/// Has the sysadmin ask, with these words; gives the request's id.
fn ask(home: &TempHome, words: &str) -> String {
    let said = home.flock(["chat", "sysadmin", words]).ok().stdout;
    let waiting = open(home);
    assert_eq!(waiting.len(), 1, "{said}");
    let id = waiting[0]["id"].as_str().unwrap().to_owned();
    assert!(said.contains(&id) && said.contains("not done"), "{said}");
    id
}

/// Waits until the sysadmin was given a text.
fn until_told(home: &TempHome, text: &str) -> String {
    wait_until(&format!("the sysadmin is told {text:?}"), LIMIT, || {
        let all = transcripts(home, "sysadmin").join("\n");
        if all.contains(text) { Ok(all) } else { Err(all) }
    })
}

#[test]
fn a_command_on_the_host_runs_once_without_keys_and_its_bounded_output_comes_to_who_asked() {
    let home = TempHome::new().init();
    let outside = home.outside();
    let file = |name: &str| outside.join(name).display().to_string();
    let command = format!(
        "echo ran >> {}; id -u > {}; env > {}; yes flood | head -c 2000000",
        file("ran.txt"),
        file("uid.txt"),
        file("env.txt")
    );
    let other = format!("echo never >> {}", file("ran.txt"));
    let replies = json!([
        {"when": "do it", "steps": [
            {"calls": [{"name": "exec", "arguments": {"command": command}}]}, {"say": "{{last_result}}"},
        ]},
        {"when": "do that", "steps": [
            {"calls": [{"name": "exec", "arguments": {"command": other}}]}, {"say": "{{last_result}}"},
        ]},
        {"steps": [{"say": "noted"}]},
    ]);
    play(&home, "host", &replies);
    home.flock(["config", "set", "agents.list[sysadmin].model.primary", "script/host"]).ok();
    with_key(&home, &["start", "-q"]);

    let denied = ask(&home, "do that");
    let row = shown(&home, &denied);
    let body: Value = serde_json::from_str(row["body"].as_str().unwrap()).unwrap();
    let execution = &body["request"]["execution"];
    assert_eq!(
        body,
        json!({"agent": "sysadmin", "request": {"kind": "command", "command": other, "execution": execution}}),
        "what is shown is the command and how it runs, and nothing else"
    );
    let cwd = execution["cwd"].as_str().unwrap();
    assert!(cwd.ends_with(&format!("run/commands/{denied}")), "{cwd}");
    let listed = home.flock(["approvals", "list"]).ok().stdout;
    assert!(listed.contains("echo never"), "{listed}");
    home.flock(["approvals", "deny", &denied, "--reason", "not on a Sunday"]).ok();
    until_told(&home, &format!("Your request {denied} was denied by human:ann: not on a Sunday"));
    home.flock(["approvals", "approve", &denied]).fails(1);
    assert!(!outside.join("ran.txt").exists(), "nothing has run");

    let approved = ask(&home, "do it");
    assert_ne!(approved, denied);
    home.flock(["approvals", "approve", &approved]).ok();
    let all = until_told(&home, &format!("Your request {approved} (run on the host: "));
    home.flock(["approvals", "approve", &approved]).fails(1);
    let row = shown(&home, &approved);
    assert_eq!((&row["state"], &row["decidedBy"]), (&json!("done"), &json!("human:ann")), "{row}");
    let result = row["result"].as_str().unwrap();
    assert!(result.starts_with("exit code 0") && result.len() < 40_000, "{} bytes", result.len());
    let came = all.matches("flood").count();
    assert!(all.contains("exit code 0") && came > 1000, "the output came to the session: {came}");
    assert!(all.len() < 200_000, "{} bytes in transcripts", all.len());

    let read = |name: &str| std::fs::read_to_string(outside.join(name)).unwrap();
    assert_eq!(read("ran.txt"), "ran\n", "it ran once");
    assert_eq!(read("uid.txt").trim(), nix::unistd::getuid().to_string(), "as the gateway's user");
    assert!(
        !read("env.txt").contains("sk-planted") && !read("env.txt").contains("FLOCK"),
        "{}",
        read("env.txt")
    );
    home.flock(["stop", "-q"]).ok();
    home.flock(["start", "-q"]).ok();
    assert_eq!(open(&home), Vec::<Value>::new());
    assert_eq!(read("ran.txt"), "ran\n");
    home.flock(["stop", "-q"]).ok();
}

#[test]
fn the_gateway_restarts_at_the_sysadmins_word_after_its_turn_and_the_team_goes_on() {
    let home = TempHome::new().init();
    let replies = json!([
        {"when": "anew", "steps": [
            {"calls": [{"name": "flock_restart_gateway", "arguments": {"reason": "it is slow"}}]},
            {"say": "{{last_result}}", "delay_ms": 300},
        ]},
        {"steps": [{"say": "still here"}]},
    ]);
    play(&home, "all", &replies);
    home.flock(["config", "set", "agents.defaults.model.primary", "script/all"]).ok();
    home.flock(["start", "-q"]).ok();
    let pid = || home.flock(["status", "--json"]).json()["gateway"]["pid"].as_i64();
    let before = pid().unwrap();
    let said = home.flock(["chat", "sysadmin", "start it anew"]).ok().stdout;
    assert!(said.contains("restarts after this turn"), "the turn came to its end: {said}");
    wait_until("another gateway answers", LIMIT, || match pid() {
        Some(now) if now != before => Ok(()),
        other => Err(format!("{other:?}")),
    });
    wait_until("the team goes on", LIMIT, || {
        let run = home.flock(["chat", "sysadmin", "are you there"]);
        if run.stdout == "still here\n" { Ok(()) } else { Err(format!("{run:?}")) }
    });
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("gateway.restart"), "{audit}");
    // One restart was asked for, and one there was: its turn is not taken up again.
    let now = pid();
    let all = transcripts(&home, "sysadmin").join("\n");
    assert_eq!(all.matches("\"toolCall\"").count(), 1, "{all}");
    assert_eq!(pid(), now);
    home.flock(["stop", "-q"]).ok();
}
