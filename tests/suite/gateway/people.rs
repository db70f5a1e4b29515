//! People of a home beside its owner: what each role opens, what one never sees of another, under which name they act,
//! and how they end.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use flock::id::{AgentId, Party, TurnId};
use flock::store::{Along, AuditEntry, Level, NewRequest, RequestState, Scope};
use flock::supervise::gateway_client::{Answer, Call, Client, ServerSentEvents};
use flock::swarm::Actor;
use flock::swarm::triage::{Execution, FiledRequest, Request};
use serde_json::{Value, json};

use super::house::{House, LIMIT, ask, ask_streamed, send, text, until};
use crate::law::people::ACTIONS;

/// Words that stand only in what `bob` may see.
const SECRET: &str = "geheimwort";

/// Adds a person.
async fn add(house: &House, name: &str, role: &str, limits: Value) -> (u16, Value) {
    let mut wanted = json!({"name": name, "role": role, "by": "boss"});
    for (key, value) in limits.as_object().unwrap() {
        wanted[key] = value.clone();
    }
    send(&house.owner(), Call::post("/api/people").json(&wanted).unwrap()).await
}

/// A new token of a person.
async fn token(house: &House, name: &str) -> String {
    let call = Call::post(&format!("/api/people/{name}/tokens")).json(&json!({"by": "boss"})).unwrap();
    let (status, made) = send(&house.owner(), call).await;
    assert_eq!((status, &made["person"]), (201, &json!(name)), "{made}");
    made["token"].as_str().unwrap().to_owned()
}

/// A new person with a token.
async fn person(house: &House, name: &str, role: &str, limits: Value) -> Client {
    let (status, added) = add(house, name, role, limits).await;
    assert_eq!(status, 201, "{added}");
    Client::new(house.port).with_token(&token(house, name).await)
}

async fn channel(house: &House, id: &str, member: &str) {
    let made = json!({"id": id, "topic": "work", "members": [member]});
    let (status, body) = send(&house.owner(), Call::post("/api/channels").json(&made).unwrap()).await;
    assert_eq!(status, 201, "{body}");
}

fn post(channel: &str, content: &str) -> Call {
    Call::post(&format!("/api/channels/{channel}/messages")).json(&json!({"content": content})).unwrap()
}

fn chat(agent: &str) -> Call {
    let mut asked = ask("say hello");
    asked["model"] = agent.into();
    Call::post("/v1/chat/completions").json(&asked).unwrap()
}

/// `ann` with `coder` in `alpha-room`, and `bob` with `tester` in `beta-room`.
async fn two_people(house: &House) -> (Client, Client) {
    channel(house, "alpha-room", "coder").await;
    channel(house, "beta-room", "tester").await;
    let ann = person(house, "ann", "member", json!({"agents": ["coder"], "channels": ["alpha-room"]})).await;
    let bob = person(house, "bob", "member", json!({"agents": ["tester"], "channels": ["beta-room"]})).await;
    (ann, bob)
}

async fn next_event(events: &mut ServerSentEvents) -> String {
    let event = events.next(LIMIT).await.unwrap().expect("the stream goes on");
    format!("{} {}", event.name, event.data)
}

/// Reads a stream to its end.
async fn read_to_its_end(mut answer: Answer) {
    while answer.chunk(LIMIT).await.unwrap().is_some() {}
}

fn called(word: &str, path: &str) -> Call {
    let path: Vec<&str> =
        path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
    let path = path.join("/");
    match word {
        "GET" => Call::get(&path),
        "PUT" => Call::put(&path),
        "DELETE" => Call::delete(&path),
        _ => Call::post(&path),
    }
}

#[tokio::test]
async fn a_role_refuses_every_route_that_it_does_not_open() {
    let house = House::new().await;
    let refused: [(&str, &[&str]); 4] = [
        ("owner", &["root"]),
        ("operator", &["root", "administer"]),
        ("member", &["root", "administer", "manage", "oversee"]),
        ("viewer", &["root", "administer", "manage", "oversee", "talk", "decide"]),
    ];
    for (role, kinds) in refused {
        let someone = person(&house, &format!("{role}-role"), role, json!({})).await;
        let mut count = 0;
        for (word, path, kind) in ACTIONS.iter().filter(|(_, _, kind)| kinds.contains(kind)) {
            let (status, body) = send(&someone, called(word, path)).await;
            assert_eq!(status, 403, "{role}: {word} {path} ({kind})");
            // The relay answers in the words of a provider.
            if !path.starts_with("/relay/") {
                assert_eq!(body["error"]["code"], "out_of_scope", "{role}: {word} {path} ({kind})");
            }
            count += 1;
        }
        assert!(count > 10, "{role}");
        for path in ["/api/agents", "/api/channels", "/api/status", "/api/openapi.json", "/api/projects"] {
            assert_eq!(send(&someone, Call::get(path)).await.0, 200, "{role}: {path}");
        }
        let talks = send(&someone, chat("coder")).await.0;
        assert_eq!(talks, if role == "viewer" { 403 } else { 200 }, "{role}");
        let freezes = send(&someone, Call::post("/api/agents/coder/freeze")).await.0;
        assert_eq!(freezes, if matches!(role, "owner" | "operator") { 200 } else { 403 }, "{role}");
        send(&house.owner(), Call::post("/api/agents/coder/thaw")).await;
        let looks = send(&someone, Call::get("/api/audit")).await.0;
        assert_eq!(looks, if matches!(role, "owner" | "operator") { 200 } else { 403 }, "{role}");
        let administers = send(&someone, Call::get("/api/people")).await.0;
        assert_eq!(administers, if role == "owner" { 200 } else { 403 }, "{role}");
    }
}

#[tokio::test]
async fn the_status_has_what_is_of_the_machine_for_those_who_see_it() {
    let house = House::new().await;
    // With an entry of its own, the machine's engine is in the status.
    let drain = Call::post("/api/engines/local/drain").json(&json!({"drain": true})).unwrap();
    let blobs = json!({"kind": "folder", "path": "/nowhere"});
    let change = json!({"path": "plugins.entries.flock.config.storage.blobs", "value": blobs, "by": "boss"});
    // A search is the first look at the index.
    let search = Call::get("/api/search/memory?q=anything");
    for call in [drain, Call::put("/api/config/value").json(&change).unwrap(), search] {
        let (status, body) = send(&house.owner(), call).await;
        assert_eq!(status, 200, "{body}");
    }
    // No copies are made in this process.
    let unknown = json!({"place": "/nowhere", "checkpoints": null, "conversations": null, "vaults": null});
    let indexed = json!({"messagesBehind": 0});
    let record = json!({"at": 7, "file": "/mnt/nas/home.flock", "bytes": 1, "verified": true, "without": []});
    std::fs::write(house.home.root().join("data/backup.json"), record.to_string()).unwrap();
    let made = json!({"at": 7, "file": "/mnt/nas/home.flock"});
    for (role, sees) in [("owner", true), ("operator", true), ("member", false), ("viewer", false)] {
        let someone = person(&house, &format!("{role}-looks"), role, json!({})).await;
        let (status, shown) = send(&someone, Call::get("/api/status")).await;
        assert_eq!((status, shown.get("engines").is_some()), (200, sees), "{role}: {shown}");
        assert_eq!(shown.get("storage"), sees.then_some(&unknown), "{role}: {shown}");
        assert_eq!(shown.get("searchIndex"), sees.then_some(&indexed), "{role}: {shown}");
        assert_eq!(shown.get("backup"), sees.then_some(&made), "{role}: {shown}");
        assert_eq!(shown.get("database").is_some(), sees, "{role}: {shown}");
        assert_eq!(shown["mcpServers"].is_array(), sees, "{role}: {shown}");
        assert!(sees || (shown["gateways"].is_null() && shown["mcpServers"].is_null()), "{role}: {shown}");
    }
}

#[tokio::test]
async fn a_person_sees_nothing_of_agents_and_channels_that_are_not_theirs() {
    let house = House::new().await;
    let (ann, bob) = two_people(&house).await;
    assert_eq!(send(&bob, post("beta-room", SECRET)).await.0, 201);
    assert_eq!(send(&ann, post("alpha-room", "public words")).await.0, 201);
    assert_eq!(send(&bob, chat("tester")).await.0, 200);
    assert_eq!(send(&ann, chat("coder")).await.0, 200);
    for path in [
        "/v1/models",
        "/api/agents",
        "/api/channels",
        "/api/channels/alpha-room",
        "/api/channels/alpha-room/messages",
        "/api/sessions",
        "/api/tasks",
        "/api/approvals",
        "/api/approvals?state=all",
        "/api/search?q=geheimwort",
        "/api/search?q=words",
        "/api/usage/budgets",
        "/api/dashboard/sessions",
        "/flock/.well-known/agent-card.json",
        "/.well-known/agent-card.json",
    ] {
        let (status, shown) = text(ann.send(Call::get(path), LIMIT).await.unwrap()).await;
        assert_eq!(status, 200, "{path}: {shown}");
        for hidden in ["tester", "beta-room", "bob", SECRET] {
            assert!(!shown.replace("q=geheimwort", "").contains(hidden), "{path} shows {hidden}: {shown}");
        }
    }
    let (_, found) = send(&ann, Call::get("/api/search?q=words")).await;
    assert_eq!(found["messages"].as_array().unwrap().len(), 1, "{found}");
    let (_, found) = send(&bob, Call::get("/api/search?q=geheimwort")).await;
    assert_eq!(found["messages"].as_array().unwrap().len(), 1, "{found}");
    for path in
        ["/api/status", "/api/usage", "/api/audit", "/api/graph", "/api/projects", "/metrics", "/api/logs"]
    {
        assert_eq!(send(&ann, Call::get(path)).await.0, 403, "{path} shows all agents");
    }
}

#[tokio::test]
async fn what_a_person_may_not_see_is_refused_as_what_does_not_exist() {
    let house = House::new().await;
    let (ann, bob) = two_people(&house).await;
    assert_eq!(send(&bob, post("beta-room", SECRET)).await.0, 201);
    assert_eq!(send(&bob, chat("tester")).await.0, 200);
    let message = |agent: &str, key: Option<&str>| {
        let body = json!({"prompt": "say x", "agent": agent, "sessionKey": key});
        Call::post("/api/message").json(&body).unwrap()
    };
    type Make<'a> = &'a dyn Fn(&str) -> Call;
    // With the name of the hidden thing, and one that nobody has.
    let pairs: [(&str, &str, Make<'_>); 12] = [
        ("tester", "nobody", &|name| Call::get(&format!("/v1/models/{name}"))),
        ("tester", "nobody", &|name| chat(name)),
        ("tester", "nobody", &|name| message(name, None)),
        ("tester", "nobody", &|name| Call::get(&format!("/api/messages?agent={name}"))),
        ("tester", "nobody", &|name| Call::get(&format!("/api/sessions?agent={name}"))),
        ("tester", "nobody", &|name| {
            Call::get(&format!("/api/sessions/agent:{name}:flock:main:bob/transcript"))
        }),
        ("tester", "nobody", &|name| Call::get(&format!("/api/sessions/agent:{name}:flock:main:bob"))),
        ("tester", "nobody", &|name| Call::post(&format!("/api/sessions/agent:{name}:flock:main:bob/stop"))),
        ("beta-room", "no-room", &|name| Call::get(&format!("/api/channels/{name}"))),
        ("beta-room", "no-room", &|name| Call::get(&format!("/api/channels/{name}/messages"))),
        ("beta-room", "no-room", &|name| post(name, "hello")),
        ("beta-room", "no-room", &|name| Call::get(&format!("/api/channels/{name}/messages/1/files/0"))),
    ];
    for (hidden, unknown, call) in pairs {
        let (status, body) = send(&ann, call(hidden)).await;
        let (as_status, as_body) = send(&ann, call(unknown)).await;
        let plain = |body: &Value, name: &str| body.to_string().replace(name, "NAME");
        assert_eq!((status, plain(&body, hidden)), (as_status, plain(&as_body, unknown)), "{hidden}");
        assert_eq!(status, 404, "{body}");
    }
    // The session of another person with an agent that both may see.
    let carl = person(&house, "carl", "operator", json!({})).await;
    for known in ["agent:tester:flock:main:bob", "agent:tester:flock:main:nobody"] {
        for path in ["transcript", "prompt"] {
            let (status, body) = send(&carl, Call::get(&format!("/api/sessions/{known}/{path}"))).await;
            assert_eq!(
                (status, &body["error"]["code"]),
                (404, &json!("session_not_found")),
                "{known} {path}: {body}"
            );
        }
        let (status, body) = send(&carl, Call::get(&format!("/api/messages?sessionKey={known}"))).await;
        assert_eq!(status, 404, "{body}");
        assert_eq!(send(&carl, Call::post(&format!("/api/sessions/{known}/stop"))).await.0, 403, "{known}");
    }
}

#[tokio::test]
async fn a_stream_of_events_has_only_what_is_the_persons() {
    let house = House::new().await;
    let (ann, bob) = two_people(&house).await;
    let mut events = ann.ask(Call::get("/api/events"), LIMIT).await.unwrap().events();
    assert_eq!(send(&bob, post("beta-room", SECRET)).await.0, 201);
    assert_eq!(send(&bob, chat("tester")).await.0, 200);
    assert_eq!(send(&house.owner(), chat("coder")).await.0, 200);
    assert_eq!(send(&ann, post("alpha-room", "mine")).await.0, 201);
    assert_eq!(send(&ann, chat("coder")).await.0, 200);
    let first = next_event(&mut events).await;
    assert!(first.starts_with("channel.message") && first.contains("alpha-room"), "{first}");
    let mut seen = String::new();
    while !seen.contains("turn.ended") {
        let event = next_event(&mut events).await;
        assert!(event.contains("flock:request:person:ann:"), "{event}");
        seen = event;
    }
}

/// Returns the next event that is not about the stream itself, with its id.
async fn next_with_id(events: &mut ServerSentEvents) -> (String, String) {
    loop {
        let event = events.next(LIMIT).await.unwrap().expect("the stream goes on");
        if event.name != "passed" {
            return (event.id, event.data);
        }
    }
}

#[tokio::test]
async fn the_ids_of_a_persons_events_tell_nothing_and_lead_back() {
    let house = House::new().await;
    let (ann, bob) = two_people(&house).await;
    let mut events = ann.ask(Call::get("/api/events?types=channel"), LIMIT).await.unwrap().events();
    let mut of_owner =
        house.owner().ask(Call::get("/api/events?types=channel"), LIMIT).await.unwrap().events();
    let mut ids = Vec::new();
    for number in 0..3 {
        for _ in 0..number {
            assert_eq!(send(&bob, post("beta-room", SECRET)).await.0, 201);
        }
        assert_eq!(send(&ann, post("alpha-room", &format!("words {number}"))).await.0, 201);
        ids.push(next_with_id(&mut events).await.0);
    }
    // The owner's ids count, and hers have neither a number nor a part in common.
    let counted = next_with_id(&mut of_owner).await.0;
    let run = counted.split_once('.').unwrap().0;
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(id.len(), ids[0].len(), "{ids:?}");
        assert!(!id.contains('.') && !id.contains(run), "{id}");
        assert!(ids[..at].iter().all(|other| other[..8] != id[..8]), "{ids:?}");
    }
    // Each leads back to its place, by both ways, and of two the earlier one counts. The first message is flock's.
    let two = format!("{},{}", ids[1], ids[0]);
    for (known, first) in [(&ids[0], "\"seq\":3"), (&ids[1], "\"seq\":4"), (&two, "\"seq\":3")] {
        let call = Call::get("/api/events?types=channel").header("last-event-id", known);
        let mut resumed = ann.ask(call, LIMIT).await.unwrap().events();
        assert!(next_with_id(&mut resumed).await.1.contains(first), "{known}");
        let call = Call::get(&format!("/api/events?types=channel&lastEventId={known}"));
        let mut resumed = ann.ask(call, LIMIT).await.unwrap().events();
        assert!(next_with_id(&mut resumed).await.1.contains(first), "{known}");
    }
    // Nobody else's id is good for her, and hers for nobody else.
    for (client, id) in [(&ann, &counted), (&bob, &ids[0]), (&house.owner(), &ids[0])] {
        let call = Call::get("/api/events").header("last-event-id", id);
        let mut resumed = client.ask(call, LIMIT).await.unwrap().events();
        assert_eq!(resumed.next(LIMIT).await.unwrap().unwrap().name, "reset");
    }
}

#[tokio::test]
async fn a_token_of_a_person_ends_at_its_time_and_its_browser_with_it() {
    let house = House::new().await;
    let (_, _) = add(&house, "ann", "member", json!({})).await;
    let later = flock::clock::unix_ms() + 3_600_000;
    let call = Call::post("/api/people/ann/tokens").json(&json!({"expiresAt": later})).unwrap();
    let (status, made) = send(&house.owner(), call).await;
    assert_eq!((status, &made["expiresAt"]), (201, &json!(later)), "{made}");
    let secret = made["token"].as_str().unwrap();
    let ann = Client::new(house.port).with_token(secret);
    let browser = signed_in(&house, secret).await;
    let looks = async || page(&house, &browser, "/dashboard").await.0;
    assert_eq!((send(&ann, Call::get("/api/agents")).await.0, looks().await), (200, 200));
    let stream = ann.send(Call::get("/api/events"), LIMIT).await.unwrap();
    // The time passes: the token's end is now behind the clock.
    let change = format!("UPDATE client_token SET expires_at = {} WHERE person = 'ann'", later - 3_600_000);
    assert_eq!(house.database.execute(&change), 1);
    let (status, body) = send(&ann, Call::get("/api/agents")).await;
    assert_eq!((status, &body["error"]["code"]), (401, &json!("wrong_token")), "{body}");
    assert_eq!(looks().await, 401);
    assert_eq!(sign_in(&house, secret, &[]).await.status(), 401);
    read_to_its_end(stream).await;
}

#[tokio::test]
async fn the_audit_names_the_person_of_every_kind_of_change() {
    let house = House::new().await;
    let olga = person(&house, "olga", "owner", json!({})).await;
    let later = flock::clock::unix_ms() + 3_600_000;
    let body = |call: Call, body: Value| call.json(&body).unwrap();
    let changes: Vec<(Call, &str)> = vec![
        (
            body(Call::post("/api/channels"), json!({"id": "dev", "topic": "x", "members": ["coder"]})),
            "channel.create",
        ),
        (post("dev", "hello"), "channel.post"),
        (body(Call::put("/api/channels/dev"), json!({"topic": "y"})), "channel.topic"),
        (body(Call::post("/api/channels/dev/members"), json!({"add": ["tester"]})), "channel.members"),
        (Call::post("/api/agents/coder/freeze"), "agent.freeze"),
        (Call::post("/api/agents/coder/thaw"), "agent.thaw"),
        (Call::post("/api/freeze"), "home.freeze"),
        (Call::post("/api/thaw"), "home.thaw"),
        (
            body(
                Call::post("/api/schedules"),
                json!({"name": "s1", "to": "dev", "text": "x", "every": "1d"}),
            ),
            "schedule.add",
        ),
        (body(Call::put("/api/schedules/s1"), json!({"tokens": 5})), "schedule.budget"),
        (body(Call::put("/api/schedules/s1"), json!({"paused": true})), "schedule.pause"),
        (body(Call::put("/api/schedules/s1"), json!({"paused": false})), "schedule.resume"),
        (body(Call::post("/api/schedules/s1/run"), json!({})), "schedule.run"),
        (Call::delete("/api/schedules/s1"), "schedule.remove"),
        (
            body(Call::post("/api/hooks"), json!({"name": "h1", "channel": "dev", "kind": "github"})),
            "hook.add",
        ),
        (body(Call::put("/api/hooks/h1"), json!({"paused": true})), "hook.pause"),
        (body(Call::put("/api/hooks/h1"), json!({"paused": false})), "hook.resume"),
        (Call::delete("/api/hooks/h1"), "hook.remove"),
        (body(Call::post("/api/tokens"), json!({"name": "ci", "rights": ["read"]})), "token.add"),
        (Call::delete("/api/tokens/ci"), "token.revoke"),
        (body(Call::post("/api/people"), json!({"name": "max", "role": "viewer"})), "person.add"),
        (body(Call::put("/api/people/max"), json!({"role": "member"})), "person.change"),
        (body(Call::post("/api/people/max/tokens"), json!({"expiresAt": later})), "person.token"),
        (
            body(
                Call::post("/api/people/accounts"),
                json!({"name": "max", "bridge": "matrix", "account": "@m:h"}),
            ),
            "person.link",
        ),
        (Call::delete("/api/people/max"), "person.remove"),
        (body(Call::put("/api/settings"), json!({"agent": "coder", "cli": "native"})), "agent.settings"),
        (body(Call::post("/api/channels/dev/archive"), json!({"action": "begin"})), "channel.archive"),
        (body(Call::post("/api/agents"), json!({"id": "newcomer"})), "agent.add"),
    ];
    for (call, action) in changes {
        let (status, answer) = send(&olga, call).await;
        assert!((200..300).contains(&status), "{action}: {status} {answer}");
        let (_, audit) =
            send(&house.owner(), Call::get(&format!("/api/audit?action={action}&limit=1"))).await;
        assert_eq!(audit["rows"][0]["actor"], "human:olga", "{action}: {audit}");
    }
    assert_eq!(send(&olga, chat("tester")).await.0, 200);
    let (_, audit) = send(&house.owner(), Call::get("/api/audit?action=chat.turn&limit=1")).await;
    assert_eq!(audit["rows"][0]["actor"], "human:olga", "{audit}");
}

#[tokio::test]
async fn the_status_shows_the_budgets_that_the_caller_may_see() {
    let house = House::new().await;
    let (_, status) = send(&house.owner(), Call::get("/api/status")).await;
    assert!(status.get("people").is_none(), "{status}");
    let ann = person(&house, "ann", "viewer", json!({"dayTokens": 100})).await;
    let bob = person(&house, "bob", "operator", json!({"dayCostMicros": 2_000_000})).await;
    add(&house, "carl", "member", json!({})).await;
    let shown = async |client: &Client| {
        let (_, status) = send(client, Call::get("/api/status")).await;
        let names =
            status["people"]["budgets"].as_array().unwrap().iter().map(|budget| budget["name"].clone());
        (status["people"]["count"].clone(), names.collect::<Vec<_>>())
    };
    let all = (json!(3), vec![json!("ann"), json!("bob")]);
    assert_eq!(shown(&house.owner()).await, all);
    assert_eq!(shown(&bob).await, all);
    assert_eq!(shown(&ann).await, (json!(3), vec![json!("ann")]));
}

#[tokio::test]
async fn a_person_acts_under_their_own_name_alone() {
    let house = House::new().await;
    channel(&house, "dev", "coder").await;
    let ann = person(&house, "ann", "operator", json!({})).await;
    assert_eq!(send(&ann, post("dev", "hello")).await.0, 201);
    for other in ["owner", "bob", "boss", "coder", "token:ci", "flock"] {
        let said = json!({"content": "x", "as": other});
        let call = Call::post("/api/channels/dev/messages").json(&said).unwrap();
        assert_eq!(send(&ann, call).await.1["error"]["code"], "name_of_another", "{other}");
        let topic = json!({"topic": "x", "as": other});
        assert_eq!(send(&ann, Call::put("/api/channels/dev").json(&topic).unwrap()).await.0, 403, "{other}");
        let members = json!({"add": ["tester"], "as": other});
        let call = Call::post("/api/channels/dev/members").json(&members).unwrap();
        assert_eq!(send(&ann, call).await.0, 403, "{other}");
        let new = json!({"id": "new", "topic": "x", "as": other});
        assert_eq!(send(&ann, Call::post("/api/channels").json(&new).unwrap()).await.0, 403, "{other}");
        let call = Call::post(&format!("/api/agents/coder/freeze?by={other}"));
        assert_eq!(send(&ann, call).await.0, 403, "{other}");
    }
    let new = json!({"id": "new", "topic": "x"});
    let (status, made) = send(&ann, Call::post("/api/channels").json(&new).unwrap()).await;
    assert_eq!((status, &made["createdBy"]), (201, &json!("human:ann")), "{made}");
    assert_eq!(send(&ann, chat("coder")).await.0, 200);
    assert_eq!(send(&ann, Call::post("/api/agents/coder/freeze")).await.0, 200);
    assert_eq!(send(&ann, Call::post("/api/agents/coder/thaw")).await.0, 200);
    let (_, read) = send(&house.owner(), Call::get("/api/channels/dev/messages")).await;
    let authors: Vec<&Value> =
        read["messages"].as_array().unwrap().iter().map(|said| &said["author"]).collect();
    assert!(authors.contains(&&json!("human:ann")), "{read}");
    let (_, audit) = send(&house.owner(), Call::get("/api/audit?limit=100")).await;
    let rows = audit["rows"].as_array().unwrap();
    for action in ["chat.turn", "channel.create", "agent.freeze", "agent.thaw"] {
        let by = rows.iter().find(|row| row["action"] == action).map(|row| row["actor"].clone());
        assert_eq!(by, Some(json!("human:ann")), "{action}: {audit}");
    }
    assert!(rows.iter().any(|row| row["action"] == "person.add" && row["actor"] == "human:boss"), "{audit}");
}

#[tokio::test]
async fn a_person_has_turns_only_in_sessions_of_their_own() {
    let house = House::new().await;
    let ann = person(&house, "ann", "operator", json!({})).await;
    let said = |key: Option<&str>| {
        let said = json!({"agent": "coder", "prompt": "say hello", "sessionKey": key});
        Call::post("/api/message").json(&said).unwrap()
    };
    assert_eq!(send(&ann, said(None)).await.0, 200);
    assert_eq!(house.runner.last().session.as_str(), "agent:coder:flock:main:ann");
    assert_eq!(send(&ann, chat("coder")).await.0, 200);
    let new = house.runner.last().session.to_string();
    assert!(new.starts_with("agent:coder:flock:request:person:ann:"), "{new}");
    for own in ["agent:coder:flock:main:ANN", "agent:coder:flock:request:person:ann:work", &new] {
        assert_eq!(send(&ann, said(Some(own))).await.0, 200, "{own}");
    }
    for other in [
        "agent:coder:flock:main:bob",
        "agent:coder:flock:main:owner",
        "agent:coder:flock:main:token:ci",
        "agent:coder:flock:request:person:anna:x",
        "agent:coder:flock:request:0192",
        "agent:coder:flock:channel:dev",
        "agent:coder:flock:dm:tester",
        "agent:coder:flock:dm:human:ann",
    ] {
        assert_eq!(send(&ann, said(Some(other))).await.0, 403, "{other}");
        let call = chat("coder").header("x-openclaw-session-key", other);
        assert_eq!(send(&ann, call).await.0, 403, "{other}");
    }
}

#[tokio::test]
async fn nobody_gives_themselves_more_than_they_have() {
    let house = House::new().await;
    for role in ["operator", "member", "viewer"] {
        let name = format!("{role}-x");
        let one = person(&house, &name, role, json!({})).await;
        let calls = [
            Call::post("/api/people").json(&json!({"name": "zoe", "role": "owner"})).unwrap(),
            Call::put(&format!("/api/people/{name}")).json(&json!({"role": "owner"})).unwrap(),
            Call::put(&format!("/api//people/{name}/")).json(&json!({"role": "owner"})).unwrap(),
            Call::post(&format!("/api/people/{name}/tokens")).json(&json!({})).unwrap(),
            Call::post("/api/people/accounts")
                .json(&json!({"name": name, "bridge": "matrix", "account": "x"}))
                .unwrap(),
            Call::post("/api/tokens").json(&json!({"name": "ci", "rights": ["approve"]})).unwrap(),
            Call::delete("/api/tokens/ci"),
            Call::put("/api/config/value")
                .json(&json!({"path": "gateway.auth.token", "value": "x"}))
                .unwrap(),
            Call::get("/api/config"),
            Call::get("/api/search/memory?q=a"),
            Call::post("/api/sessions")
                .json(&json!({"key": "agent:coder:flock:main:bob", "file": "x"}))
                .unwrap(),
            Call::put("/api/dashboard/push").json(&json!({})).unwrap(),
        ];
        for call in calls {
            let (status, body) = send(&one, call).await;
            assert!(status == 403 || status == 404, "{role}: {status} {body}");
        }
        let (_, people) = send(&house.owner(), Call::get("/api/people")).await;
        let found =
            people["people"].as_array().unwrap().iter().find(|one| one["name"] == *name).unwrap().clone();
        assert_eq!(found["role"], role);
    }
    // The role owner manages people, but never the configuration with the owner's token.
    let chief = person(&house, "chief", "owner", json!({})).await;
    let call =
        Call::put("/api/config/value").json(&json!({"path": "gateway.auth.token", "value": "x"})).unwrap();
    assert_eq!(send(&chief, call).await.0, 403);
    assert_eq!(send(&chief, Call::get("/api/config/backups/x")).await.0, 403);
    let (status, shown) = text(chief.send(Call::get("/api/config"), LIMIT).await.unwrap()).await;
    assert!(status == 200 && !shown.contains(super::house::TOKEN), "{shown}");
    let wanted = json!({"name": "dana", "role": "viewer"});
    let (status, added) = send(&chief, Call::post("/api/people").json(&wanted).unwrap()).await;
    assert_eq!((status, &added["addedBy"]), (201, &json!("human:chief")), "{added}");
    // A person who is limited can't be the owner of everything.
    let limits = json!({"role": "owner"});
    add(&house, "eve", "member", json!({"agents": ["coder"]})).await;
    let (status, body) = send(&house.owner(), Call::put("/api/people/eve").json(&limits).unwrap()).await;
    assert_eq!(status, 400, "{body}");
}

#[tokio::test]
async fn a_limited_operator_manages_only_what_is_theirs() {
    let house = House::new().await;
    channel(&house, "alpha-room", "coder").await;
    channel(&house, "beta-room", "tester").await;
    let limits = json!({"agents": ["coder"], "channels": ["alpha-room"]});
    let ann = person(&house, "ann", "operator", limits).await;
    assert_eq!(send(&ann, Call::post("/api/agents/coder/freeze")).await.0, 200);
    assert_eq!(send(&ann, Call::post("/api/agents/coder/thaw")).await.0, 200);
    for path in ["/api/agents/tester/freeze", "/api/agents/%74ester/freeze", "/api/agents/nobody/freeze"] {
        assert_eq!(send(&ann, Call::post(path)).await.0, 404, "{path}");
    }
    for path in ["/api/freeze", "/api/thaw", "/api/quota/resume", "/api/races"] {
        assert_eq!(send(&ann, Call::post(path)).await.0, 403, "{path}");
    }
    let topic = json!({"topic": "x"});
    assert_eq!(send(&ann, Call::put("/api/channels/alpha-room").json(&topic).unwrap()).await.0, 200);
    assert_eq!(send(&ann, Call::put("/api/channels/beta-room").json(&topic).unwrap()).await.0, 404);
    let members = json!({"add": ["tester"]});
    let call = Call::post("/api/channels/alpha-room/members").json(&members).unwrap();
    assert_eq!(send(&ann, call).await.0, 404, "an agent that she may not see");
    let settings = json!({"agent": "tester", "cli": "native"});
    assert_eq!(send(&ann, Call::put("/api/settings").json(&settings).unwrap()).await.0, 404);
    let (_, agents) = send(&house.owner(), Call::get("/api/agents")).await;
    let tester =
        agents["agents"].as_array().unwrap().iter().find(|one| one["id"] == "tester").unwrap().clone();
    assert_eq!((&tester["frozen"], &tester["runtime"]), (&Value::Null, &json!("native")));
}

/// A request of `coder` for a command, which waits for a decision.
fn command_request(house: &House, id: &str, session: &str, command: &str) -> NewRequest {
    let agent: AgentId = "coder".parse().unwrap();
    let mut request: Request =
        serde_json::from_value(json!({"kind": "command", "command": command})).unwrap();
    if let Request::Command { execution, .. } = &mut request {
        *execution = Some(Execution::new(&house.home, id));
    }
    NewRequest {
        id: id.to_owned(),
        kind: request.kind(),
        session: format!("agent:{agent}:flock:{session}").parse().unwrap(),
        channel: None,
        body: FiledRequest { agent: agent.clone(), request }.body(),
        agent,
        reason: "tests".to_owned(),
        floor: Level::Yellow,
        why: vec!["a rule".to_owned()],
        state: RequestState::Waiting,
        scope: Scope::Once,
        asks_sysadmin: false,
        expires_at: flock::clock::unix_ms() + 3_600_000,
        exchange: None,
        now: flock::clock::unix_ms(),
    }
}

/// Puts a request into the database.
async fn add_request(house: &House, new: NewRequest) {
    let entry = AuditEntry {
        actor: "coder".to_owned(),
        action: "request.ask",
        subject: new.id.clone(),
        level: new.floor,
        detail: String::new(),
        session: None,
        turn: None,
    };
    let store = house.gateway.swarm.store();
    assert!(store.requests().add(new, Along::audit(entry)).await.unwrap());
}

/// Puts a request of `coder` that waits for a decision into the database, and returns its digest.
async fn request(house: &House, id: &str, session: &str, level: Level) -> String {
    let new = NewRequest { floor: level, ..command_request(house, id, session, "true") };
    add_request(house, new).await;
    let (_, shown) = send(&house.owner(), Call::get(&format!("/api/approvals/{id}"))).await;
    shown["request"]["sha256"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_request_is_decided_by_the_person_whose_role_and_sessions_allow_it() {
    let house = House::new().await;
    let ann = person(&house, "ann", "member", json!({})).await;
    let bob = person(&house, "bob", "member", json!({})).await;
    let carl = person(&house, "carl", "operator", json!({})).await;
    let vera = person(&house, "vera", "viewer", json!({})).await;
    request(&house, "r-mine", "main:ann", Level::Yellow).await;
    let red = request(&house, "r-red", "main:ann", Level::Red).await;
    let deny = |id: &str| Call::post(&format!("/api/approvals/{id}/deny")).json(&json!({})).unwrap();
    for client in [&bob, &vera] {
        let (_, listed) = send(client, Call::get("/api/approvals")).await;
        assert_eq!(listed["requests"], json!([]), "it belongs to a session of ann");
        assert_eq!(send(client, Call::get("/api/approvals/r-mine")).await.0, 404);
    }
    assert_eq!(send(&bob, deny("r-mine")).await.0, 404);
    assert_eq!(send(&vera, deny("r-mine")).await.0, 403);
    let (_, listed) = send(&ann, Call::get("/api/approvals")).await;
    assert_eq!(listed["requests"].as_array().unwrap().len(), 2, "{listed}");
    let approve = json!({"sha256": red});
    let call = Call::post("/api/approvals/r-red/approve").json(&approve).unwrap();
    let (status, body) = send(&ann, call.clone()).await;
    assert_eq!((status, &body["error"]["code"]), (403, &json!("not_approver")), "{body}");
    let (status, decided) = send(&ann, deny("r-mine")).await;
    assert_eq!((status, &decided["request"]["decidedBy"]), (200, &json!("human:ann")), "{decided}");
    let (status, decided) = send(&carl, call).await;
    assert_eq!((status, &decided["request"]["decidedBy"]), (200, &json!("human:carl")), "{decided}");
    let as_other = json!({"by": "carl"});
    request(&house, "r-more", "main:ann", Level::Yellow).await;
    let call = Call::post("/api/approvals/r-more/deny").json(&as_other).unwrap();
    assert_eq!(send(&ann, call).await.0, 403, "nobody decides in the name of another");
}

#[tokio::test]
async fn what_was_granted_before_is_shown_only_to_those_who_see_its_request() {
    let house = House::new().await;
    let bob = person(&house, "bob", "member", json!({})).await;
    let vera = person(&house, "vera", "viewer", json!({})).await;
    let carl = person(&house, "carl", "operator", json!({})).await;
    for (id, session, command) in
        [("r-ann", "main:ann", "echo annas-word"), ("r-bob", "main:bob", "echo bobs-word")]
    {
        let new = command_request(&house, id, session, command);
        add_request(&house, NewRequest { state: RequestState::Done, ..new }).await;
    }
    request(&house, "r-open", "channel:dev", Level::Yellow).await;
    for (client, seen) in [
        (&vera, [false, false]),
        (&bob, [false, true]),
        (&carl, [true, true]),
        (&house.owner(), [true, true]),
    ] {
        let (_, shown) = send(client, Call::get("/api/approvals/r-open")).await;
        let (_, listed) = send(client, Call::get("/api/approvals")).await;
        let granted = &shown["request"]["granted"];
        assert_eq!(granted, &listed["requests"][0]["granted"], "{listed}");
        assert!(granted.is_array(), "{shown}");
        let has = ["annas-word", "bobs-word"].map(|word| granted.to_string().contains(word));
        assert_eq!(has, seen, "{shown}");
    }
}

/// Gives `tester` a task of `coder`, from a session of `coder`.
async fn give_task(house: &House, session: &str, text: &str) {
    let by = Actor {
        party: Party::Agent("coder".parse().unwrap()),
        session: Some(format!("agent:coder:flock:{session}").parse().unwrap()),
        turn: Some(TurnId::new()),
    };
    house.gateway.swarm.send_message(&by, &"tester".parse().unwrap(), text, None).await.unwrap();
}

/// The ids of the requests and tasks that a stream tells of before the next message in `dev`.
async fn told_of(events: &mut ServerSentEvents) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    loop {
        let event = events.next(LIMIT).await.unwrap().expect("the stream goes on");
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.name.as_str() {
            "channel.message" if data["channel"] == "dev" => return found,
            "channel.message" | "passed" => {}
            _ => {
                let id = data["id"].as_str().or_else(|| data["task"].as_str());
                found.insert(id.unwrap().to_owned());
            }
        }
    }
}

/// The ids of the requests and tasks that the routes show.
async fn work_shown(client: &Client) -> BTreeSet<String> {
    let (_, requests) = send(client, Call::get("/api/approvals?state=all")).await;
    let (_, tasks) = send(client, Call::get("/api/tasks")).await;
    let rows = requests["requests"].as_array().unwrap().iter().chain(tasks["tasks"].as_array().unwrap());
    rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn events_tell_of_the_requests_and_tasks_that_the_routes_show() {
    let house = House::new().await;
    channel(&house, "dev", "coder").await;
    channel(&house, "ops", "coder").await;
    // How much each sees of two requests, from `main:ann` and `ops`, and two tasks, from `main:ann` and `dev`.
    let people = [
        (person(&house, "ann", "member", json!({})).await, 4),
        (person(&house, "vera", "viewer", json!({})).await, 2),
        (person(&house, "carl", "operator", json!({})).await, 3),
        (person(&house, "dora", "operator", json!({"channels": ["dev"]})).await, 2),
        (person(&house, "olga", "owner", json!({})).await, 4),
    ];
    let mut streams = Vec::new();
    for (client, _) in &people {
        let call = Call::get("/api/events?types=approval,task,channel.message");
        streams.push(client.ask(call, LIMIT).await.unwrap().events());
    }
    let of_channel = command_request(&house, "r-ops", "channel:ops", "true");
    add_request(&house, NewRequest { channel: Some("ops".parse().unwrap()), ..of_channel }).await;
    request(&house, "r-hers", "main:ann", Level::Yellow).await;
    for id in ["r-hers", "r-ops"] {
        let call = Call::post(&format!("/api/approvals/{id}/deny")).json(&json!({})).unwrap();
        assert_eq!(send(&house.owner(), call).await.0, 200);
    }
    give_task(&house, "main:ann", "count to three").await;
    give_task(&house, "channel:dev", "paint the door").await;
    assert_eq!(send(&house.owner(), post("dev", "that is all")).await.0, 201);
    for ((client, count), events) in people.iter().zip(&mut streams) {
        let told = told_of(events).await;
        assert_eq!(told, work_shown(client).await);
        assert_eq!(told.len(), *count, "{told:?}");
    }
}

#[tokio::test]
async fn a_removed_person_has_nothing_any_more() {
    let house = House::new().await;
    channel(&house, "dev", "coder").await;
    let ann = person(&house, "ann", "member", json!({})).await;
    let browser = signed_in(&house, &token(&house, "ann").await).await;
    let other = person(&house, "bob", "member", json!({})).await;
    let events = ann.send(Call::get("/api/events"), LIMIT).await.unwrap();
    let asked = Call::post("/v1/chat/completions").json(&ask_streamed("wait-streaming")).unwrap();
    let turn = ann.send(asked, LIMIT).await.unwrap();
    let page_events = Client::new(house.port)
        .send(Call::get("/api/events").header("cookie", &browser), LIMIT)
        .await
        .unwrap();
    assert_eq!((events.status(), turn.status(), page_events.status()), (200, 200, 200));
    assert_eq!(send(&ann, post("dev", "before")).await.0, 201);
    let (status, removed) = send(&house.owner(), Call::delete("/api/people/ann?by=boss")).await;
    assert_eq!((status, removed), (200, json!({"name": "ann", "removed": true})));
    read_to_its_end(events).await;
    read_to_its_end(page_events).await;
    read_to_its_end(turn).await;
    until("the turn ends with the stream", || house.runner.cancelled.load(Ordering::SeqCst) == 1).await;
    for call in [Call::get("/api/agents"), post("dev", "after"), chat("coder"), Call::get("/api/events")] {
        let (status, body) = send(&ann, call).await;
        assert_eq!((status, &body["error"]["code"]), (401, &json!("wrong_token")), "{body}");
    }
    let page = Client::new(house.port)
        .send(Call::get("/dashboard").header("cookie", &browser), LIMIT)
        .await
        .unwrap();
    assert_eq!(page.status(), 401);
    let route = Client::new(house.port)
        .send(Call::get("/api/agents").header("cookie", &browser), LIMIT)
        .await
        .unwrap();
    assert_eq!(route.status(), 401);
    assert_eq!(send(&other, Call::get("/api/agents")).await.0, 200, "others stay");
    // What she said and did keeps the name, and nobody gets it.
    let (_, read) = send(&house.owner(), Call::get("/api/channels/dev/messages")).await;
    assert!(read.to_string().contains("human:ann"), "{read}");
    for again in ["ann", "a.nn", "an-n"] {
        assert_eq!(add(&house, again, "member", json!({})).await.0, 409, "{again}");
    }
    assert_eq!(send(&house.owner(), Call::delete("/api/people/ann")).await.0, 404);
    let call = Call::post("/api/people/ann/tokens").json(&json!({})).unwrap();
    assert_eq!(send(&house.owner(), call).await.0, 404);
}

#[tokio::test]
async fn a_browser_ends_with_the_token_that_signed_it_in() {
    let house = House::new().await;
    let ann = person(&house, "ann", "member", json!({})).await;
    let browser = signed_in(&house, &token(&house, "ann").await).await;
    let looks = async || {
        let call = Call::get("/api/agents").header("cookie", &browser);
        Client::new(house.port).send(call, LIMIT).await.unwrap().status()
    };
    let noted =
        || house.database.number("SELECT coalesce(used_at, 0) FROM client_token WHERE name = 'ann.2'");
    until("signing in uses the token", || noted() > 0).await;
    assert_eq!(house.database.execute("UPDATE client_token SET used_at = 1 WHERE name = 'ann.2'"), 1);
    // More than once, because the first note may still be under way.
    let goes_on = async {
        while noted() < 2 {
            assert_eq!(looks().await, 200);
        }
    };
    tokio::time::timeout(LIMIT, goes_on).await.expect("the browser uses the token");
    let (_, shown) = send(&house.owner(), Call::get("/api/people/ann")).await;
    let used = [0_usize, 1].map(|at| shown["tokens"][at]["lastUsedAt"].is_i64());
    assert_eq!(used, [false, true], "{shown}");
    assert_eq!(send(&house.owner(), Call::delete("/api/tokens/ann.2")).await.0, 200);
    assert_eq!(looks().await, 401);
    assert_eq!(send(&ann, Call::get("/api/agents")).await.0, 200, "her other token stays");
    // Neither a client's token nor the owner's signs a browser in here.
    let wanted = json!({"name": "ci", "rights": ["chat", "read", "approve"]});
    let (_, made) = send(&house.owner(), Call::post("/api/tokens").json(&wanted).unwrap()).await;
    for wrong in [made["token"].as_str().unwrap(), super::house::TOKEN, "flk_x", ""] {
        let answer = sign_in(&house, wrong, &[]).await;
        assert!(answer.status() == 401 && answer.header("set-cookie").is_none(), "{wrong}");
    }
}

/// Sends the form of the sign-in page.
async fn sign_in(house: &House, token: &str, headers: &[(&'static str, &str)]) -> Answer {
    let call = Call::post("/dashboard/sign-in")
        .bytes(format!("token={token}").as_bytes())
        .header("content-type", "application/x-www-form-urlencoded");
    let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
    Client::new(house.port).send(call, LIMIT).await.unwrap()
}

/// Signs a browser in, and returns its cookie.
async fn signed_in(house: &House, token: &str) -> String {
    let origin = format!("http://127.0.0.1:{}", house.port);
    let answer = sign_in(house, token, &[("origin", &origin), ("sec-fetch-site", "same-origin")]).await;
    assert_eq!(answer.status(), 200);
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

/// Signs a browser in with a code of the owner, and returns its cookie.
async fn signed_in_by_code(house: &House, name: &str) -> String {
    let call = Call::post("/api/dashboard/codes").json(&json!({"by": name})).unwrap();
    let (_, made) = send(&house.owner(), call).await;
    let path = format!("/dashboard?code={}", made["code"].as_str().unwrap());
    let answer = Client::new(house.port).send(Call::get(&path), LIMIT).await.unwrap();
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

async fn page(house: &House, cookie: &str, path: &str) -> (u16, String) {
    text(Client::new(house.port).send(Call::get(path).header("cookie", cookie), LIMIT).await.unwrap()).await
}

/// The token for changes of a page.
fn csrf_of(page: &str) -> &str {
    page.split_once("name=\"csrf-token\" content=\"").unwrap().1.split_once('"').unwrap().0
}

#[tokio::test]
async fn a_page_has_only_what_the_role_allows() {
    let house = House::new().await;
    let stranger = Client::new(house.port);
    let (_, shown) = text(stranger.send(Call::get("/dashboard"), LIMIT).await.unwrap()).await;
    assert!(!shown.contains("<form"), "without people, nothing is asked: {shown}");
    channel(&house, "alpha-room", "coder").await;
    channel(&house, "beta-room", "tester").await;
    let limits = json!({"agents": ["coder"], "channels": ["alpha-room"]});
    for (name, role, limits) in [
        ("vera", "viewer", limits.clone()),
        ("mia", "member", limits),
        ("otto", "operator", json!({})),
        ("olga", "owner", json!({})),
    ] {
        add(&house, name, role, limits).await;
    }
    let (_, shown) = text(stranger.send(Call::get("/dashboard"), LIMIT).await.unwrap()).await;
    assert!(
        shown.contains("action=\"/dashboard/sign-in\"") && shown.contains("name=\"referrer\""),
        "{shown}"
    );
    let has = |page: &str, what: &str| page.contains(what);
    for (name, talks, manages, administers) in [
        ("vera", false, false, false),
        ("mia", true, false, false),
        ("otto", true, true, false),
        ("olga", true, true, true),
    ] {
        let cookie = signed_in(&house, &token(&house, name).await).await;
        let (status, team) = page(&house, &cookie, "/dashboard").await;
        assert_eq!(status, 200, "{team}");
        assert!(has(&team, "data-agent=\"coder\""), "{name}: {team}");
        assert_eq!(has(&team, "data-agent=\"tester\""), manages, "{name}");
        for button in [
            "data-action=\"freeze\"",
            "data-action=\"freeze-all\"",
            "data-form=\"add-agent\"",
            "data-form=\"settings\"",
        ] {
            assert_eq!(has(&team, button), manages, "{name}: {button}");
        }
        for link in ["href=\"/dashboard/machine\"", "href=\"/dashboard/graph\"", "href=\"/dashboard/cost\""] {
            assert_eq!(has(&team, link), manages, "{name}: {link}");
        }
        let (status, room) = page(&house, &cookie, "/dashboard/channels/alpha-room").await;
        assert_eq!(status, 200, "{room}");
        assert_eq!(has(&room, "data-form=\"post\""), talks, "{name}");
        assert_eq!(has(&room, "data-form=\"topic\""), manages, "{name}");
        let hidden = page(&house, &cookie, "/dashboard/channels/beta-room").await.0;
        assert_eq!(hidden, if manages { 200 } else { 404 }, "{name}");
        let machine = page(&house, &cookie, "/dashboard/machine/audit").await.0;
        assert_eq!(machine, if manages { 200 } else { 403 }, "{name}");
        let logs = page(&house, &cookie, "/dashboard/machine/config").await.0;
        assert_eq!(logs, if administers { 200 } else { 403 }, "{name}");
        // What the page leaves out, the route refuses, also with the page's own token.
        let csrf = csrf_of(&team);
        let call = Call::post("/api/agents/coder/freeze").header("cookie", &cookie);
        let without = stranger.send(call.clone(), LIMIT).await.unwrap().status();
        assert_eq!(without, 403, "{name}: a change needs the page's token");
        let status = stranger.send(call.header("x-flock-csrf", csrf), LIMIT).await.unwrap().status();
        assert_eq!(status, if manages { 200 } else { 403 }, "{name}");
        send(&house.owner(), Call::post("/api/agents/coder/thaw")).await;
        let out = Call::delete("/api/dashboard/sessions/current")
            .header("cookie", &cookie)
            .header("x-flock-csrf", csrf);
        assert_eq!(stranger.send(out, LIMIT).await.unwrap().status(), 200, "{name} signs out");
        assert_eq!(page(&house, &cookie, "/dashboard").await.0, 401, "{name}");
    }
}

#[tokio::test]
async fn the_page_of_people_is_for_owners_and_linked_only_where_there_are_people() {
    let house = House::new().await;
    channel(&house, "alpha-room", "coder").await;
    let link = "href=\"/dashboard/people\"";
    let boss = signed_in_by_code(&house, "boss").await;
    let (status, team) = page(&house, &boss, "/dashboard").await;
    assert!(status == 200 && !team.contains(link), "{team}");
    let (status, shown) = page(&house, &boss, "/dashboard/people").await;
    assert!(
        status == 200 && shown.contains("data-form=\"add-person\"") && !shown.contains("data-person="),
        "{shown}"
    );
    let limits = json!({"agents": ["coder"], "channels": ["alpha-room"]});
    let mut secrets = Vec::new();
    for (name, role, limits) in [
        ("vera", "viewer", limits.clone()),
        ("mia", "member", limits),
        ("otto", "operator", json!({})),
        ("olga", "owner", json!({})),
    ] {
        assert_eq!(add(&house, name, role, limits).await.0, 201, "{name}");
        let secret = token(&house, name).await;
        let cookie = signed_in(&house, &secret).await;
        secrets.push(secret);
        let is_owner = role == "owner";
        let (_, team) = page(&house, &cookie, "/dashboard").await;
        assert_eq!(team.contains(link), is_owner, "{name}: {team}");
        let (status, shown) = page(&house, &cookie, "/dashboard/people").await;
        assert_eq!((status, shown.contains(link)), (if is_owner { 200 } else { 403 }, is_owner), "{name}");
        assert_eq!(shown.contains("data-person=\"vera\""), is_owner, "{name}: {shown}");
        // The buttons of the page do what the routes allow, and those refuse everybody else.
        let change = Call::put("/api/people/vera").json(&json!({"dayTokens": 5_000})).unwrap();
        let change = change.header("cookie", &cookie).header("x-flock-csrf", csrf_of(&team));
        let (status, _) = send(&Client::new(house.port), change).await;
        assert_eq!(status, if is_owner { 200 } else { 403 }, "{name}");
    }
    let evil = "<img src=x onerror=alert(1)>\u{202e}";
    let account = json!({"name": "mia", "bridge": "matrix", "account": evil, "by": "boss"});
    let call = Call::post("/api/people/accounts").json(&account).unwrap();
    assert_eq!(send(&house.owner(), call).await.0, 200);
    let (_, team) = page(&house, &boss, "/dashboard").await;
    assert!(team.contains(link), "{team}");
    let (_, shown) = page(&house, &boss, "/dashboard/people").await;
    for name in ["vera", "mia", "otto", "olga"] {
        assert!(shown.contains(&format!("data-person=\"{name}\" data-state=\"active\"")), "{name}: {shown}");
        assert!(shown.contains(&format!("<li data-token=\"{name}.1\"")), "{name}: {shown}");
    }
    assert_eq!(shown.matches("data-field=\"seen\"><time").count(), 4, "all are signed in: {shown}");
    assert!(shown.contains("0 tokens of 5,000 tokens"), "{shown}");
    // A name from elsewhere is text, and no page has a token.
    assert!(shown.contains("matrix:&#60;img src=x onerror=alert(1)&#62;\\u{202e}"), "{shown}");
    assert!(!shown.contains("<img") && !shown.contains('\u{202e}'), "{shown}");
    assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
    for name in ["vera", "mia", "otto", "olga"] {
        assert_eq!(send(&house.owner(), Call::delete(&format!("/api/people/{name}"))).await.0, 200);
    }
    let (_, team) = page(&house, &boss, "/dashboard").await;
    assert!(!team.contains(link), "{team}");
    let (_, shown) = page(&house, &boss, "/dashboard/people").await;
    assert_eq!(shown.matches("data-state=\"removed\"").count(), 4, "{shown}");
    assert!(!shown.contains("data-state=\"active\"") && !shown.contains("data-token="), "{shown}");
}

#[tokio::test]
async fn a_form_of_another_site_signs_nobody_in() {
    let house = House::new().await;
    add(&house, "ann", "member", json!({})).await;
    let token = token(&house, "ann").await;
    for headers in [
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")],
        [("origin", "null"), ("sec-fetch-site", "same-origin")],
        [("accept", "*/*"), ("sec-fetch-site", "same-site")],
        [("accept", "*/*"), ("sec-fetch-site", "none")],
    ] {
        let answer = sign_in(&house, &token, &headers).await;
        assert!(answer.status() == 403 && answer.header("set-cookie").is_none(), "{headers:?}");
    }
}

#[tokio::test]
async fn a_browser_of_the_owner_under_a_persons_name_gets_that_persons_rights() {
    let house = House::new().await;
    let before = signed_in_by_code(&house, "ann").await;
    assert!(page(&house, &before, "/dashboard").await.1.contains("data-action=\"freeze-all\""));
    add(&house, "ann", "viewer", json!({})).await;
    assert_eq!(page(&house, &before, "/dashboard").await.0, 401, "it had the owner's rights");
    let after = signed_in_by_code(&house, "ann").await;
    assert!(!page(&house, &after, "/dashboard").await.1.contains("data-action=\"freeze-all\""));
    let call = Call::get("/api/bridges").header("cookie", &after);
    assert_eq!(Client::new(house.port).send(call, LIMIT).await.unwrap().status(), 403);
}

#[tokio::test]
async fn a_name_imitates_nobody() {
    let house = House::new().await;
    assert_eq!(add(&house, "ann", "member", json!({})).await.0, 201);
    for wrong in
        ["", "Ann", "ann b", "1ann", ".ann", "änn", "аnn", "human:ann", "a/b", "token:ci", &"x".repeat(33)]
    {
        let (status, body) = add(&house, wrong, "member", json!({})).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("usage")), "{wrong:?}: {body}");
    }
    for taken in [
        "ann", "a.n.n", "an_n", "coder", "c0der", "co-der", "tester", "owner", "own-er", "flock", "f1ock",
        "system", "plugin", "human", "token", "person", "accounts", "rename", "all", "al1",
    ] {
        let (status, body) = add(&house, taken, "member", json!({})).await;
        assert_eq!(status, 409, "{taken}: {body}");
    }
    // An agent can't take the name of a person either.
    for id in ["ann", "a-nn"] {
        let (status, body) =
            send(&house.owner(), Call::post("/api/agents").json(&json!({"id": id})).unwrap()).await;
        assert_eq!(status, 409, "{id}: {body}");
    }
    for (limits, status) in [
        (json!({"agents": ["nobody"]}), 404),
        (json!({"channels": ["no-room"]}), 404),
        (json!({"agents": ["coder"], "x": 1}), 400),
    ] {
        assert_eq!(add(&house, "zed", "member", limits.clone()).await.0, status, "{limits}");
    }
    assert_eq!(add(&house, "zed", "boss", json!({})).await.0, 400);
}

#[tokio::test]
async fn a_change_of_a_person_counts_at_once() {
    let house = House::new().await;
    let ann = person(&house, "ann", "member", json!({})).await;
    let events = ann.send(Call::get("/api/events"), LIMIT).await.unwrap();
    assert_eq!(send(&ann, chat("tester")).await.0, 200);
    let change = json!({"role": "viewer", "agents": ["coder"], "by": "boss"});
    let (status, changed) = send(&house.owner(), Call::put("/api/people/ann").json(&change).unwrap()).await;
    assert_eq!((status, &changed["channels"]), (200, &json!([])), "{changed}");
    read_to_its_end(events).await;
    assert_eq!(send(&ann, chat("coder")).await.0, 403);
    assert_eq!(send(&ann, Call::get("/v1/models")).await.1["data"].as_array().unwrap().len(), 1);
    house.remove("coder");
    let (_, models) = send(&ann, Call::get("/v1/models")).await;
    assert_eq!(models["data"], json!([]));
}

#[tokio::test]
async fn a_removal_while_somebody_posts_leaves_no_post_behind_it() {
    let house = House::new().await;
    channel(&house, "dev", "coder").await;
    let ann = person(&house, "ann", "member", json!({})).await;
    let posts = (0..24).map(|n| {
        let ann = ann.clone();
        tokio::spawn(async move { send(&ann, post("dev", &format!("post {n}"))).await.0 })
    });
    let posts: Vec<_> = posts.collect();
    let removed = send(&house.owner(), Call::delete("/api/people/ann")).await.0;
    assert_eq!(removed, 200);
    // From here on, nothing of hers is taken.
    assert_eq!(send(&ann, post("dev", "late")).await.0, 401);
    let mut taken = 0;
    for post in posts {
        match post.await.unwrap() {
            201 => taken += 1,
            status => assert_eq!(status, 401),
        }
    }
    let (_, read) = send(&house.owner(), Call::get("/api/channels/dev/messages?limit=200")).await;
    let found =
        read["messages"].as_array().unwrap().iter().filter(|said| said["author"] == "human:ann").count();
    assert_eq!(found, taken, "each post that was taken is there, and no other: {read}");
    assert!(!read.to_string().contains("late"));
}

#[tokio::test]
async fn two_people_do_not_share_files_and_repeated_requests() {
    let house = House::new().await;
    channel(&house, "dev", "coder").await;
    let ann = person(&house, "ann", "member", json!({})).await;
    let bob = person(&house, "bob", "member", json!({})).await;
    let (status, file) = send(&ann, Call::put("/api/files?name=a.txt").bytes(b"hello")).await;
    assert_eq!(status, 201, "{file}");
    let with_file = |id: &Value| {
        let body = json!({"content": "look", "files": [id]});
        Call::post("/api/channels/dev/messages").json(&body).unwrap()
    };
    assert_eq!(send(&bob, with_file(&file["id"])).await.0, 404, "the file is ann's");
    let keyed = || post("dev", "once").header("idempotency-key", "k");
    let first = send(&ann, keyed()).await.1;
    assert_eq!(send(&ann, keyed()).await.1["seq"], first["seq"]);
    assert_ne!(send(&bob, keyed()).await.1["seq"], first["seq"], "the key of one is not that of another");
}
