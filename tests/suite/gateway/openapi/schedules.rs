//! The routes of schedules.

use serde_json::{Value, json};

use super::{NOTHING, Scene};

/// Adds a schedule for the channel `calm`, uses it, and removes it.
pub(super) async fn use_schedules(scene: &Scene) {
    let new = |to: &str, name: Value| json!({"to": to, "text": "look", "cron": "0 9 * * 1-5", "tz": "UTC", "name": name, "by": "ann"});
    let added = scene.post("/api/schedules", new("calm", NOTHING)).await;
    assert_eq!(added["schedule"]["name"], "calm-1");
    assert_eq!(added["schedule"]["createdBy"], "human:ann");
    scene
        .post(
            "/api/schedules",
            json!({"to": "@coder", "text": "x", "every": "1d", "name": "daily", "missed": "skip"}),
        )
        .await;
    scene.fails("POST", "/api/schedules", new("calm", json!("daily")), 409, "conflict").await;
    scene.fails("POST", "/api/schedules", new("#nowhere", NOTHING), 404, "channel_not_found").await;
    scene.fails("POST", "/api/schedules", new("@nobody", NOTHING), 404, "agent_not_found").await;
    scene.fails("POST", "/api/schedules", json!({"to": "calm", "text": "x"}), 400, "usage").await;
    scene.fails("POST", "/api/schedules", json!({"to": "calm"}), 400, "invalid_body").await;
    assert_eq!(scene.get("/api/schedules").await["schedules"].as_array().unwrap().len(), 2);
    let paused =
        scene.document.done(&scene.owner, "PUT", "/api/schedules/calm-1", &json!({"paused": true})).await;
    assert_eq!(paused["schedule"]["state"], "paused");
    let budget = json!({"tokens": 900, "costMicros": null, "by": "ann"});
    let limited = scene.document.done(&scene.owner, "PUT", "/api/schedules/calm-1", &budget).await;
    assert_eq!((&limited["schedule"]["tokens"], &limited["schedule"]["costMicros"]), (&json!(900), &NOTHING));
    assert_eq!(limited["schedule"]["state"], "paused", "what is left out stays as it is");
    scene.fails("PUT", "/api/schedules/calm-1", json!({}), 400, "usage").await;
    scene.fails("PUT", "/api/schedules/none", json!({"paused": true}), 404, "schedule_not_found").await;
    scene.post("/api/schedules/calm-1/run", json!({"by": "ann"})).await;
    scene.fails("POST", "/api/schedules/none/run", json!({}), 404, "schedule_not_found").await;
    let history = scene.get("/api/schedules/calm-1/history?limit=1").await;
    assert_eq!(history["history"][0]["cause"], "person");
    assert_eq!(scene.get("/api/schedules/calm-1").await["schedule"]["last"]["outcome"], "ran");
    scene.fails("GET", "/api/schedules/NOT", NOTHING, 400, "invalid_path").await;
    for name in ["calm-1", "daily"] {
        assert_eq!(scene.delete(&format!("/api/schedules/{name}?by=ann")).await["removed"], name);
    }
    scene.fails("DELETE", "/api/schedules/daily", NOTHING, 404, "schedule_not_found").await;
}
