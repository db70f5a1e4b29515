//! One turn of a session at a time.

use std::sync::atomic::Ordering;

use flock::gateway::ServerLimits;
use flock::supervise::gateway_client::Call;
use serde_json::Value;

use super::house::{House, LIMIT, ask, until};

const KEY: &str = "agent:coder:flock:main:ann";

fn send(house: &House, text: &str, key: Option<&str>) -> tokio::task::JoinHandle<(u16, Value)> {
    let owner = house.owner();
    let mut call = Call::post("/v1/chat/completions").json(&ask(text)).unwrap();
    if let Some(key) = key {
        call = call.header("x-openclaw-session-key", key);
    }
    tokio::spawn(async move {
        let answer = owner.send(call, LIMIT).await.unwrap();
        (answer.status(), answer.json(LIMIT).await.unwrap())
    })
}

#[tokio::test]
async fn turns_of_one_session_wait_for_each_other() {
    let house = House::new().await;
    let first = send(&house, "wait", Some(KEY));
    until("the first runs", || house.runner.running() == 1).await;
    let second = send(&house, "say b", Some(KEY));
    until("the second waits", || house.gateway.driver.list().len() == 2).await;
    assert_eq!(house.chat("say c").await.status(), 200, "another session does not wait");
    let sessions: Value = house.owner().get_json("/api/sessions?agent=coder", LIMIT).await.unwrap();
    let mut states: Vec<&str> =
        sessions["turns"].as_array().unwrap().iter().map(|turn| turn["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["running", "waiting"]);
    house.runner.release.notify_one();
    assert_eq!(first.await.unwrap().0, 200);
    assert_eq!(second.await.unwrap().0, 200);

    let many: Vec<_> = (0..20).map(|n| send(&house, &format!("say {n}|x"), Some(KEY))).collect();
    for turn in many {
        assert_eq!(turn.await.unwrap().0, 200);
    }
    assert_eq!(house.runner.overlapped.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn too_many_waiting_turns_are_refused() {
    let house =
        House::with(ServerLimits { turns: 2, waiting_per_session: 1, waiting: 1, ..ServerLimits::default() })
            .await;
    let first = send(&house, "wait", Some(KEY));
    until("the first runs", || house.runner.running() == 1).await;
    let second = send(&house, "say b", Some(KEY));
    until("the second waits", || house.gateway.driver.list().len() == 2).await;
    let (status, body) = send(&house, "say c", Some(KEY)).await.unwrap();
    assert_eq!(status, 429);
    assert_eq!(body["error"]["type"], "rate_limit_error");
    let third = send(&house, "wait", None);
    until("the third is there", || house.gateway.driver.list().len() == 3).await;
    let (status, _) = send(&house, "say d", None).await.unwrap();
    assert_eq!(status, 429, "too many in all");
    house.runner.release.notify_waiters();
    assert_eq!(first.await.unwrap().0, 200);
    assert_eq!(second.await.unwrap().0, 200);
    until("the third runs or has ended", || house.gateway.driver.list().len() <= 1).await;
    third.abort();
}

#[tokio::test]
async fn no_more_turns_run_at_once_than_allowed() {
    let house = House::with(ServerLimits { turns: 3, ..ServerLimits::default() }).await;
    let turns: Vec<_> = (0..30).map(|_| send(&house, "say a|b|c|d", None)).collect();
    for turn in turns {
        assert_eq!(turn.await.unwrap().0, 200);
    }
    assert!(house.runner.most.load(Ordering::SeqCst) <= 3);
}

#[tokio::test]
async fn turns_of_a_removed_agent_that_wait_are_cancelled_with_the_one_that_runs() {
    let house = House::new().await;
    let first = send(&house, "wait", Some(KEY));
    until("the first runs", || house.runner.running() == 1).await;
    let second = send(&house, "say b", Some(KEY));
    until("the second waits", || house.gateway.driver.list().len() == 2).await;
    house.remove("coder");
    house.owner().ask(Call::delete("/api/agents/coder"), LIMIT).await.unwrap();
    for turn in [first, second] {
        assert_ne!(turn.await.unwrap().0, 200);
    }
    until("both have ended", || house.gateway.driver.list().is_empty()).await;
    let begun = house.runner.requests.lock().unwrap().len();
    assert_eq!((begun, house.runner.cancelled.load(Ordering::SeqCst)), (1, 1), "the second never began");
}

#[tokio::test]
async fn a_message_that_waits_is_listed_and_taken_back() {
    let house = House::new().await;
    let first = send(&house, "wait", Some(KEY));
    until("the first runs", || house.runner.running() == 1).await;
    let second = send(&house, "say taken back", Some(KEY));
    until("the second waits", || house.gateway.driver.list().len() == 2).await;
    let third = send(&house, &format!("say {}", "x".repeat(2_000)), Some(KEY));
    until("the third waits", || house.gateway.driver.list().len() == 3).await;
    let owner = house.owner();
    let listed: Value = owner.get_json("/api/sessions", LIMIT).await.unwrap();
    let turns = listed["turns"].as_array().unwrap();
    let of =
        |text: &str| turns.iter().find(|turn| turn["text"].as_str().is_some_and(|it| it.starts_with(text)));
    let waits = of("say taken back").unwrap();
    assert_eq!((&waits["state"], &waits["by"]), (&"waiting".into(), &"human:ann".into()), "{listed}");
    assert_eq!(of("say xxx").unwrap()["text"].as_str().unwrap().chars().count(), 501, "{listed}");
    let running = turns.iter().find(|turn| turn["state"] == "running").unwrap();
    assert!(running["text"].is_null() && running["by"].is_null(), "{listed}");
    let take_back = async |session: &str, turn: &Value| {
        let call = Call::delete(&format!("/api/sessions/{session}/turns/{}", turn.as_str().unwrap()));
        let answer = house.owner().send(call, LIMIT).await.unwrap();
        (answer.status(), answer.json::<Value>(LIMIT).await.unwrap())
    };
    let (status, answer) = take_back(KEY, &running["turn"]).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &"turn_runs".into()), "{answer}");
    assert_eq!(take_back("agent:coder:flock:main:ben", &waits["turn"]).await.0, 404);
    let (status, answer) = take_back(KEY, &waits["turn"]).await;
    assert_eq!((status, &answer["withdrawn"]), (200, &waits["turn"]), "{answer}");
    assert_eq!(second.await.unwrap().1["error"]["code"], "cancelled");
    assert_eq!(take_back(KEY, &waits["turn"]).await.0, 404);
    house.runner.release.notify_one();
    assert_eq!((first.await.unwrap().0, third.await.unwrap().0), (200, 200), "the others run");
    let ran = house.runner.requests.lock().unwrap().len();
    assert_eq!(ran, 2, "what was taken back never began");
}
