//! The stream of events.

use flock::gateway::ServerLimits;
use flock::supervise::gateway_client::{Call, ServerSentEvent, ServerSentEvents};

use super::house::{House, LIMIT, ask_streamed, until};

async fn watch(house: &House, last: Option<&str>) -> ServerSentEvents {
    let mut call = Call::get("/api/events");
    if let Some(last) = last {
        call = call.header("last-event-id", last);
    }
    house.owner().ask(call, LIMIT).await.unwrap().events()
}

async fn next(events: &mut ServerSentEvents) -> ServerSentEvent {
    events.next(LIMIT).await.unwrap().expect("the stream goes on")
}

/// Reads a stream to its end.
async fn read_to_its_end(mut answer: flock::supervise::gateway_client::Answer) {
    while answer.chunk(LIMIT).await.unwrap().is_some() {}
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_changed() {
    let house = House::new().await;
    let events = house.owner().send(Call::get("/api/events"), LIMIT).await.unwrap();
    let asked = Call::post("/v1/chat/completions").json(&ask_streamed("wait-streaming")).unwrap();
    let chat = house.owner().send(asked, LIMIT).await.unwrap();
    assert_eq!((events.status(), chat.status()), (200, 200));
    house.edit(|document| document["gateway"]["auth"]["token"] = "another-token-of-the-test".into());
    read_to_its_end(events).await;
    read_to_its_end(chat).await;
    let cancelled = || house.runner.cancelled.load(std::sync::atomic::Ordering::SeqCst);
    until("the turn is cancelled, as if the client had gone", || cancelled() == 1).await;
    let answer = house.owner().send(Call::get("/api/events"), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 401);
}

#[tokio::test]
async fn a_watcher_sees_turns_and_resumes_where_it_was() {
    let house = House::new().await;
    let mut events = watch(&house, None).await;
    assert_eq!(house.chat("tool").await.status(), 200);
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(next(&mut events).await);
    }
    let names: Vec<&str> = seen.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["turn.started", "tool.started", "tool.ended", "turn.ended"]);
    assert!(seen[3].data.contains("\"status\":\"done\""), "{}", seen[3].data);
    drop(events);

    let mut again = watch(&house, Some(&seen[1].id)).await;
    assert_eq!(next(&mut again).await, seen[2], "nothing is lost and nothing comes twice");
    assert_eq!(next(&mut again).await, seen[3]);
    house.add("newcomer");
    assert_eq!(house.chat("say x").await.status(), 200);
    assert_eq!(next(&mut again).await.name, "agent.added");
}

#[tokio::test]
async fn who_was_away_too_long_starts_again() {
    let house = House::with(ServerLimits { events: 4, ..ServerLimits::default() }).await;
    let mut events = watch(&house, None).await;
    house.chat("say x").await;
    let old = next(&mut events).await;
    drop(events);
    for _ in 0..5 {
        house.chat("say x").await;
    }
    for id in [old.id.as_str(), "other-run.3", "nonsense", ""] {
        let mut events = watch(&house, Some(id)).await;
        let reset = next(&mut events).await;
        assert_eq!(reset.name, "reset", "{id}");
        house.chat("say y").await;
        assert_eq!(next(&mut events).await.name, "turn.started", "{id}");
        let mut resumed = watch(&house, Some(&reset.id)).await;
        assert_eq!(next(&mut resumed).await.name, "turn.started", "the reset's own id can be resumed from");
    }
}

/// Watches only some events.
async fn watch_types(house: &House, types: &str, last: &str) -> ServerSentEvents {
    let call = Call::get(&format!("/api/events?types={types}&lastEventId={last}"));
    house.owner().ask(call, LIMIT).await.unwrap().events()
}

#[tokio::test]
async fn a_watcher_gets_the_events_it_asks_for_and_keeps_its_place() {
    let house = House::with(ServerLimits { events: 600, ..ServerLimits::default() }).await;
    let mut all = watch(&house, None).await;
    house.chat("say x").await;
    let first = next(&mut all).await;
    let mut some = watch_types(&house, "tool.ended,agent", &first.id).await;
    house.chat("tool").await;
    assert_eq!(next(&mut some).await.name, "tool.ended");
    house.add("newcomer");
    assert_eq!(next(&mut some).await.name, "agent.added");

    // Two for each turn, so more than the gateway keeps.
    let mut passed = 0;
    for _ in 0..400 {
        house.chat("say x").await;
    }
    house.add("other");
    let mut last = first.id;
    loop {
        let event = next(&mut some).await;
        if event.name != "passed" {
            assert_eq!(event.name, "agent.added");
            break;
        }
        passed += 1;
        last = event.id;
    }
    assert!((1..=3).contains(&passed), "{passed}");
    let mut again = watch_types(&house, "agent", &last).await;
    assert_eq!(next(&mut again).await.name, "agent.added", "it has its place still");

    for unknown in ["", "agents", "agent,", "turn.begun"] {
        let answer =
            house.owner().send(Call::get(&format!("/api/events?types={unknown}")), LIMIT).await.unwrap();
        assert_eq!(answer.status(), 400, "{unknown}");
    }
}

#[tokio::test]
async fn streams_end_when_the_gateway_stops() {
    let house = House::new().await;
    let mut events = watch(&house, None).await;
    house.gateway.stop();
    assert_eq!(next(&mut events).await.name, "gateway.stopping");
    assert!(events.next(LIMIT).await.unwrap().is_none());
}
