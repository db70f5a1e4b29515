//! The end of a gateway.

use super::house::{House, LIMIT, ask_streamed, until};

#[tokio::test]
async fn stopping_ends_turns_in_order_and_frees_the_port() {
    let house = House::on_kept_port().await;
    let answer = house.post(&ask_streamed("wait-streaming"), &[]).await;
    until("the turn runs", || house.runner.running() == 1).await;
    house.gateway.stop();
    let mut events = answer.events();
    let mut last = Vec::new();
    while let Some(event) = events.next(LIMIT).await.unwrap() {
        last.push(event.data);
    }
    assert_eq!(last.last().unwrap(), "[DONE]");
    assert!(last[last.len() - 2].contains("\"code\":\"cancelled\""), "{last:?}");
    drop(events);
    let port = house.port;
    house.stopped().await;
    // A process that another test starts at this moment has the listener until it runs its own program.
    until("the port is free", || std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()).await;
}
