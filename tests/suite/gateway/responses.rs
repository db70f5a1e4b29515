//! The Responses API, with a gateway of its own process and a model that follows a script.

use flock::supervise::gateway_client::{Call, Client};
use serde_json::{Value, json};

use super::house::LIMIT;
use crate::support::home::TempHome;
use crate::team::stage::{Served, add, transcripts};

struct Scene {
    home: TempHome,
    owner: Client,
    _served: Served,
}

impl Scene {
    async fn new() -> Self {
        // The commands wait for threads of their own.
        tokio::task::spawn_blocking(|| {
            let home = TempHome::new().init();
            let replies = json!([
                {"when": "look around", "steps": [
                    {"say": "I look.", "calls": [{"name": "flock_status", "arguments": {}}]}, {"say": "seen"}]},
                {"when": "count them", "steps": [{"say": "no"}]},
                {"when": "does not have the form", "steps": [{"say": "{\"n\": 3}"}]},
                {"when": "break", "steps": [{"error": {"status": 400, "message": "no"}}]},
                {"when": "second", "steps": [{"say": "two"}]},
                {"steps": [{"say": "hello"}]},
            ]);
            add(&home, "coder", &replies);
            add(&home, "tester", &replies);
            let served = Served::start(&home);
            let owner = home.owner();
            Self { home, owner, _served: served }
        })
        .await
        .unwrap()
    }

    async fn send(&self, client: &Client, call: Call) -> (u16, Value) {
        let answer = client.send(call, LIMIT).await.unwrap();
        let status = answer.status();
        (status, answer.json(LIMIT).await.unwrap())
    }

    async fn create_as(&self, client: &Client, more: Value) -> (u16, Value) {
        let mut body = json!({"model": "coder", "input": "hi"});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        self.send(client, Call::post("/v1/responses").json(&body).unwrap()).await
    }

    async fn create(&self, more: Value) -> Value {
        let (status, body) = self.create_as(&self.owner, more).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    async fn fails(&self, more: Value, status: u16, code: &str) {
        let (found, body) = self.create_as(&self.owner, more).await;
        assert_eq!((found, body["error"]["code"].as_str()), (status, Some(code)), "{body}");
    }

    /// A client with a token for `coder`.
    async fn client(&self, name: &str) -> Client {
        let args = ["token", "add", name, "--agents", "coder", "--rights", "chat", "--json"];
        let made = self.home.flock(args).ok().json();
        Client::new(self.home.port()).with_token(made["token"].as_str().unwrap())
    }
}

fn text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    items.filter_map(|item| item["content"][0]["text"].as_str()).collect::<Vec<_>>().join("|")
}

#[tokio::test]
async fn a_response_continues_another_one_and_only_the_newest() {
    let scene = Scene::new().await;
    let first = scene.create(json!({"metadata": {"case": "7"}, "user": "ann"})).await;
    assert_eq!(
        (text(&first), &first["status"], &first["store"]),
        ("hello".into(), &json!("completed"), &json!(true))
    );
    assert_eq!((&first["metadata"], &first["user"]), (&json!({"case": "7"}), &json!("ann")));
    let second = scene.create(json!({"input": "second", "previous_response_id": first["id"]})).await;
    assert_eq!((text(&second), &second["previous_response_id"]), ("two".into(), &first["id"]));
    // Both turns are in one conversation.
    let kept = transcripts(&scene.home, "coder");
    assert!(kept.iter().any(|kept| kept.contains("hello") && kept.contains("second")), "{kept:?}");
    let again = json!({"previous_response_id": first["id"]});
    scene.fails(again.clone(), 400, "response_already_continued").await;
    // To delete the newer one does not take its turn out of the session.
    let path = format!("/v1/responses/{}", second["id"].as_str().unwrap());
    assert_eq!(scene.send(&scene.owner, Call::get(&path)).await, (200, second.clone()));
    assert_eq!(scene.send(&scene.owner, Call::delete(&path)).await.1["deleted"], true);
    assert_eq!(scene.send(&scene.owner, Call::get(&path)).await.0, 404);
    scene.fails(again, 400, "response_already_continued").await;
    for wrong in [json!("resp_x"), second["id"].clone(), json!("resp_00000000-0000-0000-0000-000000000000")] {
        scene.fails(json!({"previous_response_id": wrong}), 400, "previous_response_not_found").await;
    }
    let of_another = json!({"model": "tester", "previous_response_id": scene.create(json!({})).await["id"]});
    scene.fails(of_another, 400, "agent_mismatch").await;
}

#[tokio::test]
async fn a_response_that_is_not_stored_leaves_no_conversation() {
    let scene = Scene::new().await;
    let planted = "a-secret-that-is-not-kept";
    let first = scene.create(json!({"input": planted, "store": false})).await;
    assert_eq!((text(&first), &first["store"]), ("hello".into(), &json!(false)));
    assert!(!transcripts(&scene.home, "coder").iter().any(|kept| kept.contains(planted)));
    let sessions = scene.send(&scene.owner, Call::get("/api/sessions?agent=coder")).await.1;
    assert_eq!(sessions["sessions"], json!([]), "{sessions}");
    scene.fails(json!({"previous_response_id": first["id"]}), 400, "previous_response_not_found").await;
    // Nor does one that failed.
    let (status, _) = scene.create_as(&scene.owner, json!({"input": "break", "store": false})).await;
    assert_ne!(status, 200);
    let sessions = scene.send(&scene.owner, Call::get("/api/sessions?agent=coder")).await.1;
    assert_eq!(sessions["sessions"], json!([]), "{sessions}");
    // The audit still has that it was asked.
    let audit = scene.send(&scene.owner, Call::get("/api/audit")).await.1.to_string();
    assert!(audit.contains("chat.turn") && !audit.contains(planted), "{audit}");
    let key = "agent:coder:flock:main:ann";
    let call =
        Call::post("/v1/responses").json(&json!({"model": "coder", "input": "x", "store": false})).unwrap();
    let (status, body) = scene.send(&scene.owner, call.header("x-openclaw-session-key", key)).await;
    assert_eq!((status, &body["error"]["param"]), (400, &json!("store")), "{body}");
}

#[tokio::test]
async fn calls_of_the_agents_own_tools_are_items_that_no_client_runs() {
    let scene = Scene::new().await;
    let body = scene.create(json!({"input": "look around"})).await;
    let items = body["output"].as_array().unwrap();
    let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "mcp_call", "message"], "{body}");
    assert_eq!((&items[1]["name"], &items[1]["status"]), (&json!("flock_status"), &json!("completed")));
    assert_eq!(text(&body), "I look.|seen");
    // A client that keeps the conversation itself sends all of it back.
    let mut input = items.clone();
    input.push(json!({"role": "user", "content": "second"}));
    assert_eq!(text(&scene.create(json!({"input": input, "store": false})).await), "two");
}

#[tokio::test]
async fn the_format_of_a_response_is_checked_as_that_of_a_completion() {
    let scene = Scene::new().await;
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let format = json!({"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": true}});
    let first = scene.create(json!({"input": "count them", "text": format})).await;
    assert_eq!((text(&first), &first["text"]), ("{\"n\": 3}".into(), &format));
    // The second attempt of the agent is no response of its own.
    assert_eq!(
        text(&scene.create(json!({"input": "second", "previous_response_id": first["id"]})).await),
        "two"
    );
}

#[tokio::test]
async fn a_client_reads_and_continues_only_its_own_responses() {
    let scene = Scene::new().await;
    let (ann, bob) = (scene.client("ann").await, scene.client("bob").await);
    let (status, first) = scene.create_as(&ann, json!({})).await;
    assert_eq!(status, 200, "{first}");
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    assert_eq!(scene.send(&ann, Call::get(&path)).await.0, 200);
    for call in [Call::get(&path), Call::delete(&path)] {
        let (status, body) = scene.send(&bob, call).await;
        assert_eq!((status, &body["error"]["code"]), (404, &json!("response_not_found")));
    }
    let continued = json!({"previous_response_id": first["id"]});
    let (status, body) = scene.create_as(&bob, continued.clone()).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("previous_response_not_found")));
    assert_eq!(scene.create_as(&ann, continued).await.0, 200);
    assert_eq!(scene.create_as(&ann, json!({"model": "tester"})).await.0, 403);
}

#[tokio::test]
async fn a_repeated_request_gets_the_same_response() {
    let scene = Scene::new().await;
    let send = async |stream: bool| {
        let body = json!({"model": "coder", "input": "look around", "stream": stream});
        let name = if stream { "streamed" } else { "whole" };
        let call = Call::post("/v1/responses").json(&body).unwrap().header("idempotency-key", name);
        let answer = scene.owner.send(call, LIMIT).await.unwrap();
        assert_eq!(answer.status(), 200);
        if !stream {
            return answer.json(LIMIT).await.unwrap();
        }
        let (mut events, mut last) = (answer.events(), Value::Null);
        while let Some(event) = events.next(LIMIT).await.unwrap() {
            last = serde_json::from_str(&event.data).unwrap();
        }
        assert_eq!(last["type"], "response.completed");
        last["response"].clone()
    };
    for stream in [false, true] {
        assert_eq!(send(stream).await, send(stream).await);
    }
}

#[tokio::test]
async fn responses_can_be_switched_off() {
    let scene = Scene::new().await;
    scene.home.flock(["config", "set", "gateway.http.endpoints.responses.enabled", "false"]).ok();
    scene.fails(json!({}), 404, "endpoint_disabled").await;
}
