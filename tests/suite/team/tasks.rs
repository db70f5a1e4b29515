use serde_json::{Value, json};

use super::House;

/// The orchestrator sends the coder a message; the coder answers.
fn replies() -> Value {
    json!([
        {"when": "delegate", "steps": [
            {"calls": [{"name": "flock_message", "arguments": {"to": "coder", "message": "count to three"}}]},
            {"say": "Sent."}
        ]},
        {"when": "count to three", "steps": [{"say": "one two three"}]},
        {"when": "slowly", "steps": [{"say": "word ".repeat(20_000), "pace_ms": 50}]},
        {"when": "to your task", "steps": [{"say": "So that is done."}]},
        {"steps": [{"say": "Nothing to do."}]}
    ])
}

fn task(house: &House, of: &str) -> Option<Value> {
    let tasks = house.get("/api/tasks");
    tasks["tasks"].as_array().unwrap().iter().find(|task| task["requester"] == of).cloned()
}

#[test]
fn a_message_between_agents_is_one_task_whose_answer_comes_back() {
    let house = House::new(&replies());
    house
        .home
        .flock(["chat", "orchestrator", "please delegate", "--session", "agent:orchestrator:flock:main:ann"])
        .ok();
    let done = house.until("the task is done", |house| {
        task(house, "orchestrator")
            .filter(|task| task["state"] == "completed")
            .ok_or_else(|| house.get("/api/tasks").to_string())
    });
    assert_eq!((&done["assignee"], &done["summary"]), (&json!("coder"), &json!("count to three")));
    let whole = house.get(&format!("/api/tasks/{}", done["id"].as_str().unwrap()));
    assert_eq!(whole["response"], "one two three");
    house.until("the answer was given to the session that asked", |house| {
        let transcripts = std::fs::read_dir(house.home.file("agents/orchestrator/sessions")).unwrap();
        let texts: Vec<String> =
            transcripts.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
        let has =
            texts.iter().any(|text| text.contains("one two three") && text.contains("So that is done."));
        if has { Ok(()) } else { Err(texts.join("\n---\n")) }
    });
    // The answer to the answer goes nowhere: there is one task, counted once.
    assert_eq!(house.get("/api/tasks")["tasks"].as_array().unwrap().len(), 1);
    let listed =
        house.home.flock(["tasks", "--agent", "coder", "--state", "completed", "--json"]).ok().json();
    assert_eq!(listed["tasks"][0]["id"], done["id"]);
    assert_eq!(house.home.flock(["tasks", "--state", "failed", "--json"]).ok().json(), json!({"tasks": []}));
    let shown = house.home.flock(["tasks"]).ok().stdout;
    assert!(shown.contains("orchestrator") && shown.contains("count to three"), "{shown}");
    house.home.flock(["tasks", "--state", "done"]).fails(2);
}

#[test]
fn a_person_stops_a_task_and_its_turn_ends() {
    let house = House::new(&replies());
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go slowly"}]});
    let params = json!({"message": message, "configuration": {"returnImmediately": true}});
    let id = house.call("coder", "SendMessage", params)["result"]["task"]["id"].as_str().unwrap().to_owned();
    house.until("it is worked on", |house| {
        task(house, "a2a:owner")
            .filter(|task| task["state"] == "working")
            .ok_or_else(|| house.get("/api/tasks").to_string())
    });
    house.home.flock(["tasks", "--cancel", &id]).ok();
    assert_eq!(task(&house, "a2a:owner").unwrap()["state"], "canceled");
    assert_eq!(house.get("/api/sessions?agent=coder")["turns"], json!([]));
    let again = house.home.flock(["tasks", "--cancel", &id]).fails(1);
    assert!(again.stderr.contains("canceled"), "{again:#?}");
    house.home.flock(["tasks", "--cancel", "../x"]).fails(2);
    house.home.flock(["tasks", "--cancel", "0"]).fails(1);
}

/// A reply to a person that sends the coder a message.
fn delegates(when: &str, message: &str) -> Value {
    json!({"when": when, "steps": [
        {"calls": [{"name": "flock_message", "arguments": {"to": "coder", "message": message}}]},
        {"say": "Sent."}
    ]})
}

#[test]
fn a_task_for_a_removed_person_fails_and_keeps_nobody_waiting() {
    let house = House::new(&json!([
        delegates("this is for bea", "count to three"),
        delegates("this is for carl", "name a colour"),
        {"when": "name a colour", "steps": [{"say": "blue"}]},
        {"steps": [{"say": "Nothing to do."}]}
    ]));
    house.home.flock(["person", "add", "bea", "--role", "member"]).ok();
    // Both messages wait in the one session that the two agents have, hers first.
    house.home.flock(["freeze", "coder"]).ok();
    for name in ["bea", "carl"] {
        let text = format!("this is for {name}");
        let session = format!("agent:orchestrator:flock:main:{name}");
        house.home.flock(["chat", "orchestrator", &text, "--session", &session]).ok();
    }
    assert_eq!(house.get("/api/tasks")["tasks"].as_array().unwrap().len(), 2);
    house.home.flock(["person", "remove", "bea"]).ok();
    house.home.flock(["thaw", "coder"]).ok();
    let tasks = house.until("both tasks have ended", |house| {
        let tasks = house.get("/api/tasks")["tasks"].as_array().unwrap().clone();
        let is_over = |task: &Value| task["state"] == "completed" || task["state"] == "failed";
        if tasks.iter().all(is_over) { Ok(tasks) } else { Err(json!(tasks).to_string()) }
    });
    let ended = |summary: &str| {
        let found = tasks.iter().find(|task| task["summary"] == summary).unwrap();
        house.get(&format!("/api/tasks/{}", found["id"].as_str().unwrap()))
    };
    let (hers, his) = (ended("count to three"), ended("name a colour"));
    assert_eq!(hers["state"], "failed", "{hers}");
    assert!(hers["response"].as_str().unwrap().contains("bea was removed from this home"), "{hers}");
    assert_eq!((&his["state"], &his["response"]), (&json!("completed"), &json!("blue")), "{his}");
}

#[test]
fn a_storm_of_direct_messages_ends_until_a_person_speaks() {
    let again = json!([
        {"calls": [{"name": "flock_message", "arguments": {"to": "coder", "message": "your turn"}}]},
        {"say": "Sent."}
    ]);
    // Each answer is answered with another message: two agents that never stop by themselves.
    let house = House::new(&json!([
        {"when": "please begin", "steps": again},
        {"when": "back to you", "steps": again},
        {"steps": [{"say": "back to you"}]}
    ]));
    let budgets = json!({"turnsWithoutHuman": 3}).to_string();
    house.home.flock(["config", "set", "plugins.entries.flock.config.budgets", &budgets]).ok();
    for round in 1..=2 {
        let session = "agent:orchestrator:flock:main:ann";
        house.home.flock(["chat", "orchestrator", "please begin", "--session", session]).ok();
        house.until("the next message is refused", |house| {
            let audit = house.home.flock(["audit", "--json"]).ok().stdout;
            if audit.matches("task.brake").count() == round { Ok(()) } else { Err(audit) }
        });
        let tasks = house.get("/api/tasks");
        assert_eq!(tasks["tasks"].as_array().unwrap().len(), 3 * round, "{tasks}");
    }
    let chats = house.get("/api/audit?action=chat.turn");
    assert_eq!(chats["rows"].as_array().unwrap().len(), 2, "{chats}");
    assert!(!chats.to_string().contains("please begin"), "{chats}");
}
