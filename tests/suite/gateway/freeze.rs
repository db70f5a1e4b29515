//! Freezing and thawing, what agents did, and what models were asked, over HTTP.

use flock::id::AgentId;
use flock::store::{AuditEntry, Level};
use flock::supervise::gateway_client::Call;
use flock::swarm::scheduler::SchedulerEvent;
use serde_json::{Value, json};

use super::house::{House, LIMIT, ask, ask_streamed};

async fn post(house: &House, path: &str) -> Value {
    house.owner().ask(Call::post(path), LIMIT).await.unwrap().json(LIMIT).await.unwrap()
}

async fn get(house: &House, path: &str) -> Value {
    house.owner().get_json(path, LIMIT).await.unwrap()
}

#[tokio::test]
async fn one_agent_or_all_are_frozen_and_thawed_with_their_sandboxes() {
    let house = House::new().await;
    let frozen = post(&house, "/api/agents/coder/freeze?by=ann").await;
    assert_eq!(
        frozen,
        json!({"agents": [{"id": "coder", "frozen": true, "changed": true, "reason": null, "problem": null}]})
    );
    let coder: AgentId = "coder".parse().unwrap();
    let known = house.gateway.swarm.store().freezes().state().await.unwrap();
    assert_eq!(known.of(&coder).unwrap().by, "human:ann");
    assert!(known.home().is_none());
    let all = post(&house, "/api/freeze").await;
    let changed: Vec<&Value> = all["agents"].as_array().unwrap().iter().map(|one| &one["changed"]).collect();
    assert_eq!(changed, [false, true], "one was frozen already");
    post(&house, "/api/thaw").await;
    assert!(house.gateway.swarm.frozen().is_empty());
    let rows = get(&house, "/api/audit?action=agent&limit=10").await;
    let actions: Vec<&str> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions.iter().filter(|action| **action == "agent.freeze").count(), 2);
    assert_eq!(actions.iter().filter(|action| **action == "agent.thaw").count(), 2);
    let long = format!("/api/freeze?reason={}", "x".repeat(301));
    assert_eq!(house.owner().send(Call::post(&long), LIMIT).await.unwrap().status(), 400);
    let unknown = house.owner().send(Call::post("/api/agents/nobody/freeze"), LIMIT).await.unwrap();
    assert_eq!(unknown.status(), 404);
}

#[tokio::test]
async fn a_chat_with_a_frozen_agent_is_answered_at_once_unless_it_wants_to_wait() {
    let house = House::new().await;
    post(&house, "/api/agents/coder/freeze?by=ann").await;
    let answer = house.chat("hello").await;
    assert_eq!(answer.status(), 423);
    let body: Value = answer.json(LIMIT).await.unwrap();
    let error = &body["error"];
    assert_eq!(error["code"], "agent_frozen");
    let text = error["message"].as_str().unwrap();
    assert!(text.starts_with("coder is frozen since ") && text.ends_with(" by human:ann"), "{text}");
    assert!(error["hint"].as_str().unwrap().starts_with("thaw it with `flock thaw coder`"), "{error}");
    assert_eq!(house.post(&ask_streamed("hello"), &[]).await.status(), 423);
    let say = Call::post("/api/message").json(&json!({"prompt": "hello", "agent": "coder"})).unwrap();
    assert_eq!(house.owner().send(say, LIMIT).await.unwrap().status(), 423);
    assert!(house.runner.requests.lock().unwrap().is_empty(), "no turn began");
    // The stand-in for what runs turns does not wait by itself.
    assert_eq!(house.post(&ask("hello"), &[("x-flock-wait", "1")]).await.status(), 200);
    let agents = get(&house, "/api/agents").await;
    assert_eq!(agents["agents"][0]["frozen"]["by"], "human:ann", "{agents}");
    assert!(agents["agents"][1]["frozen"].is_null() && agents["agents"][0]["paused"].is_null(), "{agents}");
    // Another reason is told to everybody who asks from then on, and everybody who shows the freeze is told.
    post(&house, "/api/agents/coder/freeze?by=bob&reason=it%20loops%0aall%20day").await;
    let body: Value = house.chat("hello").await.json(LIMIT).await.unwrap();
    let text = body["error"]["message"].as_str().unwrap();
    assert!(text.ends_with(" by human:ann: it loops all day"), "{text}");
    let rows = get(&house, "/api/audit?action=agent.freeze&limit=1").await;
    assert_eq!(
        (&rows["rows"][0]["actor"], &rows["rows"][0]["detail"]),
        (&"human:bob".into(), &"it loops all day".into())
    );
    post(&house, "/api/freeze").await;
    let other = json!({"model": "tester", "messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(house.post(&other, &[]).await.status(), 423, "with the whole home");
    post(&house, "/api/thaw").await;
    assert_eq!(house.chat("hello").await.status(), 200);
}

#[tokio::test]
async fn who_is_added_to_a_frozen_home_is_frozen_until_all_are_thawed() {
    let house = House::new().await;
    post(&house, "/api/freeze?by=ann").await;
    post(&house, "/api/agents/coder/thaw?by=ann").await;
    // By hand, as somebody with an editor does.
    let later: AgentId = "later".parse().unwrap();
    house.add("later");
    let swarm = &house.gateway.swarm;
    assert!(swarm.config().agent(&later).is_some());
    assert!(swarm.is_frozen(&later) && !swarm.is_frozen(&"coder".parse().unwrap()));
    let events = swarm.agent_events().await.unwrap();
    let told = |id: &str| {
        let is = |event: &&SchedulerEvent| matches!(event, SchedulerEvent::Agent { agent, .. } if agent.as_str() == id);
        matches!(events.iter().find(is), Some(SchedulerEvent::Agent { frozen: true, .. }))
    };
    assert!(told("later") && !told("coder"), "what the scheduler is told");
    assert_eq!(post(&house, "/api/agents/later/prepare").await["sandbox"], "frozen");
    // The next gateway knows as much.
    swarm.load_frozen().await.unwrap();
    assert!(swarm.is_frozen(&later));
    let thawed = post(&house, "/api/thaw").await;
    let later = thawed["agents"].as_array().unwrap().iter().find(|one| one["id"] == "later").unwrap();
    assert_eq!(later["changed"], true);
    assert!(swarm.frozen().is_empty());
    assert_eq!(post(&house, "/api/agents/later/prepare").await["sandbox"], "ready");
    let rows = get(&house, "/api/audit?action=home").await;
    assert_eq!(rows["rows"][0]["action"], "home.thaw");
    assert_eq!(rows["rows"][1]["action"], "home.freeze");
}

#[tokio::test]
async fn the_audit_and_the_use_are_the_owners_to_read() {
    let house = House::new().await;
    let entry = AuditEntry {
        actor: "coder".to_owned(),
        action: "tool.call",
        subject: "exec".to_owned(),
        level: Level::Red,
        detail: String::new(),
        session: None,
        turn: None,
    };
    house.gateway.swarm.store().audit().append(entry, 1).await.unwrap();
    assert_eq!(get(&house, "/api/audit?level=red&agent=coder").await["rows"][0]["subject"], "exec");
    assert_eq!(get(&house, "/api/audit?level=yellow").await["rows"], json!([]));
    assert_eq!(get(&house, "/api/usage?since=2026-01-01&by=model").await["total"]["calls"], 0);
    for path in ["/api/audit?level=blue", "/api/usage?day=tomorrow", "/api/usage?by=colour"] {
        assert_eq!(house.owner().send(Call::get(path), LIMIT).await.unwrap().status(), 400, "{path}");
    }
    let stranger = flock::supervise::gateway_client::Client::new(house.port);
    for path in ["/api/audit", "/api/usage"] {
        assert_eq!(stranger.send(Call::get(path), LIMIT).await.unwrap().status(), 401, "{path}");
    }
}
