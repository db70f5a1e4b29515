//! `/api/channels`, over HTTP.

use flock::supervise::gateway_client::{Answer, Call};
use serde_json::{Value, json};

use crate::gateway::house::{House, LIMIT};

async fn get(house: &House, path: &str) -> (u16, Value) {
    read(house.owner().send(Call::get(path), LIMIT).await.unwrap()).await
}

async fn post(house: &House, path: &str, body: Value) -> (u16, Value) {
    read(house.owner().send(Call::post(path).json(&body).unwrap(), LIMIT).await.unwrap()).await
}

async fn read(answer: Answer) -> (u16, Value) {
    (answer.status(), answer.json(LIMIT).await.unwrap())
}

/// Fails unless the request is refused so.
async fn refused(house: &House, path: &str, body: Value, status: u16, code: &str) {
    let (found, error) = post(house, path, body.clone()).await;
    assert_eq!((found, error["error"]["code"].as_str()), (status, Some(code)), "{path} {body}: {error}");
}

async fn make(house: &House, id: &str) -> Value {
    let body = json!({"id": id, "topic": "the work", "members": ["coder", "human:ann"], "as": "ann"});
    let (status, made) = post(house, "/api/channels", body).await;
    assert_eq!(status, 201, "{made}");
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_are_made_once_and_listed() {
    let house = House::new().await;
    let made = make(&house, "Work").await;
    assert_eq!(made["channelId"], "Work");
    assert_eq!(made["createdBy"], "human:ann");
    assert_eq!(made["members"], json!(["coder", "human:ann"]));
    assert_eq!((made["state"].as_str(), made["lastSeq"].as_u64()), (Some("active"), Some(1)));
    let again = json!({"id": "wORK", "topic": "x", "members": []});
    refused(&house, "/api/channels", again, 409, "conflict").await;
    let unknown = json!({"id": "x", "topic": "x", "members": ["nobody"]});
    refused(&house, "/api/channels", unknown, 404, "agent_not_found").await;
    for wrong in [
        json!({"id": "a/b", "topic": "x"}),
        json!({"id": "../x", "topic": "x"}),
        json!({"id": "x"}),
        json!({"id": "x", "topic": "x", "members": ["human:"]}),
        json!({"id": "x", "topic": "x", "members": ["Coder"]}),
        json!({"id": "x", "topic": "x", "author": "system"}),
    ] {
        refused(&house, "/api/channels", wrong, 400, "invalid_body").await;
    }
    for wrong in [
        json!({"id": "x", "topic": " \n"}),
        json!({"id": "x", "topic": "x", "members": ["system"]}),
        json!({"id": "x", "topic": "x", "as": "human:ann"}),
    ] {
        refused(&house, "/api/channels", wrong, 400, "usage").await;
    }
    post(&house, "/api/channels", json!({"id": "other", "topic": "x"})).await;
    let ids = async |query: &str| -> Vec<String> {
        let (status, all) = get(&house, &format!("/api/channels{query}")).await;
        assert_eq!(status, 200, "{all}");
        let all = all["channels"].as_array().unwrap();
        all.iter().map(|channel| channel["channelId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("").await, ["Work", "other"]);
    assert_eq!(ids("?member=coder").await, ["Work"]);
    assert_eq!(ids("?member=human%3Aann&state=active").await, ["Work"]);
    assert!(ids("?state=archived").await.is_empty());
    assert_eq!(get(&house, "/api/channels?state=gone").await.0, 400);
    assert_eq!(get(&house, "/api/channels/work").await.1["channelId"], "Work");
    let (status, error) = get(&house, "/api/channels/none").await;
    assert_eq!((status, error["error"]["hint"].as_str()), (404, Some("flock channel list")));
    assert_eq!(get(&house, "/api/channels/a%2F..%2Fb").await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_a_persons_and_are_read_in_pages() {
    let house = House::new().await;
    make(&house, "work").await;
    let path = "/api/channels/work/messages";
    for (name, seq) in [(json!("ann"), 2), (json!("system"), 3), (json!("coder"), 4), (Value::Null, 5)] {
        let mut body = json!({"content": format!("message {seq} of pears"), "notify": false});
        if !name.is_null() {
            body["as"] = name;
        }
        let (status, said) = post(&house, path, body).await;
        assert_eq!((status, said["seq"].as_u64()), (201, Some(seq)), "{said}");
    }
    for name in ["human:ann", "", "a b", "x\u{1b}", &"n".repeat(65)] {
        refused(&house, path, json!({"content": "x", "as": name}), 400, "usage").await;
    }
    refused(&house, path, json!({"content": " \n"}), 400, "usage").await;
    refused(&house, path, json!({"content": "x", "author": "system"}), 400, "invalid_body").await;
    refused(&house, path, json!({"text": "x"}), 400, "invalid_body").await;
    let large = json!({"content": "x".repeat((1 << 20) + 1)});
    refused(&house, path, large, 413, "message_too_large").await;
    refused(&house, "/api/channels/none/messages", json!({"content": "x"}), 404, "channel_not_found").await;

    let (_, all) = get(&house, path).await;
    let authors: Vec<&str> =
        all["messages"].as_array().unwrap().iter().map(|post| post["author"].as_str().unwrap()).collect();
    assert_eq!(authors, ["system", "human:ann", "human:system", "human:coder", "human:owner"]);
    let second = &all["messages"][1];
    let keys: Vec<&String> = second.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["seq", "author", "content", "createdAt", "turn"]);
    let numbers = async |query: &str| -> (Vec<u64>, Option<u64>, Option<u64>) {
        let (status, page) = get(&house, &format!("{path}{query}")).await;
        assert_eq!(status, 200, "{page}");
        let messages = page["messages"].as_array().unwrap().iter();
        let numbers = messages.map(|post| post["seq"].as_u64().unwrap()).collect();
        (numbers, page["before"].as_u64(), page["after"].as_u64())
    };
    assert_eq!(numbers("?limit=2").await, (vec![4, 5], Some(4), None));
    assert_eq!(numbers("?before=4&limit=2").await, (vec![2, 3], Some(2), Some(3)));
    assert_eq!(numbers("?after=1&limit=2").await, (vec![2, 3], Some(2), Some(3)));
    assert_eq!(numbers("?after=5").await, (vec![], None, None));
    assert_eq!(numbers("?q=pears%204").await, (vec![4], None, None));
    assert_eq!(numbers("?q=%22%20OR%20content:*").await.0, Vec::<u64>::new(), "words, not an expression");
    assert_eq!(get(&house, &format!("{path}?after=1&before=3")).await.0, 400);
    assert_eq!(get(&house, &format!("{path}?after=x")).await.0, 400);
    assert_eq!(get(&house, &format!("{path}?wrong=1")).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_and_an_archive_takes_its_steps() {
    let house = House::new().await;
    make(&house, "work").await;
    let members = "/api/channels/work/members";
    let (status, done) = post(&house, members, json!({"add": ["tester"], "remove": ["human:ann"]})).await;
    assert_eq!((status, &done["joined"], &done["left"]), (200, &json!(["tester"]), &json!(["human:ann"])));
    assert_eq!(done["members"], json!(["coder", "tester"]));
    refused(&house, members, json!({}), 400, "usage").await;
    refused(&house, members, json!({"add": ["system"]}), 400, "usage").await;
    refused(&house, members, json!({"add": ["nobody"]}), 404, "agent_not_found").await;

    let archive = "/api/channels/work/archive";
    refused(&house, archive, json!({"action": "cancel"}), 409, "refused").await;
    refused(&house, archive, json!({"action": "burn"}), 400, "invalid_body").await;
    let (_, begun) = post(&house, archive, json!({"action": "begin", "as": "bob"})).await;
    assert_eq!(
        (begun["state"].as_str(), begun["archive"]["by"].as_str()),
        (Some("archiving"), Some("human:bob"))
    );
    assert_eq!(begun["archive"]["waiting"], json!(["coder", "tester"]));
    assert_eq!(post(&house, archive, json!({"action": "cancel"})).await.1["state"], "active");
    let (_, ended) = post(&house, archive, json!({"action": "force"})).await;
    assert_eq!((ended["state"].as_str(), &ended["archive"]), (Some("archived"), &Value::Null));
    refused(&house, "/api/channels/work/messages", json!({"content": "late"}), 409, "archived").await;
    refused(&house, members, json!({"add": ["coder"]}), 409, "archived").await;
    assert_eq!(get(&house, "/api/channels/work/messages").await.0, 200, "it can be read");
    assert_eq!(post(&house, archive, json!({"action": "reopen"})).await.1["state"], "active");
    assert_eq!(post(&house, "/api/channels/work/messages", json!({"content": "on"})).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_without_the_owners_token_reads_or_says_anything() {
    let house = House::new().await;
    make(&house, "work").await;
    for path in ["/api/channels", "/api/channels/work", "/api/channels/work/messages"] {
        let client = flock::supervise::gateway_client::Client::new(house.port);
        assert_eq!(client.send(Call::get(path), LIMIT).await.unwrap().status(), 401, "{path}");
        let wrong = flock::supervise::gateway_client::Client::new(house.port).with_token("wrong");
        assert_eq!(wrong.send(Call::get(path), LIMIT).await.unwrap().status(), 401, "{path}");
    }
    for path in [
        "/api/channels",
        "/api/channels/work/messages",
        "/api/channels/work/members",
        "/api/channels/work/archive",
    ] {
        let client = flock::supervise::gateway_client::Client::new(house.port);
        let call = Call::post(path).json(&json!({"content": "x"})).unwrap();
        assert_eq!(client.send(call, LIMIT).await.unwrap().status(), 401, "{path}");
    }
    assert_eq!(get(&house, "/api/channels/work/messages").await.1["lastSeq"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_is_told_of_each_message() {
    let house = House::new().await;
    make(&house, "work").await;
    let mut events = house.owner().ask(Call::get("/api/events"), LIMIT).await.unwrap().events();
    post(&house, "/api/channels/work/messages", json!({"content": "a secret text", "as": "ann"})).await;
    let event = events.next(LIMIT).await.unwrap().unwrap();
    assert_eq!(event.name, "channel.message");
    let data: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(data, json!({"channel": "work", "seq": 2, "author": "human:ann"}));
}
