//! The routes of webhooks.

use flock::supervise::gateway_client::Client;
use serde_json::{Value, json};

use super::{NOTHING, Scene};

/// GitLab's token needs no computing.
const TOKEN: &str = "a token of 16 or more";

/// Adds a webhook for the channel `calm`, uses it, and removes it.
pub(super) async fn use_hooks(scene: &Scene) {
    let new = json!({"name": "ci", "channel": "calm", "kind": "gitlab", "secret": TOKEN, "by": "ann"});
    let added = scene.post("/api/hooks", new.clone()).await;
    assert_eq!((&added["hook"]["path"], &added["secret"]), (&json!("/hooks/ci"), &NOTHING));
    let made =
        scene.post("/api/hooks", json!({"name": "alerts", "channel": "calm", "kind": "generic"})).await;
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    scene.fails("POST", "/api/hooks", new, 409, "conflict").await;
    let nowhere = json!({"name": "x", "channel": "nowhere", "kind": "github"});
    scene.fails("POST", "/api/hooks", nowhere, 404, "channel_not_found").await;
    let broken = json!({"name": "x", "channel": "calm", "kind": "github", "template": "{% if %}"});
    scene.fails("POST", "/api/hooks", broken, 400, "usage").await;
    scene.fails("POST", "/api/hooks", json!({"name": "x"}), 400, "invalid_body").await;
    assert_eq!(scene.get("/api/hooks").await["hooks"].as_array().unwrap().len(), 2);

    // A sender has no token, only what it signs with.
    let sender = Client::new(scene.home.port());
    let deliver = async |token: &str, body: Value| {
        scene.document.ask(&sender, "POST", "/hooks/ci", &body, &[("x-gitlab-token", token)]).await
    };
    let push = || json!({"object_kind": "push"});
    assert_eq!(deliver(TOKEN, push()).await, (202, NOTHING));
    assert_eq!(deliver(TOKEN, push()).await, (200, json!({"status": "duplicate"})));
    let (status, refused) = deliver("wrong", push()).await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("unsigned")));

    let preview =
        scene.post("/api/hooks/ci/preview", json!({"event": "Push Hook", "payload": {"ref": "main"}})).await;
    assert!(preview["message"].as_str().unwrap().contains("| ref: main"), "{preview}");
    let paused = scene.document.done(&scene.owner, "PUT", "/api/hooks/ci", &json!({"paused": true})).await;
    assert_eq!(paused["hook"]["state"], "paused");
    let (status, refused) = deliver(TOKEN, json!({})).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("webhook_paused")));
    scene.fails("PUT", "/api/hooks/none", json!({"paused": true}), 404, "webhook_not_found").await;
    let history = scene.get("/api/hooks/ci/history?limit=1").await;
    assert_eq!(history["history"][0]["outcome"], "posted");
    assert_eq!(scene.get("/api/hooks/ci").await["hook"]["refused"]["count"], 2);
    scene.fails("GET", "/api/hooks/NOT", NOTHING, 400, "invalid_path").await;
    for name in ["alerts", "ci"] {
        assert_eq!(scene.delete(&format!("/api/hooks/{name}?by=ann")).await["removed"], name);
    }
    scene.fails("DELETE", "/api/hooks/ci", NOTHING, 404, "webhook_not_found").await;
}
