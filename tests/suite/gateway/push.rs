//! Notifications by Web Push, with a stand-in for the push service that refuses what real ones refuse.

mod service;

use std::time::Duration;

use flock::clock::unix_ms;
use flock::gateway::push::{self, PushSettings};
use flock::gateway::{Gateway, ServerLimits};
use flock::id::{AgentId, SessionKey, SessionKind};
use flock::store::{Along, AuditEntry, Level, NewRequest, RequestState, Scope};
use flock::supervise::gateway_client::{Call, Client};
use serde_json::{Value, json};

use self::service::{PushService, TestKeys};
use super::dashboard::Browser;
use super::house::{House, LIMIT, until};
use crate::support::flock_binary;

/// A secret in the body and in the reason of each request.
const PLANTED: &str = "sk-planted-0123456789";

const ROUTE: &str = "/api/dashboard/push";

/// A gateway that sends to services of this machine and is impatient.
async fn house() -> House {
    let settings = PushSettings { allow_local: true, timeout: LIMIT, first_wait: Duration::from_millis(1) };
    House::with(ServerLimits { push: settings, ..ServerLimits::default() }).await
}

fn put(endpoint: &str, keys: &TestKeys) -> Call {
    let described = json!({"endpoint": endpoint, "expirationTime": null, "keys": {"p256dh": keys.public(), "auth": keys.auth()}});
    Call::put(ROUTE).json(&described).unwrap()
}

/// Subscribes a browser and returns the keys with which it reads one message.
async fn subscribe(browser: &Browser, service: &PushService, path: &str) -> TestKeys {
    let (status, shown) = browser.json("/api/dashboard/push").await;
    assert_eq!(status, 200, "{shown}");
    service.expect_key(shown["publicKey"].as_str().unwrap());
    let keys = TestKeys::new();
    let (status, made) = browser.change(put(&service.address(path), &keys)).await;
    assert_eq!((status, &made["subscription"]["service"]), (201, &json!("127.0.0.1")), "{made}");
    keys
}

/// Has a request wait for a person, and announces it.
async fn wait_for_person(gateway: &Gateway, id: &str) {
    let agent: AgentId = "coder".parse().unwrap();
    let new = NewRequest {
        id: id.to_owned(),
        kind: "command",
        session: SessionKey::new(&agent, SessionKind::Main, "ann"),
        body: json!({"kind": "command", "command": format!("curl -H {PLANTED}")}).to_string(),
        agent,
        channel: None,
        reason: format!("because of {PLANTED}"),
        floor: Level::Red,
        why: Vec::new(),
        state: RequestState::Waiting,
        scope: Scope::Once,
        asks_sysadmin: false,
        expires_at: unix_ms() + 3_600_000,
        exchange: None,
        now: unix_ms(),
    };
    let entry = AuditEntry {
        actor: "coder".to_owned(),
        action: "request.ask",
        subject: id.to_owned(),
        level: Level::Red,
        detail: String::new(),
        session: None,
        turn: None,
    };
    assert!(gateway.swarm.store().requests().add(new, Along::audit(entry)).await.unwrap());
    gateway.events.publish("approval.waiting", &json!({"id": id}));
}

#[tokio::test]
async fn a_waiting_request_reaches_each_browser_once_and_says_nothing_of_what_is_asked() {
    let (house, service) = (house().await, PushService::start().await);
    let (first, second) = (Browser::new(&house).await, Browser::new(&house).await);
    wait_for_person(&house.gateway, "r-before").await;
    let keys = subscribe(&first, &service, "ok/first").await;
    subscribe(&second, &service, "ok/second").await;
    let sender = tokio::spawn(push::run(house.gateway.clone(), house.gateway.stop.clone()));
    wait_for_person(&house.gateway, "r-one").await;
    until("both browsers are told", || service.received().len() == 2).await;
    let messages = service.received();
    let to_first = messages.iter().find(|message| message.path == "/ok/first").unwrap();
    assert_eq!((to_first.urgency.as_str(), to_first.topic.len()), ("high", 32));
    assert!((3_500..=3_600).contains(&to_first.ttl), "{}", to_first.ttl);
    let read = keys.open(&to_first.body);
    let payload: Value = serde_json::from_str(&read).unwrap();
    let wanted = json!({"kind": "request", "agent": "coder", "request": "r-one", "tag": to_first.topic});
    assert_eq!(payload, wanted, "what waited before is known to the person who subscribed");
    for message in &messages {
        assert!(!String::from_utf8_lossy(&message.body).contains(PLANTED));
        assert_eq!(message.body.len(), to_first.body.len(), "the length tells nothing");
    }
    // Neither a repeated event nor a new start sends it again.
    house.gateway.events.publish("approval.waiting", &json!({"id": "r-one"}));
    until("the sender has recorded it", || service.received().len() == 2).await;
    wait_until_told(&first, 2).await;
    sender.abort();
    drop(sender.await);
    tokio::spawn(push::run(house.gateway.clone(), house.gateway.stop.clone()));
    wait_for_person(&house.gateway, "r-two").await;
    until("both are told of the second", || service.received().len() >= 4).await;
    wait_for_person(&house.gateway, "r-three").await;
    until("and of the third", || service.received().len() >= 6).await;
    let topics: Vec<String> = service.received().iter().map(|message| message.topic.clone()).collect();
    for topic in &topics {
        assert_eq!(topics.iter().filter(|other| *other == topic).count(), 2, "{topics:?}");
    }
    assert_eq!(service.refusals(), Vec::<String>::new());
}

/// Returns the finding of `flock doctor` about notifications.
async fn doctor(house: &House) -> String {
    let mut command = tokio::process::Command::new(flock_binary());
    command.arg("--home").arg(house.home.root()).args(["doctor", "--json"]);
    let output = command.output().await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == "notifications");
    found.unwrap_or_else(|| panic!("{report}"))["message"].to_string()
}

#[tokio::test]
async fn a_program_that_crashes_again_and_again_is_told_of() {
    let (house, service) = (house().await, PushService::start().await);
    let browser = Browser::new(&house).await;
    let keys = subscribe(&browser, &service, "ok/x").await;
    tokio::spawn(push::run(house.gateway.clone(), house.gateway.stop.clone()));
    // As the supervisor leaves it when it gives up.
    let history = json!({"crashes": [], "openedAt": unix_ms(), "reason": PLANTED});
    std::fs::write(house.home.breaker("openclaw"), history.to_string()).unwrap();
    house.gateway.events.publish("agent.paused", &json!({"agent": "coder"}));
    until("it is told", || service.received().len() == 1).await;
    let message = service.received().remove(0);
    assert_eq!(message.urgency, "high");
    let told: Value = serde_json::from_str(&keys.open(&message.body)).unwrap();
    assert_eq!(told, json!({"kind": "crash", "program": "openclaw", "tag": message.topic}));
    assert_eq!(service.refusals(), Vec::<String>::new());
}

/// Waits until that many subscriptions have a last result of a delivery.
async fn wait_until_told(browser: &Browser, wanted: usize) {
    let end = tokio::time::Instant::now() + LIMIT;
    loop {
        let (_, listed) = browser.json("/api/dashboard/sessions").await;
        let told = listed["sessions"].as_array().unwrap().iter();
        let told = told.filter(|session| session["notifications"]["result"] == "delivered").count();
        if told == wanted {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{listed}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_service_that_is_busy_is_asked_again_and_one_that_says_gone_never() {
    let (house, service) = (house().await, PushService::start().await);
    let [busy, gone, down] =
        [Browser::new(&house).await, Browser::new(&house).await, Browser::new(&house).await];
    subscribe(&busy, &service, "busy/x").await;
    subscribe(&gone, &service, "gone/x").await;
    subscribe(&down, &service, "down/x").await;
    tokio::spawn(push::run(house.gateway.clone(), house.gateway.stop.clone()));
    wait_for_person(&house.gateway, "r-one").await;
    let count = |path: &str| service.received().iter().filter(|message| message.path == path).count();
    until("the attempts are used up", || count("/down/x") == 5).await;
    until("the busy one has it", || count("/busy/x") == 3).await;
    wait_until_told(&busy, 1).await;
    wait_for_person(&house.gateway, "r-two").await;
    until("the attempts at the next are used up", || count("/down/x") == 10).await;
    assert_eq!(count("/gone/x"), 1, "its subscription ended");
    let (_, shown) = gone.json(ROUTE).await;
    assert_eq!(shown["subscription"], Value::Null, "{shown}");
    let end = tokio::time::Instant::now() + LIMIT;
    loop {
        let (_, shown) = down.json(ROUTE).await;
        if shown["subscription"]["failures"] == 10 {
            assert_eq!(shown["subscription"]["result"], "the push service answered 503", "{shown}");
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{shown}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let found = doctor(&house).await;
    assert!(found.contains("the push service answered 503"), "{found}");
    assert_eq!(service.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn only_a_browser_that_is_signed_in_subscribes_and_signing_out_ends_it() {
    let (house, service) = (house().await, PushService::start().await);
    let browser = Browser::new(&house).await;
    let keys = TestKeys::new();
    let owner = house.owner().send(put(&service.address("ok/x"), &keys), LIMIT).await.unwrap();
    assert_eq!(owner.status(), 403, "the owner's token is no browser");
    let stranger = Client::new(house.port).send(put(&service.address("ok/x"), &keys), LIMIT).await.unwrap();
    assert_eq!(stranger.status(), 401);
    let forged = browser.send(put(&service.address("ok/x"), &keys)).await;
    assert_eq!(forged.status(), 403, "it lacks the token of a page");
    subscribe(&browser, &service, "ok/x").await;
    subscribe(&browser, &service, "ok/y").await;
    let (_, listed) = browser.json("/api/dashboard/sessions").await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    let text = listed.to_string();
    assert!(!text.contains("ok/y") && !text.contains(&keys.auth()), "the address is secret: {text}");
    // Another browser that shows the same address takes it over.
    let other = Browser::new(&house).await;
    subscribe(&other, &service, "ok/y").await;
    assert_eq!(browser.json(ROUTE).await.1["subscription"], Value::Null);
    assert_eq!(other.change(Call::delete(ROUTE)).await, (200, json!({"ended": true})));
    assert_eq!(other.change(Call::delete(ROUTE)).await, (200, json!({"ended": false})));
    subscribe(&other, &service, "ok/z").await;
    subscribe(&browser, &service, "ok/x").await;
    assert_eq!(other.change(Call::delete("/api/dashboard/sessions/current")).await.0, 200);
    tokio::spawn(push::run(house.gateway.clone(), house.gateway.stop.clone()));
    wait_for_person(&house.gateway, "r-one").await;
    until("the one that is signed in is told", || !service.received().is_empty()).await;
    wait_until_told(&browser, 1).await;
    let paths: Vec<String> = service.received().into_iter().map(|message| message.path).collect();
    assert_eq!(paths, ["/ok/x"]);
}

#[tokio::test]
async fn an_address_on_this_machine_or_its_networks_is_refused() {
    let house = House::new().await;
    let browser = Browser::new(&house).await;
    let keys = TestKeys::new();
    for address in [
        "http://push.example.com/x".to_owned(),
        "https://127.0.0.1/x".to_owned(),
        "https://localhost/x".to_owned(),
        "https://[::1]/x".to_owned(),
        "https://169.254.169.254/x".to_owned(),
        format!("https://push.example.com/{}", "x".repeat(2_000)),
    ] {
        let (status, refused) = browser.change(put(&address, &keys)).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid_subscription")), "{address}");
        assert!(refused["error"]["message"].as_str().unwrap().starts_with("endpoint "), "{refused}");
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata({
            browser.json(ROUTE).await;
            house.home.secrets().join("web-push")
        })
        .unwrap()
        .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600, "only the owner can read the key");
}

#[tokio::test]
async fn the_stand_in_refuses_what_a_push_service_refuses() {
    let (house, service) = (house().await, PushService::start().await);
    let browser = Browser::new(&house).await;
    subscribe(&browser, &service, "ok/x").await;
    tokio::spawn(push::run(house.gateway.clone(), house.gateway.stop.clone()));
    wait_for_person(&house.gateway, "r-one").await;
    until("a good message was accepted", || service.received().len() == 1).await;
    let good = service.received().remove(0);
    for (changed, wanted) in [
        (good.clone().without("ttl"), "ttl"),
        (good.clone().with("ttl", "soon"), "ttl"),
        (good.clone().with("content-encoding", "aesgcm"), "content-encoding"),
        (good.clone().with("topic", "not a topic!"), "topic"),
        (good.clone().with("urgency", "now"), "urgency"),
        (good.clone().without("authorization"), "authorization"),
        (good.clone().with_broken_signature(), "signature"),
        (
            good.clone().with_claims(json!({"aud": "https://elsewhere.example", "exp": 9_999_999_999_i64})),
            "signature",
        ),
        (good.clone().for_other_origin(), "aud"),
        (good.clone().with_body(vec![0; 4_097]), "length"),
    ] {
        assert_eq!(service.judge(&changed), Err(wanted.to_owned()));
    }
    assert_eq!(service.judge(&good), Ok(()));
}
