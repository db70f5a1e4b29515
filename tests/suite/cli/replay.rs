//! `flock replay`: what was recorded, played again by the present code.

use serde_json::{Value, json};

use crate::faults::provider::with_agents;
use crate::support::home::TempHome;
use crate::support::model_server::{ModelServer, Reply};

const KEY: &str = "agent:ada:flock:main:ann";

/// A home with a session of three answers: a call that ran, one that was refused, and a text.
fn recorded() -> (ModelServer, TempHome) {
    let model = ModelServer::start();
    let home = with_agents(&model, &["ada"]);
    std::fs::write(home.file("workspaces/ada/notes"), "the notes").unwrap();
    model.reply(Reply::call("c1", "read", &json!({"path": "notes"})));
    model.reply(Reply::call("c2", "triage_decision", &json!({})));
    model.always(Reply::text("done"));
    home.flock(["start"]).ok();
    home.flock(["chat", "ada", "look at the notes", "--session", KEY]).ok();
    home.flock(["stop"]).ok();
    (model, home)
}

fn differences(run: &Value) -> Vec<String> {
    let all = run["sessions"][0]["differences"].as_array().unwrap();
    all.iter()
        .map(|found| format!("{}: {}", found["what"].as_str().unwrap(), found["text"].as_str().unwrap()))
        .collect()
}

#[test]
fn what_did_not_change_is_played_without_a_difference_and_without_a_model() {
    let (model, home) = recorded();
    let asked = model.requests();
    let played = home.flock(["replay", KEY, "--json"]).ok().json();
    assert_eq!(model.requests().len(), asked.len(), "no model is asked");
    assert_eq!(differences(&played), Vec::<String>::new());
    let steps = played["sessions"][0]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 3, "{played}");
    // Each request has as many messages as the recorded one had.
    for (step, request) in steps.iter().zip(&asked) {
        let sent = request.body["messages"].as_array().unwrap();
        let of_conversation = sent.iter().filter(|message| message["role"] != "system").count();
        assert_eq!(step["messages"].as_u64().unwrap(), of_conversation as u64, "{step}");
        let offered: Vec<&str> = request.body["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(step["tools"], json!(offered));
    }
    assert_eq!(
        (&steps[0]["calls"][0]["decision"], &steps[0]["calls"][0]["recorded"]),
        (&json!("run"), &json!("run"))
    );
    assert_eq!(steps[1]["calls"][0]["decision"], "refuse");
    let text = home.flock(["replay", KEY]).ok().stdout;
    assert!(text.contains("nothing differs"), "{text}");
}

#[test]
fn a_changed_prompt_is_shown_by_section_and_a_changed_policy_by_call() {
    let (_model, home) = recorded();
    let saved = home.outside().join("before.json");
    let saved_text = saved.display().to_string();
    home.flock(["replay", KEY, "--save", &saved_text]).ok();
    home.flock(["replay", KEY, "--against", &saved_text]).ok();
    let kept = std::fs::read_to_string(&saved).unwrap();
    assert!(!kept.contains("the notes") && !kept.contains("sk-"), "no message and no key is saved");

    std::fs::write(home.file("agents/ada/identity/USER.md"), "The user is called Berta.\n").unwrap();
    let list = home.config()["tools"]["sandbox"]["tools"]["allow"].clone();
    let fewer: Vec<&Value> = list.as_array().unwrap().iter().filter(|tool| **tool != "read").collect();
    let allow = "agents.list[ada].tools.sandbox.tools.allow";
    home.flock(["config", "set", allow, &json!(fewer).to_string()]).ok();

    let played = home.flock(["replay", KEY, "--json"]).fails(1).json();
    let found = differences(&played).join("\n");
    assert!(found.contains("prompt: section"), "{found}");
    assert!(played.to_string().contains("The user is called Berta."), "{played}");
    assert!(found.contains("policy: read ran and would be refused now"), "{found}");

    let compared = home.flock(["replay", KEY, "--against", &saved_text, "--json"]).fails(1).json();
    let found = differences(&compared).join("\n");
    for part in ["prompt: section", "tools: not offered any more: read", "policy: read: run -> refuse"] {
        assert!(found.contains(part), "{part}: {found}");
    }
    assert_eq!(
        found.matches("not offered any more").count(),
        1,
        "what stays different is said once: {found}"
    );
    let shown = home.flock(["replay", KEY, "--against", &saved_text]).fails(1).stdout;
    assert!(shown.contains("+The user is called Berta."), "{shown}");
}

#[test]
fn a_transcript_of_elsewhere_and_a_channel_are_played_and_mistakes_are_named() {
    let (_model, home) = recorded();
    let folder = std::fs::read_dir(home.file("agents/ada/sessions")).unwrap();
    let file = folder
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let copy = home.outside().join("copy.jsonl");
    std::fs::copy(file.unwrap(), &copy).unwrap();
    let copy = copy.display().to_string();
    let played = home.flock(["replay", "--transcript", &copy, "--agent", "ada", "--json"]).ok().json();
    assert_eq!(played["sessions"][0]["steps"].as_array().unwrap().len(), 3);
    // Lines that are none are no part of a request.
    let text = std::fs::read_to_string(&copy).unwrap();
    std::fs::write(&copy, format!("{text}nonsense\n{{\"type\":\"of the future\"}}\n")).unwrap();
    home.flock(["replay", "--transcript", &copy, "--agent", "ada"]).ok();
    std::fs::write(&copy, "nonsense\n").unwrap();
    assert!(
        home.flock(["replay", "--transcript", &copy, "--agent", "ada"])
            .fails(1)
            .stderr
            .contains("is no transcript")
    );
    assert!(home.flock(["replay", "nowhere"]).fails(1).stderr.contains("there is no session or channel"));
    home.flock(["replay", "agent:ada:flock:main:nobody"]).fails(1);
    home.flock(["replay", KEY, "--against", "/nonexistent.json"]).fails(1);
    std::fs::write(home.outside().join("x.json"), "{\"format\":99,\"replays\":[]}").unwrap();
    let newer = home.outside().join("x.json").display().to_string();
    assert!(home.flock(["replay", KEY, "--against", &newer]).fails(1).stderr.contains("format 99"));
}

/// What the present code makes of the recorded session, without what depends on the machine and the version.
fn played(home: &TempHome) -> Value {
    let saved = home.outside().join("played.json");
    let transcript = fixture("session.jsonl").display().to_string();
    home.flock([
        "replay",
        "--transcript",
        &transcript,
        "--agent",
        "coder",
        "--save",
        &saved.display().to_string(),
    ])
    .ok();
    let saved: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let mut replay = saved["replays"][0].clone();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let runtime = format!("Host: {} |", host.trim());
    let version = format!("flock {}", env!("CARGO_PKG_VERSION"));
    let mut names = Vec::new();
    let mut prompts = Vec::new();
    for (digest, sections) in replay["prompts"].as_object().unwrap() {
        names.push(digest.clone());
        let sections = sections.as_array().unwrap().iter().map(|section| {
            let text = section["text"].as_str().unwrap();
            let text = text.replace(&runtime, "Host: HOST |").replace(&version, "flock VERSION");
            json!({"name": section["name"], "text": text.lines().collect::<Vec<_>>()})
        });
        prompts.push(Value::Array(sections.collect()));
    }
    for step in replay["steps"].as_array_mut().unwrap() {
        let digest = step["prompt"].as_str().unwrap().to_owned();
        step["prompt"] = names.iter().position(|name| *name == digest).unwrap().into();
        // It is the digest of everything else.
        step.as_object_mut().unwrap().remove("request");
    }
    replay["prompts"] = prompts.into();
    replay
}

fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/replay").join(name)
}

/// The session was recorded with the scripted model of `script.json`: a call that ran, two at once of which one failed, one
/// that the policy refused, and texts. After a wanted change of a prompt, of the tools, the policy or the hygiene,
/// `FLOCK_UPDATE=1 cargo test --test suite -- cli::replay` writes what is played now, and the diff of the file shows the
/// change to its reviewer.
#[test]
fn the_recorded_session_is_played_as_when_it_was_last_looked_at() {
    let home = TempHome::new().init();
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::copy(fixture("script.json"), home.file("scripts/coder")).unwrap();
    home.flock(["add", "coder", "--no-container", "--model", "script/coder"]).ok();
    let now = serde_json::to_string_pretty(&played(&home)).unwrap() + "\n";
    let expected = fixture("played.json");
    if std::env::var_os("FLOCK_UPDATE").is_some() {
        std::fs::write(&expected, &now).unwrap();
    }
    let then = std::fs::read_to_string(&expected).unwrap_or_default();
    let diff = similar::TextDiff::from_lines(&then, &now).unified_diff().context_radius(2).to_string();
    assert!(
        then == now,
        "a recorded session is played differently; FLOCK_UPDATE=1 takes it over, if it is wanted:\n{diff}"
    );

    // It is no test if a change does not show.
    std::fs::write(home.file("agents/coder/identity/USER.md"), "The user is called Berta.\n").unwrap();
    let changed = serde_json::to_string_pretty(&played(&home)).unwrap();
    assert!(changed.contains("The user is called Berta.") && changed != then.trim_end());
}
