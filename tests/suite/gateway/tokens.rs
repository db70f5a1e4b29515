//! Tokens of clients: what each opens, for which agents, how long, and under which name its client speaks.

use flock::id::{AgentId, Party, SessionKey, SessionKind, TurnId};
use flock::supervise::gateway_client::{Answer, Call, Client};
use flock::swarm::{Actor, Swarm};
use serde_json::{Value, json};

use super::house::{House, LIMIT, ask, ask_streamed, send, until};

/// A client with a new token.
async fn client(house: &House, name: &str, agents: Value, rights: Value) -> Client {
    let wanted = json!({"name": name, "agents": agents, "rights": rights, "by": "ann"});
    let (status, made) = send(&house.owner(), Call::post("/api/tokens").json(&wanted).unwrap()).await;
    assert_eq!(status, 201, "{made}");
    Client::new(house.port).with_token(made["token"].as_str().unwrap())
}

fn chat(agent: &str) -> Call {
    let mut asked = ask("say hello");
    asked["model"] = agent.into();
    Call::post("/v1/chat/completions").json(&asked).unwrap()
}

/// A stream of events that was opened with a token that expires soon: the soonest that this machine is quick enough for.
async fn expiring(house: &House) -> Answer {
    for after in [300, 1_000, 5_000, 15_000] {
        let wanted = json!({"name": format!("short-{after}"), "rights": ["read"],
            "expiresAt": flock::clock::unix_ms() + after});
        let (status, made) = send(&house.owner(), Call::post("/api/tokens").json(&wanted).unwrap()).await;
        if status == 201 {
            let client = Client::new(house.port).with_token(made["token"].as_str().unwrap());
            let stream = client.send(Call::get("/api/events"), LIMIT).await.unwrap();
            if stream.status() == 200 {
                return stream;
            }
        }
    }
    panic!("no token was used before it expired");
}

/// The agents of the only token.
async fn agents_of(house: &House) -> Value {
    send(&house.owner(), Call::get("/api/tokens")).await.1["tokens"][0]["agents"].clone()
}

async fn chat_stream(client: &Client, text: &str) -> Answer {
    let asked = Call::post("/v1/chat/completions").json(&ask_streamed(text)).unwrap();
    let answer = client.send(asked, LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer
}

/// A direct message from one agent to another.
async fn message(swarm: &Swarm, from: &str, to: &AgentId) {
    let from: AgentId = from.parse().unwrap();
    let session = SessionKey::new(&from, SessionKind::Main, "ann");
    let by = Actor { party: Party::Agent(from), session: Some(session), turn: Some(TurnId::new()) };
    swarm.send_message(&by, to, "do it", None).await.unwrap();
}

async fn channel(house: &House, id: &str, members: Value) {
    let made = json!({"id": id, "topic": "work", "members": members});
    let (status, body) = send(&house.owner(), Call::post("/api/channels").json(&made).unwrap()).await;
    assert_eq!(status, 201, "{body}");
}

fn post(channel: &str, name: Option<&str>) -> Call {
    let said = json!({"content": "hello", "as": name});
    Call::post(&format!("/api/channels/{channel}/messages")).json(&said).unwrap()
}

#[tokio::test]
async fn a_clients_token_opens_what_its_rights_and_agents_say_and_nothing_else() {
    let house = House::new().await;
    let client = client(&house, "ci", json!(["coder"]), json!(["chat"])).await;
    assert_eq!(send(&client, chat("coder")).await.0, 200);
    let (status, body) = send(&client, chat("tester")).await;
    assert_eq!((status, &body["error"]["code"]), (403, &json!("out_of_scope")), "{body}");
    let said = |agent: &str| {
        let said = json!({"agent": agent, "prompt": "say hello"});
        Call::post("/api/message").json(&said).unwrap()
    };
    assert_eq!(send(&client, said("coder")).await.0, 200);
    assert_eq!(send(&client, said("tester")).await.0, 403);
    let (_, models) = send(&client, Call::get("/v1/models")).await;
    assert_eq!(models["data"].as_array().unwrap().len(), 1, "{models}");
    assert_eq!(send(&client, Call::get("/v1/models/tester")).await.0, 403);
    for call in [
        Call::get("/api/status"),
        Call::get("/api/audit"),
        Call::get("/api/events"),
        Call::get("/api/messages?agent=coder"),
        Call::get("/api/approvals"),
        Call::get("/api/tokens"),
        Call::post("/api/tokens"),
        Call::delete("/api/tokens/ci"),
        Call::post("/api/freeze"),
        Call::post("/api/approvals/r-1/approve"),
        Call::post("/flock/a2a/coder"),
        Call::get("/.well-known/agent-card.json"),
        Call::post("/api/plugin/events"),
        Call::post("/mcp"),
        Call::get("/nothing"),
    ] {
        let (status, body) = send(&client, call).await;
        assert_eq!((status, &body["error"]["code"]), (403, &json!("out_of_scope")), "{body}");
    }
}

#[tokio::test]
async fn a_client_speaks_under_its_tokens_name_alone() {
    let house = House::new().await;
    channel(&house, "dev", json!(["coder"])).await;
    channel(&house, "both", json!(["coder", "tester"])).await;
    channel(&house, "people", json!(["human:ann"])).await;
    let client = client(&house, "ci", json!(["coder"]), json!(["chat"])).await;
    assert_eq!(send(&client, post("dev", None)).await.0, 201);
    assert_eq!(send(&client, post("dev", Some("ci"))).await.0, 201);
    for other in ["ann", "owner", "coder", "token:ci"] {
        let (status, body) = send(&client, post("dev", Some(other))).await;
        assert_eq!((status, &body["error"]["code"]), (403, &json!("name_of_another")), "{other}");
    }
    for others in ["both", "people"] {
        assert_eq!(send(&client, post(others, None)).await.0, 403, "{others} is read by others");
    }
    let (status, body) = send(&house.owner(), post("dev", Some("token:ci"))).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("usage")), "nobody takes a client's name");
    let (_, read) = send(&house.owner(), Call::get("/api/channels/dev/messages")).await;
    let mut authors: Vec<&str> =
        read["messages"].as_array().unwrap().iter().map(|said| said["author"].as_str().unwrap()).collect();
    authors.retain(|author| author.starts_with("human:"));
    assert_eq!(authors, ["human:token:ci", "human:token:ci"]);
    assert_eq!(send(&client, chat("coder")).await.0, 200);
    let (_, audit) = send(&house.owner(), Call::get("/api/audit")).await;
    let rows = audit["rows"].as_array().unwrap();
    let by = |action: &str| rows.iter().find(|row| row["action"] == action).unwrap()["actor"].clone();
    assert_eq!((by("chat.turn"), by("token.add")), (json!("human:token:ci"), json!("human:ann")));
}

#[tokio::test]
async fn a_client_has_turns_only_in_sessions_of_its_own() {
    let house = House::new().await;
    let client = client(&house, "ci", Value::Null, json!(["chat"])).await;
    let chat_in = |session: &str| chat("coder").header("x-openclaw-session-key", session);
    let said_in = |session: Option<&str>| {
        let mut said = json!({"agent": "coder", "prompt": "say hello"});
        said["sessionKey"] = json!(session);
        Call::post("/api/message").json(&said).unwrap()
    };
    assert_eq!(send(&client, said_in(None)).await.0, 200);
    assert_eq!(house.runner.last().session.as_str(), "agent:coder:flock:main:token:ci");
    assert_eq!(send(&client, chat("coder")).await.0, 200);
    let new = house.runner.last().session.to_string();
    assert!(new.starts_with("agent:coder:flock:request:token:ci:"), "{new}");
    for own in [&*new, "agent:coder:flock:main:token:ci", "agent:coder:flock:request:token:ci:mine"] {
        assert_eq!(send(&client, chat_in(own)).await.0, 200, "{own}");
        assert_eq!(send(&client, said_in(Some(own))).await.0, 200, "{own}");
    }
    for other in ["main:ann", "main:token:cia", "request:review", "channel:dev", "dm:tester"] {
        let other = format!("agent:coder:flock:{other}");
        assert_eq!(send(&client, chat_in(&other)).await.0, 403, "{other}");
        assert_eq!(send(&client, said_in(Some(&other))).await.0, 403, "{other}");
        assert_eq!(send(&house.owner(), chat_in(&other)).await.0, 200, "{other} is open to the owner");
    }
}

#[tokio::test]
async fn a_reader_of_some_agents_sees_nothing_of_the_others() {
    let house = House::new().await;
    channel(&house, "dev", json!(["coder"])).await;
    channel(&house, "both", json!(["coder", "tester"])).await;
    let client = client(&house, "watcher", json!(["coder"]), json!(["read", "a2a"])).await;
    let ids = |listed: &Value, key: &str| -> Vec<String> {
        let id = |item: &Value| {
            item.get("id").or(item.get("channelId")).and_then(Value::as_str).unwrap().to_owned()
        };
        listed[key].as_array().unwrap().iter().map(id).collect()
    };
    let (_, agents) = send(&client, Call::get("/api/agents")).await;
    assert_eq!(ids(&agents, "agents"), ["coder"]);
    let (_, channels) = send(&client, Call::get("/api/channels")).await;
    assert_eq!(ids(&channels, "channels"), ["dev"], "{channels}");
    for (path, status) in [
        ("/api/channels/dev", 200),
        ("/api/channels/both", 403),
        ("/api/channels/dev/messages", 200),
        ("/api/channels/both/messages", 403),
        ("/api/sessions", 200),
        ("/api/sessions?agent=tester", 403),
        ("/api/sessions/agent:tester:flock:main:ann", 403),
        ("/api/messages?agent=tester", 403),
        ("/api/status", 403),
        ("/api/usage", 403),
        ("/api/audit", 403),
    ] {
        assert_eq!(send(&client, Call::get(path)).await.0, status, "{path}");
    }
    let (_, cards) = send(&client, Call::get("/flock/.well-known/agent-card.json")).await;
    assert_eq!(ids(&cards, "agents"), ["coder"], "{cards}");
    let (status, card) = send(&client, Call::get("/.well-known/agent-card.json")).await;
    assert_eq!(status, 200);
    assert!(card.to_string().contains("/flock/a2a/coder"), "{card}");
    assert_eq!(send(&client, Call::get("/flock/a2a/tester/.well-known/agent-card.json")).await.0, 403);
    assert_eq!(send(&client, Call::post("/flock/a2a/tester").json(&json!({})).unwrap()).await.0, 403);

    // Tasks, to and from others.
    for (to, from) in
        [("coder", None), ("tester", None), ("coder", Some("tester")), ("tester", Some("coder"))]
    {
        let (swarm, to) = (&house.gateway.swarm, to.parse().unwrap());
        match from {
            None => drop(swarm.send_a2a("owner", &to, "c", "do it", None).await.unwrap()),
            Some(from) => message(swarm, from, &to).await,
        }
    }
    let (_, tasks) = send(&client, Call::get("/api/tasks?limit=1")).await;
    let shown = &tasks["tasks"][0];
    assert_eq!((&shown["assignee"], &shown["requester"]), (&json!("coder"), &json!("a2a:owner")), "{tasks}");
    let (_, all) = send(&house.owner(), Call::get("/api/tasks")).await;
    for task in all["tasks"].as_array().unwrap() {
        let path = format!("/api/tasks/{}", task["id"].as_str().unwrap());
        let status = if task["id"] == shown["id"] { 200 } else { 404 };
        assert_eq!(send(&client, Call::get(&path)).await.0, status, "{task}");
    }

    // Events: what the other agent does, and what is said where it listens, is left out.
    let call = Call::get("/api/events");
    let mut events = client.ask(call, LIMIT).await.unwrap().events();
    for (channel, agent) in [("both", "tester"), ("dev", "coder")] {
        assert_eq!(send(&house.owner(), post(channel, None)).await.0, 201);
        assert_eq!(send(&house.owner(), chat(agent)).await.0, 200);
    }
    let mut seen = Vec::new();
    while seen.last().is_none_or(|(name, _)| name != "turn.ended") {
        let event = events.next(LIMIT).await.unwrap().expect("the stream goes on");
        seen.push((event.name, event.data));
    }
    assert!(
        seen.iter().any(|(name, data)| name == "channel.message" && data.contains("\"dev\"")),
        "{seen:?}"
    );
    assert!(!seen.iter().any(|(_, data)| data.contains("tester") || data.contains("both")), "{seen:?}");
}

#[tokio::test]
async fn a_token_is_for_an_agent_and_not_for_its_name() {
    let house = House::new().await;
    let client = client(&house, "ci", json!(["coder", "tester"]), json!(["chat"])).await;
    let mut stream = chat_stream(&client, "wait-streaming").await;
    let store = house.gateway.swarm.store();
    let entry = |action| {
        flock::swarm::Actor::human("ann").entry(action, "coder", flock::store::Level::Yellow, String::new())
    };
    let (coder, writer) = ("coder".parse().unwrap(), "writer".parse().unwrap());
    store.agents().rename(coder, writer, entry("agent.rename"), 1).await.unwrap();
    assert_eq!(agents_of(&house).await, json!(["writer", "tester"]));
    while stream.chunk(LIMIT).await.unwrap().is_some() {}
    assert_eq!(send(&client, chat("coder")).await.0, 403);
    for gone in ["writer", "tester"] {
        store.grants().revoke(gone.parse().unwrap(), None, entry("request.revoke"), 2).await.unwrap();
    }
    assert_eq!(agents_of(&house).await, json!([]), "it is for none, and not for all");
    assert_eq!(send(&client, chat("tester")).await.0, 403);
}

#[tokio::test]
async fn a_token_is_a_hash_and_ends_when_it_is_revoked_or_expires() {
    let house = House::new().await;
    let client = client(&house, "watcher", Value::Null, json!(["read"])).await;
    let (_, listed) = send(&house.owner(), Call::get("/api/tokens")).await;
    assert_eq!(listed["tokens"][0]["name"], "watcher");
    assert!(!listed.to_string().contains("flk_"), "{listed}");
    assert!(!house.database.contains("flk_"));
    assert_eq!(send(&client, Call::get("/api/channels")).await.0, 200);
    let mut events = client.send(Call::get("/api/events"), LIMIT).await.unwrap();
    assert_eq!(events.status(), 200);
    let mut soon_over = expiring(&house).await;
    while soon_over.chunk(LIMIT).await.unwrap().is_some() {}
    let revoke = || Call::delete("/api/tokens/watcher?by=ann");
    assert_eq!(send(&house.owner(), revoke()).await.0, 200);
    while events.chunk(LIMIT).await.unwrap().is_some() {}
    assert_eq!(send(&client, Call::get("/api/channels")).await.0, 401);
    let (status, body) = send(&house.owner(), revoke()).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("token_not_found")));

    // The name is free again. What can't be made is refused.
    let add = |wanted: Value| Call::post("/api/tokens").json(&wanted).unwrap();
    assert_eq!(send(&house.owner(), add(json!({"name": "watcher", "rights": ["read"]}))).await.0, 201);
    for (wanted, status) in [
        (json!({"name": "owner", "rights": ["read"]}), 400),
        (json!({"name": "a b", "rights": ["read"]}), 400),
        (json!({"name": "x", "rights": []}), 400),
        (json!({"name": "x", "rights": ["root"]}), 400),
        (json!({"name": "x", "rights": ["read"], "agents": []}), 400),
        (json!({"name": "x", "rights": ["read"], "agents": ["nobody"]}), 404),
        (json!({"name": "x", "rights": ["read"], "expiresAt": 1}), 400),
        (json!({"name": "x", "rights": ["read"]}), 201),
        (json!({"name": "X", "rights": ["read"]}), 409),
    ] {
        let (answered, body) = send(&house.owner(), add(wanted.clone())).await;
        assert_eq!(answered, status, "{wanted}: {body}");
    }
}

#[tokio::test]
async fn the_last_use_of_a_token_is_known_and_noting_it_ends_no_stream() {
    let house = House::new().await;
    channel(&house, "dev", json!(["coder"])).await;
    let last_use =
        async || send(&house.owner(), Call::get("/api/tokens")).await.1["tokens"][0]["lastUsedAt"].clone();
    let before = flock::clock::unix_ms();
    let client = client(&house, "ci", json!(["coder"]), json!(["read"])).await;
    assert_eq!(last_use().await, Value::Null, "it was made and not used");
    let mut events = client.ask(Call::get("/api/events"), LIMIT).await.unwrap().events();
    let noted = || house.database.number("SELECT coalesce(used_at, 0) FROM client_token");
    until("the use is noted", || noted() > 0).await;
    let first = last_use().await.as_i64().unwrap();
    assert!((before..=flock::clock::unix_ms()).contains(&first), "{first}");
    assert_eq!(send(&client, Call::get("/api/agents")).await.0, 200);
    assert_eq!(last_use().await, first, "it is about a minute exact");
    // Only the stream uses the token now. The second time shows that the first one has not ended it. The clock of the gateway that
    // has noted the last use may be behind or ahead.
    let hour = 3_600_000;
    for other in [1, first + hour] {
        let set = format!("UPDATE client_token SET used_at = {other}");
        assert_eq!(house.database.execute(&set), 1);
        until("the use by the stream is noted", || (first..first + hour).contains(&noted())).await;
    }
    assert_eq!(send(&house.owner(), post("dev", None)).await.0, 201);
    while events.next(LIMIT).await.unwrap().expect("the stream goes on").name != "channel.message" {}
    // A new token of the name was not used.
    assert_eq!(send(&house.owner(), Call::delete("/api/tokens/ci")).await.0, 200);
    let wanted = json!({"name": "ci", "rights": ["read"]});
    let (status, made) = send(&house.owner(), Call::post("/api/tokens").json(&wanted).unwrap()).await;
    assert_eq!((status, &made["lastUsedAt"]), (201, &Value::Null), "{made}");
    assert_eq!(last_use().await, Value::Null);
}

#[tokio::test]
async fn a_token_under_the_name_of_a_revoked_one_is_another_client() {
    let house = House::new().await;
    let rights = || json!(["a2a", "chat"]);
    let call = |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        Call::post("/flock/a2a/coder").json(&body).unwrap()
    };
    let message = || {
        json!({"configuration": {"returnImmediately": true}, "message": {"messageId": "m-1", "contextId": "c-1",
            "role": "ROLE_USER", "parts": [{"text": "what is the secret?"}]}})
    };
    let first = client(&house, "ci", json!(["coder"]), rights()).await;
    let sent = send(&first, call("SendMessage", message())).await.1;
    let id = sent["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{sent}")).to_owned();
    let chat_in = |key: &str| chat("coder").header("x-openclaw-session-key", key);
    let own = "agent:coder:flock:main:token:ci";
    assert_eq!(send(&first, chat_in(own)).await.0, 200);
    assert_eq!(send(&house.owner(), Call::delete("/api/tokens/ci?by=ann")).await.0, 200);

    let second = client(&house, "ci", json!(["coder"]), rights()).await;
    let got = send(&second, call("GetTask", json!({"id": id}))).await.1;
    assert_eq!(got["error"]["code"], -32001, "{got}");
    let cancelled = send(&second, call("CancelTask", json!({"id": id}))).await.1;
    assert_eq!(cancelled["error"]["code"], -32001, "{cancelled}");
    let listed = send(&second, call("ListTasks", json!({}))).await.1;
    assert_eq!(listed["result"]["totalSize"], 0, "{listed}");
    // Neither its message's name nor its conversation is the first one's.
    let sent = send(&second, call("SendMessage", message())).await.1;
    assert_ne!(sent["result"]["task"]["id"], id.as_str(), "{sent}");
    let tasks =
        house.gateway.swarm.store().tasks().list(&flock::store::TaskFilter::default(), 10).await.unwrap();
    let sessions: std::collections::BTreeSet<&str> = tasks.iter().map(|task| task.session.as_str()).collect();
    let requesters: Vec<&str> = tasks.iter().map(|task| task.requester.as_str()).collect();
    assert_eq!((sessions.len(), requesters), (2, vec!["a2a:ci:2", "a2a:ci"]), "{sessions:?}");
    assert_eq!(send(&second, chat_in(own)).await.0, 403);
    assert_eq!(send(&second, chat("coder")).await.0, 200);
    // The session of its own is not the first one's either.
    let last = house.runner.last();
    assert!(!last.session.as_str().contains("token:ci"), "{}", last.session);
}
