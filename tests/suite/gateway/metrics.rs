//! The figures for Prometheus.

use flock::id::TurnId;
use flock::store::{NewUsage, TokenCounts};
use flock::supervise::gateway_client::Call;
use flock::swarm::Actor;
use flock::swarm::channel::ChannelSpec;
use serde_json::json;

use super::house::{House, LIMIT, send};

async fn figures(house: &House, path: &str) -> Vec<String> {
    let answer = house.owner().send(Call::get(path), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = String::from_utf8(answer.bytes(1 << 20, LIMIT).await.unwrap()).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn turns_and_agents_are_counted() {
    let house = House::new().await;
    assert_eq!(house.chat("say hi").await.status(), 200);
    assert_eq!(house.chat("tool").await.status(), 200);
    assert_ne!(house.chat("fail other").await.status(), 200);
    let found = figures(&house, "/metrics").await;
    for line in [
        r#"flock_turns_total{agent="coder",status="done"} 2"#,
        r#"flock_turns_total{agent="coder",status="failed"} 1"#,
        r#"flock_turn_seconds_count{agent="coder"} 3"#,
        r#"flock_turn_wait_seconds_count{agent="coder"} 3"#,
        "flock_turns_running 0",
        "flock_requests_waiting 0",
        r#"flock_schedules{state="active"} 0"#,
        "flock_schedules_failing 0",
        r#"flock_webhooks{state="active"} 0"#,
        "flock_webhook_refusals 0",
        r#"flock_agent_frozen{agent="tester"} 0"#,
        r#"flock_engine_reachable{engine="local"} 0"#,
    ] {
        assert!(found.iter().any(|shown| shown == line), "{line}\n{}", found.join("\n"));
    }
    assert!(found.iter().any(|line| line.starts_with("flock_memory_bytes ")), "{}", found.join("\n"));
}

#[tokio::test]
async fn the_messages_that_the_search_index_lacks_are_counted_once_it_was_looked_at() {
    let house = House::new().await;
    let wanted = ChannelSpec {
        id: "dev".parse().unwrap(),
        topic: "work".to_owned(),
        members: vec!["human:ann".parse().unwrap()],
        message: None,
    };
    let (ann, swarm) = (Actor::human("ann"), &house.gateway.swarm);
    swarm.create_channel(&ann, wanted).await.unwrap();
    let is_shown =
        async |line: &str| figures(&house, "/metrics").await.iter().any(|shown| shown.starts_with(line));
    assert!(!is_shown("flock_search_index_messages_behind ").await);
    let found = house.owner().send(Call::get("/api/search/memory?q=anything"), LIMIT).await.unwrap();
    assert_eq!(found.status(), 200);
    assert!(is_shown("flock_search_index_messages_behind 0").await);
    swarm.post(&ann, &"dev".parse().unwrap(), "something new".to_owned(), false).await.unwrap();
    assert!(is_shown("flock_search_index_messages_behind 1").await);
}

#[tokio::test]
async fn engines_are_shown_with_their_agents_and_their_memory() {
    let house = House::new().await;
    assert!(!figures(&house, "/metrics").await.iter().any(|line| line.starts_with("flock_engine_agents{")));
    let engine = json!({"address": "tcp://127.0.0.1:9", "memory": "8g"});
    let change = json!({"path": "plugins.entries.flock.config.engines.far", "value": engine, "by": "boss"});
    let (status, body) = send(&house.owner(), Call::put("/api/config/value").json(&change).unwrap()).await;
    assert_eq!(status, 200, "{body}");
    let placements = house.gateway.swarm.store().placements();
    placements.put("coder".parse().unwrap(), "far".parse().unwrap(), 1).await.unwrap();
    let found = figures(&house, "/metrics").await;
    for line in [
        r#"flock_engine_reachable{engine="far"} 0"#,
        r#"flock_engine_agents{engine="far"} 1"#,
        r#"flock_engine_agents{engine="local"} 0"#,
        r#"flock_engine_memory_capacity_bytes{engine="far"} 8589934592"#,
        r#"flock_engine_memory_placed_bytes{engine="far"} 2147483648"#,
        r#"flock_engine_memory_placed_bytes{engine="local"} 0"#,
    ] {
        assert!(found.iter().any(|shown| shown == line), "{line}\n{}", found.join("\n"));
    }
    let unlimited = r#"flock_engine_memory_capacity_bytes{engine="local"}"#;
    assert!(!found.iter().any(|line| line.starts_with(unlimited)), "{}", found.join("\n"));
}

#[tokio::test]
async fn names_of_channels_are_shown_only_if_they_are_asked_for() {
    let house = House::new().await;
    let new = NewUsage {
        id: 1,
        at: 0,
        day: jiff::Zoned::now().date().to_string(),
        agent: "coder".parse().unwrap(),
        session: "agent:coder:flock:channel:merger".parse().unwrap(),
        channel: Some("merger".parse().unwrap()),
        turn: TurnId::new(),
        model: "lab/qwen3".parse().unwrap(),
        person: None,
        server: None,
        tokens: TokenCounts { input: 1000, output: 10, ..TokenCounts::default() },
        cost: Some(2_500_000),
    };
    house.gateway.swarm.store().usage().reserve(new, Vec::new()).await.unwrap().unwrap();
    let plain = figures(&house, "/metrics").await;
    for line in [
        r#"flock_agent_calls_total{agent="coder"} 1"#,
        r#"flock_model_tokens_total{model="lab/qwen3",kind="input"} 1000"#,
        r#"flock_model_cost_dollars_total{model="lab/qwen3"} 2.5"#,
    ] {
        assert!(plain.iter().any(|shown| shown == line), "{line}\n{}", plain.join("\n"));
    }
    assert!(!plain.iter().any(|line| line.contains("merger")), "{}", plain.join("\n"));
    let more = figures(&house, "/metrics?channels=1").await;
    let line = r#"flock_channel_tokens_total{channel="merger",kind="output"} 10"#;
    assert!(more.iter().any(|shown| shown == line), "{}", more.join("\n"));
    let wrong = house.owner().send(Call::get("/metrics?channels=some"), LIMIT).await.unwrap();
    assert_eq!(wrong.status(), 400);
}
