//! The orchestrator makes the team larger and smaller: what it may do alone, what a person decides, and that
//! nothing is left of who was removed.

use flock::store::Store;
use serde_json::{Value, json};

use super::stage::{LIMIT, Served, play, until_said};
use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::wait_until;

fn create(when: &str, arguments: Value) -> Value {
    call(when, "flock_create_agent", arguments)
}

fn call(when: &str, tool: &str, arguments: Value) -> Value {
    json!({"when": when, "steps": [{"calls": [{"name": tool, "arguments": arguments}]}, {"say": "{{last_result}}"}]})
}

fn agents(home: &TempHome) -> Vec<String> {
    let listed = home.flock(["list", "--json"]).ok().json();
    listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["id"].as_str().unwrap().to_owned())
        .collect()
}

fn requests(home: &TempHome) -> Vec<Value> {
    let listed = home.flock(["approvals", "list", "--all", "--json"]).ok().json();
    listed["requests"].as_array().unwrap().clone()
}

fn home(replies: Value) -> TempHome {
    let home = TempHome::new().init();
    play(&home, "all", &replies);
    home.flock(["config", "set", "agents.defaults.model.primary", "script/all"]).ok();
    home
}

#[test]
fn an_agent_that_the_orchestrator_made_is_there_at_once_and_tricks_make_none() {
    let home = home(json!([
        create("make ada", json!({"newAgentId": "ada", "reason": "the work grows"})),
        create("make another", json!({"newAgentId": "bob", "reason": "x"})),
        create("make a boss", json!({"newAgentId": "boss", "role": "sysadmin", "reason": "x"})),
        create("make a rich one", json!({"newAgentId": "rich", "model": "anthropic/claude-opus-4-5", "reason": "x"})),
        create("make a system", json!({"newAgentId": "system", "reason": "x"})),
        create("make it twice", json!({"newAgentId": "ADA", "reason": "x"})),
        create("make a path", json!({"newAgentId": "../ada", "reason": "x"})),
        {"when": "who is there", "steps": [{"say": "ada is there"}]},
        {"steps": [{"say": ""}]},
    ]));
    home.flock(["config", "set", "plugins.entries.flock.config.maxAgents", "3"]).ok();
    let _served = Served::start(&home);
    let ask = |text: &str| home.flock(["chat", "orchestrator", text]).ok().stdout;
    for (text, answer) in [
        ("make a boss", "a new agent is always a worker"),
        ("make a system", "system"),
        ("make a path", "../ada"),
        ("make it twice", "ADA"),
    ] {
        let said = ask(text);
        assert!(said.contains(answer), "{text}: {said}");
        assert_eq!(agents(&home).len(), 2, "{text}: {said}");
    }
    let said = ask("make a rich one");
    assert!(said.contains("RED") && said.contains("waits for a person"), "{said}");
    assert_eq!(agents(&home).len(), 2);

    let said = ask("make ada");
    assert!(said.contains("ada is created"), "{said}");
    assert_eq!(agents(&home), ["orchestrator", "sysadmin", "ada"]);
    let row =
        requests(&home).into_iter().find(|row| row["body"].as_str().unwrap().contains("\"ada\"")).unwrap();
    assert_eq!((&row["level"], &row["state"]), (&json!("YELLOW"), &json!("done")), "{row}");
    let config = home.config();
    let entries = config["plugins"]["entries"]["flock"]["config"]["gatewayAgents"].as_array().unwrap();
    let ada = entries.iter().find(|entry| entry["id"] == "ada").unwrap();
    assert_eq!(ada["role"], "worker");

    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada"]).ok();
    home.flock(["channel", "post", "work", "@ada who is there?"]).ok();
    until_said(&home, "work", "ada", "ada is there");

    let said = ask("make another");
    assert!(said.contains("maxAgents"), "{said}");
    // A person's word does not lift the limit either.
    let rich = requests(&home).into_iter().find(|row| row["state"] == "waiting").unwrap();
    let run = home.flock(["approvals", "approve", rich["id"].as_str().unwrap()]);
    wait_until("it failed", LIMIT, || {
        let all = requests(&home);
        let row = all.iter().find(|row| row["id"] == rich["id"]).unwrap();
        if row["state"] == "failed" { Ok(()) } else { Err(format!("{row} {run:?}")) }
    });
    assert_eq!(agents(&home).len(), 3);
}

#[test]
fn an_agents_end_waits_for_a_person_and_leaves_nothing_of_it_behind() {
    let home = home(json!([
        call("end ada", "flock_decommission_agent", json!({"targetAgentId": "ada", "reason": "it is done"})),
        call("give ada work", "flock_message", json!({"to": "ada", "message": "count slowly"})),
        {"when": "count slowly", "steps": [{"say": "one ".repeat(20_000), "pace_ms": 50}]},
        call("reach out", "flock_sysadmin_request",
            json!({"kind": "egress", "host": "files.example", "reason": "data"})),
        {"steps": [{"say": ""}]},
    ]));
    home.flock(["add", "ada", "--network", "proxy", "--no-container"]).ok();
    home.flock(["config", "set", "plugins.entries.flock.config.egress.ask", "auto"]).ok();
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "ada", "--member", "orchestrator"])
        .ok();
    let served = Served::start(&home);
    let said = home.flock(["chat", "ada", "reach out"]).ok().stdout;
    assert!(said.contains("you can reach it"), "{said}");
    let store = Store::open(&flock::home::Home::new(home.path(), None)).unwrap();
    let ada = "ada".parse().unwrap();
    assert_eq!(block_on(store.grants().bodies(&ada, "egress")).unwrap().len(), 1);
    home.flock(["chat", "orchestrator", "give ada work"]).ok();
    let task = || {
        let tasks = home.flock(["tasks", "--json"]).ok().json();
        tasks["tasks"].as_array().unwrap().iter().find(|task| task["assignee"] == "ada").cloned()
    };
    wait_until("ada works", LIMIT, || match task() {
        Some(task) if task["state"] == "working" => Ok(()),
        other => Err(format!("{other:?}")),
    });

    let said = home.flock(["chat", "orchestrator", "end ada"]).ok().stdout;
    assert!(said.contains("RED") && said.contains("not done"), "{said}");
    assert!(agents(&home).contains(&"ada".to_owned()));
    let row = requests(&home).into_iter().find(|row| row["state"] == "waiting").unwrap();
    assert_eq!((&row["kind"], &row["level"]), (&json!("agent-remove"), &json!("RED")));
    home.flock(["approvals", "approve", row["id"].as_str().unwrap()]).ok();
    wait_until("it is done", LIMIT, || {
        let row = requests(&home).into_iter().find(|found| found["id"] == row["id"]).unwrap();
        if row["state"] == "done" { Ok(()) } else { Err(row.to_string()) }
    });
    assert_eq!(agents(&home), ["orchestrator", "sysadmin"]);
    assert!(!home.config_text().contains("\"ada\""), "{}", home.config_text());
    wait_until("nothing of ada is left", LIMIT, || {
        let members = home.flock(["channel", "list", "--json"]).ok().stdout;
        let status = home.flock(["status", "--json"]).ok().json();
        let (task, grants) = (task().unwrap(), block_on(store.grants().bodies(&ada, "egress")).unwrap());
        let is_over = ["canceled", "failed", "rejected"].iter().any(|state| task["state"] == *state);
        if !members.contains("\"ada\"")
            && is_over
            && grants.is_empty()
            && status["gateway"]["turns"]["running"] == 0
        {
            Ok(())
        } else {
            Err(format!("{members}\n{task}\n{grants:?}\n{}", status["gateway"]))
        }
    });
    home.flock(["chat", "ada", "hello"]).fails(1);
    assert!(home.file("workspaces/ada").is_dir(), "its workspace is kept");
    served.stop();
    // One of the same name is another one: it has none of the grants.
    home.flock(["add", "ada", "--network", "proxy", "--no-container"]).ok();
    assert_eq!(block_on(store.grants().bodies(&ada, "egress")).unwrap(), Vec::<String>::new());
}
