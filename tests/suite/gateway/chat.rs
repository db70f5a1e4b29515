//! Chat completions, as OpenAI's clients use them.

use std::sync::Arc;

use flock::provider::{Block, Role};
use flock::supervise::gateway_client::Answer;
use flock::swarm::Actor;
use flock::swarm::channel::ChannelSpec;
use serde_json::{Value, json};

use super::house::{House, LIMIT, ask, ask_streamed, until};

/// All events of a streamed answer as (name, data).
async fn events(answer: Answer) -> Vec<(String, String)> {
    let mut events = answer.events();
    let mut all = Vec::new();
    while let Some(event) = events.next(LIMIT).await.unwrap() {
        all.push((event.name, event.data));
    }
    all
}

fn content(events: &[(String, String)]) -> String {
    events
        .iter()
        .filter(|(name, data)| name.is_empty() && data != "[DONE]")
        .map(|(_, data)| serde_json::from_str::<Value>(data).unwrap())
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn an_answer_has_openais_shape() {
    let house = House::new().await;
    let answer = house.chat("say hel|lo").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let session = answer.header("x-flock-session-key").unwrap().to_owned();
    let body: Value = answer.json(LIMIT).await.unwrap();
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(body["object"], "chat.completion");
    assert!(body["created"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(body["model"], "coder");
    assert_eq!(
        body["choices"][0]["message"],
        json!({"role": "assistant", "content": "hello", "refusal": null})
    );
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!(body["usage"]["prompt_tokens"], 12);
    assert_eq!(body["usage"]["completion_tokens"], 5);
    assert_eq!(body["usage"]["total_tokens"], 17);
    assert!(session.starts_with("agent:coder:flock:request:"), "{session}");
}

#[tokio::test]
async fn a_streamed_answer_has_openais_shape() {
    let house = House::new().await;
    let mut body = ask_streamed("say hel|lo");
    body["stream_options"] = json!({"include_usage": true});
    let answer = house.post(&body, &[]).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.header("content-type").unwrap().starts_with("text/event-stream"));
    let events = events(answer).await;
    assert_eq!(events.last().unwrap().1, "[DONE]");
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks.iter().all(|c| c["id"] == chunks[0]["id"] && c["object"] == "chat.completion.chunk"));
    assert_eq!(content(&events), "hello");
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[chunks.len() - 1]["usage"]["total_tokens"], 17);
}

#[tokio::test]
async fn tool_activity_is_told_to_who_asks_for_it() {
    let house = House::new().await;
    let plain = events(house.post(&ask_streamed("tool"), &[]).await).await;
    assert!(plain.iter().all(|(name, _)| name.is_empty()));
    assert_eq!(content(&plain), "looking\n\nfound");
    let told = events(house.post(&ask_streamed("tool"), &[("x-flock-activity", "1")]).await).await;
    let names: Vec<&str> =
        told.iter().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty()).collect();
    assert_eq!(names, ["tool.started", "tool.ended"]);
}

#[tokio::test]
async fn the_agent_is_named_in_several_ways_that_must_agree() {
    let house = House::new().await;
    for (model, header, status) in [
        ("coder", None, 200),
        ("flock/coder", None, 200),
        ("openclaw/coder", None, 200),
        ("coder", Some("coder"), 200),
        ("openclaw", Some("coder"), 200),
        ("coder", Some("tester"), 400),
        ("nobody", None, 404),
        ("../../etc/passwd", None, 404),
        ("", None, 404),
    ] {
        let mut body = ask("hi");
        body["model"] = model.into();
        let headers: Vec<(&'static str, &str)> =
            header.map(|agent| ("x-openclaw-agent-id", agent)).into_iter().collect();
        let answer = house.post(&body, &headers).await;
        assert_eq!(answer.status(), status, "{model} {header:?}");
        let body: Value = answer.json(LIMIT).await.unwrap();
        if status == 404 {
            assert_eq!(body["error"]["code"], "model_not_found");
            assert_eq!(body["error"]["type"], "invalid_request_error");
        } else if status == 200 {
            assert_eq!(body["model"], model, "as the client named it");
        }
    }
}

#[tokio::test]
async fn a_channels_session_is_one_in_upper_and_lower_case() {
    let house = House::new().await;
    let wanted = ChannelSpec {
        id: "Proj".parse().unwrap(),
        topic: "work".into(),
        members: vec!["coder".parse().unwrap()],
        message: None,
    };
    house.gateway.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
    for peer in ["Proj", "proj", "PROJ"] {
        let key = format!("agent:coder:flock:channel:{peer}");
        let answer = house.post(&ask("hi"), &[("x-openclaw-session-key", &key)]).await;
        assert_eq!(answer.header("x-flock-session-key"), Some("agent:coder:flock:channel:Proj"), "{peer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_that_differ_by_case_only_and_begin_at_the_same_moment_are_one() {
    let house = Arc::new(House::new().await);
    for round in 0..20 {
        let barrier = Arc::new(tokio::sync::Barrier::new(4));
        let asked = ["Proj", "proj", "PROJ", "pRoJ"].map(|name| {
            let (house, barrier) = (Arc::clone(&house), Arc::clone(&barrier));
            tokio::spawn(async move {
                let key = format!("agent:coder:flock:main:{name}-{round}");
                barrier.wait().await;
                let answer = house.post(&ask("hi"), &[("x-openclaw-session-key", &key)]).await;
                answer.header("x-flock-session-key").unwrap().to_owned()
            })
        });
        let mut keys = Vec::new();
        for one in asked {
            keys.push(one.await.unwrap());
        }
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }
}

#[tokio::test]
async fn with_a_session_key_only_the_last_message_is_new() {
    let house = House::new().await;
    let body = json!({"model": "coder", "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": "older"},
        {"role": "user", "content": "new"},
    ]});
    let key = "agent:coder:flock:main:ann";
    let answer = house.post(&body, &[("x-openclaw-session-key", key)]).await;
    assert_eq!(answer.header("x-flock-session-key"), Some(key));
    let request = house.runner.last();
    assert_eq!(request.session.as_str(), key);
    assert_eq!(request.input.len(), 1);
    assert_eq!(request.input[0].joined_text(), "new");
    assert_eq!(request.context, ["be brief"]);

    assert_eq!(house.post(&body, &[]).await.status(), 200);
    let request = house.runner.last();
    let roles: Vec<Role> = request.input.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    assert_eq!(request.session.kind(), flock::id::SessionKind::Request);

    for (key, code) in [
        ("agent:tester:flock:main:ann", "session_of_another_agent"),
        ("main", "invalid_session_key"),
        ("agent:coder:flock:main:../x y", "invalid_session_key"),
    ] {
        let answer = house.post(&body, &[("x-openclaw-session-key", key)]).await;
        assert_eq!(answer.status(), 400, "{key}");
        let body: Value = answer.json(LIMIT).await.unwrap();
        assert_eq!(body["error"]["code"], code);
    }
}

#[tokio::test]
async fn images_come_through_and_tools_do_not() {
    let house = House::new().await;
    let mut body = ask("x");
    body["messages"][0]["content"] = json!([
        {"type": "text", "text": "what is it"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]);
    assert_eq!(house.post(&body, &[]).await.status(), 200);
    let request = house.runner.last();
    assert!(
        matches!(&request.input[0].content[1], Block::Image { media_type, .. } if media_type == "image/png")
    );

    let mut body = ask("x");
    body["tools"] = json!([{"type": "function", "function": {"name": "f"}}]);
    assert_eq!(house.post(&body, &[]).await.status(), 200);
    assert!(house.runner.last().client.is_used());
    body["tools"] = json!([{"type": "web_search"}]);
    let answer = house.post(&body, &[]).await;
    assert_eq!(answer.status(), 400);
    let body: Value = answer.json(LIMIT).await.unwrap();
    assert_eq!(
        (&body["error"]["code"], &body["error"]["param"]),
        (&json!("parameter_not_supported"), &json!("tools"))
    );
}

#[tokio::test]
async fn failures_have_sensible_statuses_and_keep_their_causes_here() {
    let house = House::new().await;
    for (word, status, code) in [
        ("401", 502, "provider_unauthorised"),
        ("400", 502, "provider_rejected"),
        ("overflow", 400, "context_length_exceeded"),
        ("429", 429, "provider_limited"),
        ("500", 502, "provider_failed"),
        ("timeout", 504, "provider_timed_out"),
        ("garbled", 502, "provider_garbled"),
        ("unconfigured", 424, "provider_not_configured"),
        ("disk", 500, "internal"),
    ] {
        for body in [ask(&format!("fail {word}")), ask_streamed(&format!("fail {word}"))] {
            let answer = house.post(&body, &[]).await;
            assert_eq!(answer.status(), status, "{word}");
            assert_eq!(answer.header("x-should-retry"), Some("false"), "the turn is in the transcript");
            if word == "429" {
                assert_eq!(answer.header("retry-after"), Some("7"));
            }
            let body: Value = answer.json(LIMIT).await.unwrap();
            assert_eq!(body["error"]["code"], code, "{word}");
            assert!(!body.to_string().contains("secret"), "{body}");
            if word == "overflow" {
                let text = body["error"]["message"].as_str().unwrap();
                assert!(text.starts_with("This model's maximum context length is 8192 tokens."), "{text}");
            }
            if word == "unconfigured" {
                assert!(body["error"]["hint"].as_str().unwrap().starts_with("flock config set"), "{body}");
            }
        }
    }
    let answer = house.chat("panic").await;
    assert_eq!(answer.status(), 500);
    assert_eq!(house.chat("say still|here").await.status(), 200);
}

#[tokio::test]
async fn a_failure_after_the_first_word_is_told_in_the_stream() {
    let house = House::new().await;
    let answer = house.post(&ask_streamed("half"), &[]).await;
    assert_eq!(answer.status(), 200);
    let events = events(answer).await;
    assert_eq!(events.last().unwrap().1, "[DONE]");
    let error: Value = serde_json::from_str(&events[events.len() - 2].1).unwrap();
    assert_eq!(error["error"]["code"], "provider_failed");
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_turn() {
    let house = House::new().await;
    for (body, expected) in [(ask_streamed("wait-streaming"), 1), (ask("wait"), 2)] {
        let is_streamed = body["stream"] == true;
        if is_streamed {
            let answer = house.post(&body, &[]).await;
            assert_eq!(house.runner.running(), 1);
            drop(answer);
        } else {
            let owner = house.owner();
            let call =
                flock::supervise::gateway_client::Call::post("/v1/chat/completions").json(&body).unwrap();
            let asking = tokio::spawn(async move { owner.send(call, LIMIT).await.map(drop) });
            until("the turn runs", || house.runner.running() == 1).await;
            asking.abort();
        }
        let cancelled = || house.runner.cancelled.load(std::sync::atomic::Ordering::SeqCst);
        until("the turn is cancelled", || cancelled() == expected && house.runner.running() == 0).await;
    }
    until("nothing is left in the list", || house.gateway.driver.list().is_empty()).await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_given_up() {
    let house = House::new().await;
    let answer = house.post(&ask_streamed("flood"), &[]).await;
    let cancelled = || house.runner.cancelled.load(std::sync::atomic::Ordering::SeqCst);
    until("the turn is cancelled", || cancelled() == 1).await;
    drop(answer);
}
