use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::{House, LIMIT};

/// `slowly` takes longer than any test, `ask` asks back, everything else is answered at once.
fn replies() -> Value {
    json!([
        {"when": "slowly", "steps": [{"say": "word ".repeat(20_000), "pace_ms": 50}]},
        {"when": "ask me", "steps": [
            {"calls": [{"name": "flock_tasks", "arguments": {"direction": "received", "state": "working", "limit": 1}}]},
            {"calls": [{"name": "flock_task_respond",
                "arguments": {"taskId": "{{last_result}}", "response": "Which colour?"}}]},
            {"say": "I have asked."}
        ]},
        {"when": "blue", "steps": [{"say": "Blue it is."}]},
        {"when": "break", "steps": [{"error": {"status": 400, "message": "no"}}]},
        {"when": "hello", "steps": [{"say": "Hello from here."}]}
    ])
}

/// A name that no other message has.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("m-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn message(text: &str) -> Value {
    json!({"message": {"messageId": name(), "role": "ROLE_USER", "parts": [{"text": text}]}})
}

fn old_message(text: &str) -> Value {
    json!({"message": {"kind": "message", "messageId": name(), "role": "user",
        "parts": [{"kind": "text", "text": text}]}})
}

fn not_waiting(text: &str) -> Value {
    let mut params = message(text);
    params["configuration"] = json!({"returnImmediately": true});
    params
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_message_is_answered_in_both_versions_and_told_as_it_goes() {
    let house = House::new(&replies());
    let new = house.call("coder", "SendMessage", message("hello"));
    let task = &new["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{new}");
    assert_eq!(task["artifacts"][0]["parts"], json!([{"text": "Hello from here."}]));
    assert_eq!(task["history"][0]["parts"], json!([{"text": "hello"}]));

    let old = house.call("coder", "message/send", old_message("hello"));
    let task = &old["result"];
    assert_eq!((&task["kind"], &task["status"]["state"]), (&json!("task"), &json!("completed")), "{old}");
    assert_eq!(task["artifacts"][0]["parts"], json!([{"kind": "text", "text": "Hello from here."}]));
    let id = task["id"].as_str().unwrap();
    let got = house.call("coder", "tasks/get", json!({"id": id, "historyLength": 0}));
    assert_eq!(got["result"]["artifacts"], task["artifacts"]);
    assert!(got["result"].get("history").is_none());
    // The same task, asked for in the other version's words.
    let got = house.call("coder", "GetTask", json!({"id": id}));
    assert_eq!(got["result"]["status"]["state"], "TASK_STATE_COMPLETED");
    let listed = house.call("coder", "ListTasks", json!({"pageSize": 1}));
    assert_eq!(
        (&listed["result"]["totalSize"], &listed["result"]["tasks"][0]["id"]),
        (&json!(2), &json!(id))
    );
    let token = listed["result"]["nextPageToken"].as_str().unwrap();
    let rest = house.call("coder", "ListTasks", json!({"pageSize": 1, "pageToken": token}));
    assert_eq!(rest["result"]["nextPageToken"], "", "{rest}");

    for (method, params) in
        [("SendStreamingMessage", message("hello")), ("message/stream", old_message("hello"))]
    {
        let (_, body) = house.call_raw("coder", method, params);
        let events: Vec<Value> = body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str::<Value>(data).unwrap()["result"].clone())
            .collect();
        let text = events.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        assert!(events.len() >= 3, "{text}");
        let (first, last) = (&events[0], &events[events.len() - 1]);
        if method == "message/stream" {
            assert_eq!((&first["kind"], &last["kind"]), (&json!("task"), &json!("status-update")), "{text}");
            assert_eq!(
                (&last["final"], &last["status"]["state"]),
                (&json!(true), &json!("completed")),
                "{text}"
            );
            assert!(text.contains("artifact-update"), "{text}");
        } else {
            assert!(first["task"]["id"].is_string(), "{text}");
            assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{text}");
            assert!(text.contains("artifactUpdate"), "{text}");
        }
        assert!(text.contains("Hello from here."), "{text}");
    }
    let failed = house.call("coder", "SendMessage", message("break"));
    assert_eq!(failed["result"]["task"]["status"]["state"], "TASK_STATE_FAILED", "{failed}");
    assert!(failed["result"]["task"]["status"]["message"]["parts"][0]["text"].is_string(), "{failed}");
}

#[test]
fn cancelling_a_task_ends_its_turn() {
    let house = House::new(&replies());
    let sent = house.call("coder", "SendMessage", not_waiting("go slowly"));
    let id = sent["result"]["task"]["id"].as_str().unwrap().to_owned();
    house.until("the turn runs", |house| {
        let turns = house.get("/api/sessions?agent=coder")["turns"].clone();
        let runs = turns.as_array().unwrap().iter().any(|turn| turn["state"] == "running");
        if runs { Ok(()) } else { Err(turns.to_string()) }
    });
    let cancelled = house.call("coder", "CancelTask", json!({"id": id}));
    assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    let turns = house.get("/api/sessions?agent=coder")["turns"].clone();
    assert_eq!(turns, json!([]), "the turn has ended by the time of the answer");
    assert_eq!(code(&house.call("coder", "CancelTask", json!({"id": id}))), -32002);
    assert_eq!(code(&house.call("coder", "tasks/resubscribe", json!({"id": id}))), -32004);
    // The session goes on.
    let next = house.call("coder", "SendMessage", message("hello"));
    assert_eq!(next["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn a_task_survives_a_killed_gateway() {
    let mut house = House::new(&replies());
    let done = house.call("coder", "SendMessage", message("hello"))["result"]["task"]["id"].clone();
    let sent = house.call("coder", "SendMessage", not_waiting("hello again"));
    let id = sent["result"]["task"]["id"].clone();
    house.kill();
    house.start();
    let kept = house.call("coder", "GetTask", json!({"id": done}));
    assert_eq!(kept["result"]["artifacts"][0]["parts"][0]["text"], "Hello from here.", "{kept}");
    house.until("the task that was accepted is done", |house| {
        let task = house.call("coder", "GetTask", json!({"id": id}));
        if task["result"]["status"]["state"] == "TASK_STATE_COMPLETED" {
            Ok(())
        } else {
            Err(task.to_string())
        }
    });
    // One that a turn was in the middle of comes to an end too, and is not lost.
    let sent = house.call("coder", "SendMessage", not_waiting("go slowly"));
    let id = sent["result"]["task"]["id"].clone();
    house.until("the turn runs", |house| {
        let task = house.call("coder", "GetTask", json!({"id": id}));
        if task["result"]["status"]["state"] == "TASK_STATE_WORKING" { Ok(()) } else { Err(task.to_string()) }
    });
    house.kill();
    house.start();
    house.until("the task is taken up again or has ended", |house| {
        let task = house.call("coder", "GetTask", json!({"id": id}));
        let state = task["result"]["status"]["state"].as_str().unwrap_or_default().to_owned();
        let turns = house.get("/api/sessions?agent=coder")["turns"].clone();
        let is_ended = ["TASK_STATE_COMPLETED", "TASK_STATE_FAILED"].contains(&state.as_str());
        if is_ended || turns != json!([]) { Ok(()) } else { Err(task.to_string()) }
    });
}

#[test]
fn an_agent_asks_back_and_goes_on_with_the_reply() {
    let house = House::new(&replies());
    let asked = house.call("coder", "SendMessage", message("ask me"));
    let task = asked["result"]["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "Which colour?");
    let mut reply = message("blue");
    reply["message"]["taskId"] = task["id"].clone();
    let mut foreign = reply.clone();
    foreign["message"]["contextId"] = "another".into();
    assert_eq!(code(&house.call("coder", "SendMessage", foreign)), -32602);
    reply["message"]["contextId"] = task["contextId"].clone();
    let done = house.call("coder", "SendMessage", reply.clone());
    let done = &done["result"]["task"];
    assert_eq!(done["id"], task["id"]);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "Blue it is.");
    assert_eq!(done["history"].as_array().unwrap().len(), 3, "{done}");
    let again = house.call("coder", "SendMessage", reply.clone());
    assert_eq!(again["result"]["task"], *done, "the same reply again is the same");
    reply["message"]["messageId"] = name().into();
    assert_eq!(code(&house.call("coder", "SendMessage", reply)), -32004, "it is done");
}

#[test]
fn what_is_unknown_or_not_taken_is_refused_in_the_protocols_words() {
    let house = House::new(&replies());
    let done = house.call("coder", "SendMessage", message("hello"))["result"]["task"]["id"].clone();
    for id in [json!("nobody"), json!("")] {
        let answer = house.call("coder", "GetTask", json!({"id": id}));
        assert!([-32001, -32602].contains(&code(&answer)), "{answer}");
    }
    // Another agent's address knows nothing of it.
    assert_eq!(code(&house.call("tester", "GetTask", json!({"id": done}))), -32001);
    assert_eq!(code(&house.call("tester", "CancelTask", json!({"id": done}))), -32001);
    let mut unknown = message("hello");
    unknown["message"]["taskId"] = "nothing".into();
    assert_eq!(code(&house.call("coder", "SendMessage", unknown)), -32001);
    assert_eq!(code(&house.call("coder", "tasks/drop", json!({}))), -32601);
    assert_eq!(code(&house.call("coder", "tasks/pushNotificationConfig/set", json!({}))), -32003);
    assert_eq!(code(&house.call("coder", "GetExtendedAgentCard", json!({}))), -32007);
    let file =
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"url": "file:///etc/passwd"}]}});
    assert_eq!(code(&house.call("coder", "SendMessage", file)), -32005);
    assert_eq!(code(&house.call("coder", "SendMessage", message(&"x".repeat(300 * 1024)))), -32602);

    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("hello")});
    for agent in ["nobody", "..%2fcoder", "main"] {
        let (status, body) = house.http("POST", &format!("/flock/a2a/{agent}"), Some(&call), true).unwrap();
        assert_eq!(status, 404, "{agent}: {body}");
    }
    for path in [
        "/flock/a2a/coder",
        "/flock/a2a/coder/.well-known/agent-card.json",
        "/.well-known/agent-card.json",
        "/flock/.well-known/agent-card.json",
        "/api/tasks",
    ] {
        let method = if path.ends_with("/coder") { "POST" } else { "GET" };
        let (status, body) = house.http(method, path, Some(&call), false).unwrap();
        assert_eq!(status, 401, "{path}: {body}");
    }
}

#[test]
fn cards_serve_both_versions_and_the_directory_has_all_of_them() {
    let house = House::new(&replies());
    let card = house.get("/flock/a2a/coder/.well-known/agent-card.json");
    let url = format!("http://127.0.0.1:{}/flock/a2a/coder", house.home.port());
    assert_eq!((&card["url"], &card["protocolVersion"]), (&json!(url), &json!("0.3.0")));
    let versions: Vec<&str> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|interface| interface["protocolVersion"].as_str().unwrap())
        .collect();
    assert_eq!(versions, ["1.0", "0.3"]);
    assert_eq!(card["capabilities"]["streaming"], true);
    assert_eq!(card["securitySchemes"]["bearer"]["scheme"], "bearer");
    let home = house.get("/.well-known/agent-card.json");
    assert!(home["url"].as_str().unwrap().ends_with("/flock/a2a/orchestrator"));
    let all = house.get("/flock/.well-known/agent-card.json");
    let ids: Vec<&str> =
        all["agents"].as_array().unwrap().iter().map(|card| card["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["orchestrator", "sysadmin", "coder", "tester"]);
}

#[test]
fn a_message_that_is_sent_again_is_the_same_task() {
    let mut house = House::new(&replies());
    let hello = message("hello");
    let first = house.call("coder", "SendMessage", hello.clone());
    house.kill();
    house.start();
    let second = house.call("coder", "SendMessage", hello.clone());
    assert_eq!(first["result"], second["result"], "also by another gateway");
    let listed = house.call("coder", "ListTasks", json!({}));
    assert_eq!(listed["result"]["totalSize"], 1);
    let mut other = hello.clone();
    other["message"]["parts"][0]["text"] = "something else".into();
    assert_eq!(code(&house.call("coder", "SendMessage", other)), -32602);
    let tester = house.call("tester", "SendMessage", hello);
    assert_ne!(tester["result"]["task"]["id"], first["result"]["task"]["id"], "another agent's is another");
}

#[test]
fn what_was_said_before_stays_in_the_history_under_the_clients_names() {
    let house = House::new(&replies());
    let first = message("ask me");
    let asked = house.call("coder", "SendMessage", first.clone())["result"]["task"].clone();
    let mut second = message("ask me once more");
    second["message"]["taskId"] = asked["id"].clone();
    let asked = house.call("coder", "SendMessage", second.clone())["result"]["task"].clone();
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    let of = |task: &Value, pointer: &str| -> Vec<Value> {
        task["history"]
            .as_array()
            .unwrap()
            .iter()
            .map(|said| said.pointer(pointer).unwrap().clone())
            .collect()
    };
    let texts = ["ask me", "Which colour?", "ask me once more", "Which colour?"];
    assert_eq!(of(&asked, "/parts/0/text"), texts, "{asked}");
    let names = of(&asked, "/messageId");
    assert_eq!(names[0], first["message"]["messageId"]);
    assert_eq!(names[2], second["message"]["messageId"]);
    let got = house.call("coder", "GetTask", json!({"id": asked["id"], "history_length": 1}));
    assert_eq!(of(&got["result"], "/parts/0/text"), ["Which colour?"]);
}

#[test]
fn a_subscriber_of_a_task_that_waits_is_told_its_end() {
    let house = House::new(&replies());
    let asked = house.call("coder", "SendMessage", message("ask me"))["result"]["task"].clone();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": asked["id"]}});
    let (token, call) = (house.home.token(), call.to_string());
    let mut stream = TcpStream::connect(("127.0.0.1", house.home.port())).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let head = format!(
        "POST /flock/a2a/coder HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{call}",
        token,
        call.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut seen = String::new();
    let mut piece = [0; 4096];
    while !seen.contains("TASK_STATE_INPUT_REQUIRED") {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the stream ended: {seen}");
        seen.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    let mut reply = message("blue");
    reply["message"]["taskId"] = asked["id"].clone();
    house.call("coder", "SendMessage", reply);
    stream.read_to_string(&mut seen).unwrap();
    assert!(seen.contains("TASK_STATE_WORKING") && seen.contains("TASK_STATE_COMPLETED"), "{seen}");
    assert!(seen.contains("Blue it is."), "{seen}");
}

#[test]
fn a_frozen_agent_is_said_at_once_and_the_task_goes_on_with_its_thaw() {
    let house = House::new(&replies());
    house.post("/api/agents/coder/freeze?by=ann");
    let sent = house.call("coder", "SendMessage", message("hello"));
    let task = &sent["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED", "{sent}");
    let said = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(said.contains("coder is frozen since ") && said.contains(" by human:ann"), "{said}");
    assert!(said.contains("flock thaw coder"), "{said}");
    let id = task["id"].as_str().unwrap().to_owned();
    let old = house.call("coder", "message/send", old_message("hello"));
    assert_eq!(old["result"]["status"]["state"], "submitted", "{old}");
    let got = house.call("coder", "GetTask", json!({"id": id}));
    assert_eq!(got["result"]["status"]["message"]["parts"][0]["text"], said, "{got}");
    house.post("/api/agents/coder/thaw");
    house.until("the task is done", |house| {
        let got = house.call("coder", "GetTask", json!({"id": id}));
        let is_done = got["result"]["status"]["state"] == "TASK_STATE_COMPLETED";
        if is_done && got["result"]["status"]["message"].is_null() { Ok(()) } else { Err(got.to_string()) }
    });
    // One that is frozen while its client waits.
    let waiting = std::thread::scope(|scope| {
        let call = scope.spawn(|| house.call("coder", "SendMessage", message("go slowly")));
        house.until("the turn runs", |house| {
            let turns = house.get("/api/sessions?agent=coder")["turns"].clone();
            let runs = turns.as_array().unwrap().iter().any(|turn| turn["state"] == "running");
            if runs { Ok(()) } else { Err(turns.to_string()) }
        });
        house.post("/api/freeze?by=ann");
        call.join().unwrap()
    });
    let status = &waiting["result"]["task"]["status"];
    assert_eq!(status["state"], "TASK_STATE_WORKING", "{waiting}");
    assert!(status["message"]["parts"][0]["text"].as_str().unwrap().contains("frozen"), "{waiting}");
    house.post("/api/thaw");
}
