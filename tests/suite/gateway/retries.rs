//! Clients that repeat their requests: a turn that did something is not run a second time, and a key makes two requests
//! one.

use flock::supervise::gateway_client::{Answer, Call};
use serde_json::{Value, json};

use super::house::{House, LIMIT, ask, ask_streamed, until};

const KEY: &str = "idempotency-key";

async fn body(answer: Answer) -> Value {
    answer.json(LIMIT).await.unwrap()
}

fn turns(house: &House) -> usize {
    house.runner.requests.lock().unwrap().len()
}

async fn whole_text(answer: Answer) -> String {
    String::from_utf8(answer.bytes(1 << 20, LIMIT).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_turn_that_did_something_fails_with_a_status_that_no_client_repeats() {
    let house = House::new().await;
    for (word, code) in [
        ("401", "provider_unauthorised"),
        ("429", "provider_limited"),
        ("500", "provider_failed"),
        ("timeout", "provider_timed_out"),
        ("disk", "internal"),
    ] {
        for asked in [ask(&format!("broke {word}")), ask_streamed(&format!("broke {word}"))] {
            let answer = house.post(&asked, &[]).await;
            assert_eq!(answer.status(), 424, "{word}");
            assert_eq!(answer.header("x-should-retry"), Some("false"));
            let session = answer.header("x-flock-session-key").unwrap().to_owned();
            let turn = answer.header("x-flock-turn-id").unwrap().to_owned();
            let error = body(answer).await["error"].take();
            assert_eq!(error["code"], code, "{error}");
            assert_eq!((&error["session"], &error["turn"]), (&json!(session), &json!(turn)));
            assert_eq!(error["type"], "server_error");
            assert_eq!(house.runner.last().turn.to_string(), turn);
        }
    }
    let said = Call::post("/api/message").json(&json!({"agent": "coder", "prompt": "broke 500"})).unwrap();
    let answer = house.owner().send(said, LIMIT).await.unwrap();
    assert_eq!(answer.status(), 424);
    assert!(body(answer).await["error"]["turn"].is_string());
}

#[tokio::test]
async fn a_key_makes_two_requests_one_turn() {
    let house = House::new().await;
    for asked in [ask("say hel|lo"), ask_streamed("say hel|lo")] {
        let streams = asked["stream"] == true;
        let key = if streams { "streamed" } else { "whole" };
        let before = turns(&house);
        let first = house.post(&asked, &[(KEY, key)]).await;
        assert_eq!((first.status(), first.header("idempotent-replayed")), (200, None));
        let turn = first.header("x-flock-turn-id").unwrap().to_owned();
        let first = whole_text(first).await;
        let second = house.post(&asked, &[(KEY, key)]).await;
        assert_eq!((second.status(), second.header("idempotent-replayed")), (200, Some("true")));
        assert_eq!(second.header("x-flock-turn-id"), Some(&*turn));
        assert!(second.header("x-flock-session-key").unwrap().ends_with(&turn));
        let second = whole_text(second).await;
        if streams {
            assert!(second.contains("hello") && second.ends_with("data: [DONE]\n\n"), "{second}");
        } else {
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            let (first, second) = (read(&first), read(&second));
            for same in ["id", "model", "choices", "usage"] {
                assert_eq!(first[same], second[same]);
            }
        }
        assert_eq!(turns(&house) - before, 1);
        let other = house.post(&ask("say something else"), &[(KEY, key)]).await;
        assert_eq!(other.status(), 422);
        assert_eq!(body(other).await["error"]["code"], "idempotency_key_reused");
        assert_eq!(turns(&house) - before, 1);
    }
    assert_eq!(house.post(&ask("say hel|lo"), &[(KEY, "another")]).await.status(), 200);
    assert_eq!(turns(&house), 3);
    let long = "k".repeat(256);
    for bad in ["", &long] {
        let answer = house.post(&ask("say x"), &[(KEY, bad)]).await;
        assert_eq!(body(answer).await["error"]["code"], "invalid_idempotency_key", "{bad:?}");
    }
}

#[tokio::test]
async fn requests_under_one_key_at_once_share_one_turn() {
    let house = House::new().await;
    let asking: Vec<_> = (0..5)
        .map(|_| {
            let call = Call::post("/v1/chat/completions").json(&ask("wait")).unwrap().header(KEY, "k");
            let owner = house.owner();
            tokio::spawn(async move { owner.send(call, LIMIT).await.unwrap() })
        })
        .collect();
    until("the turn runs", || house.runner.running() == 1).await;
    house.runner.release.notify_one();
    let mut ids = Vec::new();
    for asked in asking {
        let answer = asked.await.unwrap();
        assert_eq!(answer.status(), 200);
        ids.push(body(answer).await["id"].clone());
    }
    ids.dedup();
    assert_eq!((ids.len(), turns(&house)), (1, 1));
}

#[tokio::test]
async fn a_client_with_a_key_that_goes_away_finds_its_answer_when_it_comes_back() {
    let house = House::new().await;
    for (asked, key) in [(ask("wait"), "whole"), (ask_streamed("wait-streaming"), "streamed")] {
        let owner = house.owner();
        let call = Call::post("/v1/chat/completions").json(&asked).unwrap().header(KEY, key);
        let asking = tokio::spawn(async move { drop(owner.send(call, LIMIT).await) });
        until("the turn runs", || house.runner.running() == 1).await;
        asking.abort();
        drop(asking.await);
        house.runner.release.notify_one();
        let answer = house.post(&asked, &[(KEY, key)]).await;
        assert!(whole_text(answer).await.contains("released"));
    }
    assert_eq!(turns(&house), 2);
    assert_eq!(house.runner.cancelled.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_key_is_free_again_after_a_failure_that_did_nothing_and_stands_for_one_that_did() {
    let house = House::new().await;
    for (words, status, runs) in [("fail 500", 502, 2), ("broke 500", 424, 1)] {
        let before = turns(&house);
        for _ in 0..2 {
            let answer = house.post(&ask(words), &[(KEY, words)]).await;
            assert_eq!(answer.status(), status, "{words}");
            assert_eq!(body(answer).await["error"]["code"], "provider_failed");
        }
        assert_eq!(turns(&house) - before, runs, "{words}");
    }
}

#[tokio::test]
async fn a_message_in_few_words_is_said_once_under_a_key() {
    let house = House::new().await;
    let say = |prompt: &str| {
        let said = json!({"agent": "coder", "prompt": prompt});
        Call::post("/api/message").json(&said).unwrap().header(KEY, "k")
    };
    let first = body(house.owner().send(say("say hello"), LIMIT).await.unwrap()).await;
    let second = house.owner().send(say("say hello"), LIMIT).await.unwrap();
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!((body(second).await, turns(&house)), (first, 1));
    let other = house.owner().send(say("say another"), LIMIT).await.unwrap();
    assert_eq!((other.status(), turns(&house)), (422, 1));
}

#[tokio::test]
async fn a_message_is_posted_once_under_a_key() {
    let house = House::new().await;
    let channel = json!({"id": "dev", "topic": "work", "members": ["coder"]});
    let made = Call::post("/api/channels").json(&channel).unwrap();
    assert_eq!(house.owner().send(made, LIMIT).await.unwrap().status(), 201);
    let post = |text: &str, key: &str| {
        let said = json!({"content": text, "as": "ann"});
        Call::post("/api/channels/dev/messages").json(&said).unwrap().header(KEY, key)
    };
    let posts = (0..8).map(|_| {
        let (owner, call) = (house.owner(), post("ship it", "k"));
        tokio::spawn(async move { owner.send(call, LIMIT).await.unwrap() })
    });
    let mut numbers = Vec::new();
    for posted in posts.collect::<Vec<_>>() {
        let answer = posted.await.unwrap();
        assert_eq!(answer.status(), 201);
        numbers.push(body(answer).await["seq"].clone());
    }
    numbers.dedup();
    assert_eq!(numbers.len(), 1);
    assert_eq!(house.owner().send(post("stop it", "k"), LIMIT).await.unwrap().status(), 422);
    assert_eq!(house.owner().send(post("ship it", "l"), LIMIT).await.unwrap().status(), 201);
    let read = Call::get("/api/channels/dev/messages");
    let read = body(house.owner().send(read, LIMIT).await.unwrap()).await;
    let said = read["messages"].as_array().unwrap().iter().filter(|said| said["content"] == "ship it");
    assert_eq!(said.count(), 2, "one for each key: {read}");
}
