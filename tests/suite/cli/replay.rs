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
