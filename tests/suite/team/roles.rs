//! Each role calls each of flock's tools in a turn; who may not is refused when the tool is called, whatever
//! the model was told.

use std::collections::BTreeMap;

use flock::sandbox::policy::{FLOCK_TOOLS, Roles};
use serde_json::{Value, json};

use super::stage::{Served, play, transcripts};
use crate::support::home::TempHome;

/// What each tool answered, by the tool's name.
fn answers(transcripts: &[String]) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut answers = BTreeMap::new();
    let records = transcripts.iter().flat_map(|text| text.lines());
    for record in records.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        visit(&record, &mut |value| {
            if let (Some(id), Some(name)) = (value["id"].as_str(), value["name"].as_str())
                && value.get("arguments").is_some()
            {
                names.insert(id.to_owned(), name.to_owned());
            }
            let id = ["callId", "call_id", "toolCallId", "id"].into_iter().find_map(|key| value[key].as_str());
            if let (Some(name), Some(content)) = (id.and_then(|id| names.get(id)), value.get("content")) {
                answers.insert(name.clone(), content.to_string());
            }
        });
    }
    answers
}

fn visit(value: &Value, with: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(fields) => {
            with(value);
            fields.values().for_each(|value| visit(value, with));
        }
        Value::Array(items) => items.iter().for_each(|value| visit(value, with)),
        _ => {}
    }
}

#[test]
fn each_role_has_its_tools_and_no_other_when_it_calls_them() {
    let home = TempHome::new().init();
    // Arguments that no tool takes: whoever may call it gets as far as that.
    let calls: Vec<Value> = FLOCK_TOOLS
        .iter()
        .map(|(name, _)| json!({"name": name, "arguments": "{\"broken"}))
        .collect();
    let steps: Vec<Value> = calls.chunks(4).map(|calls| json!({"calls": calls})).chain([json!({"say": "tried"})]).collect();
    play(&home, "all", &json!([{"steps": steps}]));
    let mut config = home.config();
    config["agents"]["defaults"]["model"]["primary"] = "script/all".into();
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    home.flock(["add", "coder", "--no-container"]).ok();
    let _served = Served::start(&home);
    for (agent, role) in [("orchestrator", 0), ("sysadmin", 1), ("coder", 2)] {
        assert_eq!(home.flock(["chat", agent, "try all"]).ok().stdout, "tried\n");
        let answers = answers(&transcripts(&home, agent));
        for (name, roles) in FLOCK_TOOLS {
            let may = match roles {
                Roles::All => true,
                Roles::Orchestrator => role == 0,
                Roles::Sysadmin => role == 1,
                Roles::NotSysadmin => role != 1,
            };
            let answer = answers.get(*name).unwrap_or_else(|| panic!("{agent} {name}: {answers:#?}"));
            let is_refused = answer.contains("belongs to the") || answer.contains("is how the others reach you");
            assert_eq!(is_refused, !may, "{agent} {name}: {answer}");
        }
    }
}
