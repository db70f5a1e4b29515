//! Each role calls each of flock's tools in a turn; who may not is refused when the tool is called, whatever
//! the model was told.

use std::collections::BTreeMap;

use flock::tool::catalog;
use flock::tool::policy::Roles;
use serde_json::{Value, json};

use super::stage::{Served, play, transcripts};
use crate::support::home::TempHome;

/// What each tool answered, by the tool's name.
fn answers(transcripts: &[String]) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    let records = transcripts.iter().flat_map(|text| text.lines());
    for record in records.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        collect(&record, &mut answers);
    }
    answers
}

fn collect(value: &Value, answers: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|kind| kind == "toolResult")
                && let Some(name) = fields.get("name").and_then(Value::as_str)
            {
                answers.insert(name.to_owned(), value["content"].to_string());
            }
            fields.values().for_each(|value| collect(value, answers));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, answers)),
        _ => {}
    }
}

#[test]
fn each_role_has_its_tools_and_no_other_when_it_calls_them() {
    let home = TempHome::new().init();
    // Arguments that no tool takes: whoever may call it gets as far as that.
    let calls: Vec<Value> =
        catalog::flocks_own().map(|tool| json!({"name": tool.name, "arguments": "{\"broken"})).collect();
    let steps: Vec<Value> =
        calls.chunks(4).map(|calls| json!({"calls": calls})).chain([json!({"say": "tried"})]).collect();
    play(&home, "all", &json!([{"steps": steps}]));
    let mut config = home.config();
    config["agents"]["defaults"]["model"]["primary"] = "script/all".into();
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    home.flock(["add", "coder", "--no-container"]).ok();
    let _served = Served::start(&home);
    for (agent, role) in [("orchestrator", 0), ("sysadmin", 1), ("coder", 2)] {
        assert_eq!(home.flock(["chat", agent, "try all"]).ok().stdout, "tried\n");
        let answers = answers(&transcripts(&home, agent));
        for tool in catalog::flocks_own() {
            let (name, roles) = (tool.name, tool.roles.unwrap());
            let may = match roles {
                Roles::All => true,
                Roles::Orchestrator => role == 0,
                Roles::Sysadmin => role == 1,
                Roles::NotSysadmin => role != 1,
            };
            let answer = answers.get(name).unwrap_or_else(|| panic!("{agent} {name}: {answers:#?}"));
            let expected = match (may, role) {
                // Nobody here works on a project.
                (true, _) if name.starts_with("flock_project_") => "you work on no project",
                (true, _) => "the arguments are not valid JSON",
                (false, 1) if roles == Roles::NotSysadmin => "to reach you, the sysadmin",
                (false, _) => "belongs to the",
            };
            assert!(answer.contains(expected), "{agent} {name}: {answer}");
        }
    }
}
