//! Agents come and go while the gateway runs.

use flock::supervise::gateway_client::Call;
use serde_json::Value;

use super::house::{House, LIMIT, ask, ask_streamed, until};

async fn models(house: &House) -> Vec<String> {
    let body: Value = house.owner().get_json("/v1/models", LIMIT).await.unwrap();
    body["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_added_agent_is_there_and_a_removed_one_is_gone() {
    let house = House::new().await;
    house.add("newcomer");
    assert_eq!(models(&house).await, ["coder", "tester", "newcomer"]);
    let mut body = ask("hi");
    body["model"] = "newcomer".into();
    assert_eq!(house.post(&body, &[]).await.status(), 200);
    house.remove("newcomer");
    assert_eq!(models(&house).await, ["coder", "tester"]);
    assert_eq!(house.post(&body, &[]).await.status(), 404);
}

#[tokio::test]
async fn a_new_token_counts_at_once() {
    let house = House::new().await;
    house.edit(|document| document["gateway"]["auth"]["token"] = "another".into());
    assert_eq!(house.owner().send(Call::get("/v1/models"), LIMIT).await.unwrap().status(), 401);
}

#[tokio::test]
async fn chat_completions_can_be_switched_off_and_on() {
    let house = House::new().await;
    let switch = |on: bool| {
        house.edit(|document| {
            document["gateway"]["http"]["endpoints"]["chatCompletions"]["enabled"] = on.into();
        });
    };
    switch(false);
    let answer = house.chat("hi").await;
    assert_eq!(answer.status(), 404);
    let body: Value = answer.json(LIMIT).await.unwrap();
    assert_eq!(body["error"]["type"], "invalid_request_error", "{body}");
    assert_eq!(body["error"]["code"], "endpoint_disabled", "{body}");
    assert!(body["error"]["hint"].as_str().unwrap().starts_with("flock config set "), "{body}");
    switch(true);
    assert_eq!(house.chat("hi").await.status(), 200);
}

#[tokio::test]
async fn a_broken_configuration_changes_nothing_and_is_reported() {
    let house = House::new().await;
    let status: Value = house.owner().get_json("/api/status", LIMIT).await.unwrap();
    assert!(status["config"]["problem"].is_null(), "{status}");
    assert!(status["memoryBytes"].as_u64().unwrap() > 0);
    std::fs::write(house.home.config(), "{ not json").unwrap();
    assert_eq!(models(&house).await, ["coder", "tester"]);
    let status: Value = house.owner().get_json("/api/status", LIMIT).await.unwrap();
    assert!(status["config"]["problem"].as_str().unwrap().contains("not valid JSON"), "{status}");
}

#[tokio::test]
async fn removing_an_agent_ends_its_turns_and_its_sandbox() {
    let house = House::new().await;
    let owner = house.owner();
    let refused = owner.send(Call::delete("/api/agents/coder"), LIMIT).await.unwrap();
    assert_eq!(refused.status(), 409, "it is still in the configuration");
    let answer = house.post(&ask_streamed("wait-streaming"), &[]).await;
    house.remove("coder");
    let removed: Value =
        owner.ask(Call::delete("/api/agents/coder"), LIMIT).await.unwrap().json(LIMIT).await.unwrap();
    assert_eq!(removed["id"], "coder");
    until("its turn has ended", || house.runner.running() == 0).await;
    assert_eq!(*house.sandbox.entries.lock().unwrap(), ["remove coder"]);
    drop(answer);
    assert_eq!(owner.send(Call::delete("/api/agents/..%2Fx"), LIMIT).await.unwrap().status(), 400);
}

#[tokio::test]
async fn a_prepared_agent_has_its_sandbox() {
    let house = House::new().await;
    house.add("newcomer");
    let owner = house.owner();
    let ready: Value = owner
        .ask(Call::post("/api/agents/newcomer/prepare"), LIMIT)
        .await
        .unwrap()
        .json(LIMIT)
        .await
        .unwrap();
    assert_eq!(ready["sandbox"], "ready");
    assert_eq!(*house.sandbox.entries.lock().unwrap(), ["ensure newcomer"]);
    assert_eq!(owner.send(Call::post("/api/agents/nobody/prepare"), LIMIT).await.unwrap().status(), 404);
    let agents: Value = owner.get_json("/api/agents", LIMIT).await.unwrap();
    assert_eq!(agents["agents"][2]["id"], "newcomer");
    assert_eq!(agents["agents"][2]["scripted"], true);
}
