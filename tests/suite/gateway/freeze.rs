//! Freezing and thawing, what agents did, and what models were asked, over HTTP.

use flock::store::{AuditEntry, Level};
use flock::supervise::loopback::Call;
use serde_json::{Value, json};

use super::house::{House, LIMIT};

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
        json!({"agents": [{"id": "coder", "frozen": true, "changed": true, "problem": null}]})
    );
    let state = house.gateway.swarm.store().agent_state(&"coder".parse().unwrap()).unwrap().unwrap();
    assert_eq!(state.frozen_by.as_deref(), Some("human:ann"));
    assert!(state.frozen_at.is_some());
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
    let unknown = house.owner().send(Call::post("/api/agents/nobody/freeze"), LIMIT).await.unwrap();
    assert_eq!(unknown.status(), 404);
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
    house.gateway.swarm.store().audit(entry, 1).await.unwrap();
    assert_eq!(get(&house, "/api/audit?level=red&agent=coder").await["rows"][0]["subject"], "exec");
    assert_eq!(get(&house, "/api/audit?level=yellow").await["rows"], json!([]));
    assert_eq!(get(&house, "/api/usage?since=2026-01-01&by=model").await["total"]["calls"], 0);
    for path in ["/api/audit?level=blue", "/api/usage?day=tomorrow", "/api/usage?by=colour"] {
        assert_eq!(house.owner().send(Call::get(path), LIMIT).await.unwrap().status(), 400, "{path}");
    }
    let stranger = flock::supervise::loopback::Client::new(house.port);
    for path in ["/api/audit", "/api/usage"] {
        assert_eq!(stranger.send(Call::get(path), LIMIT).await.unwrap().status(), 401, "{path}");
    }
}
